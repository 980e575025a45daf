"""Helpers for tests of dead letters: add some, redrive them, and read what is where."""

from typing import Any

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.work import Work, run_work
from goqueue.broker.groups.dead_letter_message import encode_dead_letter
from goqueue.broker.groups.dead_letter_reader import DeadLetterCriteria
from goqueue.broker.groups.dead_letters import REDRIVE_GROUP
from goqueue.broker.groups.records import MessageMove
from goqueue.broker.groups.redrive import DeadLetterPage, RedriveOptions, RedriveReport
from goqueue.clock import NANOSECONDS
from goqueue.storage import frame
from tests.broker.brokers import Running, Told, values


def dead_letter(
    value: bytes, topic: str, number: int, error: str, group: str, key: bytes | None, headers: frame.Headers
) -> bytes:
    """Encode a dead letter as the mover does."""
    message = frame.StoredMessage(7, 0, key, value, headers)
    move = MessageMove("", 0, 0, error, 4, NANOSECONDS, 2 * NANOSECONDS)
    return encode_dead_letter(message, group, PartitionRef(topic, number), move)


def add_dead_letters(
    running: Running,
    *contents: bytes,
    topic: str = "orders",
    number: int = 0,
    error: str = "broken",
    group: str = "billing",
    key: bytes | None = None,
    headers: frame.Headers = (),
) -> None:
    """Add dead letters of one partition."""
    if f"{topic}.dlq" not in running.names():
        running.create(f"{topic}.dlq", 2)
    put(
        running,
        f"{topic}.dlq",
        number,
        [dead_letter(one, topic, number, error, group, key, headers) for one in contents],
    )


def put(running: Running, topic: str, number: int, frames: list[bytes]) -> None:
    told: Told[object] = Told()
    partition = running.broker.topics[topic].partition(number)
    partition.offer(frames, told)
    partition.commit()
    running.flush()
    assert told.result


def with_orders(partitions: int = 2) -> Running:
    running = Running()
    running.create("orders", partitions)
    return running


def settle(running: Running) -> None:
    """Flush the disk and run queued moves, as the runtime does."""
    running.flush()
    for coordinator in running.broker.groups:
        if not coordinator.dead_letter_mover.is_idle:
            run_work(coordinator.dead_letter_mover.move_all(), running.flush)


def redrive_steps(running: Running, topic: str = "orders", limit: int = 100, **options: Any) -> Work[RedriveReport]:
    """Redrive without pauses."""
    redriving = running.broker.groups.of(REDRIVE_GROUP).redrives.begin(topic, RedriveOptions(limit=limit, **options))
    while not redriving.is_over:
        yield from redriving.step()
    return (yield from redriving.conclude())


def redrive(running: Running, topic: str = "orders", limit: int = 100, **options: Any) -> RedriveReport:
    return run_work(redrive_steps(running, topic, limit, **options), lambda: settle(running))


def browse(running: Running, limit: int = 100, **criteria: Any) -> DeadLetterPage:
    redrives = running.broker.groups.of(REDRIVE_GROUP).redrives
    return run_work(redrives.browse("orders", limit, {}, DeadLetterCriteria(**criteria)))


def not_redriven(running: Running) -> list[bytes]:
    """Return the values that were not redriven."""
    return [found.message.value for found in browse(running).letters]


def contents_of(running: Running, topic: str = "orders") -> list[bytes]:
    """Return the values of a topic, partition by partition."""
    return [value for partition in running.broker.topics[topic].partitions for value in values(partition)]


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]
