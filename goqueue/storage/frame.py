"""One message as bytes: the frame, format version 1. `docs/format.md` describes it byte by byte.

This is the plain codec, one frame at a time and without numpy: clients encode with it, and it is
the naive twin that the vectorised `goqueue.storage.scan` is tested against.

What must stay true: a length that was read is compared with the bytes at hand before it is used;
the checksum covers the whole frame, with its own four bytes taken as zero, so no field can
change unnoticed.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

from crc32c import crc32c

from goqueue.errors import FrameInvalid, MessageTooLarge
from goqueue.limits import FRAME_HEADER_BYTES, HEADERS_BYTES_MAX, KEY_BYTES_MAX, PRIORITY_COUNT, VALUE_BYTES_MAX

Buffer = bytes | bytearray | memoryview

MAGIC = b"GQ"
VERSION = 1

COMPRESSED = 0x01
HAS_HEADERS = 0x02
TOMBSTONE = 0x04
CONTROL = 0x08
COMMIT = 0x10
TRANSACTIONAL = 0x20
FLAGS_ALL = 0x3F

PRIORITIES = ("critical", "high", "normal", "low", "background")
NORMAL = PRIORITIES.index("normal")

NO_HEADERS = b"\x00\x00"
"""The headers of a message without any: their count."""

# Where the fields are.
AT_FLAGS, AT_CRC, AT_OFFSET, AT_TIMESTAMP, AT_PRIORITY = 3, 4, 8, 16, 24
AT_KEY_LENGTH, AT_VALUE_LENGTH, AT_HEADERS_LENGTH = 26, 28, 32

_HEADER = struct.Struct(">2sBBIQQBBHIH")
_AFTER_CRC = struct.Struct(">QQBBHIH")  # what the checksum covers beyond the first eight bytes
_STAMP = struct.Struct(">QQ")
_CRC = struct.Struct(">I")
_LENGTHS = struct.Struct(">HIH")
_U16 = struct.Struct(">H")

assert _HEADER.size == FRAME_HEADER_BYTES == AT_OFFSET + _AFTER_CRC.size

_PREFIXES = [MAGIC + bytes((VERSION, flags)) for flags in range(256)]
# The checksum of each possible first eight bytes: continuing from it spares a copy of the frame.
_STARTS = [crc32c(prefix + bytes(4)) for prefix in _PREFIXES]

Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A decoded frame. A key of no bytes is no key."""

    offset: int
    timestamp_ns: int
    key: bytes | None
    value: bytes
    headers: Headers = ()
    priority: int = NORMAL
    flags: int = 0

    @property
    def is_tombstone(self) -> bool:
        return bool(self.flags & TOMBSTONE)


class FrameContent(NamedTuple):
    """The parts of a frame that its sender has written. A key of no bytes is no key; the headers are encoded."""

    flags: int
    key: bytes | None
    value: bytes
    headers: bytes = NO_HEADERS


def encode(
    value: Buffer,
    key: Buffer | None = None,
    headers: bytes = NO_HEADERS,
    *,
    priority: int = NORMAL,
    flags: int = 0,
    offset: int = 0,
    timestamp_ns: int = 0,
) -> bytes:
    """One frame. `headers` are already encoded; offset and time may be stamped in later."""
    if headers is not NO_HEADERS and headers != NO_HEADERS:
        assert len(headers) > len(NO_HEADERS), "encoded headers begin with their count"
        flags |= HAS_HEADERS
    key = key or b""
    try:
        fields = _AFTER_CRC.pack(offset, timestamp_ns, priority, 0, len(key), len(value), len(headers))
    except struct.error:
        fields = b""
    if not fields or len(value) > VALUE_BYTES_MAX or priority >= PRIORITY_COUNT or not 0 <= flags <= FLAGS_ALL:
        _refuse_fields(key, value, headers, priority, flags, offset, timestamp_ns)
    rest = b"".join((fields, key, value, headers))
    return b"".join((_PREFIXES[flags], _CRC.pack(crc32c(rest, _STARTS[flags])), rest))


def encode_many(
    values: Sequence[bytes],
    keys: Sequence[bytes] | None = None,
    headers: bytes = NO_HEADERS,
    *,
    priority: int = NORMAL,
    flags: int = 0,
) -> list[bytes]:
    """`encode` of each, in half the time: what depends on the lengths alone is made once for each of them."""
    shapes: dict[tuple[int, int], tuple[int, Callable[..., bytes], bytes]] = {}
    if headers != NO_HEADERS:
        flags |= HAS_HEADERS
    frames: list[bytes] = []
    add = frames.append
    for key, value in zip(repeat(b"") if keys is None else keys, values, strict=keys is not None):
        lengths = (len(key), len(value))
        try:
            start, pack, fields = shapes[lengths]
        except KeyError:
            start, pack, fields = shapes[lengths] = _shape(key, value, headers, priority, flags)
        before = crc32c(key, start) if key else start
        checksum = crc32c(headers, crc32c(value, before))
        add(pack(_PREFIXES[flags], checksum, fields, key, value, headers))
    return frames


