"""Makes, changes and deletes topics whose records are decided: by this broker, or by the controller of its cluster."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from msgspec.structs import asdict

from goqueue.broker.core.catalog import Catalog, CatalogRecord, TopicAltered, TopicCreated, TopicDeleted
from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic, TopicSettings
from goqueue.broker.core.work import Callback
from goqueue.broker.delay.scheduler import DelayScheduler
from goqueue.broker.groups.shards import GroupShards
from goqueue.errors import GoQueueError, LogExists, TopicBusy, TopicExists
from goqueue.quantities import quoted
from goqueue.storage.log import LogSettings
from goqueue.storage.store import Store


class OpenBroker(Protocol):
    """The broker, as far as this module uses it."""

    groups: GroupShards
    delay_scheduler: DelayScheduler
    topics: dict[str, Topic]

    def has_lost_record(self, name: str) -> bool: ...

    def attach(self, name: str) -> Topic: ...

    def open_partition(self, topic: str, number: int, settings: TopicSettings, *, is_here: bool) -> Partition: ...

    def is_absent(self, partition: Partition) -> bool: ...

    def settings_of(self, settings: TopicSettings) -> LogSettings: ...

    def note_ends(self, names: Iterable[str]) -> None: ...


class TopicMaker:
    def __init__(self, broker: OpenBroker, store: Store, catalog: Catalog, journal: Journal[CatalogRecord]) -> None:
        self._broker = broker
        self._store = store
        self._catalog = catalog
        self._journal = journal

    # --- decided here ---

    def make(self, record: TopicCreated, told: Callback[Topic]) -> None:
        """Record a new topic, and open it."""
        name = record.name
        self._refuse_unclaimed(name)
        self._store.finish_deletions()
        if name in self._broker.topics or self._store.is_leaving(name):
            raise TopicBusy(f"topic {quoted(name)} is still being deleted", hint="try again in a moment")

        def settled(error: GoQueueError | None) -> None:
            told(error) if error else self._open(name, told)

        self._journal.record([record], settled)

    def _refuse_unclaimed(self, name: str) -> None:
        """Refuse a name that has logs without a record: a new topic must not take over their messages."""
        if self._broker.has_lost_record(name):
            raise LogExists(
                f"there are logs of a topic {quoted(name)} that have no record",
                hint=f"choose another name, or move logs/{name} out of the data directory while the broker is stopped",
                log=name,
            )

    def _open(self, name: str, told: Callback[Topic]) -> None:
        """Open a new topic. If its logs cannot be made, take it back; if that is refused too, the next start makes
        them.
        """
        try:
            topic = self._broker.attach(name)
            self._broker.note_ends([name])  # on its way to the disk before the first message is
            self._broker.groups.topic_changed(name)
            told(topic)
        except GoQueueError as failure:
            refusal = failure
            with suppress(GoQueueError):
                self._store.delete(name)
            self._journal.record([self._catalog.delete_topic(name)], lambda _: told(refusal))

    def change(self, topic: Topic, record: TopicAltered, told: Callback[Topic]) -> None:
        """Record a topic with other settings, and use them."""

        def settled(error: GoQueueError | None) -> None:
            if error is None:
                self._adopt(topic, record.settings)
            told(error or topic)

        self._journal.record([record], settled)

    def _adopt(self, topic: Topic, settings: TopicSettings) -> None:
        topic.adopt(settings)
        for partition in topic.partitions:
            partition.log.settings = self._broker.settings_of(settings)
            if (delays := self._broker.delay_scheduler.delays(partition)) is not None:
                delays.delayed_log.log.settings = partition.log.settings

    def delete(self, topic: Topic, record: TopicDeleted, told: Callback[int]) -> None:
        """Delete a topic durably; its files are removed when no job uses them."""

        def settled(error: GoQueueError | None) -> None:
            self._store.reserve.deletions -= 1
            pending = 0
            if error is None:
                self._broker.topics.pop(topic.name, None)
                pending = sum(map(self._broker.delay_scheduler.forget, topic.partitions))
                self._broker.groups.topic_changed(topic.name)
                with suppress(GoQueueError):  # tried again later
                    self._store.delete(topic.name)
                for partition in topic.partitions:
                    partition.wake()
            told(error or pending)

        self._store.reserve.deletions += 1
        self._journal.record([record], settled)

    # --- decided by the controller of the cluster ---

    def records(self) -> Mapping[str, TopicCreated]:
        """Return the topics as this broker has recorded them."""
        return self._catalog.topics

    def drop(self, name: str, told: Callback[int]) -> None:
        """Delete a topic that the controller has deleted."""
        self.delete(self._broker.topics[name], self._catalog.delete_topic(name), told)

    def follow(self, decided: TopicCreated, here: tuple[int, ...], told: Callback[Topic]) -> None:
        """Make a topic of this broker what the controller has decided, with logs of the partitions that are `here`."""
        name, known, topic = decided.name, self._catalog.topics.get(decided.name), self._broker.topics.get(decided.name)
        local = None if len(here) == decided.partitions else here
        if known is None:
            count, settings = decided.partitions, decided.settings
            self.make(TopicCreated(name, count, settings, decided.created_ns, {}, decided.splits, local), told)
        elif topic is None:
            raise TopicBusy(f"topic {quoted(name)} is being created", hint="try again in a moment", topic=name)
        elif known.created_ns != decided.created_ns:
            raise TopicExists(
                f"this node has another topic {quoted(name)}, from before it came to the cluster",
                hint="the node keeps it unserved: start the node without cluster.peers to copy its messages",
                topic=name,
            )
        else:
            self._follow(topic, known, decided, local, told)

    def _follow(
        self,
        topic: Topic,
        known: TopicCreated,
        decided: TopicCreated,
        here: tuple[int, ...] | None,
        told: Callback[Topic],
    ) -> None:
        fields = {
            "partitions": decided.partitions,
            "settings": decided.settings,
            "splits": decided.splits,
            "replicas_here": here,
            "ends": {log: end for log, end in known.ends.items() if _is_here(int(log.partition("/")[0]), here)},
        }
        if fields == {name: getattr(known, name) for name in fields} and not self._moved(topic, here):
            told(topic)
            return

        def settled(error: GoQueueError | None) -> None:
            if error is not None:
                told(error)
                return
            # On the device, or a crash could lose the record of partitions that have messages.
            catalog = self._journal.partition
            catalog.when(catalog.high_watermark, CommitLevel.SYNCED, switch)

        def switch(error: GoQueueError | None) -> None:
            told(error or self._switch(topic, decided, here))

        self._journal.record([TopicAltered(**(asdict(known) | fields))], settled)

    def begin_again(self, topic: Topic, partition: Partition) -> None:
        """Begin a log anew that is gone: it follows another replica, which has everything."""
        self._broker.delay_scheduler.forget(partition)
        self._store.delete(partition.log.name)
        topic.replace(self._broker.open_partition(topic.name, partition.number, topic.settings, is_here=True))
        self._broker.note_ends([topic.name])
        partition.wake()

    def _moved(self, topic: Topic, here: tuple[int, ...] | None) -> list[Partition]:
        """Return the partitions whose logs are to come to this node, or to leave it."""
        return [one for one in topic.partitions if self._broker.is_absent(one) == _is_here(one.number, here)]

    def _move(self, topic: Topic, partition: Partition, settings: TopicSettings) -> None:
        """Make the log of a partition whose replica comes to this node, or delete that of one that has left.

        The controller's record of that is committed.
        """
        name, number, comes = topic.name, partition.number, self._broker.is_absent(partition)
        topic.replace(self._broker.open_partition(name, number, settings, is_here=comes))
        if not comes:
            self._broker.delay_scheduler.forget(partition)
            self._store.delete(partition.log.name)
        partition.wake()

    def _switch(self, topic: Topic, decided: TopicCreated, here: tuple[int, ...] | None) -> Topic | GoQueueError:
        """Use the settings, open the added partitions, and place keys by their new number, in one turn."""
        for partition in topic.partitions:
            partition.commit()  # what was placed by the former number is below the split offsets
        self._adopt(topic, decided.settings)
        numbers = range(len(topic.partitions), decided.partitions)
        try:
            for partition in self._moved(topic, here):
                self._move(topic, partition, decided.settings)
            added = [
                self._broker.open_partition(topic.name, number, decided.settings, is_here=_is_here(number, here))
                for number in numbers
            ]
        except GoQueueError as failure:
            return failure
        topic.partitions += added
        topic.splits = decided.splits
        self._broker.note_ends([topic.name])
        self._broker.groups.topic_changed(topic.name)
        return topic


def _is_here(number: int, here: tuple[int, ...] | None) -> bool:
    return here is None or number in here
