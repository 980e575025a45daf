"""The data of all partitions on the connection with one other node, in both directions.

    2  data              a header, then frames as they are in the log
    3  confirmations     up to where this node has the logs that the other one leads; one message after each flush
    4  credit            bytes that the other one may send more
    5  high watermarks   of logs that this node leads, where no data has told them

A leader pushes what it appends in the same turn of the loop, before its own sync. What does not go at once (no credit,
a follower that is behind, large appends) waits in a queue and goes in slices, each partition in its turn. What is not
in memory is read on a thread, one slice at a time.
"""

import asyncio
import logging
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from goqueue.broker.core.partition import Partition
from goqueue.cluster.leader_replica import LeaderReplica
from goqueue.cluster.replication_messages import (
    DATA_HEADER_BYTES,
    DataHeader,
    ReplicaPosition,
    ReplicationMessage,
    decode_positions,
    encode_positions,
)
from goqueue.errors import GoQueueError, OffsetOutOfRange
from goqueue.limits import CLUSTER_SLICE_BYTES, CLUSTER_WINDOW_BYTES
from goqueue.runtime.cluster.catch_up import CatchUp
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.cluster.peer_tls import PeerFailure
from goqueue.storage.log import AppendResult
from goqueue.storage.reads import PendingRead, ReadResult
from goqueue.storage.replica_reads import locate_stored
from goqueue.storage.scan import Frames

_log = logging.getLogger("goqueue.cluster")

DATA, CONFIRMATIONS, CREDIT, HIGH_WATERMARKS = 2, 3, 4, 5
_CREDIT = struct.Struct(">I")
_CREDIT_BYTES_MIN = CLUSTER_WINDOW_BYTES // 16
"""Less is given back with more: a message costs more than it is worth."""
_RETRY_SECONDS = 5.0
"""Until a log is read again that could not be read."""
_TELL_SECONDS = 0.002
"""A high watermark waits so long for data that carries it: messages of its own are a third of what followers do."""
_RESERVED_BYTES = CLUSTER_WINDOW_BYTES // 2
"""Credit that is left to what is pushed, while other partitions catch up."""


class StreamedReplica(Protocol):
    """The part of a replica that its streams use."""

    partition: Partition
    leader: LeaderReplica | None
    """None while it is not led here."""

    def confirmation(self) -> ReplicaPosition | None: ...

    def position(self) -> ReplicaPosition | None: ...

    def forget_below_start(self) -> None: ...

    def ask_again(self, node: str) -> None: ...


@dataclass(slots=True)
class ReplicaTraffic:
    """The bytes of frames from and to one other node, over all connections with it."""

    sent: int = 0
    received: int = 0


