"""`goqueue-cli publish` with templates, counts and rates."""

import json
import re
import signal

import pytest

from goqueue.testing.broker import LocalBroker
from tests.brokers import create, read
from tests.cli.days import day
from tests.cli.programs import cli, on_a_terminal, running

UNUSED_URL = "http://127.0.0.1:1"


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    create(broker.url, "orders")
    return broker.url


def shown(*words: str) -> list[dict[str, str]]:
    done = cli(UNUSED_URL, "publish", "orders", "--dry-run", "-o", "jsonl", *words)
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_a_template_makes_messages_with_numbers_and_keys(topic: str) -> None:
    words = ["--template", '{"id": %n}', "--key", "k%n", "--count", "3", "--first", "7"]
    done = cli(topic, "publish", "orders", *words)
    assert (done.code, done.out, done.err) == (0, "", "3 messages published to orders\n")
    found = [(message["key"], json.loads(message["value"])) for message in read(topic, "orders")]
    assert found == [("k7", {"id": 7}), ("k8", {"id": 8}), ("k9", {"id": 9})]


def test_without_a_count_one_message_is_made(topic: str) -> None:
    assert cli(topic, "publish", "orders", "--template", "%n 100%%").code == 0
    assert [message["value"] for message in read(topic, "orders")] == ["1 100%"]


def test_every_field_is_filled_with_what_it_says() -> None:
    (message,) = shown("--template", "%n|%r{5,5}|%x{7}|%u|%T|%%n")
    number, drawn, digits, uuid, time, plain = message["value"].split("|")
    assert (number, drawn, plain) == ("1", "5", "%n")
    assert re.fullmatch("[0-9a-f]{7}", digits)
    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", uuid)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", time)


def test_a_seed_makes_the_same_messages_again() -> None:
    words = ["--template", "%r{1,1000000} %u %x{8}", "--count", "3"]
    assert shown(*words, "--seed", "4") == shown(*words, "--seed", "4")
    assert shown(*words, "--seed", "4") != shown(*words, "--seed", "5")


def test_a_dry_run_needs_no_broker_and_shows_the_first_messages() -> None:
    assert [row["value"] for row in shown("--template", "%n", "--count", "99")] == [str(n) for n in range(1, 11)]
    done = cli(UNUSED_URL, "publish", "orders", "a", "--key", "k", "--header", "n=1", "--dry-run")
    assert [line.split() for line in done.out.splitlines()] == [["KEY", "VALUE", "HEADERS"], ["k", "a", "n=1"]]


def test_a_dry_run_shows_a_terminal_nothing_that_it_would_obey() -> None:
    done = on_a_terminal(UNUSED_URL, "publish", "orders", "\x1b[2J", "--dry-run")
    assert "\\x1b[2J" in done.out


def test_what_a_dry_run_shows_can_be_published(topic: str) -> None:
    made = cli(
        topic, "publish", "orders", "--template", "a%n", "--key", "k", "--count", "3", "--dry-run", "-o", "jsonl"
    )
    assert cli(topic, "publish", "orders", "--jsonl", given=made.out).code == 0
    assert [(message["key"], message["value"]) for message in read(topic, "orders")] == [
        ("k", "a1"), ("k", "a2"), ("k", "a3"),
    ]  # fmt: skip


def test_a_dry_run_says_when_a_message_would_be_delivered(topic: str) -> None:
    (later,) = shown("--template", "a", "--at", day(30))
    assert later | {"delay": None, "deliver_at": f"{day(30)}T00:00:00.000000000Z"} == later
    made = cli(topic, "publish", "orders", "a", "--delay", "90m", "--dry-run", "-o", "jsonl")
    assert json.loads(made.out)["delay"] == 5400
    assert cli(topic, "publish", "orders", "--jsonl", given=made.out).code == 0
    assert len(cli(topic, "delayed", "list", "orders", "-o", "name").out.splitlines()) == 1


def test_a_count_ends_a_pipe_that_goes_on(topic: str) -> None:
    with running(topic, "publish", "orders", "--count", "2") as process:
        process.stdin.write(b"a\nb\nc\n")
        process.stdin.flush()  # and it stays open
        assert process.wait() == 0
    assert [message["value"] for message in read(topic, "orders")] == ["a", "b"]


def test_messages_at_a_rate_are_spread_over_time(topic: str) -> None:
    assert cli(topic, "publish", "orders", "--template", "%n", "--count", "21", "--rate", "100").code == 0
    assert cli(topic, "publish", "orders", "--rate", "100", given="x\n" * 21).code == 0
    messages = read(topic, "orders", 0, "limit=100")
    for part in (messages[:21], messages[21:]):
        assert len({message["timestamp"] for message in part}) > 5


def test_a_rate_without_a_count_goes_on_until_it_is_interrupted(topic: str) -> None:
    with running(topic, "publish", "orders", "--template", "%n", "--rate", "1000") as process:
        read(topic, "orders", 0, "offset=0&wait=30s")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        said = process.stderr.read().decode()
    count = len(read(topic, "orders", 0, "limit=10000"))
    assert said == f"interrupted: {count:,} message{'s' if count > 1 else ''} published to orders\n"
