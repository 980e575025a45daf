"""`goqueue-cli delayed cancel`, `reschedule` and `deliver` against a real broker."""

import json
from pathlib import Path
from typing import Any

import pytest

from goqueue.quantities import parse_time
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, broker, create, publish, read
from tests.cli.days import day
from tests.cli.programs import cli, on_a_terminal

__all__ = ["broker"]


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    """Topic `orders` with four messages that wait: the address of the broker."""
    create(broker.url, "orders")
    for number in range(4):
        publish(broker.url, "orders", f"{number}", key=f"k{number % 2}", deliver_at=f"{day(30 + number)}T00:00:00Z")
    return broker.url


def pending(url: str) -> dict[int, str]:
    """When each is due, by its offset."""
    found = ask(url, "GET", "/topics/orders/delayed").json["messages"]
    return {one["offset"]: one["deliver_at"][:19] for one in sorted(found, key=lambda one: int(one["offset"]))}


def rows(out: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(out)
    return found


# --- those that are named ---


def test_a_cancelled_message_is_never_delivered(topic: str) -> None:
    done = cli(topic, "delayed", "cancel", "orders", "0@1", "orders/0@3", "--yes", "-o", "json")
    assert done.code == 0
    assert [(row["name"], row["result"], row["value"]) for row in rows(done.out)] == [
        ("orders/0@1", "cancelled", "1"), ("orders/0@3", "cancelled", "3"),
    ]  # fmt: skip
    assert list(pending(topic)) == [0, 2]


def test_what_a_cancellation_writes_can_be_scheduled_again(topic: str) -> None:
    gone = cli(topic, "delayed", "cancel", "orders", "0@1", "--yes", "-o", "jsonl").out
    assert cli(topic, "publish", "orders", "--jsonl", given=gone).code == 0
    assert sorted(pending(topic).values()) == [f"{day(number)}T00:00:00" for number in (30, 31, 32, 33)]


def test_a_settled_message_is_a_conflict_and_one_of_several_fails_alone(topic: str) -> None:
    words = ("delayed", "cancel", "orders", "0@1", "--yes")
    assert cli(topic, *words).code == 0
    again = cli(topic, *words)
    assert (again.code, again.out) == (5, "")
    assert again.err == (
        "error: could not cancel delayed message orders/0@1\n"
        "cause: delayed_not_pending: message orders/0@1 is cancelled\n"
        "hint: nothing changes it any more\n"
    )
    several = cli(topic, "delayed", "deliver", "orders", "0@1", "0@2", "--no-headers")
    assert several.code == 1
    assert [line.split()[-1] for line in several.out.splitlines()] == ["failed", "delivered"]


def test_cancelling_asks_nobody_where_nobody_is(topic: str) -> None:
    refused = cli(topic, "delayed", "cancel", "orders", "0@1", given="y\n")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        "error: nobody can be asked whether to cancel delayed message 0@1 of topic orders\n"
        "hint: `--yes` does it without asking\n"
    )
    assert len(pending(topic)) == 4


def test_cancelling_asks_on_a_terminal(topic: str) -> None:
    no = on_a_terminal(topic, "delayed", "cancel", "orders", "0@1", "0@2", typed="n\n")
    assert no.code == 1
    assert no.err == "cancel delayed messages 0@1, 0@2 of topic orders? [y/N] nothing was changed\n"
    assert on_a_terminal(topic, "delayed", "cancel", "orders", "0@1", typed="y\n").code == 0
    assert list(pending(topic)) == [0, 2, 3]


@pytest.mark.parametrize(
    ("flags", "due"),
    [
        (["--at", f"{day(50)}T18:00:00Z"], f"{day(50)}T18:00:00"),
        (["--at", day(50)], f"{day(50)}T00:00:00"),
        (["--shift", "+1h30m"], f"{day(31)}T01:30:00"),
        (["--shift", "1h"], f"{day(31)}T01:00:00"),
        (["--shift", "-1d"], f"{day(30)}T00:00:00"),
    ],
)
def test_a_message_is_delivered_at_another_time(topic: str, flags: list[str], due: str) -> None:
    words = ("delayed", "reschedule", "orders", "0@1", *flags, "-o", "json")
    for dry in (["--dry-run"], []):
        (row,) = rows(cli(topic, *words, *dry).out)
        assert (row["before"][:19], row["deliver_at"][:19]) == (f"{day(31)}T00:00:00", due)
        assert row["result"] == ("would be rescheduled" if dry else "rescheduled")
        assert pending(topic)[1] == (f"{day(31)}T00:00:00" if dry else due)


def test_a_delay_begins_anew(topic: str) -> None:
    (row,) = rows(cli(topic, "delayed", "reschedule", "orders", "0@1", "--delay", "5m", "-o", "json").out)
    now = parse_time(ask(topic, "GET", "/health").json["timestamp"])
    assert 0 <= now + 300 * 10**9 - parse_time(row["deliver_at"]) < 60 * 10**9


