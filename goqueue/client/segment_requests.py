"""The client's methods for segments: the log of a partition as bytes on the broker's disk."""

import msgspec

from goqueue.client.address import quote
from goqueue.client.api_request import ApiRequest, ApiResponse, error_of_response, json_request, operation, with_query
from goqueue.limits import SEGMENT_READ_BYTES
from goqueue.wire.headers import CHECKSUM, OCTETS


class SegmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A segment, named by its `base_offset`, as far as readers see it. Unknown times are None."""

    base_offset: int
    next_offset: int
    size_bytes: int
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    is_active: bool = False
    """Whether it is the last one, which may grow."""
    version: str | None = None
    """Changes when other bytes take its place."""


class PartitionSegments(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a partition, and its segments, oldest first."""

    topic: str
    partition: int
    earliest: int
    high_watermark: int
    last_stable: int
    segments: list[SegmentInfo]


class PartitionAborted(msgspec.Struct, frozen=True, kw_only=True):
    """The aborted messages of a partition as ranges of offsets, without their ends."""

    ranges: list[tuple[int, int]]
    last_stable: int
    """Messages from here on are not decided yet."""
    high_watermark: int
    next: int | None = None
    """The offset to continue with, if there are more ranges."""


class SegmentAdmin:
    """The segment files of partitions, for copying or scanning a log; with `delayed`, of their delayed logs."""

    @operation
    def segments(self, topic: str, partition: int, *, delayed: bool = False) -> ApiRequest[PartitionSegments]:
        """Return the segments of a partition, oldest first, as far as readers see them."""
        path = with_query(_path(topic, partition), delayed=delayed)
        return json_request("GET", path, PartitionSegments, place=(topic, partition))

    @operation
    def aborted(
        self, topic: str, partition: int, first: int = 0, end: int | None = None, *, delayed: bool = False
    ) -> ApiRequest[PartitionAborted]:
        """Return the ranges of offsets whose transactions were aborted; the segments still hold their messages.

        When there are very many, `next` is the offset to continue with.
        """
        path = f"/topics/{quote(topic)}/partitions/{partition}/aborted"
        path = with_query(path, first=first, end=end, delayed=delayed)
        return json_request("GET", path, PartitionAborted, place=(topic, partition))

    @operation
    def segment_bytes(
        self,
        topic: str,
        partition: int,
        segment: int,
        position: int = 0,
        max_bytes: int = SEGMENT_READ_BYTES,
        version: str | None = None,
        *,
        delayed: bool = False,
    ) -> ApiRequest[bytes]:
        """Return bytes of a segment as they are on the broker's disk; empty at its end.

        Frames in them are not verified, and the last may be cut off. With the `version` of the listing, a segment
        that was replaced since is refused with `segment_not_found`.
        """
        path = f"{_path(topic, partition)}/{segment}/log"
        path = with_query(path, position=position, max_bytes=max_bytes, version=version, delayed=delayed)
        return _content(path, (topic, partition))

    @operation
    def segment_index(
        self, topic: str, partition: int, segment: int, version: str | None = None, *, delayed: bool = False
    ) -> ApiRequest[bytes]:
        """Return the index of a segment: entries of 24 bytes with offset, position and time, big-endian."""
        path = f"{_path(topic, partition)}/{segment}/index"
        return _content(with_query(path, version=version, delayed=delayed), (topic, partition))


def _path(topic: str, partition: int) -> str:
    return f"/topics/{quote(topic)}/partitions/{partition}/segments"


def _content(path: str, place: tuple[str, int]) -> ApiRequest[bytes]:
    return ApiRequest("GET", path, _checked, headers=(("accept", OCTETS),), place=place)


def _checked(answer: ApiResponse) -> bytes:
    from goqueue.client.message import check  # noqa: PLC0415 - saves ten milliseconds where it is not needed

    if answer.status >= 300:
        raise error_of_response(answer)
    found = bytes(answer.body)
    check(found, answer.header(CHECKSUM))
    return found
