"""Queries of delayed messages, and changes of many at once.

Messages are listed by delivery time. The schedule is read in chunks with pauses for other work, so a large answer is
not of one moment.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from goqueue.broker.core.work import Work
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.broker.delay.delivery import FetchedFrames, PartitionDelivery, fetch_frames, yield_turn
from goqueue.broker.delay.schedule import NEVER, PENDING, STATE, Bytes, Mask, ScheduleChunk, ScheduledMessage
from goqueue.broker.delay.timing_wheel import NONE, Numbers
from goqueue.broker.filters.filter_batch import FilterBatch
from goqueue.broker.filters.filter_set import NO_FILTERS, FilterSet
from goqueue.clock import NANOSECONDS, Clock
from goqueue.limits import DELAY_CHANGE_MESSAGES, DELAY_CHUNK_ROWS, DELAY_SECONDS_FOR_REQUEST, READ_BYTES_MAX
from goqueue.storage import frame

_PIECE = DELAY_CHANGE_MESSAGES
_BRIEF = 100  # decoded inline
_ROWS_OF_A_CHUNK = 500  # rows take as long as getting to the next chunk
_LOOKED_AT = 10_000  # messages filtered per job: some milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedCriteria:
    from_ns: int | None = None
    """Due at this time or later."""
    to_ns: int | None = None
    """Due before this time."""
    state: int = PENDING
    sieve: FilterSet = NO_FILTERS

    @property
    def has_filters(self) -> bool:
        return bool(self.sieve.filters)


@dataclass(frozen=True, slots=True)
class DelayedMessageView:
    delays: DelayedMessages
    entry: ScheduledMessage
    message: frame.StoredMessage | None
    """None if its bytes are removed or damaged."""
    size: int


@dataclass(frozen=True, slots=True)
class ScheduleRows:
    """Messages of several partitions, sorted by delivery time."""

    dues: Numbers
    places: Numbers
    """Index of each message's partition among the requested ones."""
    offsets: Numbers

    def __len__(self) -> int:
        return len(self.dues)

    def part(self, first: int, end: int) -> "ScheduleRows":
        return ScheduleRows(self.dues[first:end], self.places[first:end], self.offsets[first:end])

    def of(self, chosen: Mask) -> "ScheduleRows":
        return ScheduleRows(self.dues[chosen], self.places[chosen], self.offsets[chosen])


@dataclass(frozen=True, slots=True)
class DelayedMessagePage:
    shown: list[DelayedMessageView]
    is_complete: bool
    """Whether the filters saw all messages; otherwise an earlier one may be missing."""


def list_delayed(
    asked: list[DelayedMessages], criteria: DelayedCriteria, limit: int, skip: int, clock: Clock
) -> Work[DelayedMessagePage]:
    rows = yield from _rows(asked, criteria, None if criteria.has_filters else skip + limit)
    is_complete = True
    if criteria.has_filters:
        sifted = yield from _filter_rows(asked, rows, criteria.sieve, clock)
        rows, is_complete = sifted.rows, sifted.is_complete
    shown = yield from _shown(asked, rows.part(skip, skip + limit), criteria.state)
    return DelayedMessagePage(shown, is_complete)


def get_delayed(delays: DelayedMessages, offset: int) -> Work[DelayedMessageView]:
    entry = yield from delays.look_up(offset)
    fetched = yield from fetch_frames(delays.delayed_log, np.array([offset]), READ_BYTES_MAX)
    return _view_of(delays, entry, fetched)


def _shown(asked: list[DelayedMessages], rows: ScheduleRows, state: int) -> Work[list[DelayedMessageView]]:
    """Fetch and decode the messages; a page ends early when it becomes too large."""
    fetched: dict[int, FetchedFrames] = {}
    priorities = np.zeros(len(rows), np.uint8)
    for place in np.unique(rows.places).tolist():
        chosen = np.flatnonzero(rows.places == place)
        chosen = chosen[np.argsort(rows.offsets[chosen])]
        priorities[chosen] = asked[place].schedule.priorities_of(rows.offsets[chosen])
        fetched[place] = yield from fetch_frames(asked[place].delayed_log, rows.offsets[chosen], READ_BYTES_MAX)
    job = partial(_views_of, asked, rows, priorities, state, fetched)
    if len(rows) <= _BRIEF:
        return job()
    shown: list[DelayedMessageView] = yield job
    return shown


def _views_of(
    asked: list[DelayedMessages], rows: ScheduleRows, priorities: Bytes, state: int, fetched: dict[int, FetchedFrames]
) -> list[DelayedMessageView]:
    shown: list[DelayedMessageView] = []
    columns = (rows.places, rows.offsets, rows.dues, priorities)
    for place, offset, due_ns, priority in zip(*(column.tolist() for column in columns), strict=True):
        if fetched[place].is_over and offset not in fetched[place].frames:
            break
        shown.append(_view_of(asked[place], ScheduledMessage(offset, due_ns, state, priority), fetched[place]))
    return shown


