"""What the doctor finds: each code when it should be, and not before; and what must hold of all of them."""

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
from goqueue.observe.facts import (
    ClockDoubt,
    CutEnd,
    DamagedRange,
    DeadLetterFacts,
    DelayedFacts,
    DiskFacts,
    Facts,
    GroupFacts,
    HealedLog,
    HeldBack,
    Loss,
    Ordeal,
    PlaceFacts,
    ProcessFacts,
    RecordLoss,
    Role,
    ShutLog,
    StartFacts,
    TransactionFacts,
)
from goqueue.observe.finding import SEVERITIES, Finding
from goqueue.observe.findings import CHECKS, examine
from goqueue_admin.registry import PROGRAM as ADMIN
from goqueue_cli.registry import PROGRAM as CLI

GIB = 1024 * MIB
HOUR = 3600.0
WELL = Facts(
    uptime_seconds=10 * 24 * HOUR,
    partitions=12,
    disk=DiskFacts(path="/data", total_bytes=100 * GIB, free_bytes=60 * GIB),
    process=ProcessFacts(
        loop_seconds=0.001, flush_seconds=0.002, in_flight_bytes_max=256 * MIB, open_files=50, open_files_max=1024,
        connections=3, connections_max=10_000,
    ),
)  # fmt: skip
PLACE = PlaceFacts(
    topic="orders", partition=0, messages=500, ready=500, seconds=600.0, rate=0.0, incoming=0.0, idle_seconds=400.0,
    member="till-1",
)  # fmt: skip


def found(facts: Facts, code: str) -> list[Finding]:
    return [finding for finding in examine(facts).findings if finding.code == code]


def severity(facts: Facts, code: str) -> str | None:
    """Of the only finding with this code; None where there is none."""
    findings = found(facts, code)
    assert len(findings) <= 1
    return findings[0].severity if findings else None


def disk(**changes: Any) -> Facts:
    assert WELL.disk is not None
    return replace(WELL, disk=replace(WELL.disk, **changes))


def process(**changes: Any) -> Facts:
    return replace(WELL, process=replace(WELL.process, **changes))


def group(**changes: Any) -> Facts:
    return replace(WELL, groups=(replace(GroupFacts(name="billing", members=1), **changes),))


def working(**changes: Any) -> Facts:
    """A group with one partition."""
    place = replace(PLACE, **changes)
    return group(places=(place,), lag=place.messages)


# --- the whole ---


def test_nothing_is_found_where_all_is_well() -> None:
    diagnosis = examine(WELL)
    assert (diagnosis.status, diagnosis.findings) == ("ok", ())
    assert [(one.status, bool(one.message)) for one in diagnosis.checks] == [("ok", True)] * len(CHECKS)


def test_the_worst_comes_first_and_makes_the_status() -> None:
    facts = replace(
        process(loop_seconds=0.2),
        shut=(ShutLog(log="orders/1", reason="the device failed"),),
        start=StartFacts(unclaimed=("strays/0",)),
    )
    diagnosis = examine(facts)
    assert [one.severity for one in diagnosis.findings] == ["critical", "warning", "note"]
    assert diagnosis.status == "critical"
    statuses = {one.name: one.status for one in diagnosis.checks}
    assert (statuses["logs"], statuses["loop"], statuses["disk"]) == ("critical", "warning", "ok")


def test_a_note_is_no_reason_to_call_anything_unwell() -> None:
    diagnosis = examine(replace(WELL, dead_letters=(DeadLetterFacts(topic="orders.dlq", messages=3),)))
    assert [one.severity for one in diagnosis.findings] == ["note"]
    assert diagnosis.status == "ok"


def test_what_is_true_of_thousands_is_told_of_some_and_counted_for_the_rest() -> None:
    facts = replace(WELL, shut=tuple(ShutLog(log=f"orders/{number}", reason="gone") for number in range(10_000)))
    findings = found(facts, "partition_fenced")
    assert len(findings) == limits.DOCTOR_FINDINGS_MAX + 1
    assert (findings[-1].subject, findings[-1].details) == ("9,980 more", {"more": 9_980})


