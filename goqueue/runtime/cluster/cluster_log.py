"""The replicated log of the cluster on this node's disk, and the state that its committed records make."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from goqueue.broker.core.epochs import load_epochs
from goqueue.broker.core.topic import log_name
from goqueue.broker.core.work import run_work
from goqueue.broker.internal_topics import CLUSTER
from goqueue.cluster.epoch_index import EpochIndex
from goqueue.cluster.messages import Append
from goqueue.cluster.metadata import ClusterState, StateTold, VotersChanged, decode_cluster_record
from goqueue.cluster.voters import VoterRow
from goqueue.errors import FrameInvalid, GoQueueError, RangeDamaged
from goqueue.limits import (
    CLUSTER_RECENT_RECORDS,
    CLUSTER_TELL_BYTES,
    CLUSTER_TELL_GROWTH,
    OFFSET_MAX,
    READ_BYTES_MAX,
)
from goqueue.storage import frame, scan
from goqueue.storage.disk import Disk
from goqueue.storage.epoch_frame import EpochFrame, decode_epoch_frame, epoch_messages
from goqueue.storage.leader_epochs import EpochNote
from goqueue.storage.log import Log
from goqueue.storage.reads import ReadResult
from goqueue.storage.retention import Retention
from goqueue.storage.store import Store
from goqueue.storage.truncation import reset, truncate

_log = logging.getLogger("goqueue.cluster")

CLUSTER_LOG = log_name(CLUSTER, 0)
_CHANGES_VOTERS = b'"voters_changed"'
_TELLS = b'"state_told"'
_RECORDS_AT_ONCE = 10_000
_DAMAGED = (
    "this is the log of the cluster, which the other nodes have as well: start this node with an empty data directory,"
    " and then, if it is a voter, `goqueue-admin cluster replace-voter`. It fetches its replicas from the others;"
    " partitions of which they have none are lost, so keep the former directory"
)


class ClusterLog:
    """The log, the newest records of it in memory, and the state."""

    def __init__(
        self, store: Store, disk: Disk, on_report: Callable[[], None], *, is_new: bool, noted_end: int = 0
    ) -> None:
        """`on_report` is called when the log has come further, or will not. A new node begins with an empty log.

        `noted_end` was committed before: a voter that has lost it must not vote.
        """
        if noted_end and not is_new:
            store.expect(CLUSTER_LOG, noted_end)
        if is_new and CLUSTER_LOG in store.unopened:  # from a backup of another node
            store.delete(CLUSTER_LOG)
        known = CLUSTER_LOG in store.logs or CLUSTER_LOG in store.unopened
        self.log: Log = store.log(CLUSTER_LOG) if known else store.create(CLUSTER_LOG)
        if is_new:
            reset(self.log, disk, 0, [])
        self._disk = disk
        self._on_report = on_report
        self._recent: deque[bytes] = deque(maxlen=CLUSTER_RECENT_RECORDS)
        """The newest records, those that are not synced yet among them."""
        epochs = run_work(load_epochs(self.log, disk))
        start, end = self._contiguous_start(), self.log.next_offset
        start = self._told_from(start) if start else 0
        self.index = EpochIndex(epochs.rows_below(start, end), end, start)
        self.state = ClusterState()
        self.state.is_behind = start > 0
        self.applied_end = start
        self.told_start = start
        """Where the state was rewritten last; what is before it is removed."""
        self._seals_next = False
        self._told_at = self._told_bytes = self._grown_bytes = 0
        """The size of what was told, and of what came since."""
        self.log.on_report = self._report

    def _report(self) -> None:
        self.log.show(self.log.stored_end)
        self._on_report()

    # --- append ---

    def begin_epoch(self, epoch: int, node: str, now_ns: int) -> None:
        self.append(EpochFrame(epoch, node, now_ns, self.log.epochs.last).encode())

    def append(self, content: bytes) -> int:
        """Append frames of this leader; return how many."""
        frames = scan.check_batch(bytearray(content))
        self._seal()
        self.log.append(frames)
        self.log.sync_soon()
        self._remember(frames)
        return len(frames)

    def store(self, append: Append) -> None:
        """Append a leader's frames as they are. They were checked when they were received."""
        frames = scan.walk(bytearray(append.content))
        self._remember(frames)
        self._seal()
        self.log.append_stamped(frames)
        self.log.sync_soon()

    def _remember(self, frames: scan.Frames) -> None:
        content = bytes(frames.buffer.data)
        for position, length in zip(frames.positions.tolist(), frames.lengths.tolist(), strict=True):
            self._recent.append(content[position : position + length])

    def truncate(self, end: int) -> None:
        truncate(self.log, self._disk, end)
        self._recent.clear()

    def skip_to(self, start: int, epoch: int) -> None:
        """Go on at a later offset, from which on the state is rewritten. What is here stays until it is."""
        self._seals_next = True
        epochs = self.log.epochs.begin_behind_gap(epoch, start)
        EpochNote(self.log.directory, epochs, start).store(self._disk)
        self._recent.clear()
        self.applied_end, self.state.is_behind = start, True

    # --- telling the state again ---

    @property
    def is_due(self) -> bool:
        """Return whether the log has grown so much that its state should be rewritten."""
        return self._grown_bytes > max(CLUSTER_TELL_BYTES, CLUSTER_TELL_GROWTH * self._told_bytes)

    def _note_growth(self, message: frame.StoredMessage, told: StateTold | None) -> None:
        size = len(message.value)
        if told is None:
            self._grown_bytes += size
            return
        if told.part == 0:
            self._told_at, self._told_bytes = message.offset, 0
        self._told_bytes += size
        if told.part == told.parts - 1 and message.offset - self._told_at == told.part:
            self.told_start, self._grown_bytes = self._told_at - 1, 0

    def _remove_old(self) -> None:
        """Remove segments that end before the told state, and have the last one sealed for the next time."""
        self._seals_next = True
        ends = [segment.base_offset for segment in self.log.segments[1:]]
        old = [one for one, end in zip(self.log.sealed(), ends, strict=False) if end <= self.told_start]
        job = Retention(self.log, self._disk, old, before_time=0, bytes_to_free=OFFSET_MAX)
        self.log.begin_job(job)
        try:
            job.run()
        except GoQueueError as error:
            _log.warning("the beginning of the cluster's log cannot be removed: %s", error)
        finally:
            job.apply()

    def _seal(self) -> None:
        """Begin a segment with the next append, if the one before should be removed as a whole some time."""
        if self._seals_next:
            self._seals_next = False
            self.log.roll()

    # --- read ---

    def _read(self, base: int) -> ReadResult:
        try:
            return self.log.read(base, READ_BYTES_MAX)
        except RangeDamaged as error:
            raise RangeDamaged(error.sentence, hint=_DAMAGED, **error.details) from None

    def content(self, base: int, end: int) -> bytes:
        """Return the frames of a range of offsets, as they are in the log."""
        first = self.log.next_offset - len(self._recent)
        if base >= first:
            return b"".join(islice(self._recent, base - first, end - first))
        found: list[bytes] = []
        while base < min(end, first):
            read = self._read(base)
            for buffer in read.buffers:
                frames = scan.walk(buffer)
                wanted = int(frames.offsets.searchsorted(min(end, first)))
                stop = int(frames.positions[wanted]) if wanted < len(frames) else frames.end
                found.append(bytes(memoryview(frames.buffer.data)[:stop]))
            base = read.next_offset
        return b"".join(found) + (self.content(first, end) if end > first else b"")

    def voter_rows(self) -> list[VoterRow]:
        """Return the changes of the voters in the whole log, those that are not committed among them."""
        rows, base, end = [], self.index.start, self.log.next_offset
        while base < end:
            rows += voter_rows_in(self.content(base, min(end, base + _RECORDS_AT_ONCE)))
            base += _RECORDS_AT_ONCE
        return rows

    def apply_to(self, end: int) -> None:
        """Apply the records that were committed since."""
        if end <= self.applied_end:
            return
        told_start = self.told_start
        for message in messages_in(self.content(self.applied_end, end)):
            self._note_growth(message, self.state.apply_message(message))
        self.applied_end = end
        if self.told_start > told_start:
            self._remove_old()

    def _told_from(self, start: int) -> int:
        """Return where the state is told first from this offset on: the log of the cluster begins there."""
        base = start
        while base < self.log.next_offset:
            content = self.content(base, min(self.log.next_offset, base + _RECORDS_AT_ONCE))
            for message in messages_in(content):
                if _TELLS in message.value and not message.flags & frame.CONTROL:
                    record = decode_cluster_record(message)
                    if isinstance(record, StateTold) and record.part == 0:
                        return message.offset - 1
            base += _RECORDS_AT_ONCE
        return start

    def _contiguous_start(self) -> int:
        """Return the offset behind the last gap: this node has not seen what was there."""
        start = base = self.log.first_offset
        last, read = base - 1, None
        while base < self.log.next_offset and (read is None or read.next_offset > base):
            base = base if read is None else read.next_offset
            read = self._read(base)
            for buffer in read.buffers:
                offsets = scan.walk(buffer).offsets
                if len(jumps := np.flatnonzero(np.diff(offsets, prepend=last) > 1)):
                    start = int(offsets[jumps[-1]])
                last = int(offsets[-1])
        return start


