"""`goqueue-cli consume` against a real broker."""

import csv
import json
import select
import signal

import pytest
import yaml

from goqueue.testing.broker import LocalBroker
from tests.brokers import broker, create, publish
from tests.cli.programs import cli, on_a_terminal, running

__all__ = ["broker"]


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    """Ten messages in one partition."""
    create(broker.url, "orders")
    publish(broker.url, "orders", *map(str, range(10)), key="k", headers={"source": "shop"})
    return broker.url


def shown(url: str, *words: str) -> list[str]:
    done = cli(url, "consume", "orders", *words)
    assert done.code == 0, done.err
    return done.out.split()


def test_without_anything_it_shows_all_values_a_line_each(topic: str) -> None:
    done = cli(topic, "consume", "orders")
    assert (done.code, done.out, done.err) == (0, "".join(f"{number}\n" for number in range(10)), "")


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--from", "7"], [7, 8, 9]),
        (["--from", "2", "--to", "4"], [2, 3]),
        (["--from", "earliest", "--limit", "2"], [0, 1]),
        (["--from", "-1h", "--to", "now", "--limit", "1"], [0]),
        (["--from", "1990-01-01T00:00:00Z", "--limit", "1"], [0]),
        (["--last", "3"], [7, 8, 9]),
        (["--last", "99", "--limit", "1"], [0]),
        (["--from", "latest"], []),
        (["--to", "-1h"], []),
        (["--last", "0"], []),
        (["--limit", "0"], []),
    ],
)
def test_places_say_where_it_begins_and_ends(topic: str, words: list[str], numbers: list[int]) -> None:
    assert shown(topic, *words) == list(map(str, numbers))


def test_the_last_messages_of_all_partitions_come_in_the_order_of_their_times(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    for number in range(6):
        publish(broker.url, "orders", str(number), partition=number % 2)
    assert shown(broker.url, "--last", "3") == ["3", "4", "5"]
    assert shown(broker.url, "--last", "2", "--partition", "1") == ["3", "5"]


def test_a_format_says_what_is_shown_of_a_message(topic: str) -> None:
    text = r"%t/%p@%o\t%k=%v %h{source}%h{none} %P %%\n"
    done = cli(topic, "consume", "orders", "--format", text, "--limit", "2")
    assert done.out == "orders/0@0\tk=0 shop 2 %\norders/0@1\tk=1 shop 2 %\n"
    (message,) = map(json.loads, cli(topic, "consume", "orders", "-o", "jsonl", "--limit", "1").out.splitlines())
    assert cli(topic, "consume", "orders", "--format", "%T", "--limit", "1").out == message["timestamp"]
    assert cli(topic, "consume", "orders", "--format", "x", "--limit", "3").out == "xxx"


def test_every_form_tells_the_same(topic: str) -> None:
    def told(output: str) -> str:
        return cli(topic, "consume", "orders", "-o", output, "--limit", "2").out

    first, second = json.loads(told("json"))
    assert (first["key"], first["value"], first["offset"], second["offset"]) == ("k", "0", 0, 1)
    assert first["headers"] == [{"name": "source", "value": "shop"}]
    assert [json.loads(line) for line in told("jsonl").splitlines()] == [first, second]
    assert yaml.safe_load(told("yaml")) == [first, second]
    assert [line["value"] for line in csv.DictReader(told("csv").splitlines())] == ["0", "1"]
    assert told("name") == "orders/0@0\norders/0@1\n"
    titles, line, _ = told("table").splitlines()
    assert titles.split() == ["PARTITION", "OFFSET", "TIME", "KEY", "VALUE"]
    assert line.split() == ["0", "0", first["timestamp"], "k", "0"]
    assert "source=shop" in told("wide")


def test_an_empty_topic_is_no_failure(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    done = cli(broker.url, "consume", "orders")
    assert (done.code, done.out, done.err) == (0, "", "no messages\n")
    assert cli(broker.url, "consume", "orders", "-o", "json").out == "[]\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--from", "yesterday"], 2, "error: --from: 'yesterday' is not a time"),
        (["--to", "-1x"], 2, "error: --to: '1x' has the unknown unit 'x'"),
        (["--format", "%q"], 2, "error: --format: %q stands for nothing"),
        (["--format", "\\q"], 2, "error: --format: '\\\\q' stands for nothing"),
        (["--format", "%v", "-o", "json"], 2, "error: --format and --output both say how to print"),
        (["--last", "3", "--from", "1"], 2, "error: --last says where reading begins and ends"),
        (["--partition", "7"], 5, "cause: partition_not_found: topic orders has no partition 7"),
        (["--partition", "7", "--last", "1"], 5, "cause: partition_not_found: topic orders has no partition 7"),
    ],
)
def test_what_cannot_be_meant_is_refused(topic: str, words: list[str], code: int, said: str) -> None:
    done = cli(topic, "consume", "orders", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_following_shows_a_message_when_it_comes_and_an_interruption_ends_it(topic: str) -> None:
    with running(topic, "consume", "orders", "--follow", "--last", "1") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"9\n"
        publish(topic, "orders", "new")
        assert process.stdout.readline() == b"new\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == b"interrupted: 2 messages\n"


def test_following_from_the_latest_shows_only_what_comes(topic: str) -> None:
    with running(topic, "consume", "orders", "--follow", "--from", "latest", "--limit", "1") as process:
        assert process.stdout is not None
        while not select.select([process.stdout], [], [], 0.1)[0]:  # it may not have begun yet
            publish(topic, "orders", "new")
        assert process.stdout.read() == b"new\n"
        assert process.wait() == 0


def test_following_to_a_limit_ends_by_itself(topic: str) -> None:
    assert shown(topic, "--follow", "--limit", "10") == list(map(str, range(10)))


def test_an_interrupted_array_is_whole(topic: str) -> None:
    with running(topic, "consume", "orders", "--follow", "-o", "json") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(10)]
        process.send_signal(signal.SIGINT)
        lines.append(process.stdout.read())
    assert len(json.loads(b"".join(lines))) == 10


def test_a_pipe_that_is_closed_ends_it_quietly(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", *["x" * 1000] * 1000)
    with running(broker.url, "consume", "orders") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"x" * 1000 + b"\n"
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("words", [[], ["-o", "table"], ["-o", "json"], ["-o", "csv"], ["-o", "yaml"]])
def test_nothing_that_a_terminal_would_obey_reaches_it(broker: LocalBroker, words: list[str]) -> None:
    create(broker.url, "orders")
    value = "\x1b]0;gotcha\x07\x1b[31mred\r\u202e\x9b5m"
    publish(broker.url, "orders", value, key="k\x1bc", headers={"a": "\x1b[2J"})
    terminal = on_a_terminal(broker.url, "consume", "orders", *words)
    assert terminal.code == 0
    assert all(letter.isprintable() or letter == "\n" for letter in terminal.out)
    assert "gotcha" in terminal.out
    assert cli(broker.url, "consume", "orders").out == f"{value}\n"
