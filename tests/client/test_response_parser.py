"""Answers that arrive in any pieces, whole and broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.api_request import ApiResponse
from goqueue.client.response_parser import BODY_BYTES_MAX, HEAD_BYTES, HEADS_BYTES_MAX, ResponseParser
from goqueue.errors import BrokerUnreachable


def arrive(data: bytes, sizes: list[int] | None = None, *, end: bool = False) -> ResponseParser:
    """Put the bytes where they belong, in pieces of these sizes, until the answer is whole."""
    incoming, left, steps = ResponseParser(), memoryview(data), iter(sizes or [])
    while left and incoming.answer is None:
        room = incoming.buffer()
        count = min(len(room), len(left), next(steps, len(left)))
        room[:count] = left[:count]
        incoming.received(count)
        left = left[count:]
    if end and incoming.answer is None:
        incoming.received(0)
    return incoming


def answer(data: bytes, sizes: list[int] | None = None, *, end: bool = False) -> ApiResponse:
    found = arrive(data, sizes, end=end).answer
    assert found is not None
    return found


def with_body(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nX-Name: value\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@given(st.binary(max_size=3000), st.lists(st.integers(1, 200)))
def test_a_body_of_known_length_is_whole_however_it_arrives(body: bytes, sizes: list[int]) -> None:
    found = answer(with_body(body), sizes)
    assert (found.status, bytes(found.body), found.header("x-name")) == (200, body, "value")


@given(st.lists(st.binary(min_size=1, max_size=300)), st.lists(st.integers(1, 200)))
def test_chunks_are_put_together(chunks: list[bytes], sizes: list[int]) -> None:
    coded = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + coded + b"0\r\n\r\n"
    assert answer(data, sizes).body == b"".join(chunks)


def test_a_large_body_is_read_into_its_own_memory() -> None:
    body = bytes(range(256)) * 4096
    incoming = arrive(with_body(body)[:HEAD_BYTES])
    assert incoming.missing == len(with_body(body)) - HEAD_BYTES
    assert len(incoming.buffer()) == incoming.missing


def test_interim_answers_are_passed_over() -> None:
    assert answer(b"HTTP/1.1 100 Continue\r\n\r\n" + with_body(b"x"), [25]).body == b"x"


def test_an_answer_without_a_body_is_whole_after_its_head() -> None:
    assert answer(b"HTTP/1.1 204 No Content\r\n\r\n").status == 204


def test_a_body_may_end_with_the_connection() -> None:
    found = arrive(b"HTTP/1.0 200 OK\r\n\r\nabc", end=True)
    assert found.answer is not None
    assert (found.answer.body, found.keep_alive) == (b"abc", False)


@pytest.mark.parametrize(
    ("head", "stays"), [(b"HTTP/1.1 200 OK", True), (b"HTTP/1.1 200 OK\r\nConnection: close", False)]
)
def test_it_says_whether_the_connection_stays(head: bytes, stays: bool) -> None:
    assert arrive(head + b"\r\nContent-Length: 1\r\n\r\nx").keep_alive is stays


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200", with_body(b"abc")[:-1], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5"]
)
def test_an_answer_that_breaks_off_is_refused(data: bytes) -> None:
    with pytest.raises(BrokerUnreachable):
        arrive(data, end=True)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * HEADS_BYTES_MAX,
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(BrokerUnreachable):
        arrive(data)
