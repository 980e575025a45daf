"""Payloads of Protobuf: message indexes, and messages parsed by descriptors.

After the schema id, a payload in the format of Confluent's serializers has the path of its message in the file: the
number of indexes and each index, as zigzag varints; one byte 0 stands for the first message. The message follows.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any

from google.protobuf.message import DecodeError

from goqueue.schemas import limits
from goqueue.schemas.schema_format import PayloadProblem

INDEXES_MAX = limits.SCHEMA_DEPTH_MAX
FIRST_MESSAGE = b"\x00"


class IndexesInvalid(Exception):
    """The payload does not begin with message indexes."""


def encode_message_indexes(indexes: tuple[int, ...]) -> bytes:
    """Return the prefix that names a message by its path in the file."""
    if indexes == (0,):
        return FIRST_MESSAGE
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def decode_message_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Return the path of a message, and where the message begins. Raises `IndexesInvalid`."""
    count, at = _number(payload, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= INDEXES_MAX:
        raise IndexesInvalid(f"{count} message indexes")
    found = []
    for _ in range(count):
        index, at = _number(payload, at)
        found.append(index)
    return tuple(found), at


def _number(payload: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        if at >= len(payload) or shift > 28:
            raise IndexesInvalid("the payload does not begin with message indexes")
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


class MessageValidator:
    """Validates payloads that are one message, without indexes before it."""

    def __init__(self, message: Any) -> None:
        self._parse: Callable[[bytes], Any] = message.FromString
        self._name = message.DESCRIPTOR.full_name

    def problems(self, payload: bytes) -> list[PayloadProblem]:
        try:
            message = self._parse(payload)
        except DecodeError as error:
            return [PayloadProblem("", f"not a message of {self._name}: {error}")]
        if message.IsInitialized():
            return []
        missing = islice(message.FindInitializationErrors(), limits.PAYLOAD_PROBLEMS_MAX)
        return [PayloadProblem("/" + path.replace(".", "/"), "the required field is missing") for path in missing]


class ProtobufValidator:
    """Validates payloads that begin with message indexes."""

    def __init__(self, messages: dict[tuple[int, ...], MessageValidator]) -> None:
        self._messages = messages
        self._first = messages.get((0,))

    def problems(self, payload: bytes) -> list[PayloadProblem]:
        if payload[:1] == FIRST_MESSAGE and self._first is not None:
            return self._first.problems(payload[1:])
        try:
            indexes, at = decode_message_indexes(payload)
        except IndexesInvalid as error:
            return [PayloadProblem("", str(error))]
        validator = self._messages.get(indexes)
        if validator is None:
            return [PayloadProblem("", f"the schema has no message with the indexes {list(indexes)}")]
        return validator.problems(payload[at:])
