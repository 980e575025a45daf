"""A table that is drawn over itself, for a person who watches it.

What stood on the terminal before stays above it, and the last table stays when it ends: nothing here is
cleared but what was drawn here.
"""

import time
from collections.abc import Sequence

from goqueue.console import rows, terminal
from goqueue.console.changes import Look
from goqueue.console.rows import Column
from goqueue.console.session import Session
from goqueue.console.table import Cell, Line
from goqueue.quantities import format_count, format_duration

_AROUND = 3  # the line of what is going on, the titles, and the line that the cursor rests on


class Screen:
    """The frame on the terminal: a line on what is going on, and below it the table."""

    def __init__(self, session: Session, columns: Sequence[Column], every: float) -> None:
        self._session = session
        self._columns = rows.seen_columns(columns, session.output)
        self._every = every
        self._look = Look((), [], [])
        self._at = ""
        self._drawn = 0
        self._size: tuple[int | None, int | None] = (None, None)

    def show(self, look: Look) -> None:
        self._look = look
        self._at = time.strftime("%H:%M:%S")
        self._draw("")

    def tell(self, trouble: str) -> None:
        """The table stays as it was, under the trouble."""
        self._draw(trouble)

    def close(self) -> None:
        """Leave the last table, without the ^C that the terminal has put below it."""
        terminal.write("\r\x1b[K")

    def _draw(self, trouble: str) -> None:
        size = terminal.size()
        moved = size != self._size and self._drawn > 0  # lines may have been broken: where they begin is unknown
        start = "\x1b[H\x1b[2J" if moved else f"\r\x1b[{self._drawn}A" if self._drawn else ""
        lines = [self._heading(trouble, size[0]), *self._body(size[1])]
        self._drawn, self._size = len(lines), size
        terminal.write(start + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")

    def _heading(self, trouble: str, room: int | None) -> str:
        session = self._session
        pieces = [self._at or time.strftime("%H:%M:%S"), f"every {format_duration(self._every)}"]
        line = [Cell("  ".join(pieces), "faint")]
        if session.context:
            line.append(Cell(session.context, "protected" if session.protected else ""))
        if trouble:
            line.append(Cell(trouble, "bad"))
        return terminal.one_line(line, room)

    def _body(self, height: int | None) -> list[str]:
        found = self._look.rows
        if not found:
            return ["(nothing)"]
        shown = found if height is None else found[: max(1, height - _AROUND - (len(found) > height - _AROUND))]
        lines: list[Line] = [
            [_marked(rows.shown(row, column), column.field in marks) for column in self._columns]
            for row, marks in zip(shown, self._look.marks, strict=False)
        ]
        if self._session.headers:
            lines.insert(0, [Cell(column.title, "title") for column in self._columns])
        right = [rows.is_number(found, column) for column in self._columns]
        body = terminal.table_lines(lines, right)
        if len(shown) < len(found):
            body.append(f"… and {format_count(len(found) - len(shown))} more")
        return body


def _marked(cell: Cell, changed: bool) -> Cell:
    return Cell(cell.text, "changed") if changed and not cell.style else cell
