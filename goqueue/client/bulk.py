"""Many messages at once: checked as a whole before any of them is taken, then encoded piece by piece."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import cast

from goqueue.client.accumulator import Lane, Topic
from goqueue.client.delivery import Due, Origin
from goqueue.client.outgoing import (
    Headers,
    Key,
    Priority,
    Value,
    as_bytes,
    as_headers,
    as_priority,
    check_partition,
    check_size,
    origin_with,
    own_headers_bytes,
)
from goqueue.errors import RequestInvalid
from goqueue.limits import KEY_BYTES_MAX, VALUE_BYTES_MAX
from goqueue.partitioner import partition_of
from goqueue.storage.frame import HAS_HEADERS, NO_HEADERS, encode, encode_many

WINDOW_MESSAGES = 4096  # encoded at a time: enough that the loop costs nothing, few enough to stay in the cache


@dataclass(frozen=True, slots=True)
class Piece:
    """Frames of one partition that fit one request; without a lane they go wherever the sticky one is."""

    lane: Lane | None
    frames: list[bytes]
    size: int
    origin: Origin
    positions: Sequence[int]
    due: Due | None


@dataclass(frozen=True, slots=True)
class Manner:
    """What holds for all messages of a call."""

    headers: bytes
    priority: int
    lane: Lane | None
    due: Due | None
    flags: int

    @property
    def headers_bytes(self) -> int:
        """What counts as the message's own."""
        return own_headers_bytes(self.headers, self.due)


@dataclass(frozen=True, slots=True)
class Bulk:
    """Checked messages."""

    topic: Topic
    count: int
    keys: Sequence[bytes] | None
    frames_of: Callable[[Sequence[int]], list[bytes]]
    origin_of: Callable[[int], Origin]
    manner: Manner

    def pieces(self, request_bytes: int) -> Iterator[Piece]:
        for start in range(0, self.count, WINDOW_MESSAGES):
            window = range(start, min(start + WINDOW_MESSAGES, self.count))
            for lane, positions in self._lanes(window):
                yield from self._cut(lane, positions, self.frames_of(positions), request_bytes)

    def _lanes(self, window: range) -> Iterable[tuple[Lane | None, Sequence[int]]]:
        if self.manner.lane is not None or self.keys is None:
            return [(self.manner.lane, window)]
        lanes, hash_key, count = self.topic.lanes, self.topic.hash_key, len(self.topic.lanes)
        groups: dict[Lane | None, list[int]] = {}
        for position in window:
            key = self.keys[position]
            lane = lanes[partition_of(key, count, hash_key)] if key else None
            groups.setdefault(lane, []).append(position)
        return groups.items()

    def _cut(
        self, lane: Lane | None, positions: Sequence[int], frames: list[bytes], request_bytes: int
    ) -> Iterator[Piece]:
        size = sum(map(len, frames))
        if size <= request_bytes or len(frames) == 1:
            yield Piece(lane, frames, size, self.origin_of(positions[0]), positions, self.manner.due)
            return
        half = len(frames) // 2
        yield from self._cut(lane, positions[:half], frames[:half], request_bytes)
        yield from self._cut(lane, positions[half:], frames[half:], request_bytes)


def bulk_of(  # noqa: PLR0913 - they are those of `send_many`
    topic: Topic,
    values: Sequence[Value],
    keys: Sequence[Key] | None,
    headers: Headers | None,
    partition: int | None,
    priority: Priority,
    *,
    due: Due | None = None,
    flags: int = 0,
    shrink: bool,
) -> Bulk:
    """Refuses the whole call when one message of it is wrong; nothing has been taken then.

    `flags` are what all frames of the producer have.
    """
    if keys is not None and len(keys) != len(values):
        raise RequestInvalid(f"there are {len(values)} values and {len(keys)} keys")
    lane = None
    if partition is not None:
        check_partition(topic, partition)
        lane = topic.lanes[partition]
    manner = Manner(as_headers(headers, due), as_priority(priority), lane, due, flags)
    simple = set(map(type, values)) <= {bytes} and (keys is None or set(map(type, keys)) <= {bytes})
    if simple and not shrink and (keys is None or max(map(_length, keys), default=0) <= KEY_BYTES_MAX):
        bare, bare_keys = cast("Sequence[bytes]", values), cast("Sequence[bytes] | None", keys)
        return _simple(topic, bare, bare_keys, manner)
    return _complete(topic, values, keys, manner, shrink)


def _simple(
    topic: Topic,
    values: Sequence[bytes],
    keys: Sequence[bytes] | None,
    manner: Manner,
) -> Bulk:
    headers, priority, headers_bytes = manner.headers, manner.priority, manner.headers_bytes
    flags = manner.flags if headers == NO_HEADERS else manner.flags | HAS_HEADERS
    longest, own = max(map(len, values), default=0), 0 if keys is None else max(map(len, keys), default=0)
    if longest + own + headers_bytes > topic.message_bytes_max or longest > VALUE_BYTES_MAX:  # they may be of two
        for key, value in zip(repeat(b"") if keys is None else keys, values, strict=keys is not None):
            check_size(topic, len(value), len(key), headers_bytes)

    def frames_of(positions: Sequence[int]) -> list[bytes]:
        some, some_keys = _at(values, positions), None if keys is None else _at(keys, positions)
        return encode_many(some, some_keys, headers, priority=priority, flags=flags)

    def origin(position: int) -> Origin:
        return values[position], b"" if keys is None else keys[position], headers, priority, flags

    return Bulk(topic, len(values), keys, frames_of, origin, manner)


def _complete(
    topic: Topic,
    values: Sequence[Value],
    keys: Sequence[Key] | None,
    manner: Manner,
    shrink: bool,
) -> Bulk:
    given = [None] * len(values) if keys is None else keys
    origins = [
        origin_with(manner.headers, value, key, manner.priority, flags=manner.flags, shrink=shrink)
        for value, key in zip(values, given, strict=True)
    ]
    for value, key, encoded, urgency, flags in origins:
        if len(key) > KEY_BYTES_MAX:
            encode(value, key, encoded, priority=urgency, flags=flags)  # which refuses it
        check_size(topic, len(value), len(key), manner.headers_bytes)

    def frames_of(positions: Sequence[int]) -> list[bytes]:
        return [
            encode(value, key, encoded, priority=urgency, flags=flags)
            for value, key, encoded, urgency, flags in map(origins.__getitem__, positions)
        ]

    return Bulk(topic, len(origins), [origin[1] for origin in origins], frames_of, origins.__getitem__, manner)


def _length(value: Value | Key) -> int:
    return len(value) if type(value) is bytes else 0 if value is None else len(as_bytes(value, "value"))


def _at(items: Sequence[bytes], positions: Sequence[int]) -> Sequence[bytes]:
    if isinstance(positions, range) and positions.step == 1:
        return items[positions.start : positions.stop]
    return [items[position] for position in positions]
