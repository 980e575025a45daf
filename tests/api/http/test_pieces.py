"""However the network cuts the bytes, and whatever the bytes are."""

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from goqueue.api.http.request_reader import ReadPhase, RequestReader
from goqueue.api.http.server_state import HttpLimits, ServerState
from goqueue.testing.clock import ManualClock
from tests.api.http.serving import HOST, Recorder, connected, echo, on_a_loop, request, serving

BODIES = st.binary(max_size=300) | st.binary(min_size=1, max_size=20).map(lambda piece: piece * 500)


@st.composite
def chunked(draw: st.DrawFn) -> bytes:
    chunks = draw(st.lists(st.binary(min_size=1, max_size=50), max_size=5))
    head = b"PUT /chunked HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n"
    trailer = draw(st.sampled_from([b"", b"x-trailer: 1\r\n"]))
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n" + trailer + b"\r\n"


@st.composite
def plain(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from(["GET", "POST", "DELETE"]))
    path = "/" + draw(st.text("abc%20?&=/", max_size=20))
    body = draw(st.none() | BODIES)
    offer = ("connection: upgrade", "upgrade: h2c") if draw(st.booleans()) else ()
    return request(method, path, body, "x-request-id: same", *offer)


STREAMS = st.lists(plain() | chunked(), min_size=1, max_size=6)


def heard(pieces: list[bytes]) -> list[object]:
    """Return what a reader makes of the pieces."""
    server = ServerState(echo, limits=HttpLimits(), observer=Recorder(), clock=ManualClock())
    reader = RequestReader(server, "peer")
    for piece in pieces:
        view = memoryview(piece)
        while view and reader.phase is not ReadPhase.ENDED:
            size = reader.next_size(len(view))
            reader.feed(view[:size], 0)
            view = view[size:]
    refusal = reader.refusal.sentence if reader.refusal is not None else None
    got = [(r.method, r.path, r.query, r.headers, bytes(r.body), r.connection) for r in reader.requests]
    reader.abandon()
    assert server.held_bytes == 0
    return [*got, refusal]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(STREAMS, st.lists(st.integers(0, 20_000), max_size=40))
def test_requests_are_the_same_wherever_they_are_cut(stream: list[bytes], places: list[int]) -> None:
    data = b"".join(stream)
    whole = heard([data])
    assert len(whole) == len(stream) + 1
    assert whole[-1] is None
    assert heard(cut(data, places)) == whole


@given(st.binary(max_size=200) | st.binary(max_size=50).map(lambda tail: request("POST", "/", b"body") + tail))
def test_an_intake_takes_any_bytes(data: bytes) -> None:
    byte_by_byte = heard([data[place : place + 1] for place in range(len(data))])
    assert byte_by_byte == heard([data])


@given(STREAMS, st.lists(st.integers(0, 20_000), max_size=10))
@on_a_loop
async def test_answers_are_the_same_wherever_requests_are_cut(stream: list[bytes], places: list[int]) -> None:
    async with serving(echo) as running:
        whole, pieces = await running.client(), await running.client()
        data = b"".join(stream)
        whole.send(data)
        for piece in cut(data, places):
            pieces.send(piece)
            await pieces.writer.drain()
        for _ in stream:
            one, other = await asyncio.gather(whole.answer(), pieces.answer())
            assert (one.status, one.body) == (other.status, other.body)
            assert one.status == 200


@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=5))
@on_a_loop
async def test_random_bytes_do_not_stop_the_server(pieces: list[bytes]) -> None:
    async with connected(echo) as (running, client):
        for piece in pieces:
            client.send(piece)
        client.writer.write_eof()
        told = await client.rest()
        assert told == b"" or told.startswith(b"HTTP/1.1 4")
        assert running.faults == []
        assert (await (await running.client()).asks(request())).status == 200
