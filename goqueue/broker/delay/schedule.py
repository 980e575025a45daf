"""What is known of the messages in a delayed log: for each its offset, deadline, state and priority, as columns.

Eighteen bytes a message. The rows stand in chunks, in the order of their offsets; one is found by halving. A
message that is settled keeps its row for as long as its frame is in the log, so that whoever asks is told what
became of it.

A message of a transaction has its row from the beginning, since offsets rise from row to row; but until it is known how
the transaction ended the message is undecided, and nobody is told of it. Then it is pending, or aborted: a row that
only says that the frame may go.

What must stay true: offsets rise from row to row; only a pending or undecided message changes; the counts are those
of the rows, and of the rows that were forgotten since; whoever asks hears of no message that is undecided or aborted.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goqueue.broker.delay.wheel import NONE, Numbers
from goqueue.limits import DELAY_CHUNK_ROWS

Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

PENDING, DELIVERED, CANCELLED, EXPIRED, UNDECIDED, ABORTED = range(6)
STATES = ("pending", "delivered", "cancelled", "expired")
"""The names of those that anybody is told of."""
STATE = 0x0F
MOVED = 0x10
"""Beside the state: its deadline is not the one that its frame says."""

_LEAST_ROWS = 64
NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One message."""

    offset: int
    due_ns: int
    state: int
    priority: int

    @property
    def is_pending(self) -> bool:
        return self.state == PENDING


class Chunk:
    """Rows whose offsets follow each other."""

    __slots__ = ("_dues", "_offsets", "_priorities", "_states", "count", "far_ns", "pending", "undecided")

    def __init__(self, rows: int) -> None:
        self._offsets = np.empty(rows, np.int64)
        self._dues = np.empty(rows, np.int64)
        self._states = np.empty(rows, np.uint8)
        self._priorities = np.empty(rows, np.uint8)
        self.count = 0
        self.pending = 0
        self.undecided = 0
        self.far_ns = NEVER
        """The earliest deadline of those that the wheel did not take."""

    @property
    def offsets(self) -> Numbers:
        return self._offsets[: self.count]

    @property
    def dues(self) -> Numbers:
        return self._dues[: self.count]

    @property
    def states(self) -> Bytes:
        return self._states[: self.count]

    @property
    def priorities(self) -> Bytes:
        return self._priorities[: self.count]

    @property
    def is_pending(self) -> Mask:
        pending: Mask = self.states & STATE == PENDING
        return pending

    @property
    def unsettled(self) -> int:
        return self.pending + self.undecided

    @property
    def is_unsettled(self) -> Mask:
        """Pending or undecided: their frames are needed."""
        states = self.states & STATE
        unsettled: Mask = (states == PENDING) | (states == UNDECIDED)
        return unsettled

    def add(self, offsets: Numbers, dues: Numbers, states: Bytes, priorities: Bytes) -> int:
        """As many as there is room for."""
        room = min(len(offsets), DELAY_CHUNK_ROWS - self.count)
        end = self.count + room
        if end > len(self._offsets):
            self._grow(end)
        self._offsets[self.count : end] = offsets[:room]
        self._dues[self.count : end] = dues[:room]
        self._states[self.count : end] = states[:room]
        self._priorities[self.count : end] = priorities[:room]
        self.count = end
        self.pending += int((states[:room] & STATE == PENDING).sum())
        self.undecided += int((states[:room] & STATE == UNDECIDED).sum())
        return room

    def _grow(self, least: int) -> None:
        rows = min(DELAY_CHUNK_ROWS, max(least, 2 * len(self._offsets)))
        self._resize(lambda column: np.concatenate((column[: self.count], np.empty(rows - self.count, column.dtype))))

    def undecided_in(self, firsts: Numbers, ends: Numbers) -> Numbers:
        """The rows of those in these ranges of offsets, which rise."""
        rows = np.flatnonzero(self.states & STATE == UNDECIDED)
        ranges = np.searchsorted(firsts, self.offsets[rows], "right") - 1
        rows, ranges = rows[ranges >= 0], ranges[ranges >= 0]
        return rows[self.offsets[rows] < ends[ranges]]

    def keep(self, rows: Mask) -> None:
        """Forget the other ones, all of which are settled."""
        self._resize(lambda column: column[: len(rows)][rows])
        self.count = len(self._offsets)

    def _resize(self, change: Callable[[NDArray[np.generic]], NDArray[np.generic]]) -> None:
        for name in ("_offsets", "_dues", "_states", "_priorities"):
            setattr(self, name, change(getattr(self, name)))

    def entry(self, row: int) -> Entry:
        state = int(self._states[row]) & STATE
        return Entry(int(self._offsets[row]), int(self._dues[row]), state, int(self._priorities[row]))


