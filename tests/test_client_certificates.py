"""Client certificates: required or optional, and as principals of rules and of the audit trail."""

import asyncio
import shutil
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from goqueue.client import AsyncClient, Client
from goqueue.commands.cert import make_dev_certificates
from goqueue.errors import (
    BrokerUnreachable,
    KeyExists,
    PermissionDenied,
    RequestInvalid,
    TopicNotFound,
    Unauthenticated,
)
from goqueue.security.authorizer import Authorizer
from goqueue.security.client_certificates import ClientCertificate, names_in_order, parse_certificate_name
from goqueue.security.records import (
    KeyRecord,
    KeyRevoked,
    SecurityState,
    decode_security_record,
    encode_security_record,
)
from goqueue.storage import frame
from tests.api.keys import eventually, secured
from tests.cli.programs import cli

ADMIN = (sys.executable, "-m", "goqueue_admin.main")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    make_dev_certificates(tmp_path / "tls", client="Billing.example")
    return tmp_path / "tls"


def presenting(files: Path, name: str = "client") -> dict[str, Any]:
    pem, key = files / f"{name}.pem", files / f"{name}.key"
    return {"ca_file": str(files / "ca.pem"), "client_cert": str(pem), "client_key": str(key)}


def settings(files: Path, client_auth: str) -> dict[str, str]:
    return {
        "tls__cert": str(files / "server.pem"),
        "tls__key": str(files / "server.key"),
        "tls__client_ca": str(files / "ca.pem"),
        "tls__client_auth": client_auth,
    }


def test_certificate_is_the_principal_of_rules_and_of_the_audit_trail(files: Path, tmp_path: Path) -> None:
    ca = str(files / "ca.pem")
    with (
        secured(tmp_path, **settings(files, "optional")) as broker,
        Client(broker.url, api_key=broker.admin, ca_file=ca) as admin,
    ):
        admin.create_topic("orders", 1)
        admin.create_topic("payroll", 1)
        with (
            Client(broker.url, **presenting(files)) as unknown,
            pytest.raises(
                Unauthenticated, match=r"no API key belongs to the client certificate of 'DNS:billing.example'"
            ),
        ):
            unknown.topics()
        with Client(broker.url, ca_file=ca) as without, pytest.raises(Unauthenticated, match="needs an API key"):
            without.topics()
        flags = {"GOQUEUE_API_KEY": broker.admin, "GOQUEUE_CA_FILE": ca}
        made = cli(broker.url, "key", "create", "billing", "--certificate", "billing.Example", command=ADMIN, **flags)
        assert "DNS:billing.example" in made.out, made.err
        assert "gq_" not in made.out
        assert "DNS:billing.example" in cli(broker.url, "key", "list", command=ADMIN, **flags).out
        with pytest.raises(KeyExists, match="belongs to the API key 'billing'"):
            admin.create_api_key("other", certificate="DNS:BILLING.example")
        with pytest.raises(RequestInvalid, match="has no secret"):
            admin.rotate_api_key("billing")
        admin.create_access_rule("key:billing", "topic", ["write", "read", "create"], "orders", match="prefix")
        with Client(broker.url, **presenting(files)) as client:
            assert client.topics() == ["orders"]
            client.publish("orders", "one")
            client.create_topic("orders.archive", 1)
            with pytest.raises(TopicNotFound):
                client.publish("payroll", "one")
            with pytest.raises(PermissionDenied, match="'key:billing' may not create"):
                client.create_topic("other")

        async def ask() -> None:
            async with AsyncClient(broker.url, **presenting(files)) as client:
                assert "orders" in await client.topics()

        asyncio.run(ask())
        trust = ssl.create_default_context(cafile=ca)
        trust.load_cert_chain(files / "client.pem", files / "client.key")
        with httpx.Client(verify=trust) as http, Client(broker.url, http=http) as client:
            assert "orders" in client.topics()
        words = {"GOQUEUE_CLIENT_CERT": str(files / "client.pem"), "GOQUEUE_CLIENT_KEY": str(files / "client.key")}
        assert "orders" in cli(broker.url, "topic", "list", "-o", "name", GOQUEUE_CA_FILE=ca, **words).out
        with Client(broker.url, api_key=broker.admin, **presenting(files)) as client:
            assert "payroll" in client.topics(), "the key of a request wins"
        trail = [one.decode() for one in map(bytes, admin.audit().records)]
        assert any('"principal":"key:billing","action":"POST /topics"' in one for one in trail)
        ends_with_revocation(broker.url, admin, files)


