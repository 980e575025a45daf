"""The recorder: listens to the broker, and makes trace records of what it says.

Records are made when something is durable, so no trace tells what a crash or a full disk took back.
"""

import re
from collections.abc import Callable, Iterable

import numpy as np

from goqueue.broker.broker import Broker
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.delay.records import DelayedLogEntries, DelayedRescheduled, DelayedSettled
from goqueue.broker.delay.schedule import CANCELLED, EXPIRED
from goqueue.broker.delay.timing_wheel import Numbers
from goqueue.broker.groups.coordinator import GroupCoordinator
from goqueue.broker.groups.dead_letters import REDRIVE_GROUP
from goqueue.broker.groups.records import (
    CursorRecord,
    GroupRecord,
    LeaseExtended,
    LeaseGrant,
    LeasesGranted,
    MessagesRequeued,
    MessagesSettled,
    MoveStarted,
    OffsetCommitted,
    SettleCause,
    TransactionAcked,
    TransactionAcksEnded,
)
from goqueue.broker.tracing.records import Ranges, TraceEventType, TraceRecord, as_runs, delayed_part, in_parts
from goqueue.broker.tracing.ring import TraceRing
from goqueue.broker.tracing.sampling import SlowThreshold
from goqueue.limits import TRACE_LEASES
from goqueue.storage import frame
from goqueue.storage.log import AppendResult
from goqueue.storage.scan import Frames
from goqueue.storage.transaction_marker import TransactionMarker
from goqueue.wire.sections import PRODUCER_HEADER_BYTES

_HEADER_BYTES_MIN = len(frame.NO_HEADERS) + PRODUCER_HEADER_BYTES
_SAMPLED = re.compile(
    rb"traceparent..[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]", re.DOTALL | re.IGNORECASE
)
_GONE = "its consumer is gone"
_FAILED: dict[SettleCause, tuple[TraceEventType, str]] = {
    "": ("consume.nacked", ""),
    "nack": ("consume.nacked", ""),
    "reject": ("consume.rejected", ""),
    "timeout": ("visibility.timeout", ""),
    "member_gone": ("consume.nacked", _GONE),
    "aborted": ("transaction.aborted", ""),
}
_NO_LEASE = ("", 0, 0)


class TraceRecorder:
    """Follows all partitions, groups and delayed messages of a broker."""

    def __init__(self, broker: Broker, ring: TraceRing, now_ns: Callable[[], int]) -> None:
        self.ring = ring
        self.now_ns = now_ns
        self.slow_publishes = SlowThreshold()
        self.copy_targets: set[LogRef] = set()
        """Partitions with copies of dead letters: all of their messages are kept."""
        for _, partition in broker.partitions():
            self._follow_partition(partition)
        broker.on_partition_opened.subscribe(self._follow_partition)
        for coordinator in broker.groups:
            self._follow_groups(coordinator)
        broker.groups.on_opened.subscribe(self._follow_groups)
        for delivery in broker.delay_scheduler.deliveries():
            self._follow_delays(delivery)
        broker.delay_scheduler.on_opened.subscribe(self._follow_delays)

    def _follow_partition(self, partition: Partition) -> None:
        if not is_internal(partition.topic):
            follower = _PartitionFollower(self, partition)
            partition.on_appended.subscribe(follower.appended)
            partition.commits.on_committed.subscribe(follower.committed)
            partition.on_ended.subscribe(follower.ended)

    def _follow_groups(self, coordinator: GroupCoordinator) -> None:
        coordinator.journal.on_kept.subscribe(_GroupFollower(self).durable)

    def _follow_delays(self, delivery: PartitionDelivery) -> None:
        follower = _DelayFollower(self, delivery.delays)
        delivery.delays.on_applied.subscribe(follower.applied)
        delivery.on_placed.subscribe(follower.placed)


