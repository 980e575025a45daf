"""Messages as callers pass them: checks, encoding into frames, one by one and in bulk."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from goqueue.client.accumulator import OWN_HEADERS_BYTES_MAX, PartitionQueue, TopicQueues
from goqueue.client.delivery import DueHeader, FrameFields
from goqueue.client.serializers.interfaces import TopicSerializer
from goqueue.compression import compress
from goqueue.delay import HEADER_BYTES
from goqueue.errors import MessageTooLarge, PartitionNotFound, RequestInvalid
from goqueue.limits import KEY_BYTES_MAX, VALUE_BYTES_MAX
from goqueue.partitioner import partition_of
from goqueue.storage.frame import (
    COMPRESSED,
    HAS_HEADERS,
    NO_HEADERS,
    NORMAL,
    PRIORITIES,
    TOMBSTONE,
    encode,
    encode_headers,
    encode_many,
)

Value = bytes | bytearray | memoryview | str | None
Key = bytes | str | None
HeaderValue = bytes | str
Headers = Mapping[str, HeaderValue] | Sequence[tuple[str, HeaderValue]]
if TYPE_CHECKING:
    from typing_extensions import TypeVar  # that of Python 3.13

    V = TypeVar("V", default=Value)
else:
    from typing import TypeVar

    V = TypeVar("V")
"""What a producer takes as values: bytes and text, unless it has a serializer."""

PriorityName = Literal["critical", "high", "normal", "low", "background"]
Priority = int | PriorityName

Serializer = Literal["json"] | Callable[[Any], bytes | bytearray | memoryview | str] | TopicSerializer
"""How a producer makes bytes or text of values; "json" takes what msgspec encodes, such as dicts and dataclasses."""

COMPRESS_FROM_BYTES = 64
"""Compression does not make shorter values smaller."""

_SMALLER = "send less, or raise max_message_bytes of the topic"


def as_bytes(given: object, what: str) -> bytes:
    """Return bytes as they are, and text as UTF-8."""
    if isinstance(given, str):
        try:
            return given.encode()
        except UnicodeEncodeError as error:
            raise RequestInvalid(f"the {what} {given[:40]!r} cannot be encoded: {error.reason}") from None
    if isinstance(given, (bytes, bytearray, memoryview)):
        return bytes(given)
    raise wrong_type(given, what)


def serialize_json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RequestInvalid(
            f"the value is {type(value).__name__}, which JSON cannot hold: {error}",
            hint="give the producer a function as serializer, which returns bytes or text",
        ) from error


def wrong_type(given: object, what: str) -> RequestInvalid:
    return RequestInvalid(
        f"the {what} is {type(given).__name__}, and must be bytes or text",
        hint='encode it first, or send it as JSON with client.producer(serializer="json")' if what == "value" else None,
    )


def as_priority(given: int | str) -> int:
    if isinstance(given, str) and given in PRIORITIES:
        return PRIORITIES.index(given)
    if isinstance(given, int) and 0 <= given < len(PRIORITIES):
        return given
    raise RequestInvalid(f"{given!r} is not a priority", hint=f"write one of {', '.join(PRIORITIES)}")


def as_headers(given: Headers | None, due: DueHeader | None = None) -> bytes:
    """Encode headers, `due` before the caller's own. Names that begin with `__` are reserved."""
    if not given:
        return encode_headers([due]) if due else NO_HEADERS
    pairs = given.items() if isinstance(given, Mapping) else given
    encoded = [due] if due else []
    for name, value in pairs:
        if name.startswith("__"):
            raise RequestInvalid(f"{name!r} is not a valid header name", hint="names that begin with __ are reserved")
        encoded.append((name, as_bytes(value, f"header {name[:40]!r}")))
    together = encode_headers(encoded)
    if len(together) > OWN_HEADERS_BYTES_MAX:
        raise MessageTooLarge(f"the headers have {len(together)} bytes, {OWN_HEADERS_BYTES_MAX} is the most")
    return together


def own_headers_bytes(encoded: bytes, due: DueHeader | None) -> int:
    """Return the part of the headers that counts in the size of a message: all but `due`."""
    return len(encoded) - HEADER_BYTES if due else len(encoded)


