"""`goqueue-cli delayed cancel`, `reschedule` and `deliver`: change delayed messages, by place or by filter."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.due_changes import DueChange
from goqueue.console.failure import UsageInvalid, doing, suggesting
from goqueue.console.flags import Consent
from goqueue.console.formatting import format_to_second
from goqueue.console.interruption import interruptible_changes
from goqueue.console.names import for_each_name, reject_empty_names, shorten_name
from goqueue.console.rows import Column
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.console.undo import say_undo
from goqueue.errors import DelayedNotPending
from goqueue.quantities import format_count, format_time, parse_time
from goqueue_cli.delayed import rows as delayed
from goqueue_cli.delayed.rows import DUE, DUE_IN, KEY, PLACE, PRIORITY, DelayedFilter, Row, TopicName

if TYPE_CHECKING:
    from goqueue.client import Client

_RESULT = Column("RESULT", "result")

_Places = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PLACE...]", help="Partition and offset, as in 0@17. Default: chosen by flags."),
]


@dataclass(frozen=True, slots=True)
class _Selection(DelayedFilter):
    """Flags that choose the messages to change."""

    everything: Annotated[
        bool, typer.Option("--all", help="All pending messages of the topic that the filters match.")
    ] = False
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Maximum number of messages, the next due first.")
    ] = None

    def check(self, places: list[str] | None) -> None:
        """Refuse a command line that would change all messages because something was left out."""
        if places and (self.everything or self.is_set() or self.limit is not None):
            raise UsageInvalid("places and filters exclude each other", hint="use one of them")
        if not places and not self.everything and not self.is_set():
            hint = "name messages as in 0@17, filter them as in --where key=tea, or use --all"
            raise UsageInvalid("no messages chosen", hint=hint)


ChangeCall = Callable[..., dict[str, Any]]
"""A call of the client that changes all messages that match, without `limit` and `dry_run`."""


@dataclass(frozen=True, slots=True)
class _DelayedChange:
    """One of the three changes. `doing` and `done` are other forms of its `verb`.

    `one` changes the message of a row and returns its new fields, `planned` returns them for a dry run. `many` is the
    call that changes all messages that match; it may be repeated unless changed messages still match. If the change
    `loses` messages, places need a confirmation as well.
    """

    verb: str
    doing: str
    done: str
    one: Callable[["Client", Row], Row]
    many: Callable[["Client"], ChangeCall]
    planned: Callable[[Row], Row] = lambda _: {}
    columns: tuple[Column, ...] = (PLACE, DUE, PRIORITY, KEY, _RESULT)
    loses: bool = False
    repeats: bool = True
    undoable: bool = False


def _place(row: Row) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


def _cancel_one(client: "Client", row: Row) -> Row:
    client.cancel_delayed(*_place(row))
    return {}


def _deliver_one(client: "Client", row: Row) -> Row:
    client.deliver_delayed(*_place(row))
    return {}


_CANCEL = _DelayedChange(
    "cancel", "cancelling", "cancelled", _cancel_one, lambda client: client.cancel_delayed_where, loses=True
)  # fmt: skip
_DELIVER = _DelayedChange(
    "deliver", "delivering", "delivered", _deliver_one, lambda client: client.deliver_delayed_where
)


def _reschedule(due: DueChange) -> _DelayedChange:
    def one(client: "Client", row: Row) -> Row:
        moved = client.reschedule_delayed(*_place(row), **due.of_one(parse_time(row["deliver_at"])))
        return {"before": row["deliver_at"], "deliver_at": moved["deliver_at"], "operation": moved["operation"]}

    def planned(row: Row) -> Row:
        due_ns = due.due_ns(parse_time(row["deliver_at"]), time.time_ns())
        return {"before": row["deliver_at"], "deliver_at": format_time(due_ns)}

    return _DelayedChange(
        "reschedule", "rescheduling", "rescheduled", one,
        lambda client: partial(client.reschedule_delayed_where, **due.of_many()),
        planned,
        (PLACE, Column("BEFORE", "before", format_to_second), DUE_IN, DUE, KEY, _RESULT),
        repeats=False,
        undoable=True,
    )  # fmt: skip


@session_flags
def cancel(topic: TopicName, places: _Places = None, *, chosen: _Selection, consent: Consent, session: Session) -> None:
    """Cancel delayed messages, so that they are never delivered.

    \b
      goqueue-cli delayed cancel orders 0@17
      goqueue-cli delayed cancel orders 0@17 1@4 --yes -o jsonl > gone.jsonl
      goqueue-cli delayed cancel orders --where key=customer-4 --dry-run
      goqueue-cli delayed cancel orders --all

    PLACE is partition and offset, as `delayed list` shows it. The command asks for confirmation; without a terminal it
    needs --yes, and in a protected context --confirm with the name of the topic. A cancellation cannot be undone:
    -o jsonl writes named messages in full, for `publish --jsonl`.
    """
    _change(topic, places, chosen, _CANCEL, consent, session)


@session_flags
def deliver(
    topic: TopicName, places: _Places = None, *, chosen: _Selection, consent: Consent, session: Session
) -> None:
    """Deliver delayed messages now.

    \b
      goqueue-cli delayed deliver orders 0@17
      goqueue-cli delayed deliver orders --where key=customer-4 --dry-run
      goqueue-cli delayed deliver orders --to +10m --limit 100

    They are durable in the topic when the command ends, and groups receive them as any message. With filters, the
    command counts the messages first and asks for confirmation; without a terminal it needs --yes, and in a protected
    context --confirm with the name of the topic.
    """
    _change(topic, places, chosen, _DELIVER, consent, session)


@session_flags
def reschedule(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName,
    places: _Places = None,
    *,
    delay: Annotated[
        str | None, typer.Option("--delay", metavar="DURATION", help="Deliver this long from now.")
    ] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Deliver at a time, a day, or +1h.")] = None,
    shift: Annotated[
        str | None, typer.Option("--shift", metavar="DURATION", help="Deliver this much later, or as in -30m earlier.")
    ] = None,
    chosen: _Selection,
    consent: Consent,
    session: Session,
) -> None:
    """Change the due time of delayed messages.

    \b
      goqueue-cli delayed reschedule orders 0@17 --delay 5m
      goqueue-cli delayed reschedule orders 0@17 1@4 --at 2026-03-01T12:00:00Z
      goqueue-cli delayed reschedule orders --where key=tea --shift +1h --dry-run
      goqueue-cli delayed reschedule orders --all --shift -30m

    A time in the past means at once. --shift moves each message relative to its due time. With filters, the command
    counts the messages first and asks for confirmation; without a terminal it needs --yes, and in a protected context
    --confirm with the name of the topic.
    """
    _change(topic, places, chosen, _reschedule(parse_due_change(delay, at, shift)), consent, session)


# --- due times ---


def parse_due_change(delay: str | None, at: str | None, shift: str | None) -> DueChange:
    from goqueue.console.positions import parse_delay, parse_due_time, parse_shift  # noqa: PLC0415 - with the SDK

    given = [flag for flag, text in (("--delay", delay), ("--at", at), ("--shift", shift)) if text is not None]
    if len(given) > 1:
        raise UsageInvalid(f"{given[0]} and {given[1]} exclude each other", hint="use one of them")
    if delay is not None:
        return DueChange(delay=parse_delay("--delay", delay))
    if shift is not None:
        return DueChange(shift=parse_shift("--shift", shift))
    if at is not None:
        return DueChange(time_ns=parse_due_time("--at", at))
    raise UsageInvalid("no new due time", hint="use --delay 5m, --at a time, or --shift +1h")


# --- changing ---


def _change(
    topic: str, places: list[str] | None, chosen: _Selection, change: _DelayedChange, consent: Consent, session: Session
) -> None:
    reject_empty_names(topic)
    chosen.check(places)
    if places:
        _change_places(topic, places, change, consent, session)
    else:
        _change_matching(topic, chosen, change, consent, session)


def _change_places(topic: str, places: list[str], change: _DelayedChange, consent: Consent, session: Session) -> None:
    chosen = delayed.parse_places(topic, places)
    if not consent.dry_run and (change.loses or session.protected):
        messages = f"delayed message{'s' if len(chosen) > 1 else ''} {', '.join(map(delayed.bare, chosen))}"
        require_confirmation(session, f"{change.verb} {messages} of topic {topic}", name=topic, consent=consent)

    def work(client: "Client", name: str) -> Row:
        row = delayed.row_of(client.delayed_message(topic, *chosen[name]))
        if row["state"] != "pending":
            hint = "only pending messages can be changed"
            raise DelayedNotPending(f"message {row['name']} is {row['state']}", hint=hint)
        if consent.dry_run:
            return {**row, **change.planned(row), "result": f"would be {change.done}"}
        return {**row, **change.one(client, row), "result": change.done}

    def write(rows: list[Row], session: Session) -> None:
        session.write(rows, change.columns)
        say_undo(session, rows)

    for_each_name(session, list(chosen), f"{change.verb} delayed message", work, write)


def _change_matching(
    topic: str, chosen: _Selection, change: _DelayedChange, consent: Consent, session: Session
) -> None:
    what = f"{change.verb} delayed messages of topic {shorten_name(topic)}"
    with doing(what), session.client() as client, suggesting(client):
        call = partial(change.many(client), topic, **chosen.criteria())
        plan = BulkChangeResult()
        plan.add(call(limit=chosen.limit, dry_run=True))
        if consent.dry_run or not plan.matched:
            _write_result(session, topic, change, plan, dry_run=consent.dry_run)
            return
        require_confirmation(session, f"{change.verb} {plan.count} of topic {topic}", name=topic, consent=consent)
        result = BulkChangeResult()
        with interruptible_changes(lambda: f"{format_count(result.changed, 'message')} {change.done}") as is_stopped:
            change_all(call, chosen.limit, change.doing, is_stopped, result, repeats=change.repeats)
            stopped = is_stopped() and not result.complete
    _write_result(session, topic, change, result)
    if stopped:
        terminal.say(f"interrupted: {format_count(result.changed, 'message')} {change.done}")
        raise typer.Exit(exit_codes.INTERRUPTED)
    if not result.complete:
        terminal.say("the request took its maximum time and left the rest: choose fewer with --limit, --from and --to")
        raise typer.Exit(exit_codes.FAILED)


@dataclass(slots=True)
class BulkChangeResult:
    """The sum of the answers of several requests."""

    matched: int = 0
    scanned: int = 0
    changed: int = 0
    complete: bool = False
    operation: int | None = None

    def add(self, answer: Mapping[str, Any]) -> None:
        self.matched += answer["matched"]
        self.scanned += answer["scanned"]
        self.changed += answer["changed"]
        self.complete = answer["complete"]
        self.operation = answer.get("operation")

    @property
    def count(self) -> str:
        return ("" if self.complete else "at least ") + format_count(self.matched, "delayed message")


def change_all(
    call: ChangeCall,
    limit: int | None,
    verb: str,
    is_stopped: Callable[[], bool],
    result: BulkChangeResult,
    *,
    repeats: bool,
) -> None:
    """Repeat the request until all messages are changed, ^C stops it, or it changes nothing more.

    A request takes about twenty seconds at most. Cancelled and delivered messages do not match any more, so the next
    request continues with the rest. Rescheduled ones may match again: then there is one request.
    """
    while not result.complete and not is_stopped():
        terminal.show_status(f"{verb}: {format_count(result.changed)} so far")
        left = None if limit is None else limit - result.changed
        before = result.changed
        result.add(call(limit=left, dry_run=False))
        if not repeats or result.changed == before:
            return


def _write_result(
    session: Session, topic: str, change: _DelayedChange, result: BulkChangeResult, *, dry_run: bool = False
) -> None:
    row = {"name": topic, **asdict(result)}
    columns = [
        Column("TOPIC", "name"),
        Column("MATCHED", "matched", format_count),
        Column("SCANNED", "scanned", format_count),
        Column("COMPLETE", "complete", lambda complete: "yes" if complete else "no", wide=True),
    ]
    if not dry_run:
        columns.insert(1, Column(change.done.upper(), "changed", format_count))
    session.write([row], columns)
    if change.undoable:
        say_undo(session, [row])
    if not result.matched:
        terminal.say(f"no such delayed messages of {topic}")
    elif dry_run:
        terminal.say(f"{result.count} of {topic} would be {change.done}")
