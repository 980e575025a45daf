"""`goqueue-cli publish` against a real broker."""

import csv
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.wire import until
from tests.brokers import ask, create, read
from tests.cli.days import day
from tests.cli.programs import cli, running


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    create(broker.url, "orders", 2)
    return broker.url


@pytest.fixture(scope="module")
def untouched(module_broker: LocalBroker) -> str:
    """A broker to which nothing is published."""
    create(module_broker.url, "orders", 2)
    return module_broker.url


def values(url: str, partition: int = 0) -> list[str]:
    return [message["value"] for message in read(url, "orders", partition)]


def test_each_argument_is_a_message_and_has_a_row_that_says_where_it_is(topic: str) -> None:
    done = cli(
        topic, "publish", "orders", "a", "wörld", "--partition", "1", "--key", "k", "--header", "source=shop",
        "--priority", "high",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["TOPIC", "PARTITION", "OFFSET"], ["orders", "1", "0"], ["orders", "1", "1"],
    ]  # fmt: skip
    messages = read(topic, "orders", 1)
    assert [message["value"] for message in messages] == ["a", "wörld"]
    assert {(message["key"], message["priority"]) for message in messages} == {("k", 1)}
    assert messages[0]["headers"] == {"source": "shop"}


def test_the_receipt_for_programs_has_the_time_of_the_broker(topic: str) -> None:
    (receipt,) = json.loads(cli(topic, "publish", "orders", "a", "--partition", "0", "-o", "json").out)
    assert receipt["timestamp"] == read(topic, "orders", 0)[0]["timestamp"]
    assert (receipt["partition"], receipt["offset"]) == (0, 0)


def test_lines_of_a_pipe_are_messages_exactly_as_they_are(topic: str) -> None:
    done = cli(topic, "publish", "orders", "--partition", "0", given=" a \n\nb\r\nno newline")
    assert (done.code, done.out, done.err) == (0, "", "4 messages published to orders\n")
    assert values(topic) == [" a ", "", "b\r", "no newline"]


def test_produce_is_another_name_and_a_form_of_output_gets_a_summary(topic: str) -> None:
    done = cli(topic, "produce", "orders", "-o", "json", given="a\nb\n")
    assert json.loads(done.out) == [{"name": "orders", "topic": "orders", "messages": 2}]


def test_bytes_that_are_not_text_arrive_as_they_are(topic: str) -> None:
    cli(topic, "publish", "orders", "--partition", "0", given=b"\xff\x00\xfe\n")
    shown = cli(topic, "consume", "orders").out
    assert shown.encode(errors="surrogateescape") == b"\xff\x00\xfe\n"


def test_many_lines_arrive_in_their_order(topic: str) -> None:
    given = "".join(f"{number}:{'x' * 50}\n" for number in range(50_000))
    assert cli(topic, "publish", "orders", "--partition", "0", given=given).code == 0
    assert cli(topic, "consume", "orders").out == given


def test_a_separator_splits_key_and_value_at_its_first_place(topic: str) -> None:
    assert cli(topic, "publish", "orders", "--key-separator", "::", "--partition", "0", given="k::v::w\n").code == 0
    (message,) = read(topic, "orders")
    assert (message["key"], message["value"]) == ("k", "v::w")


def test_a_line_without_its_separator_is_named_and_ends_it(topic: str) -> None:
    done = cli(topic, "publish", "orders", "--key-separator", ":", given="a:b\nnothing\n")
    assert done.code == 2
    assert "cause: request_invalid: message 2 has no ':' between its key and its value\n" in done.err


def test_a_failure_says_how_much_was_published_before(topic: str) -> None:
    given = "a\n" * 200_000 + "x" * 2_000_000 + "\n"
    done = cli(topic, "publish", "orders", given=given)
    assert (done.code, done.out) == (1, "")
    published, *error = done.err.splitlines()
    assert int(published.removesuffix(" messages published to orders before the failure").replace(",", "")) <= 200_000
    assert error[0] == "error: could not publish to topic orders"
    assert error[1].startswith("cause: message_too_large: the value has 2000000 bytes")