def frame_fields(
    own_headers: bytes,
    value: Value,
    key: Key = None,
    priority: Priority = NORMAL,
    *,
    flags: int = 0,
    shrink: bool = False,
) -> FrameFields:
    """Return the fields of a frame for any valid message; the slow path.

    The headers are encoded already, and the producer's `flags` are added.
    """
    own_key = b"" if key is None else as_bytes(key, "key")
    if own_headers is not NO_HEADERS:
        flags |= HAS_HEADERS
    if value is None:
        if not own_key:
            raise RequestInvalid("a tombstone needs a key", hint="None deletes a key; an empty message is b''")
        return b"", own_key, own_headers, as_priority(priority), flags | TOMBSTONE
    content = as_bytes(value, "value")
    if shrink and len(content) >= COMPRESS_FROM_BYTES:
        shorter = compress(content)
        if shorter is not None:
            content, flags = shorter, flags | COMPRESSED
    return content, own_key, own_headers, as_priority(priority), flags


def check_partition(topic: TopicQueues, partition: int) -> None:
    count = len(topic.queues)
    if not 0 <= partition < count:
        raise PartitionNotFound(f"topic {topic.name} has no partition {partition}, but {count}: 0 to {count - 1}")


def check_size(topic: TopicQueues, value: int, key: int, headers: int) -> None:
    """Refuse a message that the broker would refuse together with its whole batch."""
    most = topic.message_bytes_max
    if value > min(most, VALUE_BYTES_MAX):
        raise MessageTooLarge(
            f"the value has {value} bytes, topic {topic.name} takes {min(most, VALUE_BYTES_MAX)}", hint=_SMALLER
        )
    if value + key + headers > most:
        raise MessageTooLarge(
            f"a value of {value} bytes, a key of {key} and headers of {headers} are {value + key + headers} together, "
            f"topic {topic.name} takes {most}",
            hint=_SMALLER,
        )


WINDOW_MESSAGES = 4096  # encoded at a time: large enough for speed, small enough for the processor's cache


