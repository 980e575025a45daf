"""Findings about backups."""

from goqueue import limits
from goqueue.observe.facts import BrokerFacts
from goqueue.observe.finding import Finding, FindingStream, finding_rule
from goqueue.quantities import format_count, format_duration

_LATE = 2
"""Intervals of the schedule after which a backup is missing; critical at four times as many."""


@finding_rule("critical", "warning")
def backup_old(facts: BrokerFacts) -> FindingStream:
    backups = facts.backups
    if backups is None:
        return
    allowed = max(backups.interval_seconds * _LATE, 3600) if backups.interval_seconds else limits.BACKUP_OLD_SECONDS
    age = facts.uptime_seconds if backups.verified_seconds is None else backups.verified_seconds
    if age < allowed:
        return
    shown = format_duration(round(age))
    yield Finding(
        backups.target,
        f"no backup was ever verified, and the broker runs for {shown}"
        if backups.verified_seconds is None
        else f"the newest verified backup is {shown} old",
        "`goqueue-admin backup create` makes one, `goqueue-admin backup verify` verifies it, and "
        "`backup.interval` does both by itself",
        {"age_seconds": round(age)},
        severity="critical" if age >= 4 * allowed else "warning",
    )


@finding_rule("warning")
def backup_failed(facts: BrokerFacts) -> FindingStream:
    if facts.backups is not None and facts.backups.problem is not None:
        yield Finding(
            facts.backups.target,
            f"the last backup failed: {facts.backups.problem}",
            "solve that, and run `goqueue-admin backup create`",
        )


@finding_rule("critical")
def backup_target_gone(facts: BrokerFacts) -> FindingStream:
    if facts.backups is not None and facts.backups.target_problem is not None:
        yield Finding(
            facts.backups.target,
            facts.backups.target_problem,
            "no backup is made until then; compare with `goqueue-admin backup list`",
        )


@finding_rule("critical", "warning")
def backup_key_missing(facts: BrokerFacts) -> FindingStream:
    if facts.backups is None:
        return
    if facts.backups.key_problem is not None:
        yield Finding(
            facts.backups.target,
            facts.backups.key_problem,
            "no backup is made until then; restore the key file from its copy",
            severity="critical",
        )
    if facts.backups.locked:
        count = format_count(len(facts.backups.locked), "backup")
        yield Finding(
            facts.backups.target,
            f"{count} cannot be read for want of a key: {', '.join(facts.backups.locked[:3])}",
            "`goqueue-admin backup describe ID` names the key: add its line to the key file, or delete those backups",
            {"backups": len(facts.backups.locked)},
            severity="warning",
        )


@finding_rule("critical")
def backup_incomplete(facts: BrokerFacts) -> FindingStream:
    backups = facts.backups
    if backups is not None and backups.unavailable:
        names, count = backups.unavailable, len(backups.unavailable)
        yield Finding(
            backups.newest,
            f"the newest backup lacks {format_count(count, 'log')} that the broker could not open: "
            f"{', '.join(names[:3])}{', …' if count > 3 else ''}",
            "keep the backups before it; while the broker is stopped, `goqueue fsck --repair --repair-from "
            f"{backups.target}` copies lost logs from them",
            {"logs": count},
        )


@finding_rule("critical")
def backup_damaged(facts: BrokerFacts) -> FindingStream:
    for name in () if facts.backups is None else facts.backups.damaged:
        yield Finding(
            name,
            "the backup is not as it was written",
            f"`goqueue-admin backup describe {name}` shows what is damaged; check the device of the target, make "
            f"another backup, which writes again what it needs of that, and `goqueue-admin backup verify {name}`",
        )
