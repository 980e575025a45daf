"""No endpoint shows one tenant anything of another: by no name that could reach it, and not even that it exists.

Every request of tenant `a` is sent twice: with the names, numbers and ids of what `b` has, and with others that never
existed. The answers must not differ in anything but these.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from goqueue.api.endpoint import Endpoint
from goqueue.api.table import ENDPOINTS
from tests.api.keys import SecuredBroker, secured
from tests.brokers import Answer

SECRET = "only-for-b"  # noqa: S105 - the value of messages
Send = Callable[[str, str, Any], Answer]
_KINDS = ("topic", "group", "transactional_id", "subject")
_ALIASES = ("{}", "b.{}", "a.{}", "b.b.{}", "..%2Fb.{}", ".b.{}", "b%2F{}", "__{}", "a.b.{}", "%62.{}", "B.{}")
"""The ways in which a name of tenant `b` may be written."""
_BODIES: dict[str, dict[str, Any]] = {
    "POST /messages/ack": {"receipt_handle": "RECEIPT"},
    "POST /messages/nack": {"receipt_handle": "RECEIPT"},
    "POST /messages/reject": {"receipt_handles": ["RECEIPT"]},
    "POST /messages/visibility": {"receipt_handle": "RECEIPT", "timeout": "1m"},
    "POST /transactions/acks": {"producer_id": -1, "epoch": 0, "receipts": ["RECEIPT"]},
    "POST /producers/{producer}/heartbeat": {"epoch": 0, "transactional_id": "NAME"},
    "POST /groups/{group}/settle": {
        "member_id": "MEMBER", "acks": [{"topic": "NAME", "partition": 0, "lease": "LEASE", "ranges": [[0, 1]]}],
    },
}  # fmt: skip
_QUERIES = {
    "GET /groups/{group}/poll": "?member_id=MEMBER&timeout=0",
    "GET /groups/{group}/assignment": "?member_id=MEMBER",
    "GET /topics/{topic}/partitions/{partition}/offset": "?time=2026-03-01T12:00:00Z",
    "GET /transactions": "?state=all&transactional_id=NAME",
    "GET /traces/search": "?topic=NAME",
    "GET /subjects": "?subjectPrefix=NAME",
    "GET /schemas/summaries": "?prefix=NAME",
    "GET /schemas/ids/{id}/versions": "?subject=NAME",
    "GET /groups": "?after=NAME",
}
NEVER = {
    "MEMBER": "absent-1234567890abcdef", "RECEIPT": "orders:0:0:1:00000000000000000000000000000000a",
    "LEASE": "00000000000000000000000000000000a", "trace": "f" * 32,
    "guid": "ffffffff-ffff-ffff-ffff-ffffffffffff", "operation": "999999", "id": "999999",
    "name": "absent", "partition": "0", "offset": "0", "segment": "0", "version": "1", "tenant": "c",
}  # fmt: skip


def fill(broker: SecuredBroker, key: str) -> dict[str, str]:
    """Give tenant b one of everything; return what names and numbers it has."""

    def do(method: str, path: str, body: Any = None) -> Any:
        answer = broker.ask(method, path, body, key=key)
        assert answer.status < 300, (path, answer.body)
        return answer.json

    do("POST", "/topics", {"name": "orders", "num_partitions": 1})
    message = {"value": SECRET, "key": SECRET}
    do("POST", "/topics/orders/messages", {"messages": [message, message, {**message, "delay": "1h"}]})
    member = do("POST", "/groups/orders/join", {"client_id": "b", "topics": ["orders"]})["member_id"]
    polled = do("GET", f"/groups/orders/poll?member_id={member}&timeout=30s&max_messages=2")["messages"]
    do("POST", "/messages/reject", {"receipt_handle": polled[0]["receipt_handle"], "reason": SECRET})
    producer = do("POST", "/producers/init", {"transactional_id": "orders"})
    whose = {"producer_id": producer["producer_id"], "epoch": 0, "transactional_id": "orders"}
    do("POST", "/transactions/begin", whose)
    do("POST", "/transactions/publish", {**whose, "topic": "orders", "value": SECRET})
    schema = do("POST", "/subjects/orders/versions", {"schema": json.dumps({"type": "fixed", "name": "s", "size": 7})})
    receipt = polled[1]["receipt_handle"]
    return {
        "MEMBER": member,
        "RECEIPT": receipt,
        "LEASE": receipt.rpartition(":")[2],
        "trace": do("GET", "/traces")["traces"][0]["trace_id"],
        "operation": str(broker.do("GET", "/operations")["operations"][0]["id"]),
        "id": str(schema["id"]),
        "guid": schema["guid"],
        "producer": str(producer["producer_id"]),
        "name": "orders",
        **{name: NEVER[name] for name in ("partition", "offset", "segment", "version")},
        "tenant": "b",
    }


def snapshot(broker: SecuredBroker, key: str) -> list[Any]:
    """Return all that tenant b can see of itself, without times."""
    paths = (
        "/topics?details=true", "/topics/orders/messages", "/topics/orders/delayed", "/topics/orders.dlq/messages",
        "/groups/orders", "/transactions/orders", "/subjects", "/config", "/admin/tenants/b/stats", "/groups",
    )  # fmt: skip
    text = json.dumps([broker.ask("GET", path, key=key).json for path in paths])
    return re.findall(r'"(?!\w*(?:seconds|heartbeat|rate|second|incoming|since))\w+": (?:"[^"]*"|[\w.-]+)', text)


def _replaced(value: Any, known: Mapping[str, str], name: str) -> Any:
    """Put names and numbers into the example of a body."""
    if isinstance(value, dict):
        return {_text(key, known, name): _field(key, one, known, name) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, known, name) for one in value]
    return _text(value, known, name) if isinstance(value, str) else value


def _field(key: str, value: Any, known: Mapping[str, str], name: str) -> Any:
    if key in (*_KINDS, "name", "target", "dead_letter_topic") and isinstance(value, str):
        return name
    if key == "topics":
        return [name]
    if key == "offsets" and isinstance(value, dict):
        return {name: {"0": 1}}
    return int(known["producer"]) if key == "producer_id" else _replaced(value, known, name)


def _text(text: str, known: Mapping[str, str], name: str) -> str:
    if text in ("MEMBER", "LEASE"):
        return known[text]
    if text == "RECEIPT":
        return ":".join([name, *known["RECEIPT"].split(":")[1:]])
    return name if text in ("NAME", "orders") else text


def ask_row(send: Send, row: Endpoint, known: Mapping[str, str], alias: str) -> Answer:
    """Make the request of an endpoint with what is known, and a name written in this way."""
    name, label = alias.format(known["name"]), f"{row.method} {row.path}"
    path = re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], name), row.path)
    query = _QUERIES.get(label, "").replace("NAME", name).replace("MEMBER", known["MEMBER"])
    example = _BODIES.get(label, row.example)
    body = None if row.body is None else _replaced(example or {}, known, name.replace("%2F", "/").replace("%62", "b"))
    return send(row.method, path + query, body)


def _normal(answer: Answer, known: Mapping[str, str]) -> tuple[int, str]:
    """Return the status and, of a refusal, its body without what was sent."""
    if answer.status < 300:
        return answer.status, ""
    text = answer.body.decode()
    for name, sent in sorted(known.items(), key=lambda item: -len(item[1])):
        if len(sent) > 2 and name != "RECEIPT" and not sent.isdecimal():
            text = text.replace(sent, name)
    return answer.status, re.sub(r"[0-9a-f]{32,}|\d+", "NUMBER", text).replace(known["tenant"] + "'", "TENANT'")


def rows() -> Iterator[Endpoint]:
    """Yield all endpoints that need a key; those that create something last, since they change what exists."""
    rows = [row for row in ENDPOINTS if not row.permission.is_open]
    return iter(sorted(rows, key=lambda row: (row.permission.action == "create" or "join" in row.path, row.path)))


def test_no_endpoint_shows_or_changes_anything_of_another_tenant(tmp_path: Path) -> None:
    with secured(tmp_path, tenants__enabled="true") as broker:
        for tenant in "ab":
            broker.do("POST", "/admin/tenants", {"name": tenant})
        keys = {
            tenant: broker.do("POST", "/admin/keys", {"name": tenant, "roles": ["admin"], "tenant": tenant})["key"]
            for tenant in "ab"
        }
        of_b = fill(broker, keys["b"])
        never = NEVER | {"producer": str(broker.do("POST", "/producers/init", {})["producer_id"])}
        never["RECEIPT"] = of_b["RECEIPT"].rpartition(":")[0] + ":" + never["LEASE"]
        before, send = snapshot(broker, keys["b"]), partial(broker.ask, key=keys["a"])
        for row in rows():
            for alias in _ALIASES if row.permission.parameter or row.body or row.query else _ALIASES[:1]:
                there, absent = ask_row(send, row, of_b, alias), ask_row(send, row, never, alias)
                what = f"{row.method} {row.path} as {alias}"
                assert SECRET.encode() not in there.body, what
                assert there.status < 500, (what, there.body)
                assert _normal(there, of_b) == _normal(absent, never), what
                assert there.headers.keys() == absent.headers.keys(), what
        assert snapshot(broker, keys["b"]) == before
