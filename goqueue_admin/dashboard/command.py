"""`goqueue-admin dashboard`: the broker in a terminal."""

import gc
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.console import exits, terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.session import Session, session_flags
from goqueue.quantities import parse_duration

if TYPE_CHECKING:
    from goqueue_admin.dashboard.app import Dashboard

_EVERY_SECONDS_MIN = 0.2


@session_flags
def dashboard(
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer nothing that changes anything.")] = False,
    theme: Annotated[
        str, typer.Option(metavar="NAME", help="The colours: goqueue-dark, goqueue-light, …")
    ] = "goqueue-dark",
    every: Annotated[str, typer.Option(metavar="DURATION", help="How often the broker is asked.")] = "2s",
    *,
    session: Session,
) -> None:
    """Show the broker on a screen that is always current.

    \b
      goqueue-admin dashboard
      goqueue-admin dashboard --read-only --every 5s
      goqueue-admin dashboard --server http://broker:8080 --theme goqueue-light

    ? shows the keys, : goes to a screen, q leaves. It needs a terminal.
    """
    seconds = _seconds(every)
    if not terminal.may_ask() or not sys.stderr.isatty():  # Textual draws on stderr
        raise UsageInvalid("the dashboard needs a terminal", hint="`goqueue-admin doctor` tells the same in lines")
    app = _app(session, read_only, theme, seconds)
    run(app)
    if app.return_code:
        raise typer.Exit(exits.OUR_BUG)


def run(app: "Dashboard") -> None:
    """Until somebody leaves it. What is loaded by now stays: to collect it would hold the screen for 70 ms."""
    gc.freeze()
    app.run()


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageInvalid(f"--every: {error}") from None
    if seconds < _EVERY_SECONDS_MIN:
        raise UsageInvalid(f"--every is {text}, and must be at least {_EVERY_SECONDS_MIN:g}s")
    return seconds


def _app(session: Session, read_only: bool, theme: str, every: float) -> "Dashboard":
    """What is loaded here takes longer than all other commands do."""
    from goqueue_admin.dashboard.app import Dashboard  # noqa: PLC0415
    from goqueue_admin.dashboard.service import connect  # noqa: PLC0415
    from goqueue_admin.dashboard.themes import known  # noqa: PLC0415

    if theme not in known():
        raise UsageInvalid(f"there is no theme {theme!r}", hint=f"known are {', '.join(known())}")
    service = connect(session.server, session.timeout, session.api_key)
    return Dashboard(
        service,
        context=session.context or "",
        protected=session.protected,
        read_only=read_only,
        theme=theme,
        every=every,
    )
