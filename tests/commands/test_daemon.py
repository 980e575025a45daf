"""The daemon as operators meet it: what keeps it from starting, how it ends, and what is there afterwards."""

import os
import socket
import sys
from contextlib import closing
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any
from urllib.parse import urlsplit

import pytest

from goqueue.errors import DataDirectoryInUse
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish, read
from tests.forked import of_interpreter, run
from tests.processes import ROOT, Served


def refused(*words: str, cwd: Path = ROOT) -> str:
    """The first line of what it says instead of starting."""
    command = [sys.executable, "-m", "goqueue", "serve", *words]
    done = run(command, cwd=cwd, env=of_interpreter(os.environ) | {"PATH": "/usr/bin:/bin"}, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    lines: list[str] = done.stderr.splitlines()
    first, *others = lines
    assert all(line.startswith(("hint:", "cause:", "  ")) for line in others), done.stderr
    return first


# --- what keeps it from starting ---


def test_a_port_in_use_is_named_and_the_data_directory_is_let_go(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        said = refused("--data-dir", data, "--port", str(port))
    assert said == f"error: cannot listen on '127.0.0.1' port {port}: another process is listening there"
    with LocalBroker(data):
        assert True, "the lock is free, and the directory can be opened"


def test_a_host_that_is_not_this_machine_is_named(tmp_path: Path) -> None:
    said = refused("--data-dir", str(tmp_path / "data"), "--host", "192.0.2.1", "--port", "0", "--insecure")
    assert "192.0.2.1" in said


def test_a_data_directory_in_use_is_named_with_its_user(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with Served("--data-dir", data) as served:
        said = refused("--data-dir", data, "--port", "0")
        assert f"in use by goqueue serve (process {served.process.pid})" in said
        assert ask(served.url, "GET", "/health").json["status"] == "ok"


def test_two_brokers_of_one_process_do_not_share_a_directory_either(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")), pytest.raises(DataDirectoryInUse):
        LocalBroker(str(tmp_path / "data")).start()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("server: {port: many}\n", "many"),
        ("servr: {port: 1}\n", "servr"),
        ("server: [\n", "goqueue.yaml"),
        ("server: {port: 70000}\nstorage: {flush: never}\n", "2 problems"),
    ],
)
def test_a_bad_configuration_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "goqueue.yaml").write_text(text)
    assert said in refused("--config", "goqueue.yaml", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["goqueue.yaml"]


# --- how it ends ---


def connected(url: str) -> socket.socket:
    address = urlsplit(url)
    return socket.create_connection((address.hostname or "", address.port or 0), timeout=60)


def begin_upload(url: str) -> socket.socket:
    """A client that has sent a part of its request, and sends no more. The broker has read its head."""
    client = connected(url)
    client.sendall(
        b"POST /topics/t/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\nexpect: 100-continue\r\n\r\n"
    )
    assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
    client.sendall(b'{"messages":[')
    return client


def begin_poll(url: str, path: str) -> socket.socket:
    """A client that waits for messages. The broker has its request: one that came in the same piece is answered."""
    client = connected(url)
    client.sendall(b"".join(f"GET {one} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode() for one in ("/health", path)))
    assert client.recv(10_000).startswith(b"HTTP/1.1 200 ")
    return client


def rest(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(10_000), b""))


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
def test_it_ends_cleanly_with_a_long_poll_and_an_unfinished_upload_open(tmp_path: Path, number: Any) -> None:
    data = str(tmp_path / "data")
    with Served("--data-dir", data, "--server-stop-timeout", "200ms") as served:
        create(served.url, "t")
        publish(served.url, "t", "a", "b", key="k")
        with (
            closing(begin_upload(served.url)) as upload,
            closing(begin_poll(served.url, "/topics/t/partitions/0/messages?offset=2&wait=60s")) as poll,
        ):
            served.process.send_signal(number)
            _, said = served.process.communicate(timeout=30)
            assert (served.process.returncode, said) == (0, "stopped cleanly\n")
            assert rest(poll).endswith(b'{"messages":[],"next_offset":2}')
            assert rest(upload) == b""
    with Served("--data-dir", data) as served:
        assert "after a clean stop" in served.banner[3]
        assert [message["value"] for message in read(served.url, "t")] == ["a", "b"]


def test_a_second_signal_changes_nothing(tmp_path: Path) -> None:
    with Served("--data-dir", str(tmp_path / "data"), "--server-stop-timeout", "500ms") as served:
        create(served.url, "t")
        with closing(begin_upload(served.url)):
            served.process.send_signal(SIGTERM)
            served.process.send_signal(SIGINT)
            _, said = served.process.communicate(timeout=30)
    assert (served.process.returncode, said) == (0, "stopped cleanly\n")


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t", partitions=3, retention_hours=7)
        for number in range(3):
            publish(broker.url, "t", *map(str, range(10)), partition=number, headers={"h": "ü"}, priority="low")
        before = [read(broker.url, "t", number) for number in range(3)]
        topic = ask(broker.url, "GET", "/topics/t").json
    with LocalBroker(str(tmp_path / "data")) as broker:
        assert [read(broker.url, "t", number) for number in range(3)] == before
        assert ask(broker.url, "GET", "/topics/t").json == topic
        assert publish(broker.url, "t", "next", partition=1)[0]["offset"] == 10
