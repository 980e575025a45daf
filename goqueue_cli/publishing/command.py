"""`goqueue-cli publish`: messages from arguments, files or a pipe, or made from a template."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console.danger import DryRunFlag
from goqueue.console.failure import doing
from goqueue.console.figures import second, until
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import refuse_empty, short
from goqueue.console.rows import Column
from goqueue.console.session import Session, stream_flags, suggesting
from goqueue.limits import MIB
from goqueue.quantities import format_count
from goqueue_cli.due import parse_at, parse_delay
from goqueue_cli.publishing import sources
from goqueue_cli.publishing.pace import paced
from goqueue_cli.publishing.sources import Chunk, Shared
from goqueue_cli.publishing.stream import Share, publish_stream, publish_whole
from goqueue_cli.publishing.transaction import in_one_transaction

if TYPE_CHECKING:
    from goqueue.client import Nanoseconds, Producer

_SHOWN = 10
"""Messages that --dry-run shows."""

_RECEIPTS = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("OFFSET", "offset"),
    Column("TIME", "timestamp", wide=True),
)
_DELAYED = (*_RECEIPTS, Column("DUE-IN", "deliver_at", until), Column("DUE", "deliver_at", second))
_SUMMARY = (Column("TOPIC", "topic"), Column("MESSAGES", "messages", format_count))
_MADE = (
    Column("KEY", "key"),
    Column("VALUE", "value"),
    Column("HEADERS", "headers", lambda headers: " ".join(f"{name}={text}" for name, text in headers.items()) or "-"),
    Column("PRIORITY", "priority", wide=True),
    Column("PARTITION", "partition", wide=True),
    Column("DELAY", "delay", wide=True),
    Column("DUE", "deliver_at", wide=True),
)

_Values = Annotated[
    list[str] | None, typer.Argument(metavar="[VALUE...]", help="The messages; without any, the lines of stdin.")
]
_Key = Annotated[str | None, typer.Option(metavar="KEY", help="The key of every message; with --template one too.")]
_Separator = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Key and value are what stands before and behind the first TEXT.")
]
_Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=VALUE", help="A header of every message; may be given more than once."),
]
_Partition = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="The partition of every message; else its key chooses.")
]
_Priority = Annotated[
    str | None, typer.Option(metavar="P", help="critical, high, normal, low or background, or 0 to 4.")
]
_Delay = Annotated[
    str | None, typer.Option("--delay", metavar="DURATION", help="Deliver every message so long after it is stored.")
]
_At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="Deliver every message at a time, a day, or +1h.")
]
_Files = Annotated[
    list[str] | None,
    typer.Option("--file", metavar="FILE", help="The lines of a file; - is stdin. May be given more than once."),
]
_Whole = Annotated[bool, typer.Option("--whole", help="One message for each file, or of all of stdin.")]
_Jsonl = Annotated[bool, typer.Option("--jsonl", help="Lines are objects, as `consume -o jsonl` writes them.")]
_Keep = Annotated[
    bool, typer.Option("--keep-partitions", help="Publish an object to the partition that it names, with --jsonl.")
]
_Template = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Make messages of TEXT: %n, %r{1,6}, %x{8}, %u, %T and %%.")
]
_First = Annotated[int | None, typer.Option(metavar="N", help="What %n begins with; 1 unless told.")]
_Seed = Annotated[int | None, typer.Option(metavar="N", help="Make the same messages whenever N is the same.")]
_Count = Annotated[int | None, typer.Option(metavar="N", min=0, help="End after N messages.")]
_Rate = Annotated[float | None, typer.Option(metavar="N", help="Publish N messages a second.")]
_TransactionalId = Annotated[
    str | None,
    typer.Option("--transactional-id", metavar="NAME", help="Publish all of it in one transaction, or nothing."),
]


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What was asked for, flag by flag."""

    values: list[str] | None
    key: str | None
    key_separator: str | None
    headers: list[str] | None
    partition: int | None
    priority: str | None
    delay: str | None
    at: str | None
    files: list[str] | None
    whole: bool
    jsonl: bool
    keep_partitions: bool
    template: str | None
    first: int | None
    seed: int | None
    count: int | None
    rate: float | None
    transactional_id: str | None


