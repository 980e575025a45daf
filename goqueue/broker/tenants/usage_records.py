"""Records of usage, and the state that they make. The latest of each topic, and of each tenant and hour, counts.

What was published is known from the logs: the record of a topic says up to which offsets it is counted, and how much
that was. After a crash the rest is counted again from the logs, so nothing is lost and nothing is counted twice.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from goqueue.clock import NANOSECONDS
from goqueue.storage import frame

HOUR_NS: Final = 3600 * NANOSECONDS
HOURS_KEPT: Final = 24 * 396
"""Thirteen months: a year can be compared with the one before."""


class TopicUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="topic", tag_field="record"):
    """Messages that were published to a topic since it was first counted."""

    topic: str
    tenant: str
    created_ns: int
    ends: tuple[int, ...]
    """The offset of each partition below which all is counted."""
    messages: int = 0
    size: int = 0


class TopicUsageGone(msgspec.Struct, frozen=True, tag="topic_gone", tag_field="record"):
    """A topic was deleted, and what was published to it is among the totals of its tenant."""

    topic: str


class TenantTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="totals", tag_field="record"):
    """Messages that were published to deleted topics of a tenant. `folded` is the one that was added last."""

    tenant: str
    messages: int = 0
    size: int = 0
    folded: str = ""


class UsageHour(msgspec.Struct, kw_only=True, omit_defaults=True, tag="hour", tag_field="record"):
    """Usage of a tenant in an hour. Sizes are bytes of frames, as they are stored."""

    tenant: str
    hour: int
    """Hours since the epoch."""
    messages_before: int = 0
    """Published up to the beginning of the hour, as `size_before` in bytes."""
    size_before: int = 0
    consumed_messages_before: int = 0
    consumed_bytes_before: int = 0
    published_messages: int = 0
    published_bytes: int = 0
    consumed_messages: int = 0
    consumed_bytes: int = 0
    storage_bytes: int = 0
    """At the end of the hour; `storage_peak` is the most."""
    storage_peak: int = 0
    topics: int = 0
    partitions: int = 0
    connections_peak: int = 0
    peaks: dict[str, float] = {}
    """The highest rates within some seconds, by the quotas of rates."""
    refused: dict[str, int] = {}
    """Refused requests and delayed polls by kind of quota."""
    warned: dict[str, int] = {}
    """Requests beyond soft limits."""
    group_ends: tuple[int, ...] = ()
    """The offset of each group log below which deliveries are counted."""


class UsageExpired(msgspec.Struct, frozen=True, tag="hour_expired", tag_field="record"):
    """An hour is too old to be kept."""

    tenant: str
    hour: int


class HoursExpired(msgspec.Struct, frozen=True, tag="hours_expired", tag_field="record"):
    """All hours before this one were removed."""

    below: int


class GroupLogsCounted(msgspec.Struct, frozen=True, tag="group_logs", tag_field="record"):
    """The deliveries of all tenants are counted below these offsets of the group logs, in the records before this."""

    ends: tuple[int, ...]


UsageRecord = TopicUsage | TopicUsageGone | TenantTotals | UsageHour | UsageExpired | HoursExpired | GroupLogsCounted
_DECODER = msgspec.json.Decoder(UsageRecord)


def encode_usage_record(record: UsageRecord) -> bytes:
    flags = frame.TOMBSTONE if isinstance(record, TopicUsageGone | UsageExpired) else 0
    return frame.encode(msgspec.json.encode(record), _log_key(record), flags=flags)


def _log_key(record: UsageRecord) -> bytes:
    """Return the key of a record in the log: compaction keeps the latest of each."""
    if isinstance(record, TopicUsage | TopicUsageGone):
        return f"topic:{record.topic}".encode()
    if isinstance(record, TenantTotals):
        return f"totals:{record.tenant}".encode()
    if isinstance(record, HoursExpired | GroupLogsCounted):
        return b"hours_expired" if isinstance(record, HoursExpired) else b"group_logs"
    return f"hour:{record.tenant}:{record.hour}".encode()


def decode_usage_record(message: frame.StoredMessage) -> UsageRecord:
    record: UsageRecord = _DECODER.decode(message.value)
    return record


class UsageState:
    """The latest record of each topic and tenant. Earlier hours stay in the log alone."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.topics: dict[str, TopicUsage] = {}
        self.totals: dict[str, TenantTotals] = {}
        self.hours: dict[str, UsageHour] = {}
        """By tenant, deleted ones included: a new tenant with its id goes on from there."""
        self.hours_below = 0
        """Hours before this one were removed."""
        self.group_ends: tuple[int, ...] = ()

    def note_loss(self, count: int) -> None:
        """Lost records are counted again from the logs, as far as messages are concerned."""

    def apply(self, record: UsageRecord) -> None:
        match record:
            case TopicUsage():
                self.topics[record.topic] = record
            case TopicUsageGone():
                self.topics.pop(record.topic, None)
            case TenantTotals():
                self.topics.pop(record.folded, None)
                self.totals[record.tenant] = record
            case UsageHour():
                former = self.hours.get(record.tenant)
                if former is None or record.hour >= former.hour:
                    self.hours[record.tenant] = record
            case HoursExpired():
                self.hours_below = record.below
            case GroupLogsCounted():
                self.group_ends = record.ends
            case UsageExpired():
                pass

    def records(self) -> Iterator[UsageRecord]:
        yield from self.totals.values()
        yield from self.topics.values()
        yield HoursExpired(self.hours_below)
        yield from self.hours.values()
        yield GroupLogsCounted(self.group_ends)
