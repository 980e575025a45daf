"""Segments as they are on disk, for programs that decode frames themselves or copy them."""

import re
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec

from goqueue.api.call import Call
from goqueue.api.http.message import Response
from goqueue.api.sections import CHECKSUM_HEADER
from goqueue.broker.partition import Partition
from goqueue.broker.work import Work
from goqueue.errors import LogClosed
from goqueue.limits import ABORTED_RANGES_MAX, OFFSET_MAX, READ_BYTES_MAX, SEGMENT_READ_BYTES
from goqueue.quantities import quoted
from goqueue.storage.raw import Raw, not_found

T = TypeVar("T")

OCTETS = "application/octet-stream"

_SEGMENT = re.compile(r"0|[1-9][0-9]{0,18}")


class SegmentsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    delayed: Annotated[bool, msgspec.Meta(description="Of the partition's delayed log instead.")] = False


class SegmentQuery(SegmentsQuery, forbid_unknown_fields=True, kw_only=True):
    version: (
        Annotated[
            str,
            msgspec.Meta(max_length=40, description="As the segment was listed: refused if it was replaced since."),
        ]
        | None
    ) = None


class LogQuery(SegmentQuery, forbid_unknown_fields=True, kw_only=True):
    position: Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX, description="The first byte.")] = 0
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=READ_BYTES_MAX)] = SEGMENT_READ_BYTES


class AbortedQuery(SegmentsQuery, forbid_unknown_fields=True, kw_only=True):
    first: Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX, description="Where to begin.")] = 0
    end: (
        Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX, description="The first offset that is not asked about.")]
        | None
    ) = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=ABORTED_RANGES_MAX, description="The most ranges.")] = (
        ABORTED_RANGES_MAX
    )


class Segment(msgspec.Struct):
    base_offset: int
    next_offset: int
    size_bytes: int
    first_time_ns: Annotated[int | None, msgspec.Meta(description="Of its first message, where that is known.")]
    last_time_ns: Annotated[int | None, msgspec.Meta(description="Of its last message, where that is known.")]
    is_active: Annotated[bool, msgspec.Meta(description="Whether it is the last one, which may grow.")]
    version: Annotated[str, msgspec.Meta(description="Another one as soon as other bytes stand in its place.")]


class PartitionSegments(msgspec.Struct):
    topic: str
    partition: int
    earliest: int
    high_watermark: int
    last_stable: int
    segments: list[Segment]


class PartitionAborted(msgspec.Struct, omit_defaults=True):
    ranges: Annotated[
        Sequence[Annotated[Sequence[int], msgspec.Meta(min_length=2, max_length=2)]],
        msgspec.Meta(description="Each with its first offset and the one behind its last."),
    ]
    last_stable: Annotated[int, msgspec.Meta(description="What comes from here on is not decided yet.")]
    high_watermark: int
    next: Annotated[int, msgspec.Meta(description="Where to go on, if there are more ranges.")] | None = None


async def list_aborted(call: Call) -> PartitionAborted:
    partition, query = _partition(call), call.query
    if partition is None:
        return PartitionAborted([], 0, 0)
    last_stable, high_watermark = partition.last_stable, partition.high_watermark
    end = last_stable if query.end is None else min(query.end, last_stable)
    ranges = await _performed(call, partition, partition.aborted.within(query.first, end, query.limit + 1))
    following = ranges[query.limit][0] if len(ranges) > query.limit else None
    return PartitionAborted(ranges[: query.limit], last_stable, high_watermark, following)


async def list_segments(call: Call) -> PartitionSegments:
    partition = _partition(call)
    if partition is None:
        return PartitionSegments(call.parameters["topic"], call.partition, 0, 0, 0, [])
    outlines = await _performed(call, partition, partition.segments())
    return PartitionSegments(
        partition.topic,
        partition.number,
        partition.earliest,
        partition.high_watermark,
        partition.last_stable,
        [Segment(*one) for one in outlines],
    )


async def read_log(call: Call) -> Response:
    partition, query = _readable(call), call.query
    work = partition.segment_bytes(_base_offset(call), query.position, query.max_bytes, query.version)
    raw = await _performed(call, partition, work)
    if not partition.log.is_closed:  # as when messages are read: the numbers of what is deleted must not come back
        call.app.metrics.topic(partition.topic).bytes_read += len(raw.content)
    return _response(raw)


async def read_index(call: Call) -> Response:
    partition = _readable(call)
    return _response(await _performed(call, partition, partition.segment_index(_base_offset(call), call.query.version)))


def _partition(call: Call) -> Partition | None:
    """Whose log is meant; None where that is a delayed log and nothing was ever scheduled."""
    partition = call.runtime.broker.topic(call.parameters["topic"]).partition(call.partition)
    if not call.query.delayed:
        return partition
    delays = call.runtime.broker.office.delays(partition)
    return None if delays is None else delays.inbox


def _readable(call: Call) -> Partition:
    partition = _partition(call)
    if partition is None:
        raise not_found(f"nothing was ever scheduled in partition {call.partition} of {call.parameters['topic']}")
    return partition


def _base_offset(call: Call) -> int:
    text = call.parameters["segment"]
    if _SEGMENT.fullmatch(text) and int(text) <= OFFSET_MAX:
        return int(text)
    raise not_found(f"{quoted(text)} is not the base offset of a segment")


async def _performed(call: Call, partition: Partition, work: Work[T]) -> T:
    try:
        return await call.runtime.perform(work)
    except LogClosed:
        call.runtime.broker.topic(partition.topic)  # where it was deleted meanwhile, that is what to say
        raise


def _response(raw: Raw) -> Response:
    return Response(200, (raw.content,), OCTETS, ((CHECKSUM_HEADER, f"{raw.checksum:08x}"),))
