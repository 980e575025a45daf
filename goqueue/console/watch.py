"""Looking again and again: a table that is redrawn in place, or a line for each change where nobody watches."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Annotated

import typer

from goqueue.console import exits, terminal
from goqueue.console.changes import Changes
from goqueue.console.failure import Refusal
from goqueue.console.feed import Feed
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, Row
from goqueue.console.screen import Screen
from goqueue.console.session import Session
from goqueue.errors import GoQueueError, RequestTimedOut, TransientError
from goqueue.quantities import format_duration, parse_duration

_PATIENCE_SECONDS = 1.0
"""How long an answer may take before the screen says that it is waited for."""

_EVERY_SECONDS_MIN = 0.1


def _interval(text: str | float) -> float:
    try:
        seconds = parse_duration(str(text))
    except ValueError as error:
        raise UsageInvalid(f"--every: {error}") from None
    if seconds < _EVERY_SECONDS_MIN:
        raise UsageInvalid(f"--every is {text}, and must be at least {format_duration(_EVERY_SECONDS_MIN)}")
    return seconds


WatchFlag = Annotated[bool, typer.Option("--watch", "-w", help="Look again and again until ^C.")]
EveryFlag = Annotated[
    float,
    typer.Option(
        "--every", metavar="DURATION", parser=_interval, show_default="2s", help="How long to wait between two looks."
    ),
]


def watch(
    session: Session,
    rows: Callable[[], Sequence[Row]],
    columns: Sequence[Column],
    *,
    every: float,
    key: str = "name",
    passes: Collection[str] = (),
) -> None:
    """Show what `rows` gives, every so many seconds, until ^C; `key` is the field that tells rows apart, and a change
    of the fields in `passes` is none.

    A terminal shows the table as it is, everything else what has changed. A broker that goes away is waited for;
    one that never was there is told as ever.
    """
    changes = Changes(key, passes)
    draws = session.for_people and terminal.draws()
    view: Screen | Feed = Screen(session, columns, every) if draws else Feed(session, columns)

    def look() -> Sequence[Row]:
        return session.ordered(rows(), columns)

    try:
        view.show(changes.take(_looked(look, view)))
        while True:
            time.sleep(every)
            try:
                found = _looked(look, view)
            except (GoQueueError, Refusal) as error:
                view.tell(_passing(error))
            else:
                view.show(changes.take(found))
    except KeyboardInterrupt:
        view.close()
        raise typer.Exit(exits.INTERRUPTED) from None


def wait(what: str, look: Callable[[], tuple[bool, str]], *, timeout: float, every: float = 0.5) -> None:
    """Return once `look` says that it is so; its text says how far it is. `what` stands behind "waiting for"."""
    end = time.monotonic() + timeout
    told = "nothing is known yet"
    try:
        while True:
            try:
                done, told = look()
            except (GoQueueError, Refusal) as error:
                done, told = False, _passing(error)
            if done:
                return
            left = end - time.monotonic()
            if left <= 0:
                raise RequestTimedOut(f"waited {format_duration(timeout)} for {what}: {told}")
            terminal.show_status(f"waiting for {what}: {told}")
            time.sleep(min(every, left))
    finally:
        terminal.show_status("")


def _passing(error: GoQueueError | Refusal) -> str:
    """What to say of a failure that may pass; any other is the end."""
    reason = error.error if isinstance(error, Refusal) else error
    if not isinstance(reason, TransientError):
        raise error
    return reason.sentence


class _Look(threading.Thread):
    """One look, beside the screen: a broker that does not answer must not freeze it, nor keep ^C waiting."""

    def __init__(self, rows: Callable[[], Sequence[Row]]) -> None:
        super().__init__(daemon=True)
        self._rows = rows
        self.found: Sequence[Row] = ()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.found = list(self._rows())
        except BaseException as error:
            self.error = error  # raised where somebody waits for it


def _looked(rows: Callable[[], Sequence[Row]], view: Screen | Feed) -> Sequence[Row]:
    look = _Look(rows)
    began = time.monotonic()
    look.start()
    look.join(_PATIENCE_SECONDS)
    while look.is_alive():
        view.tell(f"no answer for {format_duration(int(time.monotonic() - began))}")
        look.join(_PATIENCE_SECONDS)
    if look.error is not None:
        raise look.error
    return look.found
