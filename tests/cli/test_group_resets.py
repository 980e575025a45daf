"""`goqueue-cli group reset` against a real broker: what it says before, what it does, and how it is undone."""

import json
import re
from pathlib import Path

import pytest

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, broker, create, publish
from tests.cli.letterbox import at_work, settle
from tests.cli.programs import Done, cli, on_a_terminal

__all__ = ["broker"]


@pytest.fixture
def home(tmp_path: Path) -> str:
    """Where undo files go."""
    return str(tmp_path)


def five_read(broker: LocalBroker) -> None:
    """Five of eight messages of `orders` are done."""
    create(broker.url, "orders")
    publish(broker.url, "orders", *"abcde")
    settle(broker.url, lambda message: message.ack())
    publish(broker.url, "orders", *"fgh")


def committed(broker: LocalBroker, group: str = "billing") -> dict[str, dict[int, int]]:
    with Client(broker.url) as client:
        return client.group_offsets(group)


def undo_files(home: str) -> list[Path]:
    return sorted(Path(home, ".goqueue", "undo").glob("*"))


def test_a_dry_run_shows_what_each_partition_would_lose_and_changes_nothing(broker: LocalBroker, home: str) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", "--to", "earliest", "--dry-run", HOME=home)
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()] == [
        ["PARTITION", "BEFORE", "AFTER", "READ-AGAIN", "SKIPPED"],
        ["orders/0", "5", "0", "5", "0"],
    ]
    assert done.err == "that would mean at most 5 messages read again\n"
    assert committed(broker) == {"orders": {0: 5}}
    assert undo_files(home) == []


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
def test_every_place_can_be_gone_to(
    broker: LocalBroker, home: str, words: list[str], after: int, again: int, skipped: int
) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", *words, "--yes", "-o", "jsonl", HOME=home)
    row = json.loads(done.out)
    assert done.code == 0
    assert (row["before"], row["after"], row["again"], row["skipped"]) == (5, after, again, skipped)
    assert (row["name"], row["result"]) == ("billing/orders/0", "reset")
    assert committed(broker) == {"orders": {0: after}}


def test_what_was_done_behind_a_message_that_was_not_is_counted_too(broker: LocalBroker, home: str) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "poison", *"abcd")
    settle(broker.url, lambda one: one.nack(delay="1h") if one.value == b"poison" else one.ack())
    done = cli(broker.url, "group", "reset", "billing", "--shift", "+1", "--dry-run", HOME=home)
    assert done.out.splitlines()[1].split() == ["orders/0", "0", "1", "4", "1"]
    assert done.err == "that would mean at most 4 messages read again and 1 message skipped\n"


def test_topics_and_partitions_are_chosen(broker: LocalBroker, home: str) -> None:
    for topic in ("orders", "payments"):
        create(broker.url, topic, 2)
        for partition in (0, 1):
            publish(broker.url, topic, "a", partition=partition)
        settle(broker.url, lambda message: message.ack(), topic=topic)
    words = ["--topic", "orders", "--partition", "1", "--to", "0", "--yes"]
    done = cli(broker.url, "group", "reset", "billing", *words, HOME=home)
    assert done.code == 0
    assert committed(broker) == {"orders": {0: 1, 1: 0}, "payments": {0: 1, 1: 1}}
    everything = cli(broker.url, "group", "reset", "billing", "--to", "0", "--dry-run", "-o", "name", HOME=home)
    assert everything.out.split() == [f"billing/{topic}/{n}" for topic in ("orders", "payments") for n in (0, 1)]


def test_it_asks_on_a_terminal_with_what_it_costs(broker: LocalBroker, home: str) -> None:
    five_read(broker)
    refused = on_a_terminal(broker.url, "group", "reset", "billing", "--to", "earliest", typed="n\n", HOME=home)
    assert refused.code == 1
    assert refused.err == (
        "  orders/0: 5 -> 0, 5 again\nreset group billing, at most 5 messages read again? [y/N] nothing was changed\n"
    )
    assert undo_files(home) == []
    agreed = on_a_terminal(broker.url, "group", "reset", "billing", "--to", "earliest", typed="y\n", HOME=home)
    assert agreed.code == 0
    assert committed(broker) == {"orders": {0: 0}}


