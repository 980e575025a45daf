"""Roles and access rules over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.keys import SecuredBroker, secured
from tests.brokers import Answer

_OWN = {"kind": "topic", "pattern": "own.", "match": "prefix", "actions": ["read", "write"]}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecuredBroker]:
    with secured(tmp_path) as found:
        for name in ("own.orders", "foreign"):
            found.do("POST", "/topics", {"name": name, "num_partitions": 1})
        yield found


def _publish(broker: SecuredBroker, topic: str, key: str) -> Answer:
    return broker.ask("POST", f"/topics/{topic}/messages", {"messages": [{"value": "x"}]}, key=key)


def test_key_without_roles_may_nothing(broker: SecuredBroker) -> None:
    key = broker.new_key("empty")
    assert broker.ask("GET", "/topics", key=key).json == {"topics": []}
    assert _publish(broker, "own.orders", key).code == "topic_not_found"
    assert broker.ask("GET", "/stats", key=key).code == "permission_denied"


def test_rule_counts_at_once_and_until_it_is_deleted(broker: SecuredBroker) -> None:
    key = broker.new_key("till")
    assert _publish(broker, "own.orders", key).status == 404
    made = broker.do("POST", "/admin/acls", {"principal": "key:till", **_OWN})
    assert _publish(broker, "own.orders", key).status == 200
    assert _publish(broker, "foreign", key).status == 404
    broker.do("DELETE", f"/admin/acls/{made['id']}")
    assert _publish(broker, "own.orders", key).status == 404


def test_denying_rule_for_all_keys_wins_over_a_role(broker: SecuredBroker) -> None:
    key = broker.new_key("till", "producer")
    broker.do(
        "POST",
        "/admin/acls",
        {"principal": "*", "kind": "topic", "pattern": "foreign", "actions": ["write"], "effect": "deny"},
    )
    assert _publish(broker, "own.orders", key).status == 200
    answer = _publish(broker, "foreign", key)
    assert (answer.status, answer.code) == (403, "permission_denied")
    assert "'key:till' may not write topic 'foreign'" in answer.json["error"]


def test_custom_role_gives_its_rules_to_its_keys(broker: SecuredBroker) -> None:
    broker.do("POST", "/admin/roles", {"name": "team", "rules": [_OWN]})
    key = broker.new_key("till", "team")
    assert _publish(broker, "own.orders", key).status == 200
    assert broker.ask("GET", "/topics", key=key).json == {"topics": ["own.orders"]}
    (role,) = [one for one in broker.do("GET", "/admin/roles")["roles"] if one["name"] == "team"]
    assert role["keys"] == 1


def test_rule_of_a_role_reaches_all_its_keys(broker: SecuredBroker) -> None:
    key = broker.new_key("till", "readonly")
    rule = {"kind": "topic", "pattern": "foreign", "actions": ["write"]}
    broker.do("POST", "/admin/acls", {"principal": "role:readonly", **rule})
    assert _publish(broker, "foreign", key).status == 200


def test_role_in_use_cannot_be_deleted(broker: SecuredBroker) -> None:
    broker.do("POST", "/admin/roles", {"name": "team", "rules": [_OWN]})
    broker.new_key("till", "team")
    assert broker.ask("DELETE", "/admin/roles/team").code == "role_in_use"
    broker.do("DELETE", "/admin/keys/till")
    broker.do("DELETE", "/admin/roles/team")
    assert broker.ask("DELETE", "/admin/roles/team").code == "role_not_found"


@pytest.mark.parametrize("name", ["admin", "readonly"])
def test_built_in_role_can_neither_be_replaced_nor_deleted(broker: SecuredBroker, name: str) -> None:
    assert broker.ask("POST", "/admin/roles", {"name": name, "rules": [_OWN]}).code == "role_exists"
    assert broker.ask("DELETE", f"/admin/roles/{name}").code == "role_in_use"


def test_rules_of_a_revoked_key_are_not_those_of_its_successor(broker: SecuredBroker) -> None:
    broker.new_key("till", rules=[_OWN])
    broker.do("DELETE", "/admin/keys/till")
    assert broker.do("GET", "/admin/acls")["acls"] == []
    assert _publish(broker, "own.orders", broker.new_key("till")).status == 404


def test_id_of_a_deleted_rule_is_not_given_again(broker: SecuredBroker) -> None:
    rule = {"principal": "*", **_OWN}
    first = broker.do("POST", "/admin/acls", rule)["id"]
    broker.do("DELETE", f"/admin/acls/{first}")
    assert broker.do("POST", "/admin/acls", rule)["id"] == first + 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"principal": "key:absent"}, "key_not_found"),
        ({"principal": "role:absent"}, "role_not_found"),
        ({"principal": "absent"}, "request_invalid"),
        ({"kind": "cluster", "match": "literal", "pattern": "other"}, "request_invalid"),
        ({"actions": ["fly"]}, "request_invalid"),
        ({"actions": []}, "request_invalid"),
        ({"pattern": ""}, "request_invalid"),
        ({"pattern": None}, "request_invalid"),
    ],
)
def test_rule_that_could_not_work_is_refused(broker: SecuredBroker, changes: dict[str, Any], code: str) -> None:
    assert broker.ask("POST", "/admin/acls", {"principal": "*", **_OWN, **changes}).code == code


@pytest.mark.parametrize("number", ["0", "17", "x", "-1", "9" * 30])
def test_unknown_rule_is_not_found(broker: SecuredBroker, number: str) -> None:
    assert broker.ask("DELETE", f"/admin/acls/{number}").code == "rule_not_found"


def test_explanation_names_the_rule_that_decides(broker: SecuredBroker) -> None:
    broker.new_key("till", "producer", rules=[{**_OWN, "effect": "deny", "actions": ["write"]}])
    asked = "principal=key:till&action=write&kind=topic&name="
    allowed = broker.do("GET", f"/admin/acls/test?{asked}foreign")
    assert allowed == {
        "allowed": True,
        "reason": "role producer: allow write, describe on topic glob *",
        "source": "role producer",
    }
    denied = broker.do("GET", f"/admin/acls/test?{asked}own.orders")
    assert denied == {"allowed": False, "reason": "rule 1: deny write on topic prefix own.", "source": "rule 1"}
    nothing = broker.do("GET", "/admin/acls/test?principal=key:till&action=alter&kind=cluster")
    assert nothing == {"allowed": False, "reason": "no rule allows it", "source": None}


def test_rules_and_roles_survive_a_restart(broker: SecuredBroker, tmp_path: Path) -> None:
    broker.do("POST", "/admin/roles", {"name": "team", "rules": [_OWN]})
    key = broker.new_key("till", "team", rules=[{"kind": "group", "pattern": "g", "actions": ["read"]}])
    admin, before = broker.admin, broker.do("GET", "/admin/acls")
    broker.local.stop()
    with secured(tmp_path) as again:
        again.admin = admin
        assert again.do("GET", "/admin/acls") == before
        assert _publish(again, "own.orders", key).status == 200
        assert _publish(again, "foreign", key).status == 404
