"""`goqueue-admin dashboard`: the broker in a terminal."""

import gc
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.session import Session, session_flags
from goqueue.quantities import parse_duration

if TYPE_CHECKING:
    from goqueue_admin.dashboard.app import Dashboard

_EVERY_SECONDS_MIN = 0.2


@session_flags
def dashboard(
    read_only: Annotated[bool, typer.Option("--read-only", help="Hide everything that changes the broker.")] = False,
    theme: Annotated[
        str, typer.Option(metavar="NAME", help="Color theme: goqueue-dark, goqueue-light, …")
    ] = "goqueue-dark",
    every: Annotated[str, typer.Option(metavar="DURATION", help="Refresh interval.")] = "2s",
    *,
    session: Session,
) -> None:
    """Show the broker in a live terminal dashboard.

    \b
      goqueue-admin dashboard
      goqueue-admin dashboard --read-only --every 5s
      goqueue-admin dashboard --server http://broker:8080 --theme goqueue-light

    Press ? for the keys, : to go to a screen, q to quit. Needs a terminal.
    """
    seconds = _seconds(every)
    if not terminal.can_prompt() or not sys.stderr.isatty():  # Textual draws on stderr
        raise UsageInvalid("the dashboard needs a terminal", hint="`goqueue-admin doctor` prints the findings as text")
    app = _app(session, read_only, theme, seconds)
    run(app)
    if app.return_code:
        raise typer.Exit(exit_codes.INTERNAL_ERROR)


def run(app: "Dashboard") -> None:
    """Run the application. Objects loaded so far are frozen: collecting them would block the screen for 70 ms."""
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
    """Load Textual and create the application."""
    from goqueue_admin.dashboard.app import Dashboard  # noqa: PLC0415
    from goqueue_admin.dashboard.broker.service import connect  # noqa: PLC0415
    from goqueue_admin.dashboard.themes import theme_names  # noqa: PLC0415

    if theme not in theme_names():
        raise UsageInvalid(f"there is no theme {theme!r}", hint=f"known are {', '.join(theme_names())}")
    service = connect(session.server, session.timeout, session.api_key, session.tls, session.tenant)
    return Dashboard(
        service,
        context=session.broker_context or "",
        protected=session.protected,
        read_only=read_only,
        theme=theme,
        every=every,
    )
