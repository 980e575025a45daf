"""Read the broker's internal logs: the settings of topics, and the progress of groups.

They are small, since the broker tells what still holds again and drops the rest, so the driver reads them itself; and
they are understood by the rules of the broker, which has the same state after reading them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from goqueue.broker.core.catalog import Catalog
from goqueue.broker.core.catalog import decode_catalog_record as decode_topic
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.records import (
    CursorRecord,
    Group,
    GroupRecord,
    MessagesSettled,
    OffsetCommitted,
    Range,
    TransactionAcksEnded,
    decode_group_record,
)
from goqueue.broker.groups.state import GroupsState
from goqueue.broker.tenants.usage_records import UsageState, decode_usage_record
from goqueue.errors import GoQueueError
from goqueue.limits import GROUP_LOGS
from goqueue.quantities import parse_time
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split, read_split
from goqueue.storage import frame

_TOPICS, _GROUPS, _USAGE = "__metadata", "__consumer_offsets", "__usage"
_SENT_BACK = "__dead_letters"  # the group of the broker's own that has settled what was sent back

GroupRecordListener = Callable[[GroupRecord, int, Cursor | None], None]
"""Told of each record and of its time, with the cursor that it is about, before it changes that."""


@dataclass(slots=True)
class GroupLogState:
    """All groups, as the records make them."""

    groups: dict[str, Group] = field(default_factory=dict)
    cursors: dict[str, dict[PartitionRef, Cursor]] = field(default_factory=dict)
    since_ns: int | None = None
    """From when on everything is there; what was before is known in its sum only."""

    def of_users(self) -> Iterator[Cursor]:
        """Yield the cursors of all groups but the broker's own, in order."""
        for name in sorted(self.cursors):
            if not name.startswith("__"):
                yield from (cursor for _, cursor in sorted(self.cursors[name].items()))

    def sent_back(self) -> dict[PartitionRef, list[Range]]:
        """Return the dead letters of each partition that were redriven, or are about to be."""
        return {
            ref: sorted([(0, cursor.floor), *cursor.settled(), *(run[:2] for run in cursor.moving.runs())])
            for ref, cursor in self.cursors.get(_SENT_BACK, {}).items()
        }


def read_group_logs(logs: LogSource, listen: GroupRecordListener | None = None) -> GroupLogState:
    """Replay the logs of all groups."""
    ledger = GroupLogState()
    for number in range(GROUP_LOGS):
        state = GroupsState()
        first_ns: int | None = None
        for message in read_records(logs, _GROUPS, number):
            record = decode_group_record(message)
            first_ns = message.timestamp_ns if first_ns is None else first_ns
            if listen is not None:
                about = (
                    state.cursors.get(record.group, {}).get(record.ref) if isinstance(record, CursorRecord) else None
                )
                listen(record, message.timestamp_ns, about)
            state.apply(record)
        ledger.groups |= state.groups
        ledger.cursors |= state.cursors
        if first_ns is not None and logs.view(_GROUPS, number).earliest > 0:
            ledger.since_ns = max(ledger.since_ns or 0, first_ns)
    return ledger


def settled_ranges(record: GroupRecord, cursor: Cursor | None) -> list[Range]:
    """Return the offsets that a record settles. Messages that retention took from a group do not count."""
    if cursor is None:
        return []
    match record:
        case MessagesSettled(lease=str(lease_id)) if (
            lease := cursor.leases.get(lease_id)
        ) is not None and lease.grant.runs:
            pieces = [lease.left.within(first, end) for first, end in record.ranges]
            return [(first, end) for piece in pieces for first, end, _ in piece]
        case MessagesSettled():
            return list(record.ranges)
        case TransactionAcksEnded(transaction_id=transaction_id, is_commit=True):
            return [(first, end) for first, end, _ in cursor.acked_in(transaction_id)]
        case OffsetCommitted(floor=floor, lost=0):
            return _left(cursor, floor)
        case _:
            return []


def is_move_to_other_topic(record: GroupRecord) -> bool:
    """Test if the messages were moved to another topic instead of acknowledged."""
    return isinstance(record, MessagesSettled) and record.lease is None


def leased_at_ns(record: GroupRecord, cursor: Cursor | None) -> int | None:
    """Return when the messages that a record settles were leased, where one lease says so."""
    if cursor is None or not isinstance(record, MessagesSettled) or record.lease is None:
        return None
    lease = cursor.leases.get(record.lease)
    return lease.grant.given_ns if lease is not None else None


def _left(cursor: Cursor, floor: int) -> list[Range]:
    """Return the offsets below a new floor that are not settled, moving to another topic, or in a transaction."""
    undecided = [run[:2] for one in (cursor.moving, cursor.transactional) for run in one.runs()]
    away = sorted([*cursor.settled(), *undecided])
    found, start = [], cursor.floor
    for first, end in away:
        if start < min(first, floor):
            found.append((start, min(first, floor)))
        start = max(start, end)
    return [*found, (start, floor)] if start < floor else found


@dataclass(frozen=True, slots=True)
class TopicConfiguration:
    """The settings of a topic, and when it was created."""

    settings: TopicSettings
    created_ns: int


def read_topics(logs: LogSource) -> dict[str, TopicConfiguration]:
    """Read the topics and their settings; none where the logs are a copy without the internal ones."""
    if isinstance(logs, BrokerLogs):
        details = logs.client.topic_details(internal=True)
        return {one.name: TopicConfiguration(_settings(one.config), parse_time(one.created_at)) for one in details}
    catalog = Catalog()
    for message in read_records(logs, _TOPICS, 0):
        catalog.apply(decode_topic(message))
    return {name: TopicConfiguration(topic.settings, topic.created_ns) for name, topic in catalog.topics.items()}


def read_usage(logs: LogSource) -> UsageState:
    """Read what the broker has recorded of the usage of tenants; nothing where it has none."""
    state = UsageState()
    if _USAGE in logs.topics():
        for message in read_records(logs, _USAGE, 0):
            state.apply(decode_usage_record(message))
    return state


def _settings(config: Mapping[str, Any]) -> TopicSettings:
    """Make settings of the known names."""
    return TopicSettings(**{name: config[name] for name in TopicSettings.__struct_fields__ if name in config})


def read_records(logs: LogSource, topic: str, partition: int) -> Iterator[frame.StoredMessage]:
    """Yield all records of a log; damage is an error, because what follows it cannot be interpreted."""
    view = logs.view(topic, partition)
    split = Split(topic, partition, view.earliest, view.end, view.size, view.segments)
    for piece in read_split(logs, split) if view.size else ():
        if not isinstance(piece, FrameRun):
            raise _unreadable(piece.error)
        for position in piece.frames.record_positions():
            yield frame.decode(piece.frames.buffer.data, position)


def _unreadable(error: GoQueueError) -> GoQueueError:
    error.hint = "what groups and topics are is not known behind it; `goqueue fsck` tells more"
    return error