def test_a_delivered_message_is_in_the_topic(topic: str) -> None:
    dry = cli(topic, "delayed", "deliver", "orders", "0@2", "--dry-run", "--no-headers")
    assert (dry.code, dry.out.endswith("would be delivered\n"), read(topic, "orders")) == (0, True, [])
    done = cli(topic, "delayed", "deliver", "orders", "2")
    assert (done.code, done.out.split()[-1], done.err) == (0, "delivered", "")
    (message,) = map(json.loads, cli(topic, "consume", "orders", "-o", "jsonl").out.splitlines())
    assert (message["value"], message["key"], message["delayed_offset"]) == ("2", "k0", 2)


def test_what_was_delayed_once_is_published_again_as_any_message(topic: str) -> None:
    cli(topic, "delayed", "deliver", "orders", "0@2")
    consumed = cli(topic, "consume", "orders", "-o", "jsonl").out
    assert cli(topic, "publish", "orders", "--jsonl", given=consumed).code == 0
    assert [message["value"] for message in read(topic, "orders")] == ["2", "2"]


# --- those that filters choose ---


@pytest.mark.parametrize(("verb", "flags"), [("cancel", []), ("deliver", []), ("reschedule", ["--shift", "+1h"])])
def test_chosen_messages_are_counted_and_somebody_is_asked(topic: str, verb: str, flags: list[str]) -> None:
    words = ("delayed", verb, "orders", "--where", "key=k1", *flags)
    done = {"cancel": "cancelled", "deliver": "delivered", "reschedule": "rescheduled"}[verb]
    before = pending(topic)
    dry = cli(topic, *words, "--dry-run")
    assert [line.split() for line in dry.out.splitlines()] == [["TOPIC", "MATCHED", "SCANNED"], ["orders", "2", "4"]]
    assert dry.err == f"2 delayed messages of orders would be {done}\n"
    refused = cli(topic, *words)
    assert (refused.code, refused.out) == (2, "")
    assert f"nobody can be asked whether to {verb} 2 delayed messages of topic orders\n" in refused.err
    no = on_a_terminal(topic, *words, typed="n\n")
    assert (no.code, no.err) == (1, f"{verb} 2 delayed messages of topic orders? [y/N] nothing was changed\n")
    assert pending(topic) == before
    (row,) = rows(cli(topic, *words, "--yes", "-o", "json").out)
    assert (row["matched"], row["scanned"], row["changed"], row["complete"]) == (2, 4, 2, True)
    assert {offset for offset, due in before.items() if pending(topic).get(offset) != due} == {1, 3}


def test_chosen_messages_may_be_few_or_all(topic: str) -> None:
    words = ("delayed", "cancel", "orders", "--yes", "--no-headers")
    assert cli(topic, *words, "--all", "--limit", "1").out.split()[:2] == ["orders", "1"]
    assert cli(topic, *words, "--from", day(32), "--to", f"{day(32)}T12:00").out.split()[:2] == ["orders", "1"]
    assert list(pending(topic)) == [1, 3]
    assert cli(topic, *words, "--all", "--to", day(32)).out.split()[:2] == ["orders", "1"]
    assert cli(topic, *words, "--all").out.split()[:2] == ["orders", "1"]
    none = cli(topic, *words, "--all")
    assert (none.code, none.out.split()[:2], none.err) == (0, ["orders", "0"], "no such delayed messages of orders\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cancel"], "error: nothing says which messages\nhint: name them as in 0@17, choose them as in"),
        (["cancel", "--limit", "3"], "error: nothing says which messages\n"),
        (["deliver", "0@1", "--all"], "error: places and filters both say which messages\n"),
        (["deliver", "0@1", "--limit", "1"], "error: places and filters both say which messages\n"),
        (["reschedule", "0@1"], "error: nothing says when to deliver\nhint: give --delay 5m, --at a time, or --shift"),
        (["reschedule", "0@1", "--delay", "1m", "--shift", "1m"], "error: --delay and --shift contradict each other\n"),
        (["reschedule", "0@1", "--shift", "-soon"], "error: --shift: 'soon' is not a duration"),
        (["reschedule", "0@1", "--delay", "400d"], "error: --delay '400d' is too far ahead\nhint: 366d are the most\n"),
        (["reschedule", "0@1", "--at", "2099-01-01"], "error: --at '2099-01-01' is too far ahead\n"),
        (["reschedule", "0@1", "--at", "5m"], "hint: did you mean --at +5m?\n"),
    ],
)
def test_what_cannot_be_meant_is_refused(topic: str, words: list[str], said: str) -> None:
    done = cli(topic, "delayed", words[0], "orders", *words[1:], "--yes")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(pending(topic)) == 4


@pytest.mark.parametrize(
    "words", [["cancel", "0@1"], ["deliver", "0@1"], ["reschedule", "0@1", "--delay", "1h"], ["cancel", "--all"]]
)
def test_a_protected_context_wants_the_name_of_the_topic(topic: str, tmp_path: Path, words: list[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        f"current-context: production\ncontexts:\n  production:\n    server: {topic}\n    protected: true\n"
    )

    def done(*more: str) -> int:
        return cli(topic, "delayed", words[0], "orders", *words[1:], *more, GOQUEUE_CONFIG=str(config)).code

    before = pending(topic)
    assert (done("--yes"), done("--confirm", "oders"), pending(topic) == before) == (2, 2, True)
    assert (done("--confirm", "orders"), pending(topic) == before) == (0, False)
