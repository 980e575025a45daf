"""A response as bytes: the one place where header lines are made."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from http import HTTPStatus

from goqueue.api.http.message import JSON, Response
from goqueue.limits import HTTP_JOINED_BYTES

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Wire = bytes | list[bytes | memoryview]
"""Bytes to write, or several pieces of which the large ones were not copied."""

_BARE = {204, 304}
"""Statuses that neither have a body nor say how long it is."""
_OURS = {"connection", "content-length", "content-type", "date", "transfer-encoding", "x-request-id"}
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNPRINTABLE = re.compile(r"[^\t\x20-\x7e\xa0-\xff]")


def wire(response: Response, request_id: str, connection: str, date: str, *, without_body: bool) -> Wire:
    """The whole answer. To HEAD it goes without its body, whose length it tells all the same."""
    body = response.body
    if isinstance(body, bytes):
        length = len(body)
        if length <= HTTP_JOINED_BYTES:
            head = _head(response, length, request_id, connection, date)
            return head if without_body or response.status in _BARE else head + body
        pieces: Sequence[bytes | memoryview] = (body,)
    else:
        pieces = (body,) if isinstance(body, (bytearray, memoryview)) else body
        length = sum(map(len, pieces))
    head = _head(response, length, request_id, connection, date)
    if without_body or response.status in _BARE:
        return head
    if length <= HTTP_JOINED_BYTES:
        return b"".join((head, *pieces))
    return [head, *pieces]


def _head(response: Response, length: int, request_id: str, connection: str, date: str) -> bytes:
    is_nothing = response.status in _BARE or (not length and response.content_type == JSON)  # no bytes are no JSON
    opening = _opening(response.status, "" if is_nothing else response.content_type)
    told = "" if response.status in _BARE else f"content-length: {length}\r\n"
    ending = f"connection: {connection}\r\n" if connection else ""
    further = _lines(response.headers) if response.headers else ""
    return f"{opening}{told}x-request-id: {request_id}\r\n{date}{further}{ending}\r\n".encode("latin-1")


@lru_cache(maxsize=256)
def _opening(status: int, content_type: str) -> str:
    """The lines that most answers have in common."""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    assert 200 <= status <= 599, f"{status} is not the status of an answer"
    return f"HTTP/1.1 {status} {phrase}\r\n" + (_line("content-type", content_type) if content_type else "")


def _lines(headers: Iterable[tuple[str, str]]) -> str:
    for name, _ in headers:
        assert name.lower() not in _OURS, f"{name} is for the server to say"
    return "".join(_line(name, value) for name, value in headers)


def _line(name: str, value: str) -> str:
    """A value cannot end its line, whatever is in it: what is no printable Latin-1 becomes a `?`."""
    assert _NAME.fullmatch(name), f"{name!r} is not the name of a header"
    return f"{name}: {_UNPRINTABLE.sub('?', value)}\r\n"
