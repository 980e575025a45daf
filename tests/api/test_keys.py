"""API keys over HTTP: what needs one, which are accepted, and when they end."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.keys import SecuredBroker, eventually, secured
from tests.brokers import Answer, ask


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecuredBroker]:
    with secured(tmp_path) as found:
        yield found


def test_request_without_a_key_gets_401_with_what_to_do(broker: SecuredBroker) -> None:
    answer = broker.ask("GET", "/topics", key="")
    assert answer.status == 401
    assert answer.code == "unauthenticated"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer" in answer.json["hint"]


@pytest.mark.parametrize("path", ["/health", "/healthz", "/livez", "/readyz?verbose=true", "/version", "/openapi.json"])
def test_probes_need_no_key(broker: SecuredBroker, path: str) -> None:
    assert broker.ask("GET", path, key="").status == 200


def test_version_says_that_keys_are_needed(broker: SecuredBroker) -> None:
    assert broker.ask("GET", "/version", key="").json["authentication"] == "keys"


def test_key_is_accepted_as_bearer_and_as_own_header(broker: SecuredBroker) -> None:
    assert broker.ask("GET", "/topics").status == 200
    assert broker.ask("GET", "/topics", key="", authorization=f"bearer {broker.admin}").status == 200
    assert broker.ask("GET", "/topics", key="", x_api_key=broker.admin).status == 200
    assert broker.ask("GET", "/topics", x_api_key=broker.admin).status == 200


def test_producer_without_any_topic_to_write_is_told_so(broker: SecuredBroker) -> None:
    answer = broker.ask("POST", "/producers/init", {}, key=broker.new_key("reader", "consumer"))
    assert answer.json["error"] == "'key:reader' may not write any topic"
    assert answer.json["hint"].endswith("--principal key:reader --allow write --topic NAME")


def test_two_different_keys_are_refused(broker: SecuredBroker) -> None:
    other = broker.new_key("other", "consumer")
    assert broker.ask("GET", "/topics", x_api_key=other).status == 401


@pytest.mark.parametrize("text", ["gq_x", "Basic YTpi", "x" * 66, f"gq_{'a' * 12}_{'b' * 49}"])
def test_text_that_is_no_key_is_refused_without_being_repeated(broker: SecuredBroker, text: str) -> None:
    answer = broker.ask("GET", "/topics", key="", x_api_key=text)
    assert answer.status == 401
    assert text not in answer.body.decode()


def test_unknown_id_and_wrong_secret_get_the_same_answer(broker: SecuredBroker, tmp_path: Path) -> None:
    with secured(tmp_path / "foreign") as foreign:
        unknown = foreign.admin
    former = broker.new_key("billing", "consumer")
    broker.do("POST", "/admin/keys/billing/rotate", {})
    answers = [broker.ask("GET", "/topics", key=key) for key in (unknown, former)]
    assert [one.status for one in answers] == [401, 401]
    assert answers[0].body == answers[1].body


def test_key_is_shown_once_and_only_its_digest_is_stored(broker: SecuredBroker, tmp_path: Path) -> None:
    key = broker.new_key("billing", "consumer")
    listed = broker.ask("GET", "/admin/keys").body + broker.ask("GET", "/admin/keys/billing").body
    broker.local.stop()
    secret = key.rpartition("_")[2]
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert b"billing" in stored
    for part in (key, secret, secret[:-6]):
        assert part.encode() not in stored
        assert part.encode() not in listed


def test_keys_survive_a_restart(broker: SecuredBroker, tmp_path: Path) -> None:
    key = broker.new_key("billing", "consumer")
    broker.new_key("gone", "consumer")
    broker.do("DELETE", "/admin/keys/gone")
    broker.local.stop()
    with LocalBroker(str(tmp_path / "data"), security__authentication="keys") as again:
        assert again.daemon.bootstrap_key is None
        headers = {"authorization": f"Bearer {key}"}
        assert ask(again.url, "GET", "/topics", headers=headers).status == 200
        admin = {"authorization": f"Bearer {broker.admin}"}
        names = [one["name"] for one in ask(again.url, "GET", "/admin/keys", headers=admin).json["keys"]]
        assert names == ["billing", "bootstrap"]


def test_revoked_key_is_refused_at_once(broker: SecuredBroker) -> None:
    key = broker.new_key("billing", "readonly")
    assert broker.ask("GET", "/topics", key=key).status == 200
    broker.do("DELETE", "/admin/keys/billing")
    assert broker.ask("GET", "/topics", key=key).status == 401
    assert broker.ask("GET", "/admin/keys/billing").code == "key_not_found"


def test_key_can_be_revoked_by_its_id(broker: SecuredBroker) -> None:
    made = broker.do("POST", "/admin/keys", {"name": "billing"})
    assert broker.do("DELETE", f"/admin/keys/{made['id']}")["name"] == "billing"


def test_name_of_a_valid_key_is_refused_for_another(broker: SecuredBroker) -> None:
    broker.new_key("billing")
    assert broker.ask("POST", "/admin/keys", {"name": "billing"}).code == "key_exists"


def test_last_key_of_an_administrator_is_kept(broker: SecuredBroker) -> None:
    answer = broker.ask("DELETE", "/admin/keys/bootstrap")
    assert (answer.status, answer.code) == (409, "last_administrator")
    broker.new_key("root", "admin")
    assert broker.ask("DELETE", "/admin/keys/bootstrap").status == 200


def test_unknown_role_is_refused_with_the_nearest(broker: SecuredBroker) -> None:
    answer = broker.ask("POST", "/admin/keys", {"name": "billing", "roles": ["consumr"]})
    assert answer.code == "role_not_found"
    assert answer.json["hint"] == "did you mean consumer?"


def test_rotated_key_is_valid_for_the_grace_period_with_both_secrets(broker: SecuredBroker) -> None:
    former = broker.new_key("billing", "readonly")
    new = broker.do("POST", "/admin/keys/billing/rotate", {"grace": "1h"})["key"]
    assert [broker.ask("GET", "/topics", key=key).status for key in (former, new)] == [200, 200]
    newest = broker.do("POST", "/admin/keys/billing/rotate", {})["key"]
    assert [broker.ask("GET", "/topics", key=key).status for key in (former, new, newest)] == [401, 401, 200]


def test_secret_before_a_rotation_is_refused_as_such_after_the_grace_period(broker: SecuredBroker) -> None:
    former = broker.new_key("billing", "readonly")
    broker.do("POST", "/admin/keys/billing/rotate", {"grace": "1s"})
    eventually(lambda: broker.ask("GET", "/topics", key=former).status == 401)
    assert "was rotated" in broker.ask("GET", "/topics", key=former).json["error"]


def test_expired_key_is_refused_and_named_as_such(broker: SecuredBroker) -> None:
    key = broker.do("POST", "/admin/keys", {"name": "short", "roles": ["readonly"], "expires_in": "1s"})["key"]
    eventually(lambda: broker.ask("GET", "/topics", key=key).status == 401)
    assert "expired" in broker.ask("GET", "/topics", key=key).json["error"]
    assert broker.do("GET", "/admin/keys/short")["expired"]


def test_use_of_a_key_is_recorded(broker: SecuredBroker) -> None:
    key = broker.new_key("billing", "readonly")
    assert broker.do("GET", "/admin/keys/billing")["last_used_at"] is None
    broker.ask("GET", "/topics", key=key)
    eventually(lambda: broker.do("GET", "/admin/keys/billing")["last_used_at"] is not None)


def _waiting_poll(broker: SecuredBroker, key: str) -> tuple[threading.Thread, list[Answer]]:
    """Begin a long poll of the group `billing`, and return its thread and what it gets."""
    broker.do("POST", "/topics", {"name": "orders", "num_partitions": 1})
    joined = broker.ask("POST", "/groups/billing/join", {"topics": ["orders"], "client_id": "till"}, key=key)
    path = f"/groups/billing/poll?member_id={joined.json['member_id']}&timeout=30s"
    broker.ask("GET", f"{path}&timeout=0", key=key)
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(broker.ask("GET", path, key=key)))
    thread.start()
    gate = broker.local.daemon.service.context.gate
    assert gate is not None
    eventually(lambda: bool(gate._waiting))
    return thread, answers


def test_long_poll_ends_with_401_when_its_key_is_revoked(broker: SecuredBroker) -> None:
    thread, answers = _waiting_poll(broker, broker.new_key("till", "consumer"))
    broker.do("DELETE", "/admin/keys/till")
    thread.join(5)
    assert [one.status for one in answers] == [401]


def test_long_poll_ends_when_its_key_expires(broker: SecuredBroker) -> None:
    made = broker.do("POST", "/admin/keys", {"name": "till", "roles": ["consumer"], "expires_in": "2s"})
    thread, answers = _waiting_poll(broker, made["key"])
    thread.join(10)
    assert [one.status for one in answers] == [401]


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "group", "pattern": "billing", "actions": ["read"]},
        {"kind": "topic", "pattern": "orders", "actions": ["read"]},
    ],
)
def test_long_poll_ends_with_403_when_a_rule_denies_it(broker: SecuredBroker, rule: dict[str, object]) -> None:
    thread, answers = _waiting_poll(broker, broker.new_key("till", "consumer"))
    broker.do("POST", "/admin/acls", {"principal": "key:till", "effect": "deny", **rule})
    thread.join(5)
    assert [one.status for one in answers] == [403]


def test_long_poll_of_others_goes_on_when_a_key_is_revoked(broker: SecuredBroker) -> None:
    thread, answers = _waiting_poll(broker, broker.new_key("till", "consumer"))
    broker.new_key("other", "consumer")
    broker.do("DELETE", "/admin/keys/other")
    broker.do("POST", "/topics/orders/messages", {"messages": [{"value": "paid"}]})
    thread.join(5)
    assert [one.status for one in answers] == [200]
    assert [one["value"] for one in answers[0].json["messages"]] == ["paid"]


def test_broker_without_authentication_accepts_requests_with_any_key(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as local:
        assert ask(local.url, "GET", "/topics", headers={"authorization": "Bearer x"}).status == 200
        assert local.daemon.bootstrap_key is None


def test_keys_and_rules_cannot_be_changed_without_authentication(tmp_path: Path) -> None:
    """A key made by anyone would be valid once authentication is turned on."""
    rule = {"principal": "*", "kind": "topic", "pattern": "x", "actions": ["read"]}
    role = {"name": "team", "rules": [{"kind": "topic", "pattern": "x", "actions": ["read"]}]}
    requests: list[tuple[str, str, object]] = [
        ("POST", "/admin/keys", {"name": "back-door", "roles": ["admin"]}),
        ("POST", "/admin/keys/bootstrap/rotate", {}),
        ("DELETE", "/admin/keys/bootstrap", None),
        ("POST", "/admin/acls", rule),
        ("DELETE", "/admin/acls/1", None),
        ("POST", "/admin/roles", role),
        ("DELETE", "/admin/roles/team", None),
    ]
    with secured(tmp_path):
        pass
    with LocalBroker(str(tmp_path / "data")) as local:
        for method, path, body in requests:
            answer = ask(local.url, method, path, body)
            assert (answer.status, answer.code) == (403, "permission_denied")
            assert "authentication is off" in answer.json["error"]
        assert [one["name"] for one in ask(local.url, "GET", "/admin/keys").json["keys"]] == ["bootstrap"]
