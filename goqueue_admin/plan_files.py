"""Files with plans of moves: YAML or JSON, written by a command or by hand.

moves:
- {topic: orders, partition: 0, replicas: [n4, n2, n3]}
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from goqueue.client import PlannedMove
from goqueue.console.failure import UsageInvalid

_FIELDS = {"topic": str, "partition": int, "replicas": list}
_WRITTEN_ONLY = {"before", "bytes", "name"}
"""Rows of `reassign plan -o json` have these too."""


def write_plan(path: Path, moves: Sequence[PlannedMove]) -> None:
    try:
        path.write_text(_text(path, moves), "utf-8")
    except OSError as error:
        raise UsageInvalid(f"the plan cannot be written to {path}: {error.strerror or error}") from None


def write_undo(path: Path, moves: Sequence[PlannedMove]) -> Path:
    """Write a plan to `path`, or next to it if it has another one: a way back is never replaced. Return where it is."""
    text, free, number = _text(path, moves), path, 1
    while True:
        try:
            with free.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            if free.is_file() and free.read_bytes() == text.encode():
                return free
        else:
            return free
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")


def _text(path: Path, moves: Sequence[PlannedMove]) -> str:
    plan = {
        "moves": [{"topic": one.topic, "partition": one.partition, "replicas": list(one.replicas)} for one in moves]
    }
    if path.suffix == ".json":
        return json.dumps(plan, indent=2) + "\n"
    return str(yaml.safe_dump(plan, sort_keys=False, default_flow_style=None))


def read_plan(path: Path) -> list[PlannedMove]:
    """Return the moves of a file; `-` is stdin. Raises UsageInvalid with the place of what is wrong."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
        found = yaml.safe_load(text)  # JSON is YAML, too
    except OSError as error:
        raise UsageInvalid(f"the plan {path} cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageInvalid(f"the plan {path} is neither YAML nor JSON: {str(error).splitlines()[0]}") from None
    rows = found.get("moves") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not rows:
        raise UsageInvalid(
            f"the plan {path} has no moves",
            hint="it has a list `moves`, each with topic, partition and replicas: `reassign plan --file` writes one",
        )
    return [_move(path, number, row) for number, row in enumerate(rows, start=1)]


def _move(path: Path, number: int, row: Any) -> PlannedMove:
    fields = row if isinstance(row, dict) else {}
    wrong = [name for name, kind in _FIELDS.items() if type(fields.get(name)) is not kind]
    wrong += [str(name) for name in fields if name not in _FIELDS.keys() | _WRITTEN_ONLY]
    if not wrong and not all(isinstance(node, str) for node in fields["replicas"]):
        wrong = ["replicas"]
    if wrong:
        raise UsageInvalid(
            f"move {number} of the plan {path} is wrong: {', '.join(wrong)}",
            hint="each has topic (text), partition (number) and replicas (list of node ids)",
        )
    return PlannedMove(topic=fields["topic"], partition=fields["partition"], replicas=fields["replicas"])
