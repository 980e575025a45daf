"""The logs that transactions write to: partitions, delayed logs and logs of groups.

They also tell of transactions whose records are lost, by their marks and control records. A transaction lasts at most
`TRANSACTION_SECONDS_MAX`, so what was open when a record was lost has nothing older in any partition. This is read only
at a start that has lost records.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.journal import Journal
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.open_search import transactional_epochs
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.publish_port import PublishPort
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.work import Promise, Work, run_work
from goqueue.broker.delay.scheduler import DelayScheduler
from goqueue.broker.groups.shards import GroupShards
from goqueue.broker.transactions.records import EnlistedLog, TransactionMetadata, TransactionRecord
from goqueue.broker.transactions.registry import TransactionRegistry
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError, LogClosed
from goqueue.limits import TRANSACTION_SECONDS_MAX
from goqueue.storage import scan
from goqueue.storage.log import Log
from goqueue.storage.transaction_marker import markers_in

_READ_BYTES = 1024 * 1024
_LONGEST_NS = round(TRANSACTION_SECONDS_MAX * NANOSECONDS)


class TopicDirectory(Protocol):
    """The part of the broker that the lookup needs."""

    delay_scheduler: DelayScheduler
    groups: GroupShards

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    def publishable_topic(self, name: str) -> Topic: ...

    def log(self, ref: LogRef) -> Partition: ...


class HeldMessages(NamedTuple):
    """The messages that a transaction has in one partition."""

    first_offset: int | None = None
    messages: int = 0
    """Its own messages."""
    held_back: int = 0
    """Offsets hidden from readers of committed messages: its own, and later ones of others. In a delayed log only its
    own.
    """


class PartitionLookup:
    """Looks up the logs of transactions."""

    def __init__(self, logs: TopicDirectory) -> None:
        self._logs = logs
        self.port = PublishPort(logs.log)

    def find(self, log_ref: LogRef) -> tuple[Partition, int]:
        topic = self._logs.publishable_topic(log_ref.topic)
        partition = topic.partition(log_ref.partition)
        if partition.leadership is not None:  # its leader finds the delayed log
            return partition, topic.created_ns
        return self._logs.log(log_ref), topic.created_ns

    def is_there(self, enlisted: EnlistedLog) -> bool:
        """Return whether an enlisted log is there, on this node or on others."""
        log_ref = enlisted.log_ref
        topic = self._logs.topics.get(log_ref.topic)
        if topic is None or topic.created_ns != enlisted.topic_ns or log_ref.partition >= len(topic.partitions):
            return False
        return topic.partition(log_ref.partition).leadership is not None or self.partition(enlisted) is not None

    def partition(self, enlisted: EnlistedLog) -> Partition | None:
        """Return the enlisted partition, or None if its topic is gone."""
        log_ref = enlisted.log_ref
        topic = self._logs.topics.get(log_ref.topic)
        if topic is None or topic.created_ns != enlisted.topic_ns or log_ref.partition >= len(topic.partitions):
            return None
        partition = topic.partition(log_ref.partition)
        if not log_ref.is_delayed:
            return partition
        delays = self._logs.delay_scheduler.delays(partition)
        return None if delays is None else delays.delayed_log

    def has_commit(self, record: TransactionMetadata) -> bool:
        """Return whether some partition has a commit record of this transaction."""
        epochs, enlisted = record.epochs, ((one.since, self.partition(one)) for one in record.partitions)
        buffers = (buffer for since, one in enlisted if one is not None for buffer in _buffers(one.log, since))
        markers = (marker for buffer in buffers for _, marker in markers_in(scan.walk(buffer)))
        return any(marker.is_commit and epochs.get(marker.producer) == marker.epoch for marker in markers)

    def partitions(self) -> Iterator[Partition]:
        """Yield all partitions and delayed logs that transactions may write to."""
        for topic in self._logs.topics.values():
            if not is_internal(topic.name):
                yield from topic.partitions
        for delivery in self._logs.delay_scheduler.deliveries():
            yield delivery.delays.delayed_log

    def held_by(self, record: TransactionMetadata, enlisted: EnlistedLog) -> HeldMessages:
        partition = self.partition(enlisted)
        if partition is None or not len(partition.open):
            return HeldMessages()
        opened = [one for _, one in partition.open.among(record.epochs)]
        if not opened:
            return HeldMessages()
        first = min(one.first_offset for one in opened)
        messages = sum(end - start for one in opened for start, end in one.ranges)
        behind = messages if enlisted.log_ref.is_delayed else max(0, partition.high_watermark - first)
        return HeldMessages(first, messages, behind)

    def partitions_of(self, record: TransactionMetadata) -> list[Partition]:
        """Return the partitions that the transaction has written to, those of its groups included.

        In a cluster, those that are led here: what other leaders have answered is on all replicas in sync.
        """
        enlisted = (self.partition(one) for one in record.partitions)
        groups = self._logs.groups
        found = [one for one in enlisted if one is not None]
        found += [groups.partitions[groups.number(group)] for group in record.groups]
        return [one for one in dict.fromkeys(found) if one.leadership is None or one.leadership.is_leading]

    def held_back(self) -> Iterator[tuple[Partition, int]]:
        """Yield the partitions with offsets hidden from readers of committed messages, and how many. In a cluster each
        node counts those that it leads. Nothing may change meanwhile.
        """
        for topic in self._logs.topics.values():
            for partition in topic.partitions:
                if (partition.leadership is None or partition.leadership.is_leading) and (count := partition.held_back):
                    yield partition, count


class LostTransactions:
    """Transactional ids and transactions whose records are lost."""

    def __init__(self) -> None:
        self.hit: list[str] = []
        """Ids whose latest record may be lost."""
        self.unknown: list[Partition] = []
        """Partitions that may have open transactions without any record."""
        self._lost = 0
        """Maximum number of lost records of `hit`, which may have used as many epochs."""

    def raise_epochs(
        self, register: TransactionRegistry, journal: Journal[TransactionRecord]
    ) -> list[TransactionRecord]:
        """Return records that raise each hit id to an epoch that no lost record can have used."""
        if not journal.losses:
            return []
        durable = journal.durable
        assert isinstance(durable, TransactionRegistry)
        self.hit, self._lost = sorted(durable.doubtful), durable.lost
        return register.with_epochs_raised(self.hit, self._lost)

    def epochs_lost(self, known: TransactionMetadata | None) -> int:
        """Return how many epochs of an id lost records may have used."""
        return self._lost if known is not None and known.id in self.hit else 0

    def hold_unknown_transactions(self, journal: Journal[TransactionRecord], partitions: Iterable[Partition]) -> None:
        """Hold each partition that may have a transaction without a record.

        Such a transaction was open when a record was lost or, if the log cannot be read, at the end of each log.
        """
        if not journal.losses and journal.log.fence is None:
            return
        since_ns = min((one.since_ns for one in journal.losses), default=None)
        for partition in partitions:
            log = partition.log
            try:
                before_ns = (log.last_time if since_ns is None else since_ns) - _LONGEST_NS
                since = run_work(partition.offset_for_time(max(0, before_ns)))
                epochs = run_work(transactional_epochs(partition, since))
            except GoQueueError:  # an unreadable log is not served
                continue
            if epochs:
                partition.open.hold(since, partition.log_end, epochs)
                self.unknown.append(partition)


def _buffers(log: Log, offset: int) -> Iterator[memoryview]:
    offset = max(offset, log.first_offset)
    while offset < log.readable_end:
        read = log.read(offset, _READ_BYTES, skip_damage=True)
        yield from read.buffers
        offset = read.next_offset


def all_synced(partitions: Iterable[Partition]) -> Work[None]:
    """Wait until what is committed in these partitions is on the device; pass over deleted ones."""
    waiting: list[Promise[None]] = []
    for partition in partitions:
        waiting.append(Promise())
        partition.when(partition.high_watermark, CommitLevel.SYNCED, waiting[-1])
    for promise in waiting:
        with suppress(LogClosed):
            yield from promise.kept()
