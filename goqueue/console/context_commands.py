"""`config`: the contexts, and what is in effect. The same commands in every program that speaks to a broker."""

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any

import typer

from goqueue.console import context_file, contexts, terminal
from goqueue.console.choices import Choice, Kind, check_duration
from goqueue.console.contexts import Context, Contexts
from goqueue.console.danger import ConfirmFlag, YesFlag, agree
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.nearest import nearest
from goqueue.console.rows import Column, Output, Row
from goqueue.console.secret import STDIN, Secret
from goqueue.console.session import Session, print_flags, session_flags
from goqueue.quantities import quoted

_Name = Annotated[str, typer.Argument(metavar="CONTEXT", help="The name of the context.")]
_Names = Annotated[list[str], typer.Argument(metavar="CONTEXT...", help="The names of the contexts.")]

_Server = Annotated[str | None, typer.Option("--server", "-s", metavar="URL", help="Where its broker is.")]
_Key = Annotated[str | None, typer.Option("--api-key", metavar="KEY", help="What its broker knows you by.")]
_KeyFile = Annotated[
    str | None,
    typer.Option("--api-key-file", metavar="FILE", help="The file that has the key; - keeps that of stdin."),
]
_Timeout = Annotated[str | None, typer.Option("--timeout", metavar="DURATION", help="How long to wait for its broker.")]
_Print = Annotated[Output | None, typer.Option("--output", "-o", help="How to print what it answers.")]
_Protected = Annotated[
    bool | None, typer.Option("--protected/--no-protected", help="Ask for the name before anything is destroyed.")
]


