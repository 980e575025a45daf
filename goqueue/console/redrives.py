"""The record of dead letters that were sent back: which went where, for every program that sends them."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from goqueue.console.undo import read_undo, write_undo

KIND = "redrive"

_PARTICULAR = {"topic_not_found", "partition_not_found", "message_too_large", "request_invalid", "topic_name_invalid"}


def is_particular(code: str) -> bool:
    """Whether something is wrong with one dead letter, and not with the broker: others may still go."""
    return code in _PARTICULAR


class Record:
    """The file that says which message was sent where, right after each request."""

    def __init__(self, topic: str, server: str) -> None:
        self.path: Path = write_undo(KIND, topic, {"server": server, "moved": []})
        self._document = read_undo(self.path)
        self._moved: dict[tuple[str, str], list[list[int]]] = {}

    def add(self, topic: str, results: Sequence[Mapping[str, Any]]) -> None:
        for one in results:
            if not one.get("error"):
                source, target = f"{topic}/{one['partition']}", f"{one['target_topic']}/{one['target_partition']}"
                ranges, offset = self._moved.setdefault((source, target), []), one["offset"]
                if ranges and ranges[-1][1] == offset:
                    ranges[-1][1] = offset + 1
                else:
                    ranges.append([offset, offset + 1])
        self._write()

    def _write(self) -> None:
        moved = [
            {"source": source, "target": target, "ranges": ranges} for (source, target), ranges in self._moved.items()
        ]
        draft = self.path.with_suffix(".draft")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(json.dumps(self._document | {"moved": moved}) + "\n")
        os.replace(draft, self.path)

    def close(self) -> Path | None:
        """The file, unless there is nothing to say."""
        if self._moved:
            return self.path
        with suppress(OSError):
            self.path.unlink()
        return None
