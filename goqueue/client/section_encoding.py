"""Sections of publish requests: the frames of one partition, the first of which names the producer."""

import struct
from collections.abc import Sequence

from goqueue.client.delivery import FrameFields, SendBatch
from goqueue.storage.frame import NO_HEADERS, Buffer, decode, encode, encode_headers, measure
from goqueue.wire.sections import DELAYED, PRODUCER, PRODUCER_PREFIX, SECTION, ProducerIdentity

_COUNT = struct.Struct(">H")


def open_section(batch: SendBatch) -> None:
    """Make the frames of a sealed batch anew, the first one without the producer's header."""
    assert batch.sealed is not None
    assert batch.origin is not None
    value, key, headers, priority, flags = batch.origin
    section, position, frames = batch.sealed, SECTION.size, list[bytes]()
    while position < len(section):
        length = measure(section, position)
        frames.append(section[position : position + length])
        position += length
    frames[0] = encode(value, key, headers, priority=priority, flags=flags)
    batch.frames, batch.sealed, batch.unsure = frames, None, False
    batch.not_before_ns = 0


def fields_of(frame: bytes) -> FrameFields:
    message = decode(frame)
    headers = encode_headers(message.headers) if message.headers else NO_HEADERS
    return message.value, message.key or b"", headers, message.priority, message.flags


def with_producer_header(origin: FrameFields, identity: ProducerIdentity, sequence: int, count: int) -> bytes:
    """Return the first frame of a section: the same message with the producer's header added."""
    value, key, headers, priority, flags = origin
    (own_count,) = _COUNT.unpack_from(headers)
    own = PRODUCER_PREFIX + PRODUCER.pack(*identity, sequence, count)
    together = b"".join((_COUNT.pack(own_count + 1), own, headers[2:]))
    return encode(value, key, together, priority=priority, flags=flags)


def encode_section(partition: int, frames: Sequence[Buffer], *, delayed: bool = False) -> bytes:
    """Return the frames of one partition, or of its delayed log, as a section of a request."""
    number = partition | DELAYED if delayed else partition
    return b"".join((SECTION.pack(number, sum(map(len, frames))), *frames))
