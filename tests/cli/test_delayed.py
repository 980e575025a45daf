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
from goqueue_cli.delayed import rows as delayed_rows
from tests.brokers import ask, create, publish
from tests.cli.days import day
from tests.cli.programs import cli, running


def with_delayed(url: str) -> str:
    """Publish three delayed messages."""
    create(url, "orders", 2)
    publish(url, "orders", "plain", partition=0, delay="3h")
    publish(url, "orders", '{"id": 17, "total": 45}', partition=1, delay="1h", key="k1", priority="high")
    publish(url, "orders", "ö", partition=0, delay="2d", key="k2", headers={"source": "shop"})
    return url


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    return with_delayed(broker.url)


@pytest.fixture(scope="module")
def unchanged(module_broker: LocalBroker) -> str:
    """A broker for tests that leave the delayed messages as they are."""
    return with_delayed(module_broker.url)


def listed(url: str, *flags: str) -> list[str]:
    """The places of those that are listed."""
    done = cli(url, "delayed", "list", "orders", *flags, "-o", "name")
    assert done.code == 0, done.err
    return [line.removeprefix("orders/") for line in done.out.splitlines()]


# --- list ---


def test_delayed_list_is_ordered_by_due_time(unchanged: str) -> None:
    done = cli(unchanged, "delayed", "list", "orders")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["PLACE", "DUE-IN", "DUE", "PRIORITY", "KEY", "SIZE"]
    assert [(line[0], line[1], *line[4:6]) for line in lines[1:]] == [
        ("1@0", "in", "high", "k1"), ("0@0", "in", "normal", "-"), ("0@1", "in", "normal", "k2"),
    ]  # fmt: skip
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line[3]) for line in lines[1:])
    assert (done.code, done.err) == (0, "")


def test_every_format_of_the_list_has_the_same_content(unchanged: str) -> None:
    def told(output: str) -> str:
        return cli(unchanged, "delayed", "list", "orders", "-o", output).out

    rows = json.loads(told("json"))
    assert [(row["name"], row["key"], row["state"]) for row in rows] == [
        ("orders/1@0", "k1", "pending"), ("orders/0@0", None, "pending"), ("orders/0@1", "k2", "pending"),
    ]  # fmt: skip
    assert [json.loads(line) for line in told("jsonl").splitlines()] == yaml.safe_load(told("yaml")) == rows
    assert told("csv").startswith("name,deliver_at,priority,key,size,")
    assert "SCHEDULED" in told("wide")


