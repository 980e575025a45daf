"""Single bit flips in the files of a broker that is down, and what each of them may cost.

A flip in a message costs that message, once the broker names its place as damaged. A flip in an internal log, in an
index or in a note costs nothing. Not hit are:

- the last frame of a log: bytes that nothing follows cannot be told from a torn write;
- control records: a damaged commit costs the messages that it commits;
- FORMAT: a directory whose format is unknown must not be opened;
- an internal log that was hit before: one damaged range of it is survived.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from goqueue.storage import frame
from goqueue.storage.scan import Frames
from goqueue.storage.segment_scan import ScanRange, scan_segment
from tests.crash.device import Device

FlipKind = Literal["sealed", "active", "cache", "internal"]
FLIP_KINDS: tuple[FlipKind, ...] = get_args(FlipKind)

EMPTIED = 0.2
"""The part of the damaged indexes that lose all their bytes instead of one bit."""
_LOG = re.compile(r"/logs/(?P<topic>[^/]+)/(?P<partition>\d+)/(?P<delayed>delayed/)?(?P<base>\d{20})\.log")


@dataclass(frozen=True, slots=True)
class Segment:
    path: str
    topic: str
    partition: int
    base_offset: int
    is_delayed: bool
    is_last: bool
    """Whether it is the one that is written to."""

    @property
    def is_internal(self) -> bool:
        return self.topic.startswith("__")


@dataclass(frozen=True, slots=True)
class Flip:
    """Damage that was done, and the message that was hit where it is one of a topic."""

    kind: FlipKind
    path: str
    position: int
    bit: int | None
    """None where the file was emptied."""
    segment: Segment | None = None
    offset: int = 0
    value: str = ""

    def __str__(self) -> str:
        how = "emptied" if self.bit is None else f"bit {self.bit} of byte {self.position} flipped"
        return f"{self.kind}: {self.path} {how}" + (f", at offset {self.offset}" if self.segment else "")


class Damager:
    """Chooses what is hit, and remembers it."""

    def __init__(self, device: Device, chance: Random, topics: tuple[str, ...], kinds: tuple[FlipKind, ...]) -> None:
        self._device = device
        self._chance = chance
        self._topics = topics
        self._kinds = kinds
        self._hit_logs: set[str] = set()
        self.flips: list[Flip] = []

    def damage(self) -> Flip | None:
        """One flip, if there is anything of the chosen kind to hit."""
        kind = self._chance.choice(self._kinds)
        flip = self._hit_cache() if kind == "cache" else self._hit_frame(kind)
        if flip is None:
            return None
        if flip.bit is None:
            self._device.empty(flip.path)
        else:
            self._device.flip(flip.path, flip.position, flip.bit)
        self.flips.append(flip)
        return flip

    def _hit_cache(self) -> Flip | None:
        paths = [
            path
            for path in self._device.files()
            if not path.endswith(".log") and path != "/FORMAT" and self._device.read(path)
        ]
        if not paths:
            return None
        path = self._chance.choice(paths)
        if path.endswith("index") and self._chance.random() < EMPTIED:
            return Flip("cache", path, 0, None)
        return Flip("cache", path, self._chance.randrange(len(self._device.read(path))), self._chance.randrange(8))

    def _hit_frame(self, kind: FlipKind) -> Flip | None:
        segments = [segment for segment in self._segments() if self._fits(segment, kind)]
        self._chance.shuffle(segments)
        for segment in segments:
            frames = [*self._frames(segment)]
            if segment.is_last:
                frames = frames[:-1]
            if kind != "internal":
                frames = [one for one in frames if not one[1][frame.AT_FLAGS] & (frame.CONTROL | frame.COMPRESSED)]
            if frames:
                return self._flip(kind, segment, *self._chance.choice(frames))
        return None

    def _fits(self, segment: Segment, kind: FlipKind) -> bool:
        if kind == "internal":
            return segment.is_internal and f"{segment.topic}/{segment.partition}" not in self._hit_logs
        return segment.topic in self._topics and segment.is_last == (kind == "active")

    def _flip(self, kind: FlipKind, segment: Segment, position: int, content: bytes) -> Flip:
        at, bit = position + self._chance.randrange(len(content)), self._chance.randrange(8)
        offset = frame.offset_at(content)
        if kind == "internal":
            self._hit_logs.add(f"{segment.topic}/{segment.partition}")
            return Flip(kind, segment.path, at, bit, segment, offset)
        return Flip(kind, segment.path, at, bit, segment, offset, frame.decode(content).value.decode())

    def _segments(self) -> list[Segment]:
        found = [match for path in self._device.files() if (match := _LOG.fullmatch(path))]
        newest: dict[str, str] = {}
        for match in found:
            log = match[0].rpartition("/")[0]
            newest[log] = max(newest.get(log, ""), match[0])
        return [
            Segment(
                match[0],
                match["topic"],
                int(match["partition"]),
                int(match["base"]),
                match["delayed"] is not None,
                match[0] in newest.values(),
            )
            for match in found
        ]

    def _frames(self, segment: Segment) -> Iterator[tuple[int, bytes]]:
        """Where each sound frame of a segment is, and its bytes."""
        file = self._device.open(segment.path)
        for piece in scan_segment(file, ScanRange(0, file.size(), segment.base_offset)):
            if isinstance(piece, Frames):
                content = bytes(piece.buffer)
                for position, length in zip(piece.positions.tolist(), piece.lengths.tolist(), strict=True):
                    yield piece.origin + position, content[position : position + length]