class _PartitionFollower:
    """Records what is published to one partition, once it is committed, and the ends of transactions."""

    def __init__(self, recorder: TraceRecorder, partition: Partition) -> None:
        self._recorder = recorder
        self._ref = LogRef(partition.topic, partition.number)
        self._pending: list[tuple[int, int, int, bool, bool]] = []
        """Appends that are not committed: first offset, end, append time, whether there are headers, and whether one of
        them asks to be traced."""

    def appended(self, frames: Frames, appended: AppendResult) -> None:
        pending = self._pending
        while pending and pending[-1][1] > appended.first_offset:
            pending.pop()  # the disk refused it, and its offsets are given out again
        if frames.buffer[int(frames.positions[0]) + frame.AT_FLAGS] & frame.CONTROL:
            return  # no messages: control records are appended alone
        has_headers = _has_headers(frames)
        is_asked = has_headers and not self._recorder.ring.sampling.is_full(self._ref.topic) and _is_asked(frames)
        pending.append((*appended, has_headers, is_asked))

    def committed(self, end: int) -> None:
        pending = self._pending
        count = 0
        while count < len(pending) and pending[count][1] <= end:
            count += 1
        if not count:
            return
        first, since_ns, end = pending[0][0], pending[0][2], pending[count - 1][1]
        has_headers, is_asked = any(one[3] for one in pending[:count]), any(one[4] for one in pending[:count])
        del pending[:count]
        recorder, (topic, partition, _) = self._recorder, self._ref
        now_ns = recorder.now_ns()
        record = TraceRecord(
            "publish.persisted", topic, partition, first, end, now_ns, since_ns=since_ns, headers=has_headers
        )
        is_slow = recorder.slow_publishes.is_slow(now_ns - since_ns)
        recorder.ring.add(record, always=is_slow or is_asked or self._ref in recorder.copy_targets)

    def ended(self, markers: list[TransactionMarker]) -> None:
        now_ns = self._recorder.now_ns()
        for marker in markers:
            event: TraceEventType = "transaction.committed" if marker.is_commit else "transaction.aborted"
            name = str(TransactionId(marker.producer, marker.epoch))
            for ranges in in_parts(marker.ranges):
                first, end, runs = as_runs(ranges)
                record = TraceRecord(
                    event, self._ref.topic, self._ref.partition, first, end, now_ns, transaction=name, runs=runs
                )
                self._recorder.ring.add(record, always=not marker.is_commit)


def _has_headers(frames: Frames) -> bool:
    """Return whether a message has headers besides the mark of its producer."""
    at, buffer = frames.positions, frames.buffer
    first = int(at[0])
    if buffer[first + frame.AT_FLAGS] & frame.HAS_HEADERS:
        size = int(buffer[first + frame.AT_HEADERS_LENGTH]) << 8 | int(buffer[first + frame.AT_HEADERS_LENGTH + 1])
        if size != _HEADER_BYTES_MIN:
            return True
    return len(at) > 1 and bool((buffer[at[1:] + frame.AT_FLAGS] & frame.HAS_HEADERS).any())


def _is_asked(frames: Frames) -> bool:
    """Return whether a message has a `traceparent` with the flag that it is sampled."""
    return _SAMPLED.search(frames.buffer.data) is not None