def test_what_was_healed_from_a_copy_is_a_warning_about_the_device() -> None:
    start = StartFacts(healed=(HealedLog(log="__metadata/0", ranges=2, size=300),))
    (finding,) = found(replace(WELL, start=start), "range_healed")
    assert (finding.severity, finding.subject) == ("warning", "__metadata/0")
    assert "2 damaged ranges" in finding.sentence


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("topics", "a topic or its settings may be missing (a, b)"),
        ("groups", "messages again, and members have to join again (a, b)"),
        ("transactions", "aborted, unless a partition shows that they were committed (a, b)"),
    ],
)
def test_lost_records_are_told_with_what_they_may_be_about(role: Role, words: str) -> None:
    lost = RecordLoss(log="__log/0", count=3, names=("a", "b"), role=role)
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
def test_a_disk_is_filling_by_its_share_and_by_what_that_comes_to(total: int, free: int, expected: str | None) -> None:
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
def test_a_disk_that_fills_is_told_by_how_long_it_has(growth: float, expected: str | None) -> None:
    assert severity(disk(growth=growth), "disk_full_soon") == expected


def test_nothing_is_said_of_a_disk_of_which_nothing_is_known() -> None:
    assert examine(replace(WELL, disk=None)).findings == ()


# --- logs ---


def test_a_log_that_takes_nothing_is_told_with_its_reason_and_what_that_means() -> None:
    logs = (
        ShutLog(log="orders/1", reason="the device failed"),
        ShutLog(log="__metadata/0", reason="no permission", hint="check owner and mode", is_open=False, role="topics"),
        ShutLog(log="__consumer_offsets/3", reason="the device failed", role="groups"),
    )
    facts = replace(WELL, shut=logs)
    fenced = {one.subject: one.sentence for one in found(facts, "partition_fenced")}
    assert fenced == {
        "orders/1": "the partition takes no messages: the device failed",
        "__consumer_offsets/3": "some groups can neither poll nor settle: the device failed",
    }
    (closed,) = found(facts, "log_closed")
    assert closed.sentence == "no topic can be created, changed or deleted: no permission"
    assert closed.hint.startswith("check owner and mode; ")


def test_damage_is_told_with_its_offsets() -> None:
    damage = DamagedRange(
        log="orders/1", path="/data/logs/orders/1/0.log", position=70, end=140, first_offset=2, next_offset=4,
        reason="checksum",
    )  # fmt: skip
    (finding,) = found(replace(WELL, damages=(damage,)), "range_damaged")
    assert (finding.severity, finding.subject) == ("critical", "orders/1")
    assert finding.sentence == "2 offsets from 2 on cannot be read: checksum"


def test_an_unclean_start_is_told_for_a_day_with_what_was_cut() -> None:
    start = StartFacts(surveyed=4, cuts=(CutEnd(log="orders/1", size=70), CutEnd(log="orders/2", size=30)))
    facts = replace(WELL, uptime_seconds=60.0, start=start)
    (finding,) = found(facts, "unclean_start")
    assert (finding.severity, finding.details["cut_bytes"]) == ("note", 100)
    assert "cut 100B of unanswered writes from 2 logs" in finding.sentence
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
def test_the_process_is_judged_by_its_numbers(code: str, field: str, levels: dict[Any, str | None]) -> None:
    assert {value: severity(process(**{field: value}), code) for value in levels} == levels


def test_connections_that_the_limit_of_files_does_not_leave_are_noted() -> None:
    (finding,) = found(process(connections_max=168, connections_wanted=10_000), "connections_lowered")
    assert finding.severity == "note"
    assert finding.sentence == (
        "168 connections may be open instead of 10,000: "
        "the process may have 1,024 files open, of which the logs need 832"
    )
    assert found(process(connections_wanted=10_000), "connections_lowered") == []
    assert found(process(connections_wanted=10_001, open_files_max=None), "connections_lowered") == []