def test_a_topic_without_delayed_messages_has_none(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    done = cli(broker.url, "delayed", "list", "orders")
    assert (done.code, done.out, done.err) == (0, "", "there are no delayed messages in orders\n")
    assert cli(broker.url, "delayed", "list", "orders", "-o", "json").out == "[]\n"
    timeline = cli(broker.url, "delayed", "timeline", "orders", "--buckets", "1")
    assert (timeline.code, timeline.out.splitlines()[0]) == (0, "orders: 0 delayed messages")
    stats = cli(broker.url, "delayed", "stats")
    assert (stats.code, stats.out.splitlines()[0]) == (0, "0 delayed messages")


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
def test_delayed_list_is_filtered(unchanged: str, flags: list[str], places: list[str]) -> None:
    assert listed(unchanged, *flags) == places


def test_cut_list_names_the_flags_for_the_rest(unchanged: str) -> None:
    cut = cli(unchanged, "delayed", "list", "orders", "--limit", "1", "--skip", "1")
    assert cut.err == "1 of 3; `--limit 10` shows more, `--skip 2` the next\n"
    fitting = cli(unchanged, "delayed", "list", "orders", "--limit", "1", "--where", "key~k")
    assert fitting.err == "the first 1; `--limit 10` may show more\n"
    assert cli(unchanged, "delayed", "list", "orders", "--limit", "3").err == ""


def test_delayed_list_by_state(topic: str) -> None:
    ask(topic, "DELETE", "/topics/orders/delayed/0/0")
    assert listed(topic) == ["1@0", "0@1"]
    assert listed(topic, "--state", "cancelled") == ["0@0"]
    assert (
        cli(topic, "delayed", "list", "orders", "--state", "expired").err
        == "there are no such expired messages in orders\n"
    )


def test_pages_of_delayed_messages_are_complete_without_repeats(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many are due at the same moment, more than a page has."""
    create(broker.url, "orders", 2)
    for number, second in enumerate([1, 1, 1, 1, 2, 3, 3, 4]):
        publish(broker.url, "orders", "a", partition=number % 2, deliver_at=f"{day(30)}T00:00:0{second}Z")
    monkeypatch.setattr(delayed_rows, "_PAGE", 2)
    with Client(broker.url) as client:
        everything: Sequence[dict[str, Any]] = client.delayed("orders", limit=100)["messages"]
        for skip, limit in product([0, 1, 3, 5], [1, 2, 4, 9]):
            rows, total = delayed_rows.find(client, "orders", limit, skip, {})
            assert [(row["partition"], row["offset"]) for row in rows] == [
                (one["partition"], one["offset"]) for one in everything[skip : skip + limit]
            ], (skip, limit)
            assert total == 8


def test_delayed_list_watch_reports_added_and_removed(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    words = ("delayed", "list", "orders", "--watch", "--every", "100ms", "-o", "jsonl")
    with running(broker.url, *words) as process:
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
def test_mistyped_topic_gets_a_suggestion(unchanged: str, words: tuple[str, ...]) -> None:
    done = cli(unchanged, "delayed", *words)
    assert (done.code, done.out) == (5, "")
    assert "cause: topic_not_found: there is no topic 'oders'\nhint: did you mean orders?\n" in done.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--state", "canceled"], "error: --state 'canceled' is not a state\nhint: did you mean cancelled?\n"),
        (["--from", "1h"], "hint: did you mean --from +1h?\n"),
        (["--to", "17"], "hint: did you mean --to +17s?\n"),
        (["--to", "+17"], "error: --to: '+17' has no unit\nhint: did you mean --to +17s?\n"),
        (["--from", "+soon"], "error: --from: 'soon' is not a duration"),
        (["--where", "wombat"], "cause: request_invalid: filter 'wombat' at position 0"),
    ],
)
def test_delayed_list_refuses_invalid_filters(unchanged: str, flags: list[str], said: str) -> None:
    done = cli(unchanged, "delayed", "list", "orders", *flags)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


# --- describe ---


def test_delayed_describe_shows_all_details(unchanged: str) -> None:
    done = cli(unchanged, "delayed", "describe", "orders", "1@0", "orders/0@1")
    first, second = done.out.split("\n\n")
    assert first.startswith("orders/1@0\n  due        in ")
    assert "\n  priority   high\n" in first
    assert first.endswith('  value      23B of JSON\n    {\n      "id": 17,\n      "total": 45\n    }')
    assert "\n  header     source=shop\n  value      2B\n    ö\n" in second
    (row,) = json.loads(cli(unchanged, "delayed", "describe", "orders", "0@1", "-o", "json").out)
    assert (row["name"], row["value"], row["headers"], row["state"]) == (
        "orders/0@1", "ö", {"source": "shop"}, "pending",
    )  # fmt: skip


def test_offset_alone_identifies_a_unique_delayed_message(unchanged: str) -> None:
    assert cli(unchanged, "delayed", "describe", "orders", "1").out.startswith("orders/0@1\n")
    both = cli(unchanged, "delayed", "describe", "orders", "0")
    assert (both.code, both.out) == (5, "")
    assert "cause: delayed_ambiguous: the partitions 0, 1 of orders" in both.err
    assert "hint: name the partition as well, as in 0@OFFSET\n" in both.err


def test_delayed_describe_shows_a_settled_state(topic: str) -> None:
    ask(topic, "DELETE", "/topics/orders/delayed/0/0")
    assert cli(topic, "delayed", "describe", "orders", "0@0").out.startswith("orders/0@0, cancelled already\n")


@pytest.mark.parametrize(
    ("place", "code", "said"),
    [
        ("0@99", 5, "cause: delayed_not_found: "),
        ("0@99", 5, "hint: `goqueue-cli delayed list orders` shows the pending messages"),
        ("9@0", 5, "cause: partition_not_found: "),
        ("first", 2, "error: 'first' is not the place of a delayed message\nhint: write it as in 0@17\n"),
        ("prices/0@0", 2, "error: 'prices/0@0' is not in topic orders\n"),
    ],
)
def test_unknown_delayed_message_is_reported(unchanged: str, place: str, code: int, said: str) -> None:
    done = cli(unchanged, "delayed", "describe", "orders", place)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_described_message_can_be_scheduled_again(topic: str) -> None:
    kept = cli(topic, "delayed", "describe", "orders", "0@1", "-o", "jsonl").out
    assert cli(topic, "publish", "orders", "--jsonl", "--keep-partitions", given=kept).code == 0
    before, after = (
        json.loads(cli(topic, "delayed", "describe", "orders", place, "-o", "json").out)[0] for place in ("0@1", "0@2")
    )
    same = ("key", "value", "headers", "priority", "deliver_at", "state")
    assert [before[field] for field in same] == [after[field] for field in same]


# --- numbers ---


def test_timeline_counts_messages_by_due_time(unchanged: str) -> None:
    lines = cli(unchanged, "delayed", "timeline", "orders").out.splitlines()
    assert re.fullmatch(r"orders: 3 delayed messages, the next in \S+, at \S+Z", lines[0])
    assert lines[1].split() == ["DUE", "UNTIL", "MESSAGES", "SHARE"]
    counts = {line.split()[1]: int(line.split()[3]) for line in lines[2:]}
    assert counts == {
        "10s": 0, "1m": 0, "10m": 0, "1h": 1, "6h": 1, "1d": 0, "7d": 1, "30d": 0, "366d": 0,
    }  # fmt: skip
    near = cli(unchanged, "delayed", "timeline", "orders", "--buckets", "2", "--no-headers").out.splitlines()
    assert [line.split()[0] for line in near] == ["orders:", "within", "within", "later"]
    (row,) = json.loads(cli(unchanged, "delayed", "timeline", "orders", "-o", "json").out)
    assert (row["name"], row["pending"], row["overdue"], len(row["buckets"])) == ("orders", 3, 0, 9)


def test_delayed_stats_of_all_topics(topic: str) -> None:
    create(topic, "mails")
    publish(topic, "mails", "a", delay="300d")
    ask(topic, "DELETE", "/topics/orders/delayed/0/0")
    out = cli(topic, "delayed", "stats").out
    assert re.match(r"3 delayed messages, the next in \S+, at \S+Z, 1 of them parked\n", out)
    assert "  0 delivered, 1 cancelled, 0 expired, 0 rescheduled\n" in out
    assert [line.split() for line in out.splitlines()[-3:]] == [["TOPIC", "PENDING"], ["orders", "2"], ["mails", "1"]]
    (row,) = json.loads(cli(topic, "delayed", "stats", "-o", "json").out)
    assert (row["pending_count"], row["cancelled_count"], row["topics"]) == (3, 1, {"orders": 2, "mails": 1})
