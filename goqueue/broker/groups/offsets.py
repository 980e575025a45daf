"""Committed offsets: committed by members, or reset by an operator. They share one state with acknowledgements."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.remote_partition import refreshed
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.view import PartitionView
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.membership import Membership, check_new_group_name
from goqueue.broker.groups.rebalance import fence
from goqueue.broker.groups.rebalancer import Rebalancer
from goqueue.broker.groups.records import (
    GROUP_CHOICES,
    CursorOpened,
    CursorReset,
    Group,
    GroupRecord,
    MessagesSettled,
    OffsetCommitted,
)
from goqueue.broker.groups.sessions import DoneCallback
from goqueue.broker.groups.store import GroupRules, GroupServices, TopicLookup
from goqueue.errors import GenerationStale, OffsetOutOfRange, PartitionNotOwned, TopicNotFound
from goqueue.events import Signal
from goqueue.quantities import quoted

ResetTarget = Literal["earliest", "latest", "offset", "time", "shift"]


@dataclass(frozen=True, slots=True)
class ResetOptions:
    """Where a group is to continue in a topic."""

    topic: str
    to: ResetTarget
    value: int = 0
    """An offset, nanoseconds since the epoch, or a number of messages, depending on `to`."""
    partitions: tuple[int, ...] | None = None
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class ResetOffset:
    partition: int
    before: int | None
    after: int


class CommittedOffsets(GroupRules):
    def __init__(self, services: GroupServices, membership: Membership, rebalancer: Rebalancer) -> None:
        super().__init__(services)
        self._membership = membership
        self._rebalancer = rebalancer
        self.on_progress: Signal[[Cursor, set[str], int]] = Signal()
        """Called with the cursor, the members concerned and the number of messages that a commit settled."""

    def committed(self, name: str, topic: str | None = None) -> dict[str, dict[int, int]]:
        self._membership.group(name)
        found: dict[str, dict[int, int]] = {}
        for ref, cursor in sorted(self._store.durable_cursors(name).items()):
            if topic is None or ref.topic == topic:
                found.setdefault(ref.topic, {})[ref.partition] = cursor.floor
        return found

    # --- commit ---

    def commit(
        self,
        name: str,
        member: str | None,
        generation: int | None,
        offsets: Mapping[PartitionRef, int],
        callback: DoneCallback,
    ) -> None:
        """Settle everything below the offsets. A lower offset than before changes nothing.

        A caller that names no member need not have joined; the group is created if it does not exist.
        """
        if member is None:
            self.open_cursors(name, offsets)
        else:
            self.check(name, member, generation, offsets)
        records: list[GroupRecord] = []
        settled: dict[PartitionRef, tuple[set[str], int]] = {}
        for ref, offset in offsets.items():
            cursor = self._store.cursors(name)[ref]
            if offset > cursor.floor:
                holders = {lease.grant.member for lease in cursor.leases.values()} if member is None else {member}
                changes, count = _commit(cursor, offset)
                settled[ref] = holders, count
                records += changes
        self._store.record(name, records, callback)
        for ref, (members, count) in settled.items():
            if count:
                self.on_progress.emit(self._store.cursors(name)[ref], members, count)

    def check(self, name: str, member: str, generation: int | None, offsets: Mapping[PartitionRef, int]) -> None:
        """Raise unless the member may commit all of the offsets."""
        group, _ = self._membership.check(name, member, generation)
        owned = set(group.assignment.get(member, ()))
        for ref, offset in offsets.items():
            if ref not in owned:
                raise PartitionNotOwned(
                    f"member {quoted(member)} does not own partition {ref}",
                    hint="commit offsets of assigned partitions only; join again if the assignment is out of date",
                )
            topic = self._topics.topic(ref.topic)
            partition = topic.partition(ref.partition)
            if self._store.cursor_of(name, topic, ref.partition) is None:
                raise GenerationStale(
                    f"partition {ref} of member {quoted(member)} is of a topic that was deleted",
                    hint="ask for the assignment",
                    generation=group.generation,
                )
            check_committable_offset(ref, offset, partition)

    def open_cursors(self, name: str, offsets: Mapping[PartitionRef, int]) -> None:
        """Create the group and the cursors that a commit without a member needs: all of them, or none."""
        check_new_group_name(name)
        records: list[GroupRecord] = []
        if self._store.group(name) is None:
            records.append(self._membership.new_group(name))
        for ref, offset in offsets.items():
            topic = consumable_topic(self._topics, ref.topic)
            partition = topic.partition(ref.partition)
            check_committable_offset(ref, offset, partition)
            if self._store.cursor_of(name, topic, ref.partition) is None:
                records.append(CursorOpened(name, *ref, topic_ns=topic.created_ns, floor=partition.earliest))
        if records:
            self._store.record(name, records)
            self._rebalancer.restart_deadlines(name)

    # --- reset ---

    def reset(self, name: str, options: ResetOptions) -> Work[list[ResetOffset]]:
        """Move a group to other offsets. Its leases end, and its members must learn the new generation."""
        check_new_group_name(name)
        topic = consumable_topic(self._topics, options.topic)
        numbers = range(len(topic.partitions)) if options.partitions is None else options.partitions
        resets: list[ResetOffset] = []
        for number in numbers:
            partition = topic.partition(number)
            cursor = self._store.cursor(name, PartitionRef(topic.name, number))
            before = cursor.floor if cursor is not None else None
            after = yield from self._target(name, options, partition, before)
            resets.append(ResetOffset(number, before, after))
        if not options.is_dry:
            yield self.restore(name, {PartitionRef(topic.name, one.partition): one.after for one in resets})
        return resets

    def _target(self, name: str, options: ResetOptions, partition: Partition, before: int | None) -> Work[int]:
        yield from refreshed(partition)
        earliest, latest = partition.earliest, PartitionView(partition, self._store.isolation(name)).end
        match options.to:
            case "earliest":
                return earliest
            case "latest":
                return latest
            case "time":
                found = yield from partition.offset_for_time(options.value)
                return found
            case "shift":
                return min(max((earliest if before is None else before) + options.value, earliest), latest)
            case "offset":
                if not earliest <= options.value <= partition.high_watermark:
                    raise _out_of_range(PartitionRef(partition.topic, partition.number), options.value, partition)
                return options.value

    def restore(self, name: str, offsets: Mapping[PartitionRef, int], former: Group | None = None) -> Promise[None]:
        """Move a group to these offsets in one step. A group that is gone gets the settings of the former one."""
        group = self._store.group(name)
        if group is None:
            group = self._membership.new_group(name)
            chosen = {} if former is None else {field: getattr(former, field) for field in (*GROUP_CHOICES, "delivery")}
            group = replace(group, **chosen)
        records: list[GroupRecord] = [fence(group, self._clock.now_ns())]
        for ref, offset in offsets.items():
            topic = self._topics.topic(ref.topic)
            if self._store.cursor_of(name, topic, ref.partition) is None:
                records.append(CursorOpened(name, *ref, topic_ns=topic.created_ns, floor=offset))
            else:
                records.append(CursorReset(name, *ref, floor=offset))
        durable = self._store.recorded(name, records)
        self._rebalancer.restart_deadlines(name)
        self._rebalancer.release_idle_partitions(name)
        return durable


def _commit(cursor: Cursor, offset: int) -> tuple[list[GroupRecord], int]:
    """Return the records of a commit, and how many messages it settles.

    When lanes are read separately, a commit covers only what was delivered below the offset: below an urgent message
    there may be many undelivered ones.
    """
    key = (cursor.group, *cursor.ref)
    floor = max(cursor.floor, min(offset, cursor.unread) if cursor.heads is not None else offset)
    count = cursor.waiting.count_within(0, offset)
    count += sum(lease.left.count_within(0, offset) for lease in cursor.leases.values())
    count += max(0, floor - cursor.position) if cursor.heads is None else 0
    records: list[GroupRecord] = [OffsetCommitted(*key, floor=floor)] if floor > cursor.floor else []
    if floor < offset:
        for lease in cursor.leases.values():
            if lease.left.count_within(floor, offset):
                first, end = max(floor, lease.grant.first), min(offset, lease.grant.end)
                records.append(MessagesSettled(*key, ranges=[(first, end)], lease=lease.id))
        waiting = [(first, end) for first, end, _ in cursor.waiting.within(floor, offset)]
        records += [MessagesSettled(*key, ranges=waiting)] if waiting else []
    return records, count


def consumable_topic(topics: TopicLookup, name: str) -> Topic:
    """Return a topic that groups may read."""
    topic = topics.topic(name)
    if is_internal(topic.name):
        raise TopicNotFound(f"topic {quoted(topic.name)} is internal", hint="groups cannot read internal topics")
    return topic


def check_committable_offset(ref: PartitionRef, offset: int, partition: Partition) -> None:
    if offset > partition.high_watermark:
        raise _out_of_range(ref, offset, partition)


def _out_of_range(ref: PartitionRef, offset: int, partition: Partition) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        f"partition {ref} has no offset {offset}: it holds {partition.earliest} up to {partition.high_watermark}",
        hint=f"choose an offset from {partition.earliest} to {partition.high_watermark}",
        first=partition.earliest,
        next=partition.high_watermark,
    )
