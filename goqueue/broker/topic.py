"""What a topic is: its name, its settings, and the partitions that hold its messages."""

from typing import Annotated, Literal

import msgspec

from goqueue.broker.lanes.shares import LaneRules
from goqueue.broker.name import check_name, check_new_name
from goqueue.broker.partition import Partition
from goqueue.clock import NANOSECONDS
from goqueue.errors import PartitionNotFound, TopicNameInvalid
from goqueue.limits import (
    DELAY_EXPIRY_SECONDS_MIN,
    DELAY_SECONDS_MAX,
    LANE_BOOST_SECONDS,
    LANE_BOOST_SECONDS_MAX,
    LANE_WEIGHT_MAX,
    LANE_WEIGHTS,
    MESSAGE_BYTES,
    MESSAGE_BYTES_MIN,
    PARTITIONS,
    PARTITIONS_MAX,
    RETENTION_BYTES_MAX,
    RETENTION_HOURS,
    RETENTION_HOURS_MAX,
    SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
    VALUE_BYTES_MAX,
)
from goqueue.partitioner import Partitioner, hash_named, partition_of
from goqueue.quantities import quoted

Partitions = Annotated[int, msgspec.Meta(ge=1, le=PARTITIONS_MAX, description="How many partitions it has.")]


LaneWeight = Annotated[int, msgspec.Meta(ge=1, le=LANE_WEIGHT_MAX)]


class TopicSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What can be set for each topic, and changed later."""

    retention_hours: (
        Annotated[
            float,
            msgspec.Meta(ge=0, le=RETENTION_HOURS_MAX, description="Older messages are removed; null keeps them."),
        ]
        | None
    ) = RETENTION_HOURS
    retention_bytes: (
        Annotated[
            int,
            msgspec.Meta(
                ge=0, le=RETENTION_BYTES_MAX, description="The oldest messages of a larger partition are removed."
            ),
        ]
        | None
    ) = None
    cleanup: Annotated[
        Literal["delete", "compact", "compact,delete"],
        msgspec.Meta(description="Whether old messages are removed, or superseded ones of the same key, or both."),
    ] = "delete"
    max_message_bytes: Annotated[
        int,
        msgspec.Meta(ge=MESSAGE_BYTES_MIN, le=VALUE_BYTES_MAX, description="Key, value and headers of one message."),
    ] = MESSAGE_BYTES
    partitioner: Annotated[
        Partitioner,
        msgspec.Meta(description="The hash of keys; murmur2 places them where Kafka's default partitioner does."),
    ] = "murmur3"
    delay_expiry_seconds: (
        Annotated[
            float,
            msgspec.Meta(
                ge=DELAY_EXPIRY_SECONDS_MIN,
                le=DELAY_SECONDS_MAX,
                description="A delayed message that is late by more is not delivered any more; null: never so.",
            ),
        ]
        | None
    ) = None
    segment_bytes: (
        Annotated[
            int,
            msgspec.Meta(
                ge=SEGMENT_BYTES_MIN, le=SEGMENT_BYTES_MAX, description="Of a segment file; null: the broker's setting."
            ),
        ]
        | None
    ) = None
    lane_weights: Annotated[
        tuple[LaneWeight, LaneWeight, LaneWeight, LaneWeight, LaneWeight],
        msgspec.Meta(
            description="What groups get of each priority, from critical to background, while all have messages."
        ),
    ] = LANE_WEIGHTS
    lane_boost_seconds: Annotated[
        float,
        msgspec.Meta(
            gt=0, le=LANE_BOOST_SECONDS_MAX, description="A priority that was passed over for so long goes first."
        ),
    ] = LANE_BOOST_SECONDS

    def lane_rules(self) -> LaneRules:
        return LaneRules(self.lane_weights, round(self.lane_boost_seconds * NANOSECONDS))


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as it was asked for."""

    name: str
    partitions: int = PARTITIONS
    settings: TopicSettings = TopicSettings()


def check_topic_name(name: str) -> None:
    check_name(name, "topic", TopicNameInvalid)


def check_new_topic_name(name: str) -> None:
    check_new_name(name, "topic", TopicNameInvalid)


def log_name(topic: str, partition: int) -> str:
    return f"{topic}/{partition}"


class Topic:
    """A topic that can be used."""

    def __init__(self, name: str, settings: TopicSettings, created_ns: int, partitions: list[Partition]) -> None:
        self.name = name
        self.settings = settings
        self.created_ns = created_ns
        self.partitions = partitions
        self._hash = hash_named(settings.partitioner)
        self._turn = 0
        self.lane_rules = settings.lane_rules()

    @property
    def size(self) -> int:
        return sum(partition.log.size for partition in self.partitions)

    @property
    def message_count(self) -> int:
        """Of those that readers see; what compaction removed counts still."""
        return sum(partition.high_watermark - partition.earliest for partition in self.partitions)

    def adopt(self, settings: TopicSettings) -> None:
        self.settings = settings
        self._hash = hash_named(settings.partitioner)
        self.lane_rules = settings.lane_rules()

    def partition(self, number: int) -> Partition:
        if not 0 <= number < len(self.partitions):
            raise PartitionNotFound(
                f"topic {quoted(self.name)} has no partition {number}",
                hint=f"it has the partitions 0 to {len(self.partitions) - 1}",
                partitions=len(self.partitions),
            )
        return self.partitions[number]

    def place(self, key: bytes | None) -> Partition:
        """By the key's hash; without a key the partitions take turns."""
        if key:
            return self.partitions[partition_of(key, len(self.partitions), self._hash)]
        self._turn = (self._turn + 1) % len(self.partitions)
        return self.partitions[self._turn]

    def __repr__(self) -> str:
        return f"<Topic {self.name} {len(self.partitions)} partitions>"
