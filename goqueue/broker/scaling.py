"""Adds partitions to a topic while it is used.

There are two records. The first says how many partitions the topic has from now on. When it is durable, in one turn of
the owner, what was gathered for the existing partitions is appended, their ends become the split offsets, and keys are
placed by the new number. The second record has the split offsets; publishers do not wait for it, and groups get nothing
of the added partitions before it is durable. A start that finds only the first record takes the ends of that moment:
later split offsets only make groups wait for more messages than necessary.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from goqueue.broker.core.catalog import Catalog, CatalogRecord, TopicCreated
from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.splits import NO_PARENT, Split, decide_splits, undecided, within_logs
from goqueue.broker.core.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.core.work import Callback
from goqueue.broker.groups.shards import GroupShards
from goqueue.errors import GoQueueError, KeysWouldMove, TopicNotFound
from goqueue.quantities import quoted


@dataclass(frozen=True, slots=True)
class ScaledTopic:
    """A topic that has more partitions now, and how many it had."""

    topic: Topic
    before: int


class TopicDecisions(Protocol):
    """Decides about topics in place of the broker: the controller of its cluster, by way of this node."""

    def create_topic(self, spec: TopicSpec, told: Callback[Topic]) -> None: ...

    def alter_topic(self, name: str, changes: dict[str, object], told: Callback[Topic], expected: str = "") -> None: ...

    def delete_topic(self, name: str, told: Callback[int]) -> None: ...

    def scale_topic(self, name: str, count: int, told: Callback[ScaledTopic], *, accept_key_moves: bool) -> None: ...


class ScalableBroker(Protocol):
    """The broker, as far as this module uses it."""

    groups: GroupShards

    @property
    def cluster(self) -> TopicDecisions | None: ...

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    def own_topic(self, name: str) -> Topic: ...

    def open_partition(self, topic: str, number: int, settings: TopicSettings) -> Partition: ...

    def note_ends(self, names: Iterable[str]) -> None: ...


class TopicScaler:
    def __init__(self, broker: ScalableBroker, catalog: Catalog, journal: Journal[CatalogRecord]) -> None:
        self._broker = broker
        self._catalog = catalog
        self._journal = journal
        self._decided: dict[Topic, dict[int, Split]] = {}
        """Splits that are decided and not yet durable."""

    # --- adding partitions ---

    def check(self, name: str, count: int, *, accept_key_moves: bool = False) -> Topic:
        """Return the topic if it may have so many partitions; raise otherwise."""
        topic = self._broker.own_topic(name)
        if self._broker.cluster is not None:  # it looks for itself
            return topic
        for partition in topic.partitions:  # where a parent ends must be known
            partition.log.refuse_unless_open()
        is_empty = _is_empty(topic)
        self._catalog.scale_topic(name, count, accept_key_moves=accept_key_moves, is_empty=is_empty)
        return topic

    def scale(self, name: str, count: int, told: Callback[ScaledTopic], *, accept_key_moves: bool = False) -> None:
        """Add partitions. `told` is called when the split offsets are durable; if they are refused, the partitions are
        there all the same.
        """
        if self._broker.cluster is not None:
            self._broker.cluster.scale_topic(name, count, told, accept_key_moves=accept_key_moves)
            return
        topic = self.check(name, count, accept_key_moves=accept_key_moves)
        record = self._catalog.scale_topic(name, count, accept_key_moves=accept_key_moves, is_empty=_is_empty(topic))

        def settled(error: GoQueueError | None) -> None:
            if error is not None:
                told(error)
                return
            # On the device, or a crash could lose the record of partitions that have messages.
            catalog = self._journal.partition
            catalog.when(catalog.high_watermark, CommitLevel.SYNCED, switch)

        def switch(error: GoQueueError | None) -> None:
            self._switch(topic, told) if error is None else told(error)

        self._journal.record([record], settled)

    def _switch(self, topic: Topic, told: Callback[ScaledTopic]) -> None:
        """Open the added partitions and place keys by their new number, in one turn of the owner."""
        record, before = self._record(topic), len(topic.partitions)
        if record is None:
            told(TopicNotFound(f"topic {quoted(topic.name)} was deleted meanwhile", topic=topic.name))
            return
        for partition in topic.partitions:
            partition.commit()  # what was placed by the former number is below the split offsets
        try:
            if not _is_empty(topic) and any(split.parent == NO_PARENT for split in undecided(record.splits).values()):
                raise KeysWouldMove(
                    f"topic {quoted(topic.name)} was empty and has got messages meanwhile",
                    hint="ask again",
                    topic=topic.name,
                )
            numbers = range(before, record.partitions)
            added = [self._broker.open_partition(topic.name, number, record.settings) for number in numbers]
        except GoQueueError as failure:  # if taking them back is refused as well, the next start opens them
            refusal = failure
            self._journal.record([self._catalog.take_back_partitions(topic.name, before)], lambda _: told(refusal))
            return
        decided = decide_splits(record.splits, topic.partitions)
        topic.partitions += added
        self._hold(topic, record, decided)
        self.record_splits()
        self._broker.note_ends([topic.name])
        self._broker.groups.topic_changed(topic.name)
        self._journal.record([], lambda _: told(ScaledTopic(topic, before)))

    def _record(self, topic: Topic) -> TopicCreated | None:
        """Return the record of a topic; None when it was deleted, and maybe created again."""
        record = self._catalog.topics.get(topic.name)
        return record if record is not None and record.created_ns == topic.created_ns else None

    # --- split offsets ---

    def restore(self, topic: Topic, record: TopicCreated) -> None:
        """After a start: take over the split offsets, and decide those whose record is missing."""
        if record.splits:
            self._hold(topic, record, within_logs(decide_splits(record.splits, topic.partitions), topic.partitions))

    def _hold(self, topic: Topic, record: TopicCreated, decided: dict[int, Split]) -> None:
        """Let groups use split offsets that are durable; the others wait for `record_splits`."""
        missing = undecided(record.splits)
        topic.splits = decided | missing
        if news := {number: decided[number] for number in missing if decided[number].is_decided}:
            self._decided[topic] = news

    def record_splits(self) -> None:
        """Record decided split offsets. A refused record is tried again with the next call."""
        for topic, splits in list(self._decided.items()):
            if self._record(topic) is None:
                del self._decided[topic]
            elif not self._journal.log.is_closed and self._journal.log.fence is None:
                record = self._catalog.decide_splits(topic.name, splits)
                self._journal.record([record], partial(self._release, topic, splits))

    def _release(self, topic: Topic, splits: dict[int, Split], error: GoQueueError | None) -> None:
        if error is None and self._decided.pop(topic, None) is not None:
            topic.splits = {**topic.splits, **splits}
            for coordinator in self._broker.groups:
                coordinator.gate.look_again(topic.name)


def _is_empty(topic: Topic) -> bool:
    return all(partition.earliest == partition.log_end for partition in topic.partitions)