def _view_of(delays: DelayedMessages, entry: ScheduledMessage, fetched: FetchedFrames) -> DelayedMessageView:
    content = fetched.frames.get(entry.offset)
    message = None if content is None else frame.decode(content)
    return DelayedMessageView(delays, entry, message, 0 if content is None else len(content))


# --- which ---


def _rows(asked: list[DelayedMessages], criteria: DelayedCriteria, most: int | None) -> Work[ScheduleRows]:
    """Return matching rows of the schedule, of very many at least the first `most`."""
    parts, count, pace = [ScheduleRows(NONE, NONE, NONE)], 0, _TurnLimit()
    for place, delays in enumerate(asked):
        yield from delays.catch_up()
        for chunk in list(delays.schedule.chunks):
            if pace.is_up(chunk):
                yield yield_turn
            dues, offsets = _fitting(chunk, criteria, most)
            parts.append(ScheduleRows(dues, np.full(len(dues), place, np.int64), offsets))
            count += len(dues)
            if most is not None and count > 4 * most + 10 * _PIECE:
                parts = [(yield partial(_first, parts, most))]
                count = len(parts[0])
    if count > 10 * _PIECE:
        ordered: ScheduleRows = yield partial(_first, parts)
        return ordered
    return _first(parts)


class _TurnLimit:
    """Decides when a long query pauses for other work."""

    def __init__(self) -> None:
        self._left = DELAY_CHUNK_ROWS

    def is_up(self, chunk: ScheduleChunk) -> bool:
        self._left -= chunk.count + _ROWS_OF_A_CHUNK
        if self._left >= 0:
            return False
        self._left = DELAY_CHUNK_ROWS
        return True


def _fitting(chunk: ScheduleChunk, criteria: DelayedCriteria, most: int | None) -> tuple[Numbers, Numbers]:
    """Return delivery times and offsets of matching rows, at most the first `most`."""
    fits = chunk.states & STATE == criteria.state
    if criteria.from_ns is not None:
        fits &= chunk.dues >= criteria.from_ns
    if criteria.to_ns is not None:
        fits &= chunk.dues < criteria.to_ns
    dues, offsets = chunk.dues[fits], chunk.offsets[fits]
    if most is None or len(dues) <= most:
        return dues, offsets
    last = np.partition(dues, most - 1)[most - 1]
    first = dues < last
    first[np.flatnonzero(dues == last)[: most - int(first.sum())]] = True  # of equal times, the lower offset first
    return dues[first], offsets[first]


def _first(parts: list[ScheduleRows], most: int | None = None) -> ScheduleRows:
    dues = np.concatenate([part.dues for part in parts])
    places = np.concatenate([part.places for part in parts])
    offsets = np.concatenate([part.offsets for part in parts])
    order = np.lexsort((offsets, places, dues))[:most]
    return ScheduleRows(dues[order], places[order], offsets[order])


@dataclass(frozen=True, slots=True)
class _FilteredRows:
    rows: ScheduleRows
    scanned: int
    is_complete: bool


def _filter_rows(
    asked: list[DelayedMessages], rows: ScheduleRows, sieve: FilterSet, clock: Clock
) -> Work[_FilteredRows]:
    """Apply filters in log order, which reads least, within the time limit of a request."""
    until_ns = clock.monotonic_ns() + round(DELAY_SECONDS_FOR_REQUEST * NANOSECONDS)
    keys = (rows.offsets, rows.places)
    order: Numbers = np.lexsort(keys) if len(rows) <= 10 * _PIECE else (yield partial(np.lexsort, keys))
    fits = np.zeros(len(rows), np.bool_)
    for scanned in range(0, len(order), _LOOKED_AT):
        if clock.monotonic_ns() >= until_ns:
            return _FilteredRows(rows.of(fits), scanned, is_complete=False)
        piece = order[scanned : scanned + _LOOKED_AT]
        for place in np.unique(rows.places[piece]).tolist():
            chosen = piece[rows.places[piece] == place]
            passed = yield from _passing(asked[place], rows.offsets[chosen], sieve)
            fits[chosen] = np.isin(rows.offsets[chosen], passed)
    return _FilteredRows(rows.of(fits), len(rows), is_complete=True)