@pytest.mark.parametrize(("held_back", "expected"), [((), "note"), (("orders", "prices"), "warning")])
def test_jump_of_the_clock_is_a_warning_where_it_holds_messages_back(held_back: tuple[str, ...], expected: str) -> None:
    doubt = ClockDoubt(ahead_seconds=400 * 24 * HOUR, seconds_left=1800, percent=10, held_back=held_back)
    (finding,) = found(Facts(uptime_seconds=1.0, clock_doubt=doubt), "clock_jumped")
    assert finding.severity == expected
    assert "400d ahead" in finding.sentence
    assert "for 30m retention removes at most 10 %" in finding.sentence
    assert ("holds back messages of orders and 1 more" in finding.sentence) == bool(held_back)


# --- delayed messages ---


@pytest.mark.parametrize(("seconds", "expected"), [(29.9, None), (30.0, "warning")])
def test_delayed_messages_are_told_of_when_they_are_very_late(seconds: float, expected: str | None) -> None:
    late = DelayedFacts(topic="orders", partition=1, messages=3, seconds=seconds)
    assert severity(Facts(uptime_seconds=1.0, delayed=(late,)), "delayed_late") == expected


# --- groups ---


def test_a_group_is_stuck_when_members_have_messages_and_finish_none() -> None:
    (finding,) = found(working(in_flight=12), "group_stuck")
    assert finding.sentence == ("500 messages wait in orders/0, 12 of them in hand, and none was done with for 6m40s")
    assert finding.hint == "look at what its members do: `goqueue-cli group describe billing`"
    assert finding.details["members"] == ["till-1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"idle_seconds": 299.0},  # it has just finished one
        {"seconds": 299.0},  # there was nothing to do until now
        {"ready": 0},  # all that is left waits for its delay
        {"member": None},  # nobody is there
    ],
)
def test_a_group_that_has_nothing_to_do_is_not_stuck(changes: dict[str, Any]) -> None:
    assert severity(working(**changes), "group_stuck") is None


def test_a_group_that_rebalances_is_not_called_stuck() -> None:
    facts = group(places=(PLACE,), rebalance_seconds=31.0, awaited=("till-1",))
    assert severity(facts, "group_stuck") is None
    (finding,) = found(facts, "group_rebalancing_long")
    assert finding.sentence == "a rebalance is under way for 31s, and waits for till-1"
    assert severity(group(rebalance_seconds=29.0), "group_rebalancing_long") is None


def test_a_group_is_abandoned_when_messages_wait_and_nobody_comes() -> None:
    facts = group(members=0, empty_seconds=HOUR, forgotten_in=6 * 24 * HOUR, lag=1)
    (finding,) = found(facts, "group_abandoned")
    assert finding.sentence == "it had no members for 1h, and 1 message waits for it; in 6d it is forgotten"
    assert severity(group(members=0, empty_seconds=HOUR, lag=0), "group_abandoned") is None
    assert severity(group(members=0, empty_seconds=60.0, lag=9), "group_abandoned") is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "warning"),
        ({"rate": 30.0}, None),
        ({"rate": 19.0}, None),  # so near that it may be a matter of measuring
        ({"messages": 900}, None),
        ({"seconds": 100.0}, None),
        ({"member": None}, None),
    ],
)
def test_a_group_falls_behind_when_more_comes_in_than_is_done(changes: dict[str, Any], expected: str | None) -> None:
    slow = {"messages": 5_000, "rate": 5.0, "incoming": 20.0, "idle_seconds": 0.0} | changes
    assert severity(working(**slow), "group_falling_behind") == expected


