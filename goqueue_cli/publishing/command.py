"""`goqueue-cli publish`: messages from arguments, files or a pipe, or made from a template."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console.failure import UsageInvalid, doing, suggesting
from goqueue.console.flags import DryRunFlag
from goqueue.console.formatting import format_to_second, format_until
from goqueue.console.message_fields import parse_header, parse_priority
from goqueue.console.names import reject_empty_names, shorten_name
from goqueue.console.rows import Column
from goqueue.console.session import Session, stream_flags
from goqueue.errors import PermissionDenied
from goqueue.limits import MIB
from goqueue.quantities import format_count, quoted
from goqueue_cli.publishing import sources
from goqueue_cli.publishing.rate import paced
from goqueue_cli.publishing.schema_values import SchemaFlags
from goqueue_cli.publishing.sources import MessageChunk, Shared
from goqueue_cli.publishing.stream import Share, in_one_transaction, publish_stream, publish_whole, send_all

if TYPE_CHECKING:
    from goqueue.client import Nanoseconds, Producer

_BATCHES: dict[str, Any] = {"batch_messages": 10_000, "batch_bytes": MIB}
_SHOWN = 10
"""Messages that --dry-run shows."""

_RECEIPTS = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("OFFSET", "offset"),
    Column("TIME", "timestamp", wide=True),
)
_DELAYED = (*_RECEIPTS, Column("DUE-IN", "deliver_at", format_until), Column("DUE", "deliver_at", format_to_second))
_SUMMARY = (Column("TOPIC", "topic"), Column("MESSAGES", "messages", format_count))
_PLANNED = (
    Column("KEY", "key"),
    Column("VALUE", "value"),
    Column("HEADERS", "headers", lambda headers: " ".join(f"{name}={text}" for name, text in headers.items()) or "-"),
    Column("PRIORITY", "priority", wide=True),
    Column("PARTITION", "partition", wide=True),
    Column("DELAY", "delay", wide=True),
    Column("DUE", "deliver_at", wide=True),
)

_Values = Annotated[
    list[str] | None, typer.Argument(metavar="[VALUE...]", help="Messages to publish. Default: the lines of stdin.")
]


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """Flags of the command."""

    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Key of every message; with --template also a template.")
    ] = None
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Split each line into key and value at the first TEXT.")
    ] = None
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="Header of every message; may be repeated."),
    ] = None
    partition: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Partition of every message. Default: chosen by its key.")
    ] = None
    priority: Annotated[
        str | None, typer.Option(metavar="P", help="critical, high, normal, low or background, or 0 to 4.")
    ] = None
    delay: Annotated[
        str | None,
        typer.Option("--delay", metavar="DURATION", help="Deliver every message this long after publishing."),
    ] = None
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Deliver every message at a time, a day, or +1h.")
    ] = None
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="FILE", help="Publish the lines of a file; - is stdin. May be repeated."),
    ] = None
    whole: Annotated[bool, typer.Option("--whole", help="Publish each file, or all of stdin, as one message.")] = False
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Read each line as an object, as `consume -o jsonl` writes it.")
    ] = False
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="Publish an object to its own partition, with --jsonl.")
    ] = False
    template: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Generate messages from TEXT: %n, %r{1,6}, %x{8}, %u, %T and %%.")
    ] = None
    first: Annotated[int | None, typer.Option(metavar="N", help="First number of %n. Default: 1.")] = None
    seed: Annotated[int | None, typer.Option(metavar="N", help="Generate the same messages for the same N.")] = None
    count: Annotated[int | None, typer.Option(metavar="N", min=0, help="Maximum number of messages.")] = None
    rate: Annotated[float | None, typer.Option(metavar="N", help="Messages per second. Default: no limit.")] = None
    transactional_id: Annotated[
        str | None,
        typer.Option("--transactional-id", metavar="NAME", help="Publish all messages in one transaction, or none."),
    ] = None


@stream_flags
def publish(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    values: _Values = None,
    *,
    options: PublishOptions,
    schemas: SchemaFlags,
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
      goqueue-cli publish orders '{"id": 17}' --schema orders.avsc

    Messages are durable when the command ends with 0. A newline ends a line; no other byte is changed. A template has
    %n number, %r{1,6} random whole number, %x{8} random digits, %u UUID, %T time and %%; without --count it makes one
    message, and with --rate alone it continues until ^C. Messages with --delay or --at are durable at once and
    invisible until they are due; `goqueue-cli delayed` shows and changes them. With --transactional-id readers see all
    messages at the end, or none: a failure or ^C aborts; the maximum duration is 15 minutes. With --schema values are
    JSON, with text for times and base64 for bytes, and a file is registered for the topic.
    """
    reject_empty_names(topic)
    _check(values, options)
    schemas.check()
    chunks, share = _chunks(values, options)
    if dry_run:
        rows = [_planned_row(*message, named=session.output == "name") for message in islice(_each(chunks), _SHOWN)]
        session.write(rows, _PLANNED)
        return
    name = options.transactional_id
    hint = f"`goqueue-cli topic create {topic}` creates it, `goqueue-cli topic list` shows the topics"
    with (
        doing(f"publish to topic {shorten_name(topic)}"),
        session.client() as client,
        suggesting(client, otherwise=hint),
        _naming(topic),
        schemas.explaining(client),
    ):
        producer = client.producer(
            delivery_timeout=session.timeout, transactional_id=name, **_BATCHES, **schemas.serializers(client)
        )
        chunks = schemas.decoded(chunks)
        if values:
            _publish_values(producer, topic, chunks, name, session)
            return
        if name is not None:
            published = publish_whole(producer, topic, chunks, share, name)
        else:
            published = publish_stream(producer, topic, chunks, share)
    if session.chose_output:
        session.write([{"name": topic, "topic": topic, "messages": published}], _SUMMARY)


