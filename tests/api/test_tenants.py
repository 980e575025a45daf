"""Tenants over HTTP without authentication, and a broker without tenants."""

from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.api.keys import secured
from tests.brokers import ask


def test_broker_without_tenants_says_so_and_refuses_their_keys(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "plain")) as plain:
        answer = ask(plain.url, "GET", "/admin/tenants")
        assert (answer.status, answer.json["error"]) == (503, "multi-tenancy not enabled")
    with secured(tmp_path, tenants__enabled="true") as broker:
        broker.do("POST", "/admin/tenants", {"name": "a"})
        admin, key = broker.admin, broker.do("POST", "/admin/keys", {"name": "k", "tenant": "a"})["key"]
    with secured(tmp_path) as off:
        assert off.ask("GET", "/topics", key=key).code == "tenants_off"
        assert off.ask("POST", "/admin/keys", {"name": "x", "tenant": "a"}, key=admin).code == "tenants_off"
