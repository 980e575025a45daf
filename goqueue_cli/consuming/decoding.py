"""Messages whose values and keys are decoded by the schemas that they name, as JSON."""

from typing import Any

from msgspec import json

from goqueue.client import Message, SchemaDeserializer
from goqueue.errors import ValueUnreadable


def decoding_options() -> dict[str, Any]:
    """Return the options of a reader or consumer."""
    deserializer = SchemaDeserializer(as_json=True)
    return {"deserializer": deserializer, "key_deserializer": deserializer}


class DecodedMessage:
    """A message with its value and key as JSON. What names no schema is as it was published."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self.value = message.value if message.schema_id is None else json.encode(message.decode())
        self.key = self._decoded_key()

    def _decoded_key(self) -> bytes | None:
        """Return the key; bytes that only look like those of a schema stay as they are."""
        message = self._message
        if message.key_schema_id is None:
            return message.key
        try:
            return json.encode(message.decode_key())
        except ValueUnreadable:
            return message.key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)
