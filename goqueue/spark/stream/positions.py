"""The positions of a streaming query, its batch limits, and its progress as a group.

Spark keeps the end of each micro-batch and nothing of its beginning. After a crash it asks anew where a query begins,
which for `latest` is another place by then. So the end of a batch also has, under a name that no topic can have,
where those partitions begin that the batch before did not know. It is how the first batch comes out the same again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from goqueue.client import Client
from goqueue.client.tls import TlsOptions
from goqueue.errors import GoQueueError, GroupNotFound
from goqueue.spark.logs.port import PartitionRef
from goqueue.spark.reading.plan import PartitionRange, ReadPlan

Positions = dict[PartitionRef, int]

_BEGUN = "@from"


def to_json(positions: Mapping[PartitionRef, int], begun: Mapping[PartitionRef, int] | None = None) -> dict[str, Any]:
    """Encode positions, always in the same order, because Spark compares text."""
    found = _by_topic(positions)
    return {**found, _BEGUN: _by_topic(begun)} if begun else found


def from_json(offset: Mapping[str, Any]) -> Positions:
    return _flat({topic: numbers for topic, numbers in offset.items() if topic != _BEGUN})


def begun_positions(offset: Mapping[str, Any]) -> Positions:
    """Return where partitions begin that were new in the batch that ends there."""
    return _flat(offset.get(_BEGUN, {}))


def _by_topic(positions: Mapping[PartitionRef, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for topic, number in sorted(positions):
        found.setdefault(topic, {})[str(number)] = positions[topic, number]
    return found


def _flat(offset: Mapping[str, Any]) -> Positions:
    return {(topic, int(number)): one for topic, numbers in offset.items() for number, one in numbers.items()}


_TIMEOUT_SECONDS = 3.0  # a query does not wait longer for what is only told


class GroupProgress:
    """Tells a broker how far a query is. That it cannot be told ends no query."""

    def __init__(
        self, url: str, token: str | None, group: str, tls: TlsOptions | None = None, tenant: str = ""
    ) -> None:
        self._url = url
        self._token = token
        self._tls = tls
        self._tenant = tenant
        self._group = group
        self._told: Positions = {}

    def report(self, positions: Positions) -> None:
        with (
            suppress(GoQueueError),
            Client(self._url, _TIMEOUT_SECONDS, api_key=self._token, tenant=self._tenant, tls=self._tls) as client,
        ):
            if self._has_members(client):
                return  # their progress is not this query's
            for (topic, number), offset in positions.items():
                if self._told.get((topic, number)) != offset:
                    client.reset_offsets(self._group, topic, "offset", partitions=[number], offset=offset)
                    self._told[topic, number] = offset

    def _has_members(self, client: Client) -> bool:
        try:
            return bool(client.group(self._group).get("members"))
        except GroupNotFound:
            return False


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """The limits of a micro-batch; None is no limit."""

    messages_most: int | None = None
    bytes_most: int | None = None
    messages_least: int | None = None
    delay_seconds: float = 0.0


class BatchTriggers:
    """The batches of one query. `now` is a clock that never goes back, in seconds."""

    def __init__(self, limits: TriggerLimits, now: float) -> None:
        self._limits = limits
        self._last = now

    def admit(
        self, ranges: Sequence[PartitionRange], now: float, *, is_complete: bool = False
    ) -> dict[PartitionRef, int]:
        """Return where each partition ends in the next batch; nothing where it is better to wait.

        `is_complete` says that no more will come.
        """
        limits, total = self._limits, sum(one.end - one.first for one in ranges)
        least = None if is_complete else limits.messages_least
        if not total or (least is not None and total < least and now - self._last < limits.delay_seconds):
            return {}
        self._last = now
        return limited(ranges, limits.messages_most, limits.bytes_most)


def limited(
    ranges: Sequence[PartitionRange], messages_most: int | None, bytes_most: int | None
) -> dict[PartitionRef, int]:
    """Return the ends that fit both limits; at least one message, if there is any."""
    ends = {one.ref: one.end for one in ranges}
    if messages_most is not None:
        shares = share(messages_most, {one.ref: one.end - one.first for one in ranges})
        ends = {one.ref: one.first + shares[one.ref] for one in ranges}
    if bytes_most is not None:
        sizes = share(bytes_most, {one.ref: ReadPlan((one,)).size for one in ranges})
        ends = {one.ref: min(ends[one.ref], _end_within(one, sizes[one.ref])) for one in ranges}
    if all(ends[one.ref] == one.first for one in ranges):
        for one in ranges:
            if one.end > one.first:
                return ends | {one.ref: one.first + 1}
    return ends


def share(most: int, left: Mapping[T, int]) -> dict[T, int]:
    """Distribute `most` in proportion, so that small shares are not lost to large ones."""
    total = sum(left.values())
    if total <= most:
        return dict(left)
    shares: dict[T, int] = {}
    for one in sorted(left, key=left.__getitem__):
        shares[one] = min(left[one], -(-most * left[one] // total)) if total else 0
        most -= shares[one]
        total -= left[one]
    return shares


def _end_within(given: PartitionRange, size: int) -> int:
    """Return the last offset up to which a range has at most `size` bytes, estimated by segments."""
    low, high = given.first, given.end
    while low < high:
        middle = (low + high + 1) // 2
        if ReadPlan((PartitionRange(given.ref, given.first, middle, given.view),)).size <= size:
            low = middle
        else:
            high = middle - 1
    return low
