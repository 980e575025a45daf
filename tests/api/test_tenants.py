"""Tenants with the SDK and the commands, without authentication, and a broker without tenants."""

import json
from pathlib import Path

import pytest

from goqueue.client import Client
from goqueue.errors import TenantNotFound, TenantSuspended, TopicNotFound
from goqueue.testing.broker import LocalBroker
from tests.admin.programs import admin
from tests.api.keys import SecuredBroker, eventually, secured
from tests.brokers import ask
from tests.cli.programs import cli, running


def _new_tenant(broker: SecuredBroker, tenant: str) -> str:
    """Create a tenant; return a key of it with all rights."""
    broker.do("POST", "/admin/tenants", {"name": tenant})
    body = {"name": f"{tenant}-admin", "roles": ["admin"], "tenant": tenant}
    return str(broker.do("POST", "/admin/keys", body)["key"])


def test_programs_of_two_tenants_use_the_same_names_without_meeting(tmp_path: Path) -> None:
    with secured(tmp_path, tenants__enabled="true") as broker:
        keys = {tenant: _new_tenant(broker, tenant) for tenant in ("a", "b")}
        for tenant, key in keys.items():
            with Client(broker.url, api_key=key) as client:
                client.create_topic("orders", 2, dead_letter_topic="failed")
                with client.producer() as producer:
                    producer.send("orders", tenant, delay=0.01).result()
                    producer.send("orders", f"{tenant}2").result()
                with client.producer(transactional_id="t") as producer, producer.transaction():
                    producer.send("orders", f"{tenant}3")
        for tenant, key in keys.items():
            with Client(broker.url, api_key=key) as client, client.consumer("g", ["orders"], wait=0.1) as consumer:
                received = []
                for message in consumer:
                    received.append((message.topic, message.text))
                    if len(received) == 1:
                        message.reject("wrong")
                    else:
                        message.ack()
                    if len(received) == 3:
                        break
                assert sorted(received) == [("orders", tenant), ("orders", f"{tenant}2"), ("orders", f"{tenant}3")]
                consumer.flush()
                assert client.topics() == ["failed", "orders"]
                assert client.groups() == ["g"]
                assert [letter.origin_topic for letter in client.dead_letters("orders").messages] == ["orders"]
                assert client.group("g")["total_lag"] == 0
        with Client(broker.url, api_key=broker.admin) as operator:
            assert operator.topics() == ["a.failed", "a.orders", "b.failed", "b.orders"]
        with Client(broker.url, api_key=broker.admin, tenant="a") as operator:
            assert operator.topics() == ["failed", "orders"]
            with pytest.raises(TopicNotFound, match=r"there is no topic 'a\.orders'"):
                operator.topic("a.orders")
        with Client(broker.url, api_key=broker.admin, tenant="c") as operator, pytest.raises(TenantNotFound):
            operator.topics()
        listed = cli(broker.url, "topic", "list", "-o", "name", "--tenant", "b", "--api-key", broker.admin)
        assert listed.out == "failed\norders\n", listed.err
        sql = cli(broker.url, "sql", "SELECT count(*) AS n FROM orders", "-o", "json", "--api-key", keys["a"])
        assert json.loads(sql.out) == [{"n": 3}], sql.err
        made = admin(broker.url, "key", "create", "x", "--tenant", "a", "-o", "json", "--api-key", broker.admin)
        assert json.loads(made.out)[0]["tenant"] == "a", made.err
        keys_of_a = admin(broker.url, "key", "list", "--tenant", "a", "-o", "name", "--api-key", broker.admin)
        assert keys_of_a.out == "a-admin\nx\n"
        _check_that_waiting_polls_end(broker, keys["a"])


def _check_that_waiting_polls_end(broker: SecuredBroker, key: str) -> None:
    with running(broker.url, "consume", "orders", "--follow", "--api-key", key) as waiting:
        eventually(lambda: len(broker.local.daemon.service.context.gate._waiting) > 0)  # type: ignore[union-attr]
        broker.do("POST", "/admin/tenants/a/suspend", {"reason": "unpaid"})
        assert waiting.wait(60) == 4
    with Client(broker.url, api_key=key) as client:
        assert client.topics() == ["failed", "orders"]
        with pytest.raises(TenantSuspended, match="tenant 'a' is suspended: unpaid"):
            client.create_topic("more")


