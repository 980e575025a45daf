"""Rows on stdout in the chosen format: aligned tables for people, complete records for programs.

A format for programs has every field of every row, with raw numbers, and times in RFC 3339.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.table import Cell
from goqueue.nearest import nearest
from goqueue.quantities import quoted

Output = Literal["table", "wide", "name", "json", "jsonl", "yaml", "csv"]
OUTPUTS: tuple[str, ...] = get_args(Output)
FOR_PEOPLE = {"table", "wide"}

Row = Mapping[str, Any]


class Column(NamedTuple):
    """A column of a table: `show` formats the field. A `wide` column appears only with `-o wide`.

    A column without a title is for programs: it gives CSV the field even if there are no rows. `style` returns the
    name of a color; states have colors of their own.
    """

    title: str
    field: str
    show: Callable[[Any], str] = str
    wide: bool = False
    style: Callable[[Row], str] | None = None


def write_rows(
    rows: Sequence[Row], columns: Sequence[Column], output: str, *, headers: bool = True, name: str = "name"
) -> None:
    """Write all rows; without any, JSON and YAML get an empty list. `name` is the field for the output of names."""
    if output in FOR_PEOPLE:
        _write_table(rows, visible_columns(columns, output), headers)
    elif output == "name":
        terminal.write_lines(str(row[name]) for row in rows)
    elif output == "json":
        terminal.write(f"{json_text(rows, indent=2)}\n")
    elif output == "jsonl":
        terminal.write("".join(f"{json_text(row)}\n" for row in rows))
    elif output == "yaml":
        terminal.write(yaml_text(rows))
    else:
        terminal.write(_csv_text(rows, columns, headers))


def struct_to_row(described: Any) -> dict[str, Any]:
    """Convert an object of the client to a row."""
    import msgspec  # noqa: PLC0415 - loaded with the client

    row: dict[str, Any] = msgspec.to_builtins(described)
    return row


def visible_columns(columns: Sequence[Column], output: str) -> list[Column]:
    return [one for one in columns if one.title and (output == "wide" or not one.wide)]


def json_text(value: Any, indent: int | None = None) -> str:
    """Encode as JSON, compact without `indent`. A terminal gets ASCII, so that it obeys no character of it."""
    separators = (",", ":") if indent is None else None
    return json.dumps(value, indent=indent, separators=separators, ensure_ascii=terminal.is_terminal())


def yaml_text(rows: Sequence[Row]) -> str:
    import yaml  # noqa: PLC0415 - ten milliseconds that the other forms do not cost

    text: str = yaml.safe_dump([dict(row) for row in rows], sort_keys=False, allow_unicode=not terminal.is_terminal())
    return text


def csv_line(cells: Sequence[Any]) -> str:
    import csv  # noqa: PLC0415
    from io import StringIO  # noqa: PLC0415

    text = StringIO()
    texts = [json_text(cell) if isinstance(cell, (dict, list)) else cell for cell in cells]
    shown = [terminal.escape_unprintable(str(cell)) for cell in texts] if terminal.is_terminal() else texts
    csv.writer(text, lineterminator="\n").writerow(shown)
    return text.getvalue()


def _write_table(rows: Sequence[Row], columns: Sequence[Column], headers: bool) -> None:
    lines = [[render_cell(row, column) for column in columns] for row in rows]
    titles = [[Cell(column.title, "title") for column in columns]] if headers and lines else []
    if lines:
        right = [is_numeric_column(rows, column) for column in columns]
        terminal.write("".join(f"{line}\n" for line in terminal.table_lines([*titles, *lines], right)))


def render_cell(row: Row, column: Column) -> Cell:
    value = row.get(column.field)
    text = "-" if value is None else column.show(value)
    return Cell(text, column.style(row) if column.style else state_style(column.field, text))


def is_numeric_column(rows: Sequence[Row], column: Column) -> bool:
    """Return True if a column is aligned to the right, as sizes and durations are."""
    values = [value for row in rows if (value := row.get(column.field)) is not None]
    return bool(values) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _csv_text(rows: Sequence[Row], columns: Sequence[Column], headers: bool) -> str:
    """Format the fields of the columns, and behind them all other fields of the rows."""
    fields = _fields(rows, columns)
    title = [csv_line(fields)] if headers else []
    return "".join([*title, *(csv_line([row.get(field) for field in fields]) for row in rows)])


# --- sorting ---

_DIRECTIONS = {"": False, "asc": False, "desc": True}


def parse_sort(text: str | None) -> tuple[str, bool]:
    """Return the field of `--sort-by`, and True if the largest value comes first."""
    name, _, direction = (text or "").partition(":")
    if text is not None and (not name or direction not in _DIRECTIONS):
        raise UsageInvalid(f"--sort-by {quoted(text)} is not an order", hint="use --sort-by name or name:desc")
    return name, _DIRECTIONS.get(direction, False)


def sort_rows(rows: Sequence[Row], columns: Sequence[Column], text: str) -> list[Row]:
    """Sort by a field or a column title; rows without a value come last in both directions."""
    name, descending = parse_sort(text)
    field = _sort_field(rows, columns, name)
    known = [row for row in rows if row.get(field) is not None]
    unknown = [row for row in rows if row.get(field) is None]
    return [*sorted(known, key=lambda row: _rank(row[field]), reverse=descending), *unknown]


def _sort_field(rows: Sequence[Row], columns: Sequence[Column], name: str) -> str:
    fields = _fields(rows, columns)
    titles = {column.title.lower(): column.field for column in columns if column.title}
    if name in fields:
        return name
    if name.lower() in titles:
        return titles[name.lower()]
    guess = nearest(name, [*fields, *titles])
    hint = f"did you mean {guess}?" if guess else f"there are {', '.join(fields)}"
    raise UsageInvalid(f"--sort-by: there is no field {quoted(name)}", hint=hint)


def _fields(rows: Sequence[Row], columns: Sequence[Column]) -> list[str]:
    return list(dict.fromkeys([*(column.field for column in columns), *(field for row in rows for field in row)]))


def _rank(value: Any) -> tuple[bool, Any]:
    """Return a sort key: numbers by size before text, text without regard to case."""
    if isinstance(value, (int, float)):
        return False, value
    return True, (value if isinstance(value, str) else json.dumps(value, default=str)).casefold()


# --- states ---

_STATE_FIELDS = ("state", "status", "result", "severity", "health", "event")
"""The endings of the names of fields that have a state."""

_STATES = {
    "good": (
        "active added alive altered committed complete_commit created deleted done fixed healthy ok online running "
        "stable unchanged up"
    ),
    "moving": (
        "changed degraded draining empty joining lagging leaving note ongoing paused pending prepare_abort "
        "prepare_commit preparing rebalancing revoking starting stopping syncing warning"
    ),
    "bad": "critical dead down error expired failed faulty fenced lost offline refused removed stuck",
}
_STYLE_BY_STATE = {state: style for style, states in _STATES.items() for state in states.split()}


def state_style(field: str, text: str) -> str:
    """Return the name of the color of a state, or an empty text for any other field."""
    return _STYLE_BY_STATE.get(text.lower(), "") if field.endswith(_STATE_FIELDS) else ""
