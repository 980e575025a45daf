"""Which of many ranges was the first to cover an offset.

Ranges may be wide and overlap, as those of a client that always commits from 0. Each offset is visited once: from
every index leads a way onward to the next one that is not covered yet, and walking it makes it shorter.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TypeVar

from goqueue.testing.history.events import Settling

Range = TypeVar("Range", bound=Settling)


def first_covering(offsets: Sequence[int], ranges: Iterable[Range]) -> dict[int, Range]:
    """Of each of the rising offsets the first of the ranges that holds it; without those that none holds."""
    onward = list(range(len(offsets) + 1))
    covered = {}
    for one in ranges:
        stop = bisect_left(offsets, one.end)
        index = _next_uncovered(onward, bisect_left(offsets, one.first))
        while index < stop:
            covered[offsets[index]] = one
            onward[index] = index + 1
            index = _next_uncovered(onward, index + 1)
    return covered


def _next_uncovered(onward: list[int], index: int) -> int:
    while onward[index] != index:
        onward[index] = onward[onward[index]]
        index = onward[index]
    return index
