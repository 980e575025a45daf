"""`goqueue-cli dlq redrive`: publish dead letters to their topics again.

What must stay true: only dead letters that were there at the start are redriven, so that a message which fails again is
not redriven twice; and what counts as moved is durable in its target.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.dead_letters import RedriveTotals, dead_letter_topic, error_text
from goqueue.console.failure import UsageInvalid, doing, suggesting
from goqueue.console.flags import Consent
from goqueue.console.interruption import interruptible_changes
from goqueue.console.names import reject_empty_names, shorten_name
from goqueue.console.rows import Column
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.console.undo import undo_command
from goqueue.quantities import format_count, format_duration, parse_time, quoted
from goqueue_cli.dead_letters.rows import (
    UNKNOWN_TOPIC_HINT,
    DeadLetterFilter,
    TopicName,
    known_name,
)

if TYPE_CHECKING:
    from goqueue.client import Client

_Row = dict[str, Any]

_FAILURES_SHOWN = 5
_PLANNED_AT_ONCE = 10_000
_MOVED_AT_ONCE = 1_000  # without --rate: about a second

_PLAN = (
    Column("COUNT", "count", format_count),
    Column("TARGET", "target"),
    Column("ERROR", "error", error_text),
    Column("PROBLEM", "problem", wide=True),
)
_RESULT = (
    Column("TOPIC", "name"),
    Column("MOVED", "moved", format_count),
    Column("FAILED", "failed", format_count),
    Column("SCANNED", "scanned", format_count),
    Column("COMPLETE", "complete", lambda complete: "yes" if complete else "no"),
)


@session_flags
def redrive(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName,
    *,
    chosen: DeadLetterFilter,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only messages with this key.")] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header", metavar="NAME=VALUE", help="Only messages with this header; repeated: all must match."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Maximum number of messages to move.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", min=0.1, max=1e6, help="Maximum messages per second.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="TOPIC", help="Publish to this topic, not to the original one.")
    ] = None,
    consent: Consent,
    session: Session,
) -> None:
    """Redrive dead letters to their original topics.

    \b
      goqueue-cli dlq redrive orders --dry-run
      goqueue-cli dlq redrive orders --error timeout --rate 100
      goqueue-cli dlq redrive orders --key customer-4 --from -1h --yes
      goqueue-cli dlq redrive orders --where 'json.total>40' --dry-run
      goqueue-cli dlq redrive orders --target orders-repair --limit 1000

    They become new messages at the end of the topic, for every group that reads it. A message that fails again during
    the redrive stays. Each is redriven once: ^C stops after a request and shows how many were moved, and the same
    command continues. It asks for confirmation; without a terminal it needs --yes, and in a protected context
    --confirm.
    """
    reject_empty_names(topic, *([] if target is None else [target]))
    criteria = {"key": key, "header": dict(map(_header, headers or ())), "target": target, "filters": chosen.where}
    criteria = {name: value for name, value in criteria.items() if value not in (None, {}, [])} | chosen.criteria()
    with doing(f"redrive the dead letters of topic {shorten_name(topic)}"), session.client() as client:
        with suggesting(client, otherwise=UNKNOWN_TOPIC_HINT):
            name = known_name(client, topic)
            plan = plan_redrive(client, name, criteria, limit)
        if consent.dry_run:
            session.write(plan.rows, _PLAN)
            _note_plan(plan, plan.topic)
            return
        result, stopped = RedriveTotals(scanned=plan.scanned, is_complete=True), False
        if plan.count:
            _confirm(session, plan, topic, consent)
            result = RedriveTotals(limit)
            stopped = _move(client, session, name, plan, rate, result)
    _write_result(session, result, plan, plan.topic)
    if stopped:
        terminal.say(f"interrupted: {format_count(result.moved, 'dead letter')} redriven")
        raise typer.Exit(exit_codes.INTERRUPTED)
    if result.failures or plan.blocked:
        raise typer.Exit(exit_codes.FAILED)


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise UsageInvalid(f"--header {quoted(text)} is not a header", hint="use --header source=shop")
    return name, value


# --- the plan ---


@dataclass(slots=True)
class RedrivePlan:
    """The messages that a redrive would move, counted by error and target."""

    topic: str
    """The topic that has the dead letters."""
    rows: list[_Row]
    scanned: int
    criteria: dict[str, Any]
    """With an end: what fails later is not part of the plan."""

    @property
    def count(self) -> int:
        return sum(row["count"] for row in self.rows if row["problem"] is None)

    @property
    def targets(self) -> list[str]:
        return sorted({row["target"] for row in self.rows if row["problem"] is None})

    @property
    def blocked(self) -> list[_Row]:
        """The rows that cannot be moved."""
        return [row for row in self.rows if row["problem"] is not None]


def plan_redrive(client: "Client", topic: str, criteria: Mapping[str, Any], limit: int | None) -> RedrivePlan:
    """Have the broker check all dead letters that match, without moving any."""
    now = parse_time(client.health()["timestamp"])  # the clock of the broker: that of this machine may differ
    chosen = {**criteria, "to_time": min(int(criteria.get("to_time", now)), now)}
    found: Counter[tuple[str, str, str | None]] = Counter()
    sentences: dict[str, str] = {}
    scanned, left, start, own_name = 0, limit, None, dead_letter_topic(topic)
    while left is None or left > 0:
        most = _PLANNED_AT_ONCE if left is None else min(left, _PLANNED_AT_ONCE)
        answer = client.redrive(topic, **chosen, limit=most, start=start, dry_run=True)
        scanned, start, own_name = scanned + answer["scanned"], answer["next"], answer["dlq_topic"] or own_name
        for one in answer["results"]:
            problem = one.get("error")
            found[one["reason"], one["target_topic"], problem and problem["code"]] += 1
            left = left if left is None or problem else left - 1
            if problem:
                sentences[problem["code"]] = problem["error"]
        if answer["complete"]:
            break
        terminal.show_status(f"checked {format_count(scanned, 'dead letter')}")
    terminal.show_status("")
    rows = [
        {
            "name": f"{target or '-'}: {error}",
            "count": count,
            "target": target or None,
            "error": error,
            "problem": code and f"{code}: {sentences[code]}",
        }
        for (error, target, code), count in found.most_common()
    ]
    return RedrivePlan(own_name, rows, scanned, chosen)


def _confirm(session: Session, plan: RedrivePlan, topic: str, consent: Consent) -> None:
    if consent.must_ask and terminal.can_prompt():
        terminal.say(*_plan_lines(plan))
    count = format_count(plan.count, "dead letter")
    what = f"redrive {count} of {plan.topic} to {', '.join(plan.targets)}"
    require_confirmation(session, what, name=topic, consent=consent)


def _plan_lines(plan: RedrivePlan, most: int = 10) -> Iterator[str]:
    for row in plan.rows[:most]:
        line = f"  {format_count(row['count'])} with {error_text(row['error'])}"
        yield f"{line}: cannot be redriven, {row['problem']}" if row["problem"] else f"{line} -> {row['target']}"
    if len(plan.rows) > most:
        yield f"  and {format_count(len(plan.rows) - most, 'more error')}"


def _note_plan(plan: RedrivePlan, topic: str) -> None:
    if plan.count:
        count = format_count(plan.count, "dead letter")
        terminal.say(f"{count} of {topic} would be redriven to {', '.join(plan.targets)}")
    _note_blocked(plan, topic)


def _note_blocked(plan: RedrivePlan, topic: str) -> None:
    for row in plan.blocked[:_FAILURES_SHOWN]:
        terminal.say(f"{format_count(row['count'], 'dead letter')} cannot be redriven: {row['problem']}")
    if not plan.rows:
        terminal.say(f"no such dead letters of {topic}")


# --- the redrive ---


def _move(
    client: "Client", session: Session, topic: str, plan: RedrivePlan, rate: float | None, totals: RedriveTotals
) -> bool:
    """Redrive what was planned and name the operation in any case; return True if ^C stopped it."""
    try:
        return _move_all(client, topic, plan, rate, totals)
    finally:
        if totals.operation is not None:
            terminal.say(f"`{undo_command(session, totals.operation)}` shows what was moved where")


def _move_all(client: "Client", topic: str, plan: RedrivePlan, rate: float | None, totals: RedriveTotals) -> bool:
    start: dict[str, int] | None = None
    began = time.monotonic()
    with interruptible_changes(lambda: f"{format_count(totals.moved, 'dead letter')} redriven") as is_stopped:
        while not totals.is_over and not is_stopped():
            most = totals.next_count(_MOVED_AT_ONCE, rate)
            answer = client.redrive(
                topic, **plan.criteria, limit=most, rate=rate, start=start, operation=totals.operation
            )
            start = answer["next"]
            totals.add(answer)
            if not is_stopped() and not totals.is_hopeless:
                terminal.show_status(_progress(totals, plan.count, time.monotonic() - began))
        return is_stopped() and not totals.is_complete


def _progress(result: RedriveTotals, total: int, seconds: float) -> str:
    rate = result.moved / max(seconds, 0.001)
    left = max(total - result.moved, 0)
    ahead = f", {format_duration(left / rate)} left" if rate and left else ""
    return f"{format_count(result.moved)} of {format_count(max(total, result.moved))} redriven, {rate:,.0f}/s{ahead}"


def _write_result(session: Session, result: RedriveTotals, plan: RedrivePlan, topic: str) -> None:
    row: _Row = {
        "name": topic,
        "moved": result.moved,
        "failed": result.failures.total() or sum(one["count"] for one in plan.blocked),
        "scanned": result.scanned,
        "complete": result.is_complete,
    }
    session.write([row], _RESULT)
    if not plan.count:
        _note_blocked(plan, topic)
    for sentence, count in result.failures.most_common(_FAILURES_SHOWN):
        hint = result.hints.get(sentence)
        terminal.say(f"{format_count(count, 'dead letter')} not redriven: {sentence}{f' ({hint})' if hint else ''}")
