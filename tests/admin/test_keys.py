"""`goqueue-admin key`, `acl` and `role`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.programs import admin
from tests.api.keys import SecuredBroker, secured
from tests.cli.programs import cli


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecuredBroker]:
    with secured(tmp_path) as found:
        yield found


def _admin(broker: SecuredBroker, *words: str) -> Any:
    return admin(broker.url, *words, "--api-key", broker.admin)


def test_created_key_is_shown_once_and_listed_without_its_secret(broker: SecuredBroker) -> None:
    made = _admin(broker, "key", "create", "billing", "--role", "consumer", "--expires", "90d", "-o", "json")
    (row,) = json.loads(made.out)
    assert broker.ask("GET", "/topics", key=row["key"]).status == 200
    listed = _admin(broker, "key", "list")
    assert row["key"] not in listed.out
    assert [line.split()[0] for line in listed.out.splitlines()] == ["NAME", "billing", "bootstrap"]


def test_saved_key_is_only_in_a_file_that_only_its_owner_reads(broker: SecuredBroker, tmp_path: Path) -> None:
    file = tmp_path / "billing.key"
    made = _admin(broker, "key", "create", "billing", "--role", "consumer", "--save", str(file))
    key = file.read_text().strip()
    assert key not in made.out + made.err
    assert file.stat().st_mode & 0o777 == 0o600
    assert broker.ask("GET", "/topics", key=key).status == 200
    again = _admin(broker, "key", "create", "other", "--save", str(file))
    assert again.code == 2
    assert "cannot be created" in again.err


def test_refused_key_leaves_no_file(broker: SecuredBroker, tmp_path: Path) -> None:
    file = tmp_path / "billing.key"
    assert _admin(broker, "key", "create", "bootstrap", "--save", str(file)).code == 5
    assert not file.exists()


def test_key_is_taken_from_the_file_that_a_variable_names(broker: SecuredBroker, tmp_path: Path) -> None:
    file = tmp_path / "admin.key"
    file.write_text(f"{broker.admin}\n")
    done = admin(broker.url, "key", "list", GOQUEUE_API_KEY_FILE=str(file))
    assert done.code == 0, done.err
    view = admin(broker.url, "config", "view", "--show-origin", GOQUEUE_API_KEY_FILE=str(file))
    assert broker.admin not in view.out
    assert "GOQUEUE_API_KEY_FILE" in view.out


def test_missing_and_weak_keys_exit_with_4(broker: SecuredBroker) -> None:
    without = admin(broker.url, "key", "list")
    assert (without.code, "unauthenticated" in without.err) == (4, True)
    weak = admin(broker.url, "key", "list", "--api-key", broker.new_key("weak", "operator"))
    assert (weak.code, "permission_denied" in weak.err) == (4, True)
    assert "goqueue-admin acl create --principal key:weak --allow alter --cluster" in weak.err
    broker.do("POST", "/topics", {"name": "orders"})
    reader = broker.new_key("reader", "readonly")
    refused = cli(broker.url, "publish", "orders", "x", "--api-key", reader)
    assert "'key:reader' may not write topic 'orders'" in refused.err
    assert "--allow write --topic orders" in refused.err


def test_rotation_without_grace_is_confirmed(broker: SecuredBroker) -> None:
    key = broker.new_key("billing", "readonly")
    assert _admin(broker, "key", "rotate", "billing").code == 2
    assert broker.ask("GET", "/topics", key=key).status == 200
    assert _admin(broker, "key", "rotate", "billing", "--grace", "1h").code == 0
    assert broker.ask("GET", "/topics", key=key).status == 200
    assert _admin(broker, "key", "rotate", "billing", "--yes").code == 0
    assert broker.ask("GET", "/topics", key=key).status == 401


def test_revocation_needs_consent_and_reports_each_key(broker: SecuredBroker) -> None:
    broker.new_key("billing")
    assert _admin(broker, "key", "revoke", "billing").code == 2
    assert _admin(broker, "key", "revoke", "billing", "--dry-run").err == "that would revoke billing\n"
    done = _admin(broker, "key", "revoke", "billing", "absent", "--yes")
    assert done.code == 1
    assert "billing" in done.out
    assert "there is no API key 'absent'" in done.err


@pytest.mark.parametrize(
    ("pattern", "stored"),
    [("orders", ("orders", "literal")), ("o*", ("o", "prefix")), ("*", ("*", "glob")), ("o?.*", ("o?.*", "glob"))],
)
def test_pattern_of_a_rule_is_a_name_a_prefix_or_a_glob(
    broker: SecuredBroker, pattern: str, stored: tuple[str, str]
) -> None:
    done = _admin(
        broker, "acl", "create", "-p", "*", "--allow", "read", "--topic", pattern, "--group", "g", "-o", "json"
    )
    topic, group = json.loads(done.out)
    assert (topic["pattern"], topic["match"]) == stored
    assert (group["kind"], group["pattern"]) == ("group", "g")


def test_explanation_exits_with_1_if_it_is_not_allowed(broker: SecuredBroker) -> None:
    broker.new_key("billing", "consumer")
    _admin(broker, "acl", "create", "-p", "key:billing", "--deny", "read", "--topic", "pay*")
    allowed = _admin(broker, "acl", "test", "-p", "key:billing", "read", "--topic", "orders")
    assert (allowed.code, "role consumer" in allowed.out) == (0, True)
    denied = _admin(broker, "acl", "test", "-p", "key:billing", "read", "--topic", "payroll", "-o", "json")
    assert denied.code == 1
    assert json.loads(denied.out)[0]["reason"] == "rule 1: deny read on topic prefix pay"
    assert _admin(broker, "acl", "delete", "1", "--yes").code == 0
    assert _admin(broker, "acl", "list").err == "there are no access rules\n"


def test_role_is_made_from_rules_and_deleted(broker: SecuredBroker) -> None:
    rules = ("--rule", "read,write topic:own.*", "--rule", "!read topic:own.secret", "--rule", "describe cluster")
    assert _admin(broker, "role", "create", "team", *rules).code == 0
    (role,) = [one for one in broker.do("GET", "/admin/roles")["roles"] if one["name"] == "team"]
    assert [(one["kind"], one.get("effect", "allow")) for one in role["rules"]] == [
        ("topic", "allow"),
        ("topic", "deny"),
        ("cluster", "allow"),
    ]
    assert "deny read on topic own.secret" in _admin(broker, "role", "list", "-o", "wide").out
    assert _admin(broker, "role", "delete", "team", "--yes").code == 0
    assert _admin(broker, "role", "create", "team", "--rule", "read").code == 2


def test_key_in_the_environment_does_not_appear_in_errors(broker: SecuredBroker) -> None:
    assert "GOQUEUE_API_KEY" not in os.environ
    done = admin(broker.url, "key", "revoke", "absent", "--yes", "--debug", GOQUEUE_API_KEY=broker.admin)
    assert done.code == 5
    assert broker.admin not in done.err