def _shape(
    key: bytes, value: bytes, headers: bytes, priority: int, flags: int
) -> tuple[int, Callable[..., bytes], bytes]:
    """Return the common part of frames with these lengths: checksum so far, packer, fields."""
    example = encode(value, key, headers, priority=priority, flags=flags)  # refuses what does not fit
    fields = example[AT_OFFSET:FRAME_HEADER_BYTES]
    layout = struct.Struct(f">4sI{len(fields)}s{len(key)}s{len(value)}s{len(headers)}s")
    return crc32c(fields, _STARTS[flags]), layout.pack, fields


def _refuse_fields(
    key: Buffer, value: Buffer, headers: bytes, priority: int, flags: int, offset: int, timestamp_ns: int
) -> None:
    for name, length, most in (
        ("key", len(key), KEY_BYTES_MAX),
        ("value", len(value), VALUE_BYTES_MAX),
        ("headers", len(headers), HEADERS_BYTES_MAX),
    ):
        if length > most:
            raise MessageTooLarge(f"the {name} has {length} bytes, {most} is the most")
    if not 0 <= priority < PRIORITY_COUNT:
        raise FrameInvalid(f"priority {priority} is not one of 0 to {PRIORITY_COUNT - 1}")
    raise FrameInvalid(f"flags {flags:#x}, offset {offset} and time {timestamp_ns} do not fit a frame")


def encode_headers(headers: Mapping[str, bytes] | Headers) -> bytes:
    """Count, then name and value of each, all with u16 lengths."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    if not pairs:
        return NO_HEADERS
    parts = [_U16.pack(min(len(pairs), HEADERS_BYTES_MAX))]
    for name, value in pairs:
        try:
            encoded = name.encode()
        except UnicodeEncodeError as error:
            raise FrameInvalid(f"header {name[:40]!r} cannot be encoded: {error.reason}") from None
        if max(len(encoded), len(value)) > HEADERS_BYTES_MAX:
            raise MessageTooLarge(f"header {name[:40]!r} has more than {HEADERS_BYTES_MAX} bytes")
        parts += (_U16.pack(len(encoded)), encoded, _U16.pack(len(value)), value)
    whole = b"".join(parts)
    if len(whole) > HEADERS_BYTES_MAX:
        raise MessageTooLarge(f"the headers have {len(whole)} bytes, {HEADERS_BYTES_MAX} is the most")
    return whole


def decode_headers(encoded: Buffer) -> list[tuple[str, bytes]]:
    """The pairs in their order; a name may come twice."""
    content = bytes(encoded)
    try:
        (count,) = _U16.unpack_from(content)
        pairs, position = [], 2
        for _ in range(count):
            name, position = _take(content, position)
            value, position = _take(content, position)
            pairs.append((name.decode(), value))
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameInvalid(f"the headers are malformed: {error}") from None
    if position != len(content):
        raise FrameInvalid(f"the headers have {len(content) - position} bytes too many")
    return pairs


def _take(content: bytes, position: int) -> tuple[bytes, int]:
    (length,) = _U16.unpack_from(content, position)
    end = position + 2 + length
    if end > len(content):
        raise struct.error(f"{length} bytes expected at {position + 2}, {len(content) - position - 2} left")
    return content[position + 2 : end], end


def measure(buffer: Buffer, position: int = 0, left: int | None = None) -> int:
    """The length of the frame at `position`, once its fields are plausible and all of it is there.

    `left` says how many bytes there are where the buffer holds only the first of them.
    """
    left = len(buffer) - position if left is None else left
    if min(left, len(buffer) - position) < FRAME_HEADER_BYTES:
        raise FrameInvalid(f"a frame header needs {FRAME_HEADER_BYTES} bytes, {left} are left", position=position)
    magic, version, flags, _, _, _, priority, reserved, key, value, headers = _HEADER.unpack_from(buffer, position)
    if magic != MAGIC:
        raise FrameInvalid(f"no frame starts here: {magic.hex(' ')} instead of {MAGIC.hex(' ')}", position=position)
    if version != VERSION:
        raise FrameInvalid(f"frame version {version} is not known, {VERSION} is", position=position)
    if flags > FLAGS_ALL or priority >= PRIORITY_COUNT or reserved or value > VALUE_BYTES_MAX or headers < 2:
        raise FrameInvalid(
            f"impossible frame: flags {flags:#x}, priority {priority}, reserved {reserved}, "
            f"value of {value} and headers of {headers} bytes",
            position=position,
        )
    length: int = FRAME_HEADER_BYTES + key + value + headers
    if length > left:
        raise FrameInvalid(f"the frame says {length} bytes, {left} are left", position=position)
    return length


def verify(buffer: Buffer, position: int = 0) -> int:
    """The length of the frame at `position`, once its checksum has been found right."""
    length = measure(buffer, position)
    (stored,) = _CRC.unpack_from(buffer, position + AT_CRC)
    found = checksum_of(memoryview(buffer), position, length)
    if found != stored:
        raise FrameInvalid(f"the checksum is {found:08x}, the frame says {stored:08x}", position=position)
    return length


def checksum_of(buffer: memoryview, position: int, length: int) -> int:
    """The checksum that the frame of this length at `position` should have."""
    checksum: int = crc32c(buffer[position + AT_OFFSET : position + length], _STARTS[buffer[position + AT_FLAGS]])
    return checksum


def checksums_of(buffer: memoryview, positions: list[int], ends: list[int], flags: list[int]) -> list[int]:
    """The checksums that many frames should have: a loop of the interpreter a frame costs more than its CRC."""
    covered = [buffer[position + AT_OFFSET : end] for position, end in zip(positions, ends, strict=True)]
    return list(map(crc32c, covered, [_STARTS[flag] for flag in flags]))


def walk(buffer: Buffer) -> Iterator[int]:
    """Where each frame starts. Raises at the first place that is not a verified frame."""
    position, end = 0, len(buffer)
    while position < end:
        length = verify(buffer, position)
        yield position
        position += length


def decode(buffer: Buffer, position: int = 0) -> StoredMessage:
    """The message at `position`; its checksum is the caller's business (`verify`)."""
    measure(buffer, position)
    _, _, flags, _, offset, timestamp, priority, _, key, value, headers = _HEADER.unpack_from(buffer, position)
    at_key = position + FRAME_HEADER_BYTES
    at_value = at_key + key
    at_headers = at_value + value
    return StoredMessage(
        offset,
        timestamp,
        bytes(buffer[at_key:at_value]) if key else None,
        bytes(buffer[at_value:at_headers]),
        tuple(decode_headers(buffer[at_headers : at_headers + headers])) if flags & HAS_HEADERS else (),
        priority,
        flags,
    )


