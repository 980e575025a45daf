"""Messages as they come out of an answer of frames.

An answer is checked once, as a whole; then each message is a few numbers that point into it, and what is not looked
at is never cut out. Struct of `msgspec`, because making one takes half the time that a class with slots needs.
"""

import struct
from datetime import datetime

import msgspec
from crc32c import crc32c

from goqueue.client.times import to_datetime
from goqueue.compression import decompress
from goqueue.delay import origin_of
from goqueue.errors import ChecksumMismatch, FrameInvalid
from goqueue.limits import FRAME_HEADER_BYTES
from goqueue.storage.frame import (
    COMPRESSED,
    CONTROL,
    FLAGS_ALL,
    HAS_HEADERS,
    MAGIC,
    TOMBSTONE,
    VERSION,
    decode_headers,
    measure,
)

FIELDS = struct.Struct(">I4xQQBxHIH")  # magic, version and flags as one number; the checksum is passed over
PREFIX = int.from_bytes(MAGIC + bytes((VERSION, 0)), "big")
_CUT = COMPRESSED | TOMBSTONE  # a value that is not simply the bytes that stand there

assert FIELDS.size == FRAME_HEADER_BYTES


class Message(msgspec.Struct, gc=False, eq=False, weakref=False):
    """One message. It keeps the answer that it came in alive, so keep its `value` where few of many are kept."""

    topic: str
    partition: int
    offset: int
    timestamp_ns: int
    priority: int
    _flags: int
    _content: bytes
    _at_value: int
    _at_headers: int
    _key_length: int
    _headers_length: int

    @property
    def value(self) -> bytes | None:
        """The bytes that were published, decompressed; None in a tombstone."""
        if self._flags & _CUT:
            return self._cut_value()
        return self._content[self._at_value : self._at_headers]

    def _cut_value(self) -> bytes | None:
        if self._flags & TOMBSTONE:
            return None
        return decompress(self._content[self._at_value : self._at_headers])

    @property
    def key(self) -> bytes | None:
        length = self._key_length
        return self._content[self._at_value - length : self._at_value] if length else None

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """In their order; a name may come twice. Names that begin with `__` are the broker's own and left out."""
        return [pair for pair in self._all_headers() if not pair[0].startswith("__")]

    def _all_headers(self) -> list[tuple[str, bytes]]:
        if not self._flags & HAS_HEADERS:
            return []
        return decode_headers(self._content[self._at_headers : self._at_headers + self._headers_length])

    @property
    def delayed_offset(self) -> int | None:
        """Its offset in the partition's delayed log, by which it was known until it was delivered; mostly None."""
        return origin_of(self._all_headers())

    @property
    def is_tombstone(self) -> bool:
        return bool(self._flags & TOMBSTONE)

    @property
    def timestamp(self) -> datetime:
        """When the broker took it, to the microsecond; `timestamp_ns` has all of it."""
        return to_datetime(self.timestamp_ns)

    def __repr__(self) -> str:
        return f"<Message {self.topic}/{self.partition}@{self.offset}>"


def check(content: bytes, checksum: str) -> None:
    """The body of an answer is what the broker sent."""
    found = f"{crc32c(content, 0, 0):08x}"
    if found != checksum.lower():
        raise ChecksumMismatch(f"the frames have the checksum {found}, the broker said {checksum or 'nothing'}")


def decode(topic: str, partition: int, content: bytes, first: int, end: int) -> list[Message]:
    """The messages with offsets from `first` up to `end`; control frames and what lies outside are left out.

    What must stay true: a length is compared with the bytes at hand before it is used.
    """
    found: list[Message] = []
    position, size, unpack = 0, len(content), FIELDS.unpack_from
    while position < size:
        if size - position < FRAME_HEADER_BYTES:
            raise FrameInvalid(f"the answer ends inside a frame, at byte {position}", position=position)
        prefix, offset, time, priority, key, value, headers = unpack(content, position)
        flags = prefix ^ PREFIX
        at_value = position + FRAME_HEADER_BYTES + key
        at_headers = at_value + value
        after = at_headers + headers
        if flags > FLAGS_ALL or after > size:
            measure(content, position)  # which says what is wrong
            raise FrameInvalid(f"no frame at byte {position}", position=position)
        if first <= offset < end and not flags & CONTROL:
            found.append(
                Message(topic, partition, offset, time, priority, flags, content, at_value, at_headers, key, headers)
            )
        position = after
    return found
