"""The delayed messages of one partition: the state from their log, and the decisions recorded there.

The delayed log is a partition of its own. `catch_up` reads what is new and applies it, in live operation and in
recovery; nothing else changes durable state. It runs before a publish is answered and at the beginning of each rule.
Messages of a transaction wait until its control record.

A message is delivered in this order: append to the topic, then record the delivery here with the topic position up
to which deliveries are recorded. After a crash the topic is searched from the last such position, and unrecorded
deliveries are recorded then. Until that is done (`unsure`) nothing is decided.

Invariant: a message with a decision being recorded is not delivered, and no decision is made about a message being
delivered. So a durably cancelled message is never visible, and a visible one is delivered.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

import numpy as np

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Promise, Work, run_work
from goqueue.broker.delay.arrivals import find_arrived, kept_end
from goqueue.broker.delay.records import (
    DelayedLogEntries,
    apply_log_entries,
    encode_rescheduled,
    encode_settled,
    read_log_changes,
)
from goqueue.broker.delay.refusals import delayed_not_found, delayed_not_pending
from goqueue.broker.delay.schedule import CANCELLED, DELIVERED, NEVER, DeliverySchedule, Mask, ScheduledMessage
from goqueue.broker.delay.snapshot import ScheduleSnapshot, read_snapshot, remove_snapshot
from goqueue.broker.delay.timing_wheel import NONE, DueEntries, Numbers, TimingWheel, sort_due
from goqueue.clock import Clock
from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import DELAY_CLOCK_BACK_NS, DELAY_SEARCH_BYTES, READ_BYTES
from goqueue.storage.disk import Disk

_BRIEF_BYTES = 256 * 1024  # of frames that are decoded inline: a millisecond


class DelayedMessages:
    """The delayed messages of one partition."""

    def __init__(self, partition: Partition, delayed_log: Partition, disk: Disk, clock: Clock) -> None:
        self.partition = partition
        self.delayed_log = delayed_log
        self.clock = clock
        self._disk = disk
        self.on_earlier: Signal[[]] = Signal()
        """Emitted when there is work before the last `next_ns`."""
        self.on_settled: Signal[[int, int]] = Signal()  # a final state, and how many messages reached it
        self.on_applied: Signal[[DelayedLogEntries]] = Signal()
        self._waiting: list[Promise[None]] = []
        self._led_in = 0
        """The leader epoch in which this node leads both logs; 0: it does not, or is alone."""
        self._is_cut = False
        """Whether something that was read is being removed from the log."""
        self._begin()
        delayed_log.watch(self._on_appended)
        delayed_log.derived.append(self)
        partition.needed_from = self._needed_from

    def _begin(self) -> None:
        """Begin with an empty state: before the log is read, and read again after it was cut back."""
        self.schedule = DeliverySchedule()
        self.wheel = TimingWheel(self.clock.now_ns())
        self.applied = self.delayed_log.earliest
        """The offset up to which the state was read."""
        self.since: int | None = None
        """Deliveries below this topic offset are recorded; None before the first one."""
        self._since_noted: deque[tuple[int, int]] = deque()
        """Log end and `since` of records that may not be on the device."""
        self._safe_since = 0
        """The last `since` that is on the device."""
        self.unsure = False
        """Whether the topic may have deliveries that are not recorded."""
        self._failures = 0
        self.delivering: set[int] = set()
        self.deciding: set[int] = set()
        """Offsets with a decision that is not durable yet."""
        self.scheduled = 0
        """Number of scheduled messages, and the sum of their delays."""
        self.ahead_seconds = 0.0
        self._horizon_ns = self.wheel.horizon_ns
        self._seen_ns = self.clock.now_ns()
        self._is_open = False
        self._is_behind = False
        self._saved = -1  # the offset of the snapshot
        self.damaged: set[int] = set()
        """First offsets of segments that are damaged and cannot be rewritten."""
        self._doubt: int | None = None
        """The value of `since` when a part of the log could not be read: later deliveries may be unrecorded."""

    @property
    def is_led(self) -> bool:
        """True if this node decides: in a cluster, when it leads both logs, and all that it inherited is committed."""
        roles = self.partition.leadership, self.delayed_log.leadership
        return all(role is None or role.knows_end for role in roles)

    def look(self) -> None:
        """Look who leads. A new leader does not know what was delivered; earlier ones cannot deliver any more."""
        role = self.delayed_log.leadership
        epoch = role.leader_epoch if role is not None and self.is_led else 0
        if epoch != self._led_in:
            self._led_in = epoch
            self.unsure = True
            self.on_earlier.emit()

    def drop_caches(self, offset: int) -> None:
        """Remove a snapshot that has records of this offset or later ones."""
        self._is_cut |= offset < self.applied
        directory = self.delayed_log.log.directory
        found = read_snapshot(self._disk, directory)
        if found is None or found.applied > offset:
            remove_snapshot(self._disk, directory)

    def rebuild(self) -> None:
        """Derive the state anew from a log that was cut back. Nothing may be decided or delivered meanwhile."""
        if not self._is_cut:  # nothing of what is gone was read
            return
        assert not self.delivering | self.deciding, "a log is cut back when nothing is under way"
        self._is_cut = False
        self.open()

    def open(self) -> None:
        """Rebuild the state from the log, and from a snapshot if one fits."""
        if self._is_open:
            self._begin()
        found = read_snapshot(self._disk, self.delayed_log.log.directory)
        if found is not None and self.delayed_log.earliest <= found.applied <= self.delayed_log.high_watermark:
            self._restore(found)
        elif found is not None:
            self._saved = 0  # a stale snapshot must be replaced before the log grows to its offset
        try:
            run_work(self.catch_up())
        except GoQueueError as error:
            self.delayed_log.log.fence_off(error)
        self._is_open = True
        if self.since is not None:
            self.since = min(self.since, self.partition.log_end)
            self.unsure = self.since < self.partition.log_end
        self.unsure |= self._doubt is not None
        self.wind(self.clock.now_ns())

    def _restore(self, found: ScheduleSnapshot) -> None:
        self.schedule = found.schedule(self.delayed_log.earliest)
        self.applied = self._saved = found.applied
        self.since, self.scheduled, self.ahead_seconds = found.since, found.scheduled, found.ahead_seconds
        self._safe_since = found.since or 0

    def save(self, disk: Disk, *, at_least_bytes: int = 0) -> Work[None]:
        """Write a snapshot if it saves the next start this many bytes of reading."""
        log, size = self.delayed_log.log, (self.applied - self._saved) * self.delayed_log.message_bytes
        if (
            size <= at_least_bytes
            or self.delayed_log.durable_end < self.applied
            or self._doubt is not None
            or log.is_closed
        ):
            return
        is_quiet = self.is_led and not (self.delivering or self.unsure)
        since = kept_end(self.partition) if is_quiet and self.since is not None else self.since
        found = ScheduleSnapshot.of(self.schedule, self.applied, since, self.scheduled, self.ahead_seconds)
        yield partial(found.write, disk, log.directory)
        self._saved = found.applied

    def renew_snapshot(self, disk: Disk) -> Work[None]:
        """Renew or remove the snapshot before messages are removed from the middle of the log.

        An older snapshot has them pending, and nothing after it would correct that.
        """
        if self._saved < 0:
            return
        needed = self.applied
        yield from self.save(disk)
        if self._saved < needed:
            yield partial(remove_snapshot, disk, self.delayed_log.log.directory)
            self._saved = -1

    @property
    def name(self) -> str:
        return self.delayed_log.log.name

    # --- follow the log ---

    def _on_appended(self) -> None:
        """Apply new entries if they are in memory; otherwise the next rule does it."""
        self.delayed_log.watch(self._on_appended)
        if self.delayed_log.log.is_closed:
            return
        work = self.catch_up()
        with suppress(StopIteration):
            next(work)
            work.close()
            self._is_behind = True
            self.on_earlier.emit()

    def catch_up(self) -> Work[None]:
        while (began := self.applied) < self.delayed_log.high_watermark:
            start = max(began, self.delayed_log.earliest)
            read = yield from self.delayed_log.read_uncommitted(start, READ_BYTES, skip_damage=True)
            job = partial(read_log_changes, read.buffers)
            found: DelayedLogEntries | None = None
            if read.buffers:
                found = job() if read.size <= _BRIEF_BYTES else (yield job)
            if self.applied != began:  # another caller did
                continue
            if read.skipped:
                self._doubt = self.since or 0 if self._doubt is None else self._doubt
            if found is not None:
                self._apply(found)
            self.applied = read.next_offset
        self._is_behind = False

    def _apply(self, found: DelayedLogEntries) -> None:
        changes = apply_log_entries(self.schedule, found)
        self.scheduled += changes.scheduled
        self.ahead_seconds += changes.ahead_seconds
        for dues, offsets in changes.filed:
            self.file(dues, offsets)
        if self._is_open:
            self.on_applied.emit(found)
            for state, settled in changes.settled.items():
                self.on_settled.emit(state, settled)
        if changes.since is not None:
            self._note_since(changes.since)

    def _note_since(self, since: int) -> None:
        self.since, end = since, self.delayed_log.high_watermark
        if self._since_noted and self._since_noted[-1][0] == end:
            self._since_noted.pop()
        self._since_noted.append((end, since))
        self._take_note_of_synced()

    # --- deadlines ---

    def file(self, dues: Numbers, offsets: Numbers) -> None:
        """Add these to the timing wheel; offsets are sorted."""
        if not self._is_open or not len(dues):
            return
        before = self.next_ns
        self.wheel.add_many(dues, offsets)
        far = dues >= self.wheel.horizon_ns
        if far.any():
            self.schedule.park(offsets[far], dues[far])
        following = self.next_ns
        if following is not None and (before is None or following < before):
            self.on_earlier.emit()

    def reinsert(self, offsets: Iterable[int]) -> None:
        """Add the pending ones among these to the timing wheel again."""
        wanted = np.array(sorted(offsets), np.int64)
        pending = (dues := self.schedule.dues_of(wanted)) >= 0
        self.file(dues[pending], wanted[pending])

    def wind(self, now_ns: int) -> None:
        """Rebuild the timing wheel at this time."""
        self.wheel, self._seen_ns = TimingWheel(now_ns), now_ns
        self._horizon_ns = self.wheel.horizon_ns
        for chunk in self.schedule.chunks:
            pending = chunk.is_pending
            chunk.far_ns = int(chunk.dues[pending & (chunk.dues >= self._horizon_ns)].min(initial=NEVER))
            self.wheel.add_many(chunk.dues[pending], chunk.offsets[pending])
        self.on_earlier.emit()

    def drain(self, now_ns: int) -> DueEntries:
        """Return due entries, unordered and possibly outdated.

        If the clock was set back, the wheel is rebuilt, so that nothing is early.
        """
        if now_ns < self._seen_ns - DELAY_CLOCK_BACK_NS:
            self.wind(now_ns)
        self._seen_ns = max(self._seen_ns, now_ns)  # small steps back add up
        due = self.wheel.drain(now_ns)
        if self.wheel.horizon_ns > self._horizon_ns:
            since_ns, self._horizon_ns = self._horizon_ns, self.wheel.horizon_ns
            for near, numbers in self.schedule.unpark(since_ns, self._horizon_ns):
                self.wheel.add_many(near, numbers)
        return due

    def still_due(self, dues: Numbers, offsets: Numbers) -> DueEntries:
        """Return the valid entries in order: still due then, and free."""
        true = self.schedule.still_due(dues, offsets) & self._is_free(offsets)
        return sort_due((dues[true], offsets[true]))

    @property
    def next_ns(self) -> int | None:
        if not self.is_led:
            return None
        if self._is_behind or self.unsure:
            return 0
        far = self.schedule.far_ns if self.schedule.chunks else NEVER
        moments = [self.wheel.next_ns, None if far == NEVER else self.wheel.within_horizon_ns(far)]
        return min((moment for moment in moments if moment is not None), default=None)

    # --- what has arrived ---

    def make_sure(self) -> Work[None]:
        """Search the topic for unrecorded deliveries and record them."""
        while self.unsure:
            yield from self.catch_up()
            failures = self._failures
            self.partition.log.refuse_unless_open()  # the content of a fenced log is not known
            if self.since is None and self._doubt is None:  # nothing was ever delivered
                self.unsure = False
                return
            end = self.partition.log_end
            yield from self.partition.synced(end)  # what was refused before may be committed all the same
            since = min(self.since or 0, end) if self._doubt is None else self._doubt
            offsets = yield from find_arrived(self.partition, since, end)
            yield from self.record_delivered(offsets[self.schedule.dues_of(offsets) >= 0], end)
            if failures == self._failures:  # otherwise another delivery failed meanwhile
                self.unsure, self._doubt = False, None

    def mark_unsure(self) -> None:
        """Note a failed delivery: some of it may be in the topic."""
        self.unsure = True
        self._failures += 1

    def record_delivered(self, offsets: Numbers, since: int) -> Work[None]:
        yield self.record(encode_settled(DELIVERED, offsets, since))
        yield from self.catch_up()

    def search_from_here(self) -> Work[None]:
        """Record a new search position if the next start would have to read too much."""
        end, is_known = kept_end(self.partition), self.since is not None and self._doubt is None
        is_quiet = self.is_led and is_known and not (self.unsure or self.delivering)
        if is_quiet and self.searched_bytes(end) > DELAY_SEARCH_BYTES:
            yield from self.record_delivered(NONE, end)

    def searched_bytes(self, end: int) -> int:
        """Estimate how many bytes of the topic a search has to read."""
        return (end - (self.since or 0)) * self.partition.message_bytes

    def _needed_from(self) -> int | None:
        """Return the topic offset that a search needs, or None if no delivery is under way."""
        role = self.partition.leadership
        if role is not None and not role.is_leading:  # it keeps what its leader keeps
            return None
        self._take_note_of_synced()
        is_quiet = self.is_led and not (self.unsure or self.delivering or self._since_noted)
        if is_quiet and self.delayed_log.durable_end == self.delayed_log.log_end:
            return None
        return self._safe_since if self._doubt is None else min(self._safe_since, self._doubt)

    def _take_note_of_synced(self) -> None:
        while self._since_noted and self._since_noted[0][0] <= self.delayed_log.durable_end:
            self._safe_since = self._since_noted.popleft()[1]

    # --- decide ---

    def record(self, *frames: bytes) -> Promise[object]:
        """Append records; the promise is kept when they are durable."""
        durable: Promise[object] = Promise()
        self.delayed_log.offer(list(frames), durable)
        self.delayed_log.commit()
        return durable

    def catch_up_fully(self) -> Work[None]:
        """Bring the state up to date before a decision."""
        yield from self.catch_up()
        yield from self.make_sure()

    def look_up(self, offset: int) -> Work[ScheduledMessage]:
        """Return a message, including everything answered before."""
        yield from self.catch_up()
        entry = self.schedule.find(offset)
        if entry is None:
            raise delayed_not_found(self.partition, offset)
        return entry

    def pending(self, offset: int) -> Work[ScheduledMessage]:
        """Return a pending message that has no decision or delivery under way; wait for that."""
        while True:
            yield from self.make_sure()
            entry = yield from self.look_up(offset)
            if not entry.is_pending:
                raise delayed_not_pending(self.partition, entry)
            if offset in self.delivering or offset in self.deciding:
                yield self.settled()
            elif not self.unsure:
                return entry

    def settled(self) -> Promise[None]:
        """Return a promise that is kept when some delivery or decision ends."""
        promise: Promise[None] = Promise()
        self._waiting.append(promise)
        return promise

    def release(self, offsets: Iterable[int]) -> None:
        """Schedule these again if they are still pending, and wake all waiting rules."""
        waiting, self._waiting = self._waiting, []
        self.reinsert(offsets)
        for promise in waiting:
            promise(None)

    def cancel(self, offset: int) -> Work[None]:
        yield from self.pending(offset)
        yield from self._decide(np.array([offset]), partial(encode_settled, CANCELLED))

    def reschedule(self, offset: int, due_ns: int) -> Work[ScheduledMessage]:
        yield from self.pending(offset)
        offsets, dues = np.array([offset]), np.array([due_ns])
        yield from self._decide(offsets, lambda _: encode_rescheduled(offsets, dues))
        return (yield from self.look_up(offset))

    def cancel_many(self, offsets: Numbers) -> Work[int]:
        yield from self.catch_up_fully()
        chosen = self.free(offsets)
        yield from self._decide(chosen, partial(encode_settled, CANCELLED))
        return len(chosen)

    def reschedule_many(self, offsets: Numbers, due_of: Callable[[Numbers], Numbers]) -> Work[int]:
        """Reschedule those that are pending and free to `due_of(old delivery times)`; return how many."""
        yield from self.catch_up_fully()
        chosen = self.free(offsets)
        dues = due_of(self.schedule.dues_of(chosen))
        yield from self._decide(chosen, lambda _: encode_rescheduled(chosen, dues))
        return len(chosen)

    def free(self, offsets: Numbers) -> Numbers:
        """Return those that are pending without a decision or delivery under way."""
        return offsets[(self.schedule.dues_of(offsets) >= 0) & self._is_free(offsets)]

    def _is_free(self, offsets: Numbers) -> Mask:
        """Return which have no decision or delivery under way."""
        busy = self.delivering | self.deciding
        free: Mask = ~np.isin(offsets, np.fromiter(busy, np.int64, len(busy)))
        return free

    def _decide(self, offsets: Numbers, frame_of: Callable[[Numbers], bytes]) -> Work[None]:
        if not len(offsets):
            return
        numbers = offsets.tolist()
        self.deciding.update(numbers)
        is_forsaken = False
        try:
            yield self.record(frame_of(offsets))
            yield from self.catch_up()
        except GeneratorExit:  # at a stop: the decision is still recorded, and nothing may be delivered before it
            is_forsaken = True
            raise
        finally:
            if not is_forsaken:
                self.deciding.difference_update(numbers)
                self.release(numbers)
