"""The settings of topics and groups by name, for type checkers and editors: programs do not load this."""

from typing import Literal, TypedDict


class GroupSettings(TypedDict, total=False):
    """The delivery settings of a group, as `alter_group` takes them; a topic has them too."""

    max_retries: int | Literal["unlimited"] | None
    retry_delay: str | float | None
    max_retry_delay: str | float | None
    visibility_timeout: str | float | None
    dead_letter_topic: str | None


class TopicSettings(GroupSettings, total=False):
    """The settings of a topic, as `create_topic` and `alter_topic` take them."""

    retention_hours: float | None
    retention_bytes: int | None
    cleanup: Literal["delete", "compact", "compact,delete"]
    max_message_bytes: int
    partitioner: Literal["murmur3", "murmur2"]
    delay_expiry_seconds: float | None
    segment_bytes: int | None
    lane_weights: tuple[int, int, int, int, int]
    lane_boost_seconds: float
    trace_sampling: float | None
    value_validation: Literal["none", "id", "payload"]
    value_subject: Literal["topic", "record", "topic-record"]
    key_validation: Literal["none", "id", "payload"]
    key_subject: Literal["topic", "record", "topic-record"]
    replication_factor: int | None
    min_isr: int | None
    unclean_election: Literal["never", "longest"] | None