@stream_flags
def publish(  # noqa: PLR0913 - flags, each given by name
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    values: _Values = None,
    *,
    key: _Key = None,
    key_separator: _Separator = None,
    headers: _Headers = None,
    partition: _Partition = None,
    priority: _Priority = None,
    delay: _Delay = None,
    at: _At = None,
    files: _Files = None,
    whole: _Whole = False,
    jsonl: _Jsonl = False,
    keep_partitions: _Keep = False,
    template: _Template = None,
    first: _First = None,
    seed: _Seed = None,
    count: _Count = None,
    rate: _Rate = None,
    transactional_id: _TransactionalId = None,
    dry_run: DryRunFlag = False,
    session: Session,
) -> None:
    """Publish messages to a topic.

    \b
      goqueue-cli publish orders '{"id": 17}' '{"id": 18}'
      goqueue-cli publish orders tea --key customer-4 --header source=shop
      tail -F shop.log | goqueue-cli publish logs
      goqueue-cli publish prices --file prices.txt --key-separator :
      goqueue-cli publish images --file cat.png --whole
      goqueue-cli consume orders -o jsonl | goqueue-cli publish copies --jsonl
      goqueue-cli publish orders --template 'order %n' --count 1000 --rate 50
      goqueue-cli publish reminders 'take the cake out' --delay 40m
      goqueue-cli publish orders --file orders.txt --transactional-id import-7

    Messages are durable when it ends with 0. Lines end with a newline; nothing else of them is changed.
    A template has %n number, %r{1,6} random whole number, %x{8} random digits, %u UUID, %T time and %%; without
    --count it makes one message, and with --rate alone goes on until ^C. With --delay or --at messages are durable at
    once and read by nobody before they are due; `goqueue-cli delayed` shows and changes them. With --transactional-id
    readers see all messages at the end, or none: what fails, or ^C, aborts it; it may last 15 minutes.
    """
    refuse_empty(topic)
    wishes = _Wishes(
        values, key, key_separator, headers, partition, priority, delay, at, files,
        whole, jsonl, keep_partitions, template, first, seed, count, rate, transactional_id,
    )  # fmt: skip
    _check(wishes)
    chunks, share = _chunks(wishes)
    if dry_run:
        rows = [_row(*message, named=session.output == "name") for message in islice(_each(chunks), _SHOWN)]
        session.write(rows, _MADE)
        return
    _publish(topic, chunks, share, wishes, session)


def _publish(topic: str, chunks: Iterator[Chunk], share: Share, wishes: _Wishes, session: Session) -> None:
    name = wishes.transactional_id
    with doing(f"publish to topic {short(topic)}"), session.client() as client, suggesting(client, creates=True):
        producer = client.producer(
            batch_messages=10_000, batch_bytes=MIB, delivery_timeout=session.timeout, transactional_id=name
        )
        if wishes.values:
            _publish_few(producer, topic, chunks, name, session)
            return
        if name is not None:
            published = publish_whole(producer, topic, chunks, share, name)
        else:
            published = publish_stream(producer, topic, chunks, share)
    if session.chose_output:
        session.write([{"name": topic, "topic": topic, "messages": published}], _SUMMARY)


def _publish_few(producer: "Producer", topic: str, chunks: Iterator[Chunk], name: str | None, session: Session) -> None:
    """A row for each message says where it is."""
    from goqueue.quantities import format_time  # noqa: PLC0415

    with producer if name is None else in_one_transaction(producer, topic, name) as opened:
        sent = [chunk.send(opened, topic) for chunk in chunks]
        receipts = [receipt for deliveries in sent for receipt in deliveries.result()]
    rows = [
        {
            "name": f"{topic}/{receipt.partition}@{receipt.offset}",
            "topic": topic,
            "partition": receipt.partition,
            "offset": receipt.offset,
            "timestamp": None if receipt.timestamp_ns is None else format_time(receipt.timestamp_ns),
            "delayed": receipt.delayed,
            "deliver_at": None if receipt.deliver_at_ns is None else format_time(receipt.deliver_at_ns),
        }
        for receipt in receipts
    ]
    session.write(rows, _DELAYED if any(row["delayed"] for row in rows) else _RECEIPTS)


# --- which messages ---


def _chunks(wishes: _Wishes) -> tuple[Iterator[Chunk], Share]:
    """The messages, and which part of them there have been."""
    priority = wishes.priority
    known = int(priority) if priority is not None and priority.isascii() and priority.isdecimal() else priority
    headers = [sources.parse_header(text) for text in wishes.headers or ()]
    delay = None if wishes.delay is None else parse_delay("--delay", wishes.delay)
    deliver_at = None if wishes.at is None else parse_at("--at", wishes.at)
    shared = Shared(headers, wishes.partition, "normal" if known is None else known, delay, deliver_at)
    if wishes.template is not None:
        return _made(wishes, wishes.template, shared)
    files = sources.Files(wishes.files or ["-"])
    given = sources.of_arguments(wishes.values) if wishes.values else files.wholes() if wishes.whole else files.lines()
    if wishes.jsonl:
        from goqueue_cli.publishing import objects  # noqa: PLC0415 - a parser of JSON that nobody else needs

        key = None if wishes.key is None else os.fsencode(wishes.key)
        wished = objects.Wishes(
            key, headers, wishes.partition, known, wishes.keep_partitions, delay=delay, deliver_at=deliver_at
        )
        chunks = objects.of_objects(given, wished)
    else:
        chunks = sources.keyed(given, wishes.key, wishes.key_separator, shared)
    count = wishes.count
    share: Share = (lambda sent: sent / count) if count else lambda _: files.share()
    return sources.limited(paced(chunks, wishes.rate), count), share


