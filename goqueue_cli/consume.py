"""`goqueue-cli consume`: the messages of a topic on stdout."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exits, terminal
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.session import Session, session_flags, suggesting
from goqueue.errors import PartitionNotFound
from goqueue.limits import MIB
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.client import Client, Message, Offsets
    from goqueue_cli.outlet import Outlet

_ANSWER_BYTES = 4 * MIB  # of a request: few enough to be shown at once, enough that asking costs nothing


@session_flags
def consume(  # noqa: PLR0913 - flags, each given by name
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    *,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", metavar="N", min=0, help="Only this one; may come often.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="PLACE", help="earliest, latest, an offset, a time, or -1h.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="PLACE", help="now, an offset, a time, or -1h; not with it.")
    ] = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=0, help="Begin with the last N messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with messages as they come.")] = False,
    limit: Annotated[int | None, typer.Option(metavar="N", min=0, help="End after N messages.")] = None,
    text: Annotated[
        str | None, typer.Option("--format", metavar="TEXT", help="How to print a message; '%v\\n' unless told.")
    ] = None,
    skip_damage: Annotated[bool, typer.Option("--skip-damage", help="Read around what cannot be read.")] = False,
    session: Session,
) -> None:
    """Read the messages of a topic.

    \b
      goqueue-cli consume orders
      goqueue-cli consume orders --last 10 --follow
      goqueue-cli consume orders --from -1h --to now -o jsonl
      goqueue-cli consume orders --partition 0 --from 1200 --limit 5
      goqueue-cli consume orders --format '%T %k %h{source} %v\\n'

    A format has %t topic, %p partition, %o offset, %k key, %v value, %h{name} header, %T time, %P priority,
    %%, and \\n, \\t, \\r, \\0. Messages of one partition come in their order. Whatever -o says, a pipe gets values
    as they were published, and a terminal nothing that it would obey.
    """
    if last is not None and (start or until):
        raise UsageInvalid("--last says where reading begins and ends", hint="leave out --from and --to")
    if text is not None and session.chose_output:
        raise UsageInvalid("--format and --output both say how to print", hint="give one of the two")
    from goqueue_cli.outlet import Outlet, form_of  # noqa: PLC0415 - with the SDK, once the flags make sense
    from goqueue_cli.places import parse_end, parse_start  # noqa: PLC0415

    wish = {
        "partitions": partitions or None,
        "start": parse_start(start or "earliest"),
        "until": None if until is None else parse_end(until),
        "follow": follow,
        "skip_damage": skip_damage,
        "max_bytes": _ANSWER_BYTES,
    }
    _show(topic, wish, last, limit, Outlet(form_of(text, session)), session)


def _show(
    topic: str, wish: dict[str, Any], last: int | None, limit: int | None, outlet: "Outlet", session: Session
) -> None:
    """Until there is no more, there is enough, or somebody interrupts it."""
    try:
        with doing(f"consume topic {topic}"), session.client() as client, suggesting(client):
            batches = _batches(client, topic, wish) if last is None else _last(client, topic, wish, last)
            for messages in _limited(batches, limit):
                outlet.put(messages)
    except KeyboardInterrupt:
        outlet.finish()
        terminal.say(f"interrupted: {format_count(outlet.count, 'message')}")
        raise typer.Exit(exits.INTERRUPTED) from None
    outlet.finish()
    if not outlet.count:
        terminal.say("no messages")


def _batches(client: "Client", topic: str, wish: dict[str, Any]) -> "Iterator[list[Message]]":
    with client.reader(topic, **wish) as reader:
        yield from reader.batches()


def _limited(batches: "Iterator[list[Message]]", limit: int | None) -> "Iterator[list[Message]]":
    """Up to `limit` messages; the one after them is not waited for."""
    if limit is None:
        yield from batches
        return
    while limit > 0:
        messages = next(batches, None)
        if messages is None:
            return
        yield messages[:limit]
        limit -= len(messages)


def _last(client: "Client", topic: str, wish: dict[str, Any], count: int) -> "Iterator[list[Message]]":
    """The newest messages of all partitions in the order of their times, and with `follow` what comes behind them."""
    info = client.topic(topic)
    ends: dict[int, int] = {}
    newest: list[Message] = []
    for partition in wish["partitions"] or range(info.partitions):
        held = info.partition_offsets.get(str(partition))
        if held is None:
            last = info.partitions - 1
            raise PartitionNotFound(f"topic {topic} has no partition {partition}, but {info.partitions}: 0 to {last}")
        ends[partition] = held.latest
        own = wish | {"partitions": [partition], "until": held.latest, "follow": False}
        newest += _newest(client, topic, own, held, count)
    newest.sort(key=lambda message: message.timestamp_ns)  # stable: each partition keeps its order
    for message in newest[max(0, len(newest) - count) :]:
        yield [message]
    if wish["follow"]:
        yield from _batches(client, topic, wish | {"partitions": list(ends), "start": ends})


def _newest(client: "Client", topic: str, wish: dict[str, Any], held: "Offsets", count: int) -> "Iterable[Message]":
    """The last messages of a partition. Where offsets are missing it looks further back, until there are enough."""
    found: deque[Message] = deque(maxlen=count)
    reach = count
    while count:
        start = max(held.earliest, held.latest - reach)
        found.clear()
        for messages in _batches(client, topic, wish | {"start": start}):
            found.extend(messages)
        if len(found) == count or start == held.earliest:
            break
        reach *= 4
    return found
