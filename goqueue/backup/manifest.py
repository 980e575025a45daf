"""The manifest of a backup: every log with its segments, and every object that these are made of, by hash.

It is written last, so a backup without one does not exist. It is JSON on one line, then the SHA-256 of that line.
"""

import hashlib
from typing import Literal

import msgspec

from goqueue.errors import BackupDamaged
from goqueue.quantities import quoted

FORMAT = 1


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run of bytes of one file, in an object that is named by its SHA-256 unless it says otherwise."""

    sha256: str
    crc32c: int
    size: int
    last_frame: int = -1
    """Where in the piece its last frame begins; -1 without any."""
    last_header: str = ""
    """The header of that frame in hexadecimal. It has offset, time and checksum, so a segment that has it at the same
    place has all bytes before it as well.
    """
    object: str = ""
    """The name of its object, if that is not the SHA-256."""
    stored: int = 0
    """The size of its object, if that is not the size of the piece."""

    @property
    def object_name(self) -> str:
        return self.object or self.sha256

    @property
    def stored_size(self) -> int:
        return self.stored or self.size


class SegmentEntry(msgspec.Struct, frozen=True):
    """A segment: the bytes of its pieces, one behind the other."""

    base_offset: int
    next_offset: int
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.pieces)


class DamagedBytes(msgspec.Struct, frozen=True):
    """Bytes of a segment that were damaged when they were copied. They are in the backup as they were."""

    base_offset: int
    position: int
    end: int
    reason: str


class LogEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    segments: tuple[SegmentEntry, ...]
    notes: dict[str, Piece] = {}
    damages: tuple[DamagedBytes, ...] = ()

    @property
    def first_offset(self) -> int:
        return self.segments[0].base_offset

    @property
    def next_offset(self) -> int:
        return self.segments[-1].next_offset

    @property
    def size(self) -> int:
        return sum(one.size for one in self.segments)

    def pieces(self) -> list[Piece]:
        return [*(piece for segment in self.segments for piece in segment.pieces), *self.notes.values()]


class Manifest(msgspec.Struct, frozen=True):
    format: Literal[1]
    id: str
    version: str
    """The version of GoQueue that made it."""
    cut_ns: int
    """The moment of the cut."""
    finished_ns: int
    new_bytes: int
    """The size of the objects that this backup added to its target, as they are stored."""
    new_objects: int
    logs: tuple[LogEntry, ...]
    unavailable: dict[str, str]
    """Logs that are not in it because the broker could not open them, and why."""

    @property
    def size(self) -> int:
        return sum(one.size for one in self.logs)

    @property
    def stored_size(self) -> int:
        """The size of all objects that it needs."""
        return sum(piece.stored_size for piece in self.objects().values())

    def objects(self) -> dict[str, Piece]:
        """One piece of each object, by the name of the object."""
        return {piece.object_name: piece for log in self.logs for piece in log.pieces()}


_DECODER = msgspec.json.Decoder(Manifest)


def encode_manifest(manifest: Manifest) -> bytes:
    line = msgspec.json.encode(manifest) + b"\n"
    return line + hashlib.sha256(line).hexdigest().encode() + b"\n"


def decode_manifest(content: bytes | bytearray, name: str) -> Manifest:
    """Raise BackupDamaged unless every byte is as it was written."""
    line, newline, checksum = content.partition(b"\n")
    line += newline
    if checksum != hashlib.sha256(line).hexdigest().encode() + b"\n":
        raise BackupDamaged(
            f"the manifest of backup {quoted(name)} is damaged: its SHA-256 does not match", hint="use another backup"
        )
    try:
        manifest = _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise BackupDamaged(
            f"backup {quoted(name)} has a manifest that this version cannot read: {error}",
            hint="a newer version of GoQueue may have made it: install that one",
        ) from None
    if manifest.id != name:
        raise BackupDamaged(f"the manifest named {quoted(name)} is of backup {quoted(manifest.id)}")
    return manifest
