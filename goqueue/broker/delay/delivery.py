"""Delivers due messages of one partition to its topic: fetch, append, and record, in batches.

`deliver` runs once at a time per partition, at `next_ns`, and again some time after a refusal. Refused messages stay
pending; whether some arrived is found out before the next attempt.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from goqueue.broker.core.delay_headers import find_leading_header, write_origin_headers
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.delay.arrivals import kept_end
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.broker.delay.records import encode_settled
from goqueue.broker.delay.schedule import DELIVERED, EXPIRED
from goqueue.broker.delay.timing_wheel import NONE, DueEntries, Numbers, sort_due
from goqueue.clock import NANOSECONDS
from goqueue.delay import DELIVER_AT, DELIVER_IN, delayed_of_header
from goqueue.errors import GoQueueError, OffsetOutOfRange
from goqueue.events import Signal
from goqueue.limits import (
    DELAY_BATCH_BYTES,
    DELAY_BATCH_MESSAGES,
    DELAY_FETCH_BYTES,
    DELAY_FETCH_GAP_BYTES,
    DELAY_FETCH_MESSAGES,
    DELAY_SEARCH_BYTES,
    READ_BYTES,
)
from goqueue.storage import frame, scan
from goqueue.storage.reads import PendingRead, ReadResult
from goqueue.storage.scan import Frames
from goqueue.wire.sections import PRODUCER_HEADER

_SCHEDULING = frozenset({PRODUCER_HEADER, DELIVER_AT, DELIVER_IN})
_LOCATED = 500  # ranges per turn: a millisecond or two of the event loop
_FEW = 32  # picked or converted inline: a thread costs more
_MANY = 20_000  # entries sorted inline; more are sorted on a thread


def yield_turn() -> None:
    """Do nothing: a job that lets other work run."""


@dataclass(slots=True)
class FetchedFrames:
    """Fetched frames by offset."""

    asked: Numbers
    """The requested offsets, sorted."""
    frames: dict[int, memoryview] = field(default_factory=dict)
    size: int = 0
    is_over: bool = False
    """Whether it stopped at the size limit."""

    def covers(self, offsets: Numbers) -> bool:
        """Return whether all readable frames of these offsets are here."""
        return not self.is_over and bool(np.isin(offsets, self.asked).all())


@dataclass(slots=True)
class _OffsetStretch:
    """A range of neighboring offsets, read together."""

    next: int
    end: int


def fetch_frames(partition: Partition, offsets: Numbers, bytes_max: int) -> Work[FetchedFrames]:
    """Fetch the readable frames of these sorted offsets."""
    fetched = FetchedFrames(offsets)
    gap = max(1, DELAY_FETCH_GAP_BYTES // partition.message_bytes)
    stretches = _stretches(offsets[offsets >= partition.earliest], gap)
    while stretches and not fetched.is_over:
        some, others = stretches[:_LOCATED], stretches[_LOCATED:]
        located = [(stretch, _locate(partition, stretch)) for stretch in some]
        job = partial(_load, located, offsets, fetched, bytes_max)
        if len(offsets) <= _FEW and all(isinstance(found, ReadResult) for _, found in located):
            job()
        else:
            yield job
        stretches = [stretch for stretch in some if stretch.next < stretch.end] + others
    return fetched


def _stretches(offsets: Numbers, gap: int) -> list[_OffsetStretch]:
    if not len(offsets):
        return []
    breaks = np.flatnonzero(np.diff(offsets) > gap) + 1
    firsts, lasts = offsets[[0, *breaks]].tolist(), offsets[[*(breaks - 1), -1]].tolist()
    return [_OffsetStretch(first, last + 1) for first, last in zip(firsts, lasts, strict=True)]


def _locate(partition: Partition, stretch: _OffsetStretch) -> ReadResult | PendingRead:
    stretch.next = max(stretch.next, partition.earliest)
    size = min(READ_BYTES, 4096 + 2 * partition.message_bytes * (stretch.end - stretch.next))
    try:
        found = partition.log.locate(stretch.next, size, skip_damage=True)
    except OffsetOutOfRange:
        return ReadResult((), stretch.end)
    return replace(found, limit=min(found.limit, stretch.end)) if isinstance(found, PendingRead) else found


def _load(
    located: list[tuple[_OffsetStretch, ReadResult | PendingRead]],
    offsets: Numbers,
    fetched: FetchedFrames,
    bytes_max: int,
) -> None:
    for stretch, found in located:
        read = found.load() if isinstance(found, PendingRead) else found
        ends_here = not read.buffers and read.next_offset <= stretch.next
        stretch.next = stretch.end if ends_here else read.next_offset
        for buffer in read.buffers:
            _pick_frames(buffer, offsets, fetched)
        if fetched.size > bytes_max:
            fetched.is_over = True
            return


def _pick_frames(buffer: memoryview, offsets: Numbers, fetched: FetchedFrames) -> None:
    frames = scan.walk(buffer)
    rows = np.flatnonzero(np.isin(frames.offsets, offsets, assume_unique=True))
    starts, lengths = frames.positions[rows].tolist(), frames.lengths[rows].tolist()
    for offset, start, length in zip(frames.offsets[rows].tolist(), starts, lengths, strict=True):
        if offset not in fetched.frames:
            fetched.frames[offset] = buffer[start : start + length]
            fetched.size += length


def make_topic_frames(contents: Iterable[memoryview]) -> Frames:
    """Convert frames of a delayed log to frames of the topic, without offset and time."""
    frames = scan.walk(bytearray(b"".join(contents)))
    everything = np.ones(len(frames), np.bool_)
    plain = (
        find_leading_header(frames, everything, DELIVER_AT)[0] | find_leading_header(frames, everything, DELIVER_IN)[0]
    )
    if not plain.all():  # a producer mark is the first header
        buffer = frames.buffer.data
        places = zip(frames.positions.tolist(), frames.lengths.tolist(), plain.tolist(), strict=True)
        parts = [buffer[at : at + size] if is_plain else _encoded_anew(buffer, at) for at, size, is_plain in places]
        frames = scan.walk(bytearray(b"".join(parts)))
    write_origin_headers(frames, np.flatnonzero(plain))
    _sum_again(frames)
    return frames


def _encoded_anew(buffer: memoryview, position: int) -> bytes:
    message = frame.decode(buffer, position)
    own = [pair for pair in message.headers if pair[0] not in _SCHEDULING]
    headers = frame.encode_headers([delayed_of_header(message.offset), *own])
    return frame.encode(
        message.value,
        message.key,
        headers,
        priority=message.priority,
        flags=message.flags & ~frame.HAS_HEADERS,
        offset=message.offset,
    )


def _sum_again(frames: Frames) -> None:
    ends = frames.positions + frames.lengths
    found = frame.checksums_of(frames.buffer.data, frames.positions.tolist(), ends.tolist(), frames.flags.tolist())
    scan.column(frames.buffer, ">u4", frame.AT_CRC)[frames.positions] = found


@dataclass(slots=True)
class _DeliverNow:
    """A request to deliver messages now, ordered by delivery time."""

    due: DueEntries
    arrived: Promise[int]
    count: int = 0


class PartitionDelivery:
    """Delivers the delayed messages of one partition."""

    def __init__(self, delays: DelayedMessages, expiry_seconds: Callable[[], float | None]) -> None:
        self.delays = delays
        self._expiry_seconds = expiry_seconds
        self._ready: deque[DueEntries] = deque()
        """Due entries, sorted."""
        self._fetched: FetchedFrames | None = None
        """Frames read ahead for ready entries."""
        self._requests: deque[_DeliverNow] = deque()
        self.on_delivery: Signal[[Numbers]] = Signal()
        """Emitted with the lateness of delivered messages in nanoseconds."""
        self.on_placed: Signal[[Numbers, Placement]] = Signal()
        """Emitted with offsets in the delayed log, and where these messages are in the topic, in the same order."""
        self.clock_ahead_ns: Callable[[], int] = lambda: 0
        """Returns how far the clock has jumped ahead, which does not count for expiry."""

    @property
    def next_ns(self) -> int | None:
        if not self.delays.is_led:
            return 0 if self._requests else None
        return 0 if self._ready or self._requests else self.delays.next_ns

    def deliver(self, is_enough: Callable[[], bool] = lambda: False) -> Work[None]:
        """Deliver all due messages; stop after a batch if `is_enough()`."""
        delays, role = self.delays, self.delays.delayed_log.leadership
        if role is not None and not delays.is_led:
            self.refuse(role.lost())
            return
        try:
            yield from delays.catch_up_fully()
            while not is_enough() and (batch := (yield from self._next_batch())) is not None:
                yield from self._deliver(*batch)
            self._fetched = None
        except BaseException as error:
            self._put_back()
            if isinstance(error, GoQueueError):
                self.refuse(error)
            raise

    def refuse(self, error: GoQueueError) -> None:
        """Answer all requests to deliver now with this error."""
        refused, self._requests = self._requests, deque()
        for request in refused:
            request.arrived(error)

    def _put_back(self) -> None:
        self._fetched = None
        ready, self._ready = self._ready, deque()
        for _, offsets in ready:
            self.delays.reinsert(offsets.tolist())

    def deliver_now(self, offsets: Numbers) -> Work[int]:
        """Deliver these sorted offsets now; return how many were pending."""
        yield from self.delays.catch_up_fully()
        self.delays.partition.log.refuse_unless_open()  # a deleted topic gets no deliveries
        chosen, arrived = self.delays.free(offsets), Promise[int]()
        due = self.delays.still_due(self.delays.schedule.dues_of(chosen), chosen)
        self._requests.append(_DeliverNow(due, arrived))
        self.delays.on_earlier.emit()
        count: int = yield arrived
        return count

    def _next_batch(self) -> Work[tuple[DueEntries, _DeliverNow | None] | None]:
        """Return the next batch by delivery time; requested deliveries come first."""
        count = self._count_at_once()
        if self._requests:
            request = self._requests[0]
            dues, offsets = request.due
            request.due = dues[count:], offsets[count:]
            return self.delays.still_due(dues[:count], offsets[:count]), request
        now_ns = self.delays.clock.now_ns()
        while True:
            if self._ready and now_ns < self._ready[-1][0][-1]:
                self._put_back()
            if not self._ready:
                due = self.delays.drain(now_ns)
                if self.delays.wheel.is_spreading:
                    yield yield_turn
                    now_ns = self.delays.clock.now_ns()
                    continue
                if not len(due[0]):
                    return None
                self._ready.append(due)
                job = partial(sort_due, due)
                self._ready[0] = job() if len(due[0]) <= _MANY else (yield job)
            dues, offsets = self._ready.popleft()
            if len(dues) > count:
                self._ready.appendleft((dues[count:], offsets[count:]))
            batch = self.delays.still_due(dues[:count], offsets[:count])
            if len(batch[0]):
                return batch, None

    def _count_at_once(self) -> int:
        return max(1, min(DELAY_BATCH_MESSAGES, DELAY_BATCH_BYTES // self.delays.delayed_log.message_bytes))

    def _deliver(self, due: DueEntries, request: _DeliverNow | None) -> Work[None]:
        delays, (dues, offsets) = self.delays, due
        numbers = offsets.tolist()
        delays.delivering.update(numbers)
        try:
            while len(offsets):
                sent = yield from self._send(dues, offsets, request)
                dues, offsets = dues[sent:], offsets[sent:]
        finally:
            delays.delivering.difference_update(numbers)
            delays.release(numbers)
        if request is not None and not len(request.due[0]) and not request.arrived.is_kept:
            self._requests.popleft()
            request.arrived(request.count)

    def _send(self, dues: Numbers, offsets: Numbers, request: _DeliverNow | None) -> Work[int]:
        """Deliver as many of the first messages as fit together; return how many."""
        late = NONE if request is not None else self._expired(dues, offsets)
        if len(late):
            yield from self._expire(late)
            return len(late)
        fetched = yield from self._fetch(offsets)
        while fetched.is_over and len(offsets) > 1:
            dues, offsets = dues[: len(dues) // 2], offsets[: len(offsets) // 2]
            fetched = yield from fetch_frames(self.delays.delayed_log, np.sort(offsets), DELAY_BATCH_BYTES)
        there = np.array([offset in fetched.frames for offset in offsets.tolist()], np.bool_)
        if not there.all():
            yield from self._expire(np.sort(offsets[~there]))
        if there.any():
            yield from self._append(dues[there], offsets[there], fetched, request)
        return len(offsets)

    def _fetch(self, offsets: Numbers) -> Work[FetchedFrames]:
        """Fetch these, and read ahead the next ones."""
        if self._fetched is None or not self._fetched.covers(offsets):
            ready = [request.due for request in self._requests] + list(self._ready)
            wanted = [offsets, *(ahead for _, ahead in ready)]
            count = min(DELAY_FETCH_MESSAGES, DELAY_FETCH_BYTES // self.delays.delayed_log.message_bytes)
            chosen = np.unique(np.concatenate(wanted)[: max(count, len(offsets))])
            self._fetched = yield from fetch_frames(self.delays.delayed_log, chosen, DELAY_FETCH_BYTES)
            if self._fetched.is_over:  # some are much larger than the average
                self._fetched = yield from fetch_frames(self.delays.delayed_log, np.sort(offsets), DELAY_BATCH_BYTES)
        return self._fetched

    def _expired(self, dues: Numbers, offsets: Numbers) -> Numbers:
        seconds = self._expiry_seconds()
        if seconds is None:
            return NONE
        bound = self.delays.clock.now_ns() - self.clock_ahead_ns() - round(seconds * NANOSECONDS)
        return np.sort(offsets[: int(np.searchsorted(dues, bound))])

    def _expire(self, offsets: Numbers) -> Work[None]:
        yield self.delays.record(encode_settled(EXPIRED, offsets))
        yield from self.delays.catch_up()

    def _append(
        self, dues: Numbers, offsets: Numbers, fetched: FetchedFrames, request: _DeliverNow | None
    ) -> Work[None]:
        delays = self.delays
        job = partial(make_topic_frames, [fetched.frames[offset] for offset in offsets.tolist()])
        frames = job() if len(offsets) <= _FEW else (yield job)
        yield from self._begin_search_here()
        # An unsynced message may be lost and its offset reused: then a copy would be taken for the new message.
        yield from delays.delayed_log.synced(int(offsets.max()) + 1)
        if request is None and dues[-1] > delays.clock.now_ns():  # the clock was set back meanwhile
            return
        placed: Promise[Placement] = Promise()
        try:
            delays.partition.take(frames, None, placed)
            placement: Placement = yield placed
            self.on_placed.emit(offsets, placement)
            late_ns = delays.clock.now_ns() - dues
            self.on_delivery.emit(late_ns[late_ns >= 0])  # early ones were requested
            yield from delays.partition.synced(placement.next_offset)
            yield from delays.record_delivered(np.sort(offsets), placement.next_offset)
        except BaseException:
            delays.mark_unsure()
            raise
        if request is not None:
            request.count += len(offsets)

    def _begin_search_here(self) -> Work[None]:
        """Record a search position before a delivery if there is none or it is far back."""
        delays = self.delays
        end = kept_end(delays.partition)
        if delays.since is None:
            yield from delays.record_delivered(NONE, end)
            yield from delays.delayed_log.synced(delays.delayed_log.log_end)
        elif delays.searched_bytes(end) > DELAY_SEARCH_BYTES:
            delays.record(encode_settled(DELIVERED, NONE, end))
