"""Topics whose messages are checked when they are published: the settings, and every way to publish."""

import json
import sys
from typing import Any

import pytest

from goqueue import compression
from goqueue.schemas.framing import encode_prefix
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import frames, section, send
from tests.brokers import Answer, ask, create, publish, read

GOOD, BAD = '{"id":1}', '{"id":"x"}'


def register(url: str, subject: str, kind: str) -> int:
    text = json.dumps({"type": "object", "required": ["id"], "properties": {"id": {"type": kind}}})
    answer = ask(url, "POST", f"/subjects/{subject}/versions", {"schema": text, "schemaType": "JSON"})
    assert answer.status == 200, answer.body
    return int(answer.json["id"])


def post(url: str, *messages: dict[str, Any], topic: str = "t", query: str = "") -> Answer:
    return ask(url, "POST", f"/topics/{topic}/messages?{query}", {"messages": list(messages)})


def problems(answer: Answer) -> list[tuple[int, str, str]]:
    assert (answer.status, answer.code) == (422, "schema_violation"), answer.body
    return [(one["index"], one["place"], one.get("path", "")) for one in answer.json["details"]["problems"]]


def values(url: str, topic: str = "t", partition: int = 0) -> list[str]:
    return [one["value"] for one in read(url, topic, partition)]


