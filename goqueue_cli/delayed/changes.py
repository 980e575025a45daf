"""`goqueue-cli delayed cancel`, `reschedule` and `deliver`: what becomes of delayed messages instead."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.console import exits, terminal
from goqueue.console.danger import ConfirmFlag, DryRunFlag, YesFlag, agree
from goqueue.console.each import each
from goqueue.console.failure import doing
from goqueue.console.figures import second
from goqueue.console.names import refuse_empty, short
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.errors import DelayedNotPending
from goqueue.quantities import format_count
from goqueue_cli.delayed import messages, selection
from goqueue_cli.delayed.choice import (
    AllFlag,
    Choice,
    FromFlag,
    LimitFlag,
    PartitionFlag,
    Places,
    ToFlag,
    TopicName,
    WhereFlag,
    check_means_some,
    naming,
)  # fmt: skip
from goqueue_cli.delayed.messages import DUE, DUE_IN, KEY, PLACE, PRIORITY, Row
from goqueue_cli.delayed.moves import Move, move_of
from goqueue_cli.delayed.selection import Outcome
from goqueue_cli.interruption import after_this_step

if TYPE_CHECKING:
    from goqueue.client import Client

_RESULT = Column("RESULT", "result")


@dataclass(frozen=True, slots=True)
class _Deed:
    """One of the three things that can be done. `doing` and `done` are other forms of its `verb`.

    `one` does it to the message of a row, and gives what is new about it; `planned` gives that beforehand. `many` is
    the call that does it to all who fit, which may be repeated where it `repeats`. Where it `loses` messages, somebody
    is asked also about those that are named.
    """

    verb: str
    doing: str
    done: str
    one: Callable[["Client", Row], Row]
    many: Callable[["Client"], selection.Ask]
    planned: Callable[[Row], Row] = lambda _: {}
    columns: tuple[Column, ...] = (PLACE, DUE, PRIORITY, KEY, _RESULT)
    loses: bool = False
    repeats: bool = True


def _place(row: Row) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


def _cancel_one(client: "Client", row: Row) -> Row:
    client.cancel_delayed(*_place(row))
    return {}


def _deliver_one(client: "Client", row: Row) -> Row:
    client.deliver_delayed(*_place(row))
    return {}


_CANCEL = _Deed(
    "cancel", "cancelling", "cancelled", _cancel_one, lambda client: client.cancel_delayed_where, loses=True
)  # fmt: skip
_DELIVER = _Deed("deliver", "delivering", "delivered", _deliver_one, lambda client: client.deliver_delayed_where)


def _reschedule(move: Move) -> _Deed:
    def one(client: "Client", row: Row) -> Row:
        moved = client.reschedule_delayed(*_place(row), **move.of_one(row["deliver_at"]))
        return {"before": row["deliver_at"], "deliver_at": moved["deliver_at"]}

    return _Deed(
        "reschedule", "rescheduling", "rescheduled", one,
        lambda client: partial(client.reschedule_delayed_where, **move.of_many()),
        lambda row: {"before": row["deliver_at"], "deliver_at": move.time(row["deliver_at"])},
        (PLACE, Column("BEFORE", "before", second), DUE_IN, DUE, KEY, _RESULT),
        repeats=False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Order:
    """What was said about one call of a command."""

    topic: str
    places: list[str] | None
    everything: bool
    choice: Choice
    limit: int | None
    dry_run: bool
    yes: bool
    confirm: str | None


@session_flags
def cancel(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName,
    places: Places = None,
    *,
    everything: AllFlag = False,
    where: WhereFlag = None,
    partition: PartitionFlag = None,
    start: FromFlag = None,
    until: ToFlag = None,
    limit: LimitFlag = None,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    session: Session,
) -> None:
    """Cancel delayed messages: they are never delivered.

    \b
      goqueue-cli delayed cancel orders 0@17
      goqueue-cli delayed cancel orders 0@17 1@4 --yes -o jsonl > gone.jsonl
      goqueue-cli delayed cancel orders --where key=customer-4 --dry-run
      goqueue-cli delayed cancel orders --all

    A PLACE is partition and offset, as `delayed list` shows it and publishing has told it. It asks before, where
    somebody can answer; elsewhere it needs --yes, and in a protected context --confirm with the name of the topic.
    Nothing brings a cancelled message back: -o jsonl of those that are named has all of them, for `publish --jsonl`.
    """

    choice = Choice(where or [], partition, start, until)
    order = _Order(topic, places, everything, choice, limit, dry_run, yes, confirm)
    _change(order, _CANCEL, session)


@session_flags
def deliver(  # noqa: PLR0913 - as above
    topic: TopicName,
    places: Places = None,
    *,
    everything: AllFlag = False,
    where: WhereFlag = None,
    partition: PartitionFlag = None,
    start: FromFlag = None,
    until: ToFlag = None,
    limit: LimitFlag = None,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    session: Session,
) -> None:
    """Deliver delayed messages now.

    \b
      goqueue-cli delayed deliver orders 0@17
      goqueue-cli delayed deliver orders --where key=customer-4 --dry-run
      goqueue-cli delayed deliver orders --to +10m --limit 100

    They are durable in the topic when it ends, and groups get them as any message. Those that filters choose are
    counted first, and it asks; where nobody can answer it needs --yes, and in a protected context --confirm with the
    name of the topic.
    """

    choice = Choice(where or [], partition, start, until)
    order = _Order(topic, places, everything, choice, limit, dry_run, yes, confirm)
    _change(order, _DELIVER, session)


@session_flags
def reschedule(  # noqa: PLR0913 - as above
    topic: TopicName,
    places: Places = None,
    *,
    delay: Annotated[str | None, typer.Option("--delay", metavar="DURATION", help="Deliver so long from now.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Deliver at a time, a day, or +1h.")] = None,
    shift: Annotated[
        str | None, typer.Option("--shift", metavar="DURATION", help="Deliver so much later, or as -30m earlier.")
    ] = None,
    everything: AllFlag = False,
    where: WhereFlag = None,
    partition: PartitionFlag = None,
    start: FromFlag = None,
    until: ToFlag = None,
    limit: LimitFlag = None,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    session: Session,
) -> None:
    """Deliver delayed messages at another time.

    \b
      goqueue-cli delayed reschedule orders 0@17 --delay 5m
      goqueue-cli delayed reschedule orders 0@17 1@4 --at 2026-03-01T12:00:00Z
      goqueue-cli delayed reschedule orders --where key=tea --shift +1h --dry-run
      goqueue-cli delayed reschedule orders --all --shift -30m

    A time that has passed means at once. --shift moves each from when it is due. Those that filters choose are
    counted first, and it asks; where nobody can answer it needs --yes, and in a protected context --confirm with the
    name of the topic.
    """
    deed = _reschedule(move_of(delay, at, shift))
    choice = Choice(where or [], partition, start, until)
    _change(_Order(topic, places, everything, choice, limit, dry_run, yes, confirm), deed, session)


# --- carried out ---


def _change(order: _Order, deed: _Deed, session: Session) -> None:
    refuse_empty(order.topic)
    check_means_some(order.places, order.choice, everything=order.everything, limited=order.limit is not None)
    if order.places:
        _change_named(order, order.places, deed, session)
    else:
        _change_chosen(order, deed, session)


def _change_named(order: _Order, places: list[str], deed: _Deed, session: Session) -> None:
    topic, chosen = order.topic, messages.parse_places(order.topic, places)
    if not order.dry_run and (deed.loses or session.protected):
        count = f"delayed message{'s' if len(chosen) > 1 else ''} {', '.join(map(messages.bare, chosen))}"
        agree(session, f"{deed.verb} {count} of topic {topic}", name=topic, yes=order.yes, confirm=order.confirm)

    def work(client: "Client", name: str) -> Row:
        with naming(client, topic, chosen[name][1]):
            row = messages.row_of(client.delayed_message(topic, *chosen[name]))
            if row["state"] != "pending":
                raise DelayedNotPending(f"message {row['name']} is {row['state']}", hint="nothing changes it any more")
            if order.dry_run:
                return {**row, **deed.planned(row), "result": f"would be {deed.done}"}
            return {**row, **deed.one(client, row), "result": deed.done}

    verb = f"{deed.verb} delayed message"
    each(session, list(chosen), verb, work, lambda rows, session: session.write(rows, deed.columns))


def _change_chosen(order: _Order, deed: _Deed, session: Session) -> None:
    topic, wishes = order.topic, order.choice.wishes()
    what = f"{deed.verb} delayed messages of topic {short(topic)}"
    with doing(what), session.client() as client, naming(client, topic):
        ask = partial(deed.many(client), topic, **wishes)
        planned = selection.plan(ask, order.limit)
        if order.dry_run or not planned.matched:
            _write_outcome(session, topic, deed, planned, dry_run=order.dry_run)
            return
        what = f"{deed.verb} {planned.count} of topic {topic}"
        agree(session, what, name=topic, yes=order.yes, confirm=order.confirm)
        outcome, stopped = _carry_out(ask, order.limit, deed)
    _write_outcome(session, topic, deed, outcome)
    if stopped:
        terminal.say(f"interrupted: {format_count(outcome.changed, 'message')} {deed.done}")
        raise typer.Exit(exits.INTERRUPTED)
    if not outcome.complete:
        terminal.say(
            "a request has its time, and the rest was left: choose fewer with --limit, or with --from and --to"
        )
        raise typer.Exit(exits.FAILED)


def _carry_out(ask: selection.Ask, limit: int | None, deed: _Deed) -> tuple[Outcome, bool]:
    """What has come of it, and whether somebody has stopped it."""
    outcome = Outcome()
    try:
        with after_this_step() as is_stopped:
            selection.carry_out(ask, limit, deed.doing, is_stopped, outcome, repeats=deed.repeats)
            return outcome, is_stopped() and not outcome.complete
    except BaseException:
        terminal.show_status("")
        terminal.say(f"{format_count(outcome.changed, 'message')} {deed.done} before, and maybe more")
        raise
    finally:
        terminal.show_status("")


def _write_outcome(session: Session, topic: str, deed: _Deed, outcome: Outcome, *, dry_run: bool = False) -> None:
    row = {
        "name": topic,
        "matched": outcome.matched,
        "scanned": outcome.scanned,
        "changed": outcome.changed,
        "complete": outcome.complete,
    }
    columns = [
        Column("TOPIC", "name"),
        Column("MATCHED", "matched", format_count),
        Column("SCANNED", "scanned", format_count),
        Column("COMPLETE", "complete", lambda complete: "yes" if complete else "no", wide=True),
    ]
    if not dry_run:
        columns.insert(1, Column(deed.done.upper(), "changed", format_count))
    session.write([row], columns)
    if not outcome.matched:
        terminal.say(f"no such delayed messages of {topic}")
    elif dry_run:
        terminal.say(f"{outcome.count} of {topic} would be {deed.done}")
