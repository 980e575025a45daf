"""A message on its way into another topic: what it looks like there, and how it is known again.

A header of the broker's own says where it came from, so that after a crash it can be found out whether it has
arrived. Dead letters tell people as much in headers of their own, which go when the message is sent back.
"""

from collections.abc import Iterator

from goqueue.broker.delivery.changes import Move, Place
from goqueue.broker.delivery.rules import DEAD_LETTER_SUFFIX
from goqueue.errors import MessageTooLarge
from goqueue.limits import HEADERS_BYTES_MAX, REASON_CHARACTERS_MAX, TOPIC_NAME_CHARACTERS_MAX
from goqueue.quantities import format_time
from goqueue.storage import frame

ORIGIN = "__moved"
TOLD_PREFIX = "dlq."
_DIGITS_MAX = 19  # of OFFSET_MAX
_OMITTED = f"{TOLD_PREFIX}omitted"


def dead_letter_topic(topic: str) -> str:
    return f"{topic[: TOPIC_NAME_CHARACTERS_MAX - len(DEAD_LETTER_SUFFIX)]}{DEAD_LETTER_SUFFIX}"


def origin_of(group: str, place: Place) -> bytes:
    """What comes before the offset where a message says where it came from."""
    return f"{group}/{place[0]}/{place[1]}/".encode()


def as_dead_letter(message: frame.Message, group: str, place: Place, move: Move) -> bytes:
    """The frame for the dead letters, with why and from where in its headers."""
    told = {
        "topic": place[0],
        "partition": str(place[1]),
        "offset": str(message.offset),
        "group": group,
        "error": move.error[:REASON_CHARACTERS_MAX],
        "attempts": str(move.deliveries),
        "first-time": format_time(move.first_ns),
        "last-time": format_time(move.last_ns),
    }
    headers = [(f"{TOLD_PREFIX}{name}", text.encode("utf-8", "replace")) for name, text in told.items()]
    return _moved(message, group, place, [*_own_headers(message), *headers])


def told_by(headers: frame.Headers) -> dict[str, str]:
    """What the headers of a dead letter tell, by the names that `as_dead_letter` gives it."""
    return {
        name.removeprefix(TOLD_PREFIX): value.decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(TOLD_PREFIX)
    }


def as_before(message: frame.Message, group: str, place: Place) -> bytes:
    """The frame as it was before it became a dead letter."""
    return _moved(message, group, place, _own_headers(message))


def size_before(message: frame.Message) -> int:
    """What counts of that frame where a topic says how large a message may be."""
    return len(message.key or b"") + len(message.value) + len(frame.encode_headers(_own_headers(message)))


def _own_headers(message: frame.Message) -> list[tuple[str, bytes]]:
    return [pair for pair in message.headers if not pair[0].startswith(("__", TOLD_PREFIX))]


def _moved(message: frame.Message, group: str, place: Place, headers: list[tuple[str, bytes]]) -> bytes:
    mark = (ORIGIN, origin_of(group, place) + str(message.offset).encode())
    return frame.encode(
        message.value,
        message.key,
        _fitting([mark, *headers]),
        priority=message.priority,
        flags=message.flags & ~(frame.HAS_HEADERS | frame.TRANSACTIONAL),  # it is of no transaction here
    )


def _fitting(headers: list[tuple[str, bytes]]) -> bytes:
    """Encoded; where they have become too many bytes, the largest ones are left out, which is said."""
    omitted = 0
    while True:
        try:
            said = [(_OMITTED, str(omitted).encode())] if omitted else []
            return frame.encode_headers([*headers, *said])
        except MessageTooLarge:
            largest = max(headers[1:], key=lambda pair: len(pair[1]))
            headers = [pair for pair in headers if pair is not largest]
            omitted += 1


def origins_in(buffer: memoryview, origin: bytes) -> Iterator[tuple[int, int]]:
    """Those of these messages that were moved from there: the offset they had, and the one they have."""
    position = 0
    while position < len(buffer):
        length = frame.measure(buffer, position)
        if buffer[position + frame.AT_FLAGS] & frame.HAS_HEADERS:
            headers = frame.decode(buffer, position).headers
            if headers and headers[0][0] == ORIGIN:
                start, offset = headers[0][1][: len(origin)], headers[0][1][len(origin) :]
                if start == origin and offset.isdigit() and len(offset) <= _DIGITS_MAX:
                    yield int(offset), frame.offset_at(buffer, position)
        position += length


assert HEADERS_BYTES_MAX > 4 * REASON_CHARACTERS_MAX + 4 * TOPIC_NAME_CHARACTERS_MAX
