"""What the doctor is told of groups.

All groups are looked at as far as memory tells. Ages and speeds cost reads of indexes, so they are found out for the
groups that seem to be worst, as many as have so many partitions together.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from goqueue.broker.broker import Broker
from goqueue.broker.delivery.changes import Place
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.groups.group import Group
from goqueue.broker.groups.lag import Lag
from goqueue.broker.name import is_internal
from goqueue.broker.partition import Partition
from goqueue.broker.topic import Topic
from goqueue.broker.view import View
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import DOCTOR_PLACES_MAX, GROUP_STUCK_SECONDS, ORDEAL_DELIVERIES, ORDEALS_LOOKED_AT
from goqueue.observe.facts import GroupFacts, Loss, Ordeal, PlaceFacts
from goqueue.runtime.group_numbers import offsets_left
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.slices import Slices

_HOUR_SECONDS = 3600.0


@dataclass(slots=True)
class _Seen:
    """A group as memory tells, and which of its places have something left."""

    facts: GroupFacts
    behind: dict[Place, int]
    """How many offsets."""
    is_idle: bool
    """Whether one of them has not moved for so long that it may be stuck."""


async def group_facts(runtime: Runtime, slices: Slices) -> tuple[GroupFacts, ...]:
    """All groups but those of the broker itself."""
    look = _Look(runtime, slices)
    seen = [await look.at(name) for name in look.names()]
    found = {one.facts.name: one.facts for one in seen if one is not None}
    left = DOCTOR_PLACES_MAX
    for one in sorted(filter(None, seen), key=_urgency):
        if one.behind and len(one.behind) <= left:
            left -= len(one.behind)
            found[one.facts.name] = await look.closely(one)
    return tuple(found.values())


def _urgency(seen: _Seen) -> tuple[bool, bool, int]:
    """Those that may be stuck come first, those that nobody works on last, and of the others the ones with most."""
    return not seen.facts.members, not seen.is_idle, -seen.facts.lag


class _Look:
    """One look at all groups."""

    def __init__(self, runtime: Runtime, slices: Slices) -> None:
        self._runtime = runtime
        self._broker: Broker = runtime.broker
        self._slices = slices
        self._now_ns = runtime.broker.coordinator.clock.now_ns()
        self._uptime = (runtime.clock.monotonic_ns() - runtime.began_ns) / NANOSECONDS

    def names(self) -> list[str]:
        return [group.group for group in self._broker.coordinator.ledger.groups() if not is_internal(group.group)]

    def _seconds_since(self, then_ns: int) -> float:
        return max(0.0, (self._now_ns - then_ns) / NANOSECONDS)

    # --- from memory ---

    async def at(self, name: str) -> _Seen | None:
        group = self._broker.coordinator.ledger.group(name)
        if group is None:  # it went since the names were taken
            return None
        seen = _Seen(self._without_places(group), {}, is_idle=False)
        losses: list[Loss] = []
        ordeals: list[Ordeal] = []
        ranges = leaving = 0
        leaving_ns = self._now_ns
        for cursor in list(self._broker.coordinator.ledger.cursors(name).values()):
            await self._slices.rest()
            topic = self._topic_of(cursor)
            if topic is None:
                continue
            partition = topic.partitions[cursor.partition]
            if left := offsets_left(cursor, View(partition, group.isolation)):
                seen.behind[cursor.place] = left
                seen.is_idle |= self._idle_seconds(cursor) >= GROUP_STUCK_SECONDS
            losses += _losses(cursor, partition)
            ordeals += _ordeals(cursor)
            ranges = max(ranges, cursor.run_count)
            leaving += cursor.moving.count
            leaving_ns = min((move.last_ns for _, _, move in islice(cursor.moving.runs(), 1)), default=leaving_ns)
        seen.facts = replace(
            seen.facts,
            lag=sum(seen.behind.values()),
            losses=tuple(losses),
            ordeals=tuple(ordeals[:ORDEALS_LOOKED_AT]),
            ranges=ranges,
            leaving=leaving,
            leaving_seconds=self._seconds_since(leaving_ns) if leaving else 0.0,
        )
        return seen

    def _topic_of(self, cursor: Cursor) -> Topic | None:
        """The topic that it speaks of; another one may have its name by now."""
        topic = self._broker.topics.get(cursor.topic)
        if topic is None or topic.created_ns != cursor.topic_ns or cursor.partition >= len(topic.partitions):
            return None
        return topic

    def _without_places(self, group: Group) -> GroupFacts:
        empty = self._seconds_since(group.emptied_ns) if group.emptied_ns and not group.members else None
        kept = self._broker.coordinator.settings.retention_ns / NANOSECONDS
        awaited = tuple(self._awaited(group))
        is_pending = bool(awaited) or group.phase == "pending_revoke"
        return GroupFacts(
            name=group.group,
            members=len(group.members),
            empty_seconds=empty,
            forgotten_in=None if empty is None else max(0.0, kept - empty),
            rebalance_seconds=self._seconds_since(group.began_ns) if group.members and is_pending else None,
            awaited=awaited,
        )

    def _awaited(self, group: Group) -> Iterator[str]:
        """Members that have to give something up, or have yet to hear of what they were given."""
        coordinator = self._broker.coordinator
        if group.phase == "pending_revoke":
            yield from (name for name in group.members if name in group.awaited or (group.to_give_up(name)))
        elif group.phase == "complete" and not coordinator.membership.is_heard(group):
            for member in group.members.values():
                if coordinator.membership.presence(group.group, member.id).heard < member.since:
                    yield member.id

    def _idle_seconds(self, cursor: Cursor) -> float:
        seconds = self._broker.coordinator.lags.idle_seconds(cursor.group, cursor.place)
        return self._uptime if seconds is None else seconds

    # --- from the logs ---

    async def closely(self, seen: _Seen) -> GroupFacts:
        """The same with ages and speeds. A place that cannot be read is told of by its log."""
        name, places, is_all = seen.facts.name, [], True
        group = self._broker.coordinator.ledger.group(name)
        owners = group.owners() if group is not None else {}
        for place in sorted(seen.behind):
            await self._slices.rest()
            try:
                lag = await self._runtime.perform(self._broker.coordinator.lags.at(name, place, owners.get(place)))
            except GoQueueError:
                is_all = False
                continue
            cursor = self._broker.coordinator.ledger.cursor(name, place)
            topic = self._topic_of(cursor) if cursor is not None else None
            if lag is not None and lag.messages and cursor is not None and topic is not None:
                places.append(self._place(cursor, lag, topic))
        messages = sum(place.messages for place in places) if is_all else seen.facts.lag
        return replace(seen.facts, places=tuple(places), lag=messages)

    def _place(self, cursor: Cursor, lag: Lag, topic: Topic) -> PlaceFacts:
        hours = topic.settings.retention_hours if "delete" in topic.settings.cleanup else None
        return PlaceFacts(
            topic=cursor.topic,
            partition=cursor.partition,
            messages=lag.messages,
            ready=max(0, lag.messages - lag.moving - lag.pledged - self._held_back(cursor)),
            seconds=lag.seconds,
            rate=lag.rate,
            incoming=lag.incoming,
            idle_seconds=self._idle_seconds(cursor),
            in_flight=lag.leased,
            member=lag.member,
            retention_seconds=None if hours is None else hours * _HOUR_SECONDS,
        )

    def _held_back(self, cursor: Cursor) -> int:
        """Messages whose delay is not over, or that wait for an earlier one of their key: those have no time at all."""
        return sum(
            end - first
            for first, end, retry in cursor.waiting.runs()
            if not retry.due_ns or retry.due_ns > self._now_ns
        )


def _losses(cursor: Cursor, partition: Partition) -> Iterator[Loss]:
    """What was recorded, and what the group would come upon if it polled."""
    unseen = max(0, partition.earliest - max(cursor.unread, cursor.floor))
    if cursor.lost or unseen:
        yield Loss(
            topic=cursor.topic, partition=cursor.partition, messages=cursor.lost + unseen, is_going_on=bool(unseen)
        )


def _ordeals(cursor: Cursor) -> Iterator[Ordeal]:
    """Of those in hand and those that wait."""
    for lease in islice(cursor.leases.values(), ORDEALS_LOOKED_AT):
        if lease.grant.deliveries >= ORDEAL_DELIVERIES and (first := lease.left.first) is not None:
            yield _ordeal(cursor, first, lease.grant.deliveries)
    for first, _, retry in islice(cursor.waiting.runs(), ORDEALS_LOOKED_AT):
        if retry.deliveries >= ORDEAL_DELIVERIES:
            yield _ordeal(cursor, first, retry.deliveries)


def _ordeal(cursor: Cursor, offset: int, deliveries: int) -> Ordeal:
    return Ordeal(topic=cursor.topic, partition=cursor.partition, offset=offset, deliveries=deliveries)
