"""The messages of a dead-letter queue: their headers, and how a moved message is recognized.

The header `__moved` holds the origin of a moved message, so that after a crash the mover can tell whether it has
arrived. Dead letters describe their failure in `dlq.` headers, which are removed when they are redriven.
"""

from collections.abc import Iterator

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.records import MessageMove
from goqueue.errors import MessageTooLarge
from goqueue.limits import HEADERS_BYTES_MAX, REASON_CHARACTERS_MAX, TOPIC_NAME_CHARACTERS_MAX
from goqueue.quantities import format_time
from goqueue.storage import frame
from goqueue.wire.sections import ORIGIN_HEADER

DEAD_LETTER_HEADER_PREFIX = "dlq."
_OFFSET_DIGITS_MAX = 19  # of OFFSET_MAX
_OMITTED = f"{DEAD_LETTER_HEADER_PREFIX}omitted"


def origin_prefix(group: str, ref: PartitionRef) -> bytes:
    """Return the part of the origin header before the offset."""
    return f"{group}/{ref}/".encode()


def encode_dead_letter(message: frame.StoredMessage, group: str, ref: PartitionRef, move: MessageMove) -> bytes:
    """Return the frame for the dead-letter queue, with reason and origin in its headers."""
    described = {
        "topic": ref.topic,
        "partition": str(ref.partition),
        "offset": str(message.offset),
        "group": group,
        "error": move.error[:REASON_CHARACTERS_MAX],
        "attempts": str(move.deliveries),
        "first-time": format_time(move.first_ns),
        "last-time": format_time(move.last_ns),
    }
    headers = [
        (f"{DEAD_LETTER_HEADER_PREFIX}{name}", text.encode("utf-8", "replace")) for name, text in described.items()
    ]
    return _encode_moved(message, group, ref, [*_original_headers(message), *headers])


def dead_letter_headers(headers: frame.Headers) -> dict[str, str]:
    """Return the `dlq.` headers, without their prefix."""
    return {
        name.removeprefix(DEAD_LETTER_HEADER_PREFIX): value.decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(DEAD_LETTER_HEADER_PREFIX)
    }


def encode_redriven(message: frame.StoredMessage, group: str, ref: PartitionRef) -> bytes:
    """Return the frame as it was before it became a dead letter."""
    return _encode_moved(message, group, ref, _original_headers(message))


def redriven_size(message: frame.StoredMessage) -> int:
    """Return the size of the redriven message as the limit of a topic counts it."""
    return len(message.key or b"") + len(message.value) + len(frame.encode_headers(_original_headers(message)))


def _original_headers(message: frame.StoredMessage) -> list[tuple[str, bytes]]:
    return [pair for pair in message.headers if not pair[0].startswith(("__", DEAD_LETTER_HEADER_PREFIX))]


def _encode_moved(
    message: frame.StoredMessage, group: str, ref: PartitionRef, headers: list[tuple[str, bytes]]
) -> bytes:
    origin = (ORIGIN_HEADER, origin_prefix(group, ref) + str(message.offset).encode())
    return frame.encode(
        message.value,
        message.key,
        _encode_within_limit([origin, *headers]),
        priority=message.priority,
        flags=message.flags & ~(frame.HAS_HEADERS | frame.TRANSACTIONAL),  # the copy is in no transaction
    )


def _encode_within_limit(headers: list[tuple[str, bytes]]) -> bytes:
    """Encode headers. While they are too large, omit the largest and count it in `dlq.omitted`."""
    omitted = 0
    while True:
        try:
            count = [(_OMITTED, str(omitted).encode())] if omitted else []
            return frame.encode_headers([*headers, *count])
        except MessageTooLarge:
            largest = max(headers[1:], key=lambda pair: len(pair[1]))
            headers = [pair for pair in headers if pair is not largest]
            omitted += 1


def find_origins(buffer: memoryview, prefix: bytes) -> Iterator[tuple[int, int]]:
    """Yield the original and the current offset of messages that were moved from one partition."""
    position = 0
    while position < len(buffer):
        length = frame.measure(buffer, position)
        if buffer[position + frame.AT_FLAGS] & frame.HAS_HEADERS:
            headers = frame.decode(buffer, position).headers
            if headers and headers[0][0] == ORIGIN_HEADER:
                start, offset = headers[0][1][: len(prefix)], headers[0][1][len(prefix) :]
                if start == prefix and offset.isdigit() and len(offset) <= _OFFSET_DIGITS_MAX:
                    yield int(offset), frame.offset_at(buffer, position)
        position += length


assert HEADERS_BYTES_MAX > 4 * REASON_CHARACTERS_MAX + 4 * TOPIC_NAME_CHARACTERS_MAX