def _made(wishes: _Wishes, text: str, shared: Shared) -> tuple[Iterator[Chunk], Share]:
    """Of a template: one message, unless it is said how many, or how fast until ^C."""
    from goqueue_cli.publishing import templates  # noqa: PLC0415 - with the generator of random numbers

    key = None if wishes.key is None else templates.Template(wishes.key, "--key")
    first = 1 if wishes.first is None else wishes.first
    made = templates.chunks(templates.Template(text), key, shared, first=first, seed=wishes.seed, rate=wishes.rate)
    count = 1 if wishes.count is None and wishes.rate is None else wishes.count
    chunks = sources.limited(paced(made, wishes.rate, fresh=True), count)
    return chunks, lambda sent: sent / count if count else None


def _each(chunks: Iterator[Chunk]) -> Iterator[tuple[bytes | None, bytes, Shared]]:
    for values, keys, shared in chunks:
        for value, key in zip(values, keys or [b""] * len(values), strict=True):
            yield value, key, shared


def _row(value: bytes | None, key: bytes, shared: Shared, *, named: bool) -> Mapping[str, Any]:
    """A message that would be published, as --jsonl takes it; what is not UTF-8 is shown as escapes."""
    return ({"name": _text(key)} if named else {}) | {
        "key": _text(key) or None,
        "value": None if value is None else _text(value),
        "headers": {name: _text(content) for name, content in shared.headers},
        "priority": shared.priority,
        "partition": shared.partition,
        "delay": shared.delay,
        "deliver_at": _time(shared.deliver_at),
    }


def _time(moment: "Nanoseconds | str | None") -> str | None:
    from goqueue.quantities import format_time  # noqa: PLC0415

    return moment if moment is None or isinstance(moment, str) else format_time(moment)


def _text(content: bytes) -> str:
    return content.decode(errors="backslashreplace")


# --- what cannot be meant ---

_EXCLUDE = (
    ("messages as arguments", "--file"),
    ("messages as arguments", "--template"),
    ("messages as arguments", "--whole"),
    ("messages as arguments", "--rate"),
    ("messages as arguments", "--count"),
    ("--template", "--file"),
    ("--template", "--jsonl"),
    ("--template", "--whole"),
    ("--template", "--key-separator"),
    ("--jsonl", "--whole"),
    ("--jsonl", "--key-separator"),
    ("--key", "--key-separator"),
    ("--partition", "--keep-partitions"),
    ("--delay", "--at"),
)
_NEED = (("--keep-partitions", "--jsonl"), ("--first", "--template"), ("--seed", "--template"))


def _check(wishes: _Wishes) -> None:
    given = {
        "messages as arguments": bool(wishes.values),
        "--file": bool(wishes.files),
        "--template": wishes.template is not None,
        "--whole": wishes.whole,
        "--rate": wishes.rate is not None,
        "--count": wishes.count is not None,
        "--jsonl": wishes.jsonl,
        "--key": wishes.key is not None,
        "--key-separator": wishes.key_separator is not None,
        "--partition": wishes.partition is not None,
        "--keep-partitions": wishes.keep_partitions,
        "--delay": wishes.delay is not None,
        "--at": wishes.at is not None,
        "--first": wishes.first is not None,
        "--seed": wishes.seed is not None,
    }
    for one, other in _EXCLUDE:
        if given[one] and given[other]:
            raise UsageInvalid(f"{one} and {other} contradict each other", hint="give one of the two")
    for flag, needed in _NEED:
        if given[flag] and not given[needed]:
            raise UsageInvalid(f"{flag} means something with {needed} alone", hint=f"leave it out, or give {needed}")
    if wishes.key_separator == "":
        raise UsageInvalid("--key-separator is empty", hint="write it as in --key-separator :")
    if wishes.transactional_id is not None and wishes.template and wishes.rate is not None and wishes.count is None:
        raise UsageInvalid(
            "--template with --rate goes on until ^C, and what is interrupted is not committed",
            hint="give --count, or leave out --transactional-id",
        )
    if wishes.rate is not None and not 0 < wishes.rate < float("inf"):
        raise UsageInvalid(f"--rate is {wishes.rate:g}, and must be above 0", hint="write it as in --rate 100")
