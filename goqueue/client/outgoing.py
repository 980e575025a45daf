"""A message on its way into a frame: what a caller may hand over, and what is refused at the call."""

from collections.abc import Mapping, Sequence

from goqueue.client.accumulator import OWN_HEADERS_BYTES_MAX, Topic
from goqueue.client.delivery import Due, Origin
from goqueue.compression import compress
from goqueue.delay import HEADER_BYTES
from goqueue.errors import MessageTooLarge, PartitionNotFound, RequestInvalid
from goqueue.limits import VALUE_BYTES_MAX
from goqueue.storage.frame import (
    COMPRESSED,
    HAS_HEADERS,
    NO_HEADERS,
    NORMAL,
    PRIORITIES,
    TOMBSTONE,
    encode_headers,
)

Value = bytes | bytearray | memoryview | str | None
Key = bytes | str | None
HeaderValue = bytes | str
Headers = Mapping[str, HeaderValue] | Sequence[tuple[str, HeaderValue]]
Priority = int | str

COMPRESS_FROM_BYTES = 64
"""Shorter values do not get shorter."""

_SMALLER = "send less, or raise max_message_bytes of the topic"


def as_bytes(given: object, what: str) -> bytes:
    """Bytes as they are, text as UTF-8."""
    if isinstance(given, str):
        try:
            return given.encode()
        except UnicodeEncodeError as error:
            raise RequestInvalid(f"the {what} {given[:40]!r} cannot be encoded: {error.reason}") from None
    if isinstance(given, (bytes, bytearray, memoryview)):
        return bytes(given)
    raise unfit(given, what)


def unfit(given: object, what: str) -> RequestInvalid:
    return RequestInvalid(
        f"the {what} is {type(given).__name__}, and must be bytes or text", hint="encode it first, as JSON for example"
    )


def as_priority(given: Priority) -> int:
    if isinstance(given, str) and given in PRIORITIES:
        return PRIORITIES.index(given)
    if isinstance(given, int) and 0 <= given < len(PRIORITIES):
        return given
    raise RequestInvalid(f"{given!r} is not a priority", hint=f"write one of {', '.join(PRIORITIES)}")


def as_headers(given: Headers | None, due: Due | None = None) -> bytes:
    """Encoded headers, `due` before the caller's own. Names that begin with `__` are the broker's."""
    if not given:
        return encode_headers([due]) if due else NO_HEADERS
    pairs = given.items() if isinstance(given, Mapping) else given
    encoded = [due] if due else []
    for name, value in pairs:
        if name.startswith("__"):
            raise RequestInvalid(f"{name!r} is no name for a header", hint="those that begin with __ are the broker's")
        encoded.append((name, as_bytes(value, f"header {name[:40]!r}")))
    together = encode_headers(encoded)
    if len(together) > OWN_HEADERS_BYTES_MAX:
        raise MessageTooLarge(f"the headers have {len(together)} bytes, {OWN_HEADERS_BYTES_MAX} is the most")
    return together


def own_headers_bytes(encoded: bytes, due: Due | None) -> int:
    """What counts of them in the size of a message: what says when is not its own."""
    return len(encoded) - HEADER_BYTES if due else len(encoded)


def origin_of(
    value: Value,
    key: Key = None,
    headers: Headers | None = None,
    priority: Priority = NORMAL,
    *,
    flags: int = 0,
    shrink: bool = False,
) -> Origin:
    """The slow and complete way, for everything that is not simply bytes."""
    return origin_with(as_headers(headers), value, key, priority, flags=flags, shrink=shrink)


def origin_with(
    own_headers: bytes, value: Value, key: Key, priority: Priority, *, flags: int = 0, shrink: bool
) -> Origin:
    """The same for headers that are encoded already. `flags` are what all frames of the producer have."""
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


def check_partition(topic: Topic, partition: int) -> None:
    count = len(topic.lanes)
    if not 0 <= partition < count:
        raise PartitionNotFound(f"topic {topic.name} has no partition {partition}, but {count}: 0 to {count - 1}")


def check_size(topic: Topic, value: int, key: int, headers: int) -> None:
    """Refuse here what the broker would refuse together with the batch that it is in. It counts all three."""
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
