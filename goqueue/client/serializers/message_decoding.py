"""The deserializers of readers and consumers: schemas are asked for by batch, values are decoded on access."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, Protocol

from goqueue.client.api_request import RequestSequence
from goqueue.client.serializers.deserializer import FramedPayload, SchemaDeserializer, read_framed
from goqueue.client.serializers.known_schemas import KnownSchemas
from goqueue.errors import GoQueueError, RequestInvalid, SchemaInvalid, SchemaNotFound, ValueUnreadable
from goqueue.schemas import framing
from goqueue.schemas.values import ValueMismatch

PartName = Literal["value", "key"]


class EncodedMessage(Protocol):
    """A message as it is decoded."""

    topic: str
    partition: int
    offset: int

    @property
    def value(self) -> bytes | None: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def headers(self) -> list[tuple[str, bytes]]: ...


class _Part(NamedTuple):
    """The value or the key of messages."""

    name: PartName
    deserializer: SchemaDeserializer
    header: str

    def content(self, message: EncodedMessage) -> bytes | None:
        return message.value if self.name == "value" else message.key

    def framed(self, message: EncodedMessage, content: bytes) -> FramedPayload:
        header = next((value for name, value in message.headers if name == self.header), None)
        return read_framed(content, header)


class MessageDecoding:
    """The deserializers of a reader or consumer.

    A message whose schema is unknown, or that does not match it, is an error of that message alone: `decode` raises it.
    """

    def __init__(self, known: KnownSchemas, value: Any, key: Any = None) -> None:
        self._known = known
        self._parts: dict[PartName, _Part] = {}
        given: list[tuple[PartName, Any, str, str]] = [
            ("value", value, "deserializer", framing.VALUE_HEADER),
            ("key", key, "key_deserializer", framing.KEY_HEADER),
        ]
        for name, deserializer, option, header in given:
            if isinstance(deserializer, SchemaDeserializer):
                self._parts[name] = _Part(name, deserializer, header)
            elif deserializer is not None:
                raise RequestInvalid(
                    f"{option} is {deserializer!r:.80}",
                    hint="give an AvroDeserializer, a JsonDeserializer or a ProtobufDeserializer",
                )

    def load(self, messages: Iterable[EncodedMessage]) -> RequestSequence[None]:
        """Ask for the schemas of messages that are not known yet. Their errors wait for `decode`."""
        for number in {number for message in messages for number in self._ids(message)}:
            if self._known.find(number) is None:
                yield from self._known.load(number)

    def _ids(self, message: EncodedMessage) -> Iterator[int]:
        for part in self._parts.values():
            try:
                content = part.content(message)
                if content is not None:
                    yield part.framed(message, content).id
            except (framing.FramingInvalid, GoQueueError):  # `decode` raises it
                continue

    def decode(self, message: EncodedMessage, name: PartName) -> Any:
        """Return a value or key; None for a tombstone, and for a message without key."""
        part = self._parts.get(name)
        if part is None:
            raise not_given(name)
        content = part.content(message)
        if content is None:
            return None
        try:
            framed = part.framed(message, content)
        except framing.FramingInvalid as error:
            raise _unreadable(message, name, f"names no schema: {error}") from None
        schema = self._known.find(framed.id)
        if schema is None:
            raise _unreadable(message, name, f"has schema {framed.id}, which is forgotten: decode it before others")
        if isinstance(schema, (SchemaNotFound, SchemaInvalid)):
            raise _unreadable(message, name, f"has schema {framed.id}, which cannot be read: {schema.sentence}")
        if isinstance(schema, GoQueueError):
            raise schema.with_traceback(None)
        try:
            return part.deserializer.decode(framed, schema)
        except ValueMismatch as mismatch:
            path, reason = mismatch.problem
            place = f" at {path}" if path else ""
            raise _unreadable(message, name, f"does not match schema {framed.id}{place}: {reason}") from None


def not_given(name: PartName) -> RequestInvalid:
    option = "deserializer" if name == "value" else "key_deserializer"
    return RequestInvalid(
        f"the reader or consumer of this message has no {option}",
        hint=f"client.consumer(..., {option}=AvroDeserializer()), for example",
    )


def _unreadable(message: EncodedMessage, name: PartName, problem: str) -> ValueUnreadable:
    where = f"{message.topic}/{message.partition}@{message.offset}"
    place = {"topic": message.topic, "partition": message.partition, "offset": message.offset}
    return ValueUnreadable(f"the {name} of {where} {problem}", hint=f"{name} has its bytes", **place)
