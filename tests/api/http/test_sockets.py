"""Listening on a path, or on a socket that another process has opened."""

import os
import socket
import stat
from pathlib import Path

import pytest

from goqueue.errors import AddressUnavailable
from goqueue.testing.broker import LocalBroker
from tests.api.http.serving import request
from tests.api.keys import eventually
from tests.brokers import ask, create, publish, read

REQUEST = b"GET /topics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def asked(path: Path, sent: bytes = REQUEST) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(sent)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_broker_listens_on_a_path_and_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "queue.sock"
    with LocalBroker(str(tmp_path / "data"), server__uds=str(path)) as broker:
        assert broker.url == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert asked(path).startswith(b"HTTP/1.1 200 OK\r\n")
    assert not path.exists()


def test_connections_of_a_socket_count_for_their_tenant(tmp_path: Path) -> None:
    path = tmp_path / "queue.sock"

    def tell(method: str, target: str, body: bytes = b"", *lines: str) -> bytes:
        return asked(path, request(method, target, body, "connection: close", "content-type: application/json", *lines))

    options = {"server__uds": str(path), "server__allowed_hosts": "broker", "tenants__enabled": "true"}
    with LocalBroker(str(tmp_path / "data"), **options):
        assert b" 201 " in tell("POST", "/admin/tenants", b'{"name": "team"}')
        assert b" 200 " in tell("PUT", "/admin/tenants/team/quotas", b'{"max_connections": 1}')
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(request("GET", "/topics", None, "x-tenant: team"))
            assert b" 200 " in client.recv(65536)
            assert b'"connections":1,' in tell("GET", "/admin/tenants/team/usage")
            assert b'"quota":"max_connections"' in tell("GET", "/topics", b"", "x-tenant: team")
        eventually(lambda: b" 200 " in tell("GET", "/topics", b"", "x-tenant: team"))


def test_path_that_a_killed_broker_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "queue.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with LocalBroker(str(tmp_path / "data"), server__uds=str(path)):
        assert asked(path).startswith(b"HTTP/1.1 200 OK\r\n")


def test_path_of_a_running_broker_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "queue.sock"
    with LocalBroker(str(tmp_path / "data"), server__uds=str(path)):
        with pytest.raises(AddressUnavailable, match="a process is listening there"):
            LocalBroker(str(tmp_path / "other"), server__uds=str(path)).start()
        assert asked(path).startswith(b"HTTP/1.1 200 OK\r\n")


def test_file_at_the_path_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(AddressUnavailable, match="or it is a file"):
        LocalBroker(str(tmp_path / "data"), server__uds=str(tmp_path / "file")).start()
    assert (tmp_path / "file").read_text() == "mine"


def test_path_in_an_absent_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AddressUnavailable, match="No such file or directory"):
        LocalBroker(str(tmp_path / "data"), server__uds=str(tmp_path / "absent/queue.sock")).start()


def test_broker_serves_an_inherited_listener(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with LocalBroker(str(tmp_path / "data"), server__fd=str(listener.fileno())) as broker:
            assert broker.url == f"http://127.0.0.1:{listener.getsockname()[1]}"
            create(broker.url, "t")
            publish(broker.url, "t", "x")
        with LocalBroker(str(tmp_path / "data"), server__fd=str(listener.fileno())) as broker:
            assert [one["value"] for one in read(broker.url, "t")] == ["x"]
            assert ask(broker.url, "GET", "/health").status == 200


@pytest.mark.parametrize("kind", ["closed", "file", "not listening"])
def test_descriptor_that_is_no_listener_is_refused(tmp_path: Path, kind: str) -> None:
    with socket.socket() as idle, (tmp_path / "file").open("w") as file:
        closed = os.dup(idle.fileno())
        os.close(closed)
        number = {"closed": closed, "file": file.fileno(), "not listening": idle.fileno()}[kind]
        with pytest.raises(AddressUnavailable, match=f"file descriptor {number} is not a listening socket"):
            LocalBroker(str(tmp_path / "data"), server__fd=str(number)).start()
