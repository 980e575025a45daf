"""Priorities in numbers: what is ready, in hand, and was handed out of each, by topic and partition."""

from typing import Annotated

import msgspec

from goqueue.api.call import Call
from goqueue.api.groups import TopicName
from goqueue.broker.delivery.lane_numbers import LaneNumbers, lane_numbers
from goqueue.broker.name import is_internal
from goqueue.quantities import format_time
from goqueue.runtime.slices import Slices
from goqueue.storage.frame import PRIORITIES


class PriorityQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    topic: Annotated[TopicName | None, msgspec.Meta(description="This one alone; else all that are in use.")] = None
    group: Annotated[
        TopicName | None, msgspec.Meta(description="Ready, in flight and waiting as this group has them.")
    ] = None


class LaneStats(msgspec.Struct, kw_only=True):
    """One priority of one partition. What came and went is counted since the broker started."""

    ready: Annotated[
        int,
        msgspec.Meta(
            description="To be handed out, in the group that has most before it; without groups, all there are."
        ),
    ]
    in_flight: int
    waiting: Annotated[int, msgspec.Meta(description="To be tried again.")]
    enqueued: int
    dequeued: int
    last_served: Annotated[str | None, msgspec.Meta(description="When a group was handed some of it last.")]
    avg_wait_time: Annotated[
        float, msgspec.Meta(description="Seconds from the append to the lease, of the first message of each lease.")
    ]


class PriorityStats(msgspec.Struct, kw_only=True):
    messages_by_priority: Annotated[
        dict[str, int], msgspec.Meta(description="Appended to these topics since the broker started.")
    ]
    avg_wait_time_by_priority: Annotated[dict[str, float], msgspec.Meta(description="In seconds, over all topics.")]
    topics: Annotated[
        dict[str, dict[str, dict[str, LaneStats]]], msgspec.Meta(description="By topic, partition and priority.")
    ]


async def stats(call: Call) -> PriorityStats:
    query: PriorityQuery = call.query
    broker, slices = call.runtime.broker, Slices()
    coordinator = broker.coordinator
    if query.group is not None:
        coordinator.membership.group(query.group)  # refused where there is none
    names = [query.topic] if query.topic is not None else [name for name in broker.topics if not is_internal(name)]
    messages = dict.fromkeys(PRIORITIES, 0)
    found: dict[str, dict[str, dict[str, LaneStats]]] = {}
    for name in names:
        for partition in broker.topic(name).partitions if query.topic is not None or name in broker.topics else ():
            await slices.rest()
            if partition.log.is_closed or (query.topic is None and not partition.log.size):
                continue
            numbers = await call.runtime.perform(lane_numbers(coordinator, partition, query.group))
            lanes = dict(zip(PRIORITIES, map(_shown, numbers), strict=True))
            found.setdefault(name, {})[str(partition.number)] = lanes
            for priority, lane in lanes.items():
                messages[priority] += lane.enqueued
    totals = zip(PRIORITIES, coordinator.polls.served.totals, strict=True)
    waits = {priority: round(served.wait_seconds, 6) for priority, served in totals}
    return PriorityStats(messages_by_priority=messages, avg_wait_time_by_priority=waits, topics=found)


def _shown(numbers: LaneNumbers) -> LaneStats:
    served = numbers.served
    return LaneStats(
        ready=numbers.ready,
        in_flight=numbers.in_flight,
        waiting=numbers.waiting,
        enqueued=numbers.enqueued,
        dequeued=served.messages if served is not None else 0,
        last_served=format_time(served.last_ns) if served is not None and served.last_ns else None,
        avg_wait_time=round(served.wait_seconds, 6) if served is not None else 0.0,
    )
