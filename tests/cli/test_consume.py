"""`goqueue-cli consume` against a real broker."""

import csv
import json
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from goqueue.console.positions import parse_start
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.cli.programs import COMMAND, ROOT, cli, environment, on_a_terminal, running


def with_ten_messages(url: str) -> str:
    create(url, "orders")
    publish(url, "orders", *map(str, range(10)), key="k", headers={"source": "shop"})
    return url


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    return with_ten_messages(broker.url)


@pytest.fixture(scope="module")
def unchanged(module_broker: LocalBroker) -> str:
    """A broker with ten messages, for tests that publish none."""
    return with_ten_messages(module_broker.url)


def shown(url: str, *words: str) -> list[str]:
    done = cli(url, "consume", "orders", *words)
    assert done.code == 0, done.err
    return done.out.split()


def test_consume_prints_each_value_on_a_line(unchanged: str) -> None:
    done = cli(unchanged, "consume", "orders")
    assert (done.code, done.out, done.err) == (0, "".join(f"{number}\n" for number in range(10)), "")


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--from", "7"], [7, 8, 9]),
        (["--from", "2", "--to", "4"], [2, 3]),
        (["--from", "earliest", "--limit", "2"], [0, 1]),
        (["--from", "-1h", "--to", "now", "--limit", "1"], [0]),
        (["--from", "1990-01-01T00:00:00Z", "--limit", "1"], [0]),
        (["--from", "1990-01-01", "--limit", "1"], [0]),
        (["--to", "1990-01-01"], []),
        (["--from", "10"], []),
        (["--last", "3"], [7, 8, 9]),
        (["--last", "99", "--limit", "1"], [0]),
        (["--from", "latest"], []),
        (["--to", "-1h"], []),
        (["--last", "0"], []),
        (["--limit", "0"], []),
    ],
)
def test_positions_select_the_messages_to_consume(unchanged: str, words: list[str], numbers: list[int]) -> None:
    assert shown(unchanged, *words) == list(map(str, numbers))