def messages_in(content: bytes) -> Iterator[frame.StoredMessage]:
    for position in frame.walk(content):
        yield frame.decode(content, position)


def voter_rows_in(content: bytes) -> list[VoterRow]:
    """Return the changes of the voters in some frames."""
    if _CHANGES_VOTERS not in content:  # nearly always
        return []
    messages = [one for one in messages_in(content) if not one.flags & frame.CONTROL and _CHANGES_VOTERS in one.value]
    records = [(one.offset, decode_cluster_record(one)) for one in messages]
    return [(offset, record.voters) for offset, record in records if isinstance(record, VotersChanged)]


def check_append(append: Append) -> str | None:
    """Return what is wrong with the content of an append that another node has sent, or None."""
    if append.base == append.end and not append.content and not append.epochs:
        return None
    try:
        frames = scan.check_batch(bytearray(append.content))
        began = [decode_epoch_frame(message) for message in epoch_messages(frames)]
        starts = [message.offset for message in epoch_messages(frames)]
    except FrameInvalid as error:
        return error.sentence
    if frames.offsets.tolist() != list(range(append.base, append.end)):
        return f"it has not the offsets {append.base} to {append.end}"
    if scan.in_order(frames, append.base - 1, 0) < len(frames):
        return "its times fall"
    if tuple(zip((one.epoch for one in began), starts, strict=True)) != tuple(map(tuple, append.epochs)):
        return "its epochs are not those of its epoch frames"
    if tuple(voter_rows_in(append.content)) != append.voters:
        return "its voters are not those of its records"
    return None
