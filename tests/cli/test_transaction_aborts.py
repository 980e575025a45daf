"""`goqueue-cli transaction abort`: what it means is shown, somebody is asked, and nothing else is hit."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from tests.brokers import ask, broker, create, publish, read
from tests.cli.programs import COMMAND, ROOT, cli, environment, on_a_terminal
from tests.cli.test_transactions import described
from tests.cli.transactions import Producer

__all__ = ["broker"]


@pytest.fixture
def url(broker: LocalBroker) -> str:
    create(broker.url, "orders", partitions=2)
    create(broker.url, "payments")
    publish(broker.url, "payments", *"abcde")
    return broker.url


@pytest.fixture
def till(url: str) -> Producer:
    """Three messages of its own, one of another behind them, and two that are acknowledged."""
    producer = Producer(url, "till-1")
    for partition in (0, 1, 1):
        producer.put("orders", partition)
    producer.ack("billing", "payments", 2)
    publish(url, "orders", "of another", partition=1)
    return producer


MEANING = """\
  3 messages of its own gone: orders/0-1
  1 message of others behind it seen, unless an older transaction is in front
  2 messages handed out again that group billing has acknowledged in it
  its producer is told when it speaks next, and has to do all of it again
"""


def test_an_aborted_transaction_is_gone_and_its_producer_is_told_why(url: str, till: Producer) -> None:
    transaction = till.id
    done = cli(url, "transaction", "abort", "till-1", "--yes", "--reason", "till 4 hangs")
    assert [line.split() for line in done.out.splitlines()] == [
        ["ID", "TRANSACTION", "MESSAGES", "HELD-BACK", "GROUPS", "RESULT"],
        ["till-1", transaction, "3", "4", "billing", "aborted"],
    ]
    assert (done.code, done.err) == (0, "")
    assert [message["value"] for message in read(url, "orders", 1)] == ["of another"]
    refused = till.try_to("publish", topic="orders", value="late")
    assert (refused.code, refused.json["details"]["reason"]) == ("transaction_aborted", "till 4 hangs")
    left = ask(url, "GET", "/groups/billing").json["lag"]["payments"]["0"]
    assert (left["waiting"], left["pledged"]) == (2, 0)


@pytest.mark.usefixtures("till")
def test_who_gives_no_reason_is_called_an_operator(url: str) -> None:
    assert cli(url, "transaction", "abort", "till-1", "--yes").code == 0
    assert described(url, "till-1")["last"]["reason"] == "an operator has ended it"


def test_a_dry_run_says_what_it_would_mean_and_does_nothing(url: str, till: Producer) -> None:
    done = cli(url, "transaction", "abort", "till-1", "--dry-run")
    assert done.out.endswith("would be aborted\n")
    first, _, rest = done.err.partition("\n")
    assert first.startswith(f"transaction {till.id} of till-1, open for ")
    assert rest == MEANING
    (row,) = json.loads(cli(url, "transaction", "abort", "till-1", "--dry-run", "-o", "json").out)
    assert (row["result"], row["messages"], row["pledged"]) == ("would be aborted", 3, {"billing": 2})
    till.commit()


def test_nobody_is_asked_where_nobody_is(url: str, till: Producer) -> None:
    refused = cli(url, "transaction", "abort", "till-1", given="y\n")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.endswith(
        f"error: nobody can be asked whether to abort transaction {till.id} of till-1 for good\n"
        "hint: `--yes` does it without asking\n"
    )
    till.commit()


def test_somebody_is_asked_on_a_terminal(url: str, till: Producer) -> None:
    no = on_a_terminal(url, "transaction", "abort", "till-1", typed="n\n")
    assert no.code == 1
    assert MEANING in no.err
    assert no.err.endswith(f"abort transaction {till.id} of till-1 for good? [y/N] nothing was changed\n")
    assert on_a_terminal(url, "transaction", "abort", "till-1", typed="y\n").code == 0
    assert described(url, "till-1")["state"] == "complete_abort"


@pytest.mark.usefixtures("till")
def test_a_protected_context_wants_the_name(url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"current-context: prod\ncontexts: {{prod: {{server: '{url}', protected: true}}}}\n")
    words = ("transaction", "abort", "till-1")
    refused = cli("", *words, "--yes", GOQUEUE_CONFIG=str(config))
    assert refused.code == 2
    assert refused.err.endswith("hint: `--confirm till-1` does it without asking\n")
    assert cli("", *words, "--confirm", "till-2", GOQUEUE_CONFIG=str(config)).code == 2
    assert described(url, "till-1")["state"] == "ongoing"
    assert cli("", *words, "--confirm", "till-1", GOQUEUE_CONFIG=str(config)).code == 0


def test_only_the_transaction_that_was_shown_is_ended(url: str, till: Producer) -> None:
    """While somebody thinks about the answer, the producer commits, and begins the next one."""
    shown = till.id
    master, slave = pty.openpty()
    words = [*COMMAND, "transaction", "abort", "till-1"]
    with subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=subprocess.PIPE, cwd=ROOT, env=environment(GOQUEUE_SERVER=url)
    ) as process:
        os.close(slave)
        assert process.stderr is not None
        asked = b""
        while not asked.endswith(b"[y/N] "):
            asked += os.read(process.stderr.fileno(), 4096)
        till.commit()
        till.begin()
        till.put("orders")
        os.write(master, b"y\n")
        said = process.stderr.read().decode()
    os.close(master)
    assert process.returncode == 5
    assert f"cause: transaction_not_open: transaction {shown} was committed before\n" in said
    assert described(url, "till-1")["state"] == "ongoing"
    till.commit()


def test_who_names_the_transaction_hits_no_other(url: str, till: Producer) -> None:
    before = till.id
    till.commit()
    till.begin()
    refused = cli(url, "transaction", "abort", "till-1", "--transaction", before, "--yes")
    assert (refused.code, refused.out) == (5, "")
    assert f"{before} is not the transaction of till-1: that is {till.id} by now\n" in refused.err
    assert cli(url, "transaction", "abort", "till-1", "--transaction", till.id, "--yes").code == 0
    two = cli(url, "transaction", "abort", "till-1", "till-2", "--transaction", till.id, "--yes")
    assert two.code == 2


@pytest.mark.usefixtures("till")
def test_of_several_one_that_is_not_open_fails_alone(url: str) -> None:
    Producer(url, "kept").commit()
    done = cli(url, "transaction", "abort", "kept", "till-1", "absent", "--yes", "--no-headers")
    assert done.code == 1
    assert [line.split()[-1] for line in done.out.splitlines()] == ["failed", "aborted", "failed"]
    assert "cause: transaction_not_open: nothing is open under kept; " in done.err
    assert "cause: producer_not_found: there is no transactional id 'absent'\n" in done.err


@pytest.mark.parametrize("reason", ["", " ", "x" * 501])
def test_a_reason_says_something_and_not_too_much(url: str, till: Producer, reason: str) -> None:
    refused = cli(url, "transaction", "abort", "till-1", "--yes", "--reason", reason)
    assert (refused.code, refused.out) == (2, "")
    till.commit()


def test_an_abort_that_a_log_does_not_take_is_decided_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    monkeypatch.setattr("goqueue.daemon.SystemDisk", lambda: disk)
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        Producer(local.url, "till-1").put("orders")
        disk.fail("sync", path="*/orders/0/*")
        done = cli(local.url, "transaction", "abort", "till-1", "--yes", "--timeout", "1s")
        assert done.code == 1
        assert "cause: transaction_pending: how the transaction of till-1 ends is decided, and cannot be" in done.err
        assert done.err.endswith(
            "hint: it will be: `goqueue-cli transaction describe till-1` says what that waits for\n"
        )
        assert described(local.url, "till-1")["state"] == "prepare_abort"
