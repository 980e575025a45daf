"""`goqueue-cli transaction abort`: consequences, confirmation, and protection of later transactions."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from tests.brokers import ask, create, publish, read
from tests.cli.programs import COMMAND, ROOT, cli, environment, on_a_terminal, protecting
from tests.cli.transactions import Producer, described
from tests.forked import Program


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
  3 messages of the transaction discarded: orders/0-1
  1 message behind it become visible, unless an older transaction is open
  2 messages acked in it by group billing delivered again
  its producer gets an error with its next request, and must repeat the transaction
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
def test_abort_without_reason_has_a_default(url: str) -> None:
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


def test_confirmation_is_required_without_a_terminal(url: str, till: Producer) -> None:
    refused = cli(url, "transaction", "abort", "till-1", given="y\n")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.endswith(
        f"error: confirmation required to abort transaction {till.id} of till-1 for good\nhint: `--yes` confirms it\n"
    )
    till.commit()


def test_abort_asks_on_a_terminal(url: str, till: Producer) -> None:
    no = on_a_terminal(url, "transaction", "abort", "till-1", typed="n\n")
    assert no.code == 1
    assert MEANING in no.err
    assert no.err.endswith(f"abort transaction {till.id} of till-1 for good? [y/N] nothing was changed\n")
    assert on_a_terminal(url, "transaction", "abort", "till-1", typed="y\n").code == 0
    assert described(url, "till-1")["state"] == "complete_abort"


@pytest.mark.usefixtures("till")
def test_protected_context_needs_confirm_with_the_name(url: str, tmp_path: Path) -> None:
    config = protecting(tmp_path, url)
    words = ("transaction", "abort", "till-1")
    refused = cli("", *words, "--yes", GOQUEUE_CONFIG=config)
    assert refused.code == 2
    assert refused.err.endswith("hint: `--confirm till-1` confirms it\n")
    assert cli("", *words, "--confirm", "till-2", GOQUEUE_CONFIG=config).code == 2
    assert described(url, "till-1")["state"] == "ongoing"
    assert cli("", *words, "--confirm", "till-1", GOQUEUE_CONFIG=config).code == 0


def test_only_the_transaction_that_was_shown_is_ended(url: str, till: Producer) -> None:
    """The producer commits and begins the next transaction before the question is answered."""
    shown = till.id
    master, slave = pty.openpty()
    words = [*COMMAND, "transaction", "abort", "till-1"]
    with Program(
        words, stdin=slave, stdout=slave, stderr=subprocess.PIPE, cwd=ROOT, env=environment(GOQUEUE_SERVER=url)
    ) as process:
        os.close(slave)
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


def test_abort_with_transaction_id_aborts_no_other(url: str, till: Producer) -> None:
    before = till.id
    till.commit()
    till.begin()
    refused = cli(url, "transaction", "abort", "till-1", "--transaction", before, "--yes")
    assert (refused.code, refused.out) == (5, "")
    assert f"{before} is not the transaction of till-1: that is {till.id} now\n" in refused.err
    assert cli(url, "transaction", "abort", "till-1", "--transaction", till.id, "--yes").code == 0
    two = cli(url, "transaction", "abort", "till-1", "till-2", "--transaction", till.id, "--yes")
    assert two.code == 2


@pytest.mark.usefixtures("till")
def test_abort_of_a_closed_transaction_fails_alone(url: str) -> None:
    Producer(url, "kept").commit()
    done = cli(url, "transaction", "abort", "kept", "till-1", "absent", "--yes", "--no-headers")
    assert done.code == 1
    assert [line.split()[-1] for line in done.out.splitlines()] == ["failed", "aborted", "failed"]
    assert "cause: transaction_not_open: no transaction of kept is open; " in done.err
    assert "cause: producer_not_found: there is no transactional id 'absent'\n" in done.err


def test_a_reason_says_something_and_not_too_much(url: str, till: Producer) -> None:
    for reason in ("", " ", "x" * 501):
        refused = cli(url, "transaction", "abort", "till-1", "--yes", "--reason", reason)
        assert (refused.code, refused.out) == (2, "")
    till.commit()


def test_abort_blocked_by_a_failed_log_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    monkeypatch.setattr("goqueue.daemon.SystemDisk", lambda: disk)
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        Producer(local.url, "till-1").put("orders")
        disk.fail("sync", path="*/orders/0/*")
        done = cli(local.url, "transaction", "abort", "till-1", "--yes", "--timeout", "1s")
        assert done.code == 1
        assert "cause: transaction_pending: the end of the transaction of till-1 is decided but not" in done.err
        assert done.err.endswith(
            "hint: the abort is decided: `goqueue-cli transaction describe till-1` shows what it waits for\n"
        )
        assert described(local.url, "till-1")["state"] == "prepare_abort"
