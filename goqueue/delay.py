"""The headers of delayed messages.

The headers of a frame in a delayed log begin with `__deliver_at` or `__deliver_in`, eight bytes of nanoseconds; after
`__producer`, if the frame has that. When the message is due, its frame in the topic has `__delayed_of` instead: its
offset in the delayed log. All three have the same number of bytes, so that one can replace another in place, and each
begins with sixteen constant bytes, so that it can be searched for.
"""

import struct
from collections.abc import Iterable

from goqueue.errors import FrameInvalid

LOG_NAME = "delayed"
"""The directory of a delayed log, below the log of its partition."""

DELIVER_AT = "__deliver_at"
"""The due time in nanoseconds since the epoch."""
DELIVER_IN = "__deliver_in"
"""The delay in nanoseconds after the frame's timestamp."""
DELAYED_OF = "__delayed_of"
"""The offset in the delayed log."""

_NUMBER = struct.Struct(">Q")
_U16 = struct.Struct(">H")

PREFIX_BYTES = 16
HEADER_BYTES = PREFIX_BYTES + _NUMBER.size
"""The bytes that each of them adds to the headers of a frame."""


def _prefix(name: str) -> bytes:
    """Encode a header up to its value."""
    encoded = name.encode()
    return _U16.pack(len(encoded)) + encoded + _U16.pack(_NUMBER.size)


PREFIXES = {name: _prefix(name) for name in (DELIVER_AT, DELIVER_IN, DELAYED_OF)}

assert {len(prefix) for prefix in PREFIXES.values()} == {PREFIX_BYTES}


def deliver_at_header(time_ns: int) -> tuple[str, bytes]:
    """Return the header of a message that is due at this time."""
    return DELIVER_AT, _NUMBER.pack(time_ns)


def deliver_in_header(delay_ns: int) -> tuple[str, bytes]:
    """Return the header of a message that is due this long after it was stored."""
    return DELIVER_IN, _NUMBER.pack(delay_ns)


def delayed_of_header(offset: int) -> tuple[str, bytes]:
    """Return the header of a delivered message."""
    return DELAYED_OF, _NUMBER.pack(offset)


def due_time(headers: Iterable[tuple[str, bytes]], timestamp_ns: int) -> int | None:
    """Return when a frame of a delayed log is due; None if its headers do not say."""
    for name, value in headers:
        if name == DELIVER_AT:
            return decode_number(name, value)
        if name == DELIVER_IN:
            return timestamp_ns + decode_number(name, value)
    return None


def delayed_offset(headers: Iterable[tuple[str, bytes]]) -> int | None:
    """Return the offset in the delayed log of a message in a topic; None if it was never delayed."""
    return next((decode_number(name, value) for name, value in headers if name == DELAYED_OF), None)


def decode_number(name: str, value: bytes) -> int:
    if len(value) != _NUMBER.size:
        raise FrameInvalid(f"the header {name} has {len(value)} bytes instead of {_NUMBER.size}")
    number: int = _NUMBER.unpack(value)[0]
    return number
