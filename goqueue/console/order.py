"""The order of rows that `--sort-by` asks for: by a field, or by the title of the column that shows it."""

import json
from collections.abc import Sequence
from typing import Any

from goqueue.console.groups import UsageInvalid
from goqueue.console.nearest import nearest
from goqueue.console.rows import Column, Row
from goqueue.quantities import quoted

_DIRECTIONS = {"": False, "asc": False, "desc": True}


def ordering(text: str | None) -> tuple[str, bool]:
    """The field, and whether the largest comes first. It is judged before a broker is asked for anything."""
    name, _, direction = (text or "").partition(":")
    if text is not None and (not name or direction not in _DIRECTIONS):
        raise UsageInvalid(f"--sort-by {quoted(text)} is no order", hint="write it as in --sort-by name or name:desc")
    return name, _DIRECTIONS.get(direction, False)


def ordered(rows: Sequence[Row], columns: Sequence[Column], text: str) -> list[Row]:
    """What has no such value stands last, whichever way it goes."""
    name, backward = ordering(text)
    field = _field(rows, columns, name)
    known = [row for row in rows if row.get(field) is not None]
    unknown = [row for row in rows if row.get(field) is None]
    return [*sorted(known, key=lambda row: _rank(row[field]), reverse=backward), *unknown]


def _field(rows: Sequence[Row], columns: Sequence[Column], name: str) -> str:
    fields = list(dict.fromkeys([*(column.field for column in columns), *(field for row in rows for field in row)]))
    titles = {column.title.lower(): column.field for column in columns if column.title}
    wanted = name.lower()
    if name in fields:
        return name
    if wanted in titles:
        return titles[wanted]
    guess = nearest(name, [*fields, *titles])
    hint = f"did you mean {guess}?" if guess else f"there are {', '.join(fields)}"
    raise UsageInvalid(f"--sort-by: there is no field {quoted(name)}", hint=hint)


def _rank(value: Any) -> tuple[bool, Any]:
    """Numbers by size, before text; text without regard to capitals."""
    if isinstance(value, (int, float)):
        return False, value
    return True, (value if isinstance(value, str) else json.dumps(value, default=str)).casefold()
