"""Read a data directory message by message with the plain codec, to compare the fast readers with."""

import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from goqueue.compression import decompress
from goqueue.delay import LOG_NAME, due_time
from goqueue.errors import FrameInvalid
from goqueue.storage import frame
from goqueue.storage.transaction_marker import decode_marker, is_marker

Row = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def frames(path: Path, topic: str, partition: int | str = 0) -> list[tuple[int, int, frame.StoredMessage]]:
    """Base of the segment, position and content of every frame; a segment ends at its first bad byte."""
    found = []
    for file in sorted((path / "logs" / topic / str(partition)).glob("*.log")):
        content = file.read_bytes()
        position = 0
        while position < len(content):
            try:
                length = frame.verify(content, position)
            except FrameInvalid:
                break
            found.append((int(file.stem), position, frame.decode(content, position)))
            position += length
    return found


def rows(
    path: Path, topic: str, partition: int = 0, first: int = 0, end: int = 2**63, *, shows_uncommitted: bool = False
) -> list[Row]:
    """All columns of all messages from an offset up to another."""
    found = frames(path, topic, partition)
    hidden = set() if shows_uncommitted else uncommitted([message for _, _, message in found])
    return [
        row(message, topic, partition, segment, position)
        for segment, position, message in found
        if first <= message.offset < end and not message.flags & frame.CONTROL and message.offset not in hidden
    ]


def uncommitted(messages: list[frame.StoredMessage]) -> set[int]:
    """The offsets of messages of transactions that no marker says to be committed."""
    committed = [
        span
        for message in messages
        if is_marker(message.flags) and message.flags & frame.COMMIT
        for span in decode_marker(message).ranges
    ]
    return {
        message.offset
        for message in messages
        if message.flags & frame.TRANSACTIONAL
        and not message.flags & frame.CONTROL
        and not any(first <= message.offset < end for first, end in committed)
    }


def row(message: frame.StoredMessage, topic: str, partition: int, segment: int, position: int) -> Row:
    value = decompress(message.value) if message.flags & frame.COMPRESSED else message.value
    pairs = [{"key": name, "value": one} for name, one in message.headers if not name.startswith("__")]
    return {
        "key": message.key,
        "value": None if message.is_tombstone else value,
        "topic": topic,
        "partition": partition,
        "offset": message.offset,
        "timestamp": moment(message.timestamp_ns),
        "timestampType": 1,
        "priority": frame.PRIORITIES[message.priority],
        "headers": pairs or None,
        "segment": segment,
        "position": position,
        "crc_ok": True,
    }


def delayed_rows(path: Path, topic: str, partition: int = 0, end: int = 2**63) -> list[Row]:
    """The same of a delayed log, with what all of its records say of the messages below an offset."""
    found: dict[int, Row] = {}
    for segment, position, message in frames(path, topic, f"{partition}/{LOG_NAME}"):
        if not message.flags & frame.CONTROL:
            due = due_time(message.headers, message.timestamp_ns)
            assert due is not None
            fate = {"deliver_at": moment(due), "state": "hidden" if message.flags & frame.TRANSACTIONAL else "pending"}
            found[message.offset] = row(message, topic, partition, segment, position) | fate
            continue
        if is_marker(message.flags):
            spoken = [at for first, last in decode_marker(message).ranges for at in range(first, last) if at in found]
            for one in [found[at] for at in spoken if message.flags & frame.COMMIT and found[at]["state"] == "hidden"]:
                one |= {"deliver_at": max(one["deliver_at"], moment(message.timestamp_ns)), "state": "pending"}
            continue
        kind, numbers = message.key, struct.unpack(f">{len(message.value) // 8}q", message.value)
        pairs = list(zip(*[iter(numbers[kind == b"delivered" :])] * 2, strict=True))
        changes = [(at, {"deliver_at": moment(due)}) for at, due in pairs] if kind == b"rescheduled" else [
            (at, {"state": (kind or b"").decode()}) for first, last in pairs for at in range(first, last)
        ]  # fmt: skip
        for offset, change in changes:
            if offset in found and found[offset]["state"] == "pending":
                found[offset] |= change
    return [one for offset, one in found.items() if offset < end and one["state"] != "hidden"]


def moment(time_ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_ns // 1000)


def first_since(path: Path, topic: str, partition: int | str, time_ns: int, end: int) -> int:
    """The first offset that is at least this young; `end` where there is none."""
    found = frames(path, topic, partition)
    return next((message.offset for _, _, message in found if message.timestamp_ns >= time_ns), end)
