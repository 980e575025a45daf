"""The relays between processes: what arrives, when, and what is refused."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from tests.chaos.relay import LoopThread, Network


class Echo:
    """A server behind a relay, and a client in front of it."""

    def __init__(self, thread: LoopThread, stack: ExitStack) -> None:
        self._thread = thread
        self.network = Network(thread, Random(1))
        stack.callback(self.network.close)
        held = stack.enter_context(socket.socket())
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        self.port = held.getsockname()[1]
        server = thread.run(asyncio.start_server(self._answer, "127.0.0.1", 0))
        stack.callback(lambda: thread.call(server.close))
        self.network.add("a", "b", self.port, server.sockets[0].getsockname()[1])

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def ask(self, connection: socket.socket, text: bytes) -> bytes:
        connection.sendall(text)
        return connection.recv(1 << 16)


@pytest.fixture
def echo() -> Iterator[Echo]:
    with ExitStack() as stack:
        thread = LoopThread()
        stack.callback(thread.close)
        yield Echo(thread, stack)


def test_relay_passes_bytes_on_in_both_directions(echo: Echo) -> None:
    echo.network.set_up("b", is_up=True)
    with echo.connect() as connection:
        assert echo.ask(connection, b"hello") == b"hello"


def test_relay_refuses_while_the_target_is_down(echo: Echo) -> None:
    with pytest.raises(ConnectionRefusedError):
        echo.connect()
    echo.network.set_up("b", is_up=True)
    echo.connect().close()


def test_silent_link_delivers_when_it_is_restored(echo: Echo) -> None:
    echo.network.set_up("b", is_up=True)
    with echo.connect() as connection:
        assert echo.ask(connection, b"before") == b"before"
        echo.network.silence({("b", "a")})
        connection.sendall(b"meanwhile")
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        connection.settimeout(10)
        echo.network.restore()
        assert connection.recv(100) == b"meanwhile"


def test_refusing_link_resets_connections(echo: Echo) -> None:
    echo.network.set_up("b", is_up=True)
    with echo.connect() as connection:
        assert echo.ask(connection, b"before") == b"before"
        echo.network.refuse({("b", "a")})
        with pytest.raises(ConnectionResetError):
            connection.recv(100)
        with pytest.raises(ConnectionRefusedError):
            echo.connect()
        echo.network.restore()
        echo.connect().close()


def test_sliced_link_delivers_all_bytes_in_their_order(echo: Echo) -> None:
    echo.network.set_up("b", is_up=True)
    echo.network.links["a", "b"].slice_bytes = 3
    echo.network.links["b", "a"].delay_seconds = 0.001
    with echo.connect() as connection:
        text = bytes(range(100))
        connection.sendall(text)
        with connection.makefile("rb") as stream:
            assert stream.read(100) == text