@contextmanager
def _naming(topic: str) -> Iterator[None]:
    """Name the topic in a refusal of the producer's id, which the broker gives before it knows the topic."""
    try:
        yield
    except PermissionDenied as error:
        if error.details.get("kind") == "topic" and error.details.get("name") == "*":
            error.sentence = error.sentence.replace("any topic", f"topic {quoted(topic)}")
            error.hint = error.hint and error.hint.replace("--topic NAME", f"--topic {topic}")
        raise


def _publish_values(
    producer: "Producer", topic: str, chunks: Iterator[MessageChunk], transactional_id: str | None, session: Session
) -> None:
    """Publish the messages of the command line, and write a row for each with its place."""
    transaction = producer if transactional_id is None else in_one_transaction(producer, topic, transactional_id)
    with transaction as opened:
        sent = send_all(chunks, opened, topic, is_whole=transactional_id is not None)
        receipts = [receipt for deliveries in sent for receipt in deliveries.result()]
    rows = [
        {
            "name": f"{topic}/{receipt.partition}@{receipt.offset}",
            "topic": topic,
            "partition": receipt.partition,
            "offset": receipt.offset,
            "timestamp": _time(receipt.timestamp_ns),
            "delayed": receipt.delayed,
            "deliver_at": _time(receipt.deliver_at_ns),
        }
        for receipt in receipts
    ]
    session.write(rows, _DELAYED if any(row["delayed"] for row in rows) else _RECEIPTS)


# --- the messages ---


def _chunks(values: list[str] | None, options: PublishOptions) -> tuple[Iterator[MessageChunk], Share]:
    """Return the messages, and a function for the share of them that was sent."""
    priority = parse_priority(options.priority)
    headers = [parse_header(text) for text in options.headers or ()]
    delay, deliver_at = _due(options)
    shared = Shared(headers, options.partition, "normal" if priority is None else priority, delay, deliver_at)
    if options.template is not None:
        return _generated(options, options.template, shared)
    files = sources.InputFiles(options.files or ["-"])
    given = sources.of_arguments(values) if values else files.wholes() if options.whole else files.lines()
    if options.jsonl:
        from goqueue_cli.publishing import json_lines  # noqa: PLC0415 - a JSON parser that only this flag needs

        key = None if options.key is None else os.fsencode(options.key)
        defaults = json_lines.ObjectDefaults(
            key, headers, options.partition, priority, options.keep_partitions, delay=delay, deliver_at=deliver_at
        )
        chunks = json_lines.of_objects(given, defaults)
    else:
        chunks = sources.keyed(given, options.key, options.key_separator, shared)
    count = options.count
    share: Share = (lambda sent: sent / count) if count else lambda _: files.share()
    return sources.limited(paced(chunks, options.rate), count), share