class ReplicationStream:
    """One connection. All partitions that this node leads or follows at the other one share it."""

    def __init__(
        self,
        link: PeerLink,
        loop: asyncio.AbstractEventLoop,
        threads: ThreadPoolExecutor,
        tasks: OwnedTasks,
        catch_up: CatchUp,
        traffic: ReplicaTraffic,
    ) -> None:
        self.link = link
        self.node = link.node
        self.is_over = False
        self.credit = CLUSTER_WINDOW_BYTES
        """How many bytes of data may be sent."""
        self._loop, self._threads, self._tasks = loop, threads, tasks
        self._queue: dict[StreamedReplica, None] = {}
        """Led here, with data that the other node lacks."""
        self._catch_up, self._traffic = catch_up, traffic
        self._held: dict[StreamedReplica, None] = {}
        """Those of the queue that catch up, and whose turn has not come."""
        self._release: asyncio.TimerHandle | None = None
        self._release_at = 0.0
        """The loop's time of the next look at them; a handle of uvloop does not always tell its own."""
        self._confirm: dict[StreamedReplica, None] = {}
        self._higher: dict[StreamedReplica, None] = {}
        self._freed = 0
        """Bytes of data that are on the disk here, and not given back."""
        self._is_armed = self._is_telling = self._is_loading = False
        self._loading: asyncio.Task[None] | None = None

    def tell(self, message: ReplicationMessage) -> None:
        self.link.send(message)

    def end(self) -> None:
        """The connection has ended."""
        self.is_over = True
        self._queue.clear()
        self._held.clear()
        if self._loading is not None:
            self._loading.cancel()

    # --- data that leaves ---

    def push(self, replica: StreamedReplica, frames: Frames, appended: AppendResult) -> None:
        """Send what was appended just now, if the follower has everything before it."""
        leader = replica.leader
        assert leader is not None
        cursor = leader.followers[self.node]
        size = len(frames.buffer)
        if cursor.next == appended.first_offset and self.credit > 0 and size <= CLUSTER_SLICE_BYTES:
            self._send(replica, appended.first_offset, appended.next_offset, (frames.buffer.data,), size)
        elif cursor.is_open:
            self.want(replica)

    def want(self, replica: StreamedReplica) -> None:
        """Send what the follower lacks, in its turn."""
        self._queue[replica] = None
        self._pump()

    def _pump(self) -> None:
        while self._queue and self.credit > _RESERVED_BYTES and not self._is_loading and not self.is_over:
            replica = next(iter(self._queue))
            del self._queue[replica]
            leader = replica.leader
            if leader is None or (wanted := leader.pending(self.node)) is None:
                continue
            if (seconds := self._catch_up.wait_seconds(leader, self.node)) > 0:
                self._hold(replica, seconds)
                continue
            try:
                self._send_slice(replica, *wanted)
            except GoQueueError as error:
                self._give_up(replica, error)

    def _hold(self, replica: StreamedReplica, seconds: float) -> None:
        """Let a replica that catches up wait."""
        self._held[replica] = None
        at = self._loop.time() + seconds
        if self._release is None or self._release_at > at:
            if self._release is not None:
                self._release.cancel()
            self._release, self._release_at = self._tasks.call_later(seconds, self._release_held), at

    def _release_held(self) -> None:
        self._release = None
        held, self._held = self._held, {}
        if not self.is_over:
            self._queue |= held
            self._pump()

    def _send_slice(self, replica: StreamedReplica, base: int, end: int) -> None:
        found = self._find(replica, base, end)
        if isinstance(found, PendingRead):
            self._is_loading = True
            self._loading = self._tasks.run(self._load(replica, base, found))
        elif found.buffers:
            self._send(replica, base, found.next_offset, found.buffers, found.size, has_gaps=True)
            self._queue[replica] = None

    @staticmethod
    def _find(replica: StreamedReplica, offset: int, end: int) -> ReadResult | PendingRead:
        """Find the next frames from this offset on, behind a gap if there is one."""
        while True:
            found = locate_stored(replica.partition.log, offset, CLUSTER_SLICE_BYTES, end)
            if isinstance(found, PendingRead) or found.buffers or found.next_offset == offset:
                return found
            offset = found.next_offset

    async def _load(self, replica: StreamedReplica, base: int, pending: PendingRead) -> None:
        leader = replica.leader
        found: ReadResult | PendingRead = pending
        try:
            while isinstance(found, PendingRead):
                read = await self._loop.run_in_executor(self._threads, found.load)
                wanted = None if leader is None or leader is not replica.leader else leader.pending(self.node, base)
                if wanted is None:
                    return
                is_gap = not read.buffers and read.next_offset > found.offset  # up to the end of a segment
                found = self._find(replica, read.next_offset, wanted[1]) if is_gap else read
            if found.buffers:
                self._send(replica, base, found.next_offset, found.buffers, found.size, has_gaps=True)
                self._queue[replica] = None
        except GoQueueError as error:
            self._give_up(replica, error)
        finally:
            self._is_loading = False
            self._pump()

    def _give_up(self, replica: StreamedReplica, error: GoQueueError) -> None:
        """Stop sending this log: retention was faster, or its files are damaged."""
        if isinstance(error, OffsetOutOfRange):
            replica.forget_below_start()
        else:
            _log.error("node %s cannot get %s: %s", self.node, replica.partition.log.name, error)
            if replica.leader is not None:
                replica.leader.disconnected(self.node)
                self._tasks.call_later(_RETRY_SECONDS, self._ask_again, replica)

    def _ask_again(self, replica: StreamedReplica) -> None:
        """Try again to send a log that could not be read: it may have been repaired."""
        if not self.is_over:
            replica.ask_again(self.node)

    def _send(
        self,
        replica: StreamedReplica,
        base: int,
        end: int,
        buffers: tuple[memoryview, ...],
        size: int,
        *,
        has_gaps: bool = False,
    ) -> None:
        leader = replica.leader
        assert leader is not None
        start, common = replica.partition.log.first_offset, leader.common_end
        header = DataHeader(leader.log, leader.epoch, base, end, leader.high_watermark, start, common, has_gaps)
        self.link.send_parts(DATA, (header.encode(), *buffers), DATA_HEADER_BYTES + size)
        self.credit -= size
        self._traffic.sent += size
        if has_gaps:
            self._catch_up.sent(leader, self.node, size)
        leader.sent(self.node, end)
        self._higher.pop(replica, None)

    # --- what goes together, once in a turn of the loop ---

    def confirm(self, replica: StreamedReplica) -> None:
        """The log has come further here."""
        self._confirm[replica] = None
        self._arm()

    def tell_higher(self, replica: StreamedReplica) -> None:
        """The high watermark of a log that is led here has risen: the next data tells it, if that comes soon."""
        self._higher[replica] = None
        if not self._is_telling:
            self._is_telling = True
            self._tasks.call_later(_TELL_SECONDS, self._tell_higher)

    def _tell_higher(self) -> None:
        self._is_telling = False
        higher, self._higher = self._higher, {}
        if not self.is_over:
            self._send_positions(HIGH_WATERMARKS, [row for one in higher if (row := one.position()) is not None])

    def free(self, size: int, _: GoQueueError | None = None) -> None:
        """Give back the credit of data that is stored or refused, or was not taken."""
        self._freed += size
        self._arm()

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            self._tasks.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_armed = False
        if self.is_over:
            return
        if self._confirm:
            confirmed, self._confirm = self._confirm, {}
            self._send_positions(CONFIRMATIONS, [row for one in confirmed if (row := one.confirmation()) is not None])
        if self._freed >= _CREDIT_BYTES_MIN:
            freed, self._freed = self._freed, 0
            self.link.send_parts(CREDIT, (_CREDIT.pack(freed),), _CREDIT.size)

    def _send_positions(self, kind: int, rows: list[ReplicaPosition]) -> None:
        if rows:
            content = encode_positions(rows)
            self.link.send_parts(kind, (content,), len(content))

    # --- what arrives ---

    def receive(
        self,
        kind: int,
        content: memoryview,
        on_data: "Callable[[ReplicationStream, DataHeader, memoryview], None]",
        on_position: "Callable[[int, str, ReplicaPosition], None]",
    ) -> None:
        """Take a message. Raises PeerFailure."""
        try:
            if kind == DATA:
                self._traffic.received += len(content) - DATA_HEADER_BYTES
                on_data(self, DataHeader.decode(content), content[DATA_HEADER_BYTES:])
            elif kind == CREDIT:
                self.credit += _CREDIT.unpack(content)[0]
                self._pump()
            elif kind in (CONFIRMATIONS, HIGH_WATERMARKS):
                for row in decode_positions(content):
                    on_position(kind, self.node, row)
            else:
                raise PeerFailure(f"node {self.node} sent a message of the unknown kind {kind}")
        except struct.error as error:
            raise PeerFailure(f"node {self.node} sent a message of kind {kind} that is not whole: {error}") from None
