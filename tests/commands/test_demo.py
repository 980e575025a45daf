"""`goqueue demo` as a real process: what it starts, what it says, and what it leaves."""

import os
import re
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from goqueue.client import Client
from goqueue.storage.frame import NORMAL
from tests.api.wire import until
from tests.forked import Program
from tests.processes import banner_of, in_foreground


@contextmanager
def demo(directory: Path, *words: str) -> Iterator[Program]:
    with in_foreground(directory, "demo", "--rate", "200", *words) as process:
        yield process


def broker_process(directory: Path) -> int:
    """The process id of the demo's broker, from the lock of its data directory."""
    (lock,) = directory.glob("goqueue-demo-*/data/lock")
    found = re.search(r"process (\d+)", lock.read_text())
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_there_are_messages_until_it_is_stopped_and_then_nothing_is_left(tmp_path: Path, number: int) -> None:
    with demo(tmp_path, "--port", "0") as process:
        lines = banner_of(process)
        address = lines[0].split()[3].rstrip(",")
        assert f"  export GOQUEUE_SERVER={address}" in lines
        assert any(line.startswith("  goqueue-cli consume orders --follow ") for line in lines)
        with Client(address) as client:
            assert {"orders", "page-views", "payments", "reminders", "tickets", "invoices"} <= set(client.topics())
            with client.reader("orders", follow=True) as orders:
                order = next(iter(orders))
        assert order.key is not None
        assert {name for name, _ in order.headers} == {"source", "version"}
        process.send_signal(number)
        out, err = process.communicate()
    assert (process.returncode, out) == (0, "")
    assert err.endswith("the demo has ended, and its data is deleted\n")
    assert list(tmp_path.iterdir()) == []


def test_its_groups_work_and_what_cannot_be_worked_with_becomes_a_dead_letter(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0") as process:
        address = banner_of(process)[0].split()[3].rstrip(",")
        with Client(address) as client:
            with client.reader("payments", follow=True) as payments:
                next(True for _ in payments if "payments.dlq" in client.topics())
            with client.reader("payments.dlq", follow=True) as letters:
                letter = next(iter(letters))
            assert set(client.groups()) == {
                "archive", "billing", "invoicing", "mailer", "shipping", "statistics", "support",
            }  # fmt: skip
            assert client.group("billing")["members"]
            assert not client.group("archive")["members"]
        assert letter.value is not None
        assert b'"voucher"' in letter.value or b"null" in letter.value


def test_its_reminders_are_delayed_its_tickets_have_priorities_and_its_invoices_are_in_transactions(
    tmp_path: Path,
) -> None:
    with demo(tmp_path, "--port", "0") as process:
        address = banner_of(process)[0].split()[3].rstrip(",")
        with Client(address) as client:
            with client.reader("tickets", follow=True) as tickets:
                assert next(True for ticket in tickets if ticket.priority != NORMAL)
            with client.reader("invoices", follow=True) as invoices:
                assert next(iter(invoices)).key is not None
            until(address, lambda: client.delay_stats()["topics"].get("reminders", 0) > 0)
            until(address, lambda: client.transaction_stats()["aborted_total"] > 0)


def test_the_end_of_its_broker_is_told_with_exit_code_1(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0") as process:
        banner_of(process)
        os.kill(broker_process(tmp_path), signal.SIGKILL)
        _, err = process.communicate()
    assert process.returncode == 1
    assert err.endswith("error: the broker of the demo was killed by SIGKILL; it said nothing\n")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_demo_takes_its_broker_along_and_the_next_one_removes_its_data(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0") as process:
        banner_of(process)
        (left,) = tmp_path.iterdir()
        broker = os.pidfd_open(broker_process(tmp_path))
        process.kill()
        assert select.select([broker], [], [], 30)[0], "the broker goes on"
        os.close(broker)
    assert left.exists()
    with demo(tmp_path, "--port", "0") as process:
        banner_of(process)
        assert not left.exists()


def test_it_ends_by_itself_after_a_time(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0", "--for", "500ms") as process:
        _, err = process.communicate()
    assert process.returncode == 0
    assert re.search(r"^\d+ messages in \S+, \d+/s; stopping$", err, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


def test_it_publishes_as_many_messages_as_its_rate_says(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0", "--for", "1s") as process:
        _, err = process.communicate()
    found = re.search(r"^(\d+) messages in ", err, re.MULTILINE)
    assert found is not None
    assert int(found[1]) in {200, 201, 202}  # the last order may have its payment and its reminder with it


def test_without_a_port_it_takes_one_that_is_free(tmp_path: Path) -> None:
    with demo(tmp_path) as first:
        told = [banner_of(first)]
        with demo(tmp_path) as second:
            told.append(banner_of(second))
    addresses = [next(line for line in lines if line.startswith("GoQueue is at")) for lines in told]
    assert addresses[0] != addresses[1]
    why = re.compile("cannot listen on '127.0.0.1' port 8080: .*; using a free port, --port selects another")
    assert any(why.fullmatch(lines[0]) for lines in told)


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0") as first:
        port = banner_of(first)[0].split()[3].rstrip(",").rpartition(":")[2]
        with demo(tmp_path, "--port", port) as second:
            out, err = second.communicate()
    assert (second.returncode, out) == (2, "")
    assert err.startswith(f"error: cannot listen on '127.0.0.1' port {port}")


def test_a_duration_that_is_none_is_refused(tmp_path: Path) -> None:
    with demo(tmp_path, "--for", "long") as process:
        assert process.wait() == 2