def test_speeds_of_groups_are_not_judged_just_after_a_start() -> None:
    facts = working(messages=5_000, rate=5.0, incoming=20.0, idle_seconds=0.0)
    assert severity(replace(facts, uptime_seconds=60.0), "group_falling_behind") is None


@pytest.mark.parametrize(("ranges", "expected"), [(49_999, None), (50_000, "warning"), (100_000, "critical")])
def test_a_group_with_many_open_ranges_is_told_before_it_stands(ranges: int, expected: str | None) -> None:
    assert severity(group(ranges=ranges), "group_ranges_many") == expected


@pytest.mark.parametrize(("count", "expected"), [(8_999, None), (9_000, "warning"), (10_000, "critical")])
def test_the_number_of_groups_is_limited(count: int, expected: str | None) -> None:
    facts = replace(WELL, groups=tuple(GroupFacts(name=f"g{number}") for number in range(count)))
    assert severity(facts, "groups_near_limit") == expected


def test_a_loss_that_goes_on_is_worse_than_one_that_is_over() -> None:
    over = Loss(topic="orders", partition=0, messages=7)
    assert severity(group(losses=(over,)), "messages_lost_to_retention") == "note"
    facts = group(losses=(over, Loss(topic="orders", partition=1, messages=2, is_going_on=True)))
    (finding,) = found(facts, "messages_lost_to_retention")
    assert (finding.severity, finding.details["lost"]) == ("warning", 9)


@pytest.mark.parametrize(("age", "expected"), [(7 * HOUR, None), (8 * HOUR, "warning"), (11 * HOUR, "warning")])
def test_messages_that_a_group_may_lose_are_told_before(age: float, expected: str | None) -> None:
    facts = working(seconds=age, retention_seconds=10 * HOUR, idle_seconds=0.0, ready=0)
    assert severity(facts, "messages_expire_soon") == expected


def test_messages_of_a_topic_that_keeps_them_do_not_expire() -> None:
    assert severity(working(seconds=9e9, retention_seconds=None), "messages_expire_soon") is None


def test_the_worst_of_the_messages_that_come_again_and_again_is_named() -> None:
    ordeals = (
        Ordeal(topic="orders", partition=0, offset=4, deliveries=10),
        Ordeal(topic="orders", partition=2, offset=41, deliveries=17),
    )
    (finding,) = found(group(ordeals=ordeals), "poison_message")
    assert finding.sentence.startswith("the message orders/2@41 was handed out 17 times")
    assert finding.hint == "look at it: `goqueue-cli consume orders --partition 2 --from 41 --limit 1`"


def test_messages_that_do_not_arrive_among_the_dead_letters_are_told_after_a_while() -> None:
    assert severity(group(leaving=2, leaving_seconds=59.0), "dead_letters_stuck") is None
    assert severity(group(leaving=2, leaving_seconds=61.0), "dead_letters_stuck") == "warning"


@pytest.mark.parametrize(("messages", "expected"), [(0, None), (1, "note"), (1_000, "warning")])
def test_dead_letters_wait_for_somebody(messages: int, expected: str | None) -> None:
    facts = replace(WELL, dead_letters=(DeadLetterFacts(topic="orders.dlq", messages=messages),))
    assert severity(facts, "dead_letters_waiting") == expected


# --- transactions ---


def transaction(**changes: Any) -> Facts:
    """One that is open for long, with a message of its own and nine of others behind it."""
    held = (HeldBack(topic="orders", partition=1, messages=10),)
    found = TransactionFacts(
        name="till-1", transaction="7-3", state="ongoing", seconds=45, idle_seconds=12.2, expires_in=47.8, messages=1,
        held_back=held,
    )  # fmt: skip
    return replace(WELL, transactions_open=1, transactions=(replace(found, **changes),))


