"""`goqueue-cli group reset` against a real broker: what it says before, what it does, and how it is undone."""

import json
import re

import pytest

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.cli.letterbox import at_work, settle
from tests.cli.programs import Done, cli, on_a_terminal


def five_read(broker: LocalBroker) -> None:
    """Five of eight messages of `orders` are done."""
    create(broker.url, "orders")
    publish(broker.url, "orders", *"abcde")
    settle(broker.url, lambda message: message.ack())
    publish(broker.url, "orders", *"fgh")


def committed(broker: LocalBroker, group: str = "billing") -> dict[str, dict[int, int]]:
    with Client(broker.url) as client:
        return client.group_offsets(group)


def resets(broker: LocalBroker) -> list[int]:
    """The ids of all recorded resets."""
    with Client(broker.url) as client:
        return [one.id for one in client.operations(kind="group_reset")]


def test_a_dry_run_shows_what_each_partition_would_lose_and_changes_nothing(broker: LocalBroker) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", "--to", "earliest", "--dry-run")
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()] == [
        ["PARTITION", "BEFORE", "AFTER", "READ-AGAIN", "SKIPPED"],
        ["orders/0", "5", "0", "5", "0"],
    ]
    assert done.err == "that would mean at most 5 messages read again\n"
    assert committed(broker) == {"orders": {0: 5}}
    assert resets(broker) == []


@pytest.mark.parametrize(
    ("words", "after", "again", "skipped"),
    [
        (["--to", "earliest"], 0, 5, 0),
        (["--to", "latest"], 8, 0, 3),
        (["--to", "now"], 8, 0, 3),
        (["--to", "2"], 2, 3, 0),
        (["--shift", "-4"], 1, 4, 0),
        (["--shift", "+2"], 7, 0, 2),
        (["--shift", "-400"], 0, 5, 0),
        (["--to", "-1h"], 0, 5, 0),
        (["--to", "2020-01-01"], 0, 5, 0),
        (["--to", "2020-01-01T00:00:00+02:00"], 0, 5, 0),
        (["--to", "2200-01-01"], 8, 0, 3),
    ],
)
def test_reset_to_every_kind_of_position(
    broker: LocalBroker, words: list[str], after: int, again: int, skipped: int
) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", *words, "--yes", "-o", "jsonl")
    row = json.loads(done.out)
    assert done.code == 0
    assert (row["before"], row["after"], row["again"], row["skipped"]) == (5, after, again, skipped)
    assert (row["name"], row["result"]) == ("billing/orders/0", "reset")
    assert committed(broker) == {"orders": {0: after}}


def test_reset_counts_acks_above_the_offset(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "poison", *"abcd")
    settle(broker.url, lambda one: one.nack(delay="1h") if one.value == b"poison" else one.ack())
    done = cli(broker.url, "group", "reset", "billing", "--shift", "+1", "--dry-run")
    assert done.out.splitlines()[1].split() == ["orders/0", "0", "1", "4", "1"]
    assert done.err == "that would mean at most 4 messages read again and 1 message skipped\n"


def test_topics_and_partitions_are_chosen(broker: LocalBroker) -> None:
    for topic in ("orders", "payments"):
        create(broker.url, topic, 2)
        for partition in (0, 1):
            publish(broker.url, topic, "a", partition=partition)
        settle(broker.url, lambda message: message.ack(), topic=topic)
    words = ["--topic", "orders", "--partition", "1", "--to", "0", "--yes"]
    done = cli(broker.url, "group", "reset", "billing", *words)
    assert done.code == 0
    assert committed(broker) == {"orders": {0: 1, 1: 0}, "payments": {0: 1, 1: 1}}
    everything = cli(broker.url, "group", "reset", "billing", "--to", "0", "--dry-run", "-o", "name")
    assert everything.out.split() == [f"billing/{topic}/{n}" for topic in ("orders", "payments") for n in (0, 1)]


