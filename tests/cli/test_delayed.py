"""`goqueue-cli delayed` against a real broker: which messages wait, and what each of them holds."""

import json
import re
import signal
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import yaml

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from goqueue_cli.delayed import messages
from tests.brokers import ask, broker, create, publish
from tests.cli.days import day
from tests.cli.programs import cli, running

__all__ = ["broker"]


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    """Topic `orders` with three messages that wait: the address of the broker."""
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", "plain", partition=0, delay="3h")
    publish(broker.url, "orders", '{"id": 17, "total": 45}', partition=1, delay="1h", key="k1", priority="high")
    publish(broker.url, "orders", "ö", partition=0, delay="2d", key="k2", headers={"source": "shop"})
    return broker.url


def listed(url: str, *flags: str) -> list[str]:
    """The places of those that are listed."""
    done = cli(url, "delayed", "list", "orders", *flags, "-o", "name")
    assert done.code == 0, done.err
    return [line.removeprefix("orders/") for line in done.out.splitlines()]


# --- list ---


def test_messages_are_listed_by_when_they_are_due(topic: str) -> None:
    done = cli(topic, "delayed", "list", "orders")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["PLACE", "DUE-IN", "DUE", "PRIORITY", "KEY", "SIZE"]
    assert [(line[0], line[1], *line[4:6]) for line in lines[1:]] == [
        ("1@0", "in", "high", "k1"), ("0@0", "in", "normal", "-"), ("0@1", "in", "normal", "k2"),
    ]  # fmt: skip
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line[3]) for line in lines[1:])
    assert (done.code, done.err) == (0, "")


def test_every_form_of_the_list_tells_the_same(topic: str) -> None:
    def told(output: str) -> str:
        return cli(topic, "delayed", "list", "orders", "-o", output).out

    rows = json.loads(told("json"))
    assert [(row["name"], row["key"], row["state"]) for row in rows] == [
        ("orders/1@0", "k1", "pending"), ("orders/0@0", None, "pending"), ("orders/0@1", "k2", "pending"),
    ]  # fmt: skip
    assert [json.loads(line) for line in told("jsonl").splitlines()] == yaml.safe_load(told("yaml")) == rows
    assert told("csv").startswith("name,deliver_at,priority,key,size,")
    assert "SCHEDULED" in told("wide")


def test_a_topic_where_nothing_waits_has_none(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    done = cli(broker.url, "delayed", "list", "orders")
    assert (done.code, done.out, done.err) == (0, "", "there are no delayed messages in orders\n")
    assert cli(broker.url, "delayed", "list", "orders", "-o", "json").out == "[]\n"


@pytest.mark.parametrize(
    ("flags", "places"),
    [
        (["--partition", "0"], ["0@0", "0@1"]),
        (["--to", "+2h"], ["1@0"]),
        (["--from", "+2h"], ["0@0", "0@1"]),
        (["--from", "+2h", "--to", "+1d"], ["0@0"]),
        (["--from", "earliest", "--to", "latest"], ["1@0", "0@0", "0@1"]),
        (["--to", "now"], []),
        (["--where", "json.total>40"], ["1@0"]),
        (["--where", "key~k", "--where", "header.source=shop"], ["0@1"]),
        (["--limit", "2"], ["1@0", "0@0"]),
        (["--limit", "2", "--skip", "1"], ["0@0", "0@1"]),
        (["--limit", "0"], []),
        (["--state", "cancelled"], []),
        (["--sort-by", "name"], ["0@0", "0@1", "1@0"]),
    ],
)
def test_a_list_may_be_of_some(topic: str, flags: list[str], places: list[str]) -> None:
    assert listed(topic, *flags) == places


def test_a_list_that_was_cut_says_how_to_see_the_rest(topic: str) -> None:
    cut = cli(topic, "delayed", "list", "orders", "--limit", "1", "--skip", "1")
    assert cut.err == "1 of 3; `--limit 10` shows more, `--skip 2` the next\n"
    fitting = cli(topic, "delayed", "list", "orders", "--limit", "1", "--where", "key~k")
    assert fitting.err == "the first 1; `--limit 10` may show more\n"
    assert cli(topic, "delayed", "list", "orders", "--limit", "3").err == ""


def test_settled_messages_are_listed_by_their_state(topic: str) -> None:
    ask(topic, "DELETE", "/topics/orders/delayed/0/0")
    assert listed(topic) == ["1@0", "0@1"]
    assert listed(topic, "--state", "cancelled") == ["0@0"]
    assert (
        cli(topic, "delayed", "list", "orders", "--state", "expired").err
        == "there are no such expired messages in orders\n"
    )


@pytest.mark.parametrize(("skip", "limit"), list(product([0, 1, 3, 5], [1, 2, 4, 9])))
def test_pages_pass_over_nothing_and_repeat_nothing(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch, skip: int, limit: int
) -> None:
    """Many are due at the same moment, more than a page has."""
    create(broker.url, "orders", 2)
    for number, second in enumerate([1, 1, 1, 1, 2, 3, 3, 4]):
        publish(broker.url, "orders", "a", partition=number % 2, deliver_at=f"{day(30)}T00:00:0{second}Z")
    monkeypatch.setattr(messages, "_PAGE", 2)
    with Client(broker.url) as client:
        everything: Sequence[dict[str, Any]] = client.delayed("orders", limit=100)["messages"]
        rows, total = messages.found(client, "orders", limit, skip, {})
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (one["partition"], one["offset"]) for one in everything[skip : skip + limit]
    ]
    assert total == 8


