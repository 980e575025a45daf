"""The topics and the reserved producer ids: decided here, recorded in the catalog's log, replayed at a start.

Invariant: only `apply` changes the state, in live operation and in recovery. A decision returns a record, or refuses
and changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.delivery_settings import check_delivery_settings
from goqueue.broker.core.journal import Journal
from goqueue.broker.core.producers import unknown_producer_id
from goqueue.broker.core.replication_settings import check_replication
from goqueue.broker.core.splits import Split, Splits, check_partition_count, plan_splits
from goqueue.broker.core.topic import TopicSettings, TopicSpec, check_new_topic_name, settings_tag
from goqueue.broker.core.work import Callback
from goqueue.errors import GoQueueError, RequestInvalid, SettingsChanged, TopicExists, TopicNotFound
from goqueue.limits import CLIENT_PRODUCER_ID_MIN, PRODUCER_BLOCK_BITS, PRODUCER_BLOCK_IDS
from goqueue.quantities import quoted
from goqueue.storage import frame


class TopicCreated(msgspec.Struct, frozen=True, omit_defaults=True, tag="topic_created", tag_field="record"):
    name: str
    partitions: int
    settings: TopicSettings
    created_ns: int
    ends: dict[str, int] = {}
    """The durable end of each log of the topic, by its name below the topic's: `0`, `0/delayed`. A log that is listed
    here has existed.
    """
    splits: dict[int, Split] = {}
    """The origin of each partition that was added to the topic later."""
    replicas_here: tuple[int, ...] | None = None
    """The partitions that have a log on this node of a cluster; None: all."""


class TopicAltered(TopicCreated, frozen=True, omit_defaults=True, tag="topic_altered"):
    """The complete topic after a change, so that the latest record of a name is enough."""


class TopicDeleted(msgspec.Struct, frozen=True, tag="topic_deleted", tag_field="record"):
    name: str


class TopicForgotten(msgspec.Struct, frozen=True, tag="topic_forgotten", tag_field="record"):
    """All files of a deleted topic are gone, so its name need not be kept."""

    name: str


class InternalTopicCreated(msgspec.Struct, frozen=True, tag="internal_topic_created", tag_field="record"):
    """An internal topic whose number of logs is not the same in all data directories. It never changes."""

    name: str
    partitions: int


class ProducerIdsReserved(msgspec.Struct, frozen=True, tag="producer_ids_reserved", tag_field="record"):
    """All ids below are used. Only directories of older versions have this record."""

    below: int


class ProducerBlockReserved(msgspec.Struct, frozen=True, tag="producer_block_reserved", tag_field="record"):
    """The ids of this block may have been given out."""

    block: int

    @property
    def ids(self) -> range:
        return range(self.block * PRODUCER_BLOCK_IDS, (self.block + 1) * PRODUCER_BLOCK_IDS)


CatalogRecord = (
    TopicCreated
    | TopicAltered
    | TopicDeleted
    | TopicForgotten
    | InternalTopicCreated
    | ProducerIdsReserved
    | ProducerBlockReserved
)
_DECODER = msgspec.json.Decoder(CatalogRecord)


def encode_catalog_record(record: CatalogRecord) -> bytes:
    """Encode a record as a frame of the catalog's log. Its key lets compaction keep the latest."""
    flags = frame.TOMBSTONE if isinstance(record, TopicDeleted | TopicForgotten) else 0
    return frame.encode(msgspec.json.encode(record), _key(record), flags=flags)


def _key(record: CatalogRecord) -> bytes:
    match record:
        case ProducerIdsReserved():
            return b"__producer_ids"
        case ProducerBlockReserved():
            return b"__producer_ids/%d" % record.block
    return record.name.encode()


def decode_catalog_record(message: frame.StoredMessage) -> CatalogRecord:
    record: CatalogRecord = _DECODER.decode(message.value)
    return record


def _altered(topic: TopicCreated, **changes: Any) -> TopicAltered:
    return TopicAltered(**(msgspec.structs.asdict(topic) | changes))