def test_reset_asks_on_a_terminal_with_its_cost(broker: LocalBroker) -> None:
    five_read(broker)
    refused = on_a_terminal(broker.url, "group", "reset", "billing", "--to", "earliest", typed="n\n")
    assert refused.code == 1
    assert refused.err == (
        "  orders/0: 5 -> 0, 5 again\nreset group billing, at most 5 messages read again? [y/N] nothing was changed\n"
    )
    assert resets(broker) == []
    agreed = on_a_terminal(broker.url, "group", "reset", "billing", "--to", "earliest", typed="y\n")
    assert agreed.code == 0
    assert committed(broker) == {"orders": {0: 0}}


def test_confirmation_is_required_without_a_terminal(broker: LocalBroker) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", "--to", "latest", given="y\n")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: confirmation required to reset group billing, at most 3 messages skipped\nhint: `--yes` confirms it\n"
    )
    assert committed(broker) == {"orders": {0: 5}}


def test_reset_reports_active_members(broker: LocalBroker) -> None:
    five_read(broker)
    with at_work(broker.url):
        done = cli(broker.url, "group", "reset", "billing", "--to", "latest")
    assert "at most 3 messages skipped, while it has 1 active member\n" in done.err


def test_reset_creates_a_group_only_with_create(broker: LocalBroker) -> None:
    five_read(broker)
    words = ["group", "reset", "shipping", "--topic", "orders", "--to", "latest", "--yes"]
    assert cli(broker.url, *words).code == 5
    assert "shipping" not in ask(broker.url, "GET", "/groups").json["groups"]
    assert cli(broker.url, *words, "--create").code == 0
    assert committed(broker, "shipping") == {"orders": {0: 8}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "error: no target: give --to or --shift\nhint: use one of them, as in --to earliest"),
        (["--to", "latest", "--shift", "1"], "error: --to and --shift exclude each other\n"),
        (["--shift", "0"], "error: --shift 0 moves nothing\n"),
        (["--shift", "few"], "error: --shift: 'few' is not a whole number\n"),
        (["--to", "-100"], "hint: `--shift -100` counts messages, `--to -100s` goes to what came 100 seconds ago\n"),
        (["--to", "+100"], "error: --to: '+100' has no unit\nhint: `--shift +100` counts messages\n"),
        (["--to", "yesterday"], "error: --to: 'yesterday' is not a time"),
        (["--to", "1h"], "hint: did you mean --to -1h?"),
        (["--to", "latest", "--topic", ""], "error: '' is not the name of a topic\n"),
    ],
)
def test_reset_refuses_invalid_targets(words: list[str], said: str) -> None:
    done = cli("", "group", "reset", "billing", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_reset_to_a_missing_offset_is_refused(broker: LocalBroker) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", "--to", "500", "--yes")
    assert (done.code, done.out) == (5, "")
    assert "cause: offset_out_of_range: partition orders/0 has no offset 500: it holds 0 up to 8\n" in done.err
    assert resets(broker) == []


def test_an_unknown_topic_is_told_the_nearest_one(broker: LocalBroker) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", "--topic", "oders", "--to", "latest")
    assert done.code == 5
    assert "hint: did you mean orders?\n" in done.err


def undone(done: Done) -> list[str]:
    """The command that was said to undo it, without the program's name."""
    found = re.search(r"`goqueue-cli (undo \d+)(?: --server \S+)?` undoes", done.err)
    assert found is not None, done.err
    return found[1].split()


def test_undo_command_of_a_reset_restores_offsets(broker: LocalBroker) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", "--to", "latest", "--yes")
    back = cli(broker.url, *undone(done), "--yes")
    assert (back.code, back.out.splitlines()[1].split()) == (0, ["orders/0", "8", "5"])
    assert committed(broker) == {"orders": {0: 5}}
    again = cli(broker.url, *undone(back), "--yes")
    assert again.code == 0
    assert committed(broker) == {"orders": {0: 8}}
