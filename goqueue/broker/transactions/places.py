"""Where a transaction writes: partitions and delayed logs, by their names, and the logs of groups."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from goqueue.broker.delay.office import Office
from goqueue.broker.delay.postman import Postman
from goqueue.broker.groups.coordinator import Coordinator
from goqueue.broker.name import is_internal
from goqueue.broker.partition import Partition
from goqueue.broker.topic import Topic
from goqueue.broker.transactions.records import Registered, Spot, Touched
from goqueue.broker.transactions.remains import has_commit
from goqueue.storage.log import Log


class Logs(Protocol):
    """What is needed of the broker."""

    office: Office
    coordinator: Coordinator

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    def for_publishing(self, name: str) -> Topic: ...

    def scheduling(self, partition: Partition) -> Postman: ...


class Held(NamedTuple):
    """What a transaction has in one partition."""

    first_offset: int | None = None
    """None while it has nothing there."""
    messages: int = 0
    """Of its own."""
    held_back: int = 0
    """Offsets that nobody sees who reads what is committed: its own, and what others have behind them. What others
    have delayed waits for its time alone."""


class Places:
    """Looks them up."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    def find(self, spot: Spot) -> tuple[Partition, int]:
        """The partition that is meant now, and when its topic was created."""
        topic = self._logs.for_publishing(spot.topic)
        partition = topic.partition(spot.partition)
        if spot.is_delayed:
            partition = self._logs.scheduling(partition).delays.inbox
        return partition, topic.created_ns

    def partition(self, touched: Touched) -> Partition | None:
        """The one that was touched; None where its topic is gone, and its messages with it."""
        spot = touched.spot
        topic = self._logs.topics.get(spot.topic)
        if topic is None or topic.created_ns != touched.topic_ns or spot.partition >= len(topic.partitions):
            return None
        partition = topic.partitions[spot.partition]
        if not spot.is_delayed:
            return partition
        delays = self._logs.office.delays(partition)
        return None if delays is None else delays.inbox

    def has_commit(self, record: Registered) -> bool:
        """Whether some partition says that this transaction was committed."""
        touched = ((one.since, self.partition(one)) for one in record.partitions)
        return any(one is not None and has_commit(one, since, record.epochs) for since, one in touched)

    def partitions(self) -> Iterator[Partition]:
        """All that transactions may write to, delayed logs included."""
        for topic in self._logs.topics.values():
            if not is_internal(topic.name):
                yield from topic.partitions
        for postman in self._logs.office.postmen():
            yield postman.delays.inbox

    def held_by(self, record: Registered, touched: Touched) -> Held:
        partition = self.partition(touched)
        if partition is None or not len(partition.open):
            return Held()
        opened = [one for _, one in partition.open.among(record.epochs)]
        if not opened:
            return Held()
        first = min(one.first_offset for one in opened)
        messages = sum(end - start for one in opened for start, end in one.ranges)
        behind = messages if touched.spot.is_delayed else max(0, partition.high_watermark - first)
        return Held(first, messages, behind)

    def logs(self, record: Registered) -> list[Log]:
        """All that the transaction has written to."""
        partitions = (self.partition(touched) for touched in record.partitions)
        shelves = (self._logs.coordinator.ledger.shelf(group) for group in record.groups)
        logs = [partition.log for partition in partitions if partition is not None] + [one.log for one in shelves]
        return list(dict.fromkeys(logs))

    def held_back(self) -> Iterator[tuple[Partition, int]]:
        """Where there are offsets that nobody sees who reads what is committed, and how many.

        Nothing may change while it goes on.
        """
        for topic in self._logs.topics.values():
            for partition in topic.partitions:
                if count := partition.held_back:
                    yield partition, count
