"""`goqueue-cli delayed list` and `delayed describe`: delayed messages as rows, and in full."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.console import terminal
from goqueue.console.each import each, write_blocks
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import refuse_empty, short
from goqueue.console.nearest import nearest
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import EveryFlag, WatchFlag, watch
from goqueue.limits import OFFSET_MAX
from goqueue.quantities import format_count, quoted
from goqueue_cli.delayed import messages
from goqueue_cli.delayed.choice import Choice, FromFlag, PartitionFlag, ToFlag, TopicName, WhereFlag, naming
from goqueue_cli.delayed.messages import Row

if TYPE_CHECKING:
    from goqueue.client import Client

_LIMIT = 100
_SKIP_MAX = 1_000_000
_STATES = ("pending", "delivered", "cancelled", "expired")


def _state(text: str) -> str:
    if text in _STATES:
        return text
    guess = nearest(text, _STATES)
    raise UsageInvalid(
        f"--state {quoted(text)} is no state",
        hint=f"did you mean {guess}?" if guess else f"states: {', '.join(_STATES)}",
    )


@session_flags
def list_messages(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName,
    *,
    where: WhereFlag = None,
    partition: PartitionFlag = None,
    start: FromFlag = None,
    until: ToFlag = None,
    state: Annotated[
        str,
        typer.Option(
            "--state", metavar="STATE", parser=_state, help="Those that are delivered, cancelled or expired instead."
        ),
    ] = "pending",
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, max=OFFSET_MAX, help="At most so many.")
    ] = _LIMIT,
    skip: Annotated[int, typer.Option("--skip", metavar="N", min=0, max=_SKIP_MAX, help="Pass over the first N.")] = 0,
    watched: WatchFlag = False,
    every: EveryFlag = 2.0,
    session: Session,
) -> None:
    """List the delayed messages of a topic, the next due first.

    \b
      goqueue-cli delayed list orders
      goqueue-cli delayed list orders --to +10m
      goqueue-cli delayed list orders --where key=tea --where 'json.total>40'
      goqueue-cli delayed list orders --limit 1000 --skip 1000 -o jsonl
      goqueue-cli delayed list orders --state cancelled --watch

    PLACE is partition and offset among the delayed messages, which publishing has told: `delayed describe TOPIC PLACE`
    shows one in full. --from and --to are about when they are due: a time, a day, now, +1h for in an hour, or -1h.
    """
    refuse_empty(topic)
    choice = Choice(where or [], partition, start, until)
    wishes = choice.wishes() | ({} if state == "pending" else {"state": state})
    with doing(f"list the delayed messages of topic {short(topic)}"), session.client() as client, naming(client, topic):
        if watched:
            watch(session, lambda: messages.found(client, topic, limit, skip, wishes)[0], messages.COLUMNS, every=every)
            return
        rows, total = messages.found(client, topic, limit, skip, wishes)
    session.write(rows, messages.COLUMNS)
    if session.for_people:
        plain = state == "pending" and not choice.is_any()
        _tell(topic, len(rows), skip, limit, total if plain else None, state)


def _tell(topic: str, count: int, skip: int, limit: int, total: int | None, state: str) -> None:
    """How many there are beside those that are shown, as far as somebody knows."""
    if not count and not skip and limit:
        kind = "no delayed messages" if total is not None else f"no such {state} messages"
        terminal.say(f"there are {kind} in {topic}")
    elif total is not None and total > skip + count:
        terminal.say(
            f"{format_count(count)} of {format_count(total)}; `--limit {10 * max(limit, 1)}` shows more, "
            f"`--skip {skip + count}` the next"
        )
    elif total is None and count == limit:
        terminal.say(f"the first {format_count(count)}; `--limit {10 * max(limit, 1)}` may show more")


@session_flags
def describe(
    topic: TopicName,
    places: Annotated[list[str], typer.Argument(metavar="PLACE...", help="Partition and offset, as in 0@17.")],
    *,
    session: Session,
) -> None:
    """Show delayed messages in full.

    \b
      goqueue-cli delayed describe orders 0@17
      goqueue-cli delayed describe orders 0@17 1@4 -o json
      goqueue-cli delayed describe orders 0@17 -o jsonl > kept.jsonl

    A PLACE is partition and offset among the delayed messages, as `delayed list` shows it and publishing has told it;
    the offset is enough where one partition alone has it. JSON is indented, and what a terminal would obey is shown
    as an escape; -o json has the value as it is. What -o jsonl writes, `publish --jsonl` schedules again.
    """
    refuse_empty(topic)
    chosen = messages.parse_places(topic, places)

    def work(client: "Client", name: str) -> Row:
        with naming(client, topic, chosen[name][1]):
            return messages.row_of(client.delayed_message(topic, *chosen[name]))

    each(session, list(chosen), "describe delayed message", work, partial(write_blocks, write_one=_write_view))


def _write_view(row: Row, session: Session) -> None:
    del session
    terminal.write_lines(messages.view(row))
