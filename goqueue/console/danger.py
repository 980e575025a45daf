"""Before something is lost: who may be asked is asked, and everybody else must have said so.

In a protected context a y is not enough: there the name of what goes must be typed.
"""

from typing import Annotated

import typer

from goqueue.console import exits, terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.session import Session
from goqueue.quantities import quoted

YesFlag = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
ConfirmFlag = Annotated[
    str | None,
    typer.Option("--confirm", metavar="NAME", help="Do it without asking, in a protected context too: NAME again."),
]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


def agree(session: Session, what: str, *, name: str, yes: bool, confirm: str | None) -> None:
    """Return when `what`, such as "delete topic orders with all messages", may be done to `name`.

    Several names are one text, with spaces or commas between them.
    """
    if confirm is not None:
        _check_confirmed(confirm, name)
        return
    if yes and not session.protected:
        return
    if not terminal.may_ask():
        raise _unasked(session, what, name)
    if session.protected:
        question = f"context {session.guard} is protected; to {what}, type {name}: "
        agreed = _words(terminal.ask_text(question)) == _words(name)
    else:
        agreed = terminal.ask(f"{what}?")
    if not agreed:
        terminal.say("nothing was changed")
        raise typer.Exit(exits.FAILED)


def _check_confirmed(confirm: str, name: str) -> None:
    if _words(confirm) != _words(name):
        raise UsageInvalid(f"--confirm is {quoted(confirm)}, and this is about {name}", hint=_confirming(name))


def _unasked(session: Session, what: str, name: str) -> UsageInvalid:
    sentence = f"nobody can be asked whether to {what}"
    if session.protected:
        return UsageInvalid(f"{sentence}, and context {session.guard} is protected", hint=_confirming(name))
    return UsageInvalid(sentence, hint="`--yes` does it without asking")


def _confirming(name: str) -> str:
    shown = f"'{name}'" if " " in name else name
    return f"`--confirm {shown}` does it without asking"


def _words(names: str) -> set[str]:
    return set(names.replace(",", " ").split())
