"""`goqueue-cli publish`: messages from arguments, from files, or from a pipe."""

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exits, terminal
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, write_rows
from goqueue.console.session import Session, session_flags, suggesting
from goqueue.errors import AccessDenied, GoQueueError, PathInvalid, RequestInvalid
from goqueue.limits import MIB
from goqueue.quantities import format_count, quoted
from goqueue_cli.lines import read_lines, read_whole
from goqueue_cli.names import refuse_empty, short

if TYPE_CHECKING:
    from goqueue.client import Deliveries, Producer

_GRACE_SECONDS = 5.0
"""For what was read already when somebody presses ^C."""

_Messages = tuple[list[bytes], list[bytes] | None]
"""Values, and a key for each."""

_RECEIPTS = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("OFFSET", "offset"),
    Column("TIME", "timestamp", wide=True),
)
_SUMMARY = (Column("TOPIC", "topic"), Column("MESSAGES", "messages", format_count))


@session_flags
def publish(  # noqa: PLR0913 - flags, each given by name
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE...]", help="The messages; without any, the lines of stdin.")
    ] = None,
    *,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The key of every message.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Key and value are what stands before and behind the first TEXT.")
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header of every message; may be given more than once."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The partition of every message; else its key chooses.")
    ] = None,
    priority: Annotated[
        str, typer.Option(metavar="P", help="critical, high, normal, low or background, or 0 to 4.")
    ] = "normal",
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="FILE", help="The lines of a file; - is stdin. May be given more than once."),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="One message for each file, or of all of stdin.")] = False,
    session: Session,
) -> None:
    """Publish messages to a topic.

    \b
      goqueue-cli publish orders '{"id": 17}' '{"id": 18}'
      goqueue-cli publish orders '{"id": 17}' --key customer-4 --header source=shop
      tail -F shop.log | goqueue-cli publish logs
      goqueue-cli publish prices --file prices.txt --key-separator :
      goqueue-cli publish images --file cat.png --whole

    Messages are durable when it ends with 0. Lines end with a newline; nothing else of them is changed.
    """
    refuse_empty(topic)
    if values and files:
        raise UsageInvalid("there are messages as arguments and a --file", hint="give one of the two")
    if values and whole:
        raise UsageInvalid("--whole is for files and stdin", hint="leave it out: an argument is one message")
    if key is not None and key_separator is not None:
        raise UsageInvalid("--key and --key-separator both give the key", hint="give one of the two")
    if key_separator == "":
        raise UsageInvalid("--key-separator is empty", hint="write it as in --key-separator :")
    shared = {
        "headers": [_header(text) for text in headers or ()],
        "partition": partition,
        "priority": int(priority) if priority.isdecimal() else priority,
    }
    given = _given(values, files, whole=whole)
    messages = _keyed(given, key, key_separator)
    with doing(f"publish to topic {short(topic)}"), session.client() as client, suggesting(client, creates=True):
        producer = client.producer(batch_messages=10_000, batch_bytes=MIB, delivery_timeout=session.timeout)
        if values:
            _publish_few(producer, topic, messages, shared, session)
        else:
            _publish_stream(producer, topic, messages, shared, session)


def _publish_few(
    producer: "Producer", topic: str, messages: Iterator[_Messages], shared: dict[str, Any], session: Session
) -> None:
    """A row for each message says where it is."""
    from goqueue.quantities import format_time  # noqa: PLC0415

    with producer:
        sent = [producer.send_many(topic, values, keys, **shared) for values, keys in messages]
        receipts = [receipt for deliveries in sent for receipt in deliveries.result()]
    rows = [
        {
            "name": f"{topic}/{receipt.partition}@{receipt.offset}",
            "topic": topic,
            "partition": receipt.partition,
            "offset": receipt.offset,
            "timestamp": None if receipt.timestamp_ns is None else format_time(receipt.timestamp_ns),
        }
        for receipt in receipts
    ]
    write_rows(rows, _RECEIPTS, session.output, headers=session.headers)