class Catalog:
    """The state of all topics. Its owner makes decisions durable before it answers."""

    def __init__(self) -> None:
        self.nodes = 1
        """The number of nodes that can have replicas."""
        self.clear()

    def clear(self) -> None:
        self.topics: dict[str, TopicCreated] = {}
        self.deleted: set[str] = set()
        """Deleted topics whose files may still exist."""
        self.internal: dict[str, int] = {}
        """The number of logs of internal topics."""
        self.producer_ids_below = 0
        self.producer_blocks: set[int] = set()

    # --- decide ---

    def create_topic(self, spec: TopicSpec, now_ns: int) -> TopicCreated:
        check_new_topic_name(spec.name)
        if spec.name in self.topics:
            raise TopicExists(
                f"topic {quoted(spec.name)} exists already", hint="use it, or choose another name", topic=spec.name
            )
        self._check_settings(spec.name, spec.settings)
        return TopicCreated(spec.name, spec.partitions, spec.settings, now_ns)

    def alter_topic(self, name: str, changes: dict[str, Any], expected: str = "") -> TopicAltered:
        """Change settings; with `expected`, only if these are what that tag stands for."""
        topic = self.topic(name)
        if expected and expected != settings_tag(topic.created_ns, topic.settings):
            raise SettingsChanged(
                f"topic {quoted(name)} has other settings than the request expects",
                hint="read the topic again: its etag is sent as If-Match",
                topic=name,
            )
        settings = msgspec.structs.replace(topic.settings, **changes)
        self._check_settings(name, settings)
        return _altered(topic, settings=settings)

    def _check_settings(self, name: str, settings: TopicSettings) -> None:
        """Raise unless the settings fit together and to the nodes, and the dead letters come to an end."""
        check_replication(settings, self.nodes)
        check_delivery_settings(settings.delivery(), name)
        chain, target = [name], settings.dead_letter_topic
        while target in self.topics and len(chain) <= len(self.topics):
            chain.append(target)
            if target == name:
                raise RequestInvalid(
                    f"dead_letter_topic is {quoted(chain[1])}, whose dead letters come back: {' to '.join(chain)}",
                    hint="name a topic without a dead_letter_topic of its own",
                    problems=[],
                )
            target = self.topics[target].settings.dead_letter_topic

    def note_ends(self, name: str, ends: Mapping[str, int]) -> TopicAltered | None:
        """Return a record with higher durable ends, or None if they are all recorded. An end never decreases."""
        topic = self.topic(name)
        risen = {log: end for log, end in ends.items() if end > topic.ends.get(log, -1)}
        if not risen:
            return None
        return _altered(topic, ends=topic.ends | risen)

    def scale_topic(self, name: str, count: int, *, accept_key_moves: bool, is_empty: bool) -> TopicAltered:
        """Add partitions. Where their parents end is decided and recorded when the routing changes."""
        topic = self.topic(name)
        check_partition_count(
            name,
            topic.partitions,
            count,
            topic.splits,
            is_empty=is_empty,
            is_compacted="compact" in topic.settings.cleanup,
            accept_key_moves=accept_key_moves,
        )
        added = plan_splits(topic.partitions, count, is_empty=is_empty and not accept_key_moves)
        return _altered(topic, partitions=count, splits=topic.splits | added)

    def decide_splits(self, name: str, splits: Splits) -> TopicAltered:
        topic = self.topic(name)
        return _altered(topic, splits={**topic.splits, **splits})

    def take_back_partitions(self, name: str, count: int) -> TopicAltered:
        """Remove partitions that were recorded and have not been opened."""
        topic = self.topic(name)
        kept = {number: split for number, split in topic.splits.items() if number < count}
        return _altered(topic, partitions=count, splits=kept)

    def delete_topic(self, name: str) -> TopicDeleted:
        self.topic(name)
        return TopicDeleted(name)

    def reserve_producer_ids(self, chance: Callable[[int], int]) -> ProducerBlockReserved:
        """Choose a random block, so that another directory or a restored copy gives out other ids."""
        while True:
            reserved = ProducerBlockReserved(chance(PRODUCER_BLOCK_BITS))
            if reserved.block not in self.producer_blocks and reserved.ids[0] >= self.producer_ids_below:
                return reserved

    def has_given(self, producer: int) -> bool:
        """Return whether a producer may have this id: it was given out here, or clients choose it themselves."""
        return (
            producer // PRODUCER_BLOCK_IDS in self.producer_blocks
            or producer < self.producer_ids_below
            or producer >= CLIENT_PRODUCER_ID_MIN
        )

    def topic(self, name: str) -> TopicCreated:
        try:
            return self.topics[name]
        except KeyError:
            raise TopicNotFound(f"there is no topic {quoted(name)}", topic=name) from None

    # --- apply ---

    def note_loss(self, count: int) -> None:
        """Do nothing: `goqueue fsck --repair` finds lost topics, and ids of a lost block are never given out again."""

    def apply(self, record: CatalogRecord) -> None:
        match record:
            case TopicCreated():
                self.topics[record.name] = record
                self.deleted.discard(record.name)
            case TopicDeleted():
                self.topics.pop(record.name, None)
                self.deleted.add(record.name)
            case TopicForgotten():
                self.deleted.discard(record.name)
            case InternalTopicCreated():
                self.internal[record.name] = record.partitions
            case ProducerIdsReserved():
                self.producer_ids_below = record.below
            case ProducerBlockReserved():
                self.producer_blocks.add(record.block)

    def records(self) -> Iterator[CatalogRecord]:
        yield from self.topics.values()
        for name in sorted(self.deleted):
            yield TopicDeleted(name)
        for name, partitions in self.internal.items():
            yield InternalTopicCreated(name, partitions)
        if self.producer_ids_below:
            yield ProducerIdsReserved(self.producer_ids_below)
        for block in sorted(self.producer_blocks):
            yield ProducerBlockReserved(block)


