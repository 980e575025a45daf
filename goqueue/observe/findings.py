"""The doctor: from what is known of a broker to what a person should know and do.

Pure: the facts are all that is looked at, so the same ones give the same findings. Every code stands in `CHECKS`, with
the severities that it may have, and in docs/doctor.md.
"""

from dataclasses import dataclass, replace
from typing import Literal

from goqueue.limits import DOCTOR_FINDINGS_MAX
from goqueue.observe import broker_findings as broker
from goqueue.observe import group_findings as groups
from goqueue.observe import transaction_findings as transactions
from goqueue.observe.facts import Facts
from goqueue.observe.finding import SEVERITIES, Check, Finding, Rule
from goqueue.quantities import format_count, format_duration, format_size

Status = Literal["ok", "warning", "critical"]


def _disk(facts: Facts) -> str:
    if facts.disk is None:
        return "nothing is known of its space"
    return f"{format_size(facts.disk.free_bytes)} of {format_size(facts.disk.total_bytes)} are free"


def _seconds(seconds: float | None, what: str) -> str:
    return "nothing was seen yet" if seconds is None else f"{what} {format_duration(round(seconds, 6))}"


def _in_flight(facts: Facts) -> str:
    process = facts.process
    return f"{format_size(process.in_flight_bytes)} of {format_size(process.in_flight_bytes_max)}"


def _files(facts: Facts) -> str:
    if facts.process.open_files is None or facts.process.open_files_max is None:
        return "nothing is known of their number"
    return f"{format_count(facts.process.open_files)} of {format_count(facts.process.open_files_max)} are open"


def _connections(facts: Facts) -> str:
    return f"{format_count(facts.process.connections)} of {format_count(facts.process.connections_max)} are open"


def _groups(facts: Facts) -> str:
    behind = sum(group.lag > 0 for group in facts.groups)
    return f"{format_count(len(facts.groups), 'group')}, {format_count(behind)} with messages that wait"


