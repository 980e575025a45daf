"""Another certificate for a broker at work: on SIGHUP, by request, and when the files change."""

import shutil
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from goqueue.client import Client
from goqueue.commands.cert import make_dev_certificates
from goqueue.errors import CertificateInvalid, PermissionDenied
from goqueue.testing.broker import LocalBroker
from tests.api.keys import eventually, secured
from tests.cli.programs import cli
from tests.processes import Served

ADMIN = (sys.executable, "-m", "goqueue_admin.main")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    make_dev_certificates(tmp_path / "tls")
    return tmp_path / "tls"


def served_certificate(url: str) -> str:
    """Return the certificate of the broker as a new connection sees it."""
    host, _, port = url.removeprefix("https://").partition(":")
    return ssl.get_server_certificate((host, int(port))).strip()


def certificate_in(files: Path) -> str:
    return (files / "server.pem").read_text().strip()


def codes(client: Client) -> list[str]:
    return [one["code"] for one in client.doctor()["findings"]]


def test_sighup_reloads_the_certificate_and_does_not_stop(files: Path, tmp_path: Path) -> None:
    flags = "--tls-cert", str(files / "server.pem"), "--tls-key", str(files / "server.key")
    with Served("--data-dir", str(tmp_path / "data"), *flags) as served:
        assert served_certificate(served.url) == certificate_in(files)
        trust = ssl.create_default_context(cafile=files / "ca.pem")
        address = "127.0.0.1", int(served.url.rpartition(":")[2])
        with socket.create_connection(address) as plain, trust.wrap_socket(plain, server_hostname="127.0.0.1") as old:
            make_dev_certificates(files)
            served.process.send_signal(signal.SIGHUP)
            eventually(lambda: served_certificate(served.url) == certificate_in(files))
            old.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert old.recv(12) == b"HTTP/1.1 200", "an open connection goes on"
        in_use = certificate_in(files)
        (files / "server.key").write_text("broken")
        served.process.send_signal(signal.SIGHUP)
        with Client(served.url, ca_file=str(files / "ca.pem")) as client:
            eventually(lambda: "certificate_not_loaded" in codes(client))
        assert served_certificate(served.url) == in_use
        code, said = served.stop()
    assert code == 0
    assert "the former TLS certificate stays in use: there is no usable TLS key in" in said


def test_broken_certificates_leave_the_former_one_in_use(files: Path, tmp_path: Path) -> None:
    spare = tmp_path / "spare"
    make_dev_certificates(spare)
    breaks: dict[str, Callable[[], object]] = {
        "cannot be read: No such file": (files / "server.key").unlink,
        "does not belong to the certificate": lambda: shutil.copy(spare / "server.key", files / "server.key"),
        "expired at": lambda: make_dev_certificates(files, days=0),
        "there is no TLS certificate in": lambda: (files / "server.pem").write_text("broken"),
    }
    settings = {"tls__cert": str(files / "server.pem"), "tls__key": str(files / "server.key")}
    ca = str(files / "ca.pem")
    with secured(tmp_path, **settings) as broker, Client(broker.url, api_key=broker.admin, ca_file=ca) as client:
        before = client.certificate()["certificate"]
        assert {"localhost", "127.0.0.1", socket.gethostname()} <= set(before["names"])
        in_use, trust = certificate_in(files), ssl.create_default_context(cafile=ca)
        for reason, broken in breaks.items():
            broken()
            with pytest.raises(CertificateInvalid, match=reason):
                client.reload_certificate()
            headers = {"x-api-key": broker.admin}
            assert httpx.post(f"{broker.url}/admin/tls/reload", verify=trust, headers=headers).status_code == 409
            after = client.certificate()["certificate"]
            assert after["fingerprint"] == before["fingerprint"]
            assert reason in after["error"]
            assert served_certificate(broker.url) == in_use
            assert codes(client) == ["certificate_not_loaded"]
            shutil.copy(spare / "server.key", files / "server.key")
        make_dev_certificates(files, days=20)
        loaded = client.reload_certificate()["certificate"]
        assert loaded["error"] is None
        assert codes(client) == ["certificate_expiring"]
        reader = client.create_api_key("reader", ["readonly"]).key
        with Client(broker.url, api_key=reader, ca_file=ca) as other:
            assert other.certificate()["enabled"]
            with pytest.raises(PermissionDenied):
                other.reload_certificate()
        key = {"x-api-key": broker.admin}
        found = httpx.get(f"{broker.url}/metrics", verify=ssl.create_default_context(cafile=ca), headers=key).text
        line = next(one for one in found.splitlines() if one.startswith("goqueue_tls_certificate_expiry_timestamp"))
        assert abs(float(line.split()[1]) - time.time() - 20 * 86_400) < 600
        trail = httpx.get(f"{broker.url}/admin/audit", verify=ssl.create_default_context(cafile=ca), headers=key).json()
        reloads = [one["outcome"] for one in trail["records"] if one["action"] == "POST /admin/tls/reload"]
        assert reloads == ["failed"] * 8 + ["done"]


def test_changed_files_are_loaded_without_a_request(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.api.http.certificates.TLS_WATCH_SECONDS", 0.05)
    settings = {"tls__cert": str(files / "server.pem"), "tls__key": str(files / "server.key")}
    with LocalBroker(str(tmp_path / "data"), **settings) as broker:
        make_dev_certificates(files)
        eventually(lambda: served_certificate(broker.url) == certificate_in(files))
        ca = {"GOQUEUE_CA_FILE": str(files / "ca.pem")}
        shown = cli(broker.url, "tls", "describe", command=ADMIN, **ca).out
        assert "expires in 90d" in shown
        assert cli(broker.url, "tls", "reload", command=ADMIN, **ca).out == shown


def test_broker_without_tls_says_so(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path)) as broker:
        for command in ("describe", "reload"):
            assert cli(broker.url, "tls", command, command=ADMIN).out == "the broker listens without TLS\n"
