"""What the broker's own logs tell: of topics their settings, of groups all that they have done.

They are small, since the broker tells what still holds again and drops the rest, so the driver reads them itself; and
they are understood by the rules of the broker, which has the same state after reading them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from goqueue.broker.catalog import Catalog
from goqueue.broker.catalog import decode_record as decode_topic
from goqueue.broker.delivery.changes import Change, Committed, Place, Range, Redeemed, Settled
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.groups.group import Group
from goqueue.broker.groups.state import Groups, Record, decode_record
from goqueue.broker.topic import TopicSettings
from goqueue.errors import GoQueueError
from goqueue.limits import GROUP_LOGS
from goqueue.quantities import parse_time
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.port import Logs
from goqueue.spark.reading import Run, Split, read
from goqueue.storage import frame

_TOPICS, _GROUPS = "__metadata", "__consumer_offsets"
_SENT_BACK = "__dead_letters"  # the group of the broker's own that has settled what was sent back

Listener = Callable[[Record, int, Cursor | None], None]
"""Told of each record and of its time, with the cursor that it is about, before it changes that."""


@dataclass(slots=True)
class Ledger:
    """All groups, as the records make them."""

    groups: dict[str, Group] = field(default_factory=dict)
    cursors: dict[str, dict[Place, Cursor]] = field(default_factory=dict)
    since_ns: int | None = None
    """From when on everything is there; what was before is known in its sum only."""

    def of_users(self) -> Iterator[Cursor]:
        """The places of all groups but the broker's own, in order."""
        for name in sorted(self.cursors):
            if not name.startswith("__"):
                yield from (cursor for _, cursor in sorted(self.cursors[name].items()))

    def sent_back(self, place: Place) -> list[Range]:
        """Which dead letters were sent back from there, or are on their way."""
        cursor = self.cursors.get(_SENT_BACK, {}).get(place)
        if cursor is None:
            return []
        moving = [(first, end) for first, end, _ in cursor.moving.runs()]
        return sorted([(0, cursor.floor), *cursor.settled(), *moving])


def read_ledger(logs: Logs, listen: Listener | None = None) -> Ledger:
    """Replay the logs of all groups."""
    ledger = Ledger()
    for number in range(GROUP_LOGS):
        state = Groups()
        first_ns: int | None = None
        for message in _messages(logs, _GROUPS, number):
            record = decode_record(message)
            first_ns = message.timestamp_ns if first_ns is None else first_ns
            if listen is not None:
                about = state.cursors.get(record.group, {}).get(record.place) if isinstance(record, Change) else None
                listen(record, message.timestamp_ns, about)
            state.apply(record)
        ledger.groups |= state.groups
        ledger.cursors |= state.cursors
        if first_ns is not None and logs.view(_GROUPS, number).earliest > 0:
            ledger.since_ns = max(ledger.since_ns or 0, first_ns)
    return ledger


def done_by(record: Record, cursor: Cursor | None) -> list[Range]:
    """What a record is about to settle of a place. What retention took from the group was not done by it."""
    if cursor is None:
        return []
    match record:
        case Settled(lease=str(lease_id)) if (lease := cursor.leases.get(lease_id)) is not None and lease.grant.runs:
            pieces = [lease.left.within(first, end) for first, end in record.ranges]
            return [(first, end) for piece in pieces for first, end, _ in piece]
        case Settled():
            return list(record.ranges)
        case Redeemed(whose=whose, is_commit=True):
            return [(first, end) for first, end, _ in cursor.pledged_by(whose)]
        case Committed(floor=floor, lost=0):
            return _left(cursor, floor)
        case _:
            return []


def is_departure(record: Record) -> bool:
    """Whether what is settled went to another topic, and was not acknowledged."""
    return isinstance(record, Settled) and record.lease is None


def given_ns(record: Record, cursor: Cursor | None) -> int | None:
    """When that was handed out which a record settles, where one lease says so."""
    if cursor is None or not isinstance(record, Settled) or record.lease is None:
        return None
    lease = cursor.leases.get(record.lease)
    return lease.grant.given_ns if lease is not None else None


def _left(cursor: Cursor, floor: int) -> list[Range]:
    """The offsets below a new floor that are neither done, nor on their way to another topic, nor pledged."""
    undecided = [run[:2] for one in (cursor.moving, cursor.pledged) for run in one.runs()]
    away = sorted([*cursor.settled(), *undecided])
    found, start = [], cursor.floor
    for first, end in away:
        if start < min(first, floor):
            found.append((start, min(first, floor)))
        start = max(start, end)
    return [*found, (start, floor)] if start < floor else found


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What is set for a topic."""

    settings: TopicSettings
    created_ns: int


def read_topics(logs: Logs) -> dict[str, TopicFacts]:
    """The topics and their settings, as a broker tells them; none where the logs are a copy without them."""
    if isinstance(logs, BrokerLogs):
        details = logs.client.topic_details(internal=True)
        return {one.name: TopicFacts(_settings(one.config), parse_time(one.created_at)) for one in details}
    catalog = Catalog()
    for message in _messages(logs, _TOPICS, 0):
        catalog.apply(decode_topic(message))
    return {name: TopicFacts(topic.settings, topic.created_ns) for name, topic in catalog.topics.items()}


def _settings(config: Mapping[str, Any]) -> TopicSettings:
    """Those of them that are known here."""
    return TopicSettings(**{name: config[name] for name in TopicSettings.__struct_fields__ if name in config})


def _messages(logs: Logs, topic: str, partition: int) -> Iterator[frame.Message]:
    """All of a log. Where it is damaged nothing of what is behind can be understood."""
    view = logs.view(topic, partition)
    split = Split(topic, partition, view.earliest, view.end, view.size, view.segments)
    for piece in read(logs, split) if view.size else ():
        if not isinstance(piece, Run):
            raise _unreadable(piece.error)
        for position in piece.frames.positions.tolist():
            yield frame.decode(piece.frames.buffer.data, position)


def _unreadable(error: GoQueueError) -> GoQueueError:
    error.hint = "what groups and topics are is not known behind it; `goqueue fsck` tells more"
    return error
