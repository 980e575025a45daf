"""Findings of the doctor: each code with its thresholds, and properties of all findings."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue import limits
from goqueue.commands.registry import PROGRAM as DAEMON
from goqueue.limits import MIB
from goqueue.observe.doctor import CHECKS, examine
from goqueue.observe.facts import (
    BackupFacts,
    BrokerFacts,
    ClockJump,
    ClusterCondition,
    DamagedRange,
    DeadLetterFacts,
    DelayedFacts,
    DiskFacts,
    EmptySubject,
    GroupFacts,
    GroupPartitionFacts,
    HeldBackMessages,
    LogRole,
    LostMessages,
    LostRecords,
    NodeCertificate,
    PoisonMessage,
    ProcessFacts,
    QuotaFacts,
    RefusedTenant,
    StartFacts,
    TlsFacts,
    TransactionFacts,
    UnwritableLog,
)
from goqueue.observe.finding import SEVERITIES, Finding
from goqueue.storage.recovery import RemovedTail
from goqueue.storage.segment_scan import Damage
from goqueue_admin.registry import PROGRAM as ADMIN
from goqueue_cli.registry import PROGRAM as CLI

GIB = 1024 * MIB
HOUR = 3600.0
WELL = BrokerFacts(
    uptime_seconds=10 * 24 * HOUR,
    partitions=12,
    disk=DiskFacts(path="/data", total_bytes=100 * GIB, used_bytes=35 * GIB, free_bytes=60 * GIB),
    process=ProcessFacts(
        loop_seconds=0.001, flush_seconds=0.002, in_flight_bytes_max=256 * MIB, open_files=50, open_files_max=1024,
        connections=3, connections_max=10_000,
    ),
)  # fmt: skip
CERTIFICATE = TlsFacts(
    path="/tls/server.pem", names=("queue.example",), issuer="CN=ours", expires_ns=1_790_000_000 * 10**9,
    seconds_left=1e9, fingerprint="5f" * 32, client_auth="none",
)  # fmt: skip
PLACE = GroupPartitionFacts(
    topic="orders", partition=0, messages=500, ready=500, seconds=600.0, rate=0.0, incoming=0.0, idle_seconds=400.0,
    member="till-1",
)  # fmt: skip


def found(facts: BrokerFacts, code: str) -> list[Finding]:
    return [finding for finding in examine(facts).findings if finding.code == code]


def severity(facts: BrokerFacts, code: str) -> str | None:
    """Return the severity of the only finding with this code, or None."""
    findings = found(facts, code)
    assert len(findings) <= 1
    return findings[0].severity if findings else None


def disk(**changes: Any) -> BrokerFacts:
    assert WELL.disk is not None
    return replace(WELL, disk=replace(WELL.disk, **changes))


def process(**changes: Any) -> BrokerFacts:
    return replace(WELL, process=replace(WELL.process, **changes))


def group(**changes: Any) -> BrokerFacts:
    return replace(WELL, groups=(replace(GroupFacts(name="billing", members=1), **changes),))


def working(**changes: Any) -> BrokerFacts:
    """A group with one partition."""
    place = replace(PLACE, **changes)
    return group(places=(place,), lag=place.messages)


# --- the whole ---


def test_healthy_broker_has_no_findings() -> None:
    diagnosis = examine(WELL)
    assert (diagnosis.status, diagnosis.findings) == ("ok", ())
    assert [(one.status, bool(one.message)) for one in diagnosis.checks] == [("ok", True)] * len(CHECKS)


def test_findings_are_sorted_and_the_worst_decides_the_status() -> None:
    facts = replace(
        process(loop_seconds=0.2),
        shut=(UnwritableLog(log="orders/1", reason="the device failed"),),
        start=StartFacts(unclaimed=("strays/0",)),
    )
    diagnosis = examine(facts)
    assert [one.severity for one in diagnosis.findings] == ["critical", "warning", "note"]
    assert diagnosis.status == "critical"
    statuses = {one.name: one.status for one in diagnosis.checks}
    assert (statuses["logs"], statuses["loop"], statuses["disk"]) == ("critical", "warning", "ok")


def test_notes_leave_the_status_ok() -> None:
    diagnosis = examine(replace(WELL, dead_letters=(DeadLetterFacts(topic="orders.dlq", messages=3),)))
    assert [one.severity for one in diagnosis.findings] == ["note"]
    assert diagnosis.status == "ok"


def test_findings_beyond_the_limit_are_counted() -> None:
    facts = replace(WELL, shut=tuple(UnwritableLog(log=f"orders/{number}", reason="gone") for number in range(10_000)))
    findings = found(facts, "partition_fenced")
    assert len(findings) == limits.DOCTOR_FINDINGS_MAX + 1
    assert (findings[-1].subject, findings[-1].details) == ("9,980 more", {"more": 9_980})


def test_repair_from_a_backup_copy_is_a_warning() -> None:
    start = StartFacts(restored={"__metadata/0": [Damage(0, 100, 0, 1, "zeros"), Damage(200, 400, 4, 6, "zeros")]})
    (finding,) = found(replace(WELL, start=start), "range_healed")
    assert (finding.severity, finding.subject) == ("warning", "__metadata/0")
    assert "2 damaged ranges (300B)" in finding.sentence


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("topics", "topics or their settings may be missing (a, b)"),
        ("groups", "messages again, and their members must join again (a, b)"),
        ("transactions", "aborted, except those that a partition shows as committed (a, b)"),
    ],
)
def test_lost_records_name_what_they_may_concern(role: LogRole, words: str) -> None:
    lost = LostRecords(log="__log/0", count=3, names=("a", "b"), role=role)
    (finding,) = found(replace(WELL, start=StartFacts(lost=(lost,))), "records_lost")
    assert (finding.severity, finding.details["names"]) == ("critical", ["a", "b"])
    assert words in finding.sentence


# --- the disk ---


@pytest.mark.parametrize(
    ("total", "free", "expected"),
    [
        (100 * GIB, 20 * GIB, None),
        (100 * GIB, 14 * GIB, "warning"),
        (100 * GIB, 2 * GIB, "critical"),
        (100_000 * GIB, 500 * GIB, None),  # a share of a large disk would be told too early
        (100_000 * GIB, 60 * GIB, "warning"),
        (100_000 * GIB, 7 * GIB, "critical"),
        (2 * GIB, GIB, None),  # and a number of bytes too early of a small one
        (2 * GIB, GIB // 10, "critical"),
        (100 * GIB, 0, "critical"),
    ],
)
def test_disk_filling_thresholds(total: int, free: int, expected: str | None) -> None:
    assert severity(disk(total_bytes=total, free_bytes=free), "disk_filling") == expected


@pytest.mark.parametrize(
    ("growth", "expected"),
    [
        (0.0, None),
        (-5e6, None),
        (60 * GIB / (5 * HOUR), None),
        (60 * GIB / (3 * HOUR), "warning"),
        (60 * GIB / (HOUR / 2), "critical"),
    ],
)
def test_disk_full_soon_thresholds(growth: float, expected: str | None) -> None:
    assert severity(disk(growth=growth), "disk_full_soon") == expected


def test_unknown_disk_has_no_findings() -> None:
    assert examine(replace(WELL, disk=None)).findings == ()


# --- logs ---


def test_unwritable_log_has_its_reason_and_consequence() -> None:
    logs = (
        UnwritableLog(log="orders/1", reason="the device failed"),
        UnwritableLog(
            log="__metadata/0", reason="no permission", hint="check owner and mode", is_open=False, role="topics"
        ),
        UnwritableLog(log="__consumer_offsets/3", reason="the device failed", role="groups"),
    )
    facts = replace(WELL, shut=logs)
    fenced = {one.subject: one.sentence for one in found(facts, "partition_fenced")}
    assert fenced == {
        "orders/1": "the partition accepts no messages: the device failed",
        "__consumer_offsets/3": "some consumer groups can neither poll nor ack: the device failed",
    }
    (closed,) = found(facts, "log_closed")
    assert closed.sentence == "no topic can be created, changed or deleted: no permission"
    assert closed.hint.startswith("check owner and mode; ")


def test_damaged_range_has_its_offsets() -> None:
    place = DamagedRange(log="orders/1", path="/data/logs/orders/1/0.log", damage=Damage(70, 140, 2, 4, "checksum"))
    (finding,) = found(replace(WELL, damages=(place,)), "range_damaged")
    assert (finding.severity, finding.subject) == ("critical", "orders/1")
    assert finding.sentence == "2 offsets from offset 2 cannot be read: checksum"
    assert finding.details == {
        "path": place.path, "position": 70, "end": 140, "first_offset": 2, "next_offset": 4, "reason": "checksum"
    }  # fmt: skip


def test_unclean_start_is_reported_for_a_day() -> None:
    start = StartFacts(surveyed=4, cuts=(RemovedTail("1.log", 0, 70, "zeros"), RemovedTail("2.log", 10, 40, "zeros")))
    facts = replace(WELL, uptime_seconds=60.0, start=start)
    (finding,) = found(facts, "unclean_start")
    assert (finding.severity, finding.details["cut_bytes"]) == ("note", 100)
    assert "removed 100B of unanswered writes from 2 logs" in finding.sentence
    assert found(replace(facts, uptime_seconds=25 * HOUR), "unclean_start") == []


# --- the process ---


@pytest.mark.parametrize(
    ("code", "field", "levels"),
    [
        ("loop_slow", "loop_seconds", {None: None, 0.09: None, 0.1: "warning", 1.5: "critical"}),
        ("broker_stalled", "stall_seconds", {0.0: None, 4.9: None, 5.0: "warning"}),
        ("flush_slow", "flush_seconds", {None: None, 0.2: None, 0.3: "warning", 2.0: "critical"}),
        ("sync_failed", "sync_failures", {0: None, 1: "warning", 9: "warning"}),
        ("in_flight_full", "in_flight_bytes", {191 * MIB: None, 192 * MIB: "warning", 256 * MIB: "critical"}),
        ("file_limit_near", "open_files", {None: None, 870: None, 871: "warning", 1024: "warning"}),
        ("connections_near_limit", "connections", {8_499: None, 8_500: "warning", 10_000: "critical"}),
        ("clock_behind", "clock_behind_seconds", {4.9: None, 5.0: "warning"}),
    ],
)
def test_process_thresholds(code: str, field: str, levels: dict[Any, str | None]) -> None:
    assert {value: severity(process(**{field: value}), code) for value in levels} == levels


def test_certificate_that_expires_is_found_earlier_and_worse_and_worse() -> None:
    day = 86_400
    levels = {
        30 * day: None,
        30 * day - 1: "note",
        7 * day: "note",
        7 * day - 1: "warning",
        day - 1: "critical",
        -1: "critical",
    }
    facts = {left: replace(WELL, tls=replace(CERTIFICATE, seconds_left=float(left))) for left in levels}
    assert {left: severity(one, "certificate_expiring") for left, one in facts.items()} == levels
    (finding,) = found(facts[day - 1], "certificate_expiring")
    assert finding.sentence.startswith("the TLS certificate expires in 1d, at 2026-")
    (finding,) = found(facts[-1], "certificate_expiring")
    assert finding.sentence.startswith("the TLS certificate expired at 2026-")
    (finding,) = found(replace(WELL, tls=replace(CERTIFICATE, error="the key is gone")), "certificate_not_loaded")
    assert finding.severity == "warning"
    assert finding.sentence.endswith("the former certificate stays in use: the key is gone")


def test_backup_is_old_by_its_schedule_or_after_a_missed_night() -> None:
    def at(hours: float | None, interval_hours: float = 0.0) -> str | None:
        seconds = None if hours is None else hours * HOUR
        facts = BackupFacts(target="/b", interval_seconds=interval_hours * HOUR, verified_seconds=seconds)
        return severity(replace(WELL, backups=facts), "backup_old")

    assert {hours: at(hours) for hours in (1, 35, 37, 150)} == {1: None, 35: None, 37: "warning", 150: "critical"}
    assert {hours: at(hours, 6) for hours in (11, 13, 49)} == {11: None, 13: "warning", 49: "critical"}
    assert at(None) == "critical", "it has run for ten days"


def test_quotas_are_found_near_their_limit_and_when_they_throttle_for_long() -> None:
    near = QuotaFacts(tenant="a", quota="max_storage_bytes", used=80, limit=100, percent=80)
    levels = {79.9: None, 80.0: "note", 100.0: "warning"}
    facts = {percent: replace(WELL, quotas=(replace(near, percent=percent),)) for percent in levels}
    assert {percent: severity(one, "quota_near") for percent, one in facts.items()} == levels
    rate = replace(near, quota="publish_rate_limit", percent=100, is_rate=True)
    assert severity(replace(WELL, quotas=(rate,)), "quota_near") is None, "a rate is used up for a moment"
    soft = replace(near, limit=None, soft_limit=50.0, percent=0)
    (finding,) = found(replace(WELL, quotas=(soft,)), "quota_near")
    assert (finding.severity, finding.sentence) == (
        "note",
        "it is over the soft limit of max_storage_bytes: 80B of 50B",
    )
    for seconds, expected in ((299, None), (300, "warning")):
        throttled = replace(rate, throttled_seconds=seconds)
        assert severity(replace(WELL, quotas=(throttled,)), "quota_throttled") == expected


def test_connections_lowered_by_the_file_limit_are_a_note() -> None:
    (finding,) = found(process(connections_max=168, connections_wanted=10_000), "connections_lowered")
    assert finding.severity == "note"
    assert finding.sentence == (
        "at most 168 connections can be open instead of 10,000: "
        "the process may open 1,024 files, and its logs need 832 of them"
    )
    assert found(process(connections_wanted=10_000), "connections_lowered") == []
    assert found(process(connections_wanted=10_001, open_files_max=None), "connections_lowered") == []


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        (0.0, "the clock jumped ahead by 5m: for the next 30m, "),
        (300.0, "when the broker started, the newest of its data was 5m old, or the clock had jumped ahead: for the"),
    ],
)
def test_clock_jump_is_distinguished_from_a_start_after_a_pause(start: float, sentence: str) -> None:
    doubt = ClockJump(ahead_seconds=300, start_seconds=start, seconds_left=1800, percent=10, held_back=("a",))
    (finding,) = found(BrokerFacts(uptime_seconds=1.0, clock_jump=doubt), "clock_jumped")
    assert finding.sentence.startswith(sentence)


@pytest.mark.parametrize(("start", "held_back", "is_told"), [(97, (), False), (97, ("a",), True), (4000, (), True)])
def test_short_pause_before_a_start_is_told_only_where_it_keeps_messages(
    start: float, held_back: tuple[str, ...], is_told: bool
) -> None:
    doubt = ClockJump(ahead_seconds=start, start_seconds=start, seconds_left=1800, percent=10, held_back=held_back)
    assert bool(found(BrokerFacts(uptime_seconds=1.0, clock_jump=doubt), "clock_jumped")) == is_told


@pytest.mark.parametrize(("held_back", "expected"), [((), "note"), (("orders", "prices"), "warning")])
def test_clock_jump_is_a_warning_when_it_keeps_messages(held_back: tuple[str, ...], expected: str) -> None:
    doubt = ClockJump(ahead_seconds=400 * 24 * HOUR, seconds_left=1800, percent=10, held_back=held_back)
    (finding,) = found(BrokerFacts(uptime_seconds=1.0, clock_jump=doubt), "clock_jumped")
    assert finding.severity == expected
    assert "ahead by 400d" in finding.sentence
    assert "for the next 30m, retention deletes at most 10 %" in finding.sentence
    assert ("messages of orders and 1 more are kept for now" in finding.sentence) == bool(held_back)


# --- delayed messages ---


@pytest.mark.parametrize(("seconds", "expected"), [(29.9, None), (30.0, "warning")])
def test_delayed_messages_are_late_from_thirty_seconds(seconds: float, expected: str | None) -> None:
    late = DelayedFacts(topic="orders", partition=1, messages=3, seconds=seconds)
    assert severity(BrokerFacts(uptime_seconds=1.0, delayed=(late,)), "delayed_late") == expected


# --- groups ---


def test_group_with_members_that_finish_nothing_is_stuck() -> None:
    (finding,) = found(working(in_flight=12), "group_stuck")
    assert finding.sentence == "no message was finished for 6m40s: 500 messages wait in orders/0, 12 in flight"
    assert finding.hint.startswith("check its consumers: `goqueue-cli group describe billing`")
    assert finding.details["members"] == ["till-1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"idle_seconds": 29.0},  # it has just finished one
        {"idle_seconds": 299.0, "in_flight": 1},  # it may still process it
        {"seconds": 29.0},  # there was nothing to do until now
        {"ready": 0},  # all that is left waits for its delay
        {"member": None},  # no member has it
    ],
)
def test_group_without_ready_messages_is_not_stuck(changes: dict[str, Any]) -> None:
    assert severity(working(**changes), "group_stuck") is None


def test_group_that_is_stuck_for_a_moment_is_a_note() -> None:
    assert severity(working(idle_seconds=31.0), "group_stuck") == "note"
    assert severity(working(idle_seconds=301.0), "group_stuck") == "warning"


def test_rebalancing_group_is_not_stuck() -> None:
    facts = group(places=(PLACE,), rebalance_seconds=31.0, awaited=("till-1",))
    assert severity(facts, "group_stuck") is None
    (finding,) = found(facts, "group_rebalancing_long")
    assert finding.sentence == "a rebalance has been running for 31s; it waits for till-1"
    assert severity(group(rebalance_seconds=29.0), "group_rebalancing_long") is None


def test_group_with_lag_and_no_members_is_abandoned() -> None:
    facts = group(members=0, empty_seconds=HOUR, deleted_in_seconds=6 * 24 * HOUR, lag=1)
    (finding,) = found(facts, "group_abandoned")
    assert finding.sentence == "it has had no members for 1h, and 1 message waits; it is deleted in 6d"
    assert severity(group(members=0, empty_seconds=HOUR, lag=0), "group_abandoned") is None
    assert severity(group(members=0, empty_seconds=29.0, lag=9), "group_abandoned") is None
    assert severity(group(members=0, empty_seconds=60.0, lag=9), "group_abandoned") == "note"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "warning"),
        ({"rate": 30.0}, None),
        ({"rate": 19.0}, None),  # within the measurement error
        ({"messages": 900}, "note"),
        ({"ready": 99}, None),
        ({"seconds": 100.0}, "note"),
        ({"seconds": 29.0}, None),
        ({"member": None}, None),
    ],
)
def test_group_falls_behind_when_it_is_slower_than_publishers(changes: dict[str, Any], expected: str | None) -> None:
    slow = {"messages": 5_000, "rate": 5.0, "incoming": 20.0, "idle_seconds": 0.0} | changes
    assert severity(working(**slow), "group_falling_behind") == expected


def test_group_speed_is_not_judged_after_startup() -> None:
    facts = working(messages=5_000, rate=5.0, incoming=20.0, idle_seconds=0.0)
    assert severity(replace(facts, uptime_seconds=60.0), "group_falling_behind") == "note"


@pytest.mark.parametrize(("ranges", "expected"), [(49_999, None), (50_000, "warning"), (100_000, "critical")])
def test_group_ranges_thresholds(ranges: int, expected: str | None) -> None:
    assert severity(group(ranges=ranges), "group_ranges_many") == expected


@pytest.mark.parametrize(("count", "expected"), [(8_999, None), (9_000, "warning"), (10_000, "critical")])
def test_group_count_thresholds(count: int, expected: str | None) -> None:
    facts = replace(WELL, groups=tuple(GroupFacts(name=f"g{number}") for number in range(count)))
    assert severity(facts, "groups_near_limit") == expected


def test_continuing_loss_is_a_warning_and_a_past_one_a_note() -> None:
    over = LostMessages(topic="orders", partition=0, messages=7)
    assert severity(group(losses=(over,)), "messages_lost_to_retention") == "note"
    facts = group(losses=(over, LostMessages(topic="orders", partition=1, messages=2, is_continuing=True)))
    (finding,) = found(facts, "messages_lost_to_retention")
    assert (finding.severity, finding.details["lost"]) == ("warning", 9)


@pytest.mark.parametrize(("age", "expected"), [(7 * HOUR, None), (8 * HOUR, "warning"), (11 * HOUR, "warning")])
def test_messages_near_the_end_of_retention_are_a_warning(age: float, expected: str | None) -> None:
    facts = working(seconds=age, retention_seconds=10 * HOUR, idle_seconds=0.0, ready=0)
    assert severity(facts, "messages_expire_soon") == expected


def test_messages_without_retention_do_not_expire() -> None:
    assert severity(working(seconds=9e9, retention_seconds=None), "messages_expire_soon") is None


def test_poison_message_with_the_most_deliveries_is_named() -> None:
    poison_messages = (
        PoisonMessage(topic="orders", partition=0, offset=4, deliveries=10),
        PoisonMessage(topic="orders", partition=2, offset=41, deliveries=17),
    )
    (finding,) = found(group(poison_messages=poison_messages), "poison_message")
    assert finding.sentence.startswith("message orders/2@41 was delivered 17 times")
    assert finding.hint == "read the message: `goqueue-cli consume orders --partition 2 --from 41 --limit 1`"


def test_dead_letters_are_stuck_after_a_minute() -> None:
    assert severity(group(leaving=2, leaving_seconds=59.0), "dead_letters_stuck") is None
    assert severity(group(leaving=2, leaving_seconds=61.0), "dead_letters_stuck") == "warning"


@pytest.mark.parametrize(("messages", "expected"), [(0, None), (1, "note"), (1_000, "warning")])
def test_waiting_dead_letters_thresholds(messages: int, expected: str | None) -> None:
    facts = replace(WELL, dead_letters=(DeadLetterFacts(topic="orders.dlq", messages=messages),))
    assert severity(facts, "dead_letters_waiting") == expected


def test_disk_is_described_with_the_numbers_of_df() -> None:
    facts = disk(total_bytes=252 << 30, used_bytes=30 << 30, free_bytes=70 << 30)
    (check,) = (one for one in examine(facts).checks if one.name == "disk")
    assert check.message == "30GiB used and 70GiB available of 252GiB (30%)"


# --- transactions ---


def transaction(**changes: Any) -> BrokerFacts:
    """A long-open transaction with one message of its own and nine of other producers behind it."""
    held = (HeldBackMessages(topic="orders", partition=1, messages=10),)
    found = TransactionFacts(
        name="till-1", transaction="7-3", state="ongoing", seconds=45, idle_seconds=12.2, expires_in=47.8, messages=1,
        held_back=held,
    )  # fmt: skip
    return replace(WELL, transactions_open=1, transactions=(replace(found, **changes),))


def test_hung_transaction_has_the_command_that_aborts_it() -> None:
    (finding,) = found(transaction(), "transaction_hung")
    assert (finding.severity, finding.subject) == ("warning", "till-1")
    assert finding.sentence == (
        "transaction 7-3 has been open for 45s: readers do not see 10 messages of orders/1 until it ends, "
        "9 of them from other producers"
    )
    assert finding.hint == (
        "check its producer, whose last request was 12s ago; without another request it is aborted in 48s; "
        "`goqueue-cli transaction abort till-1` ends it now"
    )
    assert finding.details["held_back"] == {"orders/1": 10}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"seconds": limits.TRANSACTION_HUNG_SECONDS}, "warning"),
        ({"seconds": limits.TRANSACTION_HUNG_SECONDS - 0.1}, None),
        ({"messages": 10}, "note"),
        ({"held_back": ()}, None),
        ({"state": "prepare_commit"}, None),
    ],
)
def test_hung_transaction_thresholds(changes: dict[str, Any], expected: str | None) -> None:
    assert severity(transaction(**changes), "transaction_hung") == expected


def test_stuck_transaction_has_its_obstacle() -> None:
    facts = transaction(state="prepare_abort", seconds=11, obstacle="log orders/1 is fenced")
    (finding,) = found(facts, "transaction_stuck")
    assert finding.severity == "critical"
    assert finding.sentence == (
        "transaction 7-3 could not be aborted for 11s: log orders/1 is fenced; "
        "readers do not see 10 messages of orders/1 until it is"
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": "prepare_commit", "seconds": limits.TRANSACTION_STUCK_SECONDS}, "critical"),
        ({"state": "prepare_commit", "seconds": limits.TRANSACTION_STUCK_SECONDS, "held_back": ()}, "critical"),
        ({"state": "prepare_commit", "seconds": limits.TRANSACTION_STUCK_SECONDS - 0.1}, None),
        ({"state": "ongoing"}, None),
    ],
)
def test_stuck_transaction_thresholds(changes: dict[str, Any], expected: str | None) -> None:
    assert severity(transaction(**changes), "transaction_stuck") == expected


# --- properties of all findings ---

NAMES = st.sampled_from(["orders", "a.dlq", "x" * 255])
COUNTS = st.one_of(st.integers(0, 20), st.integers(0, 2**40))
SECONDS = st.one_of(st.floats(0, 1e3), st.floats(0, 1e9))
PLACES = st.builds(
    GroupPartitionFacts, topic=NAMES, partition=st.integers(0, 999), messages=COUNTS, ready=COUNTS, seconds=SECONDS,
    rate=SECONDS, incoming=SECONDS, idle_seconds=SECONDS, in_flight=COUNTS, member=st.none() | NAMES,
    retention_seconds=st.none() | SECONDS,
)  # fmt: skip
GROUPS = st.builds(
    GroupFacts, name=NAMES, members=COUNTS, empty_seconds=st.none() | SECONDS, deleted_in_seconds=st.none() | SECONDS,
    rebalance_seconds=st.none() | SECONDS, awaited=st.lists(NAMES, max_size=8).map(tuple), lag=COUNTS,
    places=st.lists(PLACES, max_size=8).map(tuple),
    losses=st.lists(
        st.builds(LostMessages, topic=NAMES, partition=COUNTS, messages=COUNTS, is_continuing=st.booleans()), max_size=3
    ).map(tuple),
    poison_messages=st.lists(
        st.builds(PoisonMessage, topic=NAMES, partition=COUNTS, offset=COUNTS, deliveries=COUNTS), max_size=3
    ).map(tuple),
    ranges=st.integers(0, 100_000), leaving=COUNTS, leaving_seconds=SECONDS,
)  # fmt: skip
SHUT = st.builds(
    UnwritableLog, log=NAMES, reason=NAMES, hint=st.none() | NAMES, is_open=st.booleans(),
    role=st.sampled_from(["topic", "topics", "groups", "transactions"]),
)  # fmt: skip
TRANSACTIONS = st.builds(
    TransactionFacts, name=NAMES, transaction=NAMES,
    state=st.sampled_from(["ongoing", "prepare_commit", "prepare_abort"]), seconds=SECONDS, idle_seconds=SECONDS,
    expires_in=st.none() | SECONDS, messages=COUNTS, obstacle=st.none() | NAMES,
    held_back=st.lists(
        st.builds(HeldBackMessages, topic=NAMES, partition=COUNTS, messages=COUNTS), max_size=8
    ).map(tuple),
)  # fmt: skip
FACTS = st.builds(
    BrokerFacts,
    uptime_seconds=SECONDS,
    disk=st.none() | st.builds(
        DiskFacts, path=NAMES, total_bytes=COUNTS, used_bytes=COUNTS, free_bytes=COUNTS, growth=st.floats(-1e9, 1e9)
    ),
    process=st.builds(
        ProcessFacts, loop_seconds=st.none() | SECONDS, flush_seconds=st.none() | SECONDS, sync_failures=COUNTS,
        stall_seconds=SECONDS,
        in_flight_bytes=COUNTS, in_flight_bytes_max=st.integers(1, 2**40), open_files=st.none() | COUNTS,
        open_files_max=st.none() | COUNTS, connections=COUNTS, clock_behind_seconds=SECONDS,
    ),
    tls=st.none() | st.builds(lambda left: replace(CERTIFICATE, seconds_left=left), SECONDS),
    shut=st.lists(SHUT, max_size=40).map(tuple),
    start=st.builds(StartFacts, surveyed=COUNTS, unclaimed=st.lists(NAMES, max_size=3).map(tuple)),
    clock_jump=st.none() | st.builds(
        ClockJump, ahead_seconds=SECONDS, seconds_left=SECONDS, percent=st.integers(0, 100),
        held_back=st.lists(NAMES, max_size=3).map(tuple),
    ),
    groups=st.lists(GROUPS, max_size=4).map(tuple),
    delayed=st.lists(
        st.builds(DelayedFacts, topic=NAMES, partition=COUNTS, messages=COUNTS, seconds=SECONDS), max_size=3
    ).map(tuple),
    dead_letters=st.lists(st.builds(DeadLetterFacts, topic=NAMES, messages=COUNTS), max_size=3).map(tuple),
    transactions_open=COUNTS,
    transactions=st.lists(TRANSACTIONS, max_size=4).map(tuple),
)  # fmt: skip


@given(FACTS)
def test_findings_of_any_facts_are_sorted_and_have_a_hint(facts: BrokerFacts) -> None:
    diagnosis = examine(facts)
    severities = [SEVERITIES.index(one.severity) for one in diagnosis.findings]
    assert severities == sorted(severities)
    assert all(one.subject and one.sentence and one.hint for one in diagnosis.findings)
    assert all(not one.sentence.endswith(".") and "\n" not in one.sentence for one in diagnosis.findings)
    worst = diagnosis.findings[0].severity if diagnosis.findings else "note"
    assert diagnosis.status == ("ok" if worst == "note" else worst)
    assert examine(facts) == diagnosis


def test_every_code_can_be_found() -> None:
    codes = [rule.code for check in CHECKS for rule in check.rules]
    assert len(codes) == len(set(codes))
    assert {finding.code for finding in examine(ILL).findings} == set(codes)


def test_every_command_in_a_hint_exists() -> None:
    known = {f"{program.name} {command.path}" for program in (DAEMON, CLI, ADMIN) for command in program.commands}
    hints = list(_commands(examine(ILL).findings))
    assert len(hints) > 10
    assert [one for one in hints if not any(f"{one} ".startswith(f"{command} ") for command in known)] == []


def _commands(findings: tuple[Finding, ...]) -> Iterator[str]:
    for finding in findings:
        yield from re.findall(r"`(goqueue[^`]*)`", finding.hint)


ILL = BrokerFacts(
    uptime_seconds=2 * HOUR,
    disk=DiskFacts(path="/data", total_bytes=100 * GIB, used_bytes=94 * GIB, free_bytes=GIB, growth=1e9),
    process=ProcessFacts(
        loop_seconds=2, flush_seconds=3, sync_failures=1, in_flight_bytes=1, in_flight_bytes_max=1, open_files=10,
        open_files_max=10, connections=10, connections_max=10, connections_wanted=11, clock_behind_seconds=60,
        stall_seconds=40,
    ),
    tls=replace(CERTIFICATE, seconds_left=0.0, error="the key is gone"),
    cluster=ClusterCondition(
        node="n1", seconds_without_controller=60.0, failure="the disk failed", without_vote=("n1",), dead=("n2",),
        problems=(("n3", "it has another secret"),), unserved=(("a", "another one"),),
        unadopted=(("before-cluster-schemas", "another one"),),
        offline=("a/0",), under_min_isr=("a/1",), unclean=("a/4",),
        under_replicated=("a/2",), away=("a/3",), lags=(("n2", 1_000_000),),
        damaged=(("a/5", "n2: it is away"),), repaired=(("a/6", 1, 100),), differing=(("a/7", "n2", 5),),
        stalled_moves=(("a/8", "node n4 is not there"),),
        certificate=NodeCertificate("/etc/goqueue/n1.pem", HOUR, "the key does not fit"),
    ),
    backups=BackupFacts(
        target="/backups",
        verified_seconds=48.0 * HOUR,
        problem="no space",
        target_problem="/backups has no backups any more",
        key_problem="the key file /etc/goqueue/backup.key has no key",
        locked=("20261119T031500Z-5f0c2a9b",),
        damaged=("20261120T031500Z-5f0c2a9b",),
        newest="20261120T031500Z-5f0c2a9b",
        unavailable=("a/0",),
    ),
    quotas=(QuotaFacts(tenant="a", quota="max_topics", used=9, limit=9, percent=100, throttled_seconds=900),),
    refused=("a/3",),
    refusal="the disk is full",
    gone_directory="/data",
    shut=(UnwritableLog(log="a/0", reason="x"), UnwritableLog(log="a/1", reason="y", is_open=False)),
    damages=(DamagedRange(log="a/2", path="p", damage=Damage(0, 1, 0, 1, "zeros")),),
    start=StartFacts(
        surveyed=1,
        unclaimed=("b/0",),
        restored={"__metadata/0": [Damage(0, 100, 0, 1, "zeros")]},
        lost=(LostRecords(log="__metadata/0", count=1),),
    ),
    clock_jump=ClockJump(ahead_seconds=90, seconds_left=60, percent=10, held_back=("a",)),
    groups=(
        GroupFacts(
            name="billing", members=1, lag=9_000, ranges=100_000, leaving=1, leaving_seconds=99,
            places=(replace(PLACE, messages=9_000, incoming=9.0, retention_seconds=300.0),),
            losses=(LostMessages(topic="orders", partition=0, messages=1),),
            poison_messages=(PoisonMessage(topic="orders", partition=0, offset=4, deliveries=99),),
        ),
        GroupFacts(
            name="slow", members=1, lag=9_000,
            places=(replace(PLACE, messages=9_000, ready=9_000, incoming=9.0, idle_seconds=0.0),),
        ),
        GroupFacts(name="old", empty_seconds=9e5, lag=1),
        GroupFacts(name="torn", members=2, rebalance_seconds=99, awaited=("till-2",)),
        *(GroupFacts(name=f"g{number}") for number in range(9_997)),
    ),
    dead_letters=(DeadLetterFacts(topic="orders.dlq", messages=1),),
    delayed=(DelayedFacts(topic="orders", partition=0, messages=3, seconds=60),),
    tenants=1,
    refused_tenants=(RefusedTenant(tenant="a", status="suspended", reason="unpaid", requests=3),),
    empty_subjects=(EmptySubject(topic="orders", subject="orders-value", setting="value_validation"),),
    transactions_open=2,
    transactions=(*transaction().transactions, *transaction(state="prepare_commit", name="till-2").transactions),
)  # fmt: skip
