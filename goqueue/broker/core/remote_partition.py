"""A partition of which this node of a cluster has no replica, as groups read it: at its leader.

It stands in for a partition that is here: the same positions, reads, and lookups of lanes and aborted messages. Its
positions are those that a leader has told last, so they may be behind, and are never ahead. Who waits for messages
is woken when the leader tells others.

Without a source nothing can be asked: then it refuses reads as the leadership says.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from goqueue.broker.core.aborted_index import AbortedIndex
from goqueue.broker.core.lane_index import LaneIndex
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Work
from goqueue.errors import GoQueueError, OffsetOutOfRange
from goqueue.limits import CLUSTER_SLICE_BYTES, FRAME_HEADER_BYTES
from goqueue.storage.lanes import Span
from goqueue.storage.log import Log
from goqueue.storage.reads import ReadResult
from goqueue.storage.segment import MessageCount, OffsetSpan
from goqueue.storage.segment_scan import Damage
from goqueue.storage.transaction_index import AbortedRanges, Edges, as_edges


class PartitionPositions(Struct, frozen=True, array_like=True):
    """The positions of a partition at its leader, and what else is known of it without reading."""

    leader_epoch: int = 0
    earliest: int = 0
    high_watermark: int = 0
    last_stable: int = 0
    one_lane_from: int = 0
    """From here on all messages are in one lane."""
    message_bytes: int = FRAME_HEADER_BYTES
    appended: tuple[int, ...] = ()
    """Messages by lane since the leader's log was opened."""


def positions_of(partition: Partition) -> PartitionPositions:
    """Return the positions of a partition that is led here."""
    epoch, lanes = 0 if partition.leadership is None else partition.leadership.leader_epoch, partition.log.lanes
    return PartitionPositions(
        epoch,
        partition.earliest,
        partition.high_watermark,
        partition.last_stable,
        lanes.since,
        partition.message_bytes,
        tuple(lanes.appended),
    )


class RemoteSource(Protocol):
    """Asks the leaders of partitions."""

    def ask(self, partition: "RemotePartition", question: str, arguments: Sequence[Any]) -> Work[Any]:
        """Return the answer of the leader. Raises LeaderUnavailable if there is none now."""
        ...

    def follow(self, partition: "RemotePartition") -> None:
        """Have the leader tell other positions from now on."""
        ...


class RemotePartition(Partition):
    """One partition without a log here."""

    def __init__(self, topic: str, number: int, log: Log) -> None:
        self.positions = PartitionPositions()
        self.source: RemoteSource | None = None
        """None if this node asks no others."""
        super().__init__(topic, number, log)

    def derive(self) -> None:
        super().derive()
        self.lanes, self.aborted = _RemoteLanes(self), _RemoteAborted(self)

    def learn(self, told: PartitionPositions) -> None:
        """Take over positions, unless they are from before those that are known."""
        known = self.positions
        if (told.leader_epoch, told.high_watermark) >= (known.leader_epoch, known.high_watermark):
            self.positions = told
            self.log.lanes.since, self.log.lanes.appended = told.one_lane_from, list(told.appended)

    @property
    def earliest(self) -> int:
        return self.positions.earliest

    @property
    def log_end(self) -> int:
        return self.positions.high_watermark

    @property
    def high_watermark(self) -> int:
        return self.positions.high_watermark

    @property
    def last_stable(self) -> int:
        return self.positions.last_stable

    @property
    def message_bytes(self) -> int:
        return self.positions.message_bytes

    def is_dense(self, first: int, end: int) -> bool:  # noqa: ARG002 - what is read here is looked at
        return False

    # --- asked at the leader ---

    def ask(self, question: str, *arguments: Any) -> Work[Any]:
        if self.source is None:
            raise self._refusal()
        return (yield from self.source.ask(self, question, arguments))

    def _refusal(self) -> GoQueueError:
        refusal = self.log.fence if self.leadership is None else self.leadership.refusal()
        assert refusal is not None, "a log that is absent refuses everything"
        return refusal

    def read(self, offset: int, max_bytes: int, *, skip_damage: bool = False) -> Work[ReadResult]:
        return self._read("read", offset, max_bytes, skip_damage=skip_damage)

    def read_uncommitted(self, offset: int, max_bytes: int, *, skip_damage: bool = False) -> Work[ReadResult]:
        return self._read("read_uncommitted", offset, max_bytes, skip_damage=skip_damage)

    def _read(self, question: str, offset: int, max_bytes: int, *, skip_damage: bool) -> Work[ReadResult]:
        if offset < self.earliest:
            raise OffsetOutOfRange(f"partition {self.number} of {self.topic} begins at offset {self.earliest}")
        found = yield from self.ask(question, offset, min(max_bytes, CLUSTER_SLICE_BYTES), skip_damage)
        content, next_offset, skipped = found
        buffers = (memoryview(content),) if content else ()
        return ReadResult(buffers, next_offset, tuple(Damage(*one) for one in skipped))

    def offset_for_time(self, time_ns: int) -> Work[int]:
        return self.ask("offset_for_time", time_ns)

    def tally(self, *, is_committed: bool, spans: Sequence[OffsetSpan], is_dated: bool) -> Work[MessageCount]:
        """Count the messages in these spans."""
        return MessageCount(*(yield from self.ask("tally", is_committed, spans, is_dated)))

    def watch(self, callback: Any) -> Any:
        if self.source is not None:
            self.source.follow(self)
        return super().watch(callback)


class _RemoteLanes(LaneIndex):
    """The lanes of a partition, looked up at its leader."""

    def __init__(self, partition: RemotePartition) -> None:
        super().__init__(partition.log)
        self._partition = partition

    def is_single(self, first: int) -> Work[bool]:
        return self._partition.ask("is_single", first)

    def next(self, lane: int, first: int, end: int) -> Work[int | None]:
        return self._partition.ask("next", lane, first, end)

    def count(self, lane: int, first: int, end: int, most: int) -> Work[int]:
        return self._partition.ask("count", lane, first, end, most)

    def count_in(self, lane: int, ranges: Edges) -> Work[int]:
        return self._partition.ask("count_in", lane, ranges.tolist())

    def spans(self, lane: int, first: int, end: int, messages: int, most: int) -> Work[list[Span]]:
        found = yield from self._partition.ask("spans", lane, first, end, messages, most)
        return [(start, stop) for start, stop in found]


class _RemoteAborted(AbortedIndex):
    """The aborted messages of a partition, looked up at its leader."""

    def __init__(self, partition: RemotePartition) -> None:
        super().__init__(partition.log, lambda: partition.last_stable)
        self._partition = partition

    def at(self, first: int, end: int) -> Work[AbortedRanges]:
        return AbortedRanges.of((yield from self.edges(first, end)))

    def edges(self, first: int, end: int) -> Work[Edges]:
        return as_edges([(start, stop) for start, stop in (yield from self._partition.ask("edges", first, end))])

    def roughly(self, first: int, end: int) -> int:  # noqa: ARG002 - nothing is in memory here
        return 0


def refreshed(partition: Partition) -> Work[None]:
    """Learn where a partition ends now, if its log is at other nodes."""
    if isinstance(partition, RemotePartition) and partition.source is not None:
        yield from partition.ask("positions")
