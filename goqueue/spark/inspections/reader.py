"""What a group has done of a partition, for tasks that look at messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from goqueue.broker.delivery.cursor import Cursor
from goqueue.limits import OFFSET_MAX

Ranges = tuple[tuple[int, ...], tuple[int, ...]]
"""Where each begins, and where each ends."""


@dataclass(frozen=True, slots=True)
class Reader:
    """What a group has done of a partition: all below the floor, and these ranges above it."""

    group: str
    floor: int
    done: Ranges
    lanes_from: int = OFFSET_MAX
    """From here on a message is done with if its lane was handed out beyond it, and it is not among these:"""
    taken: Ranges = ((), ())
    heads: tuple[int, ...] = ()

    @classmethod
    def of(cls, cursor: Cursor) -> Self:
        heads = tuple(cursor.heads or ())
        taken = sorted(cursor.open_from(cursor.position, cursor.reach)) if heads else []
        return cls(cursor.group, cursor.floor, _columns(cursor.settled()), cursor.position, _columns(taken), heads)

    def left_of(self, offsets: NDArray[np.int64], lanes: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which of these rising offsets it has not done."""
        left: NDArray[np.bool_] = offsets >= self.floor
        left &= ~_within(offsets, self.done)
        if self.heads and offsets[-1] >= self.lanes_from:
            unread = offsets >= np.array(self.heads, np.int64)[lanes]
            left &= (offsets < self.lanes_from) | unread | _within(offsets, self.taken)
        return left


def _within(offsets: NDArray[np.int64], ranges: Ranges) -> NDArray[np.bool_]:
    """Which of these rising offsets lie in the ranges."""
    firsts, ends = ranges
    steps = np.zeros(len(offsets) + 1, np.int64)
    if len(firsts):
        np.add.at(steps, np.searchsorted(offsets, firsts), 1)
        np.add.at(steps, np.searchsorted(offsets, ends), -1)
    inside: NDArray[np.bool_] = np.cumsum(steps[:-1]) > 0
    return inside


def _columns(ranges: Sequence[tuple[int, int]]) -> Ranges:
    return tuple(first for first, _ in ranges), tuple(end for _, end in ranges)