def _publish_stream(
    producer: "Producer", topic: str, messages: Iterator[_Messages], shared: dict[str, Any], session: Session
) -> None:
    """Narrates how many messages there were; a row says so where a form of output was asked for."""
    tally = _Tally()
    try:
        for values, keys in messages:
            tally.add(producer.send_many(topic, values, keys, **shared))
        producer.close()
        tally.settle()
    except KeyboardInterrupt:
        with suppress(GoQueueError):
            producer.close(_GRACE_SECONDS)
        with suppress(GoQueueError):
            tally.settle()
        terminal.say(f"interrupted: {tally} published to {topic}")
        raise typer.Exit(exits.INTERRUPTED) from None
    except GoQueueError:
        with suppress(GoQueueError):
            producer.close(_GRACE_SECONDS)
        with suppress(GoQueueError):
            tally.settle()
        if tally.published:
            terminal.say(f"{tally} published to {topic} before the failure")
        raise
    terminal.say(f"{tally} published to {topic}")
    if session.chose_output:
        rows = [{"name": topic, "topic": topic, "messages": tally.published}]
        write_rows(rows, _SUMMARY, session.output, headers=session.headers)


class _Tally:
    """How many messages are acknowledged. The first failure is raised as soon as it is known."""

    def __init__(self) -> None:
        self.published = 0
        self._under_way: deque[Deliveries] = deque()

    def add(self, deliveries: "Deliveries") -> None:
        self._under_way.append(deliveries)
        while self._under_way and self._under_way[0].done():
            self._count(self._under_way.popleft())

    def settle(self) -> None:
        """When the producer is closed, and so nothing is under way any more."""
        while self._under_way:
            self._count(self._under_way.popleft())

    def _count(self, deliveries: "Deliveries") -> None:
        failed = deliveries.exceptions()
        self.published += len(deliveries) - len(failed)
        if failed:
            raise failed[min(failed)]

    def __str__(self) -> str:
        return format_count(self.published, "message")


# --- where messages come from ---


def _given(values: list[str] | None, files: list[str] | None, *, whole: bool) -> Iterator[list[bytes]]:
    if values:
        yield [os.fsencode(value) for value in values]
        return
    for name in files or ["-"]:
        with _opened(name) as file:
            if whole:
                yield [read_whole(file)]
            else:
                yield from read_lines(file)


def _keyed(given: Iterator[list[bytes]], key: str | None, separator: str | None) -> Iterator[_Messages]:
    if separator is not None:
        yield from _split(given, os.fsencode(separator))
        return
    encoded = None if key is None else os.fsencode(key)
    for values in given:
        yield values, None if encoded is None else [encoded] * len(values)


def _split(given: Iterator[list[bytes]], separator: bytes) -> Iterator[_Messages]:
    count = 0
    for lines in given:
        parts = [line.partition(separator) for line in lines]
        for number, (_, found, _) in enumerate(parts, start=count + 1):
            if not found:
                raise RequestInvalid(
                    f"message {number} has no {separator.decode(errors='replace')!r} between its key and its value",
                    hint="without --key-separator whole lines are published",
                )
        count += len(parts)
        yield [value for _, _, value in parts], [key for key, _, _ in parts]


@contextmanager
def _opened(name: str) -> Iterator[int]:
    if name == "-":
        if sys.stdin is None:
            raise UsageInvalid("stdin is closed", hint="give messages as arguments, or a --file")
        if sys.stdin.isatty():
            terminal.say("a message each line; ^D ends")
        yield sys.stdin.fileno()
        return
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise AccessDenied(f"{name} may not be read", hint="check owner and mode") from None
    except OSError as error:
        raise _unreadable(name, error) from None
    try:
        yield file
    except OSError as error:  # of a directory already the first read
        raise _unreadable(name, error) from None
    finally:
        os.close(file)


def _unreadable(name: str, error: OSError) -> PathInvalid:
    return PathInvalid(f"{name} cannot be read: {error.strerror or error}", hint="--file takes a file, or - for stdin")


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise UsageInvalid(f"--header {quoted(text)} is no header", hint="write it as in --header source=shop")
    return name, os.fsencode(value)