class Schedule:
    """The messages of one delayed log."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self._firsts: list[int] = []
        self.counts = [0, 0, 0, 0]
        """By state: of those pending now, and of those that came to each end."""
        self.rescheduled = 0

    @property
    def pending(self) -> int:
        return self.counts[PENDING]

    @property
    def undecided(self) -> int:
        return sum(chunk.undecided for chunk in self.chunks)

    def __len__(self) -> int:
        return sum(chunk.count for chunk in self.chunks)

    # --- change ---

    def add(self, offsets: Numbers, dues: Numbers, priorities: Bytes, states: Bytes | None = None) -> None:
        """Behind all that are here."""
        states = np.zeros(len(offsets), np.uint8) if states is None else states
        self.counts[PENDING] += int((states & STATE == PENDING).sum())
        while len(offsets):
            if not self.chunks or self.chunks[-1].count == DELAY_CHUNK_ROWS:
                self.chunks.append(Chunk(min(DELAY_CHUNK_ROWS, max(_LEAST_ROWS, len(offsets)))))
                self._firsts.append(int(offsets[0]))
            taken = self.chunks[-1].add(offsets, dues, states, priorities)
            offsets, dues, states, priorities = offsets[taken:], dues[taken:], states[taken:], priorities[taken:]

    def settle(self, offsets: Numbers, state: int) -> int:
        """The pending ones among these come to this end; how many that were."""
        settled = 0
        for chunk, found, _ in self._rows(offsets):
            rows = found[chunk.states[found] & STATE == PENDING]
            chunk.states[rows] = chunk.states[rows] & ~np.uint8(STATE) | np.uint8(state)
            chunk.pending -= len(rows)
            settled += len(rows)
        self.counts[PENDING] -= settled
        self.counts[state] += settled
        return settled

    def move(self, offsets: Numbers, dues: Numbers) -> Mask:
        """The pending ones among these are due then; which of them were due at another time."""
        moved = np.zeros(len(offsets), np.bool_)
        for chunk, found, all_places in self._rows(offsets):
            pending = chunk.states[found] & STATE == PENDING
            rows, places = found[pending], all_places[pending]
            moved[places] = chunk.dues[rows] != dues[places]
            chunk.dues[rows] = dues[places]
            chunk.states[rows] |= np.uint8(MOVED)
        self.rescheduled += int(moved.sum())
        return moved

    def commit(self, firsts: Numbers, ends: Numbers, time_ns: int) -> tuple[Numbers, Numbers]:
        """The undecided ones in these ranges are pending from this moment on: their deadlines, and offsets.

        None is due before: nobody is late for what nobody was to see.
        """
        committed = [(NONE, NONE)]
        for chunk, rows in self._decided(firsts, ends, PENDING):
            chunk.pending += len(rows)
            chunk.dues[rows] = np.maximum(chunk.dues[rows], time_ns)
            committed.append((chunk.dues[rows], chunk.offsets[rows]))
        dues, offsets = (np.concatenate(column) for column in zip(*committed, strict=True))
        self.counts[PENDING] += len(offsets)
        return dues, offsets

    def abort(self, firsts: Numbers, ends: Numbers) -> None:
        """The undecided ones in these ranges were never there."""
        for _ in self._decided(firsts, ends, ABORTED):
            pass

    def _decided(self, firsts: Numbers, ends: Numbers, state: int) -> Iterator[tuple[Chunk, Numbers]]:
        """Chunk after chunk the rows that were undecided until now."""
        for chunk in self.chunks:
            if chunk.undecided and len(rows := chunk.undecided_in(firsts, ends)):
                chunk.states[rows] = state
                chunk.undecided -= len(rows)
                yield chunk, rows

    def park(self, offsets: Numbers, dues: Numbers) -> None:
        """These are too far for the wheel: their chunks remember when to look again. The offsets rise."""
        for chunk, _, places in self._rows(offsets):
            chunk.far_ns = min(chunk.far_ns, int(dues[places].min(initial=NEVER)))

    def unpark(self, since_ns: int, until_ns: int) -> Iterator[tuple[Numbers, Numbers]]:
        """The pending ones that were too far and are due before `until_ns`: deadlines, and offsets."""
        for chunk in self.chunks:
            if chunk.far_ns >= until_ns:
                continue
            far = chunk.is_pending & (chunk.dues >= since_ns)
            near = far & (chunk.dues < until_ns)
            chunk.far_ns = int(chunk.dues[far & ~near].min(initial=NEVER))
            yield chunk.dues[near], chunk.offsets[near]

    @property
    def far_ns(self) -> int:
        """The earliest deadline of those that are parked."""
        return min((chunk.far_ns for chunk in self.chunks), default=NEVER)

    def forget(self, first: int, end: int, staying: Numbers) -> None:
        """Those of a range of offsets that are not among these: they are settled, and their frames are gone."""
        staying = staying[slice(*np.searchsorted(staying, (first, end)))]
        for number in range(len(self.chunks) - 1, -1, -1):
            chunk = self.chunks[number]
            low, high = np.searchsorted(chunk.offsets, (first, end)).tolist()
            if low == high:
                continue
            stays = chunk.is_unsettled
            stays[:low] = stays[high:] = True
            stays[low:high] |= among(chunk.offsets[low:high], staying)
            chunk.keep(stays)
            if not chunk.count:
                del self.chunks[number], self._firsts[number]

    # --- ask ---

    def find(self, offset: int) -> Entry | None:
        """None as well where nobody may see it."""
        number = bisect_right(self._firsts, offset) - 1
        if number < 0:
            return None
        chunk = self.chunks[number]
        row = int(np.searchsorted(chunk.offsets, offset))
        entry = chunk.entry(row) if row < chunk.count and chunk.offsets[row] == offset else None
        return entry if entry is not None and entry.state < len(STATES) else None

    def _rows(self, offsets: Numbers) -> Iterator[tuple[Chunk, Numbers, Numbers]]:
        """Where these are, which rise: chunk after chunk the rows, and their places among what was asked."""
        if not len(offsets):
            return
        edges = [*np.searchsorted(offsets, self._firsts).tolist(), len(offsets)]
        for number, chunk in enumerate(self.chunks):
            first, end = edges[number], edges[number + 1]
            if first < end:
                wanted = offsets[first:end]
                rows = np.searchsorted(chunk.offsets, wanted)
                there = rows < chunk.count
                there[there] = chunk.offsets[rows[there]] == wanted[there]
                yield chunk, rows[there], np.flatnonzero(there) + first

    def dues_of(self, offsets: Numbers) -> Numbers:
        """The deadlines of the pending ones among these, which rise; -1 for the others."""
        dues = np.full(len(offsets), -1, np.int64)
        for chunk, rows, places in self._rows(offsets):
            pending = chunk.states[rows] & STATE == PENDING
            dues[places[pending]] = chunk.dues[rows[pending]]
        return dues

    def still_due(self, dues: Numbers, offsets: Numbers) -> Mask:
        """Which of these entries are true: the message is pending, and due then."""
        order = np.argsort(offsets, kind="stable")
        true = np.zeros(len(offsets), np.bool_)
        true[order] = self.dues_of(offsets[order]) == dues[order]
        return true

    def priorities_of(self, offsets: Numbers) -> Bytes:
        found = np.zeros(len(offsets), np.uint8)
        for chunk, rows, places in self._rows(offsets):
            found[places] = chunk.priorities[rows]
        return found

    def unsettled_within(self, first: int, end: int) -> int:
        """How many are pending or undecided in a range of offsets."""
        return sum(
            chunk.unsettled if high - low == chunk.count else int(chunk.is_unsettled[low:high].sum())
            for chunk, low, high in self._within(first, end)
        )

    def _within(self, first: int, end: int) -> Iterator[tuple[Chunk, int, int]]:
        """The chunks with rows of a range of offsets, and which rows those are."""
        start, stop = max(0, bisect_right(self._firsts, first) - 1), bisect_left(self._firsts, end)
        for chunk in self.chunks[start:stop]:
            low, high = np.searchsorted(chunk.offsets, (first, end)).tolist()
            if low < high:
                yield chunk, low, high

    def count_within(self, first: int, end: int) -> int:
        """How many rows a range of offsets has."""
        return sum(high - low for _, low, high in self._within(first, end))

    def unsettled_offsets(self, first: int, end: int) -> Numbers:
        """The pending and undecided ones of a range of offsets."""
        found = [chunk.offsets[chunk.is_unsettled] for chunk in self.chunks if chunk.unsettled]
        offsets = np.concatenate([NONE, *found])
        return offsets[slice(*np.searchsorted(offsets, (first, end)))]

    def moved(self, end: int) -> tuple[Numbers, Numbers]:
        """The pending ones below this offset whose deadline is not what their frame says: offsets, deadlines."""
        parts = [(NONE, NONE)]
        for chunk in self.chunks:
            rows = (chunk.states & (STATE | MOVED)) == MOVED | PENDING
            rows &= chunk.offsets < end
            parts.append((chunk.offsets[rows], chunk.dues[rows]))
        offsets, dues = zip(*parts, strict=True)
        return np.concatenate(offsets), np.concatenate(dues)

    def __repr__(self) -> str:
        return f"<Schedule {self.pending} pending of {len(self)}>"


def among(numbers: Numbers, others: Numbers) -> Mask:
    """Which of these are there among others, however many: those rise."""
    places = np.searchsorted(others, numbers)
    there: Mask = places < len(others)
    there[there] = others[places[there]] == numbers[there]
    return there