def _due(options: PublishOptions) -> "tuple[float | None, Nanoseconds | None]":
    if options.delay is None and options.at is None:
        return None, None
    from goqueue.console.positions import parse_delay, parse_due_time  # noqa: PLC0415 - with the SDK

    delay = None if options.delay is None else parse_delay("--delay", options.delay)
    return delay, None if options.at is None else parse_due_time("--at", options.at)


def _generated(options: PublishOptions, text: str, shared: Shared) -> tuple[Iterator[MessageChunk], Share]:
    """Generate messages: one, unless there is a count, or a rate until ^C."""
    from goqueue_cli.publishing import templates  # noqa: PLC0415 - with the generator of random numbers

    key = None if options.key is None else templates.Template(options.key, "--key")
    first = 1 if options.first is None else options.first
    made = templates.chunks(templates.Template(text), key, shared, first=first, seed=options.seed, rate=options.rate)
    count = 1 if options.count is None and options.rate is None else options.count
    chunks = sources.limited(paced(made, options.rate, fresh=True), count)
    return chunks, lambda sent: sent / count if count else None


def _each(chunks: Iterator[MessageChunk]) -> Iterator[tuple[bytes | None, bytes, Shared]]:
    for values, keys, shared in chunks:
        for value, key in zip(values, keys or [b""] * len(values), strict=True):
            yield value, key, shared


def _planned_row(value: bytes | None, key: bytes, shared: Shared, *, named: bool) -> Mapping[str, Any]:
    """Format a message as --jsonl reads it; bytes that are not UTF-8 become escapes."""
    return ({"name": _text(key)} if named else {}) | {
        "key": _text(key) or None,
        "value": None if value is None else _text(value),
        "headers": {name: _text(content) for name, content in shared.headers},
        "priority": shared.priority,
        "partition": shared.partition,
        "delay": shared.delay,
        "deliver_at": _time(shared.deliver_at),
    }


def _time(moment: "int | str | None") -> str | None:
    from goqueue.quantities import format_time  # noqa: PLC0415

    return moment if moment is None or isinstance(moment, str) else format_time(moment)


def _text(content: bytes) -> str:
    return content.decode(errors="backslashreplace")


# --- checks ---

_VALUES = "messages as arguments"
_EXCLUDE = (
    *((_VALUES, flag) for flag in ("--file", "--template", "--whole", "--rate", "--count")),
    *(("--template", flag) for flag in ("--file", "--jsonl", "--whole", "--key-separator")),
    *(("--jsonl", flag) for flag in ("--whole", "--key-separator")),
    ("--key", "--key-separator"),
    ("--partition", "--keep-partitions"),
    ("--delay", "--at"),
)
_NEED = (("--keep-partitions", "--jsonl"), ("--first", "--template"), ("--seed", "--template"))


def _check(values: list[str] | None, options: PublishOptions) -> None:
    given = {
        _VALUES: bool(values),
        "--file": bool(options.files),
        "--template": options.template is not None,
        "--whole": options.whole,
        "--rate": options.rate is not None,
        "--count": options.count is not None,
        "--jsonl": options.jsonl,
        "--key": options.key is not None,
        "--key-separator": options.key_separator is not None,
        "--partition": options.partition is not None,
        "--keep-partitions": options.keep_partitions,
        "--delay": options.delay is not None,
        "--at": options.at is not None,
        "--first": options.first is not None,
        "--seed": options.seed is not None,
    }
    for one, other in _EXCLUDE:
        if given[one] and given[other]:
            raise UsageInvalid(f"{one} and {other} exclude each other", hint="use one of them")
    for flag, needed in _NEED:
        if given[flag] and not given[needed]:
            raise UsageInvalid(f"{flag} needs {needed}", hint=f"leave it out, or add {needed}")
    if options.key_separator == "":
        raise UsageInvalid("--key-separator is empty", hint="use --key-separator :")
    if options.transactional_id is not None and options.template and given["--rate"] and not given["--count"]:
        raise UsageInvalid(
            "--template with --rate continues until ^C, and ^C aborts the transaction",
            hint="add --count, or leave out --transactional-id",
        )
    if options.rate is not None and not 0 < options.rate < float("inf"):
        raise UsageInvalid(f"--rate is {options.rate:g}, and must be above 0", hint="use --rate 100")
