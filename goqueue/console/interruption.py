"""Signals: SIGTERM ends a command as ^C does, and ^C can wait for the end of a step."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from goqueue.console import exit_codes, terminal

_terminated = False


def treat_sigterm_as_interrupt() -> None:
    """Have SIGTERM call the handler of SIGINT from now on."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _terminated  # noqa: PLW0603 - signals belong to the process as well
    _terminated = True
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(number, frame)


def interrupt_exit_code() -> int:
    return exit_codes.TERMINATED if _terminated else exit_codes.INTERRUPTED


@contextmanager
def after_this_step(step: str = "the request in progress") -> Iterator[Callable[[], bool]]:
    """Keep ^C from interrupting the block; yields a function that returns True after ^C. A second ^C interrupts."""
    pressed, said = False, f"stopping after {step}; ^C again stops at once\n".encode()

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            signal.default_int_handler(number, frame)
        pressed = True
        if sys.stderr is not None:
            with suppress(OSError):  # past the buffers of Python, which the interrupted code may be writing to
                os.write(2, b"\r\x1b[K" + said if sys.stderr.isatty() else said)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interruptible_changes(describe: Callable[[], str]) -> Iterator[Callable[[], bool]]:
    """Keep ^C from interrupting a request of several; a failure says with `describe` what was changed before.

    Yields a function that returns True after ^C.
    """
    try:
        with after_this_step() as is_stopped:
            yield is_stopped
    except BaseException:
        terminal.show_status("")
        terminal.say(f"{describe()} before, and possibly more")
        raise
    finally:
        terminal.show_status("")