def test_who_watches_sees_them_come_and_go(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    words = ("delayed", "list", "orders", "--watch", "--every", "100ms", "-o", "jsonl")
    with running(broker.url, *words) as process:
        assert process.stdout is not None
        publish(broker.url, "orders", "a", delay="1h")
        added = json.loads(process.stdout.readline())
        assert (added["event"], added["name"], added["state"]) == ("added", "orders/0@0", "pending")
        ask(broker.url, "POST", "/topics/orders/delayed/0/0/deliver", {})
        assert json.loads(process.stdout.readline())["event"] == "removed"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


@pytest.mark.parametrize(
    "words",
    [
        ("list", "oders"),
        ("describe", "oders", "0@0"),
        ("timeline", "oders"),
        ("cancel", "oders", "0@0", "--yes"),
        ("deliver", "oders", "--all", "--yes"),
        ("reschedule", "oders", "--all", "--delay", "1h"),
    ],
)
def test_a_mistyped_topic_is_told_the_nearest_one(topic: str, words: tuple[str, ...]) -> None:
    done = cli(topic, "delayed", *words)
    assert (done.code, done.out) == (5, "")
    assert "cause: topic_not_found: there is no topic 'oders'\nhint: did you mean orders?\n" in done.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--state", "canceled"], "error: --state 'canceled' is no state\nhint: did you mean cancelled?\n"),
        (["--from", "1h"], "hint: did you mean --from +1h?\n"),
        (["--to", "17"], "hint: did you mean --to +17s?\n"),
        (["--to", "+17"], "error: --to: '+17' has no unit\nhint: did you mean --to +17s?\n"),
        (["--from", "+soon"], "error: --from: 'soon' is not a duration"),
        (["--where", "wombat"], "cause: request_invalid: filter 'wombat' at position 0"),
    ],
)
def test_what_cannot_choose_is_refused(topic: str, flags: list[str], said: str) -> None:
    done = cli(topic, "delayed", "list", "orders", *flags)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


# --- describe ---


def test_a_message_is_shown_in_full(topic: str) -> None:
    done = cli(topic, "delayed", "describe", "orders", "1@0", "orders/0@1")
    first, second = done.out.split("\n\n")
    assert first.startswith("orders/1@0\n  due        in ")
    assert "\n  priority   high\n" in first
    assert first.endswith('  value      23B of JSON\n    {\n      "id": 17,\n      "total": 45\n    }')
    assert "\n  header     source=shop\n  value      2B\n    ö\n" in second
    (row,) = json.loads(cli(topic, "delayed", "describe", "orders", "0@1", "-o", "json").out)
    assert (row["name"], row["value"], row["headers"], row["state"]) == (
        "orders/0@1", "ö", {"source": "shop"}, "pending",
    )  # fmt: skip