@dataclass(frozen=True, slots=True)
class FrameGroup:
    """Frames of one partition that fit one request; without a queue they go to the sticky one."""

    queue: PartitionQueue | None
    frames: list[bytes]
    size: int
    origin: FrameFields
    positions: Sequence[int]
    due: DueHeader | None
    is_fixed: bool
    """True if the caller has named the partition."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """The options that hold for all messages of a call."""

    headers: bytes
    priority: int
    queue: PartitionQueue | None
    due: DueHeader | None
    flags: int

    @property
    def headers_bytes(self) -> int:
        return own_headers_bytes(self.headers, self.due)


@dataclass(frozen=True, slots=True)
class BulkMessages:
    """Checked messages of one call."""

    topic: TopicQueues
    count: int
    keys: Sequence[bytes] | None
    frames_of: Callable[[Sequence[int]], list[bytes]]
    origin_of: Callable[[int], FrameFields]
    options: SendOptions

    def pieces(self, request_bytes: int) -> Iterator[FrameGroup]:
        for start in range(0, self.count, WINDOW_MESSAGES):
            window = range(start, min(start + WINDOW_MESSAGES, self.count))
            for queue, positions in self._queues(window):
                yield from self._cut(queue, positions, self.frames_of(positions), request_bytes)

    def _queues(self, window: range) -> Iterable[tuple[PartitionQueue | None, Sequence[int]]]:
        if self.options.queue is not None or self.keys is None:
            return [(self.options.queue, window)]
        queues, hash_key, count = self.topic.queues, self.topic.hash_key, len(self.topic.queues)
        groups: dict[PartitionQueue | None, list[int]] = {}
        for position in window:
            key = self.keys[position]
            queue = queues[partition_of(key, count, hash_key)] if key else None
            groups.setdefault(queue, []).append(position)
        return groups.items()

    def _cut(
        self, queue: PartitionQueue | None, positions: Sequence[int], frames: list[bytes], request_bytes: int
    ) -> Iterator[FrameGroup]:
        size = sum(map(len, frames))
        if size <= request_bytes or len(frames) == 1:
            is_fixed = self.options.queue is not None
            yield FrameGroup(queue, frames, size, self.origin_of(positions[0]), positions, self.options.due, is_fixed)
            return
        half = len(frames) // 2
        yield from self._cut(queue, positions[:half], frames[:half], request_bytes)
        yield from self._cut(queue, positions[half:], frames[half:], request_bytes)


def prepare_bulk(  # noqa: PLR0913 - the options of `send_many`
    topic: TopicQueues,
    values: Sequence[Value],
    keys: Sequence[Key] | None,
    headers: Headers | None,
    partition: int | None,
    priority: Priority,
    *,
    due: DueHeader | None = None,
    flags: int = 0,
    shrink: bool,
) -> BulkMessages:
    """Check the messages of a call. Refuses all when one is invalid."""
    if keys is not None and len(keys) != len(values):
        raise RequestInvalid(f"there are {len(values)} values and {len(keys)} keys")
    queue = None
    if partition is not None:
        check_partition(topic, partition)
        queue = topic.queues[partition]
    options = SendOptions(as_headers(headers, due), as_priority(priority), queue, due, flags)
    simple = set(map(type, values)) <= {bytes} and (keys is None or set(map(type, keys)) <= {bytes})
    if simple and not shrink and (keys is None or max(map(_length, keys), default=0) <= KEY_BYTES_MAX):
        bare, bare_keys = cast("Sequence[bytes]", values), cast("Sequence[bytes] | None", keys)
        return _simple(topic, bare, bare_keys, options)
    return _complete(topic, values, keys, options, shrink)


def _simple(
    topic: TopicQueues, values: Sequence[bytes], keys: Sequence[bytes] | None, options: SendOptions
) -> BulkMessages:
    headers, priority, headers_bytes = options.headers, options.priority, options.headers_bytes
    flags = options.flags if headers == NO_HEADERS else options.flags | HAS_HEADERS
    longest, own = max(map(len, values), default=0), 0 if keys is None else max(map(len, keys), default=0)
    if longest + own + headers_bytes > topic.message_bytes_max or longest > VALUE_BYTES_MAX:  # possibly of two messages
        for key, value in zip(repeat(b"") if keys is None else keys, values, strict=keys is not None):
            check_size(topic, len(value), len(key), headers_bytes)

    def frames_of(positions: Sequence[int]) -> list[bytes]:
        some, some_keys = _at(values, positions), None if keys is None else _at(keys, positions)
        return encode_many(some, some_keys, headers, priority=priority, flags=flags)

    def origin(position: int) -> FrameFields:
        return values[position], b"" if keys is None else keys[position], headers, priority, flags

    return BulkMessages(topic, len(values), keys, frames_of, origin, options)


def _complete(
    topic: TopicQueues, values: Sequence[Value], keys: Sequence[Key] | None, options: SendOptions, shrink: bool
) -> BulkMessages:
    given = [None] * len(values) if keys is None else keys
    origins = [
        frame_fields(options.headers, value, key, options.priority, flags=options.flags, shrink=shrink)
        for value, key in zip(values, given, strict=True)
    ]
    for value, key, encoded, urgency, flags in origins:
        if len(key) > KEY_BYTES_MAX:
            encode(value, key, encoded, priority=urgency, flags=flags)  # raises the error
        check_size(topic, len(value), len(key), options.headers_bytes)

    def frames_of(positions: Sequence[int]) -> list[bytes]:
        return [
            encode(value, key, encoded, priority=urgency, flags=flags)
            for value, key, encoded, urgency, flags in map(origins.__getitem__, positions)
        ]

    return BulkMessages(topic, len(origins), [origin[1] for origin in origins], frames_of, origins.__getitem__, options)


def _length(value: Value | Key) -> int:
    return len(value) if type(value) is bytes else 0 if value is None else len(as_bytes(value, "value"))


def _at(items: Sequence[bytes], positions: Sequence[int]) -> Sequence[bytes]:
    if isinstance(positions, range) and positions.step == 1:
        return items[positions.start : positions.stop]
    return [items[position] for position in positions]