class _GroupFollower:
    """Records deliveries and what became of them, from the durable records of one group log."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._ring = recorder.ring
        self._grants: dict[str, LeaseGrant] = {}
        """The latest leases."""
        self._slow = SlowThreshold()
        self._acked: dict[tuple[str, str, int, TransactionId], list[TraceRecord]] = {}
        """Acks in transactions that have not ended."""
        self._of_kind: dict[type, Callable[..., None]] = {
            LeasesGranted: self._granted,
            MessagesSettled: self._settled,
            MessagesRequeued: self._requeued,
            MoveStarted: self._move_started,
            LeaseExtended: self._extended,
            OffsetCommitted: self._committed,
            TransactionAcked: self._acked_in_transaction,
            TransactionAcksEnded: self._acks_ended,
        }

    def durable(self, record: GroupRecord) -> None:
        follow = self._of_kind.get(type(record))
        if follow is not None:
            follow(record)

    def _granted(self, record: LeasesGranted) -> None:
        grants = self._grants
        for grant in record.grants:
            grants[grant.id] = grant
            if len(grants) > TRACE_LEASES:
                del grants[next(iter(grants))]
            self._ring.add(_fetched(record, grant))

    def _settled(self, record: MessagesSettled) -> None:
        if record.cause:
            self._add("consume.dropped", record, record.ranges, record.lease, reason=record.reason, always=True)
        elif record.lease is not None:  # else it has arrived elsewhere, or is gone
            self._add("consume.acked", record, record.ranges, record.lease)

    def _requeued(self, record: MessagesRequeued) -> None:
        if not record.failed:
            self._add("consume.released", record, record.ranges, record.lease)
            return
        event, reason = _FAILED[record.cause]
        reason = record.reason or reason
        self._add(event, record, record.ranges, record.lease, reason=reason, until_ns=record.due_ns, always=True)

    def _move_started(self, record: MoveStarted) -> None:
        is_redrive = record.group == REDRIVE_GROUP
        event, reason = _FAILED[record.cause]
        for first, end, move in record.moves:
            ranges = [(first, end)]
            if not is_redrive:
                self._add(event, record, ranges, record.lease, reason=move.error or reason, always=True)
            target = LogRef(move.topic, move.partition)
            moved = TraceRecord(
                "dlq.redriven" if is_redrive else "dlq.routed",
                record.topic,
                record.partition,
                first,
                end,
                self._recorder.now_ns(),
                group="" if is_redrive else record.group,
                attempt=move.deliveries,
                reason=move.error,
                to_topic=move.topic,
                to_partition=move.partition,
                to_offset=move.since,
            )
            self._ring.add(moved, always=True)
            if not is_redrive:
                self._recorder.copy_targets.add(target)
            copies = TraceRecord("publish.persisted", *target[:2], move.since, move.since + end - first, 0)
            self._ring.promote(copies)

    def _extended(self, record: LeaseExtended) -> None:
        grant = self._grants.get(record.lease)
        if grant is not None:
            self._add("visibility.extended", record, grant.ranges(), record.lease, until_ns=record.until_ns)

    def _committed(self, record: OffsetCommitted) -> None:
        if record.group != REDRIVE_GROUP and record.floor:
            self._add("consume.acked", record, [(0, record.floor)], None, reason="its offset was committed")

    def _acked_in_transaction(self, record: TransactionAcked) -> None:
        name = str(record.transaction_id)
        made = self._add("consume.acked", record, record.ranges, record.lease, transaction=name)
        key = record.group, record.topic, record.partition, record.transaction_id
        self._acked.setdefault(key, []).extend(made)
        if len(self._acked) > TRACE_LEASES:
            del self._acked[next(iter(self._acked))]

    def _acks_ended(self, record: TransactionAcksEnded) -> None:
        key = record.group, record.topic, record.partition, record.transaction_id
        event: TraceEventType = "transaction.committed" if record.is_commit else "transaction.aborted"
        now_ns = self._recorder.now_ns()
        for acked in self._acked.pop(key, ()):
            ended = TraceRecord(
                event,
                acked.topic,
                acked.partition,
                acked.first,
                acked.end,
                now_ns,
                group=acked.group,
                until_ns=record.due_ns,
                transaction=acked.transaction,
                runs=acked.runs,
            )
            self._ring.add(ended, always=not record.is_commit)

    def _add(  # noqa: PLR0913 - the fields of a record
        self,
        event: TraceEventType,
        record: CursorRecord,
        ranges: Ranges,
        lease: str | None,
        *,
        reason: str = "",
        until_ns: int = 0,
        transaction: str = "",
        always: bool = False,
    ) -> list[TraceRecord]:
        grant = self._grants.get(lease) if lease is not None else None
        member, attempt, since_ns = _NO_LEASE if grant is None else (grant.member, grant.deliveries, grant.given_ns)
        now_ns = self._recorder.now_ns()
        if since_ns and event == "consume.acked":
            always = self._slow.is_slow(now_ns - since_ns)
        if grant is not None and grant.runs:
            ranges = _within_lease(grant, ranges)
        made = []
        for part in in_parts(ranges) if ranges else ():
            first, end, runs = as_runs(part)
            one = TraceRecord(
                event,
                record.topic,
                record.partition,
                first,
                end,
                now_ns,
                since_ns=since_ns,
                group=record.group,
                member=member,
                attempt=attempt,
                reason=reason,
                until_ns=until_ns,
                transaction=transaction,
                runs=runs,
            )
            self._ring.add(one, always=always)
            made.append(one)
        return made


def _within_lease(grant: LeaseGrant, ranges: Ranges) -> Ranges:
    """Return the parts of ranges that are in a lease: an ack may name what lies between its messages."""
    leased = RangeMap[bool].of(*grant.edges(), True)
    return [(one, other) for first, end in ranges for one, other, _ in leased.within(first, end)]


def _fetched(record: LeasesGranted, grant: LeaseGrant) -> TraceRecord:
    return TraceRecord(
        "consume.fetched",
        record.topic,
        record.partition,
        grant.first,
        grant.end,
        grant.given_ns,
        group=record.group,
        member=grant.member,
        attempt=grant.deliveries,
        until_ns=grant.until_ns,
        runs=grant.runs,
    )


class _DelayFollower:
    """Records what happens to the delayed messages of one partition."""

    def __init__(self, recorder: TraceRecorder, delays: DelayedMessages) -> None:
        self._recorder = recorder
        self._ring = recorder.ring
        self._topic, self._partition = delays.partition.topic, delays.partition.number

    def applied(self, entries: DelayedLogEntries) -> None:
        if len(entries.offsets):
            since_ns = int(entries.times[0])
            self._add("delay.scheduled", _ranges(entries.offsets), since_ns=since_ns, headers=True)
        for record in entries.records:
            if isinstance(record, DelayedRescheduled):
                self._add("delay.rescheduled", _ranges(np.unique(record.offsets)))
            elif not isinstance(record, DelayedSettled):
                ranges = _pairs(record.firsts, record.ends)
                if record.is_commit:
                    self._add("transaction.committed", ranges)
                else:
                    self._add("transaction.aborted", ranges, always=True)
            elif record.state == CANCELLED:
                self._add("delay.cancelled", _pairs(record.firsts, record.ends))
            elif record.state == EXPIRED:
                self._add("delay.expired", _pairs(record.firsts, record.ends), always=True)

    def placed(self, offsets: Numbers, placement: Placement) -> None:
        """Delayed messages have arrived in the topic."""
        first, end = int(offsets.min()), int(offsets.max()) + 1
        ready = TraceRecord(
            "delay.ready",
            self._topic,
            self._partition,
            placement.first_offset,
            placement.next_offset,
            self._recorder.now_ns(),
            to_offset=first,
            to_end=end,
        )
        delayed = delayed_part(ready)
        sampling = self._ring.sampling
        always = not sampling.is_full(self._topic) and (sampling.keeps(delayed) or sampling.keeps(ready))
        if always:
            self._ring.promote(delayed)
        self._ring.add(ready, always=always)

    def _add(
        self,
        event: TraceEventType,
        ranges: Ranges,
        *,
        since_ns: int = 0,
        headers: bool = False,
        always: bool = False,
    ) -> None:
        now_ns = self._recorder.now_ns()
        for part in in_parts(ranges) if ranges else ():
            first, end, runs = as_runs(part)
            record = TraceRecord(
                event,
                self._topic,
                self._partition,
                first,
                end,
                now_ns,
                delayed=True,
                since_ns=since_ns,
                headers=headers,
                runs=runs,
            )
            self._ring.add(record, always=always)


def _ranges(offsets: Numbers) -> Ranges:
    """Return the ranges of sorted offsets."""
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    return _pairs(offsets[np.concatenate(([0], breaks + 1))], offsets[np.concatenate((breaks, [-1]))] + 1)


def _pairs(firsts: Iterable[int] | Numbers, ends: Iterable[int] | Numbers) -> Ranges:
    return [(int(first), int(end)) for first, end in zip(firsts, ends, strict=True)]
