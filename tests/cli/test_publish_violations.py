"""`goqueue-cli publish` to a topic whose messages are checked."""

import json

import pytest

from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, read
from tests.cli.programs import cli

SCHEMA = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})


@pytest.fixture
def url(broker: LocalBroker) -> str:
    ask(broker.url, "POST", "/subjects/orders-value/versions", {"schema": SCHEMA, "schemaType": "JSON"})
    done = cli(broker.url, "topic", "create", "orders", "--partitions", "1", "--set", "value_validation=payload")
    assert done.code == 0, done.err
    return broker.url


def test_invalid_messages_are_listed_with_their_numbers_and_the_others_published(url: str) -> None:
    table = [
        "  MESSAGE  PART   PATH  PROBLEM",
        '        2  value  /id   "x" is not of type "integer"',
        "        4  value  -     not JSON: JSON is malformed: invalid character (byte 0)",
        "cause: schema_violation: 2 messages do not match the schemas of the topic",
        "hint: `goqueue-cli schema describe orders-value` shows the schema",
    ]
    values = ['{"id":1}', '{"id":"x"}', '{"id":3}', "\x1b[1m"]
    done = cli(url, "publish", "orders", *values)
    assert done.code == 1
    assert done.err.splitlines() == [
        "2 messages published to orders",
        "error: could not publish to topic orders",
        *table,
    ]
    piped = cli(url, "publish", "orders", given="\n".join(values))
    assert piped.code == 1
    assert piped.err.splitlines()[-5:] == table
    assert [one["value"] for one in read(url, "orders")] == ['{"id":1}', '{"id":3}'] * 2


def test_settings_are_edited_and_a_wrong_one_is_explained(url: str) -> None:
    done = cli(url, "topic", "edit", "orders", "--set", "value_validation=strict")
    assert (done.code, "value_validation is 'strict', not one of id, none, payload" in done.err) == (2, True), done.err
    assert cli(url, "topic", "edit", "orders", "--set", "value_validation=none").code == 0
    assert cli(url, "publish", "orders", "anything").code == 0


def test_forgotten_schema_is_named_where_payloads_are_not_json(broker: LocalBroker) -> None:
    ask(broker.url, "POST", "/subjects/rides-value/versions", {"schema": '{"type":"map","values":"int"}'})
    assert cli(broker.url, "topic", "create", "rides", "--set", "value_validation=payload").code == 0
    done = cli(broker.url, "publish", "rides", '{"km": 1}')
    assert (done.code, "hint: `--schema rides-value` encodes values that are JSON; `goq" in done.err) == (1, True)
    assert cli(broker.url, "publish", "rides", '{"km": 1}', "--schema", "rides-value").code == 0
