"""The call that reads frames."""

import msgspec

from goqueue.client import refusals
from goqueue.client.address import quote
from goqueue.client.calls import Answer, Call
from goqueue.client.endpoints import FRAMES
from goqueue.client.message import check


class Fetched(msgspec.Struct, frozen=True):
    """An answer of frames."""

    content: bytes
    next_offset: int
    high_watermark: int
    first_offset: int


def fetch(name: str, partition: int, offset: int, max_bytes: int, wait: float, *, skip_damage: bool) -> Call[Fetched]:
    query = f"offset={offset}&max_bytes={max_bytes}"
    if wait:
        query += f"&wait={max(wait, 1e-9):.9f}s"  # without an exponent, and nothing finer than a nanosecond
    if skip_damage:
        query += "&skip_damage=true"
    path = f"/topics/{quote(name)}/partitions/{partition}/messages?{query}"
    return Call("GET", path, _fetched, headers=(("accept", FRAMES),), patience=wait)


def _fetched(answer: Answer) -> Fetched:
    if answer.status >= 300:
        raise refusals.of_answer(answer)
    found = [
        answer.header(name)
        for name in (b"x-goqueue-next-offset", b"x-goqueue-high-watermark", b"x-goqueue-first-offset")
    ]
    if not all(text.isdecimal() and text.isascii() for text in found):
        raise refusals.unreadable(answer, f"the offsets {', '.join(map(repr, found))} are not numbers")
    content = bytes(answer.body)  # slices of it are bytes, which a message gives away
    check(content, answer.header(b"x-goqueue-checksum"))
    return Fetched(content, *map(int, found))