CHECKS: tuple[Check, ...] = (
    Check(
        "disk",
        _disk,
        (
            Rule("writes_refused", ("critical",), broker.writes_refused),
            Rule("disk_filling", ("critical", "warning"), broker.disk_filling),
            Rule("disk_full_soon", ("critical", "warning"), broker.disk_full_soon),
        ),
    ),
    Check(
        "logs",
        lambda facts: f"all {format_count(facts.partitions, 'partition')} take messages",
        (
            Rule("partition_fenced", ("critical",), broker.partition_fenced),
            Rule("log_closed", ("critical",), broker.log_closed),
            Rule("range_damaged", ("critical",), broker.range_damaged),
            Rule("records_lost", ("critical",), broker.records_lost),
            Rule("range_healed", ("warning",), broker.range_healed),
            Rule("log_unclaimed", ("note",), broker.log_unclaimed),
        ),
    ),
    Check(
        "start",
        lambda facts: "after a clean stop" if not facts.start.surveyed else "all is looked through since the last stop",
        (Rule("unclean_start", ("note",), broker.unclean_start),),
    ),
    Check(
        "loop",
        lambda facts: _seconds(facts.process.loop_seconds, "late by at most"),
        (
            Rule("loop_slow", ("critical", "warning"), broker.loop_slow),
            Rule("broker_stalled", ("warning",), broker.broker_stalled),
        ),
    ),
    Check(
        "flush",
        lambda facts: _seconds(facts.process.flush_seconds, "writing and syncing takes at most"),
        (
            Rule("flush_slow", ("critical", "warning"), broker.flush_slow),
            Rule("sync_failed", ("warning",), broker.sync_failed),
        ),
    ),
    Check("in_flight", _in_flight, (Rule("in_flight_full", ("critical", "warning"), broker.in_flight_full),)),
    Check("files", _files, (Rule("file_limit_near", ("warning",), broker.file_limit_near),)),
    Check(
        "connections",
        _connections,
        (
            Rule("connections_near_limit", ("critical", "warning"), broker.connections_near_limit),
            Rule("connections_lowered", ("note",), broker.connections_lowered),
        ),
    ),
    Check(
        "clock",
        "it is not behind the newest message, and has not jumped ahead",
        (
            Rule("clock_behind", ("warning",), broker.clock_behind),
            Rule("clock_jumped", ("warning", "note"), broker.clock_jumped),
        ),
    ),
    Check(
        "delayed",
        "delayed messages come when they are due",
        (Rule("delayed_late", ("warning",), broker.delayed_late),),
    ),
    Check(
        "transactions",
        lambda facts: f"{format_count(facts.transactions_open)} open, and none keeps readers waiting for long",
        (
            Rule("transaction_stuck", ("critical",), transactions.transaction_stuck),
            Rule("transaction_hung", ("warning", "note"), transactions.transaction_hung),
        ),
    ),
    Check(
        "groups",
        _groups,
        (
            Rule("group_stuck", ("warning",), groups.group_stuck),
            Rule("group_abandoned", ("warning",), groups.group_abandoned),
            Rule("group_falling_behind", ("warning",), groups.group_falling_behind),
            Rule("group_ranges_many", ("critical", "warning"), groups.group_ranges_many),
            Rule("groups_near_limit", ("critical", "warning"), groups.groups_near_limit),
        ),
    ),
    Check(
        "rebalances",
        lambda facts: f"{format_count(sum(one.rebalance_seconds is not None for one in facts.groups))} under way",
        (Rule("group_rebalancing_long", ("warning",), groups.group_rebalancing_long),),
    ),
    Check(
        "retention",
        "every group has its messages before they go",
        (
            Rule("messages_lost_to_retention", ("warning", "note"), groups.messages_lost_to_retention),
            Rule("messages_expire_soon", ("warning",), groups.messages_expire_soon),
        ),
    ),
    Check(
        "dead_letters",
        lambda facts: f"none wait in {format_count(len(facts.dead_letters), 'topic')} of dead letters",
        (
            Rule("poison_message", ("warning",), groups.poison_message),
            Rule("dead_letters_stuck", ("warning",), groups.dead_letters_stuck),
            Rule("dead_letters_waiting", ("warning", "note"), groups.dead_letters_waiting),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one check."""

    name: str
    status: Status
    message: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What came of it all: findings with the worst first, and what was looked at."""

    status: Status
    checks: tuple[Outcome, ...]
    findings: tuple[Finding, ...]


def examine(facts: Facts) -> Diagnosis:
    """Look at all of it."""
    outcomes: list[Outcome] = []
    everything: list[Finding] = []
    for check in CHECKS:
        found = [finding for rule in check.rules for finding in _of(rule, facts)]
        found.sort(key=_badness)
        outcomes.append(Outcome(check.name, _status(found), _told(check, found, facts)))
        everything += found
    everything.sort(key=_badness)
    return Diagnosis(_status(everything), tuple(outcomes), tuple(everything))


def _told(check: Check, found: list[Finding], facts: Facts) -> str:
    if found:
        return f"{found[0].subject}: {found[0].sentence}"
    return check.well if isinstance(check.well, str) else check.well(facts)


def _of(rule: Rule, facts: Facts) -> list[Finding]:
    """The worst that a rule finds, as many as a person reads; the others are counted in one more."""
    found = sorted(rule.find(facts), key=_badness)
    rest = found[DOCTOR_FINDINGS_MAX:]
    if rest:
        more = format_count(len(rest), "more", "more")
        sentence = f"the same is to be said of {more}"
        found[DOCTOR_FINDINGS_MAX:] = [replace(rest[0], subject=more, sentence=sentence, details={"more": len(rest)})]
    assert all(one.code == rule.code and one.severity in rule.severities for one in found), rule.code
    return found


def _badness(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


def _status(findings: list[Finding]) -> Status:
    """Of findings in order. A note is no reason to call anything unwell."""
    worst = findings[0].severity if findings else "note"
    return "ok" if worst == "note" else worst