def test_the_offset_is_enough_where_one_partition_has_it(topic: str) -> None:
    assert cli(topic, "delayed", "describe", "orders", "1").out.startswith("orders/0@1\n")
    both = cli(topic, "delayed", "describe", "orders", "0")
    assert (both.code, both.out) == (5, "")
    assert "cause: delayed_ambiguous: the partitions 0, 1 of orders" in both.err
    assert "hint: name the partition as well, as in 0@0\n" in both.err


def test_one_that_is_settled_says_so(topic: str) -> None:
    ask(topic, "DELETE", "/topics/orders/delayed/0/0")
    assert cli(topic, "delayed", "describe", "orders", "0@0").out.startswith("orders/0@0, cancelled already\n")


@pytest.mark.parametrize(
    ("place", "code", "said"),
    [
        ("0@99", 5, "cause: delayed_not_found: "),
        ("0@99", 5, "hint: `goqueue-cli delayed list orders` shows those that wait"),
        ("9@0", 5, "cause: partition_not_found: "),
        ("first", 2, "error: 'first' is not the place of a delayed message\nhint: write it as in 0@17\n"),
        ("prices/0@0", 2, "error: 'prices/0@0' is not in topic orders\n"),
    ],
)
def test_a_place_where_nothing_waits_is_told(topic: str, place: str, code: int, said: str) -> None:
    done = cli(topic, "delayed", "describe", "orders", place)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_what_a_description_writes_can_be_scheduled_again(topic: str) -> None:
    kept = cli(topic, "delayed", "describe", "orders", "0@1", "-o", "jsonl").out
    assert cli(topic, "publish", "orders", "--jsonl", "--keep-partitions", given=kept).code == 0
    before, after = (
        json.loads(cli(topic, "delayed", "describe", "orders", place, "-o", "json").out)[0] for place in ("0@1", "0@2")
    )
    same = ("key", "value", "headers", "priority", "deliver_at", "state")
    assert [before[field] for field in same] == [after[field] for field in same]


# --- numbers ---


def test_a_timeline_counts_what_is_due_when(topic: str) -> None:
    lines = cli(topic, "delayed", "timeline", "orders").out.splitlines()
    assert re.fullmatch(r"orders: 3 delayed messages, the next in \S+, at \S+Z", lines[0])
    assert lines[1].split() == ["DUE", "UNTIL", "MESSAGES", "SHARE"]
    counts = {line.split()[1]: int(line.split()[3]) for line in lines[2:]}
    assert counts == {
        "10s": 0, "1m": 0, "10m": 0, "1h": 1, "6h": 1, "1d": 0, "7d": 1, "30d": 0, "366d": 0,
    }  # fmt: skip
    near = cli(topic, "delayed", "timeline", "orders", "--buckets", "2", "--no-headers").out.splitlines()
    assert [line.split()[0] for line in near] == ["orders:", "within", "within", "later"]
    (row,) = json.loads(cli(topic, "delayed", "timeline", "orders", "-o", "json").out)
    assert (row["name"], row["pending"], row["overdue"], len(row["buckets"])) == ("orders", 3, 0, 9)


def test_a_timeline_of_nothing_is_empty(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    done = cli(broker.url, "delayed", "timeline", "orders", "--buckets", "1")
    assert (done.code, done.out.splitlines()[0]) == (0, "orders: 0 delayed messages")


def test_the_numbers_of_all_topics_are_told(topic: str) -> None:
    create(topic, "mails")
    publish(topic, "mails", "a", delay="300d")
    ask(topic, "DELETE", "/topics/orders/delayed/0/0")
    out = cli(topic, "delayed", "stats").out
    assert re.match(r"3 delayed messages, the next in \S+, at \S+Z, 1 of them parked\n", out)
    assert "  0 delivered, 1 cancelled, 0 expired, 0 rescheduled\n" in out
    assert [line.split() for line in out.splitlines()[-3:]] == [["TOPIC", "PENDING"], ["orders", "2"], ["mails", "1"]]
    (row,) = json.loads(cli(topic, "delayed", "stats", "-o", "json").out)
    assert (row["pending_count"], row["cancelled_count"], row["topics"]) == (3, 1, {"orders": 2, "mails": 1})


def test_numbers_of_nothing_are_no_failure(broker: LocalBroker) -> None:
    done = cli(broker.url, "delayed", "stats")
    assert (done.code, done.out.splitlines()[0]) == (0, "0 delayed messages")
