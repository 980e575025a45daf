"""`goqueue-cli publish --jsonl`: what was consumed is published again as it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.quantities import parse_time
from goqueue.testing.broker import LocalBroker
from tests.brokers import create, read
from tests.cli.days import day
from tests.cli.programs import cli


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    create(broker.url, "orders", 3)
    create(broker.url, "copies", 3)
    return broker.url


def consumed(url: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli(url, "consume", topic, "-o", "jsonl").out.splitlines()]


def essence(messages: list[dict[str, Any]], *more: str) -> list[dict[str, Any]]:
    fields = ("key", "key_encoding", "value", "encoding", "headers", "priority", *more)
    chosen = [{name: message.get(name) for name in fields} for message in messages]
    return sorted(chosen, key=lambda message: json.dumps(message, sort_keys=True))


def test_a_round_trip_keeps_keys_values_headers_and_priorities(topic: str) -> None:
    with Client(topic) as client, client.producer() as producer:
        for number in range(200):
            producer.send("orders", f"{number}", f"k{number % 7}", {"n": str(number % 3)}, priority=number % 5)
        producer.send("orders", b"\xff\x00", b"\xfe", [("a", b"1"), ("a", b"\xff"), ("b", "ö")], partition=2)
        producer.send("orders", None, "k1")
        producer.send("orders", "", partition=1)
    given = cli(topic, "consume", "orders", "-o", "jsonl").out
    done = cli(topic, "publish", "copies", "--jsonl", given=given)
    assert (done.code, done.out, done.err) == (0, "", "203 messages published to copies\n")
    assert essence(consumed(topic, "copies")) == essence(consumed(topic, "orders"))


def test_partitions_are_kept_when_that_is_asked_for(topic: str, tmp_path: Path) -> None:
    for number in range(6):
        cli(topic, "publish", "orders", str(number), "--partition", str(number % 3))
    file = tmp_path / "orders.jsonl"
    file.write_text(cli(topic, "consume", "orders", "-o", "jsonl").out)
    assert cli(topic, "publish", "copies", "--jsonl", "--keep-partitions", "--file", str(file)).code == 0
    assert essence(consumed(topic, "copies"), "partition") == essence(consumed(topic, "orders"), "partition")


def test_a_flag_is_stronger_than_what_an_object_says(topic: str) -> None:
    given = '{"value": "a", "key": "k", "priority": "low", "headers": {"n": "1"}, "partition": 0}\n'
    words = ["--key", "other", "--priority", "critical", "--partition", "2", "--header", "source=shop"]
    assert cli(topic, "publish", "orders", "--jsonl", *words, given=given).code == 0
    (message,) = read(topic, "orders", 2)
    assert (message["key"], message["priority"], message["headers"]) == ("other", 0, {"n": "1", "source": "shop"})


def test_each_object_may_say_when_to_deliver_it(topic: str) -> None:
    given = (
        '{"value": "a", "delay": "1h", "priority": "low"}\n'
        '{"value": "b", "delay": 7200}\n'
        f'{{"value": "c", "deliver_at": "{day(30)}T00:00:00Z"}}\n'
        '{"value": "d", "delay": "", "deliver_at": null}\n'
        '{"value": "e", "delay": 0}\n'
    )
    done = cli(topic, "publish", "orders", "--jsonl", "--partition", "0", given=given)
    assert (done.code, done.err) == (0, "5 messages published to orders\n")
    assert [message["value"] for message in read(topic, "orders")] == ["d", "e"]
    rows = json.loads(cli(topic, "delayed", "describe", "orders", "0@0", "0@1", "0@2", "-o", "json").out)
    assert [(row["value"], row["priority"]) for row in rows] == [("a", 3), ("b", 2), ("c", 2)]
    waits = [(parse_time(row["deliver_at"]) - parse_time(row["scheduled_at"])) / 1e9 for row in rows[:2]]
    assert waits == [3600, 7200]
    assert rows[2]["deliver_at"] == f"{day(30)}T00:00:00.000000000Z"


def test_a_time_that_a_flag_says_is_stronger_than_that_of_an_object(topic: str) -> None:
    given = '{"value": "a", "delay": "1h"}\n{"value": "b"}\n'
    assert cli(topic, "publish", "orders", "--jsonl", "--partition", "0", "--at", day(30), given=given).code == 0
    rows = json.loads(cli(topic, "delayed", "list", "orders", "-o", "json").out)
    assert [row["deliver_at"][:10] for row in rows] == [day(30), day(30)]


def test_several_files_and_arguments_are_objects_too(topic: str, tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_text(f'{{"value": "{file.name}"}}\n\n')
    words = [word for file in files for word in ("--file", str(file))]
    assert cli(topic, "publish", "orders", "--jsonl", "--partition", "0", *words).code == 0
    assert cli(topic, "publish", "orders", "--jsonl", "--partition", "0", '{"value": "c"}').code == 0
    assert [message["value"] for message in read(topic, "orders")] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tea", "cause: request_invalid: line 2 is not JSON: 'tea'\nhint: without --jsonl whole lines are published\n"),
        ('{"value": {"id": 1}}', "cause: request_invalid: line 2: value is not text\nhint: values are text; `jq"),
        ('{"key": "k"}', "cause: request_invalid: line 2 has no value\n"),
        ('{"value": null}', "cause: request_invalid: line 2 has neither a value nor a key\n"),
        ('{"value": "a", "vlaue": "b"}', "line 2: object contains unknown field `vlaue`\nhint: fields are value, key"),
        ('{"value": "a", "headers": {"n": 1}}', "line 2: headers[...]: expected `str"),
        ('{"value": "=", "encoding": "base64"}', "cause: request_invalid: line 2 is not valid base64: "),
        ('{"value": "a", "priority": "urgent"}', "cause: request_invalid: 'urgent' is not a priority\n"),
        ('{"value": "a", "delay": "soon"}', "line 2: delay: 'soon' is not a duration"),
        ('{"value": "a", "delay": 40000000}', "line 2: a delay of 40000000 is too long, 366 days are the most\n"),
        ('{"value": "a", "delay": true}', "line 2: delay: expected `"),
        ('{"value": "a", "deliver_at": "tomorrow"}', "line 2: 'tomorrow' is not a time: write it as in "),
        (
            '{"value": "a", "delay": 5, "deliver_at": "2026-12-24T00:00:00Z"}',
            "line 2: a message is delivered after a delay or at a time: give one of them\n",
        ),
        ("[1]", "line 2: expected `object`, got `array`\n"),
    ],
)
def test_invalid_line_is_reported_and_earlier_lines_are_published(topic: str, line: str, said: str) -> None:
    done = cli(topic, "publish", "orders", "--jsonl", "--partition", "0", given=f'{{"value": "good"}}\n{line}\n')
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("1 message published to orders before the failure\nerror: could not publish to topic")
    assert said in done.err
    assert [message["value"] for message in read(topic, "orders")] == ["good"]
