"""A directory on a real disk that is gone when the run ends, however it ends."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from benchmarks.harness.host import file_system

FREE_BYTES_MIN = 8 * 2**30
IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}


class NoPlace(Exception):
    """There is no directory to measure in."""


@contextmanager
def scratch(directory: str | None) -> Iterator[str]:
    """A new directory below the given one, or below the first usual place on a disk."""
    parent = directory or _usual_place()
    try:
        free = shutil.disk_usage(parent).free
        if free < FREE_BYTES_MIN:
            raise NoPlace(f"{parent} has {free / 2**30:.1f} GiB free, {FREE_BYTES_MIN >> 30} are needed (--dir DIR)")
        path = tempfile.mkdtemp(prefix="goqueue-benchmarks-", dir=parent)
    except OSError as error:
        raise NoPlace(f"{parent}: {error.strerror} (--dir DIR)") from None
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield path
    finally:
        signal.signal(signal.SIGTERM, before)
        shutil.rmtree(path, ignore_errors=True)


def _usual_place() -> str:
    for place in (tempfile.gettempdir(), "/var/tmp", os.getcwd()):  # noqa: S108 - a new directory is made in it
        if os.access(place, os.W_OK) and file_system(place)[0] not in IN_MEMORY:
            return place
    raise NoPlace("found no directory on a disk (--dir DIR)")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End as ^C does, which whatever runs now knows how to do."""
    signal.raise_signal(signal.SIGINT)