def ends_with_revocation(url: str, admin: Client, files: Path) -> None:
    """A reader that waits is ended when the key of its certificate is revoked, and none comes after."""
    ended: list[BaseException] = []

    def read() -> None:
        with Client(url, timeout="5s", **presenting(files)) as client:
            try:
                list(client.reader("orders", start="latest", follow=True, wait="30s"))
            except Unauthenticated as error:
                ended.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    eventually(lambda: admin.api_keys()[0].name is not None and admin.stats()["connections"] > 1)
    admin.revoke_api_key("billing")
    reader.join(30)
    assert ended


def test_client_without_a_required_certificate_is_refused_at_once_in_one_sentence(files: Path, tmp_path: Path) -> None:
    make_dev_certificates(tmp_path / "strange")
    shutil.copy(files / "ca.pem", tmp_path / "strange/ca.pem")
    ca = str(files / "ca.pem")
    with secured(tmp_path, **settings(files, "required")) as broker:
        for given in ({"ca_file": ca}, presenting(tmp_path / "strange")):
            with Client(broker.url, **given) as client, pytest.raises(BrokerUnreachable) as failure:
                client.topics()
            assert "the broker refused this client (alert" in failure.value.sentence
            assert "client_cert=" in str(failure.value.hint)

            async def ask(given: dict[str, Any]) -> None:
                async with AsyncClient(broker.url, **given) as client:
                    await client.topics()

            with pytest.raises(BrokerUnreachable, match="refused this client"):
                asyncio.run(ask(given))
        trust = ssl.create_default_context(cafile=ca)
        with (
            httpx.Client(verify=trust) as http,
            Client(broker.url, http=http) as client,
            pytest.raises(BrokerUnreachable, match="refused this client"),
        ):
            client.topics()
        done = cli(broker.url, "topic", "list", GOQUEUE_CA_FILE=ca)
        assert (done.code, done.err.count("\n")) == (3, 3), done.err
        counted = broker.local.daemon.service.metrics.connections_refused
        eventually(lambda: counted == {"handshake_failed": 6})  # none of them tried again
        with Client(broker.url, api_key=broker.admin, **presenting(files)) as client:
            assert client.topics() == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("spiffe://Example/billing", "URI:spiffe://Example/billing"),
        ("urn:goqueue:billing", "URI:urn:goqueue:billing"),
        ("URI:a", "URI:a"),
        ("Ops@Example.COM", "email:Ops@example.com"),
        ("Billing.Example", "DNS:billing.example"),
        ("DNS:Billing", "DNS:billing"),
        ("", None),
        ("DNS:", None),
        ("spiffe://", None),
        ("URI:spiffe://", None),
        ("two words", None),
        ("é", None),
        ("a" * 1025, None),
    ],
)
def test_name_of_a_certificate_is_recognized_or_refused(text: str, name: str | None) -> None:
    if name is None:
        with pytest.raises(ValueError, match="name"):
            parse_certificate_name(text)
    else:
        assert parse_certificate_name(text) == name
        assert parse_certificate_name(name) == name


def test_names_of_a_certificate_count_in_a_fixed_order() -> None:
    found = [("DNS", "B"), ("IP Address", "::1"), ("email", "a@B"), ("URI", "x:2"), ("URI", "x:1"), ("DNS", "A")]
    assert names_in_order(found) == ("URI:x:2", "URI:x:1", "email:a@b", "DNS:b", "DNS:a")


def test_certificate_or_its_key_that_expires_first_decides() -> None:
    state = SecurityState()
    state.apply(KeyRecord(id="1", name="a", digest="", certificate="DNS:a", expires_ns=2_000))
    state.apply(KeyRecord(id="2", name="b", digest="", certificate="URI:b"))
    now_ns = 1_000
    authorizer = Authorizer(state, lambda: now_ns)
    principal = authorizer.authenticate_certificate(ClientCertificate(("DNS:x", "DNS:a"), 3_000))
    assert (principal.name, principal.valid_until_ns) == ("key:a", 2_000)
    assert authorizer.authenticate_certificate(ClientCertificate(("URI:b", "DNS:a"), 1_500)).name == "key:b"
    heard: list[int] = []
    authorizer.on_forget.subscribe(lambda: heard.append(now_ns))
    authorizer.forget_expired()
    now_ns = 1_500
    authorizer.forget_expired()
    assert heard == [1_500], "what was decided for its owner is forgotten as well"
    with pytest.raises(Unauthenticated, match="expired"):
        authorizer.authenticate_certificate(ClientCertificate(("URI:b", "DNS:a"), 1_500))
    with pytest.raises(Unauthenticated, match="has no URI, email or DNS name"):
        authorizer.authenticate_certificate(ClientCertificate((), 1_500))
    state.apply(KeyRevoked("2"))
    assert state.certificates == {"DNS:a": "1"}
    stored = [encode_security_record(one) for one in state.records()]
    assert [decode_security_record(frame.decode(one, 0)) for one in stored] == list(state.records())
