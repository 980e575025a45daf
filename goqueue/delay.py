"""What frames say of being delayed: three headers of the broker's own, plain and without numpy.

A message in a delayed log says when it is to be delivered, by its first header: `__deliver_at` at this time, or
`__deliver_in` so long after it was appended there. In the topic it has `__delayed_of` instead, which is its offset in
the delayed log. Each is encoded as

    u16 12, 12 bytes of name, u16 8, u64 number

so what tells them apart are the first 16 bytes, and one may be put in the place of another without moving anything.
The first frame of a producer's batch has `__producer` before it.
"""

import struct
from collections.abc import Sequence

DELIVER_AT = "__deliver_at"
DELIVER_IN = "__deliver_in"
DELAYED_OF = "__delayed_of"

DELAYED_SECTION = 0x8000_0000
"""The bit of a section's partition that says: these frames are for its delayed log."""

_NUMBER = struct.Struct(">Q")
_HEADER = struct.Struct(">H12sHQ")

HEADER_BYTES = _HEADER.size
PREFIX_BYTES = HEADER_BYTES - _NUMBER.size

Headers = Sequence[tuple[str, bytes]]


def deliver_at(time_ns: int) -> bytes:
    """The encoded header of what is to be delivered at this time since the epoch."""
    return _header(DELIVER_AT, time_ns)


def deliver_in(delay_ns: int) -> bytes:
    """The encoded header of what is to be delivered so long after it is appended."""
    return _header(DELIVER_IN, delay_ns)


def delayed_of(offset: int) -> bytes:
    """The encoded header of what was delivered, and had this offset in the delayed log."""
    return _header(DELAYED_OF, offset)


def _header(name: str, number: int) -> bytes:
    return _HEADER.pack(12, name.encode(), 8, number)


PREFIXES = {name: _header(name, 0)[:PREFIX_BYTES] for name in (DELIVER_AT, DELIVER_IN, DELAYED_OF)}
"""What an encoded header begins with."""


def due_ns(headers: Headers, timestamp_ns: int) -> int | None:
    """When a message of a delayed log, appended at that time, is to be delivered; None of one that is not delayed."""
    for name, value in headers:
        if name == DELIVER_AT:
            return _number(value)
        if name == DELIVER_IN:
            delay = _number(value)
            return None if delay is None else timestamp_ns + delay
    return None


def origin(headers: Headers) -> int | None:
    """The offset that a delivered message had in the delayed log; None of one that was not delayed."""
    return next((_number(value) for name, value in headers if name == DELAYED_OF), None)


def _number(value: bytes) -> int | None:
    return _NUMBER.unpack(value)[0] if len(value) == _NUMBER.size else None