def test_header_selects_a_world_where_keys_are_not_checked(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path), tenants__enabled="true") as broker:

        def do(method: str, path: str, body: object = None, tenant: str = "") -> tuple[int, object]:
            answer = ask(broker.url, method, path, body, {"x-tenant": tenant} if tenant else {})
            return answer.status, answer.json

        for tenant in ("a", "b"):
            assert do("POST", "/admin/tenants", {"name": tenant})[0] == 201
            assert do("POST", "/topics", {"name": "orders"}, tenant)[0] == 201
            assert do("GET", "/topics", tenant=tenant) == (200, {"topics": ["orders"]})
        assert do("GET", "/topics") == (200, {"topics": ["a.orders", "b.orders"]})
        assert do("GET", "/topics/b.orders", tenant="a")[0] == 404
        assert do("GET", "/topics", tenant="c")[0] == 404
        assert do("POST", "/admin/tenants/a/suspend")[0] == 200, "none of its fields is required"
        assert do("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]}, "a")[0] == 403
        assert do("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]}, "b")[0] == 200
        assert do("GET", "/admin/tenants/a/topics")[1] == {
            "topics": [{"name": "orders", "partitions": 3, "size_bytes": 0}]
        }
        assert do("DELETE", "/admin/tenants/b")[0] == 200
        assert do("GET", "/topics") == (200, {"topics": ["a.orders"]})


def test_request_that_was_answered_before_is_checked_again_after_each_change(tmp_path: Path) -> None:
    with secured(tmp_path, tenants__enabled="true") as broker:
        keys = [_new_tenant(broker, tenant) for tenant in ("a", "b")]
        reader = {"name": "a-reader", "roles": ["consumer"], "tenant": "a"}
        keys.append(str(broker.do("POST", "/admin/keys", reader)["key"]))

        def publish(key: str) -> int:
            return broker.ask("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]}, key=key).status

        def all_of_them() -> list[list[int]]:
            return [[publish(key) for key in keys] for _ in range(3)]

        for key in keys[:2]:
            assert broker.ask("POST", "/topics", {"name": "orders"}, key=key).status == 201
        assert all_of_them() == [[200, 200, 403]] * 3
        broker.do("POST", "/admin/tenants/a/suspend", {})
        assert all_of_them() == [[403, 200, 403]] * 3
        broker.do("POST", "/admin/tenants/a/activate", {})
        assert all_of_them() == [[200, 200, 403]] * 3
        rule = {
            "principal": "key:a-admin",
            "effect": "deny",
            "kind": "topic",
            "pattern": "orders",
            "actions": ["write"],
        }
        broker.do("POST", "/admin/acls", {"principal": "key:a-admin", **rule})
        assert all_of_them() == [[403, 200, 403]] * 3
        broker.do("DELETE", "/admin/keys/b-admin")
        assert all_of_them() == [[403, 401, 403]] * 3


def test_broker_without_tenants_says_so_and_refuses_their_keys(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "plain")) as plain:
        answer = ask(plain.url, "GET", "/admin/tenants")
        assert (answer.status, answer.json["error"]) == (503, "multi-tenancy not enabled")
        refused = cli(plain.url, "topic", "list", GOQUEUE_TENANT="a")
        assert (refused.code, "has no tenants: it would ignore a" in refused.err) == (2, True)
    with secured(tmp_path, tenants__enabled="true") as broker:
        key = _new_tenant(broker, "a")
    with secured(tmp_path) as off:
        assert off.ask("GET", "/topics", key=key).code == "tenants_off"
        body = {"name": "x", "tenant": "a"}
        assert off.ask("POST", "/admin/keys", body, key=broker.admin).code == "tenants_off"


def test_tenant_has_its_quotas_from_the_beginning(tmp_path: Path) -> None:
    with secured(tmp_path, tenants__enabled="true") as broker:
        given = {"max_topics": 3, "max_storage_bytes": "unlimited", "soft_limits": {"max_topics": 2}}
        assert broker.do("POST", "/admin/tenants", {"name": "a", "quotas": given})["quotas"] == given
        changed = broker.do("PATCH", "/admin/tenants/a", {"quotas": {"max_topics": 4, "max_storage_bytes": None}})
        assert changed["quotas"] == {"max_topics": 4, "soft_limits": {"max_topics": 2}}
        assert broker.do("GET", "/admin/tenants/a/quotas")["max_topics"] == 4
        for method, path in (("POST", "/admin/tenants"), ("PATCH", "/admin/tenants/a")):
            refused = broker.ask(method, path, {"name": "b", "quotas": {"max_topic": 3}})
            assert (refused.status, refused.json["hint"]) == (400, "did you mean max_topics?")
