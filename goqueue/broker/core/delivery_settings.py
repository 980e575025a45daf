"""The delivery settings of a topic or a group: retries, leases and dead letters.

What one of them does not set is left to the next level: the group's setting, the topic's, the broker's configuration.
`groups/retries.py` has the rule.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from goqueue.broker.core.names import check_new_name
from goqueue.errors import RequestInvalid, TopicNameInvalid
from goqueue.limits import (
    RETRIES_LIMIT,
    RETRY_DELAY_SECONDS_MAX,
    RETRY_SECONDS_LIMIT,
    RETRY_SECONDS_MIN,
    TOPIC_NAME_CHARACTERS_MAX,
    VISIBILITY_SECONDS_MAX,
    VISIBILITY_SECONDS_MIN,
)
from goqueue.quantities import format_duration, quoted

UNLIMITED: Literal["unlimited"] = "unlimited"
NO_DEAD_LETTERS = "none"
"""Instead of the name of a dead-letter topic: what failed for the last time is dropped."""

MaxRetries = Annotated[int, msgspec.Meta(ge=0, le=RETRIES_LIMIT)] | Literal["unlimited"] | None
RetryDelay = Annotated[float, msgspec.Meta(ge=RETRY_SECONDS_MIN, le=RETRY_SECONDS_LIMIT)] | None
MaxRetryDelay = Annotated[float, msgspec.Meta(ge=RETRY_SECONDS_MIN, le=RETRY_DELAY_SECONDS_MAX)] | None
VisibilityTimeout = Annotated[float, msgspec.Meta(ge=VISIBILITY_SECONDS_MIN, le=VISIBILITY_SECONDS_MAX)] | None
DeadLetterTopic = Annotated[str, msgspec.Meta(max_length=TOPIC_NAME_CHARACTERS_MAX)] | None


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Leases, retries and dead letters. None leaves a field to the next level; delays are in seconds.

    Without bounds, which requests have: what was recorded is read, whatever the bounds are then.
    """

    max_retries: int | Literal["unlimited"] | None = None
    retry_delay: float | None = None
    max_retry_delay: float | None = None
    visibility_timeout: float | None = None
    dead_letter_topic: str | None = None


DELIVERY_FIELDS = DeliverySettings.__struct_fields__

NOTHING_SET = DeliverySettings()


def with_delivery_changes(settings: DeliverySettings, changes: Mapping[str, Any]) -> DeliverySettings:
    """Return the settings with other values of some fields."""
    changed = msgspec.structs.replace(settings, **changes)
    return changed if changed != NOTHING_SET else NOTHING_SET  # the same object is left out of records


def check_delivery_settings(settings: DeliverySettings, topic: str | None = None) -> None:
    """Raise unless the settings fit together, and with the topic that has them."""
    first, most, target = settings.retry_delay, settings.max_retry_delay, settings.dead_letter_topic
    if first is not None and most is not None and first > most:
        raise RequestInvalid(
            f"retry_delay is {format_duration(first, exact=True)}, longer than max_retry_delay, which is"
            f" {format_duration(most, exact=True)}",
            hint="set both, or a shorter retry_delay",
            problems=[],
        )
    if target is None or target == NO_DEAD_LETTERS:
        return
    try:
        check_new_name(target, "dead-letter topic", TopicNameInvalid)
    except TopicNameInvalid as error:
        raise RequestInvalid(
            f"dead_letter_topic: {error.sentence}", hint=f"{error.hint}; {NO_DEAD_LETTERS} means no topic", problems=[]
        ) from None
    if target == topic:
        raise RequestInvalid(
            f"dead_letter_topic is {quoted(target)}, the topic itself: its failed messages would come again for ever",
            hint=f"name another topic; null means {topic}.dlq, {NO_DEAD_LETTERS} means that they are dropped",
            problems=[],
        )
