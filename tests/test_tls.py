"""TLS from the listener to every kind of client."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from goqueue.client import AsyncClient, Client
from goqueue.client.address import parse
from goqueue.client.tls import TlsOptions, tls_context, tls_error
from goqueue.commands.cert import make_dev_certificates
from goqueue.errors import BrokerUnreachable, CertificateInvalid, RequestInvalid, TlsRequired
from goqueue.spark.reading.options import read_options
from goqueue.testing.broker import LocalBroker
from tests.api.keys import eventually
from tests.cli.programs import ROOT, cli, environment


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    make_dev_certificates(directory)
    return directory


@pytest.fixture(scope="module")
def broker(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    settings = {"tls__cert": str(files / "server.pem"), "tls__key": str(files / "server.key")}
    with LocalBroker(str(tmp_path_factory.mktemp("data")), **settings) as running:
        yield running


def refused(broker: LocalBroker, reason: str) -> int:
    return broker.daemon.service.metrics.connections_refused.get(reason, 0)


def test_every_kind_of_client_uses_a_broker_over_tls(broker: LocalBroker, files: Path) -> None:
    ca = str(files / "ca.pem")
    assert broker.url.startswith("https://127.0.0.1:")
    trust = ssl.create_default_context(cafile=ca)
    with Client(broker.url, ca_file=ca) as client, client.producer() as producer:
        client.create_topic("orders", 1)
        producer.send("orders", "x" * 100_000)  # several records of TLS
        producer.send("orders", "2")
    with Client(broker.url, tls=trust) as client:
        assert [len(one.text) for one in client.reader("orders")] == [100_000, 1]
    with httpx.Client(verify=trust) as http, Client(broker.url, http=http) as client:
        assert "orders" in client.topics()

    async def ask() -> None:
        async with AsyncClient(broker.url, ca_file=ca) as client:
            assert [len(one.text) async for one in client.reader("orders")] == [100_000, 1]
        async with httpx.AsyncClient(verify=trust) as http, AsyncClient(broker.url, http=http) as client:
            assert "orders" in await client.topics()

    asyncio.run(ask())
    assert "orders" in cli(broker.url, "topic", "list", "-o", "name", "--ca-file", ca).out
    assert "orders" in cli(broker.url, "topic", "list", "-o", "name", GOQUEUE_CA_FILE=ca).out
    options = read_options({"goqueue.url": broker.url, "subscribe": "orders", "goqueue.caFile": ca})
    with closing(options.logs()) as logs:
        assert logs.topics()["orders"] == (0,)


def test_context_has_the_authority_of_its_broker(broker: LocalBroker, files: Path, tmp_path: Path) -> None:
    config = {"GOQUEUE_CONFIG": str(tmp_path / "contexts.yaml"), "XDG_CACHE_HOME": str(tmp_path)}
    made = cli("", "config", "create", "tls", "-s", broker.url, "--ca-file", str(files / "ca.pem"), **config)
    assert made.code == 0, made.err
    with Client(broker.url, ca_file=str(files / "ca.pem")) as client:
        client.create_topic("invoices", 1)
    assert cli("", "topic", "describe", "invoices", **config).code == 0
    completed = cli("", "__complete", "goqueue-cli topic describe ", **config)
    assert "invoices" in completed.out


def test_key_of_another_certificate_is_refused_with_the_reason(files: Path) -> None:
    options = TlsOptions(client_cert=str(files / "client.pem"), client_key=str(files / "server.key"))
    with pytest.raises(RequestInvalid) as refusal:
        tls_context(parse("https://localhost"), options)
    assert "do not belong together" in str(refusal.value.hint)


def test_untrusted_broker_is_refused_at_once_in_one_sentence(broker: LocalBroker) -> None:
    before = refused(broker, "handshake_failed")
    with Client(broker.url) as client, pytest.raises(BrokerUnreachable) as failure:
        client.topics()
    assert "is not accepted: unable to get local issuer certificate" in failure.value.sentence
    assert "GOQUEUE_CA_FILE" in str(failure.value.hint)

    async def ask() -> None:
        async with AsyncClient(broker.url) as client:
            await client.topics()

    with pytest.raises(BrokerUnreachable, match="is not accepted"):
        asyncio.run(ask())
    done = cli(broker.url, "topic", "list")
    assert (done.code, done.err.count("\n")) == (3, 3)
    assert "Traceback" not in done.err
    eventually(lambda: refused(broker, "handshake_failed") - before == 3)  # none of them tried again


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (10, "the broker needs a new certificate"),
        (9, "clock of this machine"),
        (62, "use a host name"),
        (19, "a file that was given does not hold this authority"),
    ],
)
def test_failed_verification_says_what_to_do(code: int, hint: str) -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = code, "certificate is wrong"
    found = tls_error(parse("https://queue.example"), error, took_too_long=False)
    assert found.sentence.endswith("is not accepted: certificate is wrong")
    assert hint in str(found.hint)
    assert found.details["foreign"], "a retry is useless"


def test_plain_and_encrypted_addresses_taken_for_each_other_are_named(
    broker: LocalBroker, files: Path, tmp_path: Path
) -> None:
    with Client(broker.url.replace("https", "http")) as client, pytest.raises(TlsRequired, match="speaks TLS"):
        client.topics()
    assert refused(broker, "plain_http") == 1
    with LocalBroker(str(tmp_path)) as plain:
        ca = str(files / "ca.pem")
        with (
            Client(plain.url.replace("http", "https"), ca_file=ca) as client,
            pytest.raises(BrokerUnreachable) as failure,
        ):
            client.topics()
        assert "write http://" in str(failure.value.hint)
        with pytest.raises(RequestInvalid, match="not encrypted"):
            Client(plain.url, ca_file=ca)


@pytest.mark.parametrize(
    ("cert", "key", "reason"),
    [
        ("server.pem", "missing.key", "the TLS key .*missing.key cannot be read: No such file"),
        ("server.pem", "client.key", "does not belong to the certificate"),
        ("server.key", "server.key", "there is no TLS certificate in"),
        ("server.pem", "server.pem", "there is no usable TLS key in"),
        ("server.pem", "encrypted.key", "the TLS key is encrypted"),
    ],
)
def test_unusable_files_are_refused_at_the_start(files: Path, tmp_path: Path, cert: str, key: str, reason: str) -> None:
    if key == "encrypted.key":
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

        secret = serialization.load_pem_private_key((files / "server.key").read_bytes(), None)
        encryption = serialization.BestAvailableEncryption(b"secret")
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (files / key).write_bytes(secret.private_bytes(encoding, form, encryption))
    broker = LocalBroker(str(tmp_path / "data"), tls__cert=str(files / cert), tls__key=str(files / key))
    with pytest.raises(CertificateInvalid, match=reason) as refusal:
        broker.start()
    assert refusal.value.hint
    assert not (tmp_path / "data").exists()


def test_socket_file_and_inherited_listener_speak_tls_too(files: Path, tmp_path: Path) -> None:
    trust = ssl.create_default_context(cafile=files / "ca.pem")
    settings = {"tls__cert": str(files / "server.pem"), "tls__key": str(files / "server.key")}

    def status(plain: socket.socket) -> bytes:
        with trust.wrap_socket(plain, server_hostname="localhost") as encrypted:
            encrypted.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            return encrypted.recv(12)

    path = str(tmp_path / "socket")
    with LocalBroker(str(tmp_path / "a"), server__uds=path, **settings) as broker:
        assert broker.url == f"unix:{path} (TLS)"
        plain = socket.socket(socket.AF_UNIX)
        plain.connect(path)
        assert status(plain) == b"HTTP/1.1 200"
    assert not Path(path).exists()
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        LocalBroker(str(tmp_path / "b"), server__fd=str(listener.fileno()), **settings).start().stop()
        with LocalBroker(str(tmp_path / "b"), server__fd=str(listener.fileno()), **settings) as broker:
            assert broker.url == f"https://127.0.0.1:{listener.getsockname()[1]}"
            assert status(socket.create_connection(listener.getsockname())) == b"HTTP/1.1 200"


def test_cert_dev_makes_files_for_their_owner_and_keeps_the_authority(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "goqueue", "cert", "dev", "--dir", "tls", "--host", "queue.example"]
    first, second = (
        (subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True), contents(tmp_path))
        for _ in range(2)
    )
    assert "--tls-cert tls/server.pem --tls-key tls/server.key" in first[0].stdout
    assert "GOQUEUE_SERVER=https://queue.example:8080" in first[0].stdout
    assert ["made an authority" in one.stderr for one, _ in (first, second)] == [True, False]
    assert first[1]["ca.pem"] == second[1]["ca.pem"]
    assert first[1]["server.pem"] != second[1]["server.pem"]
    assert len(first[1]) == 6
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "tls").iterdir()} == {0o600}
    (tmp_path / "tls/ca.key").write_text("")
    refused = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 2)


def test_recipe_of_the_page_leads_to_tls_and_keys(tmp_path: Path) -> None:
    page = (ROOT / "docs/security.md").read_text()
    recipe = page.partition("## From nothing to TLS and keys")[2].partition("```sh\n")[2].partition("```")[0]
    assert recipe.count("\n") == 5
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])
    started = "2> log & trap 'kill %1; wait' EXIT; until grep -q 'C stops' log; do kill -0 %1; done"
    script = recipe.replace("--host 0.0.0.0", "--host 127.0.0.1").replace("8080", port).replace(" &\n", f" {started}\n")
    words = environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}", GOQUEUE_SERVER_PORT=port)
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 message published to orders" in done.stderr + done.stdout
    kept = [tmp_path / name for name in ("admin.key", "billing.key", "tls/server.key")]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / "tls").iterdir()}
