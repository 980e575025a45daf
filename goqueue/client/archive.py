"""Logs as they are on disk: the part of `Client` that is about segments."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from goqueue.client.calls import Call
from goqueue.limits import SEGMENT_READ_BYTES

if TYPE_CHECKING:
    from goqueue.client.segments import PartitionAborted, PartitionSegments

T = TypeVar("T")


class Archive(ABC):
    """The files of partitions, for who copies a log or looks through all of it."""

    @abstractmethod
    def call(self, call: Call[T]) -> T:
        """Ask the broker."""

    def segments(self, topic: str, partition: int, *, delayed: bool = False) -> "PartitionSegments":
        """The segments of a partition, oldest first: its log as files, as far as readers see it.

        With `delayed` this and the next three are about its delayed log, which is there once something was scheduled.
        """
        from goqueue.client import segments  # noqa: PLC0415 - ten milliseconds for who only looks at topics

        return self.call(segments.listed(topic, partition, delayed=delayed))

    def aborted(
        self, topic: str, partition: int, first: int = 0, end: int | None = None, *, delayed: bool = False
    ) -> "PartitionAborted":
        """Which messages from one offset up to another were aborted with their transactions, as far as is decided.

        The bytes of segments hold them still. Where there are very many it says at which offset to go on: `next`.
        """
        from goqueue.client import segments  # noqa: PLC0415 - as above

        return self.call(segments.aborted(topic, partition, first, end, delayed=delayed))

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
    ) -> bytes:
        """Bytes of a segment as they are on the broker's disk, from a position on; none at its end.

        Frames in them are not verified, and the last may be cut off. With the `version` of the listing they are of the
        segment that was listed, or refused with `segment_not_found`.
        """
        from goqueue.client import segments  # noqa: PLC0415 - as above

        return self.call(segments.content(topic, partition, segment, position, max_bytes, version, delayed=delayed))

    def segment_index(
        self, topic: str, partition: int, segment: int, version: str | None = None, *, delayed: bool = False
    ) -> bytes:
        """The index of a segment: 24 bytes an entry, which are offset, position and time as big-endian numbers."""
        from goqueue.client import segments  # noqa: PLC0415 - as above

        return self.call(segments.index(topic, partition, segment, version, delayed=delayed))
