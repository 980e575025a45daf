"""The schema registry over HTTP: paths, media types, codes and texts of Confluent's, and what our own add."""

import json
import re
from base64 import b64decode
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from goqueue.testing.broker import LocalBroker
from tests.api.keys import secured
from tests.brokers import Answer, ask

_REGISTRY_JSON = "application/vnd.schemaregistry.v1+json"


def _order(*fields: str, kind: str = "long") -> str:
    named = [{"name": name, "type": kind, "default": 0} for name in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": named}, separators=(",", ":"))


class _Registry:
    """Requests as a client of Confluent's sends them."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        accept = f"{_REGISTRY_JSON}, application/vnd.schemaregistry+json, application/json"
        return ask(self.url, method, path, body, {"content-type": _REGISTRY_JSON, "accept": accept})

    def do(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(method, path, body)
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"] == _REGISTRY_JSON
        found = answer.json
        if isinstance(found, dict):
            found.pop("guid", None)  # tested by itself
        return found

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, int, str]:
        answer = self.ask(method, path, body)
        assert answer.headers["content-type"] == _REGISTRY_JSON
        return answer.status, answer.json["error_code"], answer.json["message"]

    def register(self, subject: str, text: str, **fields: Any) -> int:
        return int(self.do("POST", f"/subjects/{subject}/versions", {"schema": text, **fields})["id"])


@pytest.fixture
def registry(broker: LocalBroker) -> _Registry:
    return _Registry(broker.url)


def test_versions_are_registered_listed_and_found(registry: _Registry) -> None:
    first, second = registry.register("a", _order("x")), registry.register("a", _order("x", "y"))
    assert (first, second, registry.register("b%2Fc", _order("x", "y"))) == (1, 2, 2)
    assert registry.register("a", _order("x").replace(":", ": ")) == 1, "whitespace makes no other schema"
    assert registry.do("GET", "/subjects") == ["a", "b/c"]
    assert registry.do("GET", "/subjects?subjectPrefix=b&unknown=1") == ["b/c"]
    assert registry.do("GET", "/subjects/a/versions") == [1, 2]
    latest = {"subject": "a", "version": 2, "id": 2, "schema": _order("x", "y")}
    assert registry.do("GET", "/subjects/a/versions/latest") == registry.do("GET", "/subjects/a/versions/-1") == latest
    assert registry.do("POST", "/subjects/a", {"schema": _order("x", "y")}) == latest
    assert registry.do("GET", "/schemas/ids/1") == {"schema": _order("x")}
    assert registry.do("GET", "/schemas/ids/1?fetchMaxId=True")["maxId"] == 2
    assert registry.ask("GET", "/schemas/ids/1/schema").body.decode() == _order("x")
    assert registry.ask("GET", "/subjects/a/versions/1/schema").body.decode() == _order("x")
    assert registry.do("GET", "/schemas/ids/2/subjects") == ["a", "b/c"]
    uses = [{"subject": "a", "version": 2}, {"subject": "b/c", "version": 1}]
    assert registry.do("GET", "/schemas/ids/2/versions") == uses
    assert [one["version"] for one in registry.do("GET", "/schemas?subjectPrefix=:*:&latestOnly=true")] == [2, 1]
    assert [one["id"] for one in registry.do("GET", "/schemas?limit=2&offset=1")] == [2, 2]
    assert registry.do("GET", "/schemas?offset=3") == []
    assert registry.do("GET", "/schemas/types") == ["AVRO", "JSON", "PROTOBUF"]
    assert registry.do("GET", "/contexts") == ["."]


def test_files_of_protobuf_are_taken_and_given_as_encoded_descriptors(registry: _Registry) -> None:
    text = 'syntax = "proto3"; package p; import "line.proto"; message Order { int64 id = 1; Line line = 2; }'
    line = 'syntax = "proto3"; package p; message Line { string sku = 1; }'
    registry.register("line.proto", line, schemaType="PROTOBUF")
    needs = {"schemaType": "PROTOBUF", "references": [{"name": "line.proto", "subject": "line.proto", "version": 1}]}
    number = registry.register("o", text, **needs)
    paths = (f"/schemas/ids/{number}", "/subjects/o/versions/1")
    encoded = {registry.do("GET", f"{path}?format=serialized")["schema"] for path in paths}
    encoded.add(registry.ask("GET", f"/schemas/ids/{number}/schema?format=serialized").body.decode())
    (one,) = encoded
    assert registry.do("POST", "/subjects/o?format=serialized", {"schema": text, **needs})["schema"] == one
    assert [part.name for part in FileDescriptorProto.FromString(b64decode(one)).message_type] == ["Order"]
    assert registry.register("o", one, **needs) == number, "the descriptor is the same schema as its text"
    assert registry.do("GET", f"/schemas/ids/{number}?format=other")["schema"].startswith('syntax = "proto3";\n')
    registry.register("a", _order("x"))
    assert registry.do("GET", "/subjects/a/versions/1?format=serialized")["schema"] == _order("x")


def test_paths_are_the_same_below_schemas(registry: _Registry) -> None:
    assert registry.do("POST", "/schemas/subjects/a/versions", {"schema": _order("x")}) == {"id": 1, "version": 1}
    for path in ("/subjects", "/subjects/a/versions/1", "/schemas/ids/1", "/config", "/mode", "/contexts", "/schemas"):
        assert registry.do("GET", f"/schemas{path}") == registry.do("GET", path)
    plain = ask(registry.url, "GET", "/schemas/ids/1", headers={"accept": "application/json"})
    assert plain.headers["content-type"] == "application/json"
    stats = ask(registry.url, "GET", "/schemas/stats").json
    assert (stats["subjects"], stats["versions"], stats["schemas_by_type"]) == (1, 1, {"AVRO": 1})


def test_deletions_are_soft_first_and_version_numbers_continue(registry: _Registry) -> None:
    for names in (["x"], ["x", "y"]):
        registry.register("a", _order(*names))
    not_first = "Subject 'a' Version 1 was not deleted first before being permanently deleted"
    assert registry.refused("DELETE", "/subjects/a/versions/1?permanent=true") == (404, 40407, not_first)
    assert registry.do("DELETE", "/subjects/a/versions/1") == 1
    told = "Subject 'a' Version 1 was soft deleted. Set permanent=true to delete permanently"
    assert registry.refused("DELETE", "/subjects/a/versions/1") == (404, 40406, told)
    assert registry.refused("GET", "/subjects/a/versions/1") == (404, 40402, "Version 1 not found.")
    assert registry.do("GET", "/subjects/a/versions?deleted=true") == [1, 2]
    assert registry.do("GET", "/subjects/a/versions?deletedOnly=true") == [1]
    assert registry.do("GET", "/subjects/a/versions/1?deleted=true")["deleted"] is True
    assert registry.do("GET", "/schemas/ids/1"), "messages that have the id stay readable"
    whole = "Subject 'a' was not deleted first before being permanently deleted"
    assert registry.refused("DELETE", "/subjects/a?permanent=true") == (404, 40405, whole)
    assert registry.do("DELETE", "/subjects/a") == [2]
    told = "Subject 'a' was soft deleted. Set permanent=true to delete permanently"
    assert registry.refused("DELETE", "/subjects/a") == (404, 40404, told)
    assert registry.refused("GET", "/subjects/a/versions") == (404, 40401, "Subject 'a' not found.")
    assert (registry.do("GET", "/subjects"), registry.do("GET", "/subjects?deleted=true")) == ([], ["a"])
    assert registry.do("POST", "/subjects/a/versions", {"schema": _order("x")}) == {"id": 1, "version": 3}
    registry.do("DELETE", "/subjects/a")
    assert registry.do("DELETE", "/subjects/a?permanent=true") == [1, 2, 3]
    assert registry.refused("GET", "/schemas/ids/1") == (404, 40403, "Schema 1 not found")
    assert registry.do("POST", "/subjects/a/versions", {"schema": _order("x", "y")}) == {"id": 2, "version": 1}
    assert registry.register("a", _order("x", "y", "z")) == 3


def test_invalid_requests_have_the_codes_that_clients_know(registry: _Registry) -> None:
    registry.register("a", _order("x"))
    assert registry.refused("GET", "/subjects/none/versions/latest")[:2] == (404, 40401)
    assert registry.refused("POST", "/subjects/none", {"schema": _order("x")})[:2] == (404, 40401)
    assert registry.refused("POST", "/subjects/a", {"schema": _order("y")}) == (404, 40403, "Schema not found")
    assert registry.refused("GET", "/schemas/ids/17") == (404, 40403, "Schema 17 not found")
    assert registry.refused("GET", "/schemas/ids/first")[:2] == (404, 40403)
    assert registry.refused("GET", "/subjects/a/versions/0")[:2] == (422, 42202)
    for body in ({"schema": "{"}, {"schema": ""}, {"schema": "{}", "schemaType": "XML"}):
        assert registry.refused("POST", "/subjects/a/versions", body)[:2] == (422, 42201)
    assert registry.refused("PUT", "/config", {"compatibility": "SIDEWAYS"})[:2] == (422, 42203)
    assert registry.refused("PUT", "/mode", {"mode": "PAUSED"})[:2] == (422, 42204)
    assert registry.refused("GET", "/config/a")[:2] == (404, 40408)
    assert registry.refused("GET", "/mode/a")[:2] == (404, 40409)
    for name in (":.x:", ":.:a", ":.a", ":.%C3%A4:a", "__GLOBAL"):
        assert registry.refused("POST", f"/subjects/{name}/versions", {"schema": _order("x")})[:2] == (422, 42208)
    assert registry.refused("POST", "/subjects/a/versions", {"schema": _order("x"), "colour": 1})[:2] == (400, 400)


def test_compatibility_levels_decide_about_registrations(registry: _Registry) -> None:
    other = {"schema": _order("x", kind="int").replace("Order", "Bill")}
    registry.register("a", _order("x"))
    status, code, message = registry.refused("POST", "/subjects/a/versions", other)
    assert (status, code) == (409, 409)
    assert message.startswith('Schema being registered is incompatible with an earlier schema for subject "a"')
    path = "/compatibility/subjects/a/versions"
    assert registry.do("POST", f"{path}/latest", other) == {"is_compatible": False}
    assert "version 1" in registry.do("POST", f"{path}/1?verbose=true", other)["messages"][0]
    assert registry.do("POST", path, {"schema": _order("x", "y")}) == {"is_compatible": True}
    assert registry.do("POST", "/compatibility/subjects/none/versions/latest", other) == {"is_compatible": True}
    assert registry.refused("POST", f"{path}/7", other)[:2] == (404, 40402)
    assert registry.do("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert registry.do("PUT", "/config/a", {"compatibility": "none"}) == {"compatibility": "NONE"}
    assert registry.do("GET", "/config/a") == {"compatibilityLevel": "NONE"}
    assert registry.do("GET", "/config/b?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    registry.register("a", other["schema"])
    assert registry.do("DELETE", "/config/a") == {"compatibilityLevel": "NONE"}
    assert registry.refused("GET", "/config/a")[:2] == (404, 40408)


def test_modes_decide_about_changes(registry: _Registry) -> None:
    registry.register("a", _order("x"))
    new = {"schema": _order("x", "y")}
    assert registry.refused("POST", "/subjects/a/versions", {**new, "id": 9})[:2] == (422, 42205)
    assert registry.do("PUT", "/mode/a", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert registry.refused("POST", "/subjects/a/versions", new) == (422, 42205, "Subject a is in read-only mode")
    assert registry.register("a", _order("x")) == 1, "what exists is answered"
    assert registry.refused("DELETE", "/subjects/a")[:2] == (422, 42205)
    assert registry.do("DELETE", "/mode/a") == {"mode": "READONLY"}
    assert registry.refused("PUT", "/mode", {"mode": "IMPORT"})[:2] == (422, 42205)
    assert registry.do("PUT", "/mode/b", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    assert registry.refused("POST", "/subjects/b/versions", new)[:2] == (422, 42205)
    taken = {**new, "id": 1, "version": 4}
    assert registry.refused("POST", "/subjects/b/versions", taken)[2].startswith("Overwrite new schema with id 1")
    assert registry.do("POST", "/subjects/b/versions", {**taken, "id": 40}) == {"id": 40, "version": 4}
    assert registry.register("a", _order("x", "y", "z")) == 41, "ids continue after those of an import"


def test_schema_is_found_by_its_guid_and_by_its_metadata(registry: _Registry) -> None:
    first = registry.ask("POST", "/subjects/a/versions", {"schema": _order("x")}).json
    owned = {"schema": _order("x"), "metadata": {"properties": {"owner": "team a", "pii": "no"}}}
    second = registry.ask("POST", "/subjects/a/versions", owned).json
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", first["guid"])
    assert first["guid"] != second["guid"], "metadata are part of a schema"
    assert registry.ask("POST", "/subjects/b/versions", {"schema": _order("x")}).json["guid"] == first["guid"]
    assert registry.ask("GET", "/subjects/b/versions/1").json["guid"] == first["guid"]
    assert registry.ask("GET", "/schemas/ids/1").json == {"guid": first["guid"], "schema": _order("x")}
    assert registry.do("GET", f"/schemas/guids/{second['guid'].upper()}")["metadata"] == owned["metadata"]
    assert registry.do("GET", f"/schemas/guids/{second['guid']}/ids") == [{"context": ".", "id": 2}]
    assert registry.refused("GET", "/schemas/guids/x")[:2] == (404, 40403)
    for query in ("key=owner&value=team%20a", "key=owner&value=team%2520a&key=pii&value=no"):
        assert registry.do("GET", f"/subjects/a/metadata?{query}&deleted=False")["version"] == 2
    assert registry.do("GET", "/subjects/a/metadata")["version"] == 2
    assert registry.refused("GET", "/subjects/a/metadata?key=owner&value=x") == (404, 40403, "Schema not found")
    assert registry.refused("GET", "/subjects/z/metadata?key=owner&value=x")[:2] == (404, 40401)
    assert registry.ask("GET", "/subjects/a/metadata?key=owner").status == 400
    for suffix in ("", "?permanent=true"):
        registry.do("DELETE", f"/subjects/a/versions/2{suffix}")
    assert registry.refused("GET", f"/schemas/guids/{second['guid']}")[:2] == (404, 40403)


def test_subjects_of_a_context_are_apart_and_have_its_settings(registry: _Registry) -> None:
    assert registry.register("a", _order("x")) == registry.register(":.team:a", _order("x")) == 1
    assert registry.register(":.other:b", _order("y")) == 2
    assert registry.do("GET", "/contexts") == [".", ".other", ".team"]
    assert registry.do("GET", "/contexts?contextPrefix=.t&offset=0&limit=-1") == [".team"]
    assert registry.do("GET", "/subjects?subjectPrefix=:.team:") == [":.team:a"]
    assert registry.do("GET", "/schemas/ids/1/subjects?subject=:.team:") == [":.team:a"]
    assert registry.do("GET", "/schemas/ids/1?subject=:.team:")["schema"] == _order("x")
    assert registry.refused("GET", "/schemas/ids/2?subject=:.team:")[:2] == (404, 40403)
    guid = registry.ask("GET", "/schemas/ids/1").json["guid"]
    assert registry.do("GET", f"/schemas/guids/{guid}/ids") == [
        {"context": ".", "id": 1},
        {"context": ".team", "id": 1},
    ]
    registry.do("PUT", "/config/:.team:", {"compatibility": "NONE"})
    assert registry.register(":.team:a", '{"type":"string"}') == 3
    assert registry.refused("POST", "/subjects/a/versions", {"schema": '{"type":"string"}'})[:2] == (409, 409)
    assert registry.do("GET", "/config/:.team:c?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    registry.do("PUT", "/config/:.team:a", {"compatibility": "FULL"})
    assert registry.do("GET", "/config/:.team:a") == {"compatibilityLevel": "FULL"}
    assert registry.refused("PUT", "/mode/:.team:", {"mode": "IMPORT"})[:2] == (422, 42205), "it has subjects"
    registry.do("PUT", "/mode/:.new:", {"mode": "IMPORT"})
    assert registry.register(":.new:a", _order("z"), id=70) == 70
    registry.do("PUT", "/mode/:.team:", {"mode": "READONLY"})
    assert registry.refused("POST", "/subjects/:.team:a/versions", {"schema": _order("z")})[:2] == (422, 42205)
    assert registry.register("a", _order("x", "z")) == 71


def test_references_metadata_and_rules_are_kept(registry: _Registry) -> None:
    registry.register("order", _order("x"))
    line = '{"type":"record","name":"Line","fields":[{"name":"order","type":"Order"}]}'
    reference = {"name": "Order", "subject": "order", "version": 1}
    rule = {"name": "mask", "kind": "TRANSFORM", "mode": "WRITE", "type": "CEL", "tags": ["PII"], "expr": "x"}
    more = {"metadata": {"properties": {"owner": "team"}}, "ruleSet": {"domainRules": [rule]}}
    missing = {"schema": line, "references": [{**reference, "version": 9}]}
    assert registry.refused("POST", "/subjects/line/versions", missing)[:2] == (422, 42201)
    number = registry.register("line", line, references=[{**reference, "version": -1}], **more)
    assert registry.do("GET", f"/schemas/ids/{number}") == {"schema": line, "references": [reference], **more}
    assert registry.do("GET", "/subjects/order/versions/1/referencedby") == [number]
    assert registry.refused("DELETE", "/subjects/order")[:2] == (422, 42206)
    assert registry.do("DELETE", "/subjects/line") == [1]
    assert registry.do("DELETE", "/subjects/order") == [1]
    assert registry.refused("DELETE", "/subjects/order/versions/1?permanent=true")[:2] == (422, 42206)


def test_normalized_schemas_differ_in_order_only(registry: _Registry) -> None:
    one, other = '{"type":"object","title":"T"}', '{"title":"T","type":"object"}'
    body = {"schema": one, "schemaType": "JSON"}
    registry.do("POST", "/subjects/a/versions?normalize=true", body)
    assert registry.do("POST", "/subjects/a?normalize=true", {**body, "schema": one})["schema"] == other
    registry.do("PUT", "/config/a", {"normalize": True})
    assert registry.register("a", one, schemaType="JSON") == 1
    assert registry.do("GET", "/config/a") == {"compatibilityLevel": "BACKWARD", "normalize": True}


def test_registry_survives_a_restart(tmp_path: Any) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        first = _Registry(broker.url)
        first.register("a", _order("x"))
        first.do("PUT", "/config/a", {"compatibility": "FULL"})
    with LocalBroker(str(tmp_path / "data")) as broker:
        again = _Registry(broker.url)
        assert again.register("a", _order("x")) == 1
        assert again.do("GET", "/config/a") == {"compatibilityLevel": "FULL"}


def test_keys_see_the_schemas_of_their_subjects_alone(tmp_path: Any) -> None:
    with secured(tmp_path) as broker:
        for subject, name in (("own-value", "x"), ("salaries-value", "y")):
            broker.do("POST", f"/subjects/{subject}/versions", {"schema": _order(name)})
        rule = {"kind": "subject", "pattern": "own", "match": "prefix", "actions": ["read", "create"]}
        key = broker.new_key("team", rules=[rule])
        assert broker.ask("GET", "/subjects", key=key).json == ["own-value"]
        assert [one["id"] for one in broker.ask("GET", "/schemas", key=key).json] == [1]
        assert broker.ask("GET", "/schemas/ids/1", key=key).status == 200
        hidden, missing = (broker.ask("GET", f"/schemas/ids/{number}", key=key) for number in (2, 3))
        assert hidden.body == missing.body.replace(b"Schema 3", b"Schema 2")
        reference = {"name": "Order", "subject": "salaries-value", "version": 1}
        body = {"schema": '"string"', "references": [reference]}
        assert broker.ask("POST", "/subjects/own-2/versions", body, key=key).json["error_code"] == 40401
        assert broker.ask("DELETE", "/subjects/own-value", key=key).json["error_code"] == 40301
        assert broker.ask("GET", "/subjects", key="").json["error_code"] == 401
        actions = [one["action"] for one in broker.do("GET", "/admin/audit")["records"] if one["outcome"] == "done"]
        assert actions.count("POST /subjects/{subject}/versions") == 2


def test_registry_has_a_port_of_its_own_if_it_is_set(tmp_path: Any) -> None:
    with LocalBroker(str(tmp_path / "data"), schemas__registry_port="0") as broker:
        own = _Registry(broker.daemon.registry_address or "")
        assert own.register("a", _order("x")) == 1
        assert _Registry(broker.url).do("GET", "/subjects") == own.do("GET", "/subjects") == ["a"]
        assert own.ask("GET", "/topics").status == 404


def test_list_of_schemas_ends_where_its_texts_get_too_long(registry: _Registry) -> None:
    for number in range(7):
        text = f'{{"type":"enum","name":"E{number}","doc":"{"x" * 900_000}","symbols":["A"]}}'
        registry.register(f"s{number}", text)
    seen: list[str] = []
    while page := registry.do("GET", f"/schemas?offset={len(seen)}"):
        assert len(page) <= 5
        seen += [one["subject"] for one in page]
    assert seen == [f"s{number}" for number in range(7)]
