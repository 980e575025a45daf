"""Which schema a payload has: a prefix before it, or a header beside it. Both name the id of the schema.

prefix    the form of Confluent's serializers: a byte 0, the id as u32, with Protobuf the message indexes, the payload
header    `schema-id` for the value, `key-schema-id` for the key: the id in decimal; the payload has no prefix. With
          Protobuf message indexes may follow, `7:1,0`; without them it is the first message

Message indexes are the path of a message in its file. In the prefix they are zigzag varints, their count first; one
byte 0 stands for the first message.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from goqueue.schemas.limits import SCHEMA_DEPTH_MAX, SCHEMA_ID_MAX

VALUE_HEADER = "schema-id"
KEY_HEADER = "key-schema-id"

INDEXES_MAX = SCHEMA_DEPTH_MAX
FIRST_MESSAGE = (0,)
FIRST_MESSAGE_BYTES = b"\x00"

_PREFIX = struct.Struct(">BI")
PREFIX_BYTES = _PREFIX.size
_MAGIC = 0
_VARINT_BITS = 28  # of all bytes before the last one that a number of 32 bits can have
_ID_DIGITS = len(str(SCHEMA_ID_MAX))


class FramingInvalid(Exception):
    """A prefix or header that names no schema; the text says why."""


class HeaderId(NamedTuple):
    """The id in a header, and the message indexes if it has them."""

    id: int
    indexes: tuple[int, ...] | None = None


# --- the prefix ---


def encode_prefix(number: int, indexes: Sequence[int] | None = None) -> bytes:
    """Return what stands before a payload; `indexes` are given with Protobuf only."""
    assert 0 < number <= SCHEMA_ID_MAX, f"{number} is an id"
    prefix = _PREFIX.pack(_MAGIC, number)
    return prefix if indexes is None else prefix + encode_message_indexes(indexes)


def has_prefix(payload: bytes) -> bool:
    """Tell whether a payload begins like one with a prefix. Text and JSON never do, other payloads may by chance."""
    return len(payload) >= PREFIX_BYTES and payload[0] == _MAGIC


def decode_prefix(payload: bytes) -> int:
    """Return the id in a prefix. The message indexes or the payload follow after `PREFIX_BYTES`."""
    if len(payload) < PREFIX_BYTES:
        raise FramingInvalid(f"the schema id needs {PREFIX_BYTES} bytes, there are {len(payload)}")
    magic, number = _PREFIX.unpack_from(payload)
    if magic != _MAGIC:
        raise FramingInvalid(f"the first byte is {magic}, with a schema id it is 0")
    return int(number)


def encode_message_indexes(indexes: Sequence[int]) -> bytes:
    """Return the bytes that name a message by its path in the file."""
    if tuple(indexes) == FIRST_MESSAGE:
        return FIRST_MESSAGE_BYTES
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def decode_message_indexes(payload: bytes, at: int = 0) -> tuple[tuple[int, ...], int]:
    """Return the path of a message, and where the message begins."""
    count, at = _number(payload, at)
    if count == 0:
        return FIRST_MESSAGE, at
    if not 0 < count <= INDEXES_MAX:
        raise FramingInvalid(f"{count} message indexes")
    found = []
    for _ in range(count):
        index, at = _number(payload, at)
        found.append(index)
    return tuple(found), at


def _number(payload: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        if at >= len(payload) or shift > _VARINT_BITS:
            raise FramingInvalid("the payload does not begin with message indexes")
        found |= (payload[at] & 127) << shift
        shift += 7
        at += 1
        if payload[at - 1] < 128:
            return (found >> 1) ^ -(found & 1), at


def _zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


# --- the header ---


def encode_header(number: int, indexes: Sequence[int] = FIRST_MESSAGE) -> str:
    """Return the value of a header. The indexes of the first message are left out."""
    assert 0 < number <= SCHEMA_ID_MAX, f"{number} is an id"
    return str(number) if tuple(indexes) == FIRST_MESSAGE else f"{number}:{','.join(map(str, indexes))}"


def decode_header(value: bytes) -> HeaderId:
    """Read the value of a header."""
    text, colon, path = value.decode("latin-1").partition(":")
    number = _decimal(text)
    if not number:
        raise FramingInvalid(f"{value[:40].decode('latin-1')!r} is no schema id: it is a number such as 7")
    if not colon:
        return HeaderId(number)
    indexes = [_decimal(one) for one in path.split(",", INDEXES_MAX)]
    if None in indexes or len(indexes) > INDEXES_MAX:
        raise FramingInvalid(f"{path[:40]!r} are no message indexes: they are numbers such as 1,0")
    return HeaderId(number, tuple(index for index in indexes if index is not None))


def _decimal(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal() and len(text) <= _ID_DIGITS):
        return None
    number = int(text)
    return number if number <= SCHEMA_ID_MAX else None
