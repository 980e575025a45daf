"""Messages as they come out of an answer of frames.

An answer is checked once, as a whole. A message holds numbers that point into it; its parts are cut out on access. It
is a Struct of `msgspec`, which is created in half the time of a class with slots.
"""

import struct
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec
from crc32c import crc32c

from goqueue.client.times import to_datetime
from goqueue.compression import decompress
from goqueue.delay import delayed_offset
from goqueue.errors import ChecksumMismatch, FrameInvalid, ValueUnreadable
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
from goqueue.wire.trace_context import TraceContext, derived_trace_id, read_trace_context

if TYPE_CHECKING:
    from goqueue.client.serializers.message_decoding import MessageDecoding

FIELDS = struct.Struct(">I4xQQBxHIH")  # magic, version and flags as one number; the checksum is skipped
PREFIX = int.from_bytes(MAGIC + bytes((VERSION, 0)), "big")
_CUT = COMPRESSED | TOMBSTONE  # the value is not the stored bytes

T = TypeVar("T")

assert FIELDS.size == FRAME_HEADER_BYTES


class Message(msgspec.Struct, gc=False, eq=False, weakref=False):
    """One message. It keeps its whole answer in memory; to keep few of many messages, keep their `value`."""

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
        """The published bytes, decompressed; None in a tombstone."""
        if self._flags & _CUT:
            return self._cut_value()
        return self._content[self._at_value : self._at_headers]

    def _cut_value(self) -> bytes | None:
        if self._flags & TOMBSTONE:
            return None
        return decompress(self._content[self._at_value : self._at_headers])

    @property
    def text(self) -> str:
        """The value as text. Raises ValueUnreadable if it is not UTF-8, and for a tombstone."""
        value = self._present_value()
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise self._unreadable(f"is not UTF-8: byte {error.start} is 0x{value[error.start]:02x}") from None

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, kind: type[T]) -> T: ...
    def json(self, kind: Any = Any) -> Any:
        """Return the value decoded from JSON, as `kind` if given: a dataclass, for example, or a msgspec Struct.

        Raises ValueUnreadable if it is not JSON or does not fit, and for a tombstone.
        """
        value = self._present_value()
        try:
            return msgspec.json.decode(value, type=kind)
        except msgspec.ValidationError as error:
            name = getattr(kind, "__name__", str(kind))
            raise self._unreadable(f"is JSON that does not fit {name}: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._unreadable(f"is not JSON: {error}") from None

    @property
    def schema_id(self) -> int | None:
        """The id of the value's schema, from a header or a prefix; None if it names none."""
        return _schema_id(self.value, self.headers, "schema-id")

    @property
    def key_schema_id(self) -> int | None:
        """The id of the key's schema, in the same way."""
        return _schema_id(self.key, self.headers, "key-schema-id")

    def decode(self) -> Any:
        """Return the value decoded by its schema; its reader or consumer must have a `deserializer`.

        None for a tombstone. Raises ValueUnreadable if it names no schema, or does not match it.
        """
        return self._decoding().decode(self, "value")

    def decode_key(self) -> Any:
        """Return the key decoded by its schema; its reader or consumer must have a `key_deserializer`."""
        return self._decoding().decode(self, "key")

    def _decoding(self) -> "MessageDecoding":
        from goqueue.client.serializers.message_decoding import not_given  # noqa: PLC0415 - for this mistake alone

        raise not_given("value")

    def _present_value(self) -> bytes:
        value = self.value
        if value is None:
            raise self._unreadable("is missing: it is a tombstone, which deletes its key", "see is_tombstone first")
        return value

    def _unreadable(self, problem: str, hint: str = "value has its bytes") -> ValueUnreadable:
        place = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
        return ValueUnreadable(
            f"the value of {self.topic}/{self.partition}@{self.offset} {problem}", hint=hint, **place
        )

    @property
    def key(self) -> bytes | None:
        length = self._key_length
        return self._content[self._at_value - length : self._at_value] if length else None

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """The headers in their order; a name may occur twice. Names that begin with `__` are left out."""
        return [pair for pair in self._all_headers() if not pair[0].startswith("__")]

    def _all_headers(self) -> list[tuple[str, bytes]]:
        if not self._flags & HAS_HEADERS:
            return []
        return decode_headers(self._content[self._at_headers : self._at_headers + self._headers_length])

    @property
    def delayed_offset(self) -> int | None:
        """The offset in the delayed log of a message that was delayed."""
        return delayed_offset(self._all_headers())

    @property
    def trace_context(self) -> TraceContext | None:
        """The trace and span that sent the message, if its headers have a valid `traceparent`."""
        return read_trace_context(self._all_headers()) if self._flags & HAS_HEADERS else None

    @property
    def trace_id(self) -> str:
        """The id of its trace; without a valid `traceparent` it is derived from the position."""
        context = self.trace_context
        found = context.trace_id if context else derived_trace_id(self.topic, self.partition, self.offset)
        return found.hex()

    @property
    def is_tombstone(self) -> bool:
        return bool(self._flags & TOMBSTONE)

    @property
    def timestamp(self) -> datetime:
        """The append time, to the microsecond; `timestamp_ns` is exact."""
        return to_datetime(self.timestamp_ns)

    def __repr__(self) -> str:
        return f"<Message {self.topic}/{self.partition}@{self.offset}>"


class DecodableMessage(Message, gc=False, eq=False, weakref=False):
    """A message of a reader that has deserializers."""

    _found_decoding: Any

    def _decoding(self) -> "MessageDecoding":
        decoding: MessageDecoding = self._found_decoding
        return decoding


def _schema_id(content: bytes | None, headers: list[tuple[str, bytes]], name: str) -> int | None:
    from goqueue.schemas import framing  # noqa: PLC0415 - for schemas alone

    try:
        for found, value in headers:
            if found == name:
                return framing.decode_header(value).id
        return None if content is None else framing.decode_prefix(content)
    except framing.FramingInvalid:
        return None


def decodable(messages: list[Message], decoding: "MessageDecoding") -> list[Message]:
    """Return messages that `decoding` decodes."""
    made: Any = DecodableMessage
    return [made(*msgspec.structs.astuple(message), decoding) for message in messages]


def check(content: bytes, checksum: str) -> None:
    """Compare the body of an answer with its checksum."""
    found = f"{crc32c(content, 0, 0):08x}"
    if found != checksum.lower():
        raise ChecksumMismatch(f"the frames have the checksum {found}, the broker said {checksum or 'nothing'}")


def decode(topic: str, partition: int, content: bytes, first: int, end: int) -> list[Message]:
    """Return the messages with offsets from `first` up to but without `end`, without control frames.

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
            measure(content, position)  # raises the precise error
            raise FrameInvalid(f"no frame at byte {position}", position=position)
        if first <= offset < end and not flags & CONTROL:
            found.append(
                Message(topic, partition, offset, time, priority, flags, content, at_value, at_headers, key, headers)
            )
        position = after
    return found
