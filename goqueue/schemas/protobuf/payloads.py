"""Payloads of Protobuf: message indexes, and messages parsed by descriptors."""

from collections.abc import Callable
from itertools import islice
from typing import Any

from google.protobuf.message import DecodeError

from goqueue.schemas import limits
from goqueue.schemas.framing import FIRST_MESSAGE, FIRST_MESSAGE_BYTES, FramingInvalid, decode_message_indexes
from goqueue.schemas.schema_format import PayloadProblem


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

    def is_valid(self, payload: bytes) -> bool:
        return not self.problems(payload)


class ProtobufValidator:
    """Validates payloads that begin with message indexes."""

    def __init__(self, messages: dict[tuple[int, ...], MessageValidator]) -> None:
        self._messages = messages
        self._first = messages.get(FIRST_MESSAGE)

    def problems(self, payload: bytes) -> list[PayloadProblem]:
        if payload[:1] == FIRST_MESSAGE_BYTES and self._first is not None:
            return self._first.problems(payload[1:])
        try:
            indexes, at = decode_message_indexes(payload)
        except FramingInvalid as error:
            return [PayloadProblem("", str(error))]
        validator = self._messages.get(indexes)
        if validator is None:
            return [PayloadProblem("", f"the schema has no message with the indexes {list(indexes)}")]
        return validator.problems(payload[at:])

    def is_valid(self, payload: bytes) -> bool:
        return not self.problems(payload)
