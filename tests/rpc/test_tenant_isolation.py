"""No method of gRPC shows one tenant anything of another, as no endpoint of HTTP does.

Every method of every service is called with the names and numbers of what tenant `b` has, and with others that never
existed: the answers must not differ. `AdminService.Call` does so with every endpoint.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from goqueue.rpc.stubs import Stub, services
from goqueue.rpc.v1 import admin_pb2
from tests.api.keys import SecuredBroker, secured
from tests.api.test_tenant_isolation import NEVER, SECRET, ask_row, fill, rows, snapshot
from tests.brokers import Answer
from tests.rpc.stubs import Refused, Stubs, stubs_of

ALIASES = ("{}", "b.{}", "a.b.{}", "B.{}", "../b.{}")
_SECONDS = 60
_LAST = ("Create", "Register", "Publish", "Join", "Init", "Begin")
"""Methods that create something are called last: what is there then is the caller's own."""
_FIELDS = {
    "member_id": "MEMBER",
    "lease": "LEASE",
    "lease_id": "LEASE",
    "trace_id": "trace",
}
_NUMBERS = {"count": 5, "version": 1}
_NAME = re.compile("topic|group|subject|transactional|prefix|^name")


def _value(field: FieldDescriptor, known: Mapping[str, str], name: str, depth: int) -> Any:
    """Return a value for a field: a name where there may be one, and numbers of what is known."""
    if field.message_type is not None:
        is_wanted = depth < 2 and not field.message_type.full_name.startswith("google.protobuf")
        return _message(field.message_type, known, name, depth + 1) if is_wanted else None
    if field.enum_type is not None:
        return 1
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if field.name in ("receipt_handle", "receipt_handles"):
            return ":".join([name, *known["RECEIPT"].split(":")[1:]])
        if field.name in _FIELDS:
            return known[_FIELDS[field.name]]
        return name if _NAME.search(field.name) and field.type == FieldDescriptor.TYPE_STRING else None
    return int(known["producer"]) if field.name == "producer_id" else _NUMBERS.get(field.name)


def _message(described: Any, known: Mapping[str, str], name: str, depth: int = 0) -> Any:
    found = GetMessageClass(described)()
    for field in described.fields:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        value = _value(field, known, name, depth)
        if value is None:
            continue
        if field.is_repeated:
            getattr(found, field.name).append(value)
        elif field.message_type is not None:
            getattr(found, field.name).CopyFrom(value)
        else:
            setattr(found, field.name, value)
    return found


def _called(call: Callable[..., Any], request: Any, key: str) -> Answer:
    """Return the first answer of a call, or its error."""
    try:
        answer = call(request, metadata=(("x-api-key", key),), timeout=_SECONDS)
        if hasattr(answer, "__next__"):
            first = str(next(answer, ""))
            answer.cancel()
            return Answer(300, {}, first.encode())  # it may have an error in it
    except grpc.RpcError as error:
        found = Refused(error)
        text = f"{found.reason}: {found.sentence}: {found.hint} {found.fields}"
        return Answer(400 + found.code.value[0], {}, text.encode())
    return Answer(200, {}, answer.SerializeToString())


def _normal(answer: Answer, known: Mapping[str, str], name: str) -> tuple[int, str]:
    """Return the status and, of a refusal, its text without what was sent."""
    if answer.status < 300:
        return answer.status, ""
    text = answer.body.decode()
    for sent in (known["MEMBER"], known["LEASE"], known["trace"], name):
        text = text.replace(sent, "SENT")
    return answer.status, re.sub(r"[0-9a-f]{32,}|\d+", "NUMBER", text)


def _methods() -> list[tuple[str, MethodDescriptor]]:
    found = [(one.name, method) for one in services() for method in one.methods]
    return sorted(
        ((service, method) for service, method in found if service != "HealthService" and method.name != "Call"),
        key=lambda one: one[1].name.startswith(_LAST),
    )


def _stub(stubs: Stubs, service: str, method: MethodDescriptor) -> Callable[..., Any]:
    call = getattr(Stub(stubs.channel, service), method.name)
    return (lambda request, **options: call(iter([request]), **options)) if method.client_streaming else call


def test_no_method_shows_or_changes_anything_of_another_tenant(tmp_path: Path) -> None:
    with secured(tmp_path, tenants__enabled="true", grpc__port="0") as broker, stubs_of(broker.local) as stubs:
        keys = two_tenants(broker)
        of_b = fill(broker, keys["b"])
        never = NEVER | {"producer": str(broker.do("POST", "/producers/init", {})["producer_id"])}
        never["RECEIPT"] = of_b["RECEIPT"].rpartition(":")[0] + ":" + never["LEASE"]
        before = snapshot(broker, keys["b"])
        for service, method in _methods():
            for alias in ALIASES:
                answers = []
                for known in (of_b, never):
                    name = alias.format(known["name"])
                    request = _message(method.input_type, known, name)
                    answer = _called(_stub(stubs, service, method), request, keys["a"])
                    what = f"{service}.{method.name} as {alias}"
                    assert SECRET.encode() not in answer.body, what
                    answers.append(_normal(answer, known, name))
                assert answers[0] == answers[1], what
        _check_calls(stubs, keys["a"], of_b, never)
        assert snapshot(broker, keys["b"]) == before


def two_tenants(broker: SecuredBroker) -> dict[str, str]:
    for tenant in "ab":
        broker.do("POST", "/admin/tenants", {"name": tenant})
    return {
        tenant: broker.do("POST", "/admin/keys", {"name": tenant, "roles": ["admin"], "tenant": tenant})["key"]
        for tenant in "ab"
    }


def _check_calls(stubs: Stubs, key: str, of_b: Mapping[str, str], never: Mapping[str, str]) -> None:
    """Make the request of every endpoint by `AdminService.Call`."""

    def send(method: str, path: str, body: Any) -> Answer:
        text = "" if body is None else json.dumps(body)
        return _called(stubs.admin.Call, admin_pb2.CallRequest(method=method, path=path, body=text), key)

    for row in rows():
        for alias in ALIASES[:2]:
            there, absent = (ask_row(send, row, known, alias) for known in (of_b, never))
            what = f"{row.method} {row.path} as {alias}"
            assert SECRET.encode() not in there.body, what
            assert there.status == absent.status, (what, there.body, absent.body)
