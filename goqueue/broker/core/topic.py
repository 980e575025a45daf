"""A topic: its name, settings and partitions."""

import hashlib
from typing import Annotated, Literal

import msgspec

from goqueue.broker.core.delivery_settings import (
    DELIVERY_FIELDS,
    DeadLetterTopic,
    DeliverySettings,
    MaxRetries,
    MaxRetryDelay,
    RetryDelay,
    VisibilityTimeout,
)
from goqueue.broker.core.lane_scheduler import LanePolicy
from goqueue.broker.core.names import check_name, check_new_name
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.splits import Splits
from goqueue.broker.core.validation_settings import Validation, validation_rules
from goqueue.clock import NANOSECONDS
from goqueue.errors import PartitionNotFound, TopicNameInvalid
from goqueue.limits import (
    CLUSTER_REPLICAS_MAX,
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
from goqueue.partitioner import Partitioner, hash_function, partition_of
from goqueue.quantities import quoted
from goqueue.schemas.subject_names import SubjectNaming

Partitions = Annotated[int, msgspec.Meta(ge=1, le=PARTITIONS_MAX, description="How many partitions it has.")]


LaneWeight = Annotated[int, msgspec.Meta(ge=1, le=LANE_WEIGHT_MAX)]


class TopicSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of a topic; they can be changed later."""

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
    trace_sampling: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=1)] | None,
        msgspec.Meta(
            description="The share of messages that are traced, from 0 to 1; what fails or is slow is traced all the "
            "same. Null: the broker's setting."
        ),
    ] = None
    max_retries: Annotated[
        MaxRetries,
        msgspec.Meta(
            description="Retries of a failed message before it becomes a dead letter, or `unlimited`; null: the "
            "broker's setting. A group's own setting goes first, here and below."
        ),
    ] = None
    retry_delay: Annotated[
        RetryDelay,
        msgspec.Meta(description="Before the first retry; it doubles with each one. Null: the broker's setting."),
    ] = None
    max_retry_delay: Annotated[
        MaxRetryDelay, msgspec.Meta(description="At most this before a retry; null: the broker's setting.")
    ] = None
    visibility_timeout: Annotated[
        VisibilityTimeout,
        msgspec.Meta(description="How long messages are leased, unless a poll says; null: the broker's setting."),
    ] = None
    dead_letter_topic: Annotated[
        DeadLetterTopic,
        msgspec.Meta(
            description="Where messages go that failed for the last time; null: to the topic's own `.dlq`; `none`: "
            "they are dropped and counted."
        ),
    ] = None
    value_validation: Annotated[
        Validation,
        msgspec.Meta(
            description="What publishing checks: nothing, that the schema id of a value is one of its subject, or the"
            " value."
        ),
    ] = "none"
    value_subject: Annotated[
        SubjectNaming,
        msgspec.Meta(
            description="The subject with the schemas of values: `TOPIC-value`, the full name of the record, or "
            "`TOPIC-` with that name."
        ),
    ] = "topic"
    key_validation: Annotated[Validation, msgspec.Meta(description="The same for keys.")] = "none"
    key_subject: Annotated[
        SubjectNaming, msgspec.Meta(description="The subject with the schemas of keys; `topic` means `TOPIC-key`.")
    ] = "topic"

    replication_factor: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=CLUSTER_REPLICAS_MAX)] | None,
        msgspec.Meta(
            description="How many nodes of a cluster have each partition; null: the cluster's setting. A change moves "
            "replicas."
        ),
    ] = None
    min_isr: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=CLUSTER_REPLICAS_MAX)] | None,
        msgspec.Meta(description="How many replicas must have a message until it is committed; null: the cluster's."),
    ] = None

    unclean_election: Annotated[
        Literal["never", "longest"] | None,
        msgspec.Meta(
            description="When no replica is left that has all committed messages: wait for one, or have the longest "
            "replica lead, and lose what it lacks; null: the cluster's setting."
        ),
    ] = None

    def delivery(self) -> DeliverySettings:
        return DeliverySettings(**{name: getattr(self, name) for name in DELIVERY_FIELDS})

    def lane_policy(self) -> LanePolicy:
        return LanePolicy(self.lane_weights, round(self.lane_boost_seconds * NANOSECONDS))


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a new topic."""

    name: str
    partitions: int = PARTITIONS
    settings: TopicSettings = TopicSettings()


def check_topic_name(name: str) -> None:
    check_name(name, "topic", TopicNameInvalid)


def check_new_topic_name(name: str) -> None:
    check_new_name(name, "topic", TopicNameInvalid)


def log_name(topic: str, partition: int) -> str:
    return f"{topic}/{partition}"


def settings_tag(created_ns: int, settings: TopicSettings) -> str:
    """Return a tag that stands for these settings of one life of a topic."""
    content = msgspec.json.encode([created_ns, msgspec.to_builtins(settings)], order="deterministic")
    return hashlib.blake2b(content, digest_size=12).hexdigest()


class Topic:
    """One open topic."""

    def __init__(self, name: str, settings: TopicSettings, created_ns: int, partitions: list[Partition]) -> None:
        self.name = name
        self.settings = settings
        self.created_ns = created_ns
        self.partitions = partitions
        self.splits: Splits = {}
        """The origin of added partitions; undecided until it is durable."""
        self._hash = hash_function(settings.partitioner)
        self._turn = 0
        self.lane_policy = settings.lane_policy()
        self.delivery = settings.delivery()
        self.validation = validation_rules(settings)
        """How messages are checked when they are published; empty if they are not."""

    @property
    def size(self) -> int:
        return sum(partition.log.size for partition in self.partitions)

    @property
    def led_size(self) -> int:
        """The size of the partitions that this node leads; all of them without a cluster."""
        return sum(one.log.size for one in self.partitions if one.leadership is None or one.leadership.is_leading)

    @property
    def offset_count(self) -> int:
        """Number of offsets up to the high watermarks. Not each of them holds a message."""
        return sum(partition.high_watermark - partition.earliest for partition in self.partitions)

    def adopt(self, settings: TopicSettings) -> None:
        self.settings = settings
        self._hash = hash_function(settings.partitioner)
        self.lane_policy = settings.lane_policy()
        self.delivery = settings.delivery()
        self.validation = validation_rules(settings)

    def replace(self, partition: Partition) -> None:
        """Go on with another object: its log has come to this node, or has left it."""
        self.partitions[partition.number] = partition

    def partition(self, number: int) -> Partition:
        if not 0 <= number < len(self.partitions):
            raise PartitionNotFound(
                f"topic {quoted(self.name)} has no partition {number}",
                hint=f"it has the partitions 0 to {len(self.partitions) - 1}",
                partitions=len(self.partitions),
            )
        return self.partitions[number]

    def place(self, key: bytes | None) -> Partition:
        """Choose a partition by the key's hash; without a key in turn, in a cluster among those that are led here."""
        if key:
            return self.partitions[partition_of(key, len(self.partitions), self._hash)]
        for _ in self.partitions:
            self._turn = (self._turn + 1) % len(self.partitions)
            chosen = self.partitions[self._turn]
            if chosen.leadership is None or chosen.leadership.is_leading:
                break
        return chosen

    def __repr__(self) -> str:
        return f"<Topic {self.name} {len(self.partitions)} partitions>"
