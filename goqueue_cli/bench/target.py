"""The broker and the topic of a benchmark, and the flags that several benchmarks have."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid, doing, suggesting
from goqueue.console.flags import Consent, duration_parser
from goqueue.console.names import shorten_name
from goqueue.console.session import Session, require_confirmation
from goqueue.errors import GoQueueError
from goqueue.limits import MIB
from goqueue.quantities import format_count, format_size, parse_size

if TYPE_CHECKING:
    from goqueue.client import Client

_VALUES = 1_000
"""Different values: enough that repetition does not help, few enough to be generated quickly."""

_SIZE_BYTES_MAX = MIB
_SECONDS_MAX = 3_600.0


def _size(text: str | int) -> int:
    try:
        size = parse_size(str(text))
    except ValueError as error:
        raise UsageInvalid(f"--size: {error}") from None
    if not 1 <= size <= _SIZE_BYTES_MAX:
        raise UsageInvalid(f"--size is {text}, and must be 1 to {format_size(_SIZE_BYTES_MAX)}")
    return size


TopicName = Annotated[
    str | None, typer.Argument(metavar="[TOPIC]", help="Topic to use. Default: a new one, deleted at the end.")
]
MessagesFlag = Annotated[int, typer.Option(metavar="N", min=1, max=1_000_000_000, help="Number of counted messages.")]
SizeFlag = Annotated[int, typer.Option(metavar="SIZE", parser=_size, help="Size of each value, as in 1KiB.")]
PartitionsFlag = Annotated[int, typer.Option(metavar="N", min=1, help="Partitions of a new topic.")]
SaveFlag = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Save the result, for `goqueue-cli bench compare`.")
]


def duration_flag(flag: str, default: str, help_text: str) -> Any:
    parser = duration_parser(flag, most=_SECONDS_MAX)
    return typer.Option(flag, metavar="DURATION", parser=parser, show_default=default, help=help_text)


def confirm_load(session: Session, plan: str, *, consent: Consent) -> bool:
    """Return True to continue; load on a protected broker needs a confirmation."""
    if consent.dry_run:
        terminal.write_lines([f"would {plan}"])
        return False
    if session.protected:
        what = f"put the broker under load and {plan}"
        require_confirmation(session, what, name=session.guard or "", consent=consent)
    return True


def describe_target(topic: str | None, partitions: int) -> str:
    return f"topic {shorten_name(topic)}" if topic else f"a new topic with {format_count(partitions, 'partition')}"


@contextmanager
def bench_target(
    session: Session, topic: str | None, partitions: int, *, keep: bool = False
) -> "Iterator[BenchTarget]":
    """Yield a client and the topic to use; a new topic is deleted at the end in any case."""
    with session.client() as client, doing("measure" if topic is None else f"measure with topic {shorten_name(topic)}"):
        with suggesting(client):
            if topic is not None:
                yield BenchTarget(client, topic, client.topic(topic).partitions, is_own=False)
                return
        own = new_name()
        client.create_topic(own, partitions)
        try:
            yield BenchTarget(client, own, partitions, is_own=True)
        finally:
            if not keep:
                _delete(client, own)


class BenchTarget(NamedTuple):
    """The client and the topic of one benchmark."""

    client: "Client"
    topic: str
    partitions: int
    is_own: bool


def new_name() -> str:
    return f"bench-{secrets.token_hex(4)}"


def values(size: int) -> list[bytes]:
    """Return random values, which cannot be compressed, and are the same each time."""
    random = Random(size)  # noqa: S311 - made up data
    return [random.randbytes(size) for _ in range(_VALUES)]


def _delete(client: "Client", topic: str) -> None:
    try:
        client.delete_topic(topic)
    except GoQueueError as error:
        terminal.say(f"topic {topic} was not deleted: {error.sentence}")