def test_settings_are_set_shown_changed_and_checked(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    url, checked = broker.url, {"value_validation": "payload", "value_subject": "topic"}
    create(url, "t", value_validation="payload")
    config = ask(url, "GET", "/topics/t").json["config"]
    assert config | checked == config
    assert (config["key_validation"], config["key_subject"]) == ("none", "topic")
    assert post(url, {"value": GOOD}).code == "schema_violation"
    (finding,) = [one for one in ask(url, "GET", "/doctor").json["findings"] if one["code"] == "subject_empty"]
    assert (finding["subject"], finding["details"]) == ("t", {"subject": "t-value", "setting": "value_validation"})
    lines = ask(url, "GET", "/metrics").body.decode().splitlines()
    assert 'goqueue_schema_refused_messages_total{reason="subject_empty"} 1.0' in lines
    assert "goqueue_schema_checked_messages_total 1.0" in lines
    changed = ask(url, "PATCH", "/admin/topics/t", {"value_validation": "none", "key_validation": "id"})
    assert changed.json["config"]["key_validation"] == "id"
    assert post(url, {"value": BAD}).status == 200, "messages without a key are not checked by it"
    assert problems(post(url, {"value": BAD, "key": "k"})) == [(0, "messages[0].key", "")]
    refused = ask(url, "PATCH", "/admin/topics/t", {"value_validation": "json"})
    assert (refused.status, "payload" in str(refused.json)) == (400, True)
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    for fields in ({"value_validation": "payload"}, {"key_subject": "record"}):
        refused = ask(url, "PATCH", "/admin/topics/t", fields)
        assert (refused.status, refused.code) == (503, "schemas_unavailable")
        assert refused.json["hint"] == "pip install 'goqueue[schemas]' where the broker runs"
    assert ask(url, "POST", "/topics", {"name": "u", "key_validation": "payload"}).code == "schemas_unavailable"
    assert ask(url, "PATCH", "/admin/topics/t", {"key_validation": "id", "retention_hours": 2}).status == 200


def test_json_is_checked_as_a_whole_and_delayed_messages_when_they_are_published(broker: LocalBroker) -> None:
    url = broker.url
    number = register(url, "t-value", "integer")
    create(url, "t", value_validation="payload")
    prefixed = {"value": (encode_prefix(number) + GOOD.encode()).decode()}
    publish(url, "t", GOOD)
    assert post(url, prefixed, {"value": GOOD, "headers": {"schema-id": str(number)}}).status == 200
    assert problems(post(url, {"value": GOOD}, {"value": BAD}, {"value": "{}"})) == [
        (1, "messages[1].value", "/id"),
        (2, "messages[2].value", ""),
    ]
    assert problems(post(url, {"value": BAD, "delay": "1h"})) == [(0, "messages[0].value", "/id")]
    many = [{"value": json.dumps({"id": one, "note": "x" * 1000})} for one in range(3_000)]
    assert problems(post(url, *many, {"value": BAD})) == [(3_000, "messages[3000].value", "/id")]
    assert len(values(url)) == 3, "nothing of a refused batch was stored"
    assert post(url, *many).status == 200
    assert post(url, {"value": GOOD, "delay": "300ms"}, topic="t").status == 200
    ask(url, "PUT", "/config/t-value", {"compatibility": "NONE"})
    register(url, "t-value", "string")
    assert problems(post(url, {"value": GOOD})), "a new version counts at once"
    while len(ask(url, "GET", "/topics/t/delayed").json["messages"]):
        pass
    end = ask(url, "GET", "/topics/t").json["partition_offsets"]["0"]["latest"]
    assert end == 3_004, "a delayed message is not checked again when it is delivered"


def test_frames_are_checked_in_each_section_and_a_stored_batch_stays_a_duplicate(broker: LocalBroker) -> None:
    url = broker.url
    register(url, "t-value", "integer")
    create(url, "t", partitions=2, value_validation="payload")
    producer = ask(url, "POST", "/producers/init", {}).json["producer_id"]
    good, bad = frames([GOOD.encode()] * 2, (producer, 0, 0)), frames([GOOD.encode(), BAD.encode()])
    answer = send(url, section(0, good) + section(1, bad))
    first, second = answer.json["results"]
    assert (first["first_offset"], second["error"]["code"]) == (0, "schema_violation")
    details = second["error"]["details"]
    assert (details["partition"], details["messages"], details["invalid"]) == (1, 2, 1)
    (row,) = details["problems"]
    assert (row["index"], row["partition"], row["place"], row["path"]) == (1, 1, "messages[1].value", "/id")
    assert problems(send(url, section(1, bad)))
    packed = compression.compress(b'{"id":"' + b"x" * 200 + b'"}')
    assert packed is not None
    assert problems(send(url, section(1, frame.encode(packed, flags=frame.COMPRESSED))))
    damaged = bytearray(bad)
    damaged[0] ^= 1
    assert send(url, section(1, bytes(damaged))).code == "frame_invalid"
    ask(url, "PUT", "/config/t-value", {"compatibility": "NONE"})
    register(url, "t-value", "string")
    again = send(url, section(0, good))
    assert (again.status, again.json["results"][0]["duplicate"]) == (200, True), "it was valid when it was stored"
    assert problems(send(url, section(0, frames([GOOD.encode()], (producer, 0, 2)))))
    assert (len(values(url)), len(values(url, partition=1))) == (2, 0)


def test_transactions_are_checked_and_dead_letters_are_not_checked_again(broker: LocalBroker) -> None:
    url = broker.url
    register(url, "t-value", "integer")
    create(url, "t", value_validation="payload")
    begun = ask(url, "POST", "/producers/init", {"transactional_id": "x"}).json
    named = {"producer_id": begun["producer_id"], "epoch": begun["epoch"], "transactional_id": "x"}
    assert ask(url, "POST", "/transactions/begin", named).status == 200
    body = {**named, "topic": "t"}
    assert problems(ask(url, "POST", "/transactions/publish", {**body, "value": BAD})) == [(0, "value", "/id")]
    stored = {**body, "value": GOOD, "sequence": 0}
    assert ask(url, "POST", "/transactions/publish", stored).json["duplicate"] is False
    query = f"producer_id={begun['producer_id']}&epoch={begun['epoch']}"
    assert problems(post(url, {"value": BAD}, query=query))
    flagged = {"flags": frame.TRANSACTIONAL}
    content = frames([BAD.encode()], (begun["producer_id"], begun["epoch"], 1), **flagged)
    marked = bytearray(content)
    assert problems(send(url, section(0, bytes(marked)), query=query))
    ask(url, "PUT", "/config/t-value", {"compatibility": "NONE"})
    register(url, "t-value", "string")
    again = ask(url, "POST", "/transactions/publish", stored)
    assert (again.status, again.json["duplicate"]) == (200, True), "it was valid when it was stored"
    assert problems(ask(url, "POST", "/transactions/publish", {**stored, "sequence": 1}))
    assert ask(url, "POST", "/transactions/commit", named).status == 200
    assert values(url) == [GOOD]
    joined = ask(url, "POST", "/groups/g/join", {"client_id": "c", "topics": ["t"]}).json
    polled = ask(url, "GET", f"/groups/g/poll?member_id={joined['member_id']}").json["messages"]
    assert ask(url, "POST", "/messages/reject", {"receipt_handle": polled[0]["receipt_handle"]}).status == 200
    assert ask(url, "POST", "/topics/t.dlq/redrive", {}).json["moved"] == 1
    assert values(url) == [GOOD, GOOD]
