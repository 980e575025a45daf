"""Delivery settings in requests and answers: retries, leases and dead letters of a topic or a group."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import Duration
from goqueue.broker.core.delivery_settings import (
    DELIVERY_FIELDS,
    NO_DEAD_LETTERS,
    UNLIMITED,
    DeadLetterTopic,
    MaxRetries,
)
from goqueue.broker.groups.records import Group
from goqueue.broker.groups.retries import DeliveryOrigin, EffectiveDelivery
from goqueue.clock import NANOSECONDS
from goqueue.limits import (
    RETRY_DELAY_SECONDS_MAX,
    RETRY_SECONDS_LIMIT,
    RETRY_SECONDS_MIN,
    VISIBILITY_SECONDS_MAX,
    VISIBILITY_SECONDS_MIN,
)


class FirstRetryDelay(Duration, least=RETRY_SECONDS_MIN, most=RETRY_SECONDS_LIMIT):
    noun = "a delay"


class LongestRetryDelay(Duration, least=RETRY_SECONDS_MIN, most=RETRY_DELAY_SECONDS_MAX):
    noun = "a delay"


class Visibility(Duration, least=VISIBILITY_SECONDS_MIN, most=VISIBILITY_SECONDS_MAX):
    noun = "a visibility timeout"


DURATIONS: dict[str, type[Duration]] = {
    "retry_delay": FirstRetryDelay,
    "max_retry_delay": LongestRetryDelay,
    "visibility_timeout": Visibility,
}
"""The types of delivery settings that are numbers of seconds in records and answers."""


class DeliveryRequest(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Delivery settings of a group; null leaves one to the topic or to the broker."""

    max_retries: Annotated[
        MaxRetries | UnsetType,
        Meta(description="Retries of a failed message before it becomes a dead letter, or `unlimited`."),
    ] = UNSET
    retry_delay: Annotated[
        FirstRetryDelay | UnsetType | None,
        Meta(description="Delay before the first retry; it doubles with each further one."),
    ] = UNSET
    max_retry_delay: Annotated[
        LongestRetryDelay | UnsetType | None, Meta(description="Maximum delay before a retry.")
    ] = UNSET
    visibility_timeout: Annotated[
        Visibility | UnsetType | None, Meta(description="How long messages are leased, unless a poll says.")
    ] = UNSET
    dead_letter_topic: Annotated[
        DeadLetterTopic | UnsetType,
        Meta(description="Where messages go that failed for the last time; `none`: they are dropped and counted."),
    ] = UNSET


def delivery_changes(body: DeliveryRequest, *, nulls: bool = True) -> dict[str, Any]:
    """Return the settings that a request names; without `nulls` only those with a value."""
    given = {name: getattr(body, name) for name in DELIVERY_FIELDS}
    return {name: plain(value) for name, value in given.items() if value is not UNSET and (nulls or value is not None)}


def check_dead_letter_topic(call: ApiCall, changes: Mapping[str, Any]) -> None:
    """Check the right to write to a dead-letter topic that settings name: failed messages are written there."""
    name = changes.get("dead_letter_topic")
    if isinstance(name, str) and name != NO_DEAD_LETTERS:
        call.access.require("write", "topic", name)


def plain(value: Any) -> Any:
    """Return a duration as the number that records have."""
    return float(value) if isinstance(value, Duration) else value


class DeliveryOriginsJson(Struct):
    max_retries: DeliveryOrigin
    retry_delay: DeliveryOrigin
    max_retry_delay: DeliveryOrigin
    visibility_timeout: DeliveryOrigin
    dead_letter_topic: DeliveryOrigin


class DeliveryJson(Struct, kw_only=True):
    """The leases, retries and dead letters of a group in one topic."""

    max_retries: int | Literal["unlimited"]
    retry_delay: float
    max_retry_delay: float
    visibility_timeout: float
    dead_letter_topic: Annotated[
        str | None, Meta(description="`none`: messages are dropped; null: they are retried until they are processed.")
    ]
    origins: Annotated[DeliveryOriginsJson, Meta(description="Whose setting each is.")]


def delivery_of(call: ApiCall, group: Group) -> dict[str, DeliveryJson]:
    """Return how a group delivers, for each topic that it reads or has read."""
    groups = call.runtime.broker.groups
    topics = call.access.described("topic", sorted(group.topics() | {ref.topic for ref in groups.cursors(group.group)}))
    return {topic: _json(groups.policies.effective(group, topic)) for topic in topics}


def _json(found: EffectiveDelivery) -> DeliveryJson:
    policy = found.policy
    return DeliveryJson(
        max_retries=UNLIMITED if policy.retries_max is None else policy.retries_max,
        retry_delay=policy.retry_ns / NANOSECONDS,
        max_retry_delay=policy.retry_ns_max / NANOSECONDS,
        visibility_timeout=policy.visibility_ns / NANOSECONDS,
        dead_letter_topic=NO_DEAD_LETTERS if policy.drops else policy.dead_letter_topic,
        origins=DeliveryOriginsJson(**found.origins),
    )


def visibility_seconds(call: ApiCall, group: Group, member: str) -> float:
    """Return the shortest lease that a member gets from the topics that it reads."""
    policies = call.runtime.broker.groups.policies
    topics = group.members[member].topics if member in group.members else ()
    leases = [policies.effective(group, topic).policy.visibility_ns for topic in topics]
    return min(leases, default=policies.configured.visibility_ns) / NANOSECONDS
