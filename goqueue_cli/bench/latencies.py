"""A histogram of times with buckets that grow with the time, so that the error is at most 1 %, and bars of it.

Times are whole nanoseconds. Up to 256 of them have a bucket each; beyond, every doubling has 128 buckets. A percentile
is the upper end of its bucket, and at most the longest time: never better than the exact one.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from goqueue.drawing.bars import bar
from goqueue.quantities import format_count, format_duration

_BITS = 7
_EACH = 1 << _BITS


class LatencyBucket(NamedTuple):
    """The number of `times` from `first` on, below `end`."""

    first: int
    end: int
    times: int


class Latencies:
    """The histogram; adding a time takes constant time and space."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.total = 0
        self.most = 0

    def add(self, nanoseconds: int) -> None:
        time = max(0, nanoseconds)
        self.most = max(self.most, time)
        self.count += 1
        self.total += time
        self._counts[index_of(time)] += 1

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> int:
        """Return the time that this percentage of all times does not exceed."""
        wanted = max(1, math.ceil(round(self.count * percent / 100, 6)))  # 99.9 is not exactly that in binary
        seen = 0
        for index in sorted(self._counts):
            seen += self._counts[index]
            if seen >= wanted:
                return min(bounds_of(index)[1] - 1, self.most)
        return 0

    def buckets(self) -> Iterator[LatencyBucket]:
        """Yield the buckets that are not empty, in order."""
        for index in sorted(self._counts):
            yield LatencyBucket(*bounds_of(index), self._counts[index])


def index_of(time: int) -> int:
    doublings = max(0, time.bit_length() - _BITS - 1)
    return doublings * _EACH + (time >> doublings)


def bounds_of(index: int) -> tuple[int, int]:
    """Return the bounds of a bucket; the second is exclusive."""
    doublings = max(0, index // _EACH - 1)
    place = index - doublings * _EACH
    return place << doublings, (place + 1) << doublings


# --- bars ---

_STEPS = (10, 15, 20, 30, 50, 70)  # nearly equal ratios
_EDGES = [step * 10**power for power in range(2, 12) for step in _STEPS]  # from a microsecond on
_WIDTH = 50


def bars(latencies: Latencies, width: int | None = None, *, blocks: bool = True) -> Iterator[str]:
    """Yield a line for each range of times between the shortest and the longest."""
    counts = [0] * (len(_EDGES) + 1)
    for bucket in latencies.buckets():
        counts[bisect_right(_EDGES, bucket.first)] += bucket.times
    held = [place for place, count in enumerate(counts) if count]
    if not held:
        return
    most = max(counts)
    room = max(10, min(_WIDTH, (width or 100) - 45))
    for place in range(held[0], held[-1] + 1):
        count = counts[place]
        share = f"{count / latencies.count:.1%}"
        drawn = bar(count, most, room, blocks=blocks)
        yield f"{_label(place):>18}  {share:>6}  {format_count(count):>11}  {drawn}".rstrip()


def _label(place: int) -> str:
    if place == 0:
        return f"below {_shown(0)}"
    if place == len(_EDGES):
        return f"{_shown(place - 1)} or more"
    return f"{_shown(place - 1)} to {_shown(place)}"


def _shown(place: int) -> str:
    return format_duration(_EDGES[place] / 1e9)
