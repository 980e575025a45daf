"""The doctor: turns facts about a broker into checks and findings.

Pure: equal facts give equal findings. `CHECKS` lists every code with its severities; docs/doctor.md explains them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from goqueue.limits import DOCTOR_FINDINGS_MAX
from goqueue.observe import backup_findings as backups
from goqueue.observe import broker_findings as broker
from goqueue.observe import cluster_findings as cluster
from goqueue.observe import group_findings as groups
from goqueue.observe import quota_findings as quotas
from goqueue.observe import schema_findings as schemas
from goqueue.observe import tenant_findings as tenants
from goqueue.observe import tls_findings as tls
from goqueue.observe.facts import BrokerFacts
from goqueue.observe.finding import SEVERITIES, DoctorCheck, Finding, FindingRule
from goqueue.observe.group_condition import GroupCondition
from goqueue.quantities import format_count, format_duration, format_size

Status = Literal["ok", "warning", "critical"]


def _disk(facts: BrokerFacts) -> str:
    return "free space unknown" if facts.disk is None else str(facts.disk)


def _seconds(seconds: float | None, what: str) -> str:
    return "not measured yet" if seconds is None else f"{what} {format_duration(round(seconds, 6))}"


def _in_flight(facts: BrokerFacts) -> str:
    held, most = facts.process.in_flight_bytes, facts.process.in_flight_bytes_max
    return f"{format_size(held)} of {format_size(most)} throughout the last seconds"


def _files(facts: BrokerFacts) -> str:
    if facts.process.open_files is None or facts.process.open_files_max is None:
        return "number of open files unknown"
    return f"{format_count(facts.process.open_files)} of at most {format_count(facts.process.open_files_max)} open"


def _connections(facts: BrokerFacts) -> str:
    held, most = facts.process.connections, facts.process.connections_max
    return f"{format_count(held)} of {format_count(most)} open throughout the last seconds"


def _cluster(facts: BrokerFacts) -> str:
    if facts.cluster is None:
        return "the broker runs alone"
    return f"there is a controller, and {format_count(facts.cluster.nodes, 'node')} can be reached"


_DAY_SECONDS = 86_400


def _certificate(facts: BrokerFacts) -> str:
    if facts.tls is None:
        return "connections are not encrypted"
    return f"the certificate is valid for {format_count(int(facts.tls.seconds_left // _DAY_SECONDS), 'more day')}"


def _backups(facts: BrokerFacts) -> str:
    if facts.backups is None:
        return "there is no target for backups"
    age = facts.backups.verified_seconds
    return "none yet" if age is None else f"the newest verified one is {format_duration(round(age))} old"


def _groups(facts: BrokerFacts) -> str:
    parts = [f"{format_count(count)} {name.replace('_', ' ')}" for name, count in _conditions(facts).items()]
    return f"{format_count(len(facts.groups), 'group')}: {', '.join(parts)}" if parts else "there are no groups"


def _conditions(facts: BrokerFacts) -> dict[str, int]:
    """Count groups by condition, the worst first."""
    counts = Counter(group.condition for group in facts.groups)
    return {condition: counts[condition] for condition in get_args(GroupCondition) if condition in counts}


CHECKS: tuple[DoctorCheck, ...] = (
    DoctorCheck(
        "disk", _disk, (broker.data_directory_gone, broker.writes_refused, broker.disk_filling, broker.disk_full_soon)
    ),
    DoctorCheck(
        "logs",
        lambda facts: f"all {format_count(facts.partitions, 'partition')} accept messages",
        (
            broker.partition_fenced,
            broker.log_closed,
            broker.range_damaged,
            broker.records_lost,
            broker.range_healed,
            broker.log_unclaimed,
        ),
    ),
    DoctorCheck(
        "start",
        lambda facts: "logs were scanned after an unclean stop" if facts.start.surveyed else "after a clean stop",
        (broker.unclean_start,),
    ),
    DoctorCheck(
        "loop",
        lambda facts: _seconds(facts.process.loop_seconds, "latency at most"),
        (broker.loop_slow, broker.broker_stalled),
    ),
    DoctorCheck(
        "flush",
        lambda facts: _seconds(facts.process.flush_seconds, "writing and syncing takes at most"),
        (broker.flush_slow, broker.sync_failed),
    ),
    DoctorCheck("in_flight", _in_flight, (broker.in_flight_full,)),
    DoctorCheck("files", _files, (broker.file_limit_near,)),
    DoctorCheck("connections", _connections, (broker.connections_near_limit, broker.connections_lowered)),
    DoctorCheck(
        "cluster",
        _cluster,
        (
            cluster.controller_missing,
            cluster.node_failed,
            cluster.node_dead,
            cluster.topic_not_followed,
            cluster.record_not_adopted,
            cluster.node_refused,
            cluster.vote_missing,
            cluster.partition_offline,
            cluster.partition_under_min_isr,
            cluster.partition_under_replicated,
            cluster.replica_lagging,
            cluster.election_unclean,
            cluster.replica_damaged,
            cluster.damage_repaired,
            cluster.replicas_differ,
            cluster.move_stalled,
            cluster.leader_away,
            cluster.node_certificate_expiring,
            cluster.node_certificate_not_loaded,
        ),
    ),
    DoctorCheck("tls", _certificate, (tls.certificate_expiring, tls.certificate_not_loaded)),
    DoctorCheck(
        "backups",
        _backups,
        (
            backups.backup_target_gone,
            backups.backup_key_missing,
            backups.backup_old,
            backups.backup_failed,
            backups.backup_incomplete,
            backups.backup_damaged,
        ),
    ),
    DoctorCheck(
        "clock", "neither behind the newest message nor jumped ahead", (broker.clock_behind, broker.clock_jumped)
    ),
    DoctorCheck("delayed", "no delayed message is overdue", (broker.delayed_late,)),
    DoctorCheck(
        "schemas",
        lambda facts: f"{format_count(facts.checked_topics, 'topic')} checked, all of them against schemas that exist",
        (schemas.subject_empty,),
    ),
    DoctorCheck("quotas", "no tenant is near a quota", (quotas.quota_throttled, quotas.quota_near)),
    DoctorCheck(
        "tenants",
        lambda facts: "the broker has no tenants" if facts.tenants is None else format_count(facts.tenants, "tenant"),
        (tenants.tenant_refused,),
    ),
    DoctorCheck(
        "transactions",
        lambda facts: f"{format_count(facts.transactions_open)} open, none of them blocks readers for long",
        (groups.transaction_stuck, groups.transaction_hung),
    ),
    DoctorCheck(
        "groups",
        _groups,
        (
            groups.group_stuck,
            groups.group_abandoned,
            groups.group_falling_behind,
            groups.group_ranges_many,
            groups.groups_near_limit,
        ),
    ),
    DoctorCheck(
        "rebalances",
        lambda facts: f"{format_count(sum(one.rebalance_seconds is not None for one in facts.groups))} running",
        (groups.group_rebalancing_long,),
    ),
    DoctorCheck(
        "retention",
        "no group loses messages to retention",
        (groups.messages_lost_to_retention, groups.messages_expire_soon),
    ),
    DoctorCheck(
        "dead_letters",
        lambda facts: f"{format_count(len(facts.dead_letters), 'dead-letter topic')}, all of them empty",
        (groups.poison_message, groups.dead_letters_stuck, groups.dead_letters_waiting),
    ),
)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    name: str
    status: Status
    message: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All check results, and the findings with the worst first."""

    status: Status
    checks: tuple[CheckResult, ...]
    findings: tuple[Finding, ...]
    groups: Mapping[str, int] = field(default_factory=dict)
    """How many groups are in each condition."""


