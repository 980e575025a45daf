"""The call that reads frames."""

from collections.abc import Iterable
from typing import Any

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
    scanned: int | None = None
    """How many messages filters have looked at, where there are any."""


_OFFSETS = (b"x-goqueue-next-offset", b"x-goqueue-high-watermark", b"x-goqueue-first-offset")
_SCANNED = b"x-goqueue-scanned"


def fetch(  # noqa: PLR0913 - the query of one request
    name: str,
    partition: int,
    offset: int,
    max_bytes: int,
    wait: float,
    *,
    skip_damage: bool,
    filters: Iterable[str] = (),
    isolation: str = "read_committed",
) -> Call[Fetched]:
    query = f"offset={offset}&max_bytes={max_bytes}"
    if wait:
        query += f"&wait={max(wait, 1e-9):.9f}s"  # without an exponent, and nothing finer than a nanosecond
    if skip_damage:
        query += "&skip_damage=true"
    if isolation != "read_committed":
        query += f"&isolation={isolation}"
    chosen = "".join(f"&filter={quote(text)}" for text in filters)
    path = f"/topics/{quote(name)}/partitions/{partition}/messages?{query}{chosen}"
    return Call("GET", path, _found if chosen else _fetched, headers=(("accept", FRAMES),), patience=wait)


def _fetched(answer: Answer) -> Fetched:
    return Fetched(*_taken(answer, _OFFSETS))


def _found(answer: Answer) -> Fetched:
    """Whoever does not say how much was looked at may not have looked."""
    return Fetched(*_taken(answer, (*_OFFSETS, _SCANNED)))


def _taken(answer: Answer, names: tuple[bytes, ...]) -> tuple[Any, ...]:
    """The frames, and the numbers in these headers."""
    if answer.status >= 300:
        raise refusals.of_answer(answer)
    found = [answer.header(name) for name in names]
    if not all(text.isdecimal() and text.isascii() for text in found):
        raise refusals.unreadable(answer, f"the offsets and counts {', '.join(map(repr, found))} are not numbers")
    content = bytes(answer.body)  # slices of it are bytes, which a message gives away
    check(content, answer.header(b"x-goqueue-checksum"))
    return content, *map(int, found)
