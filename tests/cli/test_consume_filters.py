"""`goqueue-cli consume --where`: the broker looks, and it is said how much it looked at."""

import json
import os
import pty
import subprocess

import pytest

from goqueue.testing.broker import LocalBroker
from tests.brokers import broker, create, publish
from tests.cli.programs import COMMAND, ROOT, cli, environment, running

__all__ = ["broker"]


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    """Thirty messages in three partitions."""
    create(broker.url, "orders", 3)
    for number in range(30):
        source = {"source": "shop" if number % 2 else "web"}
        publish(
            broker.url, "orders", json.dumps({"n": number}), key=f"k{number % 5}", partition=number % 3, headers=source
        )
    return broker.url


def found(url: str, *words: str) -> list[int]:
    done = cli(url, "consume", "orders", *words)
    assert done.code == 0, done.err
    return sorted(json.loads(line)["n"] for line in done.out.splitlines())


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        (["json.n>=27"], [27, 28, 29]),
        (["key=k3", "header.source=shop"], [3, 13, 23]),
        (['value~": 1'], [1, *range(10, 20)]),
        (["key=nobody"], []),
    ],
)
def test_what_fits_all_filters_is_shown(topic: str, filters: list[str], numbers: list[int]) -> None:
    assert found(topic, *(word for text in filters for word in ("--where", text))) == numbers


def test_it_is_said_how_much_was_looked_at(topic: str) -> None:
    assert cli(topic, "consume", "orders", "--where", "json.n>=27").err == "matched 3 of 30 scanned\n"
    assert cli(topic, "consume", "orders", "--where", "json.n>=99").err == "matched 0 of 30 scanned\n"
    empty = cli(topic, "consume", "orders", "--where", "json.n>=99", "-o", "json")
    assert (empty.code, empty.out) == (0, "[]\n")


def test_the_last_are_those_that_fit(topic: str) -> None:
    assert found(topic, "--where", "header.source=web", "--last", "2") == [26, 28]
    assert found(topic, "--where", "key=k0", "--last", "99") == [0, 5, 10, 15, 20, 25]


def test_a_filter_that_cannot_be_read_is_refused_with_what_can(topic: str) -> None:
    done = cli(topic, "consume", "orders", "--where", "size>4")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: could not consume topic orders\ncause: request_invalid: ")
    assert "hint: " in done.err


def test_following_shows_what_fits_when_it_comes(topic: str) -> None:
    with running(topic, "consume", "orders", "--where", "key=new", "--follow", "--limit", "1") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        publish(topic, "orders", "no", key="old")
        publish(topic, "orders", "yes", key="new")
        assert process.stdout.readline() == b"yes\n"
        assert process.wait() == 0
        assert process.stderr.read().startswith(b"matched 1 of ")


def test_on_a_terminal_a_line_says_how_far_it_is_and_goes_before_a_message_comes(topic: str) -> None:
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "consume", "orders", "--where", "key=new", "--follow", "--limit", "1"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=ROOT,
        env=environment(GOQUEUE_SERVER=topic),
    ) as process:
        os.close(slave)
        shown = b""
        while b"matched 0 of " not in shown:
            shown += os.read(master, 4096)
        publish(topic, "orders", "yes", key="new")
        while b"scanned\r\n" not in shown:
            shown += os.read(master, 4096)
        assert process.wait() == 0
    os.close(master)
    assert b"\r\x1b[Kyes\r\n" in shown
