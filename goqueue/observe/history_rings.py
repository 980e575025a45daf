"""The history of days: rows of ten seconds and of one minute, each kept in a ring of fixed length.

A row's place in its ring follows from the time, so what is missing stays a gap, and an old row is replaced by the one
that takes its place. When the clock is set back, rows beyond it are dropped; when it is set ahead, there is a gap.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.limits import HISTORY_RINGS, KIB
from goqueue.observe.history_row import (
    ROW_BYTES,
    SERIES,
    GroupPoint,
    HistoryRow,
    Values,
    decode_row,
    encode_row,
    group_key,
    merge_rows,
    merge_values,
    point_of,
    span_of,
    values_of,
    whole_row,
)
from goqueue.storage.disk import Buffer
from goqueue.storage.layout import decode_checkpoint, encode_checkpoint

STEP = HISTORY_RINGS[0][0]
"""The seconds of the shortest rows."""
_HEADER_BYTES = 4 * KIB
FILE_BYTES = _HEADER_BYTES + ROW_BYTES * sum(length for _, length in HISTORY_RINGS)
_LAYOUT = {"series": list(SERIES), "rings": [list(one) for one in HISTORY_RINGS], "row_bytes": ROW_BYTES}
_BLANK_ROW = bytes(ROW_BYTES)
_RECENT_STEPS = 2
"""The newest row is the end of the history unless it is older than this: its successor is still being gathered."""


class RowChange(NamedTuple):
    """Bytes to write at a position of the file."""

    position: int
    content: bytes


class HistorySeries(NamedTuple):
    """Numbers for each series, oldest first; None where nothing is known."""

    end_ns: int
    series: dict[str, list[float | None]]


class _Ring:
    """Rows of one length. The rows are kept as their bytes, which are small."""

    def __init__(self, step: int, length: int, position: int) -> None:
        self.step = step
        self.length = length
        self.position = position
        """Where it begins in the file."""
        self._rows: dict[int, bytes] = {}
        self._changed: set[int] = set()

    def row(self, slot: int) -> bytes | None:
        row = self._rows.get(slot % self.length)
        return row if row is not None and span_of(row)[0] == slot else None

    @property
    def newest_slot(self) -> int:
        """The slot of the newest row; -1 without any."""
        return max((span_of(row)[0] for row in self._rows.values()), default=-1)

    def put(self, row: HistoryRow) -> None:
        """Add a row of the same or a shorter length."""
        known = self.row(row.slot)
        self._rows[row.slot % self.length] = encode_row(
            row if known is None else merge_rows(row.slot, decode_row(known), row)
        )
        self._changed.add(row.slot % self.length)

    def drop_after(self, slot: int) -> None:
        late = [index for index, row in self._rows.items() if span_of(row)[0] > slot]
        for index in late:
            del self._rows[index]
        self._changed.update(late)

    def restore(self, content: Buffer, now_slot: int) -> int:
        """Take the rows from the bytes of this ring; return how many are damaged."""
        damaged = 0
        for index in range(self.length):
            record = content[index * ROW_BYTES : (index + 1) * ROW_BYTES]
            if record == _BLANK_ROW[: len(record)]:
                continue
            row = whole_row(record)
            if row is not None and span_of(row)[0] % self.length == index:
                if span_of(row)[0] <= now_slot:  # else the clock was ahead when it was written
                    self._rows[index] = row
            else:
                damaged += 1
        return damaged

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def take_changes(self) -> Iterator[RowChange]:
        """Return what is to be written, once."""
        changed, self._changed = sorted(self._changed), set()
        for index in changed:
            content = self._rows.get(index, bytes(ROW_BYTES))
            yield RowChange(self.position + index * ROW_BYTES, content)

    def not_written(self, change: RowChange) -> None:
        self._changed.add((change.position - self.position) // ROW_BYTES)


class HistoryRings:
    """All rings. Its owner calls `add` once a second, and writes the changes."""

    def __init__(self) -> None:
        self._rings: list[_Ring] = []
        position = _HEADER_BYTES
        for step, length in HISTORY_RINGS:
            self._rings.append(_Ring(step, length, position))
            position += length * ROW_BYTES
        self._open: HistoryRow | None = None
        """The row that is being gathered."""
        self._newest = -1
        """The slot of the last complete row."""

    def add(self, now_ns: int, seconds: float, values: Values, groups: Mapping[bytes, GroupPoint]) -> None:
        """Add the numbers of the last seconds."""
        if not seconds > 0:
            return
        slot = max(0, now_ns - 1) // (STEP * NANOSECONDS)
        row = HistoryRow(slot, min(seconds, float(STEP)), values, groups)
        if self._open is not None and self._open.slot == slot:
            self._open = merge_rows(slot, self._open, row)
            return
        is_back = self._open is not None and slot < self._open.slot
        self.complete()
        if is_back:
            for ring in self._rings:
                ring.drop_after(slot * STEP // ring.step)
            self._newest = min(self._newest, slot)
        self._open = row

    def complete(self) -> None:
        """Keep the row that is being gathered."""
        row, self._open = self._open, None
        if row is not None:
            for ring in self._rings:
                ring.put(HistoryRow(row.slot * STEP // ring.step, row.seconds, row.values, row.groups))
            self._newest = row.slot

    # --- what is asked ---

    @staticmethod
    def longest(step: int) -> int:
        """Return how many seconds are kept in this step; 0 if none are."""
        return max((each * length for each, length in HISTORY_RINGS if step % each == 0), default=0)

    def read(self, seconds: int, step: int, now_ns: int) -> HistorySeries:
        """Return all series. The last number may be of a part of its step."""
        end, rows = self._rows(seconds, step, now_ns)
        found = [_merged_values(some) for some in rows]
        columns: Iterable[Sequence[float | None]] = zip(*(one or (None,) * len(SERIES) for one in found), strict=True)
        return HistorySeries(end, {name: list(column) for name, column in zip(SERIES, columns, strict=True)})

    def read_group(self, group: str, seconds: int, step: int, now_ns: int) -> HistorySeries:
        """Return lag and rate of one group."""
        key = group_key(group)
        end, rows = self._rows(seconds, step, now_ns)
        points = [_merged_points([(row, point_of(row, key)) for row in some]) for some in rows]
        return HistorySeries(
            end,
            {
                "lag": [None if one is None else round(one.lag) for one in points],
                "rate": [None if one is None else round(one.rate, 3) for one in points],
            },
        )

    def _rows(self, seconds: int, step: int, now_ns: int) -> tuple[int, Iterator[list[bytes]]]:
        """Return the end, and the rows of each step."""
        ring = next(one for one in reversed(self._rings) if step % one.step == 0)
        now_slot = now_ns // (STEP * NANOSECONDS)
        end_slot = self._newest + 1 if 0 <= now_slot - self._newest <= _RECENT_STEPS else now_slot
        last = max(0, end_slot * STEP - 1) // step
        count, parts = -(-seconds // step), step // ring.step
        first = last - count + 1
        steps = (range(number * parts, (number + 1) * parts) for number in range(first, last + 1))
        rows = ([row for slot in slots if (row := ring.row(slot)) is not None] for slots in steps)
        return min(end_slot * STEP * NANOSECONDS, now_ns), rows

    # --- the file ---

    @property
    def has_changes(self) -> bool:
        return any(ring.has_changes for ring in self._rings)

    def take_changes(self) -> list[RowChange]:
        """Return what is to be written, once."""
        return [change for ring in self._rings for change in ring.take_changes()]

    def not_written(self, changes: Iterable[RowChange]) -> None:
        """Offer changes again."""
        for change in changes:
            next(ring for ring in reversed(self._rings) if ring.position <= change.position).not_written(change)

    def restore(self, content: Buffer, now_ns: int) -> int:
        """Take the rows of a file; return how many are damaged."""
        damaged, now_slot = 0, now_ns // (STEP * NANOSECONDS)
        for ring in self._rings:
            part = content[ring.position : ring.position + ring.length * ROW_BYTES]
            damaged += ring.restore(part, now_slot * STEP // ring.step)
        self._newest = self._rings[0].newest_slot
        return damaged


def _merged_values(rows: list[bytes]) -> Values | None:
    if len(rows) < 2:
        return values_of(rows[0]) if rows else None
    return tuple(round(value, 3) for value in merge_values([(span_of(row)[1], values_of(row)) for row in rows]))


def _merged_points(rows: list[tuple[bytes, GroupPoint | None]]) -> GroupPoint | None:
    known = [(span_of(row)[1], point) for row, point in rows if point is not None]
    if not known:
        return None
    seconds = sum(one for one, _ in known)
    rate = sum(one * point.rate for one, point in known) / seconds
    return GroupPoint(max(point.lag for _, point in known), rate)


def file_header() -> bytes:
    """Return the beginning of the file, which says what its rows are."""
    return encode_checkpoint(_LAYOUT).ljust(_HEADER_BYTES, b"\0")


def is_ours(content: Buffer) -> bool:
    """Return whether a file has rows as they are written now."""
    facts = decode_checkpoint(bytes(content[:_HEADER_BYTES]).rstrip(b"\0"))
    return facts is not None and {name: facts.get(name) for name in _LAYOUT} == _LAYOUT
