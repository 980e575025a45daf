"""Which topics there are and which producer ids have been given out: decided here, recorded, replayed.

What must stay true: only `apply` changes the state, in live operation and in recovery alike; a decision
looks at the state and returns a record, or refuses and changes nothing.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from goqueue.broker.topic import TopicSettings, TopicSpec, check_new_topic_name
from goqueue.errors import TopicExists, TopicNotFound
from goqueue.limits import PRODUCER_IDS_RESERVED
from goqueue.quantities import quoted
from goqueue.storage import frame


class TopicCreated(msgspec.Struct, frozen=True, tag="topic_created", tag_field="record"):
    name: str
    partitions: int
    settings: TopicSettings
    created_ns: int


class TopicAltered(msgspec.Struct, frozen=True, tag="topic_altered", tag_field="record"):
    """The whole topic as it is from now on, so that the latest record of a name tells all of it."""

    name: str
    partitions: int
    settings: TopicSettings
    created_ns: int


class TopicDeleted(msgspec.Struct, frozen=True, tag="topic_deleted", tag_field="record"):
    name: str


class TopicForgotten(msgspec.Struct, frozen=True, tag="topic_forgotten", tag_field="record"):
    """Nothing is left of a deleted topic, so its name need not be remembered."""

    name: str


class ProducerIdsReserved(msgspec.Struct, frozen=True, tag="producer_ids_reserved", tag_field="record"):
    """Every id below has been given out or lost."""

    below: int


Record = TopicCreated | TopicAltered | TopicDeleted | TopicForgotten | ProducerIdsReserved
_DECODER = msgspec.json.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """As a frame of the catalog's log; its key makes compaction keep what is still true."""
    key = b"__producer_ids" if isinstance(record, ProducerIdsReserved) else record.name.encode()
    flags = frame.TOMBSTONE if isinstance(record, TopicDeleted | TopicForgotten) else 0
    return frame.encode(msgspec.json.encode(record), key, flags=flags)


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
        return TopicAltered(name, topic.partitions, settings, topic.created_ns)

    def delete_topic(self, name: str) -> TopicDeleted:
        self.topic(name)
        return TopicDeleted(name)

    def reserve_producer_ids(self) -> ProducerIdsReserved:
        return ProducerIdsReserved(self.producer_ids_below + PRODUCER_IDS_RESERVED)

    def topic(self, name: str) -> TopicCreated | TopicAltered:
        try:
            return self.topics[name]
        except KeyError:
            raise TopicNotFound(f"there is no topic {quoted(name)}", topic=name) from None

    # --- apply ---

    def note_loss(self, count: int) -> None:
        """Each lost record may have reserved producer ids, and none may be given out twice."""
        self.producer_ids_below += count * PRODUCER_IDS_RESERVED

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

    def records(self) -> Iterator[Record]:
        """Records that make this state from none: what a snapshot holds."""
        yield from self.topics.values()
        for name in sorted(self.deleted):
            yield TopicDeleted(name)
        yield ProducerIdsReserved(self.producer_ids_below)
