"""The facade of the broker's rules: topics, partitions, producer ids, groups, delayed messages and transactions.

Synchronous, on the thread that owns the store. The runtime makes records durable, then calls the callbacks, and
calls `commit` soon after an `offer` that asks for it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from goqueue.broker import internal_topics as internal
from goqueue.broker.core.catalog import (
    Catalog,
    CatalogRecord,
    InternalTopicCreated,
    ProducerIdAllocator,
    TopicForgotten,
    decode_catalog_record,
    encode_catalog_record,
)
from goqueue.broker.core.journal import Journal
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.producer_checkpoint import note_tear
from goqueue.broker.core.remote_partition import RemotePartition
from goqueue.broker.core.topic import Topic, TopicSettings, TopicSpec, check_topic_name, log_name
from goqueue.broker.core.upkeep import RetentionClock, read_clock_doubt
from goqueue.broker.core.work import Callback, Work, no_work, run_work
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.delay.scheduler import DelayScheduler, delayed_log_name
from goqueue.broker.groups.coordinator import GroupSettings
from goqueue.broker.groups.shards import GroupShards
from goqueue.broker.losses import AbsentLog, LostJournalRecords, UnavailableLog
from goqueue.broker.operations.changes import RecordedChanges
from goqueue.broker.operations.outcome import settle_interrupted
from goqueue.broker.operations.recorder import OperationRecorder
from goqueue.broker.operations.undo import OperationUndo
from goqueue.broker.scaling import TopicDecisions, TopicScaler
from goqueue.broker.schemas.logs import open_schemas
from goqueue.broker.security.logs import open_security
from goqueue.broker.tenants.administration import TenantAdministration
from goqueue.broker.tenants.logs import TENANTS, TENANTS_SETTINGS, open_tenants, open_usage
from goqueue.broker.topic_maker import TopicMaker
from goqueue.broker.transactions.partitions import PartitionLookup
from goqueue.broker.transactions.shards import TransactionShards, count_transaction_logs
from goqueue.clock import Clock, StallFreeClock
from goqueue.errors import BrokerStopping, GoQueueError, RequestInvalid, TopicBusy, TopicNotFound
from goqueue.events import Signal
from goqueue.limits import (
    CATALOG_SEGMENT_BYTES,
    CLUSTER_NODES_MAX,
    CLUSTER_TRANSACTION_LOGS,
    GROUP_LOGS,
    RETENTION_JUMP_PERCENT,
)
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log, LogSettings
from goqueue.storage.store import Store


class Broker:
    """All topics of one data directory."""

    def __init__(  # noqa: PLR0913 - independent settings
        self,
        store: Store,
        disk: Disk,
        clock: Clock,
        log_settings: LogSettings,
        chance: Callable[[int], int],
        group_settings: GroupSettings | None = None,
        retention_jump_percent: int = RETENTION_JUMP_PERCENT,
        *,
        has_tenants: bool = False,
    ) -> None:
        """`chance(bits)` returns an unpredictable number."""
        self._retention_jump_percent = retention_jump_percent
        self.retention: RetentionClock
        self._chance = chance
        self._group_settings = group_settings or GroupSettings()
        self.groups: GroupShards
        self.transactions: TransactionShards
        self.scaler: TopicScaler
        self.maker: TopicMaker
        self.cluster: TopicDecisions | None = None
        """Decides about topics in place of this broker."""
        self.operations: OperationRecorder
        self.changes: RecordedChanges
        self.undo: OperationUndo
        self.usage_log: Partition
        self.tenants: TenantAdministration | None = None
        """None if the broker has no tenants: their log is not opened."""
        self._has_tenants = has_tenants
        self._store = store
        self._disk = disk
        self._clock = clock
        self.stall_free = StallFreeClock(clock)
        """The clock of client deadlines. The runtime calls its `beat` from before `open` on."""
        self._log_settings = log_settings
        self.topics: dict[str, Topic] = {}
        self.delay_scheduler = DelayScheduler(clock, is_replicated=self._group_settings.is_replicated)
        self.on_partition_opened: Signal[[Partition]] = Signal()
        self.before_deletion: Callable[[str], Work[None]] = no_work
        """Done before a topic is deleted, as long as its messages are there."""
        self.unclaimed: list[str] = []
        """Logs without a topic. They are left alone and reported."""
        self._catalog = Catalog()
        self._journal: Journal[CatalogRecord]
        self.producer_ids: ProducerIdAllocator

    # --- start and stop ---

    def open(self) -> None:
        """Rebuild the state from the logs, and finish what a crash interrupted."""
        seen_ns, ahead_ns = self._store.last_seen_ns, read_clock_doubt(self._disk, self._store.path)
        percent = self._retention_jump_percent
        self.retention = RetentionClock(self._clock, percent, last_seen_ns=seen_ns, ahead_ns=ahead_ns)
        (partition,) = self._open_internal(internal.CATALOG, internal.CATALOG_SETTINGS)
        log = partition.log
        log.settings = replace(log.settings, segment_bytes=min(log.settings.segment_bytes, CATALOG_SEGMENT_BYTES))
        log.writer.reserve = self._store.reserve
        self._journal = Journal(
            partition, self._disk, self._catalog, encode_catalog_record, decode_catalog_record, snapshots=False
        )
        self._journal.open()
        self.producer_ids = ProducerIdAllocator(self._catalog, self._journal, self._chance)
        self.scaler = TopicScaler(self, self._catalog, self._journal)
        self.maker = TopicMaker(self, self._store, self._catalog, self._journal)
        self._finish_deletions()
        self._finish_moves()
        self._expect_noted_ends()
        for record in self._catalog.topics.values():
            topic = self.attach(record.name)
            for partition in topic.partitions:
                self._note_tear(partition)
                self.__attach_delayed(topic, partition)
        known = {partition.log.name for _, partition in self.partitions()}
        known |= {delivery.delays.name for delivery in self.delay_scheduler.deliveries()}
        known |= internal.internal_logs(self._transaction_logs())
        self.unclaimed = sorted(self._store.logs.keys() - known)
        self._open_groups()
        self._open_transactions()
        self._open_operations()
        self.security, self.audit = open_security(self._open_internal, self._disk, self._clock, self._chance)
        self.schemas = open_schemas(self._open_internal, self._disk)
        if self._has_tenants:
            self.tenants = open_tenants(self._open_internal, self._disk, self._clock, self)
            self.usage_log = open_usage(self._open_internal)
            self.schemas.tenant_of = self.tenants.owner_of
        elif self._group_settings.is_replicated:  # the cluster may have tenants
            self._open_internal(TENANTS, TENANTS_SETTINGS)
        self.note_ends(self._catalog.topics)
        self.scaler.record_splits()

    def _expect_noted_ends(self) -> None:
        """Refuse to recreate a lost log: its offsets would be given out again. A replica gets it from the others."""
        for record in () if self._group_settings.is_replicated else self._catalog.topics.values():
            for name, end in record.ends.items():
                self._store.expect(f"{record.name}/{name}", end)

    def noted_end(self, partition: Partition) -> int:
        """Return how far the log of a partition went at least, as it was recorded."""
        record = self._catalog.topics.get(partition.topic)
        return 0 if record is None else record.ends.get(str(partition.number), 0)

    def note_ends(self, names: Iterable[str]) -> None:
        """Record the durable ends of these topics' logs, where they have changed.

        Nothing waits for it; a refused record is tried again later.
        """
        topics = [self.topics[name] for name in names if name in self.topics and name in self._catalog.topics]
        records = [self._catalog.note_ends(topic.name, self._durable_ends(topic)) for topic in topics]
        if news := [record for record in records if record is not None]:
            self._journal.record(news, lambda _: None)

    def _durable_ends(self, topic: Topic) -> dict[str, int]:
        if self._group_settings.is_replicated:  # what is not committed may be cut off
            led = [one for one in topic.partitions if one.leadership is not None and one.log.fence is None]
            return {str(one.number): min(one.durable_end, one.high_watermark) for one in led}
        logs = [partition.log for partition in topic.partitions]
        found = map(self.delay_scheduler.delays, topic.partitions)
        logs += [delays.delayed_log.log for delays in found if delays is not None]
        return {log.name.removeprefix(f"{topic.name}/"): log.durable_end for log in logs if log.fence is None}

    def __attach_delayed(self, topic: Topic, partition: Partition) -> None:
        name = delayed_log_name(partition)
        if name in self._store.logs or name in self._store.unopened:
            self._note_tear(self._open_delayed(topic, partition).delays.delayed_log)

    def _open_delayed(self, topic: Topic, partition: Partition) -> PartitionDelivery:
        log = self._log_named(delayed_log_name(partition), topic.settings)
        delivery = self.delay_scheduler.open(partition, log, self._disk, lambda: topic.settings.delay_expiry_seconds)
        delivery.clock_ahead_ns = self._clock_ahead_ns
        return delivery

    def _clock_ahead_ns(self) -> int:
        self.retention.look()
        return self.retention.jumped_ns

    def scheduling(self, partition: Partition) -> PartitionDelivery:
        """Return the delivery of a partition's delayed messages, creating its log on first use."""
        delivery = self.delay_scheduler.delivery(partition)
        if delivery is None:
            partition.log.refuse_unless_open()  # the topic may have been deleted meanwhile
            topic = self.topic(partition.topic)
            self._store.finish_deletions()
            delivery = self._open_delayed(topic, partition)
            self.note_ends([topic.name])
        return delivery

    def _open_groups(self) -> None:
        partitions = self._open_internal(internal.GROUPS, internal.GROUP_SETTINGS, GROUP_LOGS)
        self.groups = GroupShards(
            partitions,
            self._disk,
            self,
            self.stall_free,
            self._chance,
            self._group_settings,
            self.retention.trusted_ns,
        )
        self.groups.open_all()

    def _open_transactions(self) -> None:
        count = self._transaction_logs()
        # Earlier versions can open one log.
        if count > 1 and self._catalog.internal.get(internal.TRANSACTIONS) != count:
            self._journal.record([InternalTopicCreated(internal.TRANSACTIONS, count)], lambda _: None)
        self.transactions = TransactionShards(
            self._open_internal(internal.TRANSACTIONS, internal.TRANSACTION_SETTINGS, count),
            self._disk,
            PartitionLookup(self),
            self.stall_free,
            self.producer_ids,
            self.groups,
            self.retention.trusted_ns,
        )
        self.transactions.open_all()
        if any(shard.journal.losses for shard in (*self.transactions, *self.groups)):
            self.transactions.end_lost(self.groups)

    def _transaction_logs(self) -> int:
        in_cluster = self._group_settings.is_replicated
        recorded = CLUSTER_TRANSACTION_LOGS if in_cluster else self._catalog.internal.get(internal.TRANSACTIONS)
        return recorded or count_transaction_logs(self._disk, f"{self._store.path}/logs/{internal.TRANSACTIONS}")

    def _open_operations(self) -> None:
        (partition,) = self._open_internal(internal.OPERATIONS, internal.OPERATION_SETTINGS)
        self.operations = OperationRecorder(partition, self._disk, self._clock)
        self.operations.journal.open()
        self.changes = RecordedChanges(self, self.operations)
        self.undo = OperationUndo(self.changes)
        settle_interrupted(self, self.operations)

    def _note_tear(self, partition: Partition) -> None:
        """Record where a torn batch ends. If that is refused, fence the log, since an append would hide it."""
        found = self._store.recovered.get(partition.log.name)
        if found is None or found.was_clean or not found.next_offset:
            return
        try:
            run_work(note_tear(partition, self._disk))
        except GoQueueError as error:
            partition.log.fence_off(error)

    def lost_records(self) -> Iterator[LostJournalRecords]:
        """Yield what the start could not read of internal logs."""
        journals: list[tuple[Any, list[str]]] = [
            (self._journal, self.unclaimed),
            *((shard.journal, shard.lost.hit) for shard in self.transactions),
            *((one.journal, []) for one in (self.operations, self.security, self.schemas)),
            *(() if self.tenants is None else ((one, []) for one in (self.tenants.journal, *self.usage_log.derived))),
            *((shard.journal, shard.store.group_log.affected_groups) for shard in self.groups),
        ]
        for journal, names in journals:
            if count := sum(one.next_offset - one.first_offset for one in journal.losses):
                yield LostJournalRecords(journal.log.name, count, tuple(names))

    def close(self) -> None:
        """Close all shards, and write the snapshots for the next start. The store is still open and settled."""
        journals = [shard.journal for shard in (*self.groups, *self.transactions)]
        stopping = BrokerStopping("the broker is stopping", hint="try again after the restart", retry_after=1)
        self.transactions.close_all(stopping)
        self.groups.close_all(stopping)
        for journal in (self._journal, *journals):
            journal.snapshot()
        for delivery in self.delay_scheduler.deliveries():
            run_work(delivery.delays.save(self._disk))

    def _finish_deletions(self) -> None:
        """Delete logs of topics whose deletion a crash interrupted."""
        for name in self._catalog.deleted & self._topics_with_files():
            self._store.delete(name)

    def _finish_moves(self) -> None:
        """Delete logs whose replicas have moved to other nodes, where a crash came between the record and that."""
        for topic in self._catalog.topics.values():
            if topic.replicas_here is not None:
                left = {log_name(topic.name, one) for one in range(topic.partitions)} & self._store.logs.keys()
                for name in left - {log_name(topic.name, one) for one in topic.replicas_here}:
                    self._store.delete(name)

    def _topics_with_files(self) -> set[str]:
        return {name.partition("/")[0] for name in (*self._store.logs, *self._store.unopened)}

    def forget_deleted(self) -> None:
        """Record which deleted topics have no files left, so that their names can be dropped."""
        left = self._topics_with_files()
        gone = [name for name in self._catalog.deleted - left if not self._store.is_leaving(name)]
        if gone and self._journal.log.fence is None:
            self._journal.record([TopicForgotten(name) for name in sorted(gone)], lambda _: None)

    def _open_internal(self, name: str, settings: TopicSettings, count: int = 1) -> list[Partition]:
        """Open an internal topic. The segments of its logs have backup copies."""
        partitions = self._open_topic(name, settings, 0, count).partitions
        for log in [partition.log for partition in partitions]:
            if not isinstance(log, UnavailableLog):
                log.writer.keep_copies(log.segments)
        return partitions

    def attach(self, name: str) -> Topic:
        """Open a topic that is recorded."""
        record = self._catalog.topics[name]
        topic = self._open_topic(name, record.settings, record.created_ns, record.partitions, record.replicas_here)
        self.scaler.restore(topic, record)
        return topic

    def _open_topic(
        self, name: str, settings: TopicSettings, created_ns: int, count: int, here: tuple[int, ...] | None = None
    ) -> Topic:
        """Open a topic, creating missing logs of its partitions that are here."""
        partitions = [
            self.open_partition(name, number, settings, is_here=here is None or number in here)
            for number in reversed(range(count))
        ][::-1]
        topic = self.topics[name] = Topic(name, settings, created_ns, partitions)
        return topic

    def open_partition(self, topic: str, number: int, settings: TopicSettings, *, is_here: bool = True) -> Partition:
        """Open a partition, creating its log where it is missing."""
        name = log_name(topic, number)
        if is_here:
            partition = Partition(topic, number, self._log_named(name, settings))
        else:
            log = AbsentLog(name, self._store.resources, self.settings_of(settings))
            partition = RemotePartition(topic, number, log)
        self.on_partition_opened.emit(partition)
        return partition

    def is_absent(self, partition: Partition) -> bool:
        """Return whether only other nodes have a log of this partition."""
        return isinstance(partition.log, AbsentLog)

    def _log_named(self, name: str, settings: TopicSettings) -> Log:
        log_settings = self.settings_of(settings)
        if name in self._store.unopened:
            return UnavailableLog(name, self._store.resources, log_settings, self._store.unopened[name])
        if name not in self._store.logs:
            return self._store.create(name, log_settings)
        log = self._store.logs[name]
        log.settings = log_settings
        return log

    def settings_of(self, settings: TopicSettings) -> LogSettings:
        """Return the settings of the logs of a topic."""
        size = settings.segment_bytes or self._log_settings.segment_bytes
        return LogSettings(size, self._log_settings.segment_age_ns)

    # --- topics ---

    def log(self, ref: LogRef) -> Partition:
        """Return a partition, or its delayed log."""
        partition = self.topic(ref.topic).partition(ref.partition)
        return self.scheduling(partition).delays.delayed_log if ref.is_delayed else partition

    def has_lost_record(self, name: str) -> bool:
        """Return whether there are logs of this topic but no record: `fsck --repair` may restore it."""
        return any(log.startswith(f"{name}/") for log in self.unclaimed)

    def topic(self, name: str) -> Topic:
        """Return a topic, internal ones included."""
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        check_topic_name(name)
        if name in self._catalog.topics:
            raise TopicBusy(f"topic {quoted(name)} is being created", hint="try again in a moment", topic=name)
        raise TopicNotFound(f"there is no topic {quoted(name)}", hint=self._nearest_hint(name), topic=name)

    def _nearest_hint(self, name: str) -> str:
        meant = nearest(name, [one for one in self.topics if not is_internal(one)])
        return f"did you mean {meant}?" if meant else "GET /topics lists all of them, POST /topics creates one"

    def decide_by(self, cluster: TopicDecisions) -> None:
        """Leave the decisions about topics to the controller of a cluster."""
        self.cluster, self._catalog.nodes = cluster, CLUSTER_NODES_MAX

    @property
    def has_lost_topics(self) -> bool:
        """Return whether the catalog has lost records."""
        return bool(self._journal.losses)

    def create_topic(self, spec: TopicSpec, told: Callback[Topic]) -> None:
        if self.cluster is not None:
            self.cluster.create_topic(spec, told)
        else:
            self.maker.make(self._catalog.create_topic(spec, self._clock.now_ns()), told)

    def alter_topic(self, name: str, changes: dict[str, Any], told: Callback[Topic], expected: str = "") -> None:
        topic = self.own_topic(name)
        if self.cluster is not None:
            self.cluster.alter_topic(name, changes, told, expected)
        else:
            self.maker.change(topic, self._catalog.alter_topic(name, changes, expected), told)

    def delete_topic(self, name: str, told: Callback[int]) -> None:
        """Delete a topic durably. Calls `told` with the number of pending delayed messages that were deleted."""
        topic = self.own_topic(name)
        if self.cluster is not None:
            self.cluster.delete_topic(name, told)
        else:
            self.maker.delete(topic, self._catalog.delete_topic(name), told)

    def own_topic(self, name: str) -> Topic:
        """Return a topic that clients may change."""
        topic = self.topic(name)
        if is_internal(name):
            raise TopicNotFound(f"topic {quoted(name)} is internal", hint="clients cannot change it or publish to it")
        return topic

    def compactable_topic(self, name: str) -> Topic:
        topic = self.own_topic(name)
        if "compact" not in topic.settings.cleanup:
            raise RequestInvalid(
                f"topic {quoted(name)} has no compaction: its cleanup is {topic.settings.cleanup}",
                hint="set cleanup=compact first; compaction keeps only the latest message of each key",
                topic=name,
                problems=[],
            )
        return topic

    def publishable_topic(self, name: str) -> Topic:
        return self.own_topic(name) if is_internal(name) else self.topic(name)

    def partitions(self) -> Iterator[tuple[Topic, Partition]]:
        for topic in list(self.topics.values()):
            for partition in topic.partitions:
                yield topic, partition
