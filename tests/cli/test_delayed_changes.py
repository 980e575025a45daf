"""`goqueue-cli delayed cancel`, `reschedule` and `deliver` against a real broker."""

import json
from pathlib import Path
from typing import Any

import pytest

from goqueue.quantities import parse_time
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish, read
from tests.cli.days import day
from tests.cli.programs import cli, on_a_terminal, protecting


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


def test_cancelled_message_can_be_scheduled_again(topic: str) -> None:
    gone = cli(topic, "delayed", "cancel", "orders", "0@1", "--yes", "-o", "jsonl").out
    assert cli(topic, "publish", "orders", "--jsonl", given=gone).code == 0
    assert sorted(pending(topic).values()) == [f"{day(number)}T00:00:00" for number in (30, 31, 32, 33)]


def test_change_of_a_settled_message_fails_alone(topic: str) -> None:
    words = ("delayed", "cancel", "orders", "0@1", "--yes")
    assert cli(topic, *words).code == 0
    again = cli(topic, *words)
    assert (again.code, again.out) == (5, "")
    assert again.err == (
        "error: could not cancel delayed message orders/0@1\n"
        "cause: delayed_not_pending: message orders/0@1 is cancelled\n"
        "hint: only pending messages can be changed\n"
    )
    several = cli(topic, "delayed", "deliver", "orders", "0@1", "0@2", "--no-headers")
    assert several.code == 1
    assert [line.split()[-1] for line in several.out.splitlines()] == ["failed", "delivered"]


def test_cancel_requires_confirmation_without_a_terminal(topic: str) -> None:
    refused = cli(topic, "delayed", "cancel", "orders", "0@1", given="y\n")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        "error: confirmation required to cancel delayed message 0@1 of topic orders\nhint: `--yes` confirms it\n"
    )
    assert len(pending(topic)) == 4


def test_cancel_asks_on_a_terminal(topic: str) -> None:
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
def test_reschedule_changes_the_due_time(topic: str, flags: list[str], due: str) -> None:
    words = ("delayed", "reschedule", "orders", "0@1", *flags, "-o", "json")
    for dry in (["--dry-run"], []):
        (row,) = rows(cli(topic, *words, *dry).out)
        assert (row["before"][:19], row["deliver_at"][:19]) == (f"{day(31)}T00:00:00", due)
        assert row["result"] == ("would be rescheduled" if dry else "rescheduled")
        assert pending(topic)[1] == (f"{day(31)}T00:00:00" if dry else due)


def test_reschedule_with_delay_starts_from_now(topic: str) -> None:
    (row,) = rows(cli(topic, "delayed", "reschedule", "orders", "0@1", "--delay", "5m", "-o", "json").out)
    now = parse_time(ask(topic, "GET", "/health").json["timestamp"])
    assert 0 <= now + 300 * 10**9 - parse_time(row["deliver_at"]) < 60 * 10**9


def test_deliver_appends_the_message_to_the_topic(topic: str) -> None:
    dry = cli(topic, "delayed", "deliver", "orders", "0@2", "--dry-run", "--no-headers")
    assert (dry.code, dry.out.endswith("would be delivered\n"), read(topic, "orders")) == (0, True, [])
    done = cli(topic, "delayed", "deliver", "orders", "2")
    assert (done.code, done.out.split()[-1], done.err) == (0, "delivered", "")
    (message,) = map(json.loads, cli(topic, "consume", "orders", "-o", "jsonl").out.splitlines())
    assert (message["value"], message["key"], message["delayed_offset"]) == ("2", "k0", 2)


def test_delivered_message_is_published_again_without_delay(topic: str) -> None:
    cli(topic, "delayed", "deliver", "orders", "0@2")
    consumed = cli(topic, "consume", "orders", "-o", "jsonl").out
    assert cli(topic, "publish", "orders", "--jsonl", given=consumed).code == 0
    assert [message["value"] for message in read(topic, "orders")] == ["2", "2"]


# --- those that filters choose ---


@pytest.mark.parametrize(("verb", "flags"), [("cancel", []), ("deliver", []), ("reschedule", ["--shift", "+1h"])])
def test_matching_messages_are_counted_and_confirmed(topic: str, verb: str, flags: list[str]) -> None:
    words = ("delayed", verb, "orders", "--where", "key=k1", *flags)
    done = {"cancel": "cancelled", "deliver": "delivered", "reschedule": "rescheduled"}[verb]
    before = pending(topic)
    dry = cli(topic, *words, "--dry-run")
    assert [line.split() for line in dry.out.splitlines()] == [["TOPIC", "MATCHED", "SCANNED"], ["orders", "2", "4"]]
    assert dry.err == f"2 delayed messages of orders would be {done}\n"
    refused = cli(topic, *words)
    assert (refused.code, refused.out) == (2, "")
    assert f"confirmation required to {verb} 2 delayed messages of topic orders\n" in refused.err
    no = on_a_terminal(topic, *words, typed="n\n")
    assert (no.code, no.err) == (1, f"{verb} 2 delayed messages of topic orders? [y/N] nothing was changed\n")
    assert pending(topic) == before
    (row,) = rows(cli(topic, *words, "--yes", "-o", "json").out)
    assert (row["matched"], row["scanned"], row["changed"], row["complete"]) == (2, 4, 2, True)
    assert {offset for offset, due in before.items() if pending(topic).get(offset) != due} == {1, 3}


def test_cancel_with_limit_range_or_all(topic: str) -> None:
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
        (["cancel"], "error: no messages chosen\nhint: name messages as in 0@17, filter them as in"),
        (["cancel", "--limit", "3"], "error: no messages chosen\n"),
        (["deliver", "0@1", "--all"], "error: places and filters exclude each other\n"),
        (["deliver", "0@1", "--limit", "1"], "error: places and filters exclude each other\n"),
        (["reschedule", "0@1"], "error: no new due time\nhint: use --delay 5m, --at a time, or --shift"),
        (["reschedule", "0@1", "--delay", "1m", "--shift", "1m"], "error: --delay and --shift exclude each other\n"),
        (["reschedule", "0@1", "--shift", "-soon"], "error: --shift: 'soon' is not a duration"),
        (
            ["reschedule", "0@1", "--delay", "400d"],
            "error: --delay '400d' is too far ahead\nhint: the maximum is 366d\n",
        ),
        (["reschedule", "0@1", "--at", "2099-01-01"], "error: --at '2099-01-01' is too far ahead\n"),
        (["reschedule", "0@1", "--at", "5m"], "hint: did you mean --at +5m?\n"),
    ],
)
def test_invalid_flags_are_refused(topic: str, words: list[str], said: str) -> None:
    done = cli(topic, "delayed", words[0], "orders", *words[1:], "--yes")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(pending(topic)) == 4


@pytest.mark.parametrize(
    "words", [["cancel", "0@1"], ["deliver", "0@1"], ["reschedule", "0@1", "--delay", "1h"], ["cancel", "--all"]]
)
def test_protected_context_needs_confirm_with_the_topic(topic: str, tmp_path: Path, words: list[str]) -> None:
    config = protecting(tmp_path, topic)

    def done(*more: str) -> int:
        return cli(topic, "delayed", words[0], "orders", *words[1:], *more, GOQUEUE_CONFIG=config).code

    before = pending(topic)
    assert (done("--yes"), done("--confirm", "oders"), pending(topic) == before) == (2, 2, True)
    assert (done("--confirm", "orders"), pending(topic) == before) == (0, False)