def test_files_are_read_line_by_line_or_as_a_whole(topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("a\nb\n")
    cli(topic, "publish", "orders", "--partition", "0", "--file", str(file), "--file", "-", given="c\n")
    cli(topic, "publish", "orders", "--partition", "0", "--file", str(file), "--whole")
    assert values(topic) == ["a", "b", "c", "a\nb\n"]
    missing = cli(topic, "publish", "orders", "--file", str(tmp_path / "none"))
    assert missing.code == 2
    assert "No such file or directory" in missing.err


def test_a_directory_is_no_file_and_is_named(topic: str, tmp_path: Path) -> None:
    done = cli(topic, "publish", "orders", "--file", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: could not publish to topic orders\n"
        f"cause: path_invalid: {tmp_path} cannot be read: Is a directory\n"
        "hint: --file takes a file, or - for stdin\n"
    )


def test_the_receipt_in_csv_has_its_name(topic: str) -> None:
    (line,) = csv.DictReader(cli(topic, "publish", "orders", "a", "--partition", "0", "-o", "csv").out.splitlines())
    assert (line["name"], line["partition"], line["offset"]) == ("orders/0@0", "0", "0")


def test_publish_to_an_unknown_topic_names_the_create_command(topic: str) -> None:
    assert "hint: `goqueue-cli topic create wombats` creates it" in cli(topic, "publish", "wombats", "x").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x", "--file", "y"], "error: messages as arguments and --file exclude each other\n"),
        (["x", "--whole"], "error: messages as arguments and --whole exclude each other\n"),
        (["--key", "a", "--key-separator", ":"], "error: --key and --key-separator exclude each other\n"),
        (["--key-separator", ""], "error: --key-separator is empty\n"),
        (["x", "--header", "nothing"], "error: --header 'nothing' is not a header\n"),
        (["x", "--priority", "urgent"], "error: could not publish to topic orders\ncause: request_invalid: 'urgent'"),
        (["--jsonl", "--whole"], "error: --jsonl and --whole exclude each other\n"),
        (["--jsonl", "--key-separator", ":"], "error: --jsonl and --key-separator exclude each other\n"),
        (["--keep-partitions"], "error: --keep-partitions needs --jsonl\n"),
        (["--jsonl", "--keep-partitions", "--partition", "1"], "error: --partition and --keep-partitions exclude"),
        (["x", "--delay", "5m", "--at", "+5m"], "error: --delay and --at exclude each other\n"),
        (["x", "--delay", "soon"], "error: --delay: 'soon' is not a duration"),
        (["x", "--delay", "367d"], "error: --delay '367d' is too far ahead\nhint: the maximum is 366d\n"),
        (["x", "--at", "5m"], "hint: did you mean --at +5m?\n"),
        (["x", "--at", "2099-01-01"], "error: --at '2099-01-01' is too far ahead\n"),
        (["--template", "%q"], "error: --template: %q is not a field\nhint: there are %n number, "),
        (["--template", "50%"], "error: --template: the last % has no field\n"),
        (["--template", "%r"], "error: --template: %r has no range\nhint: use %r{1,1000}\n"),
        (["--template", "%r{1,2"], "error: --template: '%r{1,2' is not closed\n"),
        (["--template", "%r{2,1}"], "error: --template: %r{2,1} is not a range of numbers\n"),
        (["--template", "%x{0}"], "error: --template: %x{0} is not a number of digits\n"),
        (["--template", "a", "--key", "%z"], "error: --key: %z is not a field\n"),
        (["--template", "a", "--rate", "0"], "error: --rate is 0, and must be above 0\n"),
        (["--template", "a", "--rate", "nan"], "error: --rate is nan, and must be above 0\n"),
        (["--template", "a", "--jsonl"], "error: --template and --jsonl exclude each other\n"),
        (["x", "--template", "a"], "error: messages as arguments and --template exclude each other\n"),
        (["x", "--count", "3"], "error: messages as arguments and --count exclude each other\n"),
        (["--seed", "1"], "error: --seed needs --template\n"),
    ],
)
def test_invalid_flags_publish_nothing(untouched: str, words: list[str], said: str) -> None:
    done = cli(untouched, "publish", "orders", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert values(untouched) == values(untouched, 1) == []


def test_publish_to_an_unknown_partition_is_refused(untouched: str) -> None:
    assert cli(untouched, "publish", "orders", "x", "--partition", "9").code == 5


def waiting(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(url, "GET", "/topics/orders/delayed").json["messages"]
    return found


def test_a_delayed_message_has_a_row_that_says_where_and_until_when_it_waits(topic: str) -> None:
    words = ("publish", "orders", "a", "b", "--partition", "1", "--key", "k", "--priority", "low")
    done = cli(topic, *words, "--delay", "1h")
    titles, first, _ = done.out.splitlines()
    assert titles.split() == ["TOPIC", "PARTITION", "OFFSET", "DUE-IN", "DUE"]
    assert first.split()[:4] == ["orders", "1", "0", "in"]
    assert [(one["partition"], one["key"], one["priority"]) for one in waiting(topic)] == [(1, "k", 3)] * 2
    (receipt,) = json.loads(cli(topic, "publish", "orders", "c", "--at", day(30), "-o", "json").out)
    assert (receipt["delayed"], receipt["deliver_at"]) == (True, f"{day(30)}T00:00:00.000000000Z")
    assert values(topic) == values(topic, 1) == []


def test_lines_of_a_pipe_may_wait(topic: str) -> None:
    done = cli(topic, "publish", "orders", "--delay", "1h", given="a\nb\n")
    assert (done.code, done.err, len(waiting(topic))) == (0, "2 messages published to orders\n", 2)


def test_no_delay_is_none_and_a_time_that_has_passed_is_at_once(topic: str) -> None:
    assert cli(topic, "publish", "orders", "a", "--partition", "0", "--delay", "0").code == 0
    assert cli(topic, "publish", "orders", "b", "--partition", "0", "--at", "-1h").code == 0
    until(topic, lambda: values(topic) == ["a", "b"])


def test_lines_before_an_interruption_are_published(topic: str) -> None:
    with running(topic, "publish", "orders", "--partition", "0") as process:
        process.stdin.write(b"a\nb\n")
        process.stdin.flush()
        read(topic, "orders", 0, "offset=0&wait=30s")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == b"interrupted: 2 messages published to orders\n"
    assert values(topic) == ["a", "b"]
