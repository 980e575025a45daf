"""Many times as few numbers: buckets that grow with what they hold, so that no time is off by more than 1 %.

Times are whole nanoseconds. Up to 256 of them have a bucket each; beyond, every doubling has 128 buckets. A
percentile is the upper end of its bucket, and at most the greatest time that was added: never better than it was.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

_BITS = 7
_EACH = 1 << _BITS


class Bucket(NamedTuple):
    """How many `times` there are from `first` on, below `end`."""

    first: int
    end: int
    times: int


class Latencies:
    """Times are added one by one, in constant time and space."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.total = 0
        self.least = 0
        self.most = 0

    def add(self, nanoseconds: int) -> None:
        time = max(0, nanoseconds)
        self.least = min(self.least, time) if self.count else time
        self.most = max(self.most, time)
        self.count += 1
        self.total += time
        self._counts[index_of(time)] += 1

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> int:
        """So many of a hundred times are no longer than this."""
        wanted = max(1, math.ceil(round(self.count * percent / 100, 6)))  # 99.9 is not exactly that in binary
        seen = 0
        for index in sorted(self._counts):
            seen += self._counts[index]
            if seen >= wanted:
                return min(bounds_of(index)[1] - 1, self.most)
        return 0

    def buckets(self) -> Iterator[Bucket]:
        """Those that hold anything, from short to long."""
        for index in sorted(self._counts):
            yield Bucket(*bounds_of(index), self._counts[index])

    def __repr__(self) -> str:
        return f"<Latencies {self.count} times up to {self.most} ns>"


def index_of(time: int) -> int:
    """The bucket of a time."""
    doublings = max(0, time.bit_length() - _BITS - 1)
    return doublings * _EACH + (time >> doublings)


def bounds_of(index: int) -> tuple[int, int]:
    """What a bucket holds: from the first on, below the second."""
    doublings = max(0, index // _EACH - 1)
    place = index - doublings * _EACH
    return place << doublings, (place + 1) << doublings
