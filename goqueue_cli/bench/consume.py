"""`goqueue-cli bench consume`: measure the rate of reading."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.console import terminal
from goqueue.console.flags import Consent
from goqueue.console.session import Session, session_flags
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.limits import MIB
from goqueue.quantities import format_count, format_size
from goqueue_cli.bench import results
from goqueue_cli.bench.target import (
    BenchTarget,
    MessagesFlag,
    PartitionsFlag,
    SaveFlag,
    SizeFlag,
    TopicName,
    bench_target,
    confirm_load,
    describe_target,
    new_name,
    values,
)

if TYPE_CHECKING:
    from goqueue.client import Batch, Message

_IDLE = "1s"
"""Time after which a member stops, if there are fewer messages than expected."""


@session_flags
def consume(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName = None,
    *,
    messages: MessagesFlag = 1_000_000,
    size: SizeFlag = 100,
    partitions: PartitionsFlag = 3,
    group: Annotated[
        bool, typer.Option("--group", help="Read as the only member of a new group, and ack all messages.")
    ] = False,
    save: SaveFlag = None,
    consent: Consent,
    session: Session,
) -> None:
    """Measure how fast messages are read.

    \b
      goqueue-cli bench consume
      goqueue-cli bench consume --group --messages 200000
      goqueue-cli bench consume orders --save before.json

    A new topic is filled first. A named topic is read from its beginning, up to --messages, without --size and
    --partitions. The first twentieth of the messages is a warm-up. With --group the time ends when the last ack is
    durable.
    """
    results.check_place(save)
    filling = "" if topic else f"fill {describe_target(topic, partitions)}, and "
    plan = f"{filling}read {format_count(messages, 'message')}" + (
        f" of {describe_target(topic, partitions)}" if topic else ""
    )
    if not confirm_load(session, plan, consent=consent):
        return
    with bench_target(session, topic, partitions) as place:
        if place.is_own:
            from goqueue_cli.bench.load import PublishLoad  # noqa: PLC0415 - with the SDK

            terminal.say(f"filling {place.topic} with {format_count(messages, 'message')} of {format_size(size)}")
            PublishLoad(place.client, place.topic, values(size), batch_messages=10_000).run(messages)
        held = min(messages, place.client.topic(place.topic).total_messages)
        if not held:
            raise RequestInvalid(
                f"topic {place.topic} has no messages", hint="leave out the topic to fill and read a new one"
            )
        terminal.say(f"reading {format_count(held, 'message')} of {place.topic}")
        settings = {"messages": held, "partitions": place.partitions, "group": group}
        counted, count, seconds = _read_by_group(place, held) if group else _read(place, held)
    if not count:
        raise RequestInvalid(f"{counted} messages are too few to measure", hint="publish more, or raise --messages")
    settings["size_bytes"] = counted // count
    found = results.result(
        "consume", place.topic, settings, results.rates(count, counted // count, seconds), seconds=seconds
    )
    results.write_result(session, found, save)


def _read(place: BenchTarget, messages: int) -> tuple[int, int, float]:
    """Return the bytes and the number of messages after the warm-up, and the seconds."""
    with place.client.reader(place.topic, until="now", max_bytes=4 * MIB) as reader:
        measured = _Measured(messages)
        measured.read(reader.batches())
    return measured.size, measured.count, measured.seconds


def _read_by_group(place: BenchTarget, messages: int) -> tuple[int, int, float]:
    with (
        _new_group(place) as group,
        place.client.consumer(group, [place.topic], start="earliest", max_messages=5_000, until_idle=_IDLE) as member,
    ):
        measured = _Measured(messages)
        measured.read(_acknowledged(member.batches()))
        member.flush()
        measured.stop()
        return measured.size, measured.count, measured.seconds


def _acknowledged(batches: "Iterable[Batch]") -> "Iterator[Sequence[Message]]":
    for batch in batches:
        yield batch.messages
        batch.ack()


@contextmanager
def _new_group(place: BenchTarget) -> Iterator[str]:
    name = new_name()
    try:
        yield name
    finally:
        with suppress(GoQueueError):  # it does not exist yet, or still has a member
            place.client.delete_group(name)


class _Measured:
    """Reads up to a number of messages, and measures without the first twentieth."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._warm = messages // 20
        self._start = self._end = time.perf_counter()
        self.size = 0
        self.count = 0

    def read(self, batches: "Iterable[Sequence[Message]]") -> None:
        seen = 0
        for batch in batches:
            size = sum(len(message.value or b"") for message in batch)
            seen += len(batch)
            if seen - len(batch) < self._warm and seen < self._messages:
                self._start = time.perf_counter()
            else:
                self.size += size
                self.count += len(batch)
            self.stop()
            if seen >= self._messages:
                return

    def stop(self) -> None:
        self._end = time.perf_counter()

    @property
    def seconds(self) -> float:
        return self._end - self._start
