"""The headers that a scheduled message has, and the one that it is delivered with.

A frame in a delayed log begins its headers with `__deliver_at` or `__deliver_in`, eight bytes of nanoseconds; behind
`__producer`, where it has that mark. When it is due, it stands in its topic with `__delayed_of` in that place: the
offset that it had in the delayed log. All three encode to the same number of bytes, so that one can be written over
the other, and each begins with sixteen bytes that are always the same, so that they can be looked for.
"""

import struct
from collections.abc import Iterable

from goqueue.errors import FrameInvalid

LOG_NAME = "delayed"
"""Of a delayed log, below the log of its partition."""

DELIVER_AT = "__deliver_at"
"""Due at this moment: nanoseconds since the epoch."""
DELIVER_IN = "__deliver_in"
"""Due so many nanoseconds after the time that the frame is stamped with."""
DELAYED_OF = "__delayed_of"
"""The offset in the delayed log."""

_NUMBER = struct.Struct(">Q")
_U16 = struct.Struct(">H")

PREFIX_BYTES = 16
HEADER_BYTES = PREFIX_BYTES + _NUMBER.size
"""What each of them adds to the headers of a frame."""


def _prefix(name: str) -> bytes:
    """How the header is encoded, up to its value."""
    encoded = name.encode()
    return _U16.pack(len(encoded)) + encoded + _U16.pack(_NUMBER.size)


PREFIXES = {name: _prefix(name) for name in (DELIVER_AT, DELIVER_IN, DELAYED_OF)}

assert {len(prefix) for prefix in PREFIXES.values()} == {PREFIX_BYTES}


def deliver_at(time_ns: int) -> tuple[str, bytes]:
    """The header of a message that is due at this moment."""
    return DELIVER_AT, _NUMBER.pack(time_ns)


def deliver_in(delay_ns: int) -> tuple[str, bytes]:
    """The header of a message that is due so long after it was stored."""
    return DELIVER_IN, _NUMBER.pack(delay_ns)


def delayed_of(offset: int) -> tuple[str, bytes]:
    """The header of a message that has been delivered."""
    return DELAYED_OF, _NUMBER.pack(offset)


def due_of(headers: Iterable[tuple[str, bytes]], timestamp_ns: int) -> int | None:
    """When a frame of a delayed log is due by its headers; None where they do not say."""
    for name, value in headers:
        if name == DELIVER_AT:
            return number_of(name, value)
        if name == DELIVER_IN:
            return timestamp_ns + number_of(name, value)
    return None


def origin_of(headers: Iterable[tuple[str, bytes]]) -> int | None:
    """The offset in the delayed log that a message of a topic came from; None where it was never delayed."""
    return next((number_of(name, value) for name, value in headers if name == DELAYED_OF), None)


def number_of(name: str, value: bytes) -> int:
    if len(value) != _NUMBER.size:
        raise FrameInvalid(f"the header {name} has {len(value)} bytes, {_NUMBER.size} belong there")
    number: int = _NUMBER.unpack(value)[0]
    return number