def _readable(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _name_style(row: Row) -> str:
    return "protected" if row.get("protected") else ""


_CONTEXT = (
    Column("CONTEXT", "name", style=_name_style),
    Column("CURRENT", "current", lambda current: "*" if current else ""),
    Column("SERVER", "server"),
    Column("PROTECTED", "protected", _readable),
    Column("API KEY", "api-key", wide=True),
    Column("KEY FILE", "api-key-file", wide=True),
    Column("TIMEOUT", "timeout", wide=True),
    Column("OUTPUT", "output", wide=True),
)
_RESULT = (Column("CONTEXT", "name"), Column("RESULT", "result"))
_ORIGIN = Column("ORIGIN", "from")


@session_flags
def view(
    show_origin: Annotated[bool, typer.Option("--show-origin", help="Show where each value comes from.")] = False,
    *,
    session: Session,
) -> None:
    """Show what is in effect, and where it comes from.

    \b
      PROGRAM config view
      PROGRAM config view --show-origin
      PROGRAM config view -c production -o json

    A flag is stronger than a variable (GOQUEUE_...), a variable than the context, the context than the default.
    A key is never shown.
    """
    chosen = session.choices
    assert chosen is not None
    path = context_file.path_of(os.environ)
    named = bool(os.environ.get(context_file.VARIABLE))
    file = Choice(path, Kind.ENVIRONMENT, context_file.VARIABLE) if named else Choice(path)
    shield = Choice(True, Kind.CONTEXT, f"context {chosen.guard}") if chosen.guard else Choice(False)
    picked = {
        "file": file,
        "context": chosen.context,
        "server": chosen.server,
        "api-key": chosen.api_key._replace(value=chosen.api_key.value.shown),
        "timeout": chosen.timeout,
        "output": chosen.output,
        "protected": shield,
    }
    rows = [
        {"name": name, "value": choice.value, "origin": str(choice.kind), "from": choice.name}
        for name, choice in picked.items()
    ]

    def style(row: Row) -> str:
        return "protected" if row["name"] == "context" and session.protected else ""

    columns = Column("SETTING", "name"), Column("VALUE", "value", _readable, style=style)
    session.write(rows, (*columns, _ORIGIN) if show_origin else columns)


@print_flags
def list_contexts(*, session: Session) -> None:
    """List the contexts.

    \b
      PROGRAM config list
      PROGRAM config list -o wide
    """
    known = context_file.load(os.environ)
    session.write([_record(known, name) for name in sorted(known.contexts)], _CONTEXT)
    if not known.contexts and session.for_people:
        terminal.say("there are no contexts; `config create NAME --server URL` creates one")


@print_flags
def describe(names: _Names, *, session: Session) -> None:
    """Show all about contexts.

    \b
      PROGRAM config describe production
      PROGRAM config describe local production -o json

    That there is a key is shown, and not the key.
    """
    known = context_file.load(os.environ)
    for name in names:
        known.find(name)
    output = "wide" if session.output == "table" else session.output
    replace(session, output=output).write([_record(known, name) for name in dict.fromkeys(names)], _CONTEXT)


def _value_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `values` by a flag for each key of a context, and check what they are given."""
    signature = inspect.signature(command)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "values"]
    keys = inspect.signature(_pattern).parameters

    @wraps(command)
    def with_values(**given: Any) -> None:
        found = {name: given.pop(name) for name in keys}
        command(**given, values=_checked({name: value for name, value in found.items() if value is not None}))

    with_values.__signature__ = signature.replace(parameters=[*own, *keys.values()])  # type: ignore[attr-defined]
    return with_values


def _pattern(
    *,
    server: _Server = None,
    api_key: _Key = None,
    api_key_file: _KeyFile = None,
    timeout: _Timeout = None,
    output: _Print = None,
    protected: _Protected = None,
) -> None:
    """Its parameters are those of a context."""


@_value_flags
def create(name: _Name, *, values: dict[str, Any]) -> None:
    """Create a context.

    \b
      PROGRAM config create local --server http://127.0.0.1:8080
      PROGRAM config create production -s https://q.example.com --protected
      PROGRAM config create test -s http://test:8080 --api-key-file - < key

    The first becomes the current one. A key that is given as --api-key can be seen by whoever lists processes: a
    file or stdin is better.
    """
    known = context_file.load(os.environ).added(name, Context(**values))
    context_file.save(known)
    terminal.say(f"created context {name}{', the current one' if known.current == name else ''}")


@_value_flags
def edit(
    name: _Name,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="What to leave to the default; more than once.")
    ] = None,
    *,
    values: dict[str, Any],
) -> None:
    """Change a context.

    \b
      PROGRAM config edit production --timeout 1m
      PROGRAM config edit production --no-protected --unset timeout

    What is not named stays as it is.
    """
    known = context_file.load(os.environ)
    known.find(name)
    cleared = {key.replace("-", "_"): getattr(Context(), key.replace("-", "_")) for key in map(_key, unset or ())}
    both = next((key for key in cleared if values.get(key) is not None), None)
    if both is not None:
        raise UsageInvalid(f"{both.replace('_', '-')} is set and unset at once", hint="leave out one of them")
    if not values and not cleared:
        raise UsageInvalid("nothing says what to change", hint=f"write it as in `config edit {name} --timeout 1m`")
    context_file.save(known.changed(name, **{**cleared, **values}))
    terminal.say(f"changed context {name}")


@print_flags
def delete(names: _Names, yes: YesFlag = False, confirm: ConfirmFlag = None, *, session: Session) -> None:
    """Delete contexts, and the keys that they hold.

    \b
      PROGRAM config delete staging
      PROGRAM config delete staging old --yes

    The brokers and what is on them stay as they are.
    """
    known = left = context_file.load(os.environ)
    unique = list(dict.fromkeys(names))
    for name in unique:
        left = left.without(name)
    shield = next((name for name in unique if known.find(name).protected), None)
    what = f"delete context{'s' if len(unique) > 1 else ''} {', '.join(unique)}"
    asking = replace(session, guard=shield)
    agree(asking, what, name=" ".join(unique), yes=yes, confirm=confirm)
    context_file.save(left)
    session.write([{"name": name, "result": "deleted"} for name in unique], _RESULT)
    if known.current in unique:
        terminal.say("no context is the current one now; `config use` chooses one")


def use(name: _Name) -> None:
    """Make a context the current one.

    \b
      PROGRAM config use production

    It is in effect wherever neither -c nor GOQUEUE_CONTEXT names another one.
    """
    context_file.save(context_file.load(os.environ).using(name))
    terminal.say(f"{name} is the current context")


def _record(known: Contexts, name: str) -> dict[str, Any]:
    context = known.find(name)
    return {
        "name": name,
        "current": name == known.current,
        **{key: getattr(context, key.replace("-", "_")) for key in contexts.KEYS},
        "api-key": Secret(context.api_key).shown,
    }


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    """What the flags say, as it may stand in the file: one key at most, and nothing that cannot be used."""
    for name, value in values.items():
        if isinstance(value, str) and (not value or not value.isprintable()):
            raise UsageInvalid(f"--{name.replace('_', '-')} has nothing that can be kept", hint=_EDIT)
    if "api_key" in values and "api_key_file" in values:
        raise UsageInvalid("--api-key and --api-key-file are two keys", hint="leave out one of them")
    if values.get("api_key_file") == STDIN:
        values = {**values, "api_key": Secret(file=STDIN).read(), "api_key_file": None}
    elif "api_key" in values or "api_key_file" in values:
        values = {"api_key": None, "api_key_file": None, **values}
    if values.get("api_key") is not None:
        from goqueue.client.attempts import checked_key  # noqa: PLC0415 - as below

        with doing("use that key"):
            checked_key(values["api_key"])
    if "server" in values:
        from goqueue.client import address  # noqa: PLC0415 - the others need nothing of the client

        with doing("use that server"):
            address.parse(values["server"])
    if "timeout" in values:
        check_duration(values["timeout"], "--timeout")
    return values


_EDIT = "`config edit NAME --unset KEY` leaves a key to the default"


def _key(text: str) -> str:
    if text in contexts.KEYS:
        return text
    near = nearest(text.replace("_", "-"), contexts.KEYS)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(contexts.KEYS)}"
    raise UsageInvalid(f"--unset: a context has no {quoted(text)}", hint=hint)
