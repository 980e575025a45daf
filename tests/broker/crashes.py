"""Crash points: run the same work again and again, and let the disk crash one operation later each time."""

from collections.abc import Iterator
from contextlib import contextmanager

from goqueue.testing.disk import Crashed, FaultyDisk


class CrashPoint:
    """A crash at one disk operation of the work. `is_over` is True when the work ended before it."""

    def __init__(self, operation: int) -> None:
        self.operation = operation
        self.is_over = False

    @contextmanager
    def during(self, disk: FaultyDisk) -> Iterator[None]:
        disk.crash_at(disk.operations + self.operation)
        try:
            yield
            self.is_over = True
        except Crashed:
            pass


def crash_points(start: int = 1, every: int = 1) -> Iterator[CrashPoint]:
    """Yield crash points at every operation, or every few, the last of which the work does not reach."""
    point = CrashPoint(start)
    while not point.is_over:
        yield point
        if not point.is_over:
            point = CrashPoint(point.operation + every)
