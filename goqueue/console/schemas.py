"""Schemas for people: levels of compatibility, texts line by line, and how two of them differ."""

import difflib
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
_LINE_CHARACTERS_MAX = 110


def schema_lines(text: str) -> list[str]:
    """Return a text for people: JSON with a line for each field, other formats as they are."""
    with suppress(ValueError):
        return list(_json_lines(json.loads(text)))
    return text.splitlines()


def _json_lines(value: Any) -> Iterator[str]:
    """Yield the lines of a value. What has no fields of its own stays on one line if it is short."""
    if not value or not isinstance(value, dict | list) or _is_short_leaf(value):
        yield json.dumps(value, ensure_ascii=False)
        return
    brackets = "{}" if isinstance(value, dict) else "[]"
    names = [f"{json.dumps(name, ensure_ascii=False)}: " for name in value] if isinstance(value, dict) else None
    members = list(value.values() if isinstance(value, dict) else value)
    yield brackets[0]
    for number, member in enumerate(members):
        lines = list(_json_lines(member))
        lines[0] = (names[number] if names else "") + lines[0]
        lines[-1] += "," if number < len(members) - 1 else ""
        yield from (f"  {line}" for line in lines)
    yield brackets[1]


def _is_short_leaf(value: Any) -> bool:
    members = value.values() if isinstance(value, dict) else value
    is_leaf = all(
        not isinstance(one, dict)
        and (not isinstance(one, list) or not any(isinstance(part, dict | list) for part in one))
        for one in members
    )
    return is_leaf and len(json.dumps(value, ensure_ascii=False)) <= _LINE_CHARACTERS_MAX


def schema_differences(before: str, after: str, titles: tuple[str, str] = ("", "")) -> list[str]:
    """Return a unified diff of two texts; none if they do not differ.

    Commas at the ends of lines are left out: a member that was added would change the line before it.
    """
    former, latter = ([line.rstrip(",") for line in schema_lines(text)] for text in (before, after))
    return list(difflib.unified_diff(former, latter, *titles, lineterm=""))