def _passing(delays: DelayedMessages, offsets: Numbers, sieve: FilterSet) -> Work[Numbers]:
    passing = [NONE]
    while len(offsets):
        fetched = yield from fetch_frames(delays.delayed_log, offsets, READ_BYTES_MAX)
        passing.append((yield partial(_pass, list(fetched.frames.values()), sieve)))
        seen = np.fromiter(fetched.frames, np.int64, len(fetched.frames))
        offsets = offsets[~np.isin(offsets, seen)] if fetched.is_over and len(seen) else NONE
    return np.concatenate(passing)


def _pass(frames: list[memoryview], sieve: FilterSet) -> Numbers:
    batch = FilterBatch(frames)
    return np.array([batch.offset_at(place) for place in sieve.sift(batch)], np.int64)


# --- many at once ---

BulkAction = Callable[[PartitionDelivery, Numbers], Work[int]]


@dataclass(slots=True)
class BulkResult:
    matched: int = 0
    scanned: int = 0
    changed: int = 0
    is_complete: bool = True
    """Whether all matching messages were handled, up to the limit."""


def apply_to_matching(
    asked: list[PartitionDelivery],
    criteria: DelayedCriteria,
    act: BulkAction | None,
    limit: int | None,
    clock: Clock,
    at_once: int = _PIECE,
) -> Work[BulkResult]:
    """Apply an action to all matching messages by delivery time, `at_once` per record; without an action only count
    them.
    """
    outcome = BulkResult()
    until_ns = clock.monotonic_ns() + round(DELAY_SECONDS_FOR_REQUEST * NANOSECONDS)
    all_delays = [delivery.delays for delivery in asked]
    rows = yield from _rows(all_delays, criteria, None if criteria.has_filters else limit)
    outcome.scanned = len(rows)
    if criteria.has_filters:
        sifted = yield from _filter_rows(all_delays, rows, criteria.sieve, clock)
        rows, outcome.scanned, outcome.is_complete = sifted.rows, sifted.scanned, sifted.is_complete
    rows = rows.part(0, len(rows) if limit is None else limit)
    outcome.matched = len(rows)
    for first in range(0, len(rows) if act is not None else 0, at_once):
        if clock.monotonic_ns() >= until_ns:
            outcome.is_complete = False
            break
        assert act is not None, "there is an action"
        outcome.changed += yield from _act(asked, rows.part(first, first + at_once), act)
    return outcome


def _act(asked: list[PartitionDelivery], rows: ScheduleRows, act: BulkAction) -> Work[int]:
    changed = 0
    for place in np.unique(rows.places).tolist():
        changed += yield from act(asked[place], np.sort(rows.offsets[rows.places == place]))
    return changed


# --- how many ---


@dataclass(frozen=True, slots=True)
class DeliverTimeline:
    """Counts of pending messages by delivery time."""

    pending: int
    overdue: int
    next_due_ns: int | None
    counts: list[int]
    """Counts between the requested bounds."""


def deliver_timeline(asked: list[DelayedMessages], bounds_ns: list[int]) -> Work[DeliverTimeline]:
    """Count pending messages between sorted `bounds_ns`, which begin with now."""
    counts = np.zeros(len(bounds_ns) + 1, np.int64)
    earliest, pace = list[int](), _TurnLimit()
    for delays in asked:
        yield from delays.catch_up()
        for chunk in list(delays.schedule.chunks):
            if pace.is_up(chunk):
                yield yield_turn
            dues = chunk.dues[chunk.is_pending]
            if len(dues):
                earliest.append(int(dues.min()))
                counts += np.bincount(np.searchsorted(bounds_ns, dues, "right"), minlength=len(counts))
    numbers: list[int] = counts.tolist()
    return DeliverTimeline(sum(numbers), numbers[0], min(earliest, default=None), numbers[1:-1])


def count_pending(asked: Iterable[DelayedMessages]) -> int:
    return sum(delays.schedule.pending for delays in asked)


@dataclass(slots=True)
class DelaySummary:
    """A summary of schedules, without reading logs."""

    next_due_ns: int | None = None
    overdue: int = 0
    parked: int = 0
    """Beyond the horizon of the timing wheels."""


def summarize_delays(asked: list[DelayedMessages], now_ns: int) -> Work[DelaySummary]:
    found, pace = DelaySummary(), _TurnLimit()
    for delays in asked:
        for chunk in list(delays.schedule.chunks):
            if pace.is_up(chunk):
                yield yield_turn
            if not chunk.pending:
                continue
            dues = chunk.dues[chunk.is_pending]
            first = int(dues.min())
            found.next_due_ns = first if found.next_due_ns is None else min(first, found.next_due_ns)
            found.overdue += int((dues < now_ns).sum()) if first < now_ns else 0
            if chunk.far_ns < NEVER:
                found.parked += int((dues >= delays.wheel.horizon_ns).sum())
    return found
