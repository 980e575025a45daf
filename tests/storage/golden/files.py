"""Golden files: what this version of the format looks like, byte for byte.

`python -m tests.storage.golden` writes them anew, which is right only together with a new version
number; the tests compare what today's code writes with what is there.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from goqueue.storage import frame
from goqueue.storage.epoch_frame import EpochFrame, decode_epoch_frame
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import append, open_store

HOME = Path(__file__).parent
SEGMENT_FILES = ("log", "index", "timeindex")

FRAMES: dict[str, dict[str, Any]] = {
    "empty": {"value": ""},
    "example": {
        "value": "hi",
        "key": "user-1",
        "headers": [["type", "text"]],
        "offset": 258,
        "timestamp_ns": 1_700_000_000_000_000_000,
        "priority": 1,
    },
    "value": {"value": "hello", "offset": 7, "timestamp_ns": 1_700_000_000_000_000_001},
    "key": {"value": "hello", "key": "user-1", "offset": 1, "timestamp_ns": 2, "priority": 0},
    "headers": {
        "value": "{}",
        "key": "k",
        "headers": [["content-type", "application/json"], ["empty", ""], ["empty", "again"], ["größe", "3"]],
        "offset": 4_294_967_296,
        "timestamp_ns": 9,
    },
    "tombstone": {"value": "", "key": "gone", "flags": frame.TOMBSTONE, "offset": 3, "timestamp_ns": 4},
    "commit": {"value": "", "flags": frame.CONTROL | frame.COMMIT | frame.TRANSACTIONAL, "offset": 5, "priority": 1},
    "abort": {"value": "", "flags": frame.CONTROL | frame.TRANSACTIONAL, "offset": 6, "priority": 4},
    "compressed": {"value": "not really", "flags": frame.COMPRESSED, "offset": 2**63 - 1, "timestamp_ns": 2**63 - 1},
}


def encoded(fields: dict[str, Any]) -> bytes:
    """The frame that a readable description means."""
    headers = [(name, value.encode()) for name, value in fields.get("headers", [])]
    return frame.encode(
        fields["value"].encode(),
        fields["key"].encode() if "key" in fields else None,
        frame.encode_headers(headers),
        **{name: number for name, number in fields.items() if name not in ("value", "key", "headers")},
    )


def described(message: frame.StoredMessage) -> dict[str, Any]:
    """The readable description of a message, complete."""
    return {
        "value": message.value.decode(),
        "key": None if message.key is None else message.key.decode(),
        "headers": [[name, value.decode()] for name, value in message.headers],
        "offset": message.offset,
        "timestamp_ns": message.timestamp_ns,
        "priority": frame.PRIORITIES[message.priority],
        "flags": message.flags,
    }


def epoch_frame() -> bytes:
    """An epoch frame as it stands in a log."""
    whole = bytearray(EpochFrame(7, "node-1", 1_700_000_000_000_000_000, 6).encode())
    frame.stamp(whole, 0, len(whole), 258, 1_700_000_000_000_000_001)
    return bytes(whole)


def described_epoch(whole: bytes) -> dict[str, Any]:
    """Return what an epoch frame says."""
    message = frame.decode(whole)
    return {
        "key": (message.key or b"").decode(),
        "flags": message.flags,
        "offset": message.offset,
        "timestamp_ns": message.timestamp_ns,
        **asdict(decode_epoch_frame(message)),
    }


def segment() -> dict[str, bytes]:
    """A sealed segment with its index files, as a broker leaves them: four appends over several blocks."""
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock, segment_bytes=2**20)
    log = store.create("golden")
    for number in range(4):
        append(store, log, *(b"%d-%02d " % (number, one) * 25 for one in range(12)), key=b"batch %d" % number)
        clock.advance(0.5)
    log.roll()
    append(store, log, b"in the next segment")
    return {kind: disk.read_file(f"{log.directory}/{0:020d}.{kind}") for kind in SEGMENT_FILES}


def described_segment(files: dict[str, bytes]) -> dict[str, Any]:
    """Return what the files of a segment say, read without the classes that wrote them."""
    index, times = files["index"], files["timeindex"]
    messages = [frame.decode(files["log"], position) for position in frame.walk(files["log"])]
    return {
        "messages": [[one.offset, one.timestamp_ns, (one.key or b"").decode(), len(one.value)] for one in messages],
        "index": [pair(index, place) for place in range(0, len(index) - 24, 16)],
        "timeindex": [pair(times, place) for place in range(0, len(times), 16)],
        "mark": pair(index, len(index) - 24),
    }


def pair(content: bytes, place: int) -> list[int]:
    return [int.from_bytes(content[at : at + 8], "big") for at in (place, place + 8)]


def expected_files() -> dict[str, bytes]:
    """Every golden file by its name."""
    files = {}
    for name, fields in FRAMES.items():
        files[f"frame-{name}.bin"] = whole = encoded(fields)
        files[f"frame-{name}.json"] = readable(described(frame.decode(whole)))
    files["epoch.bin"] = whole = epoch_frame()
    files["epoch.json"] = readable(described_epoch(whole))
    parts = segment()
    files |= {f"segment.{kind}.bin": content for kind, content in parts.items()}
    files["segment.json"] = readable(described_segment(parts))
    return files


def readable(content: dict[str, Any]) -> bytes:
    """JSON with a line for each thing."""
    lines = []
    for name, value in content.items():
        rows = value if isinstance(value, list) and value and isinstance(value[0], list) and name != "headers" else None
        one = json.dumps(value, ensure_ascii=False)
        if rows is not None:
            one = "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in rows) + "\n  ]"
        lines.append(f"  {json.dumps(name)}: {one}")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def found_files() -> dict[str, bytes]:
    """Every golden file as it is."""
    return {path.name: path.read_bytes() for path in HOME.iterdir() if path.suffix in (".bin", ".json")}


def write_files() -> None:
    """Write all of them anew."""
    for name in found_files():
        (HOME / name).unlink()
    for name, content in expected_files().items():
        (HOME / name).write_bytes(content)