def content_at(buffer: Buffer, position: int = 0) -> tuple[FrameContent, int]:
    """Return the content of the frame at `position`, and where the frame ends: a third of the work of `decode`.

    Only what is needed to find the parts is checked: the checks before an append do the rest.
    """
    if len(buffer) - position < FRAME_HEADER_BYTES:
        raise FrameInvalid(f"a frame header needs {FRAME_HEADER_BYTES} bytes", position=position)
    key, value, headers = _LENGTHS.unpack_from(buffer, position + AT_KEY_LENGTH)
    at_key = position + FRAME_HEADER_BYTES
    at_value = at_key + key
    at_headers = at_value + value
    end = at_headers + headers
    if end > len(buffer) or buffer[position] != MAGIC[0]:
        raise FrameInvalid("there is no whole frame", position=position)
    flags = buffer[position + AT_FLAGS]
    encoded = bytes(buffer[at_headers:end]) if flags & HAS_HEADERS else NO_HEADERS
    named = bytes(buffer[at_key:at_value]) if key else None
    return FrameContent(flags, named, bytes(buffer[at_value:at_headers]), encoded), end


def offset_at(buffer: Buffer, position: int = 0) -> int:
    offset: int = _STAMP.unpack_from(buffer, position + AT_OFFSET)[0]
    return offset


def timestamp_at(buffer: Buffer, position: int = 0) -> int:
    timestamp: int = _STAMP.unpack_from(buffer, position + AT_OFFSET)[1]
    return timestamp


def checksum_at(buffer: Buffer, position: int = 0) -> int:
    checksum: int = _CRC.unpack_from(buffer, position + AT_CRC)[0]
    return checksum


def length_at(buffer: Buffer, position: int = 0) -> int:
    """Return the length in the header, possible or not; `measure` checks it."""
    key, value, headers = _LENGTHS.unpack_from(buffer, position + AT_KEY_LENGTH)
    length: int = FRAME_HEADER_BYTES + key + value + headers
    return length


def key_at(buffer: Buffer, position: int = 0) -> bytes:
    """Without any bytes where there is none."""
    (length,) = _U16.unpack_from(buffer, position + AT_KEY_LENGTH)
    return bytes(buffer[position + FRAME_HEADER_BYTES : position + FRAME_HEADER_BYTES + length])


def stamp(buffer: bytearray | memoryview, position: int, length: int, offset: int, timestamp_ns: int) -> None:
    """Stamp an encoded frame with its offset, its append time and the new checksum."""
    _STAMP.pack_into(buffer, position + AT_OFFSET, offset, timestamp_ns)
    _CRC.pack_into(buffer, position + AT_CRC, checksum_of(memoryview(buffer), position, length))
