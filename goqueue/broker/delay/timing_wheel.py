"""A hierarchical timing wheel for millions of deadlines.

Four levels of buckets: 256 of one tick (10 ms), and 64 each of 2.56 s, 163.84 s and 2.91 h. A coarse bucket is
spread over finer ones when its time begins; one of the finest level is due when its tick is over, so nothing is
early. Entries beyond the coarsest level are not taken: the owner keeps them and adds them later.

Invariant: an entry is in a bucket that has not been drained. An overdue one goes to the next tick. The wheel does
not check entries: the caller of `drain` skips outdated ones.
"""

from array import array
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from goqueue.limits import DELAY_SPREAD_ENTRIES, DELAY_TICK_NS

Numbers = NDArray[np.int64]
DueEntries = tuple[Numbers, Numbers]
"""Deadlines and their numbers."""

_SHIFTS = (0, 8, 14, 20)
"""Ticks of a bucket of each level, as a power of two."""
_SLOTS = (256, 64, 64, 64)
_TURN_SHIFT = _SHIFTS[-1]

NONE = np.empty(0, np.int64)


class TimingWheel:
    """A timing wheel of deadlines in nanoseconds, each with a number."""

    def __init__(self, now_ns: int) -> None:
        self._levels: list[dict[int, array[int]]] = [{} for _ in _SHIFTS]
        """By level, and by bucket number since the epoch."""
        self.tick = now_ns // DELAY_TICK_NS
        """The first tick that has not been drained."""
        self._next: int | None = None
        self.is_spreading = False
        """Whether started buckets hold more than one call spreads; then call `drain` again."""
        self._found: list[DueEntries] = []
        """Due entries collected while spreading."""

    @property
    def next_ns(self) -> int | None:
        """Time of the next drain."""
        return self._next

    @property
    def horizon_ns(self) -> int:
        """Deadlines from here on are not taken."""
        return ((self.tick >> _TURN_SHIFT) + _SLOTS[-1] << _TURN_SHIFT) * DELAY_TICK_NS

    def within_horizon_ns(self, due_ns: int) -> int:
        """Return when a deadline comes within the horizon."""
        return ((due_ns // DELAY_TICK_NS >> _TURN_SHIFT) - _SLOTS[-1] + 1 << _TURN_SHIFT) * DELAY_TICK_NS

    def add_many(self, dues: Numbers, numbers: Numbers) -> None:
        """Add the deadlines that are within the horizon."""
        ticks = np.maximum(dues // DELAY_TICK_NS, self.tick)
        for level, (shift, slots) in enumerate(zip(_SHIFTS, _SLOTS, strict=True)):
            units = ticks >> shift
            near = units - (self.tick >> shift) < slots
            if near.any():
                self._fill(level, units[near], dues[near], numbers[near])
                if near.all():
                    return
                ticks, dues, numbers = ticks[~near], dues[~near], numbers[~near]

    def _fill(self, level: int, units: Numbers, dues: Numbers, numbers: Numbers) -> None:
        order = np.argsort(units, kind="stable")
        units = units[order]
        pairs = np.stack((dues[order], numbers[order]), axis=1)
        edges = [0, *(np.flatnonzero(units[1:] != units[:-1]) + 1).tolist(), len(units)]
        for first, end in pairwise(edges):
            self._bucket(level, int(units[first])).frombytes(pairs[first:end].tobytes())

    def _bucket(self, level: int, unit: int) -> "array[int]":
        bucket = self._levels[level].get(unit)
        if bucket is None:
            bucket = self._levels[level][unit] = array("q")
            moment = _moment(level, unit)
            self._next = moment if self._next is None else min(self._next, moment)
        return bucket

    def drain(self, now_ns: int) -> DueEntries:
        """Return all entries whose tick is over, unordered; none while it `is_spreading`."""
        target = now_ns // DELAY_TICK_NS
        if target <= self.tick and not self.is_spreading:
            return NONE, NONE
        self.tick = target = max(target, self.tick)
        taken = list(self._reached(target))
        if taken:
            pairs = np.concatenate([np.frombuffer(bucket, np.int64) for bucket in taken]).reshape(-1, 2)
            self._sort_out(pairs[:, 0], pairs[:, 1])
        moments = [_moment(level, min(units)) for level, units in enumerate(self._levels) if units]
        self._next = min(moments, default=None)
        if self.is_spreading:
            return NONE, NONE
        found, self._found = self._found, []
        return np.concatenate([NONE, *(dues for dues, _ in found)]), np.concatenate([NONE, *(one for _, one in found)])

    def _sort_out(self, dues: Numbers, numbers: Numbers) -> None:
        is_due = dues < self.tick * DELAY_TICK_NS
        self._found.append((dues[is_due], numbers[is_due]))
        if not is_due.all():
            self.add_many(dues[~is_due], numbers[~is_due])

    def _reached(self, target: int) -> Iterator["array[int]"]:
        """Yield the finest buckets that end before the target, and the coarse ones that begin before.

        Coarse ones only as far as one call may spread.
        """
        left = DELAY_SPREAD_ENTRIES
        for unit in [one for one in self._levels[0] if one < target]:
            yield self._levels[0].pop(unit)
        self.is_spreading = False
        for buckets, shift in zip(self._levels[1:], _SHIFTS[1:], strict=True):
            for unit in sorted(one for one in buckets if one <= target >> shift):
                if len(buckets[unit]) <= 2 * left:
                    left -= len(buckets[unit]) // 2
                    yield buckets.pop(unit)
                    continue
                self.is_spreading = True
                if left:
                    yield buckets[unit][-2 * left :]
                    del buckets[unit][-2 * left :]
                return

    def levels(self) -> list[tuple[int, int, int]]:
        """Return bucket length in nanoseconds, number of buckets and number of entries of each level."""
        return [
            (DELAY_TICK_NS << shift, slots, sum(map(len, buckets.values())) // 2)
            for shift, slots, buckets in zip(_SHIFTS, _SLOTS, self._levels, strict=True)
        ]


def _moment(level: int, unit: int) -> int:
    """Return when a bucket has to be drained: a single tick at its end, others at their beginning."""
    return (unit + 1 if level == 0 else unit << _SHIFTS[level]) * DELAY_TICK_NS


def sort_due(due: DueEntries) -> DueEntries:
    """Sort by deadline and number, without duplicates."""
    dues, numbers = due
    order = np.lexsort((numbers, dues))
    dues, numbers = dues[order], numbers[order]
    fresh = np.ones(len(dues), np.bool_)
    fresh[1:] = (dues[1:] != dues[:-1]) | (numbers[1:] != numbers[:-1])
    return dues[fresh], numbers[fresh]
