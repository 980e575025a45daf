"""Every endpoint with every role, on an own and on a foreign resource: what is allowed, and what is hidden."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from goqueue.api.dialect import OWN
from goqueue.api.endpoint import Endpoint
from goqueue.api.permissions import PERMISSIONS
from goqueue.api.table import ENDPOINTS
from goqueue.security.roles import ROLES
from goqueue.security.rules import CLUSTER, Grant, Rule, decide
from tests.api.keys import SecuredBroker, secured
from tests.brokers import Answer

_ROWS = {f"{row.method} {row.path}": row for row in ENDPOINTS}
_SCOPED = "own-only"
"""A custom role that has all actions on what begins with `own`."""
_OWN_RULES = tuple(
    Rule(kind=kind, pattern="own", match="prefix", actions=("read", "write", "create", "delete", "describe", "alter"))
    for kind in ("topic", "group", "transactional_id", "subject")
)
_PRINCIPALS = {**ROLES, _SCOPED: _OWN_RULES, "nothing": ()}
_NUMBERS = {
    "partition": "0",
    "offset": "0",
    "segment": "0",
    "producer": "999",
    "operation": "999",
    "rule": "999",
    "version": "999",
    "id": "999",
}
_EXAMPLES = {
    "POST /transactions/acks": {"producer_id": 7, "epoch": 3, "transactional_id": "orders", "receipts": ["x"]},
    "POST /producers/{producer}/heartbeat": {"epoch": 3, "transactional_id": "orders"},
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured(tmp_path_factory.mktemp("permissions"), tenants__enabled="true") as found:
        rules = [
            {"kind": one.kind, "pattern": one.pattern, "match": one.match, "actions": list(one.actions)}
            for one in _OWN_RULES
        ]
        found.do("POST", "/admin/roles", {"name": _SCOPED, "rules": rules})
        for name in ("own", "foreign"):
            found.do("POST", "/topics", {"name": name, "num_partitions": 1})
        yield found


@pytest.fixture(scope="module")
def keys(broker: SecuredBroker) -> dict[str, str]:
    made = {role: broker.new_key(role, role) for role in (*ROLES, _SCOPED)}
    return {**made, "nothing": broker.new_key("nothing")}


def _names(value: Any, resource: str) -> Any:
    """Return an example of a body about another resource."""
    if isinstance(value, dict):
        return {resource if key == "orders" else key: _named(key, one, resource) for key, one in value.items()}
    return [_names(one, resource) for one in value] if isinstance(value, list) else value


def _named(key: str, value: Any, resource: str) -> Any:
    if key in ("topic", "transactional_id", "group", "name") and isinstance(value, str):
        return resource
    if key == "topics":
        return [resource]
    return _names(value, resource)


def _send(broker: SecuredBroker, row: Endpoint, resource: str, key: str) -> Answer:
    """Send a request that changes nothing, because what it is about does not exist or cannot be read."""
    path = re.sub(r"\{(\w+)\}", lambda found: _NUMBERS.get(found[1], resource), row.path)
    query = {
        "/admin/acls/test": "?principal=key:admin&action=read&kind=topic&name=own",
        "/groups/{group}/poll": "?member_id=x&timeout=0",
        "/groups/{group}/assignment": "?member_id=x",
        "/topics/{topic}/partitions/{partition}/offset": "?time=2026-03-01T12:00:00Z",
    }
    example = _EXAMPLES.get(f"{row.method} {row.path}", row.example)
    body = _names(example, resource) if example is not None else {} if row.body is not None else None
    return broker.ask(row.method, path + query.get(row.path, ""), body, key=key)


def _is_allowed(role: str, row: Endpoint, resource: str) -> bool:
    permission = row.permission
    if permission.action is None:
        return True
    assert permission.kind is not None
    name = CLUSTER if permission.kind == "cluster" else resource
    grants = [Grant(role, rule) for rule in _PRINCIPALS[role]]
    if row.path == "/transactions/abort" and decide(grants, "delete", permission.kind, name).is_allowed:
        return True  # for operators
    return decide(grants, permission.action, permission.kind, name).is_allowed


def _is_refused(answer: Answer, row: Endpoint, resource: str) -> bool:
    if answer.status in (401, 403):
        return True
    if row.permission.kind == "subject" and row.permission.is_checked_by_handler:
        return answer.status == 404 and answer.code == "schema_not_found"
    kinds = (
        {str(row.permission.kind), "topic", "group"}
        if row.permission.is_checked_by_handler
        else {str(row.permission.kind)}
    )
    return answer.status == 404 and answer.json in [_missing(kind, resource, row) for kind in kinds]


def _missing(kind: str, name: str, row: Endpoint) -> dict[str, Any]:
    """Return the body of the answer for a name that does not exist."""
    if kind == "topic":
        hint = "GET /topics lists the topics that this API key may see"
        return {
            "error": f"there is no topic '{name}'",
            "code": "topic_not_found",
            "hint": hint,
            "details": {"topic": name},
        }
    if kind == "group":
        hint = "GET /groups lists the groups that this API key may see"
        error = f"group '{name}' does not exist"
        return {"error": error, "code": "group_not_found", "hint": hint, "details": {"group": name}}
    if kind == "subject":
        error, hint = f"Subject '{name}' not found.", "GET /subjects lists the subjects that this API key may see"
        own = {"error": error, "code": "subject_not_found", "hint": hint, "details": {"subject": name}}
        return own if row.dialect is OWN else {"error_code": 40401, "message": error, **own}
    hint = "GET /transactions?state=all lists those that this API key may see"
    return {"error": f"there is no transactional id '{name}'", "code": "producer_not_found", "hint": hint}


def test_every_endpoint_has_a_permission_and_every_permission_an_endpoint() -> None:
    assert PERMISSIONS.keys() == _ROWS.keys()


def test_every_parameter_of_a_permission_is_in_its_path() -> None:
    for row in ENDPOINTS:
        if row.permission.parameter is not None:
            assert f"{{{row.permission.parameter}}}" in row.path


_OPEN = {name for name, row in _ROWS.items() if row.permission.is_open}
# These change the keys and topics of the test, or need a lease or a transaction that is not there.
_WITHOUT_RESOURCE = {"POST /messages/ack", "POST /messages/nack", "POST /messages/reject", "POST /messages/visibility"}
_DESTRUCTIVE = {
    "DELETE /topics/{topic}", "PUT /mode", "PUT /mode/{subject}", "PUT /config", "DELETE /config", "DELETE /mode",
    "POST /admin/keys", "POST /admin/roles", "POST /admin/acls", "POST /admin/tenants",
}  # fmt: skip


def test_every_endpoint_refuses_a_request_without_a_key(broker: SecuredBroker) -> None:
    for name in sorted(_ROWS.keys() - _OPEN):
        answer = _send(broker, _ROWS[name], "own", "")
        assert (answer.status, answer.code) == (401, "unauthenticated"), name


@pytest.mark.parametrize("resource", ["own", "foreign"])
@pytest.mark.parametrize("role", _PRINCIPALS)
def test_endpoints_answer_exactly_the_roles_that_may_use_them(
    broker: SecuredBroker, keys: dict[str, str], role: str, resource: str
) -> None:
    for name in sorted(_ROWS.keys() - _OPEN - _WITHOUT_RESOURCE - _DESTRUCTIVE):
        row = _ROWS[name]
        answer = _send(broker, row, resource, keys[role])
        assert answer.status < 500, (name, answer.body)
        if not _is_allowed(role, row, resource):
            assert _is_refused(answer, row, resource), (name, answer.body)
        elif row.permission.parameter is not None and role in ("admin", _SCOPED):  # other rights may be missing
            assert answer.status not in (401, 403), (name, answer.body)


@pytest.mark.parametrize("role", [one for one in _PRINCIPALS if one != "admin"])
def test_changing_endpoints_refuse_roles_that_may_not_use_them(
    broker: SecuredBroker, keys: dict[str, str], role: str
) -> None:
    for name in sorted(_DESTRUCTIVE):
        row = _ROWS[name]
        if not _is_allowed(role, row, "foreign"):
            assert _is_refused(_send(broker, row, "foreign", keys[role]), row, "foreign"), name


_HIDING = sorted(
    name
    for name, row in _ROWS.items()
    if row.permission.parameter is not None and row.permission.action != "create"  # which is always a 403
)


def test_hidden_resource_is_answered_like_a_missing_one(broker: SecuredBroker, keys: dict[str, str]) -> None:
    for name in _HIDING:
        hidden = _send(broker, _ROWS[name], "foreign", keys["nothing"])
        missing = _send(broker, _ROWS[name], "missing", keys["nothing"])
        assert hidden.status == missing.status == 404, name
        assert hidden.body.replace(b"foreign", b"missing") == missing.body, name
        assert hidden.headers.keys() == missing.headers.keys(), name
