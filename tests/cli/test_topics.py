"""`goqueue-cli topic` against a real broker."""

import csv
import json

import pytest
import yaml

from goqueue.testing.broker import LocalBroker
from tests.brokers import broker, create, publish
from tests.cli.programs import cli, on_a_terminal

__all__ = ["broker"]


def test_topics_are_created_with_partitions_and_settings(broker: LocalBroker) -> None:
    made = cli(
        broker.url, "topic", "create", "orders", "prices", "--partitions", "2", "--set", "cleanup=compact",
        "--set", "retention_hours=null", "--no-headers",
    )  # fmt: skip
    assert (made.code, made.out, made.err) == (0, "orders  2  created\nprices  2  created\n", "")
    (topic,) = json.loads(cli(broker.url, "topic", "describe", "prices", "-o", "json").out)
    assert (topic["partitions"], topic["config"]["cleanup"]) == (2, "compact")
    assert topic["config"]["retention_hours"] is None


def test_a_topic_that_exists_is_a_conflict_and_one_of_several_fails_alone(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    alone = cli(broker.url, "topic", "create", "orders")
    assert (alone.code, alone.out) == (5, "")
    assert alone.err == (
        "error: could not create topic orders\n"
        "cause: topic_exists: topic 'orders' exists already\n"
        "hint: `goqueue-cli topic list` shows the topics\n"
    )
    several = cli(broker.url, "topic", "create", "orders", "payments", "-o", "jsonl")
    failed, made = map(json.loads, several.out.splitlines())
    assert several.code == 1
    assert (failed["name"], failed["error"]["code"]) == ("orders", "topic_exists")
    assert (made["name"], made["result"]) == ("payments", "created")
    assert "error: could not create topic orders\n" in several.err


def test_an_unknown_setting_is_refused_with_those_that_there_are(broker: LocalBroker) -> None:
    done = cli(broker.url, "topic", "create", "orders", "--set", "retention=7")
    assert (done.code, done.out) == (2, "")
    assert "cause: request_invalid: retention is not a known field" in done.err
    assert "retention_hours" in done.err
    assert cli(broker.url, "topic", "create", "orders", "--set", "cleanup").code == 2


def test_an_empty_list_is_a_list_and_no_failure(broker: LocalBroker) -> None:
    assert cli(broker.url, "topic", "list").err == "there are no topics\n"
    answers = {output: cli(broker.url, "topic", "list", "-o", output) for output in ("json", "yaml", "jsonl", "name")}
    assert {answer.code for answer in answers.values()} == {0}
    assert {output: answer.out for output, answer in answers.items()} == {
        "json": "[]\n", "yaml": "[]\n", "jsonl": "", "name": "",
    }  # fmt: skip


def test_every_form_of_the_list_tells_the_same(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", "a", "b")

    def told(output: str) -> str:
        done = cli(broker.url, "topic", "list", "-o", output)
        assert (done.code, done.err) == (0, "")
        return done.out

    titles, row = told("table").splitlines()
    assert (titles.split(), row.split()[:3]) == (["NAME", "PARTITIONS", "MESSAGES", "SIZE"], ["orders", "2", "2"])
    assert "cleanup=delete" in told("wide")
    assert told("name") == "orders\n"
    (found,) = json.loads(told("json"))
    assert (found["name"], found["total_messages"]) == ("orders", 2)
    assert json.loads(told("jsonl")) == found
    assert yaml.safe_load(told("yaml")) == [found]
    (line,) = csv.DictReader(told("csv").splitlines())
    assert (line["total_messages"], json.loads(line["config"])) == ("2", found["config"])


def test_internal_topics_are_listed_when_asked_for(broker: LocalBroker) -> None:
    assert "__metadata\n" in cli(broker.url, "topic", "list", "--internal", "-o", "name").out


def test_a_description_has_the_settings_and_a_line_for_each_partition(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2, cleanup="compact")
    publish(broker.url, "orders", "a", partition=1)
    lines = cli(broker.url, "topic", "describe", "orders").out.splitlines()
    assert lines[0].startswith("orders: 2 partitions, 1 message, ")
    assert "  cleanup=compact" in lines
    assert [line.split() for line in lines[-3:]] == [
        ["PARTITION", "EARLIEST", "LATEST"],
        ["0", "0", "0"],
        ["1", "0", "1"],
    ]


@pytest.mark.parametrize("words", [("topic", "describe"), ("topic", "delete", "--yes"), ("consume",), ("publish",)])
def test_a_mistyped_topic_is_told_the_nearest_one(broker: LocalBroker, words: tuple[str, ...]) -> None:
    create(broker.url, "orders")
    done = cli(broker.url, *words, "oders", given="x")
    assert (done.code, done.out) == (5, "")
    assert "cause: topic_not_found: there is no topic 'oders'\nhint: did you mean orders?\n" in done.err


def test_deleting_asks_nobody_where_nobody_is(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    refused = cli(broker.url, "topic", "delete", "orders", given="y\n")
    assert (refused.code, refused.out) == (2, "")
    assert "hint: `--yes` deletes without asking" in refused.err
    done = cli(broker.url, "topic", "delete", "orders", "--yes", "--no-headers")
    assert (done.code, done.out) == (0, "orders  deleted\n")
    assert cli(broker.url, "topic", "list", "-o", "json").out == "[]\n"


def test_deleting_asks_on_a_terminal(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    refused = on_a_terminal(broker.url, "topic", "delete", "orders", typed="n\n")
    assert refused.code == 1
    assert refused.err == "delete topic orders with all messages? [y/N] nothing was deleted\n"
    agreed = on_a_terminal(broker.url, "topic", "delete", "orders", typed="y\n")
    assert agreed.code == 0
    assert cli(broker.url, "topic", "list", "-o", "json").out == "[]\n"
