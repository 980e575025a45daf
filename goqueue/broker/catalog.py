"""Which topics there are and which producer ids have been given out: decided here, recorded, replayed.

What must stay true: only `apply` changes the state, in live operation and in recovery alike; a decision
looks at the state and returns a record, or refuses and changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from goqueue.broker.topic import TopicSettings, TopicSpec, check_new_topic_name
from goqueue.errors import TopicExists, TopicNotFound
from goqueue.limits import PRODUCER_BLOCK_BITS, PRODUCER_BLOCK_IDS, PRODUCER_IDS_CHOSEN
from goqueue.quantities import quoted
from goqueue.storage import frame


class TopicCreated(msgspec.Struct, frozen=True, omit_defaults=True, tag="topic_created", tag_field="record"):
    name: str
    partitions: int
    settings: TopicSettings
    created_ns: int
    ends: dict[str, int] = {}
    """How far each log of the topic is known to be on the device, by its name below the topic's: `0`, `0/delayed`.
    A log that is named here was made."""


class TopicAltered(msgspec.Struct, frozen=True, omit_defaults=True, tag="topic_altered", tag_field="record"):
    """The whole topic as it is from now on, so that the latest record of a name tells all of it."""

    name: str
    partitions: int
    settings: TopicSettings
    created_ns: int
    ends: dict[str, int] = {}


class TopicDeleted(msgspec.Struct, frozen=True, tag="topic_deleted", tag_field="record"):
    name: str


class TopicForgotten(msgspec.Struct, frozen=True, tag="topic_forgotten", tag_field="record"):
    """Nothing is left of a deleted topic, so its name need not be remembered."""

    name: str


class ProducerIdsReserved(msgspec.Struct, frozen=True, tag="producer_ids_reserved", tag_field="record"):
    """Every id below has been given out or lost. Directories of former versions have it; nothing writes it anew."""

    below: int


class ProducerBlockReserved(msgspec.Struct, frozen=True, tag="producer_block_reserved", tag_field="record"):
    """The ids of this block may have been given out."""

    block: int

    @property
    def ids(self) -> range:
        return range(self.block * PRODUCER_BLOCK_IDS, (self.block + 1) * PRODUCER_BLOCK_IDS)


Record = TopicCreated | TopicAltered | TopicDeleted | TopicForgotten | ProducerIdsReserved | ProducerBlockReserved
_DECODER = msgspec.json.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """As a frame of the catalog's log; its key makes compaction keep what is still true."""
    flags = frame.TOMBSTONE if isinstance(record, TopicDeleted | TopicForgotten) else 0
    return frame.encode(msgspec.json.encode(record), _key(record), flags=flags)


def _key(record: Record) -> bytes:
    match record:
        case ProducerIdsReserved():
            return b"__producer_ids"
        case ProducerBlockReserved():
            return b"__producer_ids/%d" % record.block
    return record.name.encode()


def decode_record(message: frame.Message) -> Record:
    record: Record = _DECODER.decode(message.value)
    return record


class Catalog:
    """The state of it all. Whoever holds it persists what is decided before it tells anybody."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.topics: dict[str, TopicCreated | TopicAltered] = {}
        self.deleted: set[str] = set()
        """Names whose logs may still stand where a crash has left them."""
        self.producer_ids_below = 0
        self.producer_blocks: set[int] = set()

    # --- decide ---

    def create_topic(self, spec: TopicSpec, now_ns: int) -> TopicCreated:
        check_new_topic_name(spec.name)
        if spec.name in self.topics:
            raise TopicExists(
                f"topic {quoted(spec.name)} exists already", hint="use it, or choose another name", topic=spec.name
            )
        return TopicCreated(spec.name, spec.partitions, spec.settings, now_ns)

    def alter_topic(self, name: str, changes: dict[str, Any]) -> TopicAltered:
        topic = self.topic(name)
        settings = msgspec.structs.replace(topic.settings, **changes)
        return TopicAltered(name, topic.partitions, settings, topic.created_ns, topic.ends)

    def note_ends(self, name: str, ends: Mapping[str, int]) -> TopicAltered | None:
        """The topic with these ends of its logs; None where they are noted already. An end never falls."""
        topic = self.topic(name)
        risen = {log: end for log, end in ends.items() if end > topic.ends.get(log, -1)}
        if not risen:
            return None
        return TopicAltered(name, topic.partitions, topic.settings, topic.created_ns, topic.ends | risen)

    def delete_topic(self, name: str) -> TopicDeleted:
        self.topic(name)
        return TopicDeleted(name)

    def reserve_producer_ids(self, chance: Callable[[int], int]) -> ProducerBlockReserved:
        """A block that cannot be guessed: another directory, or a restored one, gives out other ids."""
        while (block := chance(PRODUCER_BLOCK_BITS)) in self.producer_blocks or self._is_former(block):
            pass
        return ProducerBlockReserved(block)

    def _is_former(self, block: int) -> bool:
        return block * PRODUCER_BLOCK_IDS < self.producer_ids_below

    def has_given(self, producer: int) -> bool:
        """Whether a producer may have this id: it was given out here, or is one that clients choose for themselves."""
        return (
            producer // PRODUCER_BLOCK_IDS in self.producer_blocks
            or producer < self.producer_ids_below
            or producer >= PRODUCER_IDS_CHOSEN
        )

    def topic(self, name: str) -> TopicCreated | TopicAltered:
        try:
            return self.topics[name]
        except KeyError:
            raise TopicNotFound(f"there is no topic {quoted(name)}", topic=name) from None

    # --- apply ---

    def note_loss(self, count: int) -> None:
        """Records are lost: of topics, which `goqueue fsck --repair` finds again, or of producer ids.

        Ids of a lost block are unknown from now on, and are not given out again: every start takes a new block.
        """

    def apply(self, record: Record) -> None:
        match record:
            case TopicCreated() | TopicAltered():
                self.topics[record.name] = record
                self.deleted.discard(record.name)
            case TopicDeleted():
                self.topics.pop(record.name, None)
                self.deleted.add(record.name)
            case TopicForgotten():
                self.deleted.discard(record.name)
            case ProducerIdsReserved():
                self.producer_ids_below = record.below
            case ProducerBlockReserved():
                self.producer_blocks.add(record.block)

    def records(self) -> Iterator[Record]:
        """Records that make this state from none: what a snapshot holds."""
        yield from self.topics.values()
        for name in sorted(self.deleted):
            yield TopicDeleted(name)
        if self.producer_ids_below:
            yield ProducerIdsReserved(self.producer_ids_below)
        for block in sorted(self.producer_blocks):
            yield ProducerBlockReserved(block)
