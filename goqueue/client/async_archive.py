"""Logs as they are on disk: the part of `AsyncClient` that is about segments."""

from abc import ABC, abstractmethod
from typing import TypeVar

from goqueue.client import segments
from goqueue.client.calls import Call
from goqueue.client.segments import PartitionAborted, PartitionSegments
from goqueue.limits import SEGMENT_READ_BYTES

T = TypeVar("T")


class AsyncArchive(ABC):
    """The files of partitions, for who copies a log or looks through all of it."""

    @abstractmethod
    async def call(self, call: Call[T]) -> T:
        """Ask the broker."""

    async def segments(self, topic: str, partition: int, *, delayed: bool = False) -> PartitionSegments:
        """The segments of a partition, oldest first: its log as files, as far as readers see it.

        With `delayed` this and the next three are about its delayed log, which is there once something was scheduled.
        """
        return await self.call(segments.listed(topic, partition, delayed=delayed))

    async def aborted(
        self, topic: str, partition: int, first: int = 0, end: int | None = None, *, delayed: bool = False
    ) -> PartitionAborted:
        """Which messages from one offset up to another were aborted with their transactions, as far as is decided.

        The bytes of segments hold them still. Where there are very many it says at which offset to go on: `next`.
        """
        return await self.call(segments.aborted(topic, partition, first, end, delayed=delayed))

    async def segment_bytes(
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
        return await self.call(
            segments.content(topic, partition, segment, position, max_bytes, version, delayed=delayed)
        )

    async def segment_index(
        self, topic: str, partition: int, segment: int, version: str | None = None, *, delayed: bool = False
    ) -> bytes:
        """The index of a segment: 24 bytes an entry, which are offset, position and time as big-endian numbers."""
        return await self.call(segments.index(topic, partition, segment, version, delayed=delayed))
