"""Messages that the broker refused because of their schemas, as a table with the numbers that the user knows."""

from collections.abc import Mapping
from typing import Any

from goqueue.console.table import Cell, column_widths, layout_line
from goqueue.errors import GoQueueError, SchemaViolation
from goqueue.quantities import format_count

_ROWS_MAX = 20
_HEADER = ("MESSAGE", "PART", "PATH", "PROBLEM")
_RIGHT = (True, False, False, False)


class Violations:
    """Refused messages by their numbers, counted from 1 in the order of the input."""

    def __init__(self) -> None:
        self._count = 0
        self._rows: list[tuple[str, ...]] = []
        self._first: SchemaViolation | None = None

    def add(self, failed: Mapping[int, GoQueueError], before: int) -> None:
        """Add messages by their positions in a call; `before` messages came in earlier ones."""
        for position, error in sorted(failed.items()):
            if isinstance(error, SchemaViolation):
                self._first = self._first or error
                self._count += 1
                for row in error.details.get("problems") or [{}]:
                    self._rows.append(_cells(before + position + 1, row, error))

    def refusal(self) -> SchemaViolation | None:
        """Return an error about all of them, with the table as its problems."""
        if self._first is None:
            return None
        sentence = (
            f"{format_count(self._count, 'message')} {'does' if self._count == 1 else 'do'} not match the schemas"
        )
        return SchemaViolation(f"{sentence} of the topic", hint=self._first.hint, problems=self._table())

    def _table(self) -> list[str]:
        lines = [[Cell(text) for text in row] for row in (_HEADER, *self._rows[:_ROWS_MAX])]
        widths = column_widths(lines, _RIGHT, None)
        found = ["".join(cell.text for cell in layout_line(line, widths, _RIGHT, None)) for line in lines]
        return [*found, f"and {len(self._rows) - _ROWS_MAX:,} more"] if len(self._rows) > _ROWS_MAX else found


def _cells(number: int, row: Mapping[str, Any], error: SchemaViolation) -> tuple[str, ...]:
    texts = (row.get("place", "-"), row.get("path") or "-", row.get("problem", error.sentence))
    return str(number), *(" ".join(str(text).split()) for text in texts)
