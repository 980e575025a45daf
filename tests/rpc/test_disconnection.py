"""Connections that are closed from outside of gRPC."""

import socket

import pytest

from goqueue.rpc.disconnection import disconnect


@pytest.mark.parametrize(("host", "named"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_only_the_connection_of_the_client_is_shut_down(host: str, named: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as server,
        socket.create_connection(server.getsockname()[:2]) as slow,
        socket.create_connection(server.getsockname()[:2]) as other,
        server.accept()[0] as _,
        server.accept()[0] as kept,
    ):
        port, peer = server.getsockname()[1], f"{named}:{slow.getsockname()[1]}"
        assert not disconnect(peer, port + 1)
        assert disconnect(peer, port)
        assert slow.recv(1) == b""
        kept.sendall(b"x")
        assert other.recv(1) == b"x"