def test_nobody_is_asked_where_nobody_is(broker: LocalBroker, home: str) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", "--to", "latest", given="y\n", HOME=home)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: nobody can be asked whether to reset group billing, at most 3 messages skipped\n"
        "hint: `--yes` does it without asking\n"
    )
    assert committed(broker) == {"orders": {0: 5}}


def test_members_that_are_at_work_are_told_of(broker: LocalBroker, home: str) -> None:
    five_read(broker)
    with at_work(broker.url):
        done = cli(broker.url, "group", "reset", "billing", "--to", "latest", HOME=home)
    assert "at most 3 messages skipped, while 1 member is at work\n" in done.err


def test_a_group_is_made_only_when_that_is_asked_for(broker: LocalBroker, home: str) -> None:
    five_read(broker)
    words = ["group", "reset", "shipping", "--topic", "orders", "--to", "latest", "--yes"]
    assert cli(broker.url, *words, HOME=home).code == 5
    assert "shipping" not in ask(broker.url, "GET", "/groups").json["groups"]
    assert cli(broker.url, *words, "--create", HOME=home).code == 0
    assert committed(broker, "shipping") == {"orders": {0: 8}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "error: nothing says where to\nhint: give one of the two, as in --to earliest"),
        (["--to", "latest", "--shift", "1"], "error: --to and --shift both say where to\n"),
        (["--shift", "0"], "error: --shift 0 moves nothing\n"),
        (["--shift", "few"], "error: --shift: 'few' is not a whole number\n"),
        (["--to", "-100"], "hint: `--shift -100` counts messages, `--to -100s` goes to what came 100 seconds ago\n"),
        (["--to", "+100"], "error: --to: '+100' has no unit\nhint: `--shift +100` counts messages\n"),
        (["--to", "yesterday"], "error: --to: 'yesterday' is not a time"),
        (["--to", "1h"], "hint: did you mean --to -1h?"),
        (["--to", "latest", "--topic", ""], "error: '' is not the name of a topic\n"),
    ],
)
def test_what_says_no_place_is_refused(words: list[str], said: str) -> None:
    done = cli("", "group", "reset", "billing", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_an_offset_that_is_not_there_is_refused_and_nothing_is_written(broker: LocalBroker, home: str) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", "--to", "500", "--yes", HOME=home)
    assert (done.code, done.out) == (5, "")
    assert "cause: offset_out_of_range: orders/0 has no offset 500: it holds 0 up to 8\n" in done.err
    assert undo_files(home) == []


def test_an_unknown_topic_is_told_the_nearest_one(broker: LocalBroker, home: str) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", "--topic", "oders", "--to", "latest", HOME=home)
    assert done.code == 5
    assert "hint: did you mean orders?\n" in done.err


def test_without_a_place_for_what_undoes_it_nothing_is_changed(broker: LocalBroker, tmp_path: Path) -> None:
    five_read(broker)
    file = tmp_path / "file"
    file.write_text("")
    done = cli(broker.url, "group", "reset", "billing", "--to", "latest", "--yes", HOME=str(file))
    assert done.code == 2
    assert "hint: nothing was changed; make room there" in done.err
    assert committed(broker) == {"orders": {0: 5}}


def undone(done: Done) -> list[str]:
    """The command that was said to undo it, without the program's name."""
    found = re.search(r"`goqueue-cli (undo \S+)(?: --server \S+)?` undoes", done.err)
    assert found is not None, done.err
    return found[1].split()


def test_the_command_that_it_says_undoes_it(broker: LocalBroker, home: str) -> None:
    five_read(broker)
    done = cli(broker.url, "group", "reset", "billing", "--to", "latest", "--yes", HOME=home)
    (file,) = undo_files(home)
    assert file.stat().st_mode & 0o777 == 0o600
    back = cli(broker.url, *undone(done), "--yes", HOME=home)
    assert (back.code, back.out.splitlines()[1].split()) == (0, ["orders/0", "8", "5", "3", "0"])
    assert committed(broker) == {"orders": {0: 5}}
    again = cli(broker.url, *undone(back), "--yes", HOME=home)
    assert again.code == 0
    assert committed(broker) == {"orders": {0: 8}}
