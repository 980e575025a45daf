"""`goqueue-cli publish --schema` and `consume --schema`: JSON in, payloads of schemas in the topic, JSON out."""

import json
from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.brokers import create
from tests.cli.programs import cli

AVRO = """{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0}]}"""
PROTO = 'syntax = "proto3"; message Tea { int64 cups = 1; bytes leaf = 2; }'


def test_values_and_keys_are_encoded_and_decoded(broker: LocalBroker, tmp_path: Path) -> None:
    url, avro, proto, key = broker.url, *(str(tmp_path / name) for name in ("o.avsc", "t.proto", "k.json"))
    for path, text in ((avro, AVRO), (proto, PROTO), (key, '{"type": "string"}')):
        Path(path).write_text(text, encoding="utf-8")
    for topic in ("orders", "teas", "copies"):
        create(url, topic)
    order = '{"id":1,"at":"2026-01-01T00:00:00Z"}'
    done = cli(url, "publish", "orders", order, "--schema", avro, "--key", '"k"', "--key-schema", key)
    assert (done.code, done.err) == (0, ""), done.err
    assert cli(url, "publish", "orders", "--schema", "orders-value", "--id-in-header", given='{"id":2}\n').code == 0
    assert cli(url, "publish", "orders", "plain").code == 0
    second = '{"id":2,"at":"1970-01-01T00:00:00Z"}'
    shown = cli(url, "consume", "orders", "--schema", "--format", "%k %v\\n")
    assert shown.out.splitlines() == [f'"k" {order}', f" {second}", " plain"]
    lines = cli(url, "consume", "orders", "--schema", "--limit", "2", "-o", "jsonl").out
    rows = [json.loads(line) for line in lines.splitlines()]
    assert [(row["key"], row["value"], row["headers"]) for row in rows] == [
        ('"k"', order, {}),
        (None, second, {"schema-id": "1"}),
    ]
    assert cli(url, "publish", "copies", "--jsonl", "--schema", "1", "--key-schema", "2", given=lines).code == 0
    assert cli(url, "consume", "copies", "--schema").out.splitlines() == [order, second]
    tea = '{"cups":"7","leaf":"/w=="}'
    assert cli(url, "publish", "teas", tea, '{"cups":8}', "--schema", proto).code == 0
    assert cli(url, "consume", "teas", "--schema", "--group", "g", "--until-idle", "300ms").out.splitlines() == [
        tea,
        '{"cups":"8"}',
    ]
    assert cli(url, "publish", "teas", "--whole", given=b"\0\0\0\0\x63x").code == 0
    broken = cli(url, "consume", "teas", "--schema", "-o", "csv")
    assert (broken.code, len(broken.out.splitlines())) == (1, 3), broken.err
    assert "value_unreadable: the value of teas/0@2 has schema 99" in broken.err
    assert "`--partition 0 --from 3` starts behind it" in broken.err


def test_what_does_not_match_is_listed_and_the_others_are_published(broker: LocalBroker, tmp_path: Path) -> None:
    url, path = broker.url, str(tmp_path / "o.avsc")
    Path(path).write_text(AVRO, encoding="utf-8")
    create(url, "orders")
    values = ['{"id":1}', '{"id":"2"}', '{"id":3}', '{"idd":4}']
    table = [
        "  MESSAGE  PART   PATH  PROBLEM",
        "        2  value  /id   '2' is str, and must be a long: a whole number of 64 bits",
        "        4  value  -     the record Order has no field 'idd'; did you mean 'id'?",
        "cause: schema_violation: 2 messages do not match the schemas of the topic",
        "hint: `goqueue-cli schema describe --id 1` shows the schema",
    ]
    for done in (
        cli(url, "publish", "orders", *values, "--schema", path),
        cli(url, "publish", "orders", "--schema", path, given="\n".join([*values, ""])),
    ):
        assert done.code == 1
        assert done.err.splitlines()[-5:] == table
    whole = cli(url, "publish", "orders", *values, "--schema", path, "--transactional-id", "t")
    assert (whole.code, table[1] in whole.err) == (1, True)
    assert cli(url, "consume", "orders", "--schema", "--format", "%v").out.count('"id":') == 4
    text = cli(url, "publish", "orders", "text", "--schema", path)
    assert "the value of message 1 is not JSON: 'text'" in text.err
    assert cli(url, "publish", "orders", "1", "--schema", "absent").code == 5
    assert "--id-in-header needs --schema" in cli(url, "publish", "orders", "1", "--id-in-header").err
