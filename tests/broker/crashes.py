"""Crash points: run the same work again and again, and let the disk crash at a later operation each time.

The suite takes every second operation on average, `--hypothesis-profile=long` each one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, repeat

from hypothesis import settings

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


SAMPLED_STEPS = (1, 2, 3)
"""Uneven, so that what repeats with every second or third operation is not left out."""


def crash_points(start: int = 1, every: int | None = None) -> Iterator[CrashPoint]:
    """Yield crash points at a sample of the operations, or every few, the last of which the work does not reach."""
    steps = repeat(every) if every else cycle(SAMPLED_STEPS) if settings().max_examples <= 25 else repeat(1)
    point = CrashPoint(start)
    while not point.is_over:
        yield point
        if not point.is_over:
            point = CrashPoint(point.operation + next(steps))
