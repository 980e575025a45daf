"""`goqueue-cli consume --where`: the broker looks, and it is said how much it looked at."""

import json
import os
import pty

import pytest

from goqueue.testing.broker import LocalBroker
from tests.brokers import create, publish
from tests.cli.programs import COMMAND, ROOT, cli, environment, running
from tests.forked import Program


def with_messages(url: str) -> str:
    """Publish thirty messages to three partitions."""
    create(url, "orders", 3)
    for number in range(30):
        source = {"source": "shop" if number % 2 else "web"}
        publish(url, "orders", json.dumps({"n": number}), key=f"k{number % 5}", partition=number % 3, headers=source)
    return url


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    return with_messages(broker.url)


@pytest.fixture(scope="module")
def unchanged(module_broker: LocalBroker) -> str:
    """A broker for tests that publish no message."""
    return with_messages(module_broker.url)


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
        (["key=none"], []),
    ],
)
def test_only_messages_that_match_all_filters_are_printed(
    unchanged: str, filters: list[str], numbers: list[int]
) -> None:
    assert found(unchanged, *(word for text in filters for word in ("--where", text))) == numbers


def test_number_of_scanned_messages_is_reported(unchanged: str) -> None:
    assert cli(unchanged, "consume", "orders", "--where", "json.n>=27").err == "matched 3 of 30 scanned\n"
    assert cli(unchanged, "consume", "orders", "--where", "json.n>=99").err == "matched 0 of 30 scanned\n"
    empty = cli(unchanged, "consume", "orders", "--where", "json.n>=99", "-o", "json")
    assert (empty.code, empty.out) == (0, "[]\n")


def test_last_counts_matching_messages(unchanged: str) -> None:
    assert found(unchanged, "--where", "header.source=web", "--last", "2") == [26, 28]
    assert found(unchanged, "--where", "key=k0", "--last", "99") == [0, 5, 10, 15, 20, 25]


def test_invalid_filter_is_refused_with_a_hint(unchanged: str) -> None:
    done = cli(unchanged, "consume", "orders", "--where", "size>4")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: could not consume topic orders\ncause: request_invalid: ")
    assert "hint: " in done.err


def test_follow_with_filter_prints_matching_messages(topic: str) -> None:
    with running(topic, "consume", "orders", "--where", "key=new", "--follow", "--limit", "1") as process:
        publish(topic, "orders", "no", key="old")
        publish(topic, "orders", "yes", key="new")
        assert process.stdout.readline() == b"yes\n"
        assert process.wait() == 0
        assert process.stderr.read().startswith(b"matched 1 of ")


def test_search_status_on_a_terminal_disappears_before_output(topic: str) -> None:
    master, slave = pty.openpty()
    with Program(
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
