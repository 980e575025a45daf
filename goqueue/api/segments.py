"""Segments as they are on disk, for programs that decode or copy frames."""

import re
from collections.abc import Sequence
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.http.message import HttpResponse
from goqueue.api.reading import Replica, replica_check
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Work
from goqueue.errors import LogClosed
from goqueue.limits import ABORTED_RANGES_MAX, OFFSET_MAX, READ_BYTES_MAX, SEGMENT_READ_BYTES
from goqueue.quantities import quoted
from goqueue.storage.raw_reads import RawContent, segment_not_found
from goqueue.wire.headers import CHECKSUM, OCTETS

T = TypeVar("T")

_SEGMENT = re.compile(r"0|[1-9][0-9]{0,18}")


class SegmentsQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    delayed: Annotated[bool, Meta(description="Read the partition's delayed log instead.")] = False
    replica: Replica = "leader"


class SegmentQuery(SegmentsQuery, forbid_unknown_fields=True, kw_only=True):
    version: (
        Annotated[
            str,
            Meta(max_length=40, description="The version in the list of segments; refused if it was replaced since."),
        ]
        | None
    ) = None


class LogQuery(SegmentQuery, forbid_unknown_fields=True, kw_only=True):
    position: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="The first byte.")] = 0
    max_bytes: Annotated[int, Meta(ge=1, le=READ_BYTES_MAX)] = SEGMENT_READ_BYTES


class AbortedQuery(SegmentsQuery, forbid_unknown_fields=True, kw_only=True):
    first: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="Where to begin.")] = 0
    end: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="The first offset after the range.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=ABORTED_RANGES_MAX, description="Maximum number of ranges.")] = (
        ABORTED_RANGES_MAX
    )


class SegmentJson(Struct):
    base_offset: int
    next_offset: int
    size_bytes: int
    first_time_ns: Annotated[int | None, Meta(description="Time of its first message, if known.")]
    last_time_ns: Annotated[int | None, Meta(description="Time of its last message, if known.")]
    is_active: Annotated[bool, Meta(description="Whether it is the last one, which may grow.")]
    version: Annotated[str, Meta(description="Changes when its bytes are replaced.")]


class SegmentsResponse(Struct):
    topic: str
    partition: int
    earliest: int
    high_watermark: int
    last_stable: int
    segments: list[SegmentJson]


class AbortedRangesResponse(Struct, omit_defaults=True):
    ranges: Annotated[
        Sequence[Annotated[Sequence[int], Meta(min_length=2, max_length=2)]],
        Meta(description="Each with its first offset and the one after its last."),
    ]
    last_stable: Annotated[int, Meta(description="Messages from here on may be in open transactions.")]
    high_watermark: int
    next: Annotated[int, Meta(description="Where to continue, if there are more ranges.")] | None = None


async def list_aborted(call: ApiCall, query: AbortedQuery) -> AbortedRangesResponse:
    partition = _partition(call, query)
    if partition is None:
        return AbortedRangesResponse([], 0, 0)
    last_stable, high_watermark = partition.last_stable, partition.high_watermark
    end = last_stable if query.end is None else min(query.end, last_stable)
    ranges = await _performed(call, partition, partition.aborted.within(query.first, end, query.limit + 1))
    following = ranges[query.limit][0] if len(ranges) > query.limit else None
    return AbortedRangesResponse(ranges[: query.limit], last_stable, high_watermark, following)


async def list_segments(call: ApiCall, query: SegmentsQuery) -> SegmentsResponse:
    partition = _partition(call, query)
    if partition is None:
        return SegmentsResponse(call.parameters["topic"], call.partition, 0, 0, 0, [])
    outlines = await _performed(call, partition, partition.segments())
    return SegmentsResponse(
        partition.topic,
        partition.number,
        partition.earliest,
        partition.high_watermark,
        partition.last_stable,
        [SegmentJson(*one) for one in outlines],
    )


async def read_log(call: ApiCall, query: LogQuery) -> HttpResponse:
    partition = _readable(call, query)
    work = partition.segment_bytes(_base_offset(call), query.position, query.max_bytes, query.version)
    raw = await _performed(call, partition, work)
    if not partition.log.is_closed:  # as when messages are read: the numbers of what is deleted must not come back
        call.app.metrics.topic(partition.topic).bytes_read += len(raw.content)
    return _response(raw)


async def read_index(call: ApiCall, query: SegmentQuery) -> HttpResponse:
    partition = _readable(call, query)
    return _response(await _performed(call, partition, partition.segment_index(_base_offset(call), query.version)))


def _partition(call: ApiCall, query: SegmentsQuery) -> Partition | None:
    """Return the partition or its delayed log; None if nothing was ever scheduled there."""
    partition = call.runtime.broker.topic(call.parameters["topic"]).partition(call.partition)
    replica_check(partition, query.replica)()
    if not query.delayed:
        return partition
    delays = call.runtime.broker.delay_scheduler.delays(partition)
    return None if delays is None else delays.delayed_log


def _readable(call: ApiCall, query: SegmentsQuery) -> Partition:
    partition = _partition(call, query)
    if partition is None:
        raise segment_not_found(
            f"nothing was ever scheduled in partition {call.partition} of {call.parameters['topic']}"
        )
    return partition


def _base_offset(call: ApiCall) -> int:
    text = call.parameters["segment"]
    if _SEGMENT.fullmatch(text) and int(text) <= OFFSET_MAX:
        return int(text)
    raise segment_not_found(f"{quoted(text)} is not the base offset of a segment")


async def _performed(call: ApiCall, partition: Partition, work: Work[T]) -> T:
    try:
        return await call.runtime.perform(work)
    except LogClosed:
        call.runtime.broker.topic(partition.topic)  # where it was deleted meanwhile, that is what to say
        raise


def _response(raw: RawContent) -> HttpResponse:
    return HttpResponse(200, (raw.content,), OCTETS, ((CHECKSUM, f"{raw.checksum:08x}"),))
