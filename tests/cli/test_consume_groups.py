"""`goqueue-cli consume --group`: what was written is acknowledged, everything else is given back."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.cli.programs import COMMAND, ROOT, cli, environment, on_a_terminal, protecting, running
from tests.forked import Program

MEMBER = ["consume", "orders", "--group", "billing"]
IDLE = ["--until-idle", "100ms"]


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    """Ten messages in one partition."""
    create(broker.url, "orders")
    publish(broker.url, "orders", *map(str, range(10)), key="k")
    return broker.url


def done_before(url: str) -> int:
    """The offset before which the group is done with everything."""
    answer = ask(url, "GET", "/groups/billing/offsets?topic=orders")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json["offsets"]["orders"]
    return int(found["0"])


def left(url: str) -> list[str]:
    """Return the messages that the group has not finished."""
    return cli(url, *MEMBER, *IDLE).out.split()


def test_member_receives_each_message_once(topic: str) -> None:
    done = cli(topic, *MEMBER, *IDLE)
    assert (done.code, done.out.split(), done.err) == (0, list(map(str, range(10))), "")
    assert done_before(topic) == 10
    again = cli(topic, *MEMBER, *IDLE)
    assert (again.code, again.out, again.err) == (0, "", "no messages\n")


def test_limit_leaves_other_messages_undelivered(topic: str) -> None:
    assert cli(topic, *MEMBER, "--limit", "3").out.split() == ["0", "1", "2"]
    assert done_before(topic) == 3
    assert cli(topic, *MEMBER, "--limit", "2", "--format", "%v:%a ").out == "3:1 4:1 "
    assert cli(topic, *MEMBER, "--limit", "0").err == "no messages\n"
    assert left(topic) == ["5", "6", "7", "8", "9"]


def test_reading_without_group_does_not_count_as_delivery(topic: str) -> None:
    for _ in range(3):
        assert len(cli(topic, "consume", "orders").out.split()) == 10
    assert cli(topic, *MEMBER, "--limit", "1", "--format", "%a").out == "1"


def test_formats_for_programs_include_the_attempt(topic: str) -> None:
    (message,) = map(json.loads, cli(topic, *MEMBER, "--limit", "1", "-o", "jsonl").out.splitlines())
    assert (message["value"], message["attempt"]) == ("0", 1)
    title, line = cli(topic, *MEMBER, "--limit", "1", "-o", "csv").out.splitlines()
    assert (title.split(",")[-1], line.split(",")[-1]) == ("attempt", "1")
    assert json.loads(cli(topic, *MEMBER, *IDLE, "-o", "json").out)[0]["value"] == "2"
    assert cli(topic, *MEMBER, *IDLE, "-o", "json").out == "[]\n"


def test_interrupted_member_leaves_its_group(topic: str) -> None:
    with running(topic, *MEMBER) as process:
        assert [process.stdout.readline() for _ in range(10)][-1] == b"9\n"
        publish(topic, "orders", "new")
        assert process.stdout.readline() == b"new\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == b"interrupted: 11 messages\n"
    assert done_before(topic) == 11
    assert ask(topic, "GET", "/groups/billing").json["members"] == []


def test_json_array_of_a_member_is_complete_after_an_interruption(topic: str) -> None:
    with running(topic, *MEMBER, "-o", "json") as process:
        lines = [process.stdout.readline() for _ in range(10)]
        process.send_signal(signal.SIGINT)
        lines.append(process.stdout.read())
    assert len(json.loads(b"".join(lines))) == 10


def test_closed_pipe_releases_unwritten_messages(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", *["x" * 1000] * 1000)
    with running(broker.url, *MEMBER) as process:
        assert process.stdout.readline() == b"x" * 1000 + b"\n"
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr.read() == b""
    assert done_before(broker.url) == 0
    assert len(left(broker.url)) == 1000


def test_new_group_starts_at_from(topic: str) -> None:
    done = cli(topic, "consume", "orders", "--group", "late", "--from", "latest", *IDLE)
    assert (done.code, done.err) == (0, "no messages\n")


def test_from_with_an_existing_group_names_the_reset_command(topic: str) -> None:
    assert cli(topic, *MEMBER, "--limit", "3").code == 0
    done = cli(topic, *MEMBER, *IDLE, "--from", "earliest")
    assert (done.code, done.out.split()) == (0, ["3", "4", "5", "6", "7", "8", "9"])
    assert done.err == (
        "group billing continues at its offsets, and --from earliest applies to new groups only: "
        "`goqueue-cli group reset billing --topic orders --to earliest` moves it\n"
    )
    create(topic, "payments")
    publish(topic, "payments", "old")
    begun = cli(topic, "consume", "payments", "--group", "billing", "--from", "latest", *IDLE)
    assert (begun.code, begun.err) == (0, "no messages\n")


def test_control_characters_are_escaped_on_a_terminal(topic: str) -> None:
    publish(topic, "orders", "\x1b[2Jgotcha")
    shown = on_a_terminal(topic, *MEMBER, *IDLE)
    assert shown.code == 0
    assert shown.out.splitlines()[-1] == "\\x1b[2Jgotcha"
    assert done_before(topic) == 11


def test_interruption_on_a_terminal_acks_only_printed_messages(broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", *["x" * 1000] * 1000)
    master, slave = pty.openpty()
    said = tmp_path / "said"
    with said.open("wb") as errors, Program(
        [*COMMAND, *MEMBER],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=errors,
        cwd=ROOT,
        env=environment(GOQUEUE_SERVER=broker.url),
    ) as process:  # fmt: skip
        os.close(slave)
        os.read(master, 100)  # it has begun, and the terminal buffers only a few lines
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            try:
                os.read(master, 65536)
            except OSError:
                break
        assert process.wait() == 130
    os.close(master)
    shown = int(said.read_text().split()[1])
    assert 0 < shown < 1000
    assert done_before(broker.url) == shown


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--group", "g", "--where", "key=a"], 2, "error: --where cannot be used with --group"),
        (["--group", "g", "--partition", "0"], 2, "error: --partition cannot be used with --group"),
        (["--group", "g", "--last", "3"], 2, "error: --last cannot be used with --group"),
        (["--group", "g", "--to", "now"], 2, "error: --to cannot be used with --group"),
        (["--group", "g", "--from", "17"], 2, "hint: `goqueue-cli group reset` moves a group\n"),
        (["--group", "g", "--until-idle", "soon"], 2, "error: --until-idle: 'soon' is not a duration"),
        (["--group", "g", "--visibility", "-1s"], 2, "error: --visibility: "),
        (["--group", "g", "--visibility", "0s"], 2, "cause: request_invalid: visibility_timeout is '0s'"),
        (["--group", ""], 2, "cause: request_invalid: the group has no name"),
        (["--until-idle", "1s"], 2, "error: --until-idle needs --group\n"),
        (["--visibility", "1s"], 2, "error: --visibility needs --group\n"),
        (["--format", "%a"], 2, "error: --format: %a needs --group\nhint: name a group with --group\n"),
    ],
)
def test_invalid_flags_are_refused(module_broker: LocalBroker, words: list[str], code: int, said: str) -> None:
    if not ask(module_broker.url, "GET", "/topics").json["topics"]:
        create(module_broker.url, "orders")
    done = cli(module_broker.url, "consume", "orders", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_mistyped_topic_of_a_member_gets_a_suggestion(topic: str) -> None:
    done = cli(topic, "consume", "oders", "--group", "billing")
    assert done.code == 5
    assert "hint: did you mean orders?\n" in done.err


def test_sigterm_ends_a_member_like_an_interruption(topic: str) -> None:
    with running(topic, *MEMBER, "-o", "json") as process:
        lines = [process.stdout.readline() for _ in range(10)]
        process.send_signal(signal.SIGTERM)
        lines.append(process.stdout.read())
        assert (process.wait(), process.stderr.read()) == (143, b"interrupted: 10 messages\n")
    assert len(json.loads(b"".join(lines))) == 10
    assert (done_before(topic), ask(topic, "GET", "/groups/billing").json["members"]) == (10, [])


def test_member_on_a_protected_broker_needs_confirmation(topic: str, tmp_path: Path) -> None:
    config = protecting(tmp_path, topic)
    refused = cli("", *MEMBER, *IDLE, GOQUEUE_CONFIG=config)
    assert (refused.code, refused.out) == (2, "")
    assert "hint: `--confirm billing` confirms it\n" in refused.err
    assert len(cli("", *MEMBER, *IDLE, "--confirm", "billing", GOQUEUE_CONFIG=config).out.split()) == 10
    assert len(cli("", "consume", "orders", GOQUEUE_CONFIG=config).out.split()) == 10
