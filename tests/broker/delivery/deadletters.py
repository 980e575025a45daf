"""What tests of dead letters need to speak briefly: some that lie there, sending them back, and what is where then."""

from typing import Any

from goqueue.broker.delivery.changes import Move
from goqueue.broker.delivery.letters import Criteria
from goqueue.broker.delivery.redrive import Browsed, RedriveReport, RedriveWish
from goqueue.broker.delivery.transfer import as_dead_letter
from goqueue.broker.work import run
from goqueue.clock import NANOSECONDS
from goqueue.storage import frame
from tests.broker.brokers import Running, Told, values


def letter(
    value: bytes, topic: str, number: int, error: str, group: str, key: bytes | None, headers: frame.Headers
) -> bytes:
    """As the undertaker writes it."""
    message = frame.Message(7, 0, key, value, headers)
    move = Move("", 0, 0, error, 4, NANOSECONDS, 2 * NANOSECONDS)
    return as_dead_letter(message, group, (topic, number), move)


def bury(
    running: Running,
    *contents: bytes,
    topic: str = "orders",
    number: int = 0,
    error: str = "broken",
    group: str = "billing",
    key: bytes | None = None,
    headers: frame.Headers = (),
) -> None:
    """Messages of a partition that failed."""
    if f"{topic}.dlq" not in running.names():
        running.create(f"{topic}.dlq", 2)
    put(running, f"{topic}.dlq", number, [letter(one, topic, number, error, group, key, headers) for one in contents])


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
    """What the shell does while somebody waits: the disk works, and what leaves is carried."""
    running.flush()
    if not running.broker.coordinator.undertaker.is_idle:
        run(running.broker.coordinator.undertaker.carry(), running.flush)


def redrive(running: Running, topic: str = "orders", limit: int = 100, **wishes: Any) -> RedriveReport:
    wish = RedriveWish(limit=limit, **wishes)
    return run(running.broker.coordinator.redrives.redrive(topic, wish), lambda: settle(running))


def browse(running: Running, limit: int = 100, **criteria: Any) -> Browsed:
    return run(running.broker.coordinator.redrives.browse("orders", limit, {}, Criteria(**criteria)))


def lying(running: Running) -> list[bytes]:
    """What was not sent back."""
    return [found.message.value for found in browse(running).letters]


def sent(running: Running, topic: str = "orders") -> list[bytes]:
    """What a topic holds, partition by partition."""
    return [value for partition in running.broker.topics[topic].partitions for value in values(partition)]


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]
