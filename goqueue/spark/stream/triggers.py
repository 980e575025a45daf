"""How much a micro-batch takes of what there is: at most so many messages or bytes, and at least so many or later."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from goqueue.spark.plan import Plan, Range
from goqueue.spark.points import Place

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """What the options say; None is no limit."""

    messages_most: int | None = None
    bytes_most: int | None = None
    messages_least: int | None = None
    delay_seconds: float = 0.0


class Triggers:
    """The batches of one query. `now` is a clock that never goes back, in seconds."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._last = now

    def admit(self, ranges: Sequence[Range], now: float, *, is_complete: bool = False) -> dict[Place, int]:
        """Where each partition's part of the next batch ends; nothing where it is better to wait for more.

        `is_complete` says that no more will come.
        """
        limits, total = self._limits, sum(one.end - one.first for one in ranges)
        least = None if is_complete else limits.messages_least
        if not total or (least is not None and total < least and now - self._last < limits.delay_seconds):
            return {}
        self._last = now
        return limited(ranges, limits.messages_most, limits.bytes_most)


def limited(ranges: Sequence[Range], messages_most: int | None, bytes_most: int | None) -> dict[Place, int]:
    """The ends of what fits both limits; at least one message, if there is any."""
    ends = {one.place: one.end for one in ranges}
    if messages_most is not None:
        shares = share(messages_most, {one.place: one.end - one.first for one in ranges})
        ends = {one.place: one.first + shares[one.place] for one in ranges}
    if bytes_most is not None:
        sizes = share(bytes_most, {one.place: Plan((one,)).size for one in ranges})
        ends = {one.place: min(ends[one.place], _end_within(one, sizes[one.place])) for one in ranges}
    if all(ends[one.place] == one.first for one in ranges):
        for one in ranges:
            if one.end > one.first:
                return ends | {one.place: one.first + 1}
    return ends


def share(most: int, left: Mapping[T, int]) -> dict[T, int]:
    """Each gets by how much it has left, and no small one goes away empty while a large one gets more."""
    total = sum(left.values())
    if total <= most:
        return dict(left)
    shares: dict[T, int] = {}
    for one in sorted(left, key=left.__getitem__):
        shares[one] = min(left[one], -(-most * left[one] // total)) if total else 0
        most -= shares[one]
        total -= left[one]
    return shares


def _end_within(given: Range, size: int) -> int:
    """The last offset up to which it has at most so many bytes, as far as segments tell."""
    low, high = given.first, given.end
    while low < high:
        middle = (low + high + 1) // 2
        if Plan((Range(given.place, given.first, middle, given.view),)).size <= size:
            low = middle
        else:
            high = middle - 1
    return low
