"""Watching a list, and waiting for a condition.

A list is shown as a table that is redrawn in place, or as an event for each change.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import typer

from goqueue.console import exit_codes, rows, terminal
from goqueue.console.failure import ActionFailed, doing, suggesting
from goqueue.console.flags import WatchOptions
from goqueue.console.rows import Column, Row
from goqueue.console.session import Session
from goqueue.console.table import Cell, CellLine
from goqueue.errors import GoQueueError, RequestTimedOut, TransientError
from goqueue.quantities import format_count, format_duration

if TYPE_CHECKING:
    from goqueue.client import Client

RowEvent = Literal["added", "changed", "removed"]


class WatchUpdate(NamedTuple):
    """The rows of one request, and the changes since the one before."""

    rows: Sequence[Row]
    events: list[tuple[RowEvent, Row]]
    marks: list[frozenset[str]]
    """The changed fields of each row."""


class RowChanges:
    """Compares each list of rows with the one before.

    The field `key` identifies a row, or else its position. Changes of `volatile` fields, such as an age, are no events.
    """

    def __init__(self, key: str, volatile: Collection[str] = ()) -> None:
        self._key = key
        self._volatile = frozenset(volatile)
        self._known: dict[Any, Row] | None = None

    def take(self, rows: Sequence[Row]) -> WatchUpdate:
        """Return the changes; at first every row is added, and no field is marked."""
        before, identities = self._known or {}, [self._identity(row, place) for place, row in enumerate(rows)]
        now = dict(zip(identities, rows, strict=True))
        changed = {identity: self._changed(before.get(identity), row) for identity, row in now.items()}
        events: list[tuple[RowEvent, Row]] = [
            ("changed" if identity in before else "added", now[identity])
            for identity, found in changed.items()
            if found
        ]
        events += [("removed", row) for identity, row in before.items() if identity not in now]
        marks = [frozenset() if self._known is None else changed[identity] for identity in identities]
        self._known = now
        return WatchUpdate(rows, events, marks)

    def _identity(self, row: Row, place: int) -> Any:
        value = row.get(self._key, place)
        return repr(value) if isinstance(value, (dict, list, set)) else value

    def _changed(self, old: Row | None, row: Row) -> frozenset[str]:
        if old is None:
            return frozenset(row)
        return frozenset(name for name in {*old, *row} - self._volatile if old.get(name) != row.get(name))


_AROUND = 3  # the heading, the titles, and the line with the cursor


class LiveTable:
    """A table that is drawn over itself, below a heading.

    Earlier output on the terminal stays above it, and the last table stays when the command ends.
    """

    def __init__(self, session: Session, columns: Sequence[Column], every: float) -> None:
        self._session = session
        self._columns = rows.visible_columns(columns, session.output)
        self._every = every
        self._update = WatchUpdate((), [], [])
        self._at = ""
        self._drawn = 0
        self._size: tuple[int | None, int | None] = (None, None)

    def show(self, update: WatchUpdate) -> None:
        self._update = update
        self._at = time.strftime("%H:%M:%S")
        self._draw("")

    def show_problem(self, problem: str) -> None:
        """Show a problem above the unchanged table."""
        self._draw(problem)

    def close(self) -> None:
        """Remove the ^C that the terminal printed below the table."""
        terminal.write("\r\x1b[K")

    def _draw(self, problem: str) -> None:
        size = terminal.size()
        moved = size != self._size and self._drawn > 0  # the terminal may have wrapped lines
        start = "\x1b[H\x1b[2J" if moved else f"\r\x1b[{self._drawn}A" if self._drawn else ""
        lines = [self._heading(problem, size[0]), *self._body(size[1])]
        self._drawn, self._size = len(lines), size
        terminal.write(start + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")

    def _heading(self, problem: str, room: int | None) -> str:
        session = self._session
        pieces = [self._at or time.strftime("%H:%M:%S"), f"every {format_duration(self._every)}"]
        line = [Cell("  ".join(pieces), "faint")]
        if session.broker_context:
            line.append(Cell(session.broker_context, "protected" if session.protected else ""))
        if problem:
            line.append(Cell(problem, "bad"))
        return terminal.render_line(line, room)

    def _body(self, height: int | None) -> list[str]:
        found = self._update.rows
        if not found:
            return ["(nothing)"]
        shown = found if height is None else found[: max(1, height - _AROUND - (len(found) > height - _AROUND))]
        lines: list[CellLine] = [
            [_marked(rows.render_cell(row, column), column.field in marks) for column in self._columns]
            for row, marks in zip(shown, self._update.marks, strict=False)
        ]
        if self._session.headers:
            lines.insert(0, [Cell(column.title, "title") for column in self._columns])
        right = [rows.is_numeric_column(found, column) for column in self._columns]
        body = terminal.table_lines(lines, right)
        if len(shown) < len(found):
            body.append(f"… and {format_count(len(found) - len(shown))} more")
        return body


def _marked(cell: Cell, changed: bool) -> Cell:
    return Cell(cell.text, "changed") if changed and not cell.style else cell


_EVENT = Column("EVENT", "event")
_EVENT_CELLS = max(map(len, get_args(RowEvent)))


class ChangeFeed:
    """An entry for each row that was added, changed or removed."""

    def __init__(self, session: Session, columns: Sequence[Column]) -> None:
        self._session = session
        self._columns = [_EVENT, *rows.visible_columns(columns, session.output)]
        self._fields = [_EVENT.field, *(column.field for column in columns)]
        self._widths: list[int] = []
        self._right: list[bool] = []
        self._begun = False
        self._problem = False

    def show(self, update: WatchUpdate) -> None:
        if self._problem:
            terminal.say("the broker answers again")
        self._problem = False
        self._write([self._entry(event, row) for event, row in update.events])

    def show_problem(self, problem: str) -> None:
        """Report a problem once."""
        if not self._problem:
            terminal.say(f"{problem}; continuing when the broker answers")
        self._problem = True

    def close(self) -> None:
        """Do nothing: every entry is complete."""

    def _entry(self, event: RowEvent, row: Mapping[str, Any]) -> dict[str, Any]:
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
        """Write lines below the first titles, with the same widths if they suffice."""
        lines = [[rows.render_cell(entry, column) for column in self._columns] for entry in entries]
        if not self._begun:
            self._right = [rows.is_numeric_column(entries, column) for column in self._columns]
            if self._session.headers:
                lines.insert(0, [Cell(column.title, "title") for column in self._columns])
        found = terminal.table_widths(lines, self._right)
        found[0] = max(found[0], _EVENT_CELLS)
        self._widths = [max(pair) for pair in zip(found, self._widths or found, strict=True)]
        terminal.write("".join(f"{line}\n" for line in terminal.table_lines(lines, self._right, self._widths)))


_PATIENCE_SECONDS = 1.0
"""Time after which the screen shows that an answer is late."""


def show_rows(
    session: Session,
    what: str,
    fetch: "Callable[[Client], Sequence[Row]]",
    columns: Sequence[Column],
    options: WatchOptions | None = None,
    *,
    volatile: Collection[str] = (),
) -> Sequence[Row]:
    """Write the rows that `fetch` returns; with --watch, repeat until ^C and do not return.

    `what` is a verb with its object, for errors. A change of a `volatile` field, such as an age, is no event.
    """
    with doing(what), session.client() as client, suggesting(client):
        if options is not None and options.watch:
            watch(session, lambda: fetch(client), columns, every=options.every, volatile=volatile)
        rows = fetch(client)
    session.write(rows, columns)
    return rows


def watch(
    session: Session,
    rows: Callable[[], Sequence[Row]],
    columns: Sequence[Column],
    *,
    every: float,
    key: str = "name",
    volatile: Collection[str] = (),
) -> None:
    """Show what `rows` returns, every so many seconds, until ^C; the field `key` identifies a row.

    A terminal shows the table in place; any other output gets an event for each change. If the broker goes away later,
    watching continues when it answers again.
    """
    changes = RowChanges(key, volatile)
    draws = session.for_people and terminal.can_redraw()
    view: LiveTable | ChangeFeed = LiveTable(session, columns, every) if draws else ChangeFeed(session, columns)

    def look() -> Sequence[Row]:
        return session.ordered(rows(), columns)

    try:
        view.show(changes.take(_looked(look, view)))
        while True:
            time.sleep(every)
            try:
                found = _looked(look, view)
            except (GoQueueError, ActionFailed) as error:
                view.show_problem(_passing(error))
            else:
                view.show(changes.take(found))
    except KeyboardInterrupt:
        view.close()
        raise typer.Exit(exit_codes.INTERRUPTED) from None


def wait(what: str, look: Callable[[], tuple[bool, str]], *, timeout: float, every: float = 0.5) -> None:
    """Return once `look` returns True; its text is the current state. `what` stands behind "waiting for"."""
    end = time.monotonic() + timeout
    state = "nothing is known yet"
    try:
        while True:
            try:
                done, state = look()
            except (GoQueueError, ActionFailed) as error:
                done, state = False, _passing(error)
            if done:
                return
            left = end - time.monotonic()
            if left <= 0:
                raise RequestTimedOut(f"waited {format_duration(timeout)} for {what}: {state}")
            terminal.show_status(f"waiting for {what}: {state}")
            time.sleep(min(every, left))
    finally:
        terminal.show_status("")


def _passing(error: GoQueueError | ActionFailed) -> str:
    """Return the sentence of an error that may pass; raise any other."""
    reason = error.error if isinstance(error, ActionFailed) else error
    if not isinstance(reason, TransientError):
        raise error
    return reason.sentence


class _Fetch(threading.Thread):
    """One request in a thread of its own, so that a broker that does not answer delays neither the screen nor ^C."""

    def __init__(self, rows: Callable[[], Sequence[Row]]) -> None:
        super().__init__(daemon=True)
        self._rows = rows
        self.found: Sequence[Row] = ()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.found = list(self._rows())
        except BaseException as error:
            self.error = error  # raised again by the thread that waits


def _looked(rows: Callable[[], Sequence[Row]], view: LiveTable | ChangeFeed) -> Sequence[Row]:
    look = _Fetch(rows)
    began = time.monotonic()
    look.start()
    look.join(_PATIENCE_SECONDS)
    while look.is_alive():
        view.show_problem(f"no answer for {format_duration(int(time.monotonic() - began))}")
        look.join(_PATIENCE_SECONDS)
    if look.error is not None:
        raise look.error
    return look.found
