"""Facts about groups for the doctor.

All groups are examined from memory. Ages and speeds need index reads: they are collected for the groups that look
worst, up to a number of partitions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from goqueue.broker.broker import Broker
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.topic import Topic
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.lag import GroupLag
from goqueue.broker.groups.records import Group
from goqueue.broker.groups.retries import DeliveryPolicy
from goqueue.broker.groups.store import topic_of
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import (
    DOCTOR_PARTITIONS_MAX,
    GROUP_TROUBLE_SECONDS,
    POISON_DELIVERIES_MIN,
    POISON_DELIVERIES_RATIO,
    POISON_LEASES_SCANNED_MAX,
)
from goqueue.observe.facts import GroupFacts, GroupPartitionFacts, LostMessages, PoisonMessage
from goqueue.runtime.event_loop import TimeSlices
from goqueue.runtime.group_survey import GroupSnapshot, walk_groups
from goqueue.runtime.runtime import Runtime

_HOUR_SECONDS = 3600.0


@dataclass(slots=True)
class _GroupInMemory:
    facts: GroupFacts
    behind: dict[PartitionRef, int]
    """Lag in offsets."""
    is_idle: bool
    """Whether a partition has been idle long enough to be stuck."""


async def group_facts(runtime: Runtime, slices: TimeSlices) -> tuple[GroupFacts, ...]:
    """Return the facts of all groups except internal ones."""
    collector = _GroupFactsCollector(runtime, slices)
    seen = [await collector.in_memory(one) async for one in walk_groups(runtime.broker, slices)]
    found = {one.facts.name: one.facts for one in seen}
    left = DOCTOR_PARTITIONS_MAX
    for one in sorted(seen, key=_urgency):
        if one.behind and len(one.behind) <= left:
            left -= len(one.behind)
            found[one.facts.name] = await collector.with_speeds(one)
    return tuple(found.values())


def _urgency(seen: _GroupInMemory) -> tuple[bool, bool, int]:
    """Sort key: possibly stuck groups first, groups without members last, then by lag."""
    return not seen.facts.members, not seen.is_idle, -seen.facts.lag


class _GroupFactsCollector:
    def __init__(self, runtime: Runtime, slices: TimeSlices) -> None:
        self._runtime = runtime
        self._broker: Broker = runtime.broker
        self._slices = slices
        self._now_ns = runtime.broker.groups.clock.now_ns()

    def _seconds_since(self, then_ns: int) -> float:
        return max(0.0, (self._now_ns - then_ns) / NANOSECONDS)

    # --- from memory ---

    async def in_memory(self, found: GroupSnapshot) -> _GroupInMemory:
        seen = _GroupInMemory(self._without_places(found.group), {}, is_idle=False)
        losses: list[LostMessages] = []
        poison_messages: list[PoisonMessage] = []
        ranges = leaving = 0
        leaving_ns = self._now_ns
        for one in found.cursors:
            await self._slices.rest()
            cursor = one.cursor
            if one.topic is None:
                continue
            if one.left:
                seen.behind[cursor.ref] = one.left
                seen.is_idle |= (
                    self._broker.groups.of(cursor.group).lags.idle_seconds(cursor.group, cursor.ref)
                    >= GROUP_TROUBLE_SECONDS
                )
            losses += _losses(cursor, one.topic.partition(cursor.partition))
            poison_messages += _poison_messages(cursor, self._broker.groups.policies.of(cursor.group, cursor.topic))
            ranges = max(ranges, cursor.run_count)
            leaving += cursor.moving.count
            leaving_ns = min((move.last_ns for _, _, move in islice(cursor.moving.runs(), 1)), default=leaving_ns)
        seen.facts = replace(
            seen.facts,
            lag=found.lag,
            losses=tuple(losses),
            poison_messages=tuple(poison_messages[:POISON_LEASES_SCANNED_MAX]),
            ranges=ranges,
            leaving=leaving,
            leaving_seconds=self._seconds_since(leaving_ns) if leaving else 0.0,
        )
        return seen

    def _without_places(self, group: Group) -> GroupFacts:
        empty = self._seconds_since(group.emptied_ns) if group.emptied_ns and not group.members else None
        kept = self._broker.groups.settings.retention_ns / NANOSECONDS
        awaited = tuple(self._awaited(group))
        is_pending = bool(awaited) or group.phase == "pending_revoke"
        return GroupFacts(
            name=group.group,
            members=len(group.members),
            empty_seconds=empty,
            deleted_in_seconds=None if empty is None else max(0.0, kept - empty),
            rebalance_seconds=self._seconds_since(group.began_ns) if group.members and is_pending else None,
            awaited=awaited,
        )

    def _awaited(self, group: Group) -> Iterator[str]:
        """Yield members that must revoke partitions or have not received their assignment."""
        coordinator = self._broker.groups.of(group.group)
        if group.phase == "pending_revoke":
            yield from (name for name in group.members if name in group.awaited or (group.partitions_to_revoke(name)))
        elif group.phase == "complete" and not coordinator.membership.is_assignment_delivered(group):
            for member in group.members.values():
                if coordinator.membership.session(group.group, member.id).known_generation < member.since:
                    yield member.id

    # --- from the logs ---

    async def with_speeds(self, seen: _GroupInMemory) -> GroupFacts:
        """Add ages and speeds. A partition that cannot be read is reported by its log."""
        name, places, is_all = seen.facts.name, [], True
        coordinator = self._broker.groups.of(name)
        group = coordinator.store.group(name)
        owners = group.owners() if group is not None else {}
        for place in sorted(seen.behind):
            await self._slices.rest()
            try:
                lag = await self._runtime.perform(coordinator.lags.of_partition(name, place, owners.get(place)))
            except GoQueueError:
                is_all = False
                continue
            cursor = coordinator.store.cursor(name, place)
            topic = topic_of(self._broker, cursor) if cursor is not None else None
            if lag is not None and lag.messages and cursor is not None and topic is not None:
                places.append(self._place(cursor, lag, topic))
        messages = sum(place.messages for place in places) if is_all else seen.facts.lag
        return replace(seen.facts, places=tuple(places), lag=messages)

    def _place(self, cursor: Cursor, lag: GroupLag, topic: Topic) -> GroupPartitionFacts:
        hours = topic.settings.retention_hours if "delete" in topic.settings.cleanup else None
        return GroupPartitionFacts(
            topic=cursor.topic,
            partition=cursor.partition,
            messages=lag.messages,
            ready=lag.ready,
            seconds=lag.seconds,
            rate=lag.rate,
            incoming=lag.incoming,
            idle_seconds=lag.idle_seconds,
            in_flight=lag.in_flight,
            member=lag.member,
            retention_seconds=None if hours is None else hours * _HOUR_SECONDS,
        )


def _losses(cursor: Cursor, partition: Partition) -> Iterator[LostMessages]:
    """Yield recorded losses and removed messages that the group has not reached."""
    unseen = cursor.lost_before(partition.earliest)
    if cursor.lost or unseen:
        yield LostMessages(
            topic=cursor.topic, partition=cursor.partition, messages=cursor.lost + unseen, is_continuing=bool(unseen)
        )


def _poison_messages(cursor: Cursor, policy: DeliveryPolicy) -> Iterator[PoisonMessage]:
    """Yield messages in leases and retries with many deliveries: many more than their retries allow."""
    least = max(POISON_DELIVERIES_MIN, POISON_DELIVERIES_RATIO * ((policy.retries_max or 0) + 1))
    for lease in islice(cursor.leases.values(), POISON_LEASES_SCANNED_MAX):
        if lease.grant.deliveries >= least and (first := lease.left.first) is not None:
            yield _poison_message(cursor, first, lease.grant.deliveries)
    for first, _, retry in islice(cursor.waiting.runs(), POISON_LEASES_SCANNED_MAX):
        if retry.deliveries >= least:
            yield _poison_message(cursor, first, retry.deliveries)


def _poison_message(cursor: Cursor, offset: int, deliveries: int) -> PoisonMessage:
    return PoisonMessage(topic=cursor.topic, partition=cursor.partition, offset=offset, deliveries=deliveries)
