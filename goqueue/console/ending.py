"""SIGTERM ends a command as ^C does: what is under way is settled, and what was begun on stdout is whole."""

import signal
from types import FrameType

from goqueue.console import exits

_terminated = False


def as_interruption() -> None:
    """From now on: whoever says what ^C means says it of both."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _terminated  # noqa: PLW0603 - signals are the process's own as well
    _terminated = True
    interrupt = signal.getsignal(signal.SIGINT)
    (interrupt if callable(interrupt) else signal.default_int_handler)(number, frame)


def interrupted_code() -> int:
    """By which of the two it was."""
    return exits.TERMINATED if _terminated else exits.INTERRUPTED