class ProducerIdAllocator:
    """Allocates the producer ids of one data directory from reserved blocks, each id once.

    Invariant: no other directory and no restored copy gives out the same ids. So a block is random, every start uses
    new blocks, and an id is given out only when its block is on the device.
    """

    def __init__(self, catalog: Catalog, journal: Journal[CatalogRecord], chance: Callable[[int], int]) -> None:
        """`chance(bits)` returns an unpredictable number."""
        self._catalog = catalog
        self._journal = journal
        self._chance = chance
        self._free = iter(range(0))
        self._waiting: list[Callback[int]] = []
        self._blocks_of_start: set[int] = set()
        self.is_shared = False
        """Whether other nodes of a cluster give out ids as well: then none is unknown, and none is old."""

    def give(self, told: Callback[int]) -> None:
        if not self._waiting and (given := next(self._free, None)) is not None:
            told(given)
            return
        self._waiting.append(told)
        if len(self._waiting) == 1:
            self._reserve()

    def has_given(self, producer: int) -> bool:
        return self.is_shared or self._catalog.has_given(producer)

    def is_of_start(self, producer: int) -> bool:
        """Return whether this id was given out since the start: a directory restored later cannot know it."""
        return self.is_shared or producer // PRODUCER_BLOCK_IDS in self._blocks_of_start

    def refuse_unless_given(self, producer: int) -> None:
        if not self.has_given(producer):
            raise unknown_producer_id(producer)

    def _reserve(self) -> None:
        reserved = self._catalog.reserve_producer_ids(self._chance)

        def durable(error: GoQueueError | None) -> None:
            waiting, self._waiting = self._waiting, []
            if error is None:
                self._free = iter(reserved.ids)
                self._blocks_of_start.add(reserved.block)
            for told in waiting:
                told(error) if error else self.give(told)

        def settled(error: GoQueueError | None) -> None:
            if error is not None:
                durable(error)
                return
            # On the device, or a crash could let the id be given out again.
            partition = self._journal.partition
            partition.when(partition.high_watermark, CommitLevel.SYNCED, durable)

        self._journal.record([reserved], settled)
