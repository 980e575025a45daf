"""Brings to the topic what is due: fetched, appended, and told of, a batch at a time.

Who runs `deliver` runs it once at a time for each partition, at `next_ns`, and again a while after it was refused. What
the disk has refused is pending still; whether some of it has arrived all the same is found out before it goes again.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from goqueue.broker.delay import records
from goqueue.broker.delay.delays import Delays
from goqueue.broker.delay.parcel import Fetched, fetch, readdressed
from goqueue.broker.delay.schedule import DELIVERED, EXPIRED
from goqueue.broker.delay.wheel import NONE, Due, Numbers, in_order
from goqueue.broker.partition import Placement
from goqueue.broker.work import Promise, Work
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import (
    DELAY_BATCH_BYTES,
    DELAY_BATCH_MESSAGES,
    DELAY_FETCH_BYTES,
    DELAY_FETCH_MESSAGES,
    DELAY_SEARCH_BYTES,
)

_MANY = 20_000  # that are brought into order by a thread: more would keep the loop for milliseconds
_FEW = 32  # readdressed on the spot: a thread costs more


def _rest() -> None:
    """What a rule has done when it lets others have their turn."""


@dataclass(slots=True)
class _Express:
    """Messages that somebody waits for, in the order of their deadlines."""

    due: Due
    arrived: Promise[int]
    count: int = 0


class Postman:
    """Of one partition."""

    def __init__(self, delays: Delays, expiry_seconds: Callable[[], float | None]) -> None:
        self.delays = delays
        self._expiry_seconds = expiry_seconds
        self._ready: deque[Due] = deque()
        """Who is due, in order."""
        self._fetched: Fetched | None = None
        """What was read ahead, while some are ready."""
        self._express: deque[_Express] = deque()
        self.on_delivery: Callable[[Numbers], None] = lambda _: None
        """Called with how late messages were, in nanoseconds."""
        self.clock_ahead_ns: Callable[[], int] = lambda: 0
        """By how much the clock has jumped ahead: nothing is given up because of that."""

    @property
    def next_ns(self) -> int | None:
        """When to run `deliver`."""
        return 0 if self._ready or self._express else self.delays.next_ns

    def deliver(self, is_enough: Callable[[], bool] = lambda: False) -> Work[None]:
        """All who are due, until nobody is; `is_enough` is asked after each batch."""
        delays = self.delays
        try:
            yield from delays.be_ready()
            while not is_enough() and (batch := (yield from self._next())) is not None:
                yield from self._carry(*batch)
            self._fetched = None
        except BaseException as error:
            self._put_back()
            if isinstance(error, GoQueueError):
                self.refuse(error)
            raise

    def refuse(self, error: GoQueueError) -> None:
        """Tell those who wait for messages that they do not come now, and why."""
        refused, self._express = self._express, deque()
        for express in refused:
            express.arrived(error)

    def _put_back(self) -> None:
        self._fetched = None
        ready, self._ready = self._ready, deque()
        for _, offsets in ready:
            self.delays.file_again(offsets.tolist())

    def deliver_now(self, offsets: Numbers) -> Work[int]:
        """These, whenever they are due; how many of them were pending and went. They rise."""
        yield from self.delays.be_ready()
        self.delays.partition.log.refuse_unless_open()  # of a topic that was deleted nobody delivers anything
        chosen, arrived = self.delays.free(offsets), Promise[int]()
        due = self.delays.true_of(self.delays.schedule.dues_of(chosen), chosen)
        self._express.append(_Express(due, arrived))
        self.delays.on_earlier()
        count: int = yield arrived
        return count

    def _next(self) -> Work[tuple[Due, _Express | None] | None]:
        """Some who go together, in the order of their deadlines: those whom somebody waits for are first."""
        count = self._count_at_once()
        if self._express:
            express = self._express[0]
            dues, offsets = express.due
            express.due = dues[count:], offsets[count:]
            return self.delays.true_of(dues[:count], offsets[:count]), express
        now_ns = self.delays.clock.now_ns()
        while True:
            if self._ready and now_ns < self._ready[-1][0][-1]:  # the clock was set back
                self._put_back()
            if not self._ready:
                due = self.delays.drain(now_ns)
                if self.delays.wheel.is_spreading:
                    yield _rest
                    now_ns = self.delays.clock.now_ns()
                    continue
                if not len(due[0]):
                    return None
                self._ready.append(due)
                job = partial(in_order, due)
                self._ready[0] = job() if len(due[0]) <= _MANY else (yield job)
            dues, offsets = self._ready.popleft()
            if len(dues) > count:
                self._ready.appendleft((dues[count:], offsets[count:]))
            batch = self.delays.true_of(dues[:count], offsets[:count])
            if len(batch[0]):
                return batch, None

    def _count_at_once(self) -> int:
        return max(1, min(DELAY_BATCH_MESSAGES, DELAY_BATCH_BYTES // self.delays.inbox.message_bytes))

    def _carry(self, due: Due, express: _Express | None) -> Work[None]:
        delays, (dues, offsets) = self.delays, due
        numbers = offsets.tolist()
        delays.on_its_way.update(numbers)
        try:
            while len(offsets):
                sent = yield from self._send(dues, offsets, express)
                dues, offsets = dues[sent:], offsets[sent:]
        finally:
            delays.on_its_way.difference_update(numbers)
            delays.release(numbers)
        if express is not None and not len(express.due[0]) and not express.arrived.is_kept:
            self._express.popleft()
            express.arrived(express.count)

    def _send(self, dues: Numbers, offsets: Numbers, express: _Express | None) -> Work[int]:
        """As many of the first as go together; how many that were."""
        late = NONE if express is not None else self._too_late(dues, offsets)
        if len(late):
            yield from self._give_up(late)
            return len(late)
        fetched = yield from self._fetch(offsets)
        while fetched.is_over and len(offsets) > 1:
            dues, offsets = dues[: len(dues) // 2], offsets[: len(offsets) // 2]
            fetched = yield from fetch(self.delays.inbox, np.sort(offsets), DELAY_BATCH_BYTES)
        there = np.array([offset in fetched.frames for offset in offsets.tolist()], np.bool_)
        if not there.all():
            yield from self._give_up(np.sort(offsets[~there]))
        if there.any():
            yield from self._append(dues[there], offsets[there], fetched, express)
        return len(offsets)

    def _fetch(self, offsets: Numbers) -> Work[Fetched]:
        """These, and together with them those whose turn comes then."""
        if self._fetched is None or not self._fetched.covers(offsets):
            ready = [express.due for express in self._express] + list(self._ready)
            wanted = [offsets, *(ahead for _, ahead in ready)]
            count = min(DELAY_FETCH_MESSAGES, DELAY_FETCH_BYTES // self.delays.inbox.message_bytes)
            chosen = np.unique(np.concatenate(wanted)[: max(count, len(offsets))])
            self._fetched = yield from fetch(self.delays.inbox, chosen, DELAY_FETCH_BYTES)
            if self._fetched.is_over:  # some are far larger than the average
                self._fetched = yield from fetch(self.delays.inbox, np.sort(offsets), DELAY_BATCH_BYTES)
        return self._fetched

    def _too_late(self, dues: Numbers, offsets: Numbers) -> Numbers:
        """The first ones, in the order of their deadlines, that are not wanted any more; they rise."""
        seconds = self._expiry_seconds()
        if seconds is None:
            return NONE
        bound = self.delays.clock.now_ns() - self.clock_ahead_ns() - round(seconds * NANOSECONDS)
        return np.sort(offsets[: int(np.searchsorted(dues, bound))])

    def _give_up(self, offsets: Numbers) -> Work[None]:
        yield self.delays.record(records.settled(EXPIRED, offsets))
        yield from self.delays.catch_up()

    def _append(self, dues: Numbers, offsets: Numbers, fetched: Fetched, express: _Express | None) -> Work[None]:
        delays = self.delays
        job = partial(readdressed, [fetched.frames[offset] for offset in offsets.tolist()])
        frames = job() if len(offsets) <= _FEW else (yield job)
        yield from self._begin_search_here()
        # What is not on the device may be lost, and its offset be given to another, for which the copy would be taken.
        yield from delays.synced(delays.inbox, int(offsets.max()) + 1)
        if express is None and dues[-1] > delays.clock.now_ns():  # it was set back meanwhile
            return
        placed: Promise[Placement] = Promise()
        try:
            delays.partition.take(frames, None, placed)
            placement: Placement = yield placed
            late_ns = delays.clock.now_ns() - dues
            self.on_delivery(late_ns[late_ns >= 0])  # others somebody wanted before their time
            yield from delays.synced(delays.partition, placement.next_offset)
            yield from delays.tell_delivered(np.sort(offsets), placement.next_offset)
        except BaseException:
            delays.be_unsure()
            raise
        if express is not None:
            express.count += len(offsets)

    def _begin_search_here(self) -> Work[None]:
        """Nothing is on its way now: note that where a search after a crash would begin far back, or nowhere yet."""
        delays = self.delays
        end = delays.partition.durable_end  # what is behind it may be given out again after a crash
        if delays.since is None:
            yield from delays.tell_delivered(NONE, end)
            yield from delays.synced(delays.inbox, delays.inbox.log_end)
        elif delays.searched_bytes(end) > DELAY_SEARCH_BYTES:
            delays.record(records.settled(DELIVERED, NONE, end))

    def __repr__(self) -> str:
        return f"<Postman {self.delays!r}>"
