"""The audit trail: what is recorded, how refusals are bounded, and that changes to it show."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.errors import LogFenced
from goqueue.limits import AUDIT_REFUSALS_AT_ONCE
from goqueue.wire.audit import broken_links
from tests.admin.programs import admin
from tests.api.keys import SecuredBroker, eventually, secured


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecuredBroker]:
    with secured(tmp_path) as found:
        yield found


def _records(broker: SecuredBroker) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = broker.do("GET", "/admin/audit?limit=1000")["records"]
    return records


def _refused(broker: SecuredBroker) -> list[dict[str, Any]]:
    return [one for one in _records(broker) if one["outcome"] == "refused"]


def test_administrative_change_is_recorded_before_it_is_answered(broker: SecuredBroker) -> None:
    broker.ask("POST", "/topics", {"name": "orders"}, user_agent="till/1", x_request_id="r-17")
    last = _records(broker)[-1]
    expected = {
        "principal": "key:bootstrap", "action": "POST /topics", "subject": "orders", "outcome": "done",
        "address": "127.0.0.1", "client": "till/1", "request_id": "r-17",
    }  # fmt: skip
    assert expected.items() <= last.items()


@pytest.mark.parametrize(
    ("method", "path", "body", "action", "subject"),
    [
        ("POST", "/admin/keys", {"name": "till"}, "POST /admin/keys", "till"),
        ("DELETE", "/admin/keys/other", None, "DELETE /admin/keys/{key}", "other"),
        ("POST", "/admin/keys/other/rotate", {}, "POST /admin/keys/{key}/rotate", "other"),
        ("PATCH", "/admin/topics/orders", {"retention_hours": 1}, "PATCH /admin/topics/{topic}", "orders"),
        ("DELETE", "/topics/orders", None, "DELETE /topics/{topic}", "orders"),
        (
            "POST",
            "/admin/acls",
            {"principal": "*", "kind": "topic", "pattern": "x", "actions": ["read"]},
            "POST /admin/acls",
            "*",
        ),
    ],
)
def test_change_is_recorded_with_its_subject(
    broker: SecuredBroker, method: str, path: str, body: Any, action: str, subject: str
) -> None:
    broker.new_key("other")
    broker.do("POST", "/topics", {"name": "orders"})
    broker.do(method, path, body)
    last = _records(broker)[-1]
    assert (last["action"], last["subject"], last["outcome"]) == (action, subject, "done")


def test_planned_change_is_told_apart_from_one_that_was_made(tmp_path: Path) -> None:
    with secured(tmp_path, tenants__enabled="true") as broker:
        broker.do("POST", "/admin/tenants", {"id": "a", "name": "A"})
        broker.do("DELETE", "/admin/tenants/a?dry_run=true")
        broker.do("DELETE", "/admin/tenants/a")
        planned, made = _records(broker)[-2:]
        assert (planned["action"], planned["subject"]) == ("DELETE /admin/tenants/{tenant} (dry run)", "a")
        assert (made["action"], made["outcome"]) == ("DELETE /admin/tenants/{tenant}", "done")


def test_failed_change_is_recorded_with_its_code(broker: SecuredBroker) -> None:
    broker.ask("DELETE", "/topics/none")
    last = _records(broker)[-1]
    assert (last["outcome"], last["code"], last["subject"]) == ("failed", "topic_not_found", "none")


def test_reading_and_publishing_are_not_recorded(broker: SecuredBroker) -> None:
    broker.do("POST", "/topics", {"name": "orders"})
    count = len(_records(broker))
    broker.do("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]})
    broker.do("GET", "/topics/orders/messages")
    broker.do("GET", "/admin/keys")
    broker.do("GET", "/admin/acls/test?principal=role:admin&action=read&kind=topic&name=orders")
    assert len(_records(broker)) == count


def test_refusals_are_recorded_with_principal_right_and_number(broker: SecuredBroker) -> None:
    key = broker.new_key("till", "readonly")
    broker.do("POST", "/topics", {"name": "orders"})
    for _ in range(5):
        broker.ask("DELETE", "/topics/orders", key=key)
    eventually(lambda: sum(one.get("count", 1) for one in _refused(broker)) == 5)
    first = _refused(broker)[0]
    assert (first["principal"], first["action"], first["subject"]) == ("key:till", "delete topic", "orders")
    assert first["code"] == "permission_denied"


def test_failed_logins_are_summed_up(broker: SecuredBroker) -> None:
    for _ in range(50):
        broker.ask("GET", "/topics", key="gq_guess")
    eventually(lambda: sum(one.get("count", 1) for one in _refused(broker)) == 50)
    refused = _refused(broker)
    assert len(refused) <= 10
    assert {(one["principal"], one["code"]) for one in refused} == {("", "unauthenticated")}


def test_many_different_refusals_become_few_records(broker: SecuredBroker) -> None:
    key = broker.new_key("till")
    for number in range(10 * AUDIT_REFUSALS_AT_ONCE):
        broker.ask("GET", f"/topics/t{number}", key=key)
    eventually(lambda: len(_refused(broker)) > 0)
    assert len(_refused(broker)) <= AUDIT_REFUSALS_AT_ONCE + 2


def test_no_secret_gets_into_the_trail(broker: SecuredBroker) -> None:
    key = broker.new_key("till")
    broker.ask("GET", "/topics", key=key[:-1] + "x")
    eventually(lambda: bool(_refused(broker)))
    text = json.dumps(_records(broker))
    for secret in (key, broker.admin, key[:-1] + "x"):
        assert secret.rpartition("_")[2] not in text


def test_chain_continues_after_a_restart(broker: SecuredBroker, tmp_path: Path) -> None:
    broker.new_key("one")
    before = _records(broker)
    broker.local.stop()
    with secured(tmp_path) as again:
        again.admin = broker.admin
        again.new_key("two")
        after = _records(again)
        assert after[: len(before)] == before
        assert [one["number"] for one in after] == list(range(1, len(after) + 1))
        done = admin(again.url, "audit", "verify", "--api-key", again.admin)
        assert (done.code, done.err) == (0, f"the chain of {len(after)} records is complete\n")


def _exported(broker: SecuredBroker) -> list[bytes]:
    for name in ("a", "b", "c", "d"):
        broker.new_key(name)
    done = admin(broker.url, "audit", "export", "--api-key", broker.admin)
    assert done.code == 0, done.err
    return done.out.encode().splitlines()


def test_exported_trail_verifies_and_every_change_to_it_shows(broker: SecuredBroker, tmp_path: Path) -> None:
    lines = _exported(broker)
    assert not list(broken_links(lines))
    for place in range(1, len(lines) - 1):
        assert list(broken_links(lines[:place] + lines[place + 1 :])), "removed"
        assert list(
            broken_links([*lines[:place], lines[place].replace(b"key:bootstrap", b"key:innocent"), *lines[place + 1 :]])
        )
        assert list(broken_links([*lines[:place], lines[place], *lines[place:]])), "inserted"
    file = tmp_path / "audit.jsonl"
    file.write_bytes(b"\n".join(lines[:1] + lines[2:]) + b"\n")
    done = admin(broker.url, "audit", "verify", str(file))
    assert done.code == 1
    assert "it follows record 1: records between them are missing" in done.out


def test_trail_that_begins_later_because_of_retention_verifies(broker: SecuredBroker) -> None:
    assert not list(broken_links(_exported(broker)[2:]))


def test_list_filters_by_principal_and_outcome(broker: SecuredBroker) -> None:
    broker.ask("DELETE", "/topics/none")
    broker.new_key("one")
    failed = admin(broker.url, "audit", "list", "--outcome", "failed", "-o", "json", "--api-key", broker.admin)
    assert [one["code"] for one in json.loads(failed.out)] == ["topic_not_found"]
    newest = admin(broker.url, "audit", "list", "--limit", "1", "-o", "json", "--api-key", broker.admin)
    assert [one["subject"] for one in json.loads(newest.out)] == ["one"]


def test_file_has_the_same_lines_and_is_only_its_owners(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    with secured(tmp_path, security__audit_file=str(file)) as broker:
        lines = _exported(broker)
    assert file.read_bytes().splitlines() == lines
    assert file.stat().st_mode & 0o777 == 0o600


def test_operator_reads_the_trail_and_other_roles_do_not(broker: SecuredBroker) -> None:
    assert broker.ask("GET", "/admin/audit", key=broker.new_key("o", "operator")).status == 200
    for role in ("producer", "consumer", "readonly"):
        assert broker.ask("GET", "/admin/audit", key=broker.new_key(role, role)).status == 403


def test_change_is_refused_while_it_cannot_be_recorded(broker: SecuredBroker) -> None:
    broker.do("POST", "/topics", {"name": "orders"})
    broker.local.daemon.runtime.broker.audit.partition.log.fence_off(LogFenced("the device is gone"))
    assert broker.ask("DELETE", "/topics/orders").status == 503
    assert broker.ask("GET", "/topics").json == {"topics": ["orders"]}
    assert broker.ask("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]}).status == 200
