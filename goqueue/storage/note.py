"""Small facts in files of their own: one line of JSON, and its checksum on the next.

Such a note decides what is read, removed or given out again, so a changed bit must not pass for a
fact. One that is not whole counts as none.
"""

import json
from typing import Any

from crc32c import crc32c

from goqueue.storage.disk import Disk, replace

NOTES_OF_LOGS = frozenset({"compacted", "producers", "schedule", "snapshot"})
"""Those that stand in a log's directory, beside its segments."""


def write_note(disk: Disk, path: str, **facts: Any) -> None:
    """Put the note there in one step."""
    replace(disk, path, encode_note(facts))


def encode_note(facts: dict[str, Any]) -> bytes:
    line = json.dumps({"format": 1, **facts}).encode() + b"\n"
    return line + b"%08x\n" % crc32c(line)


def decode_note(content: bytes) -> dict[str, Any] | None:
    """The facts, or None where this is not a note of this format, every bit as it was written."""
    line, newline, checksum = content.partition(b"\n")
    line += newline
    if checksum != b"%08x\n" % crc32c(line):
        return None
    try:
        facts = json.loads(line)
    except ValueError:
        return None
    return facts if isinstance(facts, dict) and facts.get("format") == 1 else None