def test_last_orders_messages_of_all_partitions_by_time(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    for number in range(6):
        publish(broker.url, "orders", str(number), partition=number % 2)
    assert shown(broker.url, "--last", "3") == ["3", "4", "5"]
    assert shown(broker.url, "--last", "2", "--partition", "1") == ["3", "5"]


def test_format_selects_the_fields_of_a_message(unchanged: str) -> None:
    text = r"%t/%p@%o\t%k=%v %h{source}%h{none} %P %%\n"
    done = cli(unchanged, "consume", "orders", "--format", text, "--limit", "2")
    assert done.out == "orders/0@0\tk=0 shop 2 %\norders/0@1\tk=1 shop 2 %\n"
    (message,) = map(json.loads, cli(unchanged, "consume", "orders", "-o", "jsonl", "--limit", "1").out.splitlines())
    assert cli(unchanged, "consume", "orders", "--format", "%T", "--limit", "1").out == message["timestamp"]
    assert cli(unchanged, "consume", "orders", "--format", "x", "--limit", "3").out == "xxx"


def test_every_format_has_the_same_content(unchanged: str) -> None:
    def told(output: str) -> str:
        return cli(unchanged, "consume", "orders", "-o", output, "--limit", "2").out

    first, second = json.loads(told("json"))
    assert (first["key"], first["value"], first["offset"], second["offset"]) == ("k", "0", 0, 1)
    assert first["headers"] == {"source": "shop"}
    assert [json.loads(line) for line in told("jsonl").splitlines()] == [first, second]
    assert yaml.safe_load(told("yaml")) == [first, second]
    lines = list(csv.DictReader(told("csv").splitlines()))
    assert [line["value"] for line in lines] == ["0", "1"]
    assert (lines[0]["priority"], json.loads(lines[0]["headers"])) == ("2", first["headers"])
    assert told("jsonl").splitlines()[0] == json.dumps(first, separators=(",", ":"))
    assert told("name") == "orders/0@0\norders/0@1\n"
    titles, line, _ = told("table").splitlines()
    assert titles.split() == ["PARTITION", "OFFSET", "TIME", "KEY", "VALUE"]
    assert line.split() == ["0", "0", first["timestamp"], "k", "0"]
    titles, line, _ = told("wide").splitlines()
    assert (line.index("source=shop"), line.rindex("0")) == (titles.index("HEADERS"), titles.index("VALUE"))
    assert line.index("normal") == titles.index("PRIORITY")


def test_consume_of_an_empty_topic_succeeds(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    done = cli(broker.url, "consume", "orders")
    assert (done.code, done.out, done.err) == (0, "", "no messages\n")
    for output in ("json", "yaml"):
        assert cli(broker.url, "consume", "orders", "-o", output).out == "[]\n"


def test_consumed_json_can_be_published_again(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    create(broker.url, "copies")
    fields: dict[str, Any] = {"key": "/w==", "key_encoding": "base64", "encoding": "base64", "priority": "high"}
    headers = {"a": ["1", {"value": "/w==", "encoding": "base64"}], "b": "2"}
    publish(broker.url, "orders", "/wA=", headers=headers, **fields)
    (message,) = json.loads(cli(broker.url, "consume", "orders", "-o", "json").out)
    chosen = ("topic", "partition", "offset", "timestamp")
    again = {name: field for name, field in message.items() if name not in chosen}
    assert ask(broker.url, "POST", "/topics/copies/messages", {"messages": [again]}).status == 200
    (copy,) = json.loads(cli(broker.url, "consume", "copies", "-o", "json").out)
    assert {name: copy[name] for name in again} == again
    (line,) = csv.DictReader(cli(broker.url, "consume", "orders", "-o", "csv").out.splitlines())
    assert (line["encoding"], line["key_encoding"], json.loads(line["headers"])) == ("base64", "base64", headers)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--from", "yesterday"], 2, "error: --from: 'yesterday' is not a time"),
        (["--to", "-1x"], 2, "error: --to: '1x' has the unknown unit 'x'"),
        (["--format", "%q"], 2, "error: --format: %q is not a field"),
        (["--format", "\\q"], 2, "error: --format: \\q is not an escape\n"),
        (["--format", "%h{x"], 2, "error: --format: '%h{x' is not closed\nhint: use %h{source}\n"),
        (["--format", "50%"], 2, "error: --format: the last % has no field\nhint: %% prints one\n"),
        (["--from", "-5"], 2, "error: --from: '-5' has no unit\nhint: did you mean --from -5s? `--last 5` begins"),
        (["--from", "1h"], 2, "hint: did you mean --from -1h?\n"),
        (["--from", "2026-02-30"], 2, "error: --from: '2026-02-30' names a day that no calendar has"),
        (["--to", "earliest"], 2, "error: --to earliest leaves nothing to read\nhint: --to takes now, an offset,"),
        (["--follow", "--to", "now"], 2, "error: --follow waits for new messages, and --to now ends before them\n"),
        (["--from", "5000"], 5, "cause: offset_out_of_range: no message at offset 5000 yet: orders/0 at 10 is next"),
        (["--from", "-1h", "--to", "-2h"], 2, "error: --to -2h is not behind --from -1h\n"),
        (["--from", "7", "--to", "7"], 2, "error: --to 7 is not behind --from 7\n"),
        (["-x"], 2, "error: no such option: -x\n"),
        (["--last", "9" * 30], 2, "error: --last is "),
        (["--from", "11", "--follow"], 5, "cause: offset_out_of_range: no message at offset 11 yet"),
        (["--format", "%v", "-o", "json"], 2, "error: --format and --output exclude each other"),
        (["--last", "3", "--from", "1"], 2, "error: --last excludes --from and --to"),
        (["--partition", "7"], 5, "hint: `goqueue-cli topic describe` shows the partitions\n"),
        (
            ["--partition", "7", "--last", "1"],
            5,
            "cause: partition_not_found: topic orders has no partition 7, it has 0 alone",
        ),
    ],
)
def test_invalid_flags_are_refused(unchanged: str, words: list[str], code: int, said: str) -> None:
    done = cli(unchanged, "consume", "orders", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


@pytest.mark.parametrize(
    "text", ["2026-03-01T12:30", "2026-03-01 12:30", "2026-03-01 12:30:00", "2026-03-01T12:30:00.0"]
)
def test_time_without_zone_is_utc(text: str) -> None:
    assert parse_start(text) == parse_start("2026-03-01T12:30:00Z")


def test_follow_prints_new_messages_until_interrupted(topic: str) -> None:
    with running(topic, "consume", "orders", "--follow", "--last", "1") as process:
        assert process.stdout.readline() == b"9\n"
        publish(topic, "orders", "new")
        assert process.stdout.readline() == b"new\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == b"interrupted: 2 messages\n"


def test_follow_from_latest_prints_only_new_messages(topic: str) -> None:
    with running(topic, "consume", "orders", "--follow", "--from", "latest", "--limit", "1") as process:
        while not select.select([process.stdout], [], [], 0.1)[0]:  # it may not have begun yet
            publish(topic, "orders", "new")
        assert process.stdout.read() == b"new\n"
        assert process.wait() == 0


def test_follow_ends_at_the_limit(unchanged: str) -> None:
    assert shown(unchanged, "--follow", "--limit", "10") == list(map(str, range(10)))


def test_json_array_is_complete_after_an_interruption(unchanged: str) -> None:
    with running(unchanged, "consume", "orders", "--follow", "-o", "json") as process:
        lines = [process.stdout.readline() for _ in range(10)]
        process.send_signal(signal.SIGINT)
        lines.append(process.stdout.read())
    assert len(json.loads(b"".join(lines))) == 10


def test_json_array_is_complete_when_the_broker_stops(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "a", "b")
    with running(broker.url, "consume", "orders", "--follow", "-o", "json", "--timeout", "1s") as process:
        lines = [process.stdout.readline() for _ in range(2)]
        broker.stop()
        lines.append(process.stdout.read())
        assert process.wait() not in {0, 130}
    assert [message["value"] for message in json.loads(b"".join(lines))] == ["a", "b"]


def test_follow_continues_after_an_outage(tmp_path: Path, kept_port: str) -> None:
    with LocalBroker(str(tmp_path / "data"), server__port=kept_port) as first:
        url = first.url
        create(url, "orders", 2)
        publish(url, "orders", "a", partition=0)
        with running(url, "consume", "orders", "--follow", "--limit", "3") as process:
            assert process.stdout.readline() == b"a\n"
            first.stop()
            assert process.stderr.readline().startswith(b"the broker is unreachable, retrying: ")
            with LocalBroker(str(tmp_path / "data"), server__port=kept_port):
                assert process.stderr.readline().startswith(b"the broker answers again after ")
                publish(url, "orders", "b", partition=1)
                assert process.stdout.readline() == b"b\n"
                publish(url, "orders", "c", partition=0)
                assert process.stdout.readline() == b"c\n"
                assert process.wait() == 0


@pytest.mark.parametrize("flags", [("--from", "earliest"), ("--last", "1"), ("--group", "g")])
def test_follow_continues_with_added_partitions(broker: LocalBroker, flags: tuple[str, ...]) -> None:
    create(broker.url, "orders", 1)
    publish(broker.url, "orders", "a")
    follow = () if flags[0] == "--group" else ("--follow",)
    with running(broker.url, "consume", "orders", *follow, *flags, "--limit", "2") as process:
        assert process.stdout.readline() == b"a\n"
        assert ask(broker.url, "POST", "/admin/topics/orders/partitions", {"count": 2}).status == 200
        publish(broker.url, "orders", "b", partition=1)
        assert process.stdout.readline() == b"b\n"
        assert process.wait() == 0


def test_group_with_closed_stdout_acks_nothing(unchanged: str) -> None:
    with subprocess.Popen(
        ["bash", "-c", f"{' '.join(COMMAND)} consume orders --group g --until-idle 1s >&-"],
        cwd=ROOT,
        env=environment(GOQUEUE_SERVER=unchanged),
        stderr=subprocess.PIPE,
    ) as process:
        _, said = process.communicate()
    assert process.returncode == 2
    assert said.startswith(b"error: stdout is closed")
    assert "g" not in ask(unchanged, "GET", "/groups").json["groups"]


def test_damage_is_reported_with_the_flags_that_skip_it(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "orders", 2)
        for number in range(3):
            publish(broker.url, "orders", f"{number}" * 100, partition=1)
    (log,) = (tmp_path / "data/logs/orders/1").glob("*.log")
    content = bytearray(log.read_bytes())
    content[content.index(b"1" * 100) + 50] ^= 1
    log.write_bytes(content)
    with LocalBroker(str(tmp_path / "data")) as broker:
        done = cli(broker.url, "consume", "orders", "-o", "json", "--partition", "1")
        assert (done.code, [message["offset"] for message in json.loads(done.out)]) == (1, [0])
        assert "hint: `--skip-damage` skips it, `--partition 1 --from 2` starts behind it\n" in done.err
        assert shown(broker.url, "--skip-damage") == ["0" * 100, "2" * 100]


def test_closed_pipe_ends_consume_quietly(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", *["x" * 1000] * 1000)
    with running(broker.url, "consume", "orders") as process:
        assert process.stdout.readline() == b"x" * 1000 + b"\n"
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr.read() == b""


HOSTILE = "\x1b]0;gotcha\x07\x1b[31mred\r\u202e\x9b5m"


@pytest.fixture(scope="module")
def hostile(module_broker: LocalBroker) -> str:
    create(module_broker.url, "hostile")
    publish(module_broker.url, "hostile", HOSTILE, key="k\x1bc", headers={"a": "\x1b[2J"})
    return module_broker.url


@pytest.mark.parametrize("words", [[], ["-o", "table"], ["-o", "json"], ["-o", "csv"], ["-o", "yaml"]])
def test_control_characters_are_escaped_on_a_terminal(hostile: str, words: list[str]) -> None:
    terminal = on_a_terminal(hostile, "consume", "hostile", *words)
    assert terminal.code == 0
    assert all(letter.isprintable() or letter == "\n" for letter in terminal.out)
    assert "gotcha" in terminal.out
    assert cli(hostile, "consume", "hostile").out == f"{HOSTILE}\n"
