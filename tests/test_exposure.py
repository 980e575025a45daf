"""Addresses that other machines reach need authentication and TLS, and files are for the broker's user alone."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from goqueue.config import load
from goqueue.errors import ConfigInvalid
from goqueue.testing.broker import LocalBroker
from tests.brokers import create, publish


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "queue.example"])  # noqa: S104
def test_address_of_other_machines_is_refused_without_authentication_and_tls(host: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"goqueue serve --auth.* and TLS .*--tls-cert") as refusal:
        load(None, None, {"server.host": host})
    assert "--insecure" in str(refusal.value)
    keys, tls = {"security.authentication": "keys"}, {"tls.cert": "server.pem"}
    with pytest.raises(ConfigInvalid, match="without TLS"):
        load(None, None, {"server.host": host} | keys)
    with pytest.raises(ConfigInvalid, match="without authentication"):
        load(None, None, {"server.host": host} | tls)
    assert load(None, None, {"server.host": host} | keys | tls).server.host == host


def test_tls_settings_without_a_certificate_are_refused() -> None:
    with pytest.raises(ConfigInvalid, match=r"without tls\.cert"):
        load(None, None, {"tls.client_ca": "ca.pem"})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_address_of_this_machine_needs_no_authentication(host: str) -> None:
    assert load(None, None, {"server.host": host}).security.authentication == "none"


def test_address_of_other_machines_is_accepted_with_consent() -> None:
    assert load(None, None, {"server.host": "0.0.0.0", "security.insecure": "true"}).server.host == "0.0.0.0"  # noqa: S104


def test_socket_file_needs_no_authentication() -> None:
    found = load(None, None, {"server.host": "0.0.0.0", "server.uds": "/run/goqueue.sock"})  # noqa: S104
    assert found.security.authentication == "none"


def test_inherited_listener_of_other_machines_is_refused_without_authentication(tmp_path: Path) -> None:
    with closing(socket.create_server(("0.0.0.0", 0))) as listener:  # noqa: S104
        number = str(listener.fileno())
        with pytest.raises(ConfigInvalid, match="other machines could use"):
            LocalBroker(str(tmp_path / "data"), server__fd=number).start()
    assert not (tmp_path / "data").exists()


def test_files_and_directories_of_a_broker_are_for_its_user_alone(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "orders")
        publish(broker.url, "orders", "x")
        publish(broker.url, "orders", "later", delay="1h")
    found = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    assert len(found) > 20
    assert {path.stat().st_mode & 0o777 for path in found if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o600}
