"""What ^C means to a command that must not stop in the middle of a step."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_TOLD = b"stopping when what is under way is done; ^C again stops at once\n"


@contextmanager
def after_this_step() -> Iterator[Callable[[], bool]]:
    """Gives whether ^C was pressed. Pressed again, it interrupts at once."""
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            signal.default_int_handler(number, frame)
        pressed = True
        _tell()

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _tell() -> None:
    """Past the buffers of Python: the signal may have come while somebody was writing to them."""
    if sys.stderr is not None:
        with suppress(OSError):
            os.write(2, b"\r\x1b[K" + _TOLD if sys.stderr.isatty() else _TOLD)
