"""The schedule of a delayed log: offset, delivery time, state and priority of each message, as columns.

Eighteen bytes a message. Rows stand in chunks sorted by offset and are found by binary search. A settled message
keeps its row while its frame is in the log.

A message of a transaction is undecided, and hidden, until the transaction ends: then it is pending or aborted.

Invariants: offsets increase from row to row; only pending and undecided messages change; the counts include removed
rows; queries never return undecided or aborted messages.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goqueue.broker.delay.timing_wheel import NONE, Numbers
from goqueue.limits import DELAY_CHUNK_ROWS

Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

PENDING, DELIVERED, CANCELLED, EXPIRED, UNDECIDED, ABORTED = range(6)
STATES = ("pending", "delivered", "cancelled", "expired")
"""Names of the visible states."""
STATE = 0x0F
MOVED = 0x10
"""Flag: the delivery time differs from the one in the frame."""

_LEAST_ROWS = 64
NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ScheduledMessage:
    offset: int
    due_ns: int
    state: int
    priority: int

    @property
    def is_pending(self) -> bool:
        return self.state == PENDING


class ScheduleChunk:
    """A chunk of rows, sorted by offset."""

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
        """Earliest delivery time beyond the wheel's horizon."""

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
        """Rows that are pending or undecided; their frames are needed."""
        states = self.states & STATE
        unsettled: Mask = (states == PENDING) | (states == UNDECIDED)
        return unsettled

    def add(self, offsets: Numbers, dues: Numbers, states: Bytes, priorities: Bytes) -> int:
        """Add as many rows as there is room for; return how many."""
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
        """Return the undecided rows in these sorted ranges of offsets."""
        rows = np.flatnonzero(self.states & STATE == UNDECIDED)
        ranges = np.searchsorted(firsts, self.offsets[rows], "right") - 1
        rows, ranges = rows[ranges >= 0], ranges[ranges >= 0]
        return rows[self.offsets[rows] < ends[ranges]]

    def keep(self, rows: Mask) -> None:
        """Keep these rows; the others are all settled."""
        self._resize(lambda column: column[: len(rows)][rows])
        self.count = len(self._offsets)

    def _resize(self, change: Callable[[NDArray[np.generic]], NDArray[np.generic]]) -> None:
        for name in ("_offsets", "_dues", "_states", "_priorities"):
            setattr(self, name, change(getattr(self, name)))

    def entry(self, row: int) -> ScheduledMessage:
        state = int(self._states[row]) & STATE
        return ScheduledMessage(int(self._offsets[row]), int(self._dues[row]), state, int(self._priorities[row]))


