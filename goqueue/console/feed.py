"""Changes as they come, for whoever reads them from a pipe or a file."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from goqueue.console import rows, terminal
from goqueue.console.changes import Event, Look
from goqueue.console.rows import Column
from goqueue.console.session import Session
from goqueue.console.table import Cell

_EVENT = Column("EVENT", "event")
_EVENT_CELLS = max(map(len, get_args(Event)))


class Feed:
    """An entry for each row that is new, changed or gone; `event` says which."""

    def __init__(self, session: Session, columns: Sequence[Column]) -> None:
        self._session = session
        self._columns = [_EVENT, *rows.seen_columns(columns, session.output)]
        self._fields = [_EVENT.field, *(column.field for column in columns)]
        self._widths: list[int] = []
        self._right: list[bool] = []
        self._begun = False
        self._trouble = False

    def show(self, look: Look) -> None:
        if self._trouble:
            terminal.say("the broker answers again")
        self._trouble = False
        self._write([self._entry(event, row) for event, row in look.events])

    def tell(self, trouble: str) -> None:
        """Once, and not for as long as it goes on."""
        if not self._trouble:
            terminal.say(f"{trouble}; going on when the broker answers")
        self._trouble = True

    def close(self) -> None:
        """Nothing is left open between two entries."""

    def _entry(self, event: Event, row: Mapping[str, Any]) -> dict[str, Any]:
        return {_EVENT.field: event, **row}

    def _write(self, entries: list[dict[str, Any]]) -> None:
        output = self._session.output
        if not entries:
            return
        if self._session.for_people:
            self._write_lines(entries)
        elif output == "csv":
            cells: list[list[Any]] = [[entry.get(field) for field in self._fields] for entry in entries]
            if self._session.headers and not self._begun:
                cells.insert(0, self._fields)
            terminal.write("".join(map(rows.csv_line, cells)))
        else:
            rows.write_rows(entries, self._columns, "jsonl" if output == "json" else output)
        self._begun = True

    def _write_lines(self, entries: list[dict[str, Any]]) -> None:
        """Under the titles of the first, and as wide as those were, if that is enough."""
        lines = [[rows.shown(entry, column) for column in self._columns] for entry in entries]
        if not self._begun:
            self._right = [rows.is_number(entries, column) for column in self._columns]
            if self._session.headers:
                lines.insert(0, [Cell(column.title, "title") for column in self._columns])
        found = terminal.table_widths(lines, self._right)
        found[0] = max(found[0], _EVENT_CELLS)
        self._widths = [max(pair) for pair in zip(found, self._widths or found, strict=True)]
        terminal.write("".join(f"{line}\n" for line in terminal.table_lines(lines, self._right, self._widths)))
