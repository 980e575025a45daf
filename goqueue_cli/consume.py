"""`goqueue-cli consume`: the messages of a topic on stdout."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exits, terminal
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.session import Session, session_flags, suggesting
from goqueue.errors import GoQueueError, OffsetOutOfRange, PartitionNotFound, RangeDamaged
from goqueue.limits import MIB
from goqueue.quantities import format_count
from goqueue_cli.names import refuse_empty, short

if TYPE_CHECKING:
    from goqueue.client import Client, Message, Offsets
    from goqueue_cli.outlet import Outlet

_ANSWER_BYTES = 4 * MIB  # of a request: few enough to be shown at once, enough that asking costs nothing


@session_flags
def consume(  # noqa: PLR0913 - flags, each given by name
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    *,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", metavar="N", min=0, help="Read only this one; may be given more than once."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help="Begin at earliest, latest, an offset, a time, a day, or -1h."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", metavar="PLACE", help="End before now, an offset, a time, a day, or -1h."),
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
    refuse_empty(topic)
    if last is not None and (start or until):
        raise UsageInvalid("--last says where reading begins and ends", hint="leave out --from and --to")
    if text is not None and session.chose_output:
        raise UsageInvalid("--format and --output both say how to print", hint="give one of the two")
    from goqueue_cli.outlet import Outlet, form_of  # noqa: PLC0415 - with the SDK, once the flags make sense
    from goqueue_cli.places import is_past, parse_end, parse_start  # noqa: PLC0415

    if follow and until is not None and is_past(until):
        raise UsageInvalid(
            f"--follow waits for what comes, and --to {until} ends before it", hint="give one of the two"
        )
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
        with doing(f"consume topic {short(topic)}"), session.client() as client, _told(client, topic, outlet):
            batches = _all(client, topic, wish) if last is None else _last(client, topic, wish, last)
            for messages in _limited(batches, limit):
                outlet.put(messages)
    except KeyboardInterrupt:
        outlet.finish()
        terminal.say(f"interrupted: {format_count(outlet.count, 'message')}")
        raise typer.Exit(exits.INTERRUPTED) from None
    outlet.finish()
    if not outlet.count:
        terminal.say("no messages")


@contextmanager
def _told(client: "Client", topic: str, outlet: "Outlet") -> Iterator[None]:
    """A failure leaves whole what was shown before it, and says how to go on in the words of this command."""
    try:
        with suggesting(client):
            yield
    except GoQueueError as error:
        outlet.give_up()
        if isinstance(error, RangeDamaged):
            error.hint = _around(topic, error)
        raise


def _around(topic: str, error: RangeDamaged) -> str:
    """The flags that go on. Which partition it is, only the path of the file tells."""
    behind = error.details.get("next_offset")
    found = re.search(rf"/{re.escape(topic)}/([0-9]+)/", error.sentence)
    place = f"--partition {found[1]} " if found else ""
    return "`--skip-damage` reads around it" + (
        "" if behind is None else f", `{place}--from {behind}` begins behind it"
    )


def _all(client: "Client", topic: str, wish: dict[str, Any]) -> "Iterator[list[Message]]":
    """What the wish says. An offset that no chosen partition has reached is refused, and not found to be empty."""
    start = wish["start"]
    if wish["partitions"] or type(start) is int:
        held = _held(client, topic, wish["partitions"])
        if type(start) is int and all(start > offsets.latest for offsets in held.values()):
            ends = ", ".join(
                f"{topic}/{partition} at {offsets.latest}" for partition, offsets in list(held.items())[:5]
            )
            raise OffsetOutOfRange(
                f"nothing is at offset {start} yet: {ends}{', …' if len(held) > 5 else ''} will go on",
                hint="`--from latest --follow` waits for what comes, `--last 10` shows what came last",
            )
    yield from _batches(client, topic, wish)


def _held(client: "Client", topic: str, partitions: list[int] | None) -> "dict[int, Offsets]":
    """The offsets of the chosen partitions, or of all."""
    info = client.topic(topic)
    held: dict[int, Offsets] = {}
    for partition in partitions or range(info.partitions):
        offsets = info.partition_offsets.get(str(partition))
        if offsets is None:
            count = f"it has {info.partitions}: 0 to {info.partitions - 1}" if info.partitions > 1 else "it has 0 alone"
            raise PartitionNotFound(f"topic {topic} has no partition {partition}, {count}")
        held[partition] = offsets
    return held


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
    ends: dict[int, int] = {}
    newest: list[Message] = []
    for partition, held in _held(client, topic, wish["partitions"]).items():
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
