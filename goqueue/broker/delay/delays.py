"""The delayed messages of one partition: what their log says of them, and the decisions that are recorded there.

The delayed log is a partition of its own. Its state here follows it: `catch_up` reads what is new and applies it, in
live operation as in recovery, and nothing else changes what is durable. It is called before whoever published is
answered, and at the beginning of each rule. What is in a transaction waits in the table until a marker says how that
ended, and nobody else waits for it.

A message goes to the topic in this order: it is appended there; that it was delivered is recorded here, with the
position up to which the topic has been told of. So after a crash the topic is searched from the last such position
on, and what arrived there without being told of is recorded then. Until that was done (`unsure`) nothing is decided.

What must stay true: a message on which a decision is on its way to the disk is not delivered, and about one that is on
its way to the topic nothing is decided; so what was cancelled durably is never seen, and what was seen is delivered.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

import numpy as np

from goqueue.broker.delay import news, records, snapshot
from goqueue.broker.delay.columns import news_in, origins_in
from goqueue.broker.delay.news import News
from goqueue.broker.delay.refusals import not_found, not_pending
from goqueue.broker.delay.schedule import CANCELLED, DELIVERED, NEVER, Entry, Schedule
from goqueue.broker.delay.snapshot import Snapshot
from goqueue.broker.delay.wheel import NONE, Due, Numbers, Wheel, in_order
from goqueue.broker.partition import Partition
from goqueue.broker.sync import synced
from goqueue.broker.work import Promise, Work, run
from goqueue.clock import Clock
from goqueue.errors import GoQueueError
from goqueue.limits import DELAY_CLOCK_BACK_NS, DELAY_SEARCH_BYTES, READ_BYTES
from goqueue.storage.disk import Disk

_BRIEF_BYTES = 256 * 1024  # of frames that are taken in on the spot: a millisecond


class Delays:
    """What waits for its time in one partition."""

    def __init__(self, partition: Partition, inbox: Partition, clock: Clock) -> None:
        """`inbox` is the delayed log as a partition."""
        self.partition = partition
        self.inbox = inbox
        self.clock = clock
        self.schedule = Schedule()
        self.wheel = Wheel(clock.now_ns())
        self.applied = inbox.earliest
        """The offset that the state has come to."""
        self.since: int | None = None
        """Whatever was delivered below this offset of the topic has been told of; None before the first delivery."""
        self._told: deque[tuple[int, int]] = deque()
        """Where the log ended when it said so, and the `since` from then on, while that may not be on the device."""
        self._safe_since = 0
        """The last one that is."""
        self.unsure = False
        """Whether something may have arrived in the topic that has not been told of."""
        self._failures = 0
        self.on_its_way: set[int] = set()
        self.deciding: set[int] = set()
        """Offsets of which something is being recorded that is not durable yet."""
        self.scheduled = 0
        """Messages that the state has seen come, and of all of them together how long they were to wait."""
        self.ahead_seconds = 0.0
        self.on_earlier: Callable[[], None] = lambda: None
        """Called when there is something to be done before `next_ns` was."""
        self.on_settled: Callable[[int, int], None] = lambda _, __: None
        """Called with the end that messages came to, and how many they were."""
        self._horizon_ns = self.wheel.horizon_ns
        self._seen_ns = clock.now_ns()
        self._is_open = False
        self._is_behind = False
        self._saved = -1
        """The offset that the snapshot speaks of."""
        self.damaged: set[int] = set()
        """Segments, by their first offset, that cannot be written anew."""
        self.on_wait: Callable[[Promise[None]], None] = lambda promise: promise(None)
        """Called with what is to be kept in a moment: then it is looked again whether something was synced."""
        self._doubt: int | None = None
        """What `since` was when the log could not be read: of what came behind that, some may have been told there."""
        self._waiting: list[Promise[None]] = []
        inbox.watch(self._hear)
        partition.needed_from = self._needed_from

    def open(self, disk: Disk) -> None:
        """Make the state from the log, and from a snapshot where there is one that fits."""
        found = snapshot.read(disk, self.inbox.log.directory)
        if found is not None and self.inbox.earliest <= found.applied <= self.inbox.high_watermark:
            self._restore(found)
        elif found is not None:
            self._saved = 0  # it is there, and the log may grow to where it seems to fit
        try:
            run(self.catch_up())
        except GoQueueError as error:
            self.inbox.log.fence_off(error)
        self._is_open = True
        if self.since is not None:
            self.since = min(self.since, self.partition.log_end)
            self.unsure = self.since < self.partition.log_end
        self.unsure |= self._doubt is not None
        self.wind(self.clock.now_ns())

    def _restore(self, found: Snapshot) -> None:
        self.schedule = found.schedule(self.inbox.earliest)
        self.applied = self._saved = found.applied
        self.since, self.scheduled, self.ahead_seconds = found.since, found.scheduled, found.ahead_seconds
        self._safe_since = found.since or 0

    def save(self, disk: Disk, *, at_least_bytes: int = 0) -> Work[None]:
        """Spare the next start to read what the log says up to now, if that is so much."""
        log, size = self.inbox.log, (self.applied - self._saved) * self.inbox.message_bytes
        if size <= at_least_bytes or self.inbox.durable_end < self.applied or self._doubt is not None or log.is_closed:
            return
        is_quiet = not (self.on_its_way or self.unsure)
        since = self.partition.durable_end if is_quiet and self.since is not None else self.since
        found = Snapshot.of(self.schedule, self.applied, since, self.scheduled, self.ahead_seconds)
        yield partial(found.write, disk, log.directory)
        self._saved = found.applied

    def renew_snapshot(self, disk: Disk) -> Work[None]:
        """Before messages go from the midst of the log, and with them what was recorded of them.

        An older snapshot has them pending, and nothing behind it would say otherwise.
        """
        if self._saved < 0:
            return
        needed = self.applied
        yield from self.save(disk)
        if self._saved < needed:
            yield partial(snapshot.remove, disk, self.inbox.log.directory)
            self._saved = -1

    @property
    def name(self) -> str:
        return self.inbox.log.name

    # --- follow the log ---

    def _hear(self) -> None:
        """There is news, mostly in memory. What is not is left for the next rule."""
        self.inbox.watch(self._hear)
        if self.inbox.log.is_closed:
            return
        work = self.catch_up()
        with suppress(StopIteration):
            next(work)
            work.close()
            self._is_behind = True
            self.on_earlier()

    def catch_up(self) -> Work[None]:
        """Apply what the log says from where the state is."""
        while (began := self.applied) < self.inbox.high_watermark:
            start = max(began, self.inbox.earliest)
            read = yield from self.inbox.read_uncommitted(start, READ_BYTES, skip_damage=True)
            job = partial(news_in, read.buffers)
            found: News | None = None
            if read.buffers:
                found = job() if read.size <= _BRIEF_BYTES else (yield job)
            if self.applied != began:  # somebody else did
                continue
            if read.skipped:
                self._doubt = self.since or 0 if self._doubt is None else self._doubt
            if found is not None:
                self._apply(found)
            self.applied = read.next_offset
        self._is_behind = False

    def _apply(self, found: News) -> None:
        changes = news.apply(self.schedule, found)
        self.scheduled += changes.scheduled
        self.ahead_seconds += changes.ahead_seconds
        for dues, offsets in changes.filed:
            self.file(dues, offsets)
        if self._is_open:
            for state, settled in changes.settled.items():
                self.on_settled(state, settled)
        if changes.since is not None:
            self._tell_since(changes.since)

    def _tell_since(self, since: int) -> None:
        self.since, end = since, self.inbox.high_watermark
        if self._told and self._told[-1][0] == end:
            self._told.pop()
        self._told.append((end, since))
        self._take_note_of_synced()

    # --- deadlines ---

    def file(self, dues: Numbers, offsets: Numbers) -> None:
        """Have these drained when they are due; the offsets rise."""
        if not self._is_open or not len(dues):
            return
        before = self.next_ns
        self.wheel.add_many(dues, offsets)
        far = dues >= self.wheel.horizon_ns
        if far.any():
            self.schedule.park(offsets[far], dues[far])
        following = self.next_ns
        if following is not None and (before is None or following < before):
            self.on_earlier()

    def file_again(self, offsets: Iterable[int]) -> None:
        """Those of them that are pending still."""
        wanted = np.array(sorted(offsets), np.int64)
        dues = self.schedule.dues_of(wanted)
        pending = dues >= 0
        self.file(dues[pending], wanted[pending])

    def wind(self, now_ns: int) -> None:
        """Begin with a wheel of this moment."""
        self.wheel, self._seen_ns = Wheel(now_ns), now_ns
        self._horizon_ns = self.wheel.horizon_ns
        for chunk in self.schedule.chunks:
            pending = chunk.is_pending
            chunk.far_ns = int(chunk.dues[pending & (chunk.dues >= self._horizon_ns)].min(initial=NEVER))
            self.wheel.add_many(chunk.dues[pending], chunk.offsets[pending])
        self.on_earlier()

    def drain(self, now_ns: int) -> Due:
        """Whoever is due, in no order, and entries that are no longer true.

        A clock that was set back begins anew, since nothing may be early by it.
        """
        if now_ns < self._seen_ns - DELAY_CLOCK_BACK_NS:
            self.wind(now_ns)
        self._seen_ns = max(self._seen_ns, now_ns)  # set back a little again and again it goes back far
        due = self.wheel.drain(now_ns)
        if self.wheel.horizon_ns > self._horizon_ns:
            since_ns, self._horizon_ns = self._horizon_ns, self.wheel.horizon_ns
            for near, numbers in self.schedule.unpark(since_ns, self._horizon_ns):
                self.wheel.add_many(near, numbers)
        return due

    def true_of(self, dues: Numbers, offsets: Numbers) -> Due:
        """In order, those that are due then, and of which nothing is being decided."""
        true = self.schedule.still_due(dues, offsets)
        busy = self.on_its_way | self.deciding
        if busy:
            true &= ~np.isin(offsets, np.fromiter(busy, np.int64, len(busy)))
        return in_order((dues[true], offsets[true]))

    @property
    def next_ns(self) -> int | None:
        """When there is something to be done."""
        if self._is_behind or self.unsure:
            return 0
        far = self.schedule.far_ns if self.schedule.chunks else NEVER
        moments = [self.wheel.next_ns, None if far == NEVER else self.wheel.within_horizon_ns(far)]
        return min((moment for moment in moments if moment is not None), default=None)

    # --- what has arrived ---

    def make_sure(self) -> Work[None]:
        """Find out what has arrived in the topic without having been told of, and tell it."""
        while self.unsure:
            failures = self._failures
            self.partition.log.refuse_unless_open()  # what a fenced log really holds is not known
            end = self.partition.high_watermark
            since = self.since or 0 if self._doubt is None else self._doubt
            offsets = yield from self._arrived(since, end)
            yield from self.synced(self.partition, end)
            yield from self.tell_delivered(offsets[self.schedule.dues_of(offsets) >= 0], end)
            if failures == self._failures:  # else another delivery was refused meanwhile
                self.unsure, self._doubt = False, None

    def be_unsure(self) -> None:
        """A delivery was refused: some of it may have arrived."""
        self.unsure = True
        self._failures += 1

    def _arrived(self, offset: int, end: int) -> Work[Numbers]:
        """The messages whose copies stand in this part of the topic; their offsets here rise."""
        arrived = [NONE]
        while (offset := max(offset, self.partition.earliest)) < end:
            read = yield from self.partition.read_uncommitted(offset, READ_BYTES, skip_damage=True)
            if not read.buffers:
                break
            arrived.append((yield partial(origins_in, read.buffers)))
            offset = read.next_offset
        return np.unique(np.concatenate(arrived))

    def tell_delivered(self, offsets: Numbers, since: int) -> Work[None]:
        """They stand in the topic, below this offset; so does whatever else was delivered."""
        yield self.record(records.settled(DELIVERED, offsets, since))
        yield from self.catch_up()

    def search_from_here(self) -> Work[None]:
        """After a crash so much of the topic would be searched: spare that, now that nothing is on its way."""
        end = self.partition.durable_end  # what is behind it may be given out again after a crash
        is_known = self.since is not None and not (self.unsure or self.on_its_way or self._doubt is not None)
        if is_known and self.searched_bytes(end) > DELAY_SEARCH_BYTES:
            yield from self.tell_delivered(NONE, end)

    def searched_bytes(self, end: int) -> int:
        """How much of the topic a search up to there has to read, roughly."""
        return (end - (self.since or 0)) * self.partition.message_bytes

    def synced(self, partition: Partition, end: int) -> Work[None]:
        """Wait for the device where messages are answered before they are synced."""
        yield from synced(partition.log, end, self.on_wait)

    def _needed_from(self) -> int | None:
        """What a search of the topic may have to find must stay in it; None where nothing is on its way."""
        self._take_note_of_synced()
        is_quiet = not (self.unsure or self.on_its_way or self._told)
        if is_quiet and self.inbox.durable_end == self.inbox.log_end:
            return None
        return self._safe_since if self._doubt is None else min(self._safe_since, self._doubt)

    def _take_note_of_synced(self) -> None:
        while self._told and self._told[0][0] <= self.inbox.durable_end:
            self._safe_since = self._told.popleft()[1]

    # --- decide ---

    def record(self, *frames: bytes) -> Promise[object]:
        """Kept when they are durable."""
        durable: Promise[object] = Promise()
        self.inbox.offer(list(frames), durable)
        self.inbox.commit()
        return durable

    def be_ready(self) -> Work[None]:
        """Know all that is to be known before something is decided."""
        yield from self.catch_up()
        yield from self.make_sure()

    def look_up(self, offset: int) -> Work[Entry]:
        """What is known of it, by everybody who was answered before."""
        yield from self.catch_up()
        entry = self.schedule.find(offset)
        if entry is None:
            raise not_found(self.partition, offset)
        return entry

    def pending(self, offset: int) -> Work[Entry]:
        """The message, about which nothing else is being decided and which is not on its way."""
        while True:
            yield from self.make_sure()
            entry = yield from self.look_up(offset)
            if not entry.is_pending:
                raise not_pending(self.partition, entry)
            if offset in self.on_its_way or offset in self.deciding:
                yield self.settled()
            elif not self.unsure:
                return entry

    def settled(self) -> Promise[None]:
        """Kept when something that is on its way has come to its end."""
        promise: Promise[None] = Promise()
        self._waiting.append(promise)
        return promise

    def release(self, offsets: Iterable[int]) -> None:
        """They are on their way no more, wherever they are; whoever waited for some looks again."""
        waiting, self._waiting = self._waiting, []
        self.file_again(offsets)
        for promise in waiting:
            promise(None)

    def cancel(self, offset: int) -> Work[None]:
        yield from self.pending(offset)
        yield from self._decide(np.array([offset]), partial(records.settled, CANCELLED))

    def reschedule(self, offset: int, due_ns: int) -> Work[Entry]:
        """The message as it is then."""
        yield from self.pending(offset)
        offsets, dues = np.array([offset]), np.array([due_ns])
        yield from self._decide(offsets, lambda _: records.rescheduled(offsets, dues))
        return (yield from self.look_up(offset))

    def cancel_many(self, offsets: Numbers) -> Work[int]:
        """Those that are pending and not on their way; how many."""
        yield from self.be_ready()
        chosen = self.free(offsets)
        yield from self._decide(chosen, partial(records.settled, CANCELLED))
        return len(chosen)

    def reschedule_many(self, offsets: Numbers, due_of: Callable[[Numbers], Numbers]) -> Work[int]:
        """The same; `due_of` makes new deadlines of those that stand."""
        yield from self.be_ready()
        chosen = self.free(offsets)
        dues = due_of(self.schedule.dues_of(chosen))
        yield from self._decide(chosen, lambda _: records.rescheduled(chosen, dues))
        return len(chosen)

    def free(self, offsets: Numbers) -> Numbers:
        """Those that are pending and of which nothing is being decided; they rise."""
        pending = self.schedule.dues_of(offsets) >= 0
        busy = self.on_its_way | self.deciding
        if busy:
            pending &= ~np.isin(offsets, np.fromiter(busy, np.int64, len(busy)))
        return offsets[pending]

    def _decide(self, offsets: Numbers, frame_of: Callable[[Numbers], bytes]) -> Work[None]:
        if not len(offsets):
            return
        numbers = offsets.tolist()
        self.deciding.update(numbers)
        is_forsaken = False
        try:
            yield self.record(frame_of(offsets))
            yield from self.catch_up()
        except GeneratorExit:  # at a stop nobody waits any more: it is recorded all the same, and nothing may go first
            is_forsaken = True
            raise
        finally:
            if not is_forsaken:
                self.deciding.difference_update(numbers)
                self.release(numbers)

    def __repr__(self) -> str:
        return f"<Delays {self.name} {self.schedule.pending} pending>"
