"""Committed offsets: told by members, or set by an operator. They are the same state as acknowledgements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from goqueue.broker.delivery.changes import Committed, Opened, Place, Rewound, Settled
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.groups import rebalance
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.membership import Membership
from goqueue.broker.groups.name import check_new_group_name
from goqueue.broker.groups.presence import Left
from goqueue.broker.groups.rebalancer import Rebalancer
from goqueue.broker.groups.state import Record
from goqueue.broker.groups.topics import Topics
from goqueue.broker.name import is_internal
from goqueue.broker.partition import Partition
from goqueue.broker.topic import Topic
from goqueue.broker.view import View
from goqueue.broker.work import Promise, Work
from goqueue.clock import Clock
from goqueue.errors import GenerationStale, OffsetOutOfRange, PartitionNotOwned, TopicNotFound
from goqueue.quantities import quoted

Target = Literal["earliest", "latest", "offset", "time", "shift"]


@dataclass(frozen=True, slots=True)
class ResetWish:
    """Where a group is to read on."""

    topic: str
    to: Target
    value: int = 0
    """An offset, nanoseconds since the epoch, or by how much; by what it is to."""
    partitions: tuple[int, ...] | None = None
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """What it means for one partition."""

    partition: int
    before: int | None
    after: int


class Offsets:
    """The rules of committing and resetting."""

    def __init__(
        self, ledger: Ledger, topics: Topics, clock: Clock, membership: Membership, rebalancer: Rebalancer
    ) -> None:
        self._ledger = ledger
        self._topics = topics
        self._clock = clock
        self._membership = membership
        self._rebalancer = rebalancer
        self.on_progress: Callable[[Cursor, str, int], None] = lambda _, __, ___: None
        """Called when messages of a place are done, with who said so and how many."""

    def committed(self, name: str, topic: str | None = None) -> dict[str, dict[int, int]]:
        """By topic and partition, as it is durable."""
        self._membership.group(name)
        found: dict[str, dict[int, int]] = {}
        for place, cursor in sorted(self._ledger.durable_cursors(name).items()):
            if topic is None or place[0] == topic:
                found.setdefault(place[0], {})[place[1]] = cursor.floor
        return found

    # --- commit ---

    def commit(self, name: str, member: str, generation: int | None, offsets: Mapping[Place, int], told: Left) -> None:
        """Everything below is done with. What is done with already stays so."""
        self.check(name, member, generation, offsets)
        records: list[Record] = []
        done: dict[Place, int] = {}
        for place, offset in offsets.items():
            cursor = self._ledger.cursors(name)[place]
            if offset > cursor.floor:
                changes, done[place] = _commit(cursor, offset)
                records += changes
        self._ledger.record(name, records, told)
        for place, count in done.items():
            if count:
                self.on_progress(self._ledger.cursors(name)[place], member, count)

    def check(self, name: str, member: str, generation: int | None, offsets: Mapping[Place, int]) -> None:
        """Whether the member may commit all of them."""
        group, _ = self._membership.check(name, member, generation)
        owned = set(group.assignment.get(member, ()))
        for place, offset in offsets.items():
            if place not in owned:
                raise PartitionNotOwned(
                    f"member {quoted(member)} does not have {place[0]}/{place[1]}",
                    hint="its assignment says what it has; join again if it is out of date",
                )
            partition, cursor = self._partition(place), self._ledger.cursor(name, place)
            if cursor is None or cursor.topic_ns != self._topics.topic(place[0]).created_ns:
                raise GenerationStale(
                    f"member {quoted(member)} has {place[0]}/{place[1]} of a topic that was deleted",
                    hint="ask for the assignment",
                    generation=group.generation,
                )
            check_offset(place, offset, partition)

    def open(self, name: str, offsets: Mapping[Place, int]) -> None:
        """Make what is not there yet of what these are to be committed to without a member: the group, and its places.
        All of it, or nothing."""
        check_new_group_name(name)
        records: list[Record] = []
        if self._ledger.group(name) is None:
            records.append(self._membership.new_group(name))
        for place, offset in offsets.items():
            topic, cursor = topic_of_clients(self._topics, place[0]), self._ledger.cursor(name, place)
            partition = topic.partition(place[1])
            check_offset(place, offset, partition)
            if cursor is None or cursor.topic_ns != topic.created_ns:
                records.append(Opened(name, *place, topic_ns=topic.created_ns, floor=partition.earliest))
        if records:
            self._ledger.record(name, records)
            self._rebalancer.arm(name)

    def _partition(self, place: Place) -> Partition:
        return self._topics.topic(place[0]).partition(place[1])

    # --- reset ---

    def reset(self, name: str, wish: ResetWish) -> Work[list[Reset]]:
        """For a group that is at work too: what its members have in hand is theirs no more."""
        check_new_group_name(name)
        topic = topic_of_clients(self._topics, wish.topic)
        numbers = range(len(topic.partitions)) if wish.partitions is None else wish.partitions
        resets: list[Reset] = []
        for number in numbers:
            partition = topic.partition(number)
            cursor = self._ledger.cursor(name, (topic.name, number))
            before = cursor.floor if cursor is not None else None
            after = yield from self._target(name, wish, partition, before)
            resets.append(Reset(number, before, after))
        if not wish.is_dry:
            durable: Promise[None] = Promise()
            self._record(name, topic.name, topic.created_ns, resets, durable)
            yield durable
        return resets

    def _target(self, name: str, wish: ResetWish, partition: Partition, before: int | None) -> Work[int]:
        earliest, latest = partition.earliest, View(partition, self._ledger.isolation(name)).end
        match wish.to:
            case "earliest":
                return earliest
            case "latest":
                return latest
            case "time":
                found = yield from partition.offset_for_time(wish.value)
                return found
            case "shift":
                return min(max((earliest if before is None else before) + wish.value, earliest), latest)
            case "offset":
                if not earliest <= wish.value <= partition.high_watermark:
                    raise _beyond((partition.topic, partition.number), wish.value, partition)
                return wish.value

    def _record(self, name: str, topic: str, topic_ns: int, resets: Sequence[Reset], durable: Promise[None]) -> None:
        group = self._ledger.group(name) or self._membership.new_group(name)
        records: list[Record] = [rebalance.fence(group)]
        for reset in resets:
            cursor = self._ledger.cursor(name, (topic, reset.partition))
            if cursor is None or cursor.topic_ns != topic_ns:  # it may be of a topic of this name that was deleted
                records.append(Opened(name, topic, reset.partition, topic_ns=topic_ns, floor=reset.after))
            else:
                records.append(Rewound(name, topic, reset.partition, floor=reset.after))
        self._ledger.record(name, records, durable)
        self._rebalancer.arm(name)
        self._rebalancer.left_idle(name)


def _commit(cursor: Cursor, offset: int) -> tuple[list[Record], int]:
    """Everything below is done with; where lanes are read one by one, everything of it that was handed out. Returns how
    many messages that are, too.

    Whoever commits means what it was given, and below an urgent message there may be many that nobody has seen.
    """
    whose = (cursor.group, *cursor.place)
    floor = max(cursor.floor, min(offset, cursor.unread) if cursor.heads is not None else offset)
    count = cursor.waiting.count_within(0, offset)
    count += sum(lease.left.count_within(0, offset) for lease in cursor.leases.values())
    count += max(0, floor - cursor.position) if cursor.heads is None else 0
    records: list[Record] = [Committed(*whose, floor=floor)] if floor > cursor.floor else []
    if floor < offset:
        for lease in cursor.leases.values():
            if lease.left.count_within(floor, offset):
                first, end = max(floor, lease.grant.first), min(offset, lease.grant.end)
                records.append(Settled(*whose, ranges=[(first, end)], lease=lease.id))
        waiting = [(first, end) for first, end, _ in cursor.waiting.within(floor, offset)]
        records += [Settled(*whose, ranges=waiting)] if waiting else []
    return records, count


def topic_of_clients(topics: Topics, name: str) -> Topic:
    """A topic that groups may read."""
    topic = topics.topic(name)
    if is_internal(topic.name):
        raise TopicNotFound(f"topic {quoted(topic.name)} is internal", hint="groups read topics of clients")
    return topic


def check_offset(place: Place, offset: int, partition: Partition) -> None:
    """Whether everything below can be done already."""
    if offset > partition.high_watermark:
        raise _beyond(place, offset, partition)


def _beyond(place: Place, offset: int, partition: Partition) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        f"{place[0]}/{place[1]} has no offset {offset}: it holds {partition.earliest} up to {partition.high_watermark}",
        hint=f"choose one from {partition.earliest} to {partition.high_watermark}",
        first=partition.earliest,
        next=partition.high_watermark,
    )
