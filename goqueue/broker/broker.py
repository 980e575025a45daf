"""The broker's rules as one object: topics, their partitions, producer ids.

Silent and synchronous. The shell's duties, in this order: persist (the store's flusher), then tell the
waiting (`done`), and call `commit` soon after an `offer` that asks for it. Everything runs on the thread
that owns the store.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from goqueue.broker.catalog import Catalog, Record, TopicForgotten, decode_record, encode_record
from goqueue.broker.closed_log import ClosedLog
from goqueue.broker.delay.office import Office, delayed_log_name
from goqueue.broker.delay.postman import Postman
from goqueue.broker.groups.coordinator import Coordinator, GroupSettings
from goqueue.broker.journal import Journal
from goqueue.broker.name import is_internal
from goqueue.broker.partition import Partition
from goqueue.broker.producer_ids import ProducerIds
from goqueue.broker.retention_clock import RetentionClock, read_doubt
from goqueue.broker.topic import Topic, TopicSettings, TopicSpec, check_topic_name, log_name
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.ending import Ending
from goqueue.broker.transactions.places import Places
from goqueue.broker.work import Told, run
from goqueue.clock import Clock, StallFreeClock
from goqueue.config.problem import nearest
from goqueue.errors import GoQueueError, LogExists, RequestInvalid, TopicBusy, TopicNotFound
from goqueue.limits import (
    CATALOG_SEGMENT_BYTES,
    GROUP_LOGS,
    GROUP_SEGMENT_BYTES,
    RETENTION_JUMP_PERCENT,
    TRANSACTION_SEGMENT_BYTES,
)
from goqueue.quantities import quoted
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log, LogSettings
from goqueue.storage.store import Store

CATALOG = "__metadata"
GROUPS = "__consumer_offsets"
TRANSACTIONS = "__transactions"
_INTERNAL_SETTINGS = TopicSettings(retention_hours=None, cleanup="compact")
_GROUP_SETTINGS = TopicSettings(retention_hours=None, segment_bytes=GROUP_SEGMENT_BYTES)
_TRANSACTION_SETTINGS = TopicSettings(retention_hours=None, cleanup="compact", segment_bytes=TRANSACTION_SEGMENT_BYTES)


@dataclass(frozen=True, slots=True)
class LostRecords:
    """Records of an internal log that the start could not read."""

    log: str
    count: int
    names: tuple[str, ...]
    """What they may have been about: logs without a topic, groups, or transactional ids."""


class Broker:
    """All topics of one data directory."""

    def __init__(
        self,
        store: Store,
        disk: Disk,
        clock: Clock,
        log_settings: LogSettings,
        chance: Callable[[int], int],
        group_settings: GroupSettings | None = None,
        retention_jump_percent: int = RETENTION_JUMP_PERCENT,
    ) -> None:
        """`chance` gives a number of so many bits that nobody can guess."""
        self._retention_jump_percent = retention_jump_percent
        self.retention: RetentionClock
        """How old messages are, as far as the clock is believed."""
        self._chance = chance
        self._group_settings = group_settings or GroupSettings()
        self.coordinator: Coordinator
        """Of groups."""
        self.transactions: TransactionCoordinator
        self.ending: Ending
        self._store = store
        self._disk = disk
        self._clock = clock
        self.stall_free = StallFreeClock(clock)
        """What clients' deadlines are measured with. The shell has it beat from before `open` on."""
        self._log_settings = log_settings
        self.topics: dict[str, Topic] = {}
        self.office = Office(clock)
        """Where delayed messages wait for their time."""
        self.unclaimed: list[str] = []
        """Logs that no topic knows: they are left alone, and named to the operator."""
        self._catalog = Catalog()
        self._journal: Journal[Record]
        self.producer_ids: ProducerIds

    # --- start and stop ---

    def open(self) -> None:
        """Make the state from the logs, and finish what a crash has interrupted."""
        seen_ns, ahead_ns = self._store.last_seen_ns, read_doubt(self._disk, self._store.path)
        percent = self._retention_jump_percent
        self.retention = RetentionClock(self._clock, percent, last_seen_ns=seen_ns, ahead_ns=ahead_ns)
        log = self._internal_log(CATALOG, 0, _INTERNAL_SETTINGS)
        log.settings = replace(log.settings, segment_bytes=min(log.settings.segment_bytes, CATALOG_SEGMENT_BYTES))
        log.writer.reserve = self._store.reserve
        self._journal = Journal(log, self._disk, self._catalog, encode_record, decode_record, snapshots=False)
        self._journal.open()
        self.producer_ids = ProducerIds(self._catalog, self._journal, self._chance)
        self.topics[CATALOG] = Topic(CATALOG, _INTERNAL_SETTINGS, 0, [Partition(CATALOG, 0, log)])
        self._finish_deletions()
        self._expect_noted_ends()
        for record in self._catalog.topics.values():
            topic = self._attach(record.name)
            for partition in topic.partitions:
                self._note_tear(partition)
                self._attach_delayed(topic, partition)
        known = {partition.log.name for _, partition in self.partitions()}
        known |= {postman.delays.name for postman in self.office.postmen()}
        known |= {log_name(CATALOG, 0), log_name(TRANSACTIONS, 0), *(log_name(GROUPS, n) for n in range(GROUP_LOGS))}
        self.unclaimed = sorted(self._store.logs.keys() - known)
        self._open_groups()
        self._open_transactions()
        self.note_ends(self._catalog.topics)

    def _expect_noted_ends(self) -> None:
        """A log that was made and is gone is not made anew: its offsets would be given out again."""
        for record in self._catalog.topics.values():
            for name, end in record.ends.items():
                self._store.expect(f"{record.name}/{name}", end)

    def note_ends(self, names: Iterable[str]) -> None:
        """Record how far the logs of these topics are on the device, where that is not recorded yet.

        No caller waits for it. What the disk refuses is noted the next time.
        """
        topics = [self.topics[name] for name in names if name in self.topics and name in self._catalog.topics]
        records = [self._catalog.note_ends(topic.name, self._durable_ends(topic)) for topic in topics]
        if news := [record for record in records if record is not None]:
            with suppress(GoQueueError):
                self._journal.record(news, lambda _: None)

    def _durable_ends(self, topic: Topic) -> dict[str, int]:
        logs = [partition.log for partition in topic.partitions]
        logs += [delays.inbox.log for one in topic.partitions if (delays := self.office.delays(one)) is not None]
        return {log.name.removeprefix(f"{topic.name}/"): log.durable_end for log in logs if log.fence is None}

    def _attach_delayed(self, topic: Topic, partition: Partition) -> None:
        """What was scheduled before this start."""
        name = delayed_log_name(partition)
        if name in self._store.logs or name in self._store.unopened:
            self._note_tear(self._open_delayed(topic, partition).delays.inbox)

    def _open_delayed(self, topic: Topic, partition: Partition) -> Postman:
        log = self._log_named(delayed_log_name(partition), topic.settings)
        postman = self.office.open(partition, log, self._disk, lambda: topic.settings.delay_expiry_seconds)
        postman.clock_ahead_ns = self._clock_ahead_ns
        return postman

    def _clock_ahead_ns(self) -> int:
        self.retention.look()
        return self.retention.jumped_ns

    def scheduling(self, partition: Partition) -> Postman:
        """Of a partition to which somebody publishes delayed messages; the log for them is made with the first."""
        postman = self.office.postman(partition)
        if postman is None:
            partition.log.refuse_unless_open()  # of a topic that was deleted meanwhile
            topic = self.topic(partition.topic)
            self._store.finish_deletions()
            postman = self._open_delayed(topic, partition)
            self.note_ends([topic.name])
        return postman

    def _open_groups(self) -> None:
        partitions = [
            Partition(GROUPS, number, self._internal_log(GROUPS, number, _GROUP_SETTINGS))
            for number in range(GROUP_LOGS)
        ]
        self.topics[GROUPS] = Topic(GROUPS, _GROUP_SETTINGS, 0, partitions)
        logs = [partition.log for partition in partitions]
        self.coordinator = Coordinator(logs, self._disk, self, self.stall_free, self._chance, self._group_settings)
        self.coordinator.membership.trusted_ns = self.retention.trusted_ns
        self.coordinator.open()

    def _open_transactions(self) -> None:
        log = self._internal_log(TRANSACTIONS, 0, _TRANSACTION_SETTINGS)
        self.topics[TRANSACTIONS] = Topic(TRANSACTIONS, _TRANSACTION_SETTINGS, 0, [Partition(TRANSACTIONS, 0, log)])
        self.transactions = TransactionCoordinator(log, self._disk, Places(self), self.stall_free, self.producer_ids)
        self.transactions.trusted_ns = self.retention.trusted_ns
        self.transactions.open()
        self.ending = Ending(self.transactions, self.coordinator)
        if self.transactions.journal.losses or any(shelf.journal.losses for shelf in self.coordinator.ledger.shelves):
            self._redeem_lost_pledges()

    def _redeem_lost_pledges(self) -> None:
        """Where the end of a transaction is lost on either side, what a group has pledged in it would wait for ever."""
        for group in [one.group for one in self.coordinator.ledger.groups()]:
            cursors = self.coordinator.ledger.cursors(group).values()
            for whose in {one.whose for cursor in cursors for _, _, one in cursor.pledged.runs()}:
                if not self.transactions.register.is_open(whose):
                    is_commit = self.transactions.register.was_committed(whose)
                    self.coordinator.pledges.redeem(group, whose, is_commit, False, lambda _: None)
        self.coordinator.commit()

    def _note_tear(self, partition: Partition) -> None:
        """Where that is refused nothing may be appended: nobody could tell any more where a torn batch ends."""
        found = self._store.recovered.get(partition.log.name)
        if found is None or found.was_clean or not found.next_offset:
            return
        try:
            run(partition.note_tear(self._disk))
        except GoQueueError as error:
            partition.log.fence_off(error)

    def lost_records(self) -> Iterator[LostRecords]:
        """What the start could not read of internal logs."""
        journals: list[tuple[Journal[Any], list[str]]] = [
            (self._journal, self.unclaimed),
            (self.transactions.journal, self.transactions.remains.hit),
        ]
        journals += [(shelf.journal, shelf.hit) for shelf in self.coordinator.ledger.shelves]
        for journal, names in journals:
            if count := sum(one.next_offset - one.first_offset for one in journal.losses):
                yield LostRecords(journal.log.name, count, tuple(names))

    def close(self) -> None:
        """Write the snapshots that make the next start quick. The store is still open, and settled."""
        self._journal.snapshot()
        self.coordinator.close()
        self.transactions.close()
        for postman in self.office.postmen():
            run(postman.delays.save(self._disk))

    def _finish_deletions(self) -> None:
        """Logs that stand although their topic was deleted: the crash came in between."""
        for name in self._catalog.deleted & self._standing():
            self._store.delete(name)

    def _standing(self) -> set[str]:
        """The topics that have logs in the data directory."""
        return {name.partition("/")[0] for name in (*self._store.logs, *self._store.unopened)}

    def forget_deleted(self) -> None:
        """Record of which deleted topics nothing is left: their names need not be remembered for ever."""
        left = self._standing()
        gone = [name for name in self._catalog.deleted - left if not self._store.is_leaving(name)]
        if gone and self._journal.log.fence is None:
            self._journal.record([TopicForgotten(name) for name in sorted(gone)], lambda _: None)

    def _internal_log(self, topic: str, number: int, settings: TopicSettings) -> Log:
        """One whose segments are kept twice: the broker cannot do without its content."""
        log = self._log(topic, number, settings)
        if not isinstance(log, ClosedLog):
            log.writer.keep_copies(log.segments)
        return log

    def _attach(self, name: str) -> Topic:
        """Make the topic usable, with the logs of those partitions that have none yet."""
        record = self._catalog.topics[name]
        partitions = [
            Partition(name, number, self._log(name, number, record.settings)) for number in range(record.partitions)
        ]
        topic = self.topics[name] = Topic(name, record.settings, record.created_ns, partitions)
        return topic

    def _log(self, topic: str, number: int, settings: TopicSettings) -> Log:
        return self._log_named(log_name(topic, number), settings)

    def _log_named(self, name: str, settings: TopicSettings) -> Log:
        log_settings = self._settings_of(settings)
        if name in self._store.unopened:
            return ClosedLog(name, self._store.resources, log_settings, self._store.unopened[name])
        if name not in self._store.logs:
            return self._store.create(name, log_settings)
        log = self._store.logs[name]
        log.settings = log_settings
        return log

    def _settings_of(self, settings: TopicSettings) -> LogSettings:
        size = settings.segment_bytes or self._log_settings.segment_bytes
        return LogSettings(size, self._log_settings.segment_age_ns)

    # --- topics ---

    def has_lost_record(self, name: str) -> bool:
        """Whether there are logs of such a topic and no record: it may be brought back."""
        return any(log.startswith(f"{name}/") for log in self.unclaimed)

    def topic(self, name: str) -> Topic:
        """The topic of this name, internal ones included."""
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

    def create_topic(self, spec: TopicSpec, told: Told[Topic]) -> None:
        """Record it, make its logs, and tell."""
        record = self._catalog.create_topic(spec, self._clock.now_ns())
        self._refuse_unclaimed(spec.name)
        self._store.finish_deletions()
        if spec.name in self.topics or self._store.is_leaving(spec.name):
            raise TopicBusy(f"topic {quoted(spec.name)} is still being deleted", hint="try again in a moment")

        def settled(error: GoQueueError | None) -> None:
            told(error) if error else self._make(spec.name, told)

        self._journal.record([record], settled)

    def _refuse_unclaimed(self, name: str) -> None:
        """Messages of which nobody knows whose they are must not turn up in a new topic, and go with it."""
        if self.has_lost_record(name):
            raise LogExists(
                f"there are logs of a topic {quoted(name)} that no record speaks of",
                hint=f"choose another name, or move logs/{name} out of the data directory while the broker is stopped",
                log=name,
            )

    def _make(self, name: str, told: Told[Topic]) -> None:
        """A topic whose logs cannot be made is taken back; should that be refused too, the next start makes them."""
        try:
            topic = self._attach(name)
            self.note_ends([name])  # on its way to the disk before the first message is
            self.coordinator.topic_changed(name)
            told(topic)
        except GoQueueError as failure:
            refusal = failure
            with suppress(GoQueueError):
                self._store.delete(name)
            try:
                self._journal.record([self._catalog.delete_topic(name)], lambda _: told(refusal))
            except GoQueueError:
                told(refusal)

    def alter_topic(self, name: str, changes: dict[str, Any], told: Told[Topic]) -> None:
        topic = self._own(name)
        record = self._catalog.alter_topic(name, changes)

        def settled(error: GoQueueError | None) -> None:
            if error is None:
                topic.adopt(record.settings)
                for partition in topic.partitions:
                    partition.log.settings = self._settings_of(record.settings)
                    if (delays := self.office.delays(partition)) is not None:
                        delays.inbox.log.settings = partition.log.settings
            told(error or topic)

        self._journal.record([record], settled)

    def delete_topic(self, name: str, told: Told[int]) -> None:
        """Out of sight once that is durable; the files go when nobody works on them.

        Told is how many delayed messages went that were pending.
        """
        topic = self._own(name)
        record = self._catalog.delete_topic(name)

        def settled(error: GoQueueError | None) -> None:
            self._store.reserve.deletions -= 1
            pending = 0
            if error is None:
                self.topics.pop(name, None)
                pending = sum(map(self.office.forget, topic.partitions))
                self.coordinator.topic_changed(name)
                with suppress(GoQueueError):  # what the disk refuses now is tried again later
                    self._store.delete(name)
                for partition in topic.partitions:
                    partition.wake()
            told(error or pending)

        self._store.reserve.deletions += 1
        try:
            self._journal.record([record], settled)
        except GoQueueError:
            self._store.reserve.deletions -= 1
            raise

    def _own(self, name: str) -> Topic:
        """A topic that clients may change."""
        topic = self.topic(name)
        if is_internal(name):
            raise TopicNotFound(f"topic {quoted(name)} is internal", hint="it cannot be changed or published to")
        return topic

    def for_compaction(self, name: str) -> Topic:
        """A topic of which clients may ask that it is compacted."""
        topic = self._own(name)
        if "compact" not in topic.settings.cleanup:
            raise RequestInvalid(
                f"topic {quoted(name)} is not compacted: its cleanup is {topic.settings.cleanup}",
                hint="set cleanup=compact first: of messages with the same key only the latest stays then",
                topic=name,
                problems=[],
            )
        return topic

    def for_publishing(self, name: str) -> Topic:
        """The topic of this name, unless only the broker writes to it."""
        return self._own(name) if is_internal(name) else self.topic(name)

    def partitions(self) -> Iterator[tuple[Topic, Partition]]:
        for topic in list(self.topics.values()):
            for partition in topic.partitions:
                yield topic, partition

    def __repr__(self) -> str:
        return f"<Broker {len(self.topics)} topics>"
