"""Rows on stdout in the form that was asked for: aligned for people, complete for programs.

A form for programs has every field of every row, numbers as they are and times in RFC 3339.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from goqueue.console import terminal
from goqueue.console.states import style_of
from goqueue.console.table import Cell

Output = Literal["table", "wide", "name", "json", "jsonl", "yaml", "csv"]
OUTPUTS: tuple[str, ...] = get_args(Output)
FOR_PEOPLE = {"table", "wide"}

Row = Mapping[str, Any]


class Column(NamedTuple):
    """One column of a table: `show` makes the field readable. A `wide` one is left out where space is short.

    One without a title is for programs alone: CSV has it even where there is no row to take it from. `style` gives
    the name of a colour; what is a state has one of its own.
    """

    title: str
    field: str
    show: Callable[[Any], str] = str
    wide: bool = False
    style: Callable[[Row], str] | None = None


def write_rows(rows: Sequence[Row], columns: Sequence[Column], output: str, *, headers: bool = True) -> None:
    """All rows at once; none at all is an empty list."""
    if output in FOR_PEOPLE:
        _write_table(rows, seen_columns(columns, output), headers)
    elif output == "name":
        terminal.write_lines(str(row["name"]) for row in rows)
    elif output == "json":
        terminal.write(f"{json_text(rows, indent=2)}\n")
    elif output == "jsonl":
        terminal.write("".join(f"{json_text(row)}\n" for row in rows))
    elif output == "yaml":
        terminal.write(yaml_text(rows))
    else:
        terminal.write(_csv_text(rows, columns, headers))


def of_fields(described: Any) -> dict[str, Any]:
    """What the client gives as an object, as a row."""
    import msgspec  # noqa: PLC0415 - loaded with the client

    row: dict[str, Any] = msgspec.to_builtins(described)
    return row


def seen_columns(columns: Sequence[Column], output: str) -> list[Column]:
    """Those that a table has."""
    return [one for one in columns if one.title and (output == "wide" or not one.wide)]


def json_text(value: Any, indent: int | None = None) -> str:
    """Compact, unless it is indented. A terminal gets ASCII, so that no character can tell it what to do."""
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
    shown = [terminal.visible(str(cell)) for cell in texts] if terminal.is_terminal() else texts
    csv.writer(text, lineterminator="\n").writerow(shown)
    return text.getvalue()


def _write_table(rows: Sequence[Row], columns: Sequence[Column], headers: bool) -> None:
    lines = [[shown(row, column) for column in columns] for row in rows]
    titles = [[Cell(column.title, "title") for column in columns]] if headers and lines else []
    if lines:
        right = [is_number(rows, column) for column in columns]
        terminal.write("".join(f"{line}\n" for line in terminal.table_lines([*titles, *lines], right)))


def shown(row: Row, column: Column) -> Cell:
    """What a person sees of one field."""
    value = row.get(column.field)
    text = "-" if value is None else column.show(value)
    return Cell(text, column.style(row) if column.style else style_of(column.field, text))


def is_number(rows: Sequence[Row], column: Column) -> bool:
    """Whether a column is read from its last digit, as sizes and durations are too."""
    values = [value for row in rows if (value := row.get(column.field)) is not None]
    return bool(values) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _csv_text(rows: Sequence[Row], columns: Sequence[Column], headers: bool) -> str:
    """The fields of the columns, and behind them whatever else the rows have."""
    fields = list(dict.fromkeys([*(column.field for column in columns), *(field for row in rows for field in row)]))
    title = [csv_line(fields)] if headers else []
    return "".join([*title, *(csv_line([row.get(field) for field in fields]) for row in rows)])
