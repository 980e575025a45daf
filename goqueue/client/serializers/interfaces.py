"""The options that producers, readers and consumers take; importing them loads no format of schemas."""

from typing import Any, Protocol


class TopicSerializer(Protocol):
    """A serializer with a schema: `serializer` has those that there are."""

    def bind(self, known: Any, topic: str, field: Any) -> Any: ...


class PayloadDeserializer(Protocol):
    """A deserializer: `deserializer` has those that there are."""

    def decode(self, framed: Any, schema: Any) -> Any: ...
