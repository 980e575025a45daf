"""The calls about segments: the log of a partition as the bytes that it is on the broker's disk."""

import msgspec

from goqueue.client import refusals
from goqueue.client.address import quote
from goqueue.client.calls import Answer, Call
from goqueue.client.endpoints import ask
from goqueue.client.message import check

OCTETS = (("accept", "application/octet-stream"),)


class SegmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A segment, named by its `base_offset`, as far as readers see it. Times are None where they are not known."""

    base_offset: int
    next_offset: int
    size_bytes: int
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    is_active: bool = False
    """Whether it is the last one: it may grow, and all others do not."""
    version: str | None = None
    """Another one as soon as other bytes stand in its place."""


class PartitionSegments(msgspec.Struct, frozen=True, kw_only=True):
    """What a partition holds, and its segments, oldest first."""

    topic: str
    partition: int
    earliest: int
    high_watermark: int
    last_stable: int
    segments: list[SegmentInfo]


class PartitionAborted(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of messages whose transactions were aborted, as ranges: the first, and the one behind the last."""

    ranges: list[tuple[int, int]]
    last_stable: int
    """What comes from here on is not decided yet."""
    high_watermark: int
    next: int | None = None
    """Where to go on, if there are more ranges."""


def listed(topic: str, partition: int, *, delayed: bool) -> Call[PartitionSegments]:
    return ask("GET", _path(topic, partition) + _query(delayed=delayed), PartitionSegments)


def aborted(topic: str, partition: int, first: int, end: int | None, *, delayed: bool) -> Call[PartitionAborted]:
    path = f"/topics/{quote(topic)}/partitions/{partition}/aborted"
    return ask("GET", path + _query(first=first, end=end, delayed=delayed), PartitionAborted)


def content(
    topic: str, partition: int, segment: int, position: int, max_bytes: int, version: str | None, *, delayed: bool
) -> Call[bytes]:
    query = _query(position=position, max_bytes=max_bytes, version=version, delayed=delayed)
    return Call("GET", f"{_path(topic, partition)}/{segment}/log{query}", _checked, headers=OCTETS)


def index(topic: str, partition: int, segment: int, version: str | None, *, delayed: bool) -> Call[bytes]:
    query = _query(version=version, delayed=delayed)
    return Call("GET", f"{_path(topic, partition)}/{segment}/index{query}", _checked, headers=OCTETS)


def _path(topic: str, partition: int) -> str:
    return f"/topics/{quote(topic)}/partitions/{partition}/segments"


def _query(*, delayed: bool, **wishes: int | str | None) -> str:
    """Nothing is said that was not wished for, so that a broker which does not know it can answer."""
    said = [f"{name}={quote(str(wish))}" for name, wish in wishes.items() if wish is not None]
    if delayed:
        said.append("delayed=true")
    return f"?{'&'.join(said)}" if said else ""


def _checked(answer: Answer) -> bytes:
    if answer.status >= 300:
        raise refusals.of_answer(answer)
    found = bytes(answer.body)
    check(found, answer.header(b"x-goqueue-checksum"))
    return found
