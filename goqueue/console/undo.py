"""What a command has changed, written down so that it can be put back.

A file for each change, readable by its owner alone, under `~/.goqueue/undo`: JSON with what kind of change it
was, of what, when, and whatever the command needs to take it back.
"""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from goqueue.errors import PathInvalid
from goqueue.quantities import format_time

_ENVELOPE = ("kind", "name", "made_at")
_BYTES_MAX = 64 * 2**20  # far more than the offsets of a group with every partition that a broker may have


def undo_directory() -> Path:
    """Of whoever runs this; it need not exist."""
    return Path.home() / ".goqueue" / "undo"


def write_undo(kind: str, name: str, content: dict[str, Any]) -> Path:
    """Keep `content` until somebody wants it back; gives the place of the file."""
    made_at = format_time(time.time_ns())
    document = {"kind": kind, "name": name, "made_at": made_at, **content}
    moment = re.sub(r"[^0-9T]", "", made_at.partition(".")[0])
    stem = "-".join((moment, kind, re.sub(r"[^\w.-]", "_", name)[:100]))
    directory = undo_directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _write_new(directory, stem, json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise PathInvalid(
            f"what would undo this cannot be written under {directory}: {error.strerror or error}",
            hint="nothing was changed; make room there, or set HOME to a directory that can be written",
        ) from None


def read_undo(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `write_undo` was given, with `kind`, `name` and `made_at`."""
    try:
        with open(path, "rb") as file:
            text = file.read(_BYTES_MAX)
    except OSError as error:
        raise PathInvalid(f"{path} cannot be read: {error.strerror or error}", hint=_WHERE) from None
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not all(isinstance(document.get(part), str) for part in _ENVELOPE):
        raise PathInvalid(f"{path} does not say how to undo anything", hint=_WHERE)
    return document


_WHERE = "the files are under ~/.goqueue/undo, and a command that wrote one has said which"


def _write_new(directory: Path, stem: str, text: str) -> Path:
    """Under a name that was free: two changes of the same second have a file each."""
    number = 1
    while True:
        path = directory / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            number += 1
            continue
        with open(file, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(file)
        return path
