"""Logs of a broker at work: the bytes of its segments, over HTTP."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn

import numpy as np

from goqueue.client import Client
from goqueue.client.tls import TlsOptions
from goqueue.errors import SegmentNotFound, TopicNotFound
from goqueue.limits import SCAN_CHUNK_BYTES
from goqueue.spark.logs.port import READ_COMMITTED, Isolation, OpenSegment, TransactionDecisions
from goqueue.storage.disk import Buffer
from goqueue.storage.index import Index
from goqueue.storage.log_view import LogView, SegmentView

_TIMEOUT_SECONDS = 60.0  # a job has more patience than a person
_FIRST_SECONDS = 5.0  # and its beginning has none with an address that was mistyped


@dataclass(frozen=True)
class BrokerLogs:
    """Each process that reads has a connection of its own."""

    name: str
    token: str | None = field(default=None, repr=False)
    is_delayed: bool = field(default=False, kw_only=True)
    """As with directories."""
    isolation: Isolation = field(default=READ_COMMITTED, kw_only=True)
    tls: TlsOptions | None = field(default=None, kw_only=True)
    """Files on the machine of each process that reads."""
    tenant: str = field(default="", kw_only=True)
    """The tenant whose names are meant; a key of a tenant needs none."""

    @cached_property
    def client(self) -> Client:
        return Client(self.name, _TIMEOUT_SECONDS, api_key=self.token, tenant=self.tenant, tls=self.tls)

    def __getstate__(self) -> dict[str, str | bool | TlsOptions | None]:
        return {name: value for name, value in self.__dict__.items() if name != "client"}

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()

    def topics(self) -> dict[str, tuple[int, ...]]:
        if "client" not in self.__dict__:
            with Client(self.name, _FIRST_SECONDS, api_key=self.token, tenant=self.tenant, tls=self.tls) as client:
                client.topics()
        found = self.client.topic_details(internal=True)
        return {topic.name: tuple(range(topic.partitions)) for topic in sorted(found, key=lambda topic: topic.name)}

    def view(self, topic: str, partition: int) -> LogView:
        try:
            found = self.client.segments(topic, partition, delayed=self.is_delayed)
        except TopicNotFound:  # it was deleted since it was listed, as a directory that is gone
            return LogView()
        segments = tuple(
            SegmentView(one.base_offset, one.next_offset, one.size_bytes, one.version) for one in found.segments
        )
        minds = self.isolation == READ_COMMITTED and not self.is_delayed
        return LogView(segments, found.last_stable if minds else None)

    def touched(self) -> dict[tuple[str, int], int]:
        """Return nothing: each view has this."""
        return {}

    def open(self, topic: str, partition: int, segment: SegmentView) -> OpenSegment:
        with _gone_with_its_topic():
            content = self.client.segment_index(
                topic, partition, segment.base_offset, segment.version, delayed=self.is_delayed
            )
        table = np.frombuffer(content, ">i8").reshape(-1, 3).astype(np.int64)
        index = Index()
        for column, values in zip((index.offsets, index.positions, index.times), table.T, strict=True):
            column.frombytes(values.tobytes())
        return OpenSegment(_RemoteFile(self, topic, partition, segment), index)

    def compaction(self, _topic: str, _partition: int) -> None:
        """Return None: a broker says only which topics are compacted."""

    def waits(self) -> bool:
        return not self.is_delayed

    def decided(
        self, topic: str, partition: int, first: int, end: int, _: Sequence[SegmentView]
    ) -> TransactionDecisions | None:
        """Ask the broker; a delayed log has its markers read instead, because open transactions do not hold it back."""
        if self.is_delayed:
            return None
        ranges: list[tuple[int, int]] = []
        with _gone_with_its_topic():
            while True:
                found = self.client.aborted(topic, partition, first, end)
                ranges += found.ranges
                if found.next is None:
                    return TransactionDecisions(ranges, found.last_stable)
                first = found.next

    def path(self, topic: str, partition: int, segment: SegmentView) -> str:
        url = f"{self.name}/topics/{topic}/partitions/{partition}/segments/{segment.base_offset}"
        return f"{url}?delayed=true" if self.is_delayed else url


@contextmanager
def _gone_with_its_topic() -> Iterator[None]:
    try:
        yield
    except TopicNotFound as error:
        raise SegmentNotFound(error.sentence, hint="was it deleted while it was read?") from None


class _RemoteFile:
    """A segment of a broker, read in large pieces, the last of which is kept for small reads."""

    def __init__(self, logs: BrokerLogs, topic: str, partition: int, segment: SegmentView) -> None:
        self._client, self._is_delayed = logs.client, logs.is_delayed
        self._place = (topic, partition, segment.base_offset)
        self._size, self._version = segment.size, segment.version
        self._start, self._content = 0, b""

    def read(self, position: int, into: memoryview) -> int:
        wanted = min(len(into), self._size - position)
        done = 0
        while done < wanted:
            start = position + done - self._start
            if not 0 <= start < len(self._content):
                self._fetch(position + done)
                start = 0
            piece = self._content[start : start + wanted - done]
            into[done : done + len(piece)] = piece
            done += len(piece)
        return max(done, 0)

    def _fetch(self, position: int) -> None:
        with _gone_with_its_topic():
            self._content = self._client.segment_bytes(
                *self._place, position, SCAN_CHUNK_BYTES, self._version, delayed=self._is_delayed
            )
        self._start = position
        if not self._content:
            topic, partition, base = self._place
            raise SegmentNotFound(f"segment {base} of {topic}/{partition} became shorter", hint="read again")

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        self._content = b""

    def write(self, position: int, buffers: Sequence[Buffer]) -> NoReturn:
        raise AssertionError(f"{self} is read-only: {len(buffers)} buffers at {position} cannot be written")

    def truncate(self, size: int) -> NoReturn:
        raise AssertionError(f"{self} is read-only: it cannot be cut to {size} bytes")

    def sync(self) -> None:
        """Do nothing: there is nothing to make durable."""

    def drop_cache(self) -> None:
        self._start, self._content = 0, b""

    def __repr__(self) -> str:
        return f"<RemoteFile {'/'.join(map(str, self._place))}>"
