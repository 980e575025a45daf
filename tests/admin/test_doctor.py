"""`goqueue-admin doctor`: what it prints of a broker that is well and of one that is not, and how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue import __version__
from goqueue.client import Client
from goqueue.console import terminal
from goqueue.observe.doctor import CHECKS
from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from goqueue_admin import doctor
from goqueue_admin.doctor import BrokerProbe, _wrapped
from tests.admin.programs import admin
from tests.api.members import Member, receipts, told
from tests.brokers import ask, create, publish


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with two dead letters: one note, and nothing else."""
    with LocalBroker(str(tmp_path_factory.mktemp("well") / "data")) as local:
        create(local.url, "orders")
        publish(local.url, "orders", *"ab")
        handles = receipts(Member(local.url).join().poll())
        told(ask(local.url, "POST", "/messages/reject", {"receipt_handles": handles, "reason": "no such customer"}))
        yield local.url


@pytest.fixture
def ill(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A broker with a partition that takes nothing."""
    disk = FaultyDisk()
    monkeypatch.setattr("goqueue.daemon.SystemDisk", lambda: disk)
    with LocalBroker("/data") as local:
        create(local.url, "orders", partitions=2)
        disk.fail("sync", path="*/orders/1/*")
        ask(local.url, "POST", "/topics/orders/messages", {"messages": [{"value": "x", "partition": 1}]})
        yield local.url


def test_notes_are_shown_and_are_no_failure(well: str) -> None:
    done = admin(well, "doctor")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["SEVERITY", "CODE", "SUBJECT"]
    assert lines[1].split() == ["note", "dead_letters_waiting", "orders.dlq"]
    assert lines[2] == "  2 dead letters were not redriven"
    assert lines[3].startswith("  hint: `goqueue-cli dlq errors orders` shows why they failed")
    assert done.err == f"1 note; {len(CHECKS)} checks, {len(CHECKS)} of them ok\n"


def test_a_threshold_may_be_lower(well: str) -> None:
    assert admin(well, "doctor", "--severity", "note").code == 1
    assert admin(well, "doctor", "--severity", "critical").code == 0


def test_what_is_critical_comes_first_and_ends_with_1(ill: str) -> None:
    done = admin(ill, "doctor", "--no-headers", "--severity", "critical")
    assert done.code == 1
    assert done.out.splitlines()[0].split() == ["critical", "partition_fenced", "orders/1"]
    assert "  the partition accepts no messages: log orders/1 is fenced after a failure" in done.out
    assert done.err.startswith(f"1 critical, 1 warning; {len(CHECKS)} checks, {len(CHECKS) - 2} of them ok")


def test_for_programs_every_finding_has_all_its_fields(ill: str) -> None:
    done = admin(ill, "doctor", "-o", "json")
    found = json.loads(done.out)
    assert (done.code, done.err) == (1, "")
    assert [one["code"] for one in found] == ["partition_fenced", "sync_failed"]
    assert found[0].keys() == {"name", "code", "severity", "subject", "sentence", "hint", "details"}
    assert admin(ill, "doctor", "-o", "name").out == "partition_fenced orders/1\nsync_failed the device\n"
    assert admin(ill, "doctor", "-o", "csv").out.startswith("severity,code,subject,sentence,hint,details,name\n")


def test_the_checks_can_be_seen(ill: str) -> None:
    rows = {line.split()[0]: line.split()[1] for line in admin(ill, "doctor", "--checks").out.splitlines()}
    assert (rows["logs"], rows["flush"], rows["groups"]) == ("critical", "warning", "ok")


def test_nothing_wrong_is_an_empty_list_and_a_sentence(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as local:
        assert admin(local.url, "doctor", "-o", "json").out == "[]\n"
        done = admin(local.url, "doctor")
        assert (done.code, done.out, done.err) == (0, "", f"nothing is wrong as far as {len(CHECKS)} checks tell\n")


# --- what is seen from here ---


@pytest.mark.parametrize(
    ("seen", "codes"),
    [
        (BrokerProbe(0.001, 0.0, __version__), []),
        (BrokerProbe(0.001, 1.9, __version__), []),
        (BrokerProbe(0.001, -2.1, __version__), [("clock_differs", "warning")]),
        (BrokerProbe(0.06, 0.0, __version__), [("round_trip_slow", "note")]),
        (BrokerProbe(0.6, 3.0, __version__), [("clock_differs", "warning"), ("round_trip_slow", "warning")]),
        (BrokerProbe(0.001, 0.0, "0.0.9"), [("version_differs", "note")]),
    ],
)
def test_the_way_to_the_broker_is_looked_at(seen: BrokerProbe, codes: list[tuple[str, str]]) -> None:
    found = doctor.client_findings(seen)
    assert [(one["code"], one["severity"]) for one in found] == codes
    assert all(severity in doctor.CODES[code] for code, severity in codes)
    assert all(one["sentence"] and one["hint"] for one in found)


def test_clocks_that_differ_are_told_by_how_much_and_which_way() -> None:
    (ahead,), (behind,) = (
        doctor.client_findings(BrokerProbe(0.001, 90.0, __version__)),
        doctor.client_findings(BrokerProbe(0.001, -3.0, __version__)),
    )
    assert "the broker's clock is 1m30s ahead of this machine's" in ahead["sentence"]
    assert "the broker's clock is 3s behind this machine's" in behind["sentence"]


def test_a_broker_on_this_machine_has_the_same_clock(well: str) -> None:
    with Client(well) as client:
        seen = doctor.probe_broker(client)
    assert (seen.clock_ahead, seen.version) == (0.0, __version__)
    assert seen.round_trip > 0


def test_long_sentences_are_wrapped_where_a_terminal_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "width", lambda: 40)
    lines = list(_wrapped("the partition accepts no messages: log orders/1 is fenced after a failure"))
    assert len(lines) == 2
    assert all(len(line) <= 40 and line.startswith("  ") for line in lines)
