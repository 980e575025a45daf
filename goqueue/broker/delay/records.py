"""Records in a delayed log: frames with the flag of control records.

The key is the kind, the value 8-byte integers:

    delivered     a topic position, then ranges of offsets: they are in the topic
    cancelled     ranges of offsets
    expired       ranges of offsets: too late to be delivered
    rescheduled   pairs of an offset and its new delivery time

A range is its first offset, and the one after its last. The topic position says: all earlier deliveries are recorded
here or before. A record refers to messages before it.

Control records of transactions are there as in any log.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from goqueue.broker.core.delay_headers import deliver_times
from goqueue.broker.delay.schedule import (
    CANCELLED,
    DELIVERED,
    EXPIRED,
    PENDING,
    STATES,
    UNDECIDED,
    Bytes,
    DeliverySchedule,
    Mask,
)
from goqueue.broker.delay.timing_wheel import DueEntries, Numbers
from goqueue.clock import NANOSECONDS
from goqueue.errors import FrameInvalid
from goqueue.quantities import quoted
from goqueue.storage import frame, scan
from goqueue.storage.epoch_frame import is_epoch_frame
from goqueue.storage.scan import Frames
from goqueue.storage.transaction_marker import classify_transactional, decode_marker, is_marker

RESCHEDULED = "rescheduled"
_ENDS = {STATES[state]: state for state in (DELIVERED, CANCELLED, EXPIRED)}
_NUMBER = np.dtype(">i8")


@dataclass(frozen=True, slots=True)
class DelayedSettled:
    """Messages that reached a final state."""

    state: int
    firsts: Numbers
    ends: Numbers
    since: int | None = None
    """The topic position where a search may begin."""

    @property
    def offsets(self) -> Numbers:
        counts = self.ends - self.firsts
        if not len(counts) or counts.max() == 1:
            return self.firsts
        steps = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        offsets: Numbers = np.repeat(self.firsts, counts) + steps
        return offsets


@dataclass(frozen=True, slots=True)
class DelayedRescheduled:
    """Messages with a new delivery time."""

    offsets: Numbers
    dues: Numbers


@dataclass(frozen=True, slots=True)
class DelayedTransactionEnded:
    is_commit: bool
    firsts: Numbers
    ends: Numbers
    time_ns: int


DelayRecord = DelayedSettled | DelayedRescheduled | DelayedTransactionEnded


def encode_settled(state: int, offsets: Numbers, since: int | None = None) -> bytes:
    """Encode the record; offsets are sorted."""
    assert (state == DELIVERED) == (since is not None), "only deliveries have a search position"
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    firsts = np.concatenate((offsets[:1], offsets[breaks]))
    ends = np.concatenate((offsets[breaks - 1], offsets[-1:])) + 1
    pairs = np.stack((firsts, ends), axis=1).ravel()
    numbers = pairs if since is None else np.concatenate(([since], pairs))
    return _encoded(STATES[state], numbers)


def encode_rescheduled(offsets: Numbers, dues: Numbers) -> bytes:
    """Encode the record; offsets are sorted."""
    return _encoded(RESCHEDULED, np.stack((offsets, dues), axis=1).ravel())


def _encoded(kind: str, numbers: Numbers) -> bytes:
    return frame.encode(numbers.astype(_NUMBER).tobytes(), kind.encode(), flags=frame.CONTROL)


def decode_delay_record(message: frame.StoredMessage) -> DelayRecord:
    if is_marker(message.flags):
        marker = decode_marker(message)
        edges = np.array(marker.ranges, np.int64).reshape(-1, 2)
        return DelayedTransactionEnded(marker.is_commit, edges[:, 0], edges[:, 1], message.timestamp_ns)
    kind = (message.key or b"").decode("utf-8", "replace")
    if len(message.value) % _NUMBER.itemsize:
        raise _impossible(kind, message)
    numbers = np.frombuffer(message.value, _NUMBER).astype(np.int64)
    since: int | None = None
    if kind == STATES[DELIVERED] and len(numbers):
        since, numbers = int(numbers[0]), numbers[1:]
    if len(numbers) % 2 or (kind != RESCHEDULED and kind not in _ENDS):
        raise _impossible(kind, message)
    pairs = numbers.reshape(-1, 2)
    if kind == RESCHEDULED:
        return DelayedRescheduled(pairs[:, 0], pairs[:, 1])
    return DelayedSettled(_ENDS[kind], pairs[:, 0], pairs[:, 1], since)


def _impossible(kind: str, message: frame.StoredMessage) -> FrameInvalid:
    return FrameInvalid(f"a delayed log cannot have a record {quoted(kind)} of {len(message.value)} bytes")


@dataclass(frozen=True, slots=True)
class DelayedLogEntries:
    offsets: Numbers
    dues: Numbers
    times: Numbers
    """Append times."""
    priorities: Bytes
    states: Bytes
    """Undecided for messages of a transaction."""
    records: list[DelayRecord]

    def of_messages_below(self, end: int) -> "DelayedLogEntries":
        """Return the entries without messages from an offset on."""
        wanted = self.offsets < end
        return DelayedLogEntries(
            self.offsets[wanted],
            self.dues[wanted],
            self.times[wanted],
            self.priorities[wanted],
            self.states[wanted],
            self.records,
        )


@dataclass(slots=True)
class ScheduleChanges:
    filed: list[DueEntries] = field(default_factory=list)
    """New delivery times with their sorted offsets; some may be outdated."""
    settled: Counter[int] = field(default_factory=Counter)
    """Number of messages by final state."""
    since: int | None = None
    """New topic position up to which deliveries are recorded, if there is one."""
    scheduled: int = 0
    """Number of new pending messages, and the sum of their delays."""
    ahead_seconds: float = 0.0

    def scheduled_from(self, times: Numbers | int, dues: Numbers, offsets: Numbers) -> None:
        self.filed.append((dues, offsets))
        self.scheduled += len(dues)
        self.ahead_seconds += float((dues - times).clip(0).sum()) / NANOSECONDS


def apply_log_entries(schedule: DeliverySchedule, entries: DelayedLogEntries) -> ScheduleChanges:
    """Apply entries to the schedule. Records refer to earlier messages, so all messages may be added first."""
    changes = ScheduleChanges()
    schedule.add(entries.offsets, entries.dues, entries.priorities, entries.states)
    plain = entries.states == PENDING
    changes.scheduled_from(entries.times[plain], entries.dues[plain], entries.offsets[plain])
    for record in entries.records:
        if isinstance(record, DelayedTransactionEnded):
            _end(schedule, record, changes)
        elif isinstance(record, DelayedRescheduled):
            moved = schedule.move(record.offsets, record.dues)
            changes.filed.append((record.dues[moved], record.offsets[moved]))
        else:
            changes.settled[record.state] += schedule.settle(record.offsets, record.state)
            changes.since = changes.since if record.since is None else record.since
    return changes


def _end(schedule: DeliverySchedule, record: DelayedTransactionEnded, changes: ScheduleChanges) -> None:
    if record.is_commit:
        changes.scheduled_from(record.time_ns, *schedule.commit(record.firsts, record.ends, record.time_ns))
    else:
        schedule.abort(record.firsts, record.ends)


def read_log_changes(buffers: Iterable[memoryview]) -> DelayedLogEntries:
    """Decode all messages and records of these frames."""
    found = [_decode_entries(scan.walk(buffer)) for buffer in buffers]
    return DelayedLogEntries(
        np.concatenate([one.offsets for one in found]),
        np.concatenate([one.dues for one in found]),
        np.concatenate([one.times for one in found]),
        np.concatenate([one.priorities for one in found]),
        np.concatenate([one.states for one in found]),
        [record for one in found for record in one.records],
    )


def _decode_entries(frames: Frames) -> DelayedLogEntries:
    control = (frames.flags & frame.CONTROL) != 0
    records = [frame.decode(frames.buffer.data, at) for at in frames.positions[control].tolist()]
    decoded = [decode_delay_record(record) for record in records if not is_epoch_frame(record)]
    dues, times, priorities = deliver_times(frames, ~control), frames.timestamps[~control], frames.priorities[~control]
    is_undecided = classify_transactional(frames)[0][~control]
    states = np.where(is_undecided, np.uint8(UNDECIDED), np.uint8(PENDING))
    return DelayedLogEntries(frames.offsets[~control], dues, times, priorities, states, decoded)


def needed_records(frames: Frames, rows: Numbers, left: list[tuple[int, int]], staying: Numbers) -> Mask:
    """Return which control records must stay if all messages in `left` ranges and the `staying` ones stay.

    A record stays if it ends a message in one of the ranges; an end of a transaction also if one of its messages
    stays. Epoch frames stay.
    """
    stays = np.zeros(len(rows), np.bool_)
    for place, position in enumerate(frames.positions[rows].tolist()):
        message = frame.decode(frames.buffer.data, position)
        if is_epoch_frame(message):
            stays[place] = True
            continue
        record = decode_delay_record(message)
        if isinstance(record, DelayedRescheduled):
            continue
        stays[place] = any(bool(((record.firsts < end) & (record.ends > first)).any()) for first, end in left)
        if isinstance(record, DelayedTransactionEnded):
            stays[place] |= bool(
                (np.searchsorted(staying, record.firsts) < np.searchsorted(staying, record.ends)).any()
            )
    return stays
