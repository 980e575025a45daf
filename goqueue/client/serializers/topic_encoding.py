"""The serializers of a producer, bound to each topic when its first message is sent."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from goqueue.client.api_request import RequestSequence
from goqueue.client.message_encoding import Headers, Key
from goqueue.client.serializers.known_schemas import BoundedCache, KnownSchemas
from goqueue.client.serializers.serializer import SchemaSerializer, TopicEncoder

TOPICS_MAX = 10_000
Function = Callable[[Any], Any]


class BoundEncoding(NamedTuple):
    """The encoders of one topic."""

    value: TopicEncoder | None
    key: TopicEncoder | Function | None

    @property
    def is_current(self) -> bool:
        now = time.monotonic()
        return all(now < one.expires_at for one in self if isinstance(one, TopicEncoder))

    def encode(
        self, values: Sequence[Any], keys: Sequence[Any] | None, headers: Headers | None
    ) -> tuple[Sequence[Any], Sequence[Key] | None, Headers | None]:
        """Return values, keys and headers as they are sent. None stays None."""
        if (value := self.value) is not None:
            if len(values) == 1:
                values = [None if values[0] is None else value.payload(values[0], "value")]
            else:
                values = [None if one is None else value.payload(one, "value", at) for at, one in enumerate(values)]
        if self.key is not None and keys is not None:
            keys = [None if one is None else self._encoded_key(one, at) for at, one in enumerate(keys)]
        return values, keys, self._with_ids(headers)

    def _with_ids(self, headers: Headers | None) -> Headers | None:
        """Return headers with the ids of schemas, and without those of copied messages."""
        encoders = [one for one in self if isinstance(one, TopicEncoder)]
        added = [one.header for one in encoders if one.header is not None]
        if not added and not headers:
            return headers
        pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
        names = {one.header_name for one in encoders}
        return [*added, *((name, value) for name, value in pairs if name not in names)]

    def _encoded_key(self, key: Any, index: int) -> Any:
        assert self.key is not None
        return self.key.payload(key, "key", index or None) if isinstance(self.key, TopicEncoder) else self.key(key)


class TopicEncoding:
    """The serializers of a producer."""

    def __init__(
        self, known: KnownSchemas, value: SchemaSerializer | None, key: SchemaSerializer | Function | None
    ) -> None:
        self._known = known
        self._value = value
        self._key = key
        self._bound: BoundedCache[str, BoundEncoding] = BoundedCache(TOPICS_MAX)

    def find(self, topic: str) -> BoundEncoding | None:
        """Return the encoders of a topic, if they are known and no version of them has to be asked for again."""
        found = self._bound.get(topic)
        return found if found is not None and found.is_current else None

    def bind(self, topic: str) -> RequestSequence[BoundEncoding]:
        value = None if self._value is None else (yield from self._value.bind(self._known, topic, "value"))
        key: TopicEncoder | Function | None
        if isinstance(self._key, SchemaSerializer):
            key = yield from self._key.bind(self._known, topic, "key")
        else:
            key = self._key
        found = BoundEncoding(value, key)
        self._bound.put(topic, found)
        return found
