"""What people ask about delayed messages, and what they decide about many at once.

Messages are told of in the order of their deadlines. The table is looked through a chunk at a time, and everybody
else is served in between; so an answer about very many is not of one moment for all of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from goqueue.broker.delay.delays import Delays
from goqueue.broker.delay.parcel import Fetched, fetch
from goqueue.broker.delay.postman import Postman
from goqueue.broker.delay.schedule import NEVER, PENDING, STATE, Bytes, Chunk, Entry, Mask
from goqueue.broker.delay.wheel import NONE, Numbers
from goqueue.broker.filters.batch import Batch
from goqueue.broker.filters.sieve import NO_FILTERS, Sieve
from goqueue.broker.work import Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.limits import DELAY_CHUNK_ROWS, DELAY_DECISION_MESSAGES, DELAY_SECONDS_FOR_REQUEST, READ_BYTES_MAX
from goqueue.storage import frame

_PIECE = DELAY_DECISION_MESSAGES
_BRIEF = 100  # decoded on the spot
_ROWS_OF_A_CHUNK = 500  # are looked at in the time that it takes to come to the next chunk
_LOOKED_AT = 10_000  # by filters in one go: some milliseconds of a thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """Which messages are meant: those that all of this is true of."""

    from_ns: int | None = None
    """Due then or later."""
    to_ns: int | None = None
    """Due before."""
    state: int = PENDING
    sieve: Sieve = NO_FILTERS

    @property
    def has_filters(self) -> bool:
        return bool(self.sieve.filters)


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of a list."""

    delays: Delays
    entry: Entry
    message: frame.Message | None
    """None where its bytes are gone, or damaged."""
    size: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Messages of several partitions in the order of their deadlines."""

    dues: Numbers
    places: Numbers
    """Of each the number of its partition among those that were asked."""
    offsets: Numbers

    def __len__(self) -> int:
        return len(self.dues)

    def part(self, first: int, end: int) -> "Rows":
        return Rows(self.dues[first:end], self.places[first:end], self.offsets[first:end])

    def of(self, chosen: Mask) -> "Rows":
        return Rows(self.dues[chosen], self.places[chosen], self.offsets[chosen])


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    shown: list[Shown]
    is_complete: bool
    """Whether the filters have looked at all messages: otherwise one that is due earlier may be missing."""


def listing(asked: list[Delays], criteria: Criteria, limit: int, skip: int, clock: Clock) -> Work[Page]:
    """Those messages, some of the first passed over."""
    rows = yield from _rows(asked, criteria, None if criteria.has_filters else skip + limit)
    is_complete = True
    if criteria.has_filters:
        sifted = yield from _sifted(asked, rows, criteria.sieve, clock)
        rows, is_complete = sifted.rows, sifted.is_complete
    shown = yield from _shown(asked, rows.part(skip, skip + limit), criteria.state)
    return Page(shown, is_complete)


def one(delays: Delays, offset: int) -> Work[Shown]:
    """A single message, with what it holds."""
    entry = yield from delays.look_up(offset)
    fetched = yield from fetch(delays.inbox, np.array([offset]), READ_BYTES_MAX)
    return _told(delays, entry, fetched)


def _shown(asked: list[Delays], rows: Rows, state: int) -> Work[list[Shown]]:
    """Of many that are large only the first: a page ends where it would become too much."""
    fetched: dict[int, Fetched] = {}
    priorities = np.zeros(len(rows), np.uint8)
    for place in np.unique(rows.places).tolist():
        chosen = np.flatnonzero(rows.places == place)
        chosen = chosen[np.argsort(rows.offsets[chosen])]
        priorities[chosen] = asked[place].schedule.priorities_of(rows.offsets[chosen])
        fetched[place] = yield from fetch(asked[place].inbox, rows.offsets[chosen], READ_BYTES_MAX)
    job = partial(_told_all, asked, rows, priorities, state, fetched)
    if len(rows) <= _BRIEF:
        return job()
    shown: list[Shown] = yield job
    return shown


def _told_all(
    asked: list[Delays], rows: Rows, priorities: Bytes, state: int, fetched: dict[int, Fetched]
) -> list[Shown]:
    shown: list[Shown] = []
    columns = (rows.places, rows.offsets, rows.dues, priorities)
    for place, offset, due_ns, priority in zip(*(column.tolist() for column in columns), strict=True):
        if fetched[place].is_over and offset not in fetched[place].frames:
            break
        shown.append(_told(asked[place], Entry(offset, due_ns, state, priority), fetched[place]))
    return shown


def _told(delays: Delays, entry: Entry, fetched: Fetched) -> Shown:
    content = fetched.frames.get(entry.offset)
    message = None if content is None else frame.decode(content)
    return Shown(delays, entry, message, 0 if content is None else len(content))


# --- which ---


def _rows(asked: list[Delays], criteria: Criteria, most: int | None) -> Work[Rows]:
    """Those that fit as far as the table tells; of very many at least the first `most`."""
    parts, count, pace = [Rows(NONE, NONE, NONE)], 0, _Pace()
    for place, delays in enumerate(asked):
        yield from delays.catch_up()
        for chunk in list(delays.schedule.chunks):
            if pace.is_up(chunk):
                yield _rest
            dues, offsets = _fitting(chunk, criteria, most)
            parts.append(Rows(dues, np.full(len(dues), place, np.int64), offsets))
            count += len(dues)
            if most is not None and count > 4 * most + 10 * _PIECE:
                parts = [(yield partial(_first, parts, most))]
                count = len(parts[0])
    if count > 10 * _PIECE:
        ordered: Rows = yield partial(_first, parts)
        return ordered
    return _first(parts)


class _Pace:
    """When a long look at tables is to let others have their turn: a small table takes its time too."""

    def __init__(self) -> None:
        self._left = DELAY_CHUNK_ROWS

    def is_up(self, chunk: Chunk) -> bool:
        """Asked before each chunk is looked at."""
        self._left -= chunk.count + _ROWS_OF_A_CHUNK
        if self._left >= 0:
            return False
        self._left = DELAY_CHUNK_ROWS
        return True


def _rest() -> None:
    """What a rule has done when it lets others have their turn."""


def _fitting(chunk: Chunk, criteria: Criteria, most: int | None) -> tuple[Numbers, Numbers]:
    """Deadlines and offsets of those that fit; only of the first `most`, if there are more."""
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
    first[np.flatnonzero(dues == last)[: most - int(first.sum())]] = True  # of the same time who was scheduled earlier
    return dues[first], offsets[first]


def _first(parts: list[Rows], most: int | None = None) -> Rows:
    """All of these, or so many of the first, in order."""
    dues = np.concatenate([part.dues for part in parts])
    places = np.concatenate([part.places for part in parts])
    offsets = np.concatenate([part.offsets for part in parts])
    order = np.lexsort((offsets, places, dues))[:most]
    return Rows(dues[order], places[order], offsets[order])


@dataclass(frozen=True, slots=True)
class _Sifted:
    """Those that the filters let through, in the order of their deadlines."""

    rows: Rows
    scanned: int
    is_complete: bool


def _sifted(asked: list[Delays], rows: Rows, sieve: Sieve, clock: Clock) -> Work[_Sifted]:
    """Looked at in the order of the log, for as long as a request may take: a read of neighbours costs least."""
    until_ns = clock.monotonic_ns() + round(DELAY_SECONDS_FOR_REQUEST * NANOSECONDS)
    keys = (rows.offsets, rows.places)
    order: Numbers = np.lexsort(keys) if len(rows) <= 10 * _PIECE else (yield partial(np.lexsort, keys))
    fits = np.zeros(len(rows), np.bool_)
    for scanned in range(0, len(order), _LOOKED_AT):
        if clock.monotonic_ns() >= until_ns:
            return _Sifted(rows.of(fits), scanned, is_complete=False)
        piece = order[scanned : scanned + _LOOKED_AT]
        for place in np.unique(rows.places[piece]).tolist():
            chosen = piece[rows.places[piece] == place]
            passed = yield from _passing(asked[place], rows.offsets[chosen], sieve)
            fits[chosen] = np.isin(rows.offsets[chosen], passed)
    return _Sifted(rows.of(fits), len(rows), is_complete=True)


def _passing(delays: Delays, offsets: Numbers, sieve: Sieve) -> Work[Numbers]:
    """Those of these that the filters let through; they rise."""
    passing = [NONE]
    while len(offsets):
        fetched = yield from fetch(delays.inbox, offsets, READ_BYTES_MAX)
        passing.append((yield partial(_pass, list(fetched.frames.values()), sieve)))
        seen = np.fromiter(fetched.frames, np.int64, len(fetched.frames))
        offsets = offsets[~np.isin(offsets, seen)] if fetched.is_over and len(seen) else NONE
    return np.concatenate(passing)


def _pass(frames: list[memoryview], sieve: Sieve) -> Numbers:
    batch = Batch(frames)
    return np.array([batch.offset_at(place) for place in sieve.sift(batch)], np.int64)


# --- many at once ---

Act = Callable[[Postman, Numbers], Work[int]]


@dataclass(slots=True)
class Outcome:
    """What became of a request that means many."""

    matched: int = 0
    scanned: int = 0
    changed: int = 0
    is_complete: bool = True
    """Whether all who fit were come to, or as many as were wanted."""


def decide(
    asked: list[Postman], criteria: Criteria, act: Act | None, limit: int | None, clock: Clock, at_once: int = _PIECE
) -> Work[Outcome]:
    """Do this to all that fit, or only count them; in the order of their deadlines, so many at once."""
    outcome = Outcome()
    until_ns = clock.monotonic_ns() + round(DELAY_SECONDS_FOR_REQUEST * NANOSECONDS)
    all_delays = [postman.delays for postman in asked]
    rows = yield from _rows(all_delays, criteria, None if criteria.has_filters else limit)
    outcome.scanned = len(rows)
    if criteria.has_filters:
        sifted = yield from _sifted(all_delays, rows, criteria.sieve, clock)
        rows, outcome.scanned, outcome.is_complete = sifted.rows, sifted.scanned, sifted.is_complete
    rows = rows.part(0, len(rows) if limit is None else limit)
    outcome.matched = len(rows)
    for first in range(0, len(rows) if act is not None else 0, at_once):
        if clock.monotonic_ns() >= until_ns:
            outcome.is_complete = False
            break
        assert act is not None, "somebody wants something done"
        outcome.changed += yield from _act(asked, rows.part(first, first + at_once), act)
    return outcome


def _act(asked: list[Postman], rows: Rows, act: Act) -> Work[int]:
    changed = 0
    for place in np.unique(rows.places).tolist():
        changed += yield from act(asked[place], np.sort(rows.offsets[rows.places == place]))
    return changed


# --- how many ---


@dataclass(frozen=True, slots=True)
class Timeline:
    """How many are due when."""

    pending: int
    overdue: int
    next_due_ns: int | None
    counts: list[int]
    """Between the bounds that were asked for."""


def timeline(asked: list[Delays], bounds_ns: list[int]) -> Work[Timeline]:
    """`bounds_ns` rise, and begin with now."""
    counts = np.zeros(len(bounds_ns) + 1, np.int64)
    earliest, pace = list[int](), _Pace()
    for delays in asked:
        yield from delays.catch_up()
        for chunk in list(delays.schedule.chunks):
            if pace.is_up(chunk):
                yield _rest
            dues = chunk.dues[chunk.is_pending]
            if len(dues):
                earliest.append(int(dues.min()))
                counts += np.bincount(np.searchsorted(bounds_ns, dues, "right"), minlength=len(counts))
    numbers: list[int] = counts.tolist()
    return Timeline(sum(numbers), numbers[0], min(earliest, default=None), numbers[1:-1])


def pending(asked: Iterable[Delays]) -> int:
    return sum(delays.schedule.pending for delays in asked)


@dataclass(slots=True)
class Standing:
    """What is known without a look at any log."""

    next_due_ns: int | None = None
    overdue: int = 0
    parked: int = 0
    """Too far ahead for the wheels."""


def standing(asked: list[Delays], now_ns: int) -> Work[Standing]:
    found, pace = Standing(), _Pace()
    for delays in asked:
        for chunk in list(delays.schedule.chunks):
            if pace.is_up(chunk):
                yield _rest
            if not chunk.pending:
                continue
            dues = chunk.dues[chunk.is_pending]
            first = int(dues.min())
            found.next_due_ns = first if found.next_due_ns is None else min(first, found.next_due_ns)
            found.overdue += int((dues < now_ns).sum()) if first < now_ns else 0
            if chunk.far_ns < NEVER:
                found.parked += int((dues >= delays.wheel.horizon_ns).sum())
    return found