def examine(facts: BrokerFacts) -> Diagnosis:
    """Run every check on the facts."""
    outcomes: list[CheckResult] = []
    everything: list[Finding] = []
    for check in CHECKS:
        found = [finding for rule in check.rules for finding in _limited_findings(rule, facts)]
        found.sort(key=_severity_rank)
        outcomes.append(CheckResult(check.name, _status(found), _check_message(check, found, facts)))
        everything += found
    everything.sort(key=_severity_rank)
    return Diagnosis(_status(everything), tuple(outcomes), tuple(everything), _conditions(facts))


def _check_message(check: DoctorCheck, found: list[Finding], facts: BrokerFacts) -> str:
    if found:
        return f"{found[0].subject}: {found[0].sentence}"
    return check.well if isinstance(check.well, str) else check.well(facts)


def _limited_findings(rule: FindingRule, facts: BrokerFacts) -> list[Finding]:
    """Return the worst findings of a rule; one more finding counts the others."""
    found = sorted(rule.find(facts), key=_severity_rank)
    rest = found[DOCTOR_FINDINGS_MAX:]
    if rest:
        more = format_count(len(rest), "more", "more")
        sentence = f"{more} have the same problem"
        found[DOCTOR_FINDINGS_MAX:] = [replace(rest[0], subject=more, sentence=sentence, details={"more": len(rest)})]
    assert all(one.code == rule.code and one.severity in rule.severities for one in found), rule.code
    return found


def _severity_rank(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


def _status(findings: list[Finding]) -> Status:
    """Return the status that sorted findings amount to. Notes do not count."""
    worst = findings[0].severity if findings else "note"
    return "ok" if worst == "note" else worst
