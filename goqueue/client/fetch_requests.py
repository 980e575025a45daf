"""Requests for the frames of a partition, and what their answers mean."""

from collections.abc import Iterable
from typing import Any

import msgspec

from goqueue.client.address import quote
from goqueue.client.api_request import ApiRequest, ApiResponse, error_of_response, unreadable_response
from goqueue.client.message import check
from goqueue.client.quota_waits import note_read_delay
from goqueue.wire.headers import CHECKSUM, FIRST_OFFSET, FRAMES, HIGH_WATERMARK, NEXT_OFFSET, PARTITIONS, QUOTA, SCANNED


class FetchResult(msgspec.Struct, frozen=True):
    """An answer of frames."""

    content: bytes
    next_offset: int
    high_watermark: int
    first_offset: int
    scanned: int | None = None
    """The number of messages that the filters have examined; None without filters."""
    partitions: int = 0
    """How many partitions the topic has; 0 if the broker does not say."""


_OFFSETS = (NEXT_OFFSET, HIGH_WATERMARK, FIRST_OFFSET)


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
    replica: str = "leader",
    at_least: int = 0,
) -> ApiRequest[FetchResult]:
    query = f"offset={offset}&max_bytes={max_bytes}"
    if wait:
        query += f"&wait={max(wait, 1e-9):.9f}s"  # without an exponent, and nothing finer than a nanosecond
    if skip_damage:
        query += "&skip_damage=true"
    if isolation != "read_committed":
        query += f"&isolation={isolation}"
    if replica != "leader":
        query += f"&replica={replica}"
    if at_least:
        query += f"&at_least={at_least}"
    chosen = "".join(f"&filter={quote(text)}" for text in filters)
    path = f"/topics/{quote(name)}/partitions/{partition}/messages?{query}{chosen}"
    place = (name, partition) if replica == "leader" else None
    decode = _found if chosen else _fetched
    return ApiRequest("GET", path, decode, headers=(("accept", FRAMES),), patience=wait, place=place)


def _fetched(answer: ApiResponse) -> FetchResult:
    content, following, high_watermark, first = _taken(answer, _OFFSETS)
    return FetchResult(content, following, high_watermark, first, None, _partitions(answer))


def _found(answer: ApiResponse) -> FetchResult:
    """Require the number of scanned messages: a server that does not send it may not have applied the filters."""
    content, following, high_watermark, first, scanned = _taken(answer, (*_OFFSETS, SCANNED))
    return FetchResult(content, following, high_watermark, first, scanned, _partitions(answer))


def _partitions(answer: ApiResponse) -> int:
    text = answer.header(PARTITIONS)
    return int(text) if text.isdecimal() and text.isascii() else 0


def _taken(answer: ApiResponse, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the frames, and the numbers in these headers."""
    if answer.status >= 300:
        raise error_of_response(answer)
    found = [answer.header(name) for name in names]
    if not all(text.isdecimal() and text.isascii() for text in found):
        raise unreadable_response(answer, f"the offsets and counts {', '.join(map(repr, found))} are not numbers")
    if quota := answer.header(QUOTA):
        note_read_delay(quota)
    content = bytes(answer.body)  # slices of it are bytes, which a message gives away
    check(content, answer.header(CHECKSUM))
    return content, *map(int, found)
