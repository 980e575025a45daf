"""Handshakes that are malformed, slow, too many or no TLS at all, and malformed requests over TLS."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from goqueue.api.http.certificates import TlsFiles, load_certificate
from goqueue.api.http.connection import ConnectionState
from goqueue.api.http.message import HttpResponse
from tests.api.http.serving import Client, HeldHandler, RunningServer, echo, on_a_loop, request, serving, until
from tests.api.http.test_refusals import MALFORMED

CERTIFICATE = str(Path(__file__).parent / "loopback.pem")
THEIRS = ssl.create_default_context(cafile=CERTIFICATE)
CLIENT_HELLO = b"\x16\x03\x01\x00\xc4\x01\x00\x00\xc0\x03\x03" + bytes(32)

NO_TLS = {
    "nothing that is known": b"\x00\x01\x02\x03" * 100,
    "an SSLv2 ClientHello": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(35),
    "an alert": b"\x15\x03\x03\x00\x02\x02\x28",
    "application data": b"\x17\x03\x03\x40\x00" + bytes(0x4000),
    "ChangeCipherSpec": b"\x14\x03\x03\x00\x01\x01",
    "a heartbeat": b"\x18\x03\x02\x00\x03\x01\x40\x00",
}
BROKEN_TLS = {
    "a record of 65,535 bytes": b"\x16\x03\x01\xff\xff" + bytes(70_000),
    "a message of 16 MiB": b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(0x4000 - 4),
    "a ServerHello": b"\x16\x03\x03\x00\x2a\x02\x00\x00\x26\x03\x03" + bytes(36),
    "no cipher": b"\x16\x03\x01\x00\x2b\x01\x00\x00\x27\x03\x03" + bytes(32) + b"\x00\x00\x00\x01\x00\x00\x00",
    "lengths that lie": b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03" + bytes(32) + b"\xff\x00\x02\x13\x01\x01\x00",
    "SSL 3.0": b"\x16\x03\x00\x00\x2d\x01\x00\x00\x29\x03\x00" + bytes(32) + b"\x00\x00\x02\x00\x0a\x01\x00",
    "TLS 1.0": b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x01" + bytes(32) + b"\x00\x00\x02\xc0\x13\x01\x00",
    "a second record that is none": CLIENT_HELLO[:40] + bytes(400),
}


@asynccontextmanager
async def serving_tls(handle: Any = echo, **limits: Any) -> AsyncIterator[RunningServer]:
    async with serving(handle, tls=load_certificate(TlsFiles(CERTIFICATE)).context, **limits) as running:
        yield running


async def answered(running: RunningServer) -> bool:
    """Return whether another client gets an answer."""
    client = await running.client(ssl=THEIRS)
    return (await client.asks(request())).status == 200


@on_a_loop
async def test_malformed_handshakes_are_refused_and_the_server_goes_on() -> None:
    async with serving_tls() as running:
        for name, data in (NO_TLS | BROKEN_TLS).items():
            before = len(running.seen.refusals)
            client = await running.client()
            client.send(data)
            if name in NO_TLS:
                assert await ended(client) == b"", name
            else:
                assert (await ended(client))[:1] in {b"", b"\x15"}, f"{name}: at most an alert is said"
            await until(partial(refused, running, before + 1))
            assert running.seen.refusals[before:] == ["handshake_failed"], name
            assert await answered(running), name
        assert running.faults == []


def refused(running: RunningServer, count: int) -> bool:
    return len(running.seen.refusals) >= count


async def ended(client: Client) -> bytes:
    """Return what the server says until it ends the connection, be it with a reset."""
    try:
        return await client.rest()
    except ConnectionError:
        return b""
    finally:
        client.writer.close()


@on_a_loop
async def test_plain_http_gets_an_answer_that_names_the_mistake() -> None:
    async with serving_tls() as running:
        client = await running.client()
        for method in ("GET", "POST"):
            client = await running.client()
            client.send(request(method, "/", b"x" * 100_000))
            answer = await client.answer()
            assert (answer.status, answer.code) == (400, "tls_required")
            assert "https://" in json.loads(answer.body)["hint"]
            await client.close()
        assert running.seen.refusals == ["plain_http"] * 2


@on_a_loop
async def test_silent_and_slow_handshakes_end_in_time_and_do_not_disturb_others() -> None:
    async with serving_tls(handshake_seconds=1.5) as running:
        silent, half, dripping = [await running.client() for _ in range(3)]
        half.send(CLIENT_HELLO)
        assert await answered(running)

        for number, byte in enumerate(CLIENT_HELLO):
            asyncio.get_running_loop().call_later(number / 50, dripping.writer.transport.write, bytes([byte]))
        assert [await ended(one) for one in (silent, half, dripping)] == [b""] * 3
        await until(lambda: len(running.seen.refusals) == 3)
        assert running.seen.refusals == ["handshake_timed_out"] * 3
        gone = await running.client()  # a probe of the port is no failure
        await gone.close()
        assert await answered(running)
        assert len(running.seen.refusals) == 3


@on_a_loop
async def test_another_handshake_ends_the_oldest_when_too_many_are_under_way() -> None:
    async with serving_tls(handshakes=4) as running:
        silent = [await running.client() for _ in range(4)]
        assert await answered(running)
        assert await ended(silent[0]) == b""
        assert running.seen.refusals == ["handshakes_full"]
        silent[1].writer.close()
        more = [await running.client() for _ in range(20)]
        assert await answered(running)
        assert running.seen.opened == 2, "only complete handshakes make connections"
        for one in (*silent, *more):
            one.writer.close()


@on_a_loop
async def test_stop_ends_handshakes_under_way() -> None:
    async with serving_tls() as running:
        silent = await running.client()
        await until(lambda: running.server._listeners[0]._handshakes)  # type: ignore[index, union-attr]
        await running.server.stop(0)
        assert await ended(silent) == b""


@on_a_loop
async def test_stop_does_not_wait_for_the_farewell_of_idle_clients() -> None:
    async with serving_tls(write_seconds=1000) as running:
        idle = await running.client(ssl=THEIRS)
        await until(lambda: running.server.connections == 1)
        idle.writer.transport.pause_reading()  # type: ignore[attr-defined]
        stop = asyncio.create_task(running.server.stop(1000))
        await until(lambda: running.connections()[0]._state is ConnectionState.CLOSING)
        running.pass_time(1.5)
        await stop
        assert running.server.connections == 0


@on_a_loop
async def test_large_answer_before_the_end_of_a_connection_arrives_whole() -> None:
    large = bytes(8 << 20)
    async with serving_tls(lambda _: HttpResponse(200, [memoryview(large), b"end"])) as running:
        client = await running.client(ssl=THEIRS)
        client.send(request("GET", "/", None, "connection: close"))
        assert (await client.answer()).body == large + b"end"
        assert await client.rest() == b""


@on_a_loop
async def test_slow_reader_gets_all_before_the_end_of_its_connection() -> None:
    large = bytes(8 << 20)
    async with serving_tls(lambda _: HttpResponse(200, [memoryview(large), b"end"])) as running:
        wire = socket.socket()
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.connect(running.address)
        wire.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=wire, ssl=THEIRS, server_hostname="127.0.0.1", limit=1024)
        writer.write(request("GET", "/", None, "connection: close"))
        await until(running.connections)
        await until(lambda: running.connections()[0]._state is ConnectionState.CLOSING)
        running.pass_time(1.5)
        assert (await reader.read()).endswith(b"end")
        writer.close()


@on_a_loop
async def test_malformed_requests_over_tls_are_refused_as_without() -> None:
    async with serving_tls() as running:
        for name, data in MALFORMED.items():
            client = await running.client(ssl=THEIRS)
            client.send(data)
            answer = await client.answer()
            assert (answer.status, answer.code) == (400, "request_invalid"), name
            await client.close()
        assert running.seen.refusals == ["request_invalid"] * len(MALFORMED)
        assert await answered(running)


@on_a_loop
async def test_slow_requests_and_slow_readers_over_tls_have_their_deadlines() -> None:
    handler = HeldHandler()
    async with serving_tls(handler) as running:
        client = await running.client(ssl=THEIRS)
        client.send(b"GET / HTTP/1.1\r\nhost: b")
        await until(lambda: running.connections() and running.connections()[0]._reader.deadline_ns)
        running.pass_time(61)
        assert (await client.answer()).status == 408
        await client.close()
        await until(lambda: running.server.connections == 0)
        idle = await running.client(ssl=THEIRS)
        await until(lambda: running.server.connections == 1)
        running.pass_time(3601)
        assert await ended(idle) == b""


@on_a_loop
async def test_tls_of_old_versions_is_refused_and_the_newest_is_chosen() -> None:
    async with serving_tls() as running:
        client = await running.client(ssl=THEIRS)
        chosen = client.writer.get_extra_info("ssl_object")
        assert (chosen.version(), chosen.selected_alpn_protocol()) == ("TLSv1.3", None)
        second = ssl.create_default_context(cafile=CERTIFICATE)
        second.maximum_version = ssl.TLSVersion.TLSv1_2
        client = await running.client(ssl=second)
        assert client.writer.get_extra_info("ssl_object").cipher()[0].startswith("ECDHE-")
        second.set_ciphers("AES128-SHA256:ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA256")
        with pytest.raises(ssl.SSLError) as refusal:  # without authenticated encryption
            await running.client(ssl=second)
        assert refusal.value.reason == "SSLV3_ALERT_HANDSHAKE_FAILURE", "the client is told"
        await until(lambda: running.seen.refusals == ["handshake_failed"])
        costly = ssl.create_default_context(cafile=CERTIFICATE)
        costly.set_ecdh_curve("ffdhe8192")  # 90 ms of computing for one packet
        with pytest.raises(ssl.SSLError, match="ALERT"):
            await running.client(ssl=costly)
