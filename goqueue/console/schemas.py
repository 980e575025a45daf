"""Schemas for people: levels of compatibility, texts line by line, and how two of them differ."""

import difflib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
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

    Commas at the ends of lines are not compared: a member that was added would change the line before it.
    """
    former, latter = schema_lines(before), schema_lines(after)
    old, new = ([line.rstrip(",") for line in lines] for lines in (former, latter))
    return list(_whole_lines(difflib.unified_diff(old, new, *titles, lineterm=""), former, latter))


def _whole_lines(differences: Iterator[str], former: list[str], latter: list[str]) -> Iterator[str]:
    """Yield a diff with the commas of its texts; a line that both have is that of the latter."""
    yield from islice(differences, 2)
    old = new = 0
    for line in differences:
        if found := re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)", line):
            old, new = int(found[1]) - 1, int(found[2]) - 1
            yield line
        elif line.startswith("-"):
            yield f"-{former[old]}"
            old += 1
        else:
            yield line[0] + latter[new]
            new += 1
            old += line[0] == " "