def test_a_transaction_that_keeps_others_waiting_is_told_with_the_command_that_ends_it() -> None:
    (finding,) = found(transaction(), "transaction_hung")
    assert (finding.severity, finding.subject) == ("warning", "till-1")
    assert finding.sentence == (
        "transaction 7-3 is open for 45s, and 10 messages of orders/1 are seen by nobody until it ends, 9 of them of "
        "others"
    )
    assert finding.hint == (
        "look at its producer, which was heard of 12s ago; without a sign of life it is aborted in 48s; "
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
def test_a_transaction_is_hung_when_readers_wait_behind_it_for_long(
    changes: dict[str, Any], expected: str | None
) -> None:
    assert severity(transaction(**changes), "transaction_hung") == expected


def test_a_transaction_whose_end_is_not_taken_says_by_whom() -> None:
    facts = transaction(state="prepare_abort", seconds=11, obstacle="log orders/1 is fenced")
    (finding,) = found(facts, "transaction_stuck")
    assert finding.severity == "critical"
    assert finding.sentence == (
        "transaction 7-3 is to be aborted for 11s, and that cannot be carried out: log orders/1 is fenced; "
        "10 messages of orders/1 are seen by nobody until then"
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
def test_a_transaction_is_stuck_when_it_is_decided_for_long(changes: dict[str, Any], expected: str | None) -> None:
    assert severity(transaction(**changes), "transaction_stuck") == expected


# --- what holds of all ---

NAMES = st.sampled_from(["orders", "a.dlq", "x" * 255])
COUNTS = st.one_of(st.integers(0, 20), st.integers(0, 2**40))
SECONDS = st.one_of(st.floats(0, 1e3), st.floats(0, 1e9))
PLACES = st.builds(
    PlaceFacts, topic=NAMES, partition=st.integers(0, 999), messages=COUNTS, ready=COUNTS, seconds=SECONDS,
    rate=SECONDS, incoming=SECONDS, idle_seconds=SECONDS, in_flight=COUNTS, member=st.none() | NAMES,
    retention_seconds=st.none() | SECONDS,
)  # fmt: skip
GROUPS = st.builds(
    GroupFacts, name=NAMES, members=COUNTS, empty_seconds=st.none() | SECONDS, forgotten_in=st.none() | SECONDS,
    rebalance_seconds=st.none() | SECONDS, awaited=st.lists(NAMES, max_size=8).map(tuple), lag=COUNTS,
    places=st.lists(PLACES, max_size=8).map(tuple),
    losses=st.lists(
        st.builds(Loss, topic=NAMES, partition=COUNTS, messages=COUNTS, is_going_on=st.booleans()), max_size=3
    ).map(tuple),
    ordeals=st.lists(
        st.builds(Ordeal, topic=NAMES, partition=COUNTS, offset=COUNTS, deliveries=COUNTS), max_size=3
    ).map(tuple),
    ranges=st.integers(0, 100_000), leaving=COUNTS, leaving_seconds=SECONDS,
)  # fmt: skip
SHUT = st.builds(
    ShutLog, log=NAMES, reason=NAMES, hint=st.none() | NAMES, is_open=st.booleans(),
    role=st.sampled_from(["topic", "topics", "groups", "transactions"]),
)  # fmt: skip
TRANSACTIONS = st.builds(
    TransactionFacts, name=NAMES, transaction=NAMES,
    state=st.sampled_from(["ongoing", "prepare_commit", "prepare_abort"]), seconds=SECONDS, idle_seconds=SECONDS,
    expires_in=st.none() | SECONDS, messages=COUNTS, obstacle=st.none() | NAMES,
    held_back=st.lists(
        st.builds(HeldBack, topic=NAMES, partition=COUNTS, messages=COUNTS), max_size=8
    ).map(tuple),
)  # fmt: skip
FACTS = st.builds(
    Facts,
    uptime_seconds=SECONDS,
    disk=st.none() | st.builds(
        DiskFacts, path=NAMES, total_bytes=COUNTS, free_bytes=COUNTS, growth=st.floats(-1e9, 1e9)
    ),
    process=st.builds(
        ProcessFacts, loop_seconds=st.none() | SECONDS, flush_seconds=st.none() | SECONDS, sync_failures=COUNTS,
        stall_seconds=SECONDS,
        in_flight_bytes=COUNTS, in_flight_bytes_max=st.integers(1, 2**40), open_files=st.none() | COUNTS,
        open_files_max=st.none() | COUNTS, connections=COUNTS, clock_behind_seconds=SECONDS,
    ),
    shut=st.lists(SHUT, max_size=40).map(tuple),
    start=st.builds(StartFacts, surveyed=COUNTS, unclaimed=st.lists(NAMES, max_size=3).map(tuple)),
    clock_doubt=st.none() | st.builds(
        ClockDoubt, ahead_seconds=SECONDS, seconds_left=SECONDS, percent=st.integers(0, 100),
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
def test_whatever_the_facts_are_the_findings_are_in_order_and_say_what_to_do(facts: Facts) -> None:
    diagnosis = examine(facts)
    severities = [SEVERITIES.index(one.severity) for one in diagnosis.findings]
    assert severities == sorted(severities)
    assert all(one.subject and one.sentence and one.hint for one in diagnosis.findings)
    assert all(not one.sentence.endswith(".") and "\n" not in one.sentence for one in diagnosis.findings)
    worst = diagnosis.findings[0].severity if diagnosis.findings else "note"
    assert diagnosis.status == ("ok" if worst == "note" else worst)
    assert examine(facts) == diagnosis


def test_every_code_is_found_somewhere_and_stands_in_the_table_once() -> None:
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


ILL = Facts(
    uptime_seconds=2 * HOUR,
    disk=DiskFacts(path="/data", total_bytes=100 * GIB, free_bytes=GIB, growth=1e9),
    process=ProcessFacts(
        loop_seconds=2, flush_seconds=3, sync_failures=1, in_flight_bytes=1, in_flight_bytes_max=1, open_files=10,
        open_files_max=10, connections=10, connections_max=10, connections_wanted=11, clock_behind_seconds=60,
        stall_seconds=40,
    ),
    refused=("a/3",),
    refusal="the disk is full",
    shut=(ShutLog(log="a/0", reason="x"), ShutLog(log="a/1", reason="y", is_open=False)),
    damages=(DamagedRange(log="a/2", path="p", position=0, end=1, first_offset=0, next_offset=1, reason="zeros"),),
    start=StartFacts(
        surveyed=1,
        unclaimed=("b/0",),
        healed=(HealedLog(log="__metadata/0", ranges=1, size=100),),
        lost=(RecordLoss(log="__metadata/0", count=1),),
    ),
    clock_doubt=ClockDoubt(ahead_seconds=90, seconds_left=60, percent=10, held_back=("a",)),
    groups=(
        GroupFacts(
            name="billing", members=1, lag=9_000, ranges=100_000, leaving=1, leaving_seconds=99,
            places=(replace(PLACE, messages=9_000, incoming=9.0, retention_seconds=300.0),),
            losses=(Loss(topic="orders", partition=0, messages=1),),
            ordeals=(Ordeal(topic="orders", partition=0, offset=4, deliveries=99),),
        ),
        GroupFacts(name="old", empty_seconds=9e5, lag=1),
        GroupFacts(name="torn", members=2, rebalance_seconds=99, awaited=("till-2",)),
        *(GroupFacts(name=f"g{number}") for number in range(9_997)),
    ),
    dead_letters=(DeadLetterFacts(topic="orders.dlq", messages=1),),
    delayed=(DelayedFacts(topic="orders", partition=0, messages=3, seconds=60),),
    transactions_open=2,
    transactions=(*transaction().transactions, *transaction(state="prepare_commit", name="till-2").transactions),
)  # fmt: skip
