"""Frames for tests: one of each kind, Hypothesis strategies for any, and plain walks to compare with."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from goqueue.errors import FrameInvalid
from goqueue.limits import INDEX_BLOCK_BYTES, OFFSET_MAX, PRIORITY_COUNT
from goqueue.storage import frame

KINDS: dict[str, bytes] = {
    "empty": frame.encode(b""),
    "value": frame.encode(b"hello", offset=7, timestamp_ns=1_700_000_000_000_000_001),
    "key": frame.encode(b"hello", b"the key", offset=2**40, priority=0),
    "headers": frame.encode(
        b"hello", b"k", frame.encode_headers([("a", b"1"), ("a", b""), ("é", b"\xff\x00")]), offset=8, timestamp_ns=9
    ),
    "tombstone": frame.encode(b"", b"gone", flags=frame.TOMBSTONE, offset=9, timestamp_ns=10, priority=4),
    "commit": frame.encode(b"", flags=frame.CONTROL | frame.COMMIT | frame.TRANSACTIONAL, offset=10, timestamp_ns=11),
    "large key": frame.encode(b"small", b"K" * 700, offset=11, timestamp_ns=12),
    "nested": frame.encode(frame.encode(b"inner", b"k", offset=13, timestamp_ns=13), offset=12, timestamp_ns=13),
}

u63 = st.integers(0, OFFSET_MAX)
names = st.text(st.characters(codec="utf-8"), max_size=20)
headers = st.lists(st.tuples(names, st.binary(max_size=40)), max_size=4)
# What could mislead a client that looks for frames: the magic, the beginning of a header, a whole frame.
misleading = st.sampled_from(
    [b"GQ", b"GQ\x01", b"xGQ\x01\x00", KINDS["empty"], KINDS["value"] * 2, KINDS["nested"], KINDS["key"][:36]]
)
values = st.binary(max_size=60) | misleading | st.tuples(misleading, st.binary(max_size=5)).map(b"".join)


@dataclass(frozen=True)
class Fields:
    """All that goes into a frame."""

    value: bytes = b""
    key: bytes = b""
    headers: tuple[tuple[str, bytes], ...] = ()
    priority: int = frame.NORMAL
    flags: int = 0
    offset: int = 0
    timestamp_ns: int = 0

    def encode(self) -> bytes:
        return frame.encode(
            self.value,
            self.key or None,
            frame.encode_headers(self.headers),
            priority=self.priority,
            flags=self.flags,
            offset=self.offset,
            timestamp_ns=self.timestamp_ns,
        )


fields = st.builds(
    Fields,
    value=values,
    key=st.binary(max_size=20),
    headers=headers.map(tuple),
    priority=st.integers(0, PRIORITY_COUNT - 1),
    flags=st.integers(0, frame.FLAGS_ALL).map(lambda flags: flags & ~frame.HAS_HEADERS),
    offset=u63,
    timestamp_ns=u63,
)


@st.composite
def logs(
    draw: st.DrawFn, *, values: st.SearchStrategy[bytes] = values, repeats: int = 30, min_size: int = 0
) -> list[bytes]:
    """Frames as a log has them: offsets rise, sometimes with a gap, and times do not fall."""
    shapes = draw(st.lists(st.tuples(fields, values, st.integers(1, repeats)), min_size=min_size, max_size=8))
    steps = draw(st.lists(st.tuples(st.sampled_from((1, 1, 1, 2, 50)), st.sampled_from((0, 1, 10**9))), min_size=1))
    offset, time, frames = draw(st.integers(0, 1000)), draw(st.integers(1, 2**60)), []
    for shape, value, count in shapes:
        for _ in range(count):
            frames.append(replace(shape, value=value, offset=offset, timestamp_ns=time).encode())
            step, pause = steps[len(frames) % len(steps)]
            offset, time = offset + step, time + pause
    return frames


def starts(frames: list[bytes]) -> list[int]:
    """Where each frame starts when they stand back to back."""
    positions, position = [], 0
    for one in frames:
        positions.append(position)
        position += len(one)
    return positions


def block_starts(frames: list[bytes]) -> list[int]:
    """The numbers of the frames that are the first to start in their 4 KiB."""
    numbers, last = [], -1
    for number, position in enumerate(starts(frames)):
        if position // INDEX_BLOCK_BYTES != last:
            last = position // INDEX_BLOCK_BYTES
            numbers.append(number)
    return numbers


def steps(content: Any, measure: Callable[[Any, int], int], start: int = 0) -> tuple[list[int], int]:
    """The frames that a codec takes from `start` on, and where it stops: the naive way to walk."""
    positions, position = [], start
    while position < len(content):
        try:
            length = measure(content, position)
        except FrameInvalid:
            break
        positions.append(position)
        position += length
    return positions, position


def flipped(content: bytes, position: int, bit: int = 0) -> bytes:
    """With one bit turned over."""
    changed = bytearray(content)
    changed[position] ^= 1 << bit
    return bytes(changed)
