"""Count what tenants have published, beside what the broker has recorded of it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from goqueue.broker.tenants.usage_records import UsageState

_DEAD_LETTERS = ".dlq"
"""The end of the names of topics in which messages were moved, not published."""


class TopicCounts(Protocol):
    """Messages of a topic in a bucket of time."""

    @property
    def start(self) -> int | None: ...

    @property
    def topic(self) -> str: ...

    @property
    def messages(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def payload_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Bucket:
    start: int | None
    tenant: str


def tenants_of_topics(state: UsageState, topics: Iterable[str]) -> dict[str, str]:
    """Return the tenant of each topic, by the names of those of which usage is recorded."""
    known = {*state.hours, *state.totals, *(one.tenant for one in state.topics.values())}
    owners = {topic: topic.partition(".")[0] for topic in topics if not topic.endswith(_DEAD_LETTERS)}
    return {topic: owner for topic, owner in owners.items() if owner in known}


def count_by_tenant(counts: Iterable[TopicCounts], state: UsageState) -> list[dict[str, Any]]:
    """Add up topics by tenant. Without time buckets, a row has what the broker has recorded as well."""
    counts = list(counts)
    owners = tenants_of_topics(state, {one.topic for one in counts})
    sums: dict[_Bucket, Counter[str]] = {}
    for one in counts:
        if one.topic in owners:
            found = sums.setdefault(_Bucket(one.start, owners[one.topic]), Counter())
            found.update({"messages": one.messages, "bytes": one.bytes, "payload_bytes": one.payload_bytes})
    rows = []
    for bucket in sorted(sums, key=lambda one: (one.start or 0, one.tenant)):
        row: dict[str, Any] = {"start": bucket.start, "tenant": bucket.tenant, **sums[bucket]}
        rows.append(row if bucket.start is not None else row | _recorded(state, bucket.tenant))
    return rows


def _recorded(state: UsageState, tenant: str) -> dict[str, int]:
    records = [(one.messages, one.size) for one in state.topics.values() if one.tenant == tenant]
    deleted = state.totals.get(tenant)
    records += [] if deleted is None else [(deleted.messages, deleted.size)]
    return {
        "recorded_messages": sum(messages for messages, _ in records),
        "recorded_bytes": sum(size for _, size in records),
    }
