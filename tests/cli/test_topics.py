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
        "hint: use it, or choose another name\n"
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
    assert (
        "cause: request_invalid: 'retention' is no setting of a topic\nhint: did you mean retention_hours?" in done.err
    )
    other = cli(broker.url, "topic", "create", "orders", "--set", "wombat=7")
    assert "hint: there are retention_hours, retention_bytes, cleanup, " in other.err


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("cleanup", "error: --set 'cleanup' is no setting\nhint: write it as in --set retention_hours=24"),
        ("name=zzz", "hint: names stand behind the command: `goqueue-cli topic create zzz`"),
        ("num_partitions=3", "hint: `--partitions 3` says how many there are"),
        ("auto=true", "error: --set: auto is not a setting of a topic"),
        ("retention_hours=soon", "hint: write it as in --set retention_hours=24, or retention_hours=null for no end"),
        ("retention_hours=7d", "hint: did you mean --set retention_hours=168?"),
        ("segment_bytes=1XiB", "error: --set segment_bytes: '1XiB' has the unknown unit 'XiB'"),
    ],
)
def test_what_cannot_be_a_setting_is_told_in_terms_of_the_flag(setting: str, said: str) -> None:
    done = cli("", "topic", "create", "orders", "--set", setting)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_size_may_have_a_unit(broker: LocalBroker) -> None:
    done = cli(broker.url, "topic", "create", "orders", "--set", "max_message_bytes=2MiB", "-o", "jsonl")
    assert json.loads(done.out)["config"]["max_message_bytes"] == 2 * 2**20


def test_a_topic_that_resembles_no_other_is_looked_for_in_the_list(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    for words in (["topic", "describe"], ["topic", "delete", "--yes"], ["consume"]):
        assert "hint: `goqueue-cli topic list` shows the topics\n" in cli(broker.url, *words, "wombats").err


@pytest.mark.parametrize("words", [["topic", "create"], ["topic", "delete"], ["consume"], ["publish"]])
def test_an_empty_name_is_told_to_be_none(words: list[str]) -> None:
    done = cli("", *words, "")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: '' is not the name of a topic\n")


def test_a_name_that_is_far_too_long_is_cut_where_it_is_told(broker: LocalBroker) -> None:
    done = cli(broker.url, "topic", "create", "n" * 300)
    assert done.err.splitlines()[0] == f"error: could not create topic {'n' * 77}..."


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
    assert line.keys() == found.keys()


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