class DeliverySchedule:
    def __init__(self) -> None:
        self.chunks: list[ScheduleChunk] = []
        self._firsts: list[int] = []
        self.counts = [0, 0, 0, 0]
        """By state: pending now, and all that reached a final state."""
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
        states = np.zeros(len(offsets), np.uint8) if states is None else states
        self.counts[PENDING] += int((states & STATE == PENDING).sum())
        while len(offsets):
            if not self.chunks or self.chunks[-1].count == DELAY_CHUNK_ROWS:
                self.chunks.append(ScheduleChunk(min(DELAY_CHUNK_ROWS, max(_LEAST_ROWS, len(offsets)))))
                self._firsts.append(int(offsets[0]))
            taken = self.chunks[-1].add(offsets, dues, states, priorities)
            offsets, dues, states, priorities = offsets[taken:], dues[taken:], states[taken:], priorities[taken:]

    def settle(self, offsets: Numbers, state: int) -> int:
        """Set the final state of the pending ones among these; return how many."""
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
        """Change the delivery times of the pending ones; return which changed."""
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
        """Make the undecided ones in these ranges pending; return delivery times and offsets.

        None is due before `time_ns`: a message is not late for the time of its transaction.
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
        """Mark the undecided ones in these ranges as aborted."""
        for _ in self._decided(firsts, ends, ABORTED):
            pass

    def _decided(self, firsts: Numbers, ends: Numbers, state: int) -> Iterator[tuple[ScheduleChunk, Numbers]]:
        """Yield chunks with the rows that were undecided."""
        for chunk in self.chunks:
            if chunk.undecided and len(rows := chunk.undecided_in(firsts, ends)):
                chunk.states[rows] = state
                chunk.undecided -= len(rows)
                yield chunk, rows

    def park(self, offsets: Numbers, dues: Numbers) -> None:
        """Remember delivery times beyond the wheel's horizon; offsets are sorted."""
        for chunk, _, places in self._rows(offsets):
            chunk.far_ns = min(chunk.far_ns, int(dues[places].min(initial=NEVER)))

    def unpark(self, since_ns: int, until_ns: int) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield delivery times and offsets that have come within the horizon."""
        for chunk in self.chunks:
            if chunk.far_ns >= until_ns:
                continue
            far = chunk.is_pending & (chunk.dues >= since_ns)
            near = far & (chunk.dues < until_ns)
            chunk.far_ns = int(chunk.dues[far & ~near].min(initial=NEVER))
            yield chunk.dues[near], chunk.offsets[near]

    @property
    def far_ns(self) -> int:
        """Earliest delivery time beyond the horizon."""
        return min((chunk.far_ns for chunk in self.chunks), default=NEVER)

    def forget(self, first: int, end: int, staying: Numbers) -> None:
        """Remove the settled rows of a range of offsets that are not in `staying`."""
        staying = staying[slice(*np.searchsorted(staying, (first, end)))]
        for number in range(len(self.chunks) - 1, -1, -1):
            chunk = self.chunks[number]
            low, high = np.searchsorted(chunk.offsets, (first, end)).tolist()
            if low == high:
                continue
            stays = chunk.is_unsettled
            stays[:low] = stays[high:] = True
            stays[low:high] |= contained_in(chunk.offsets[low:high], staying)
            chunk.keep(stays)
            if not chunk.count:
                del self.chunks[number], self._firsts[number]

    # --- ask ---

    def find(self, offset: int) -> ScheduledMessage | None:
        number = bisect_right(self._firsts, offset) - 1
        if number < 0:
            return None
        chunk = self.chunks[number]
        row = int(np.searchsorted(chunk.offsets, offset))
        entry = chunk.entry(row) if row < chunk.count and chunk.offsets[row] == offset else None
        return entry if entry is not None and entry.state < len(STATES) else None

    def _rows(self, offsets: Numbers) -> Iterator[tuple[ScheduleChunk, Numbers, Numbers]]:
        """Yield chunks with the rows of these sorted offsets and their positions in the input."""
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
        """Return delivery times of pending messages among these sorted offsets; -1 for others."""
        dues = np.full(len(offsets), -1, np.int64)
        for chunk, rows, places in self._rows(offsets):
            pending = chunk.states[rows] & STATE == PENDING
            dues[places[pending]] = chunk.dues[rows[pending]]
        return dues

    def still_due(self, dues: Numbers, offsets: Numbers) -> Mask:
        """Return which entries are valid: pending with this delivery time."""
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
        """Count pending and undecided messages in a range."""
        return sum(
            chunk.unsettled if high - low == chunk.count else int(chunk.is_unsettled[low:high].sum())
            for chunk, low, high in self._within(first, end)
        )

    def _within(self, first: int, end: int) -> Iterator[tuple[ScheduleChunk, int, int]]:
        """Yield chunks with the row bounds of a range of offsets."""
        start, stop = max(0, bisect_right(self._firsts, first) - 1), bisect_left(self._firsts, end)
        for chunk in self.chunks[start:stop]:
            low, high = np.searchsorted(chunk.offsets, (first, end)).tolist()
            if low < high:
                yield chunk, low, high

    def count_within(self, first: int, end: int) -> int:
        return sum(high - low for _, low, high in self._within(first, end))

    def unsettled_offsets(self, first: int, end: int) -> Numbers:
        found = [chunk.offsets[chunk.is_unsettled] for chunk in self.chunks if chunk.unsettled]
        offsets = np.concatenate([NONE, *found])
        return offsets[slice(*np.searchsorted(offsets, (first, end)))]

    def moved(self, end: int) -> tuple[Numbers, Numbers]:
        """Return offsets and delivery times of pending, rescheduled messages below this offset."""
        parts = [(NONE, NONE)]
        for chunk in self.chunks:
            rows = (chunk.states & (STATE | MOVED)) == MOVED | PENDING
            rows &= chunk.offsets < end
            parts.append((chunk.offsets[rows], chunk.dues[rows]))
        offsets, dues = zip(*parts, strict=True)
        return np.concatenate(offsets), np.concatenate(dues)


def contained_in(numbers: Numbers, others: Numbers) -> Mask:
    """Return which numbers are in the sorted `others`."""
    places = np.searchsorted(others, numbers)
    there: Mask = places < len(others)
    there[there] = others[places[there]] == numbers[there]
    return there
