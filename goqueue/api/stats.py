"""Statistics of the broker: totals, rates, priorities, delivery and delayed messages."""

from typing import Annotated

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import TopicName
from goqueue.api.health import node_id, uptime
from goqueue.api.topics import messages_in
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.work import Work
from goqueue.broker.delay import queries
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.delay.schedule import STATES
from goqueue.broker.delay.timing_wheel import TimingWheel
from goqueue.broker.groups.lag import LaneCounts, lane_counts
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.limits import HISTORY_SECONDS, HISTORY_STEP_SECONDS_MAX, SAMPLE_SECONDS
from goqueue.observe.history_rings import HistoryRings
from goqueue.quantities import format_duration, format_time
from goqueue.runtime.doctor_facts import memory_bytes
from goqueue.runtime.event_loop import TimeSlices
from goqueue.storage.disk import DiskSpace
from goqueue.storage.frame import PRIORITIES


class TopicStatsJson(Struct):
    partitions: int
    messages: int
    size_bytes: int


class RatesJson(Struct):
    published_per_second: float
    published_bytes_per_second: float
    read_per_second: float
    read_bytes_per_second: float
    settled_per_second: float
    requests_per_second: float


_RATES = ("published", "published_bytes", "read", "read_bytes", "settled", "requests")
"""The series of the fields above, in their order."""


class DiskStatsJson(Struct):
    """Space of the file system, as `df` shows it."""

    total_bytes: int
    used_bytes: int
    free_bytes: Annotated[int, Meta(description="Available to the broker.")]


class BrokerStatsResponse(Struct, kw_only=True):
    node_id: Annotated[
        str, Meta(description="0 for a broker alone. In a cluster all numbers are those of this node only.")
    ]
    uptime: float
    topics: int
    partitions: int
    groups: int
    total_size_bytes: int
    rates: Annotated[RatesJson, Meta(description="Over the last seconds.")]
    disk: Annotated[DiskStatsJson | None, Meta(description="The file system of the data directory; null if unknown.")]
    connections: int
    memory_bytes: int
    loop_lag_ms: Annotated[float, Meta(description="Latest delay of the event loop.")]
    topic_stats: dict[str, TopicStatsJson]


class HistoryQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    seconds: Annotated[
        int, Meta(ge=1, le=HistoryRings.longest(60), description="How far back, as far as it is recorded.")
    ] = HISTORY_SECONDS
    step: Annotated[
        Annotated[int, Meta(ge=1, le=HISTORY_STEP_SECONDS_MAX)] | None,
        Meta(
            description="Seconds of one number: 1, or a multiple of 10. Default: 1, 10 or 60, the smallest that is "
            "kept for so long."
        ),
    ] = None
    group: Annotated[TopicName | None, Meta(description="`lag` and `rate` of this group instead.")] = None


class HistoryResponse(Struct, kw_only=True):
    interval_seconds: Annotated[int, Meta(description="Seconds of one number.")]
    end: Annotated[str, Meta(description="End of the last number.")]
    series: Annotated[
        dict[str, list[float | None]],
        Meta(
            description="A number for each interval, oldest first; all are of one length. Null: the broker was down, "
            "or the group was not known."
        ),
    ]


async def stats(call: ApiCall) -> BrokerStatsResponse:
    broker, slices, found = call.runtime.broker, TimeSlices(), dict[str, TopicStatsJson]()
    for name, topic in list(broker.topics.items()):
        if not is_internal(name) and call.access.may("describe", "topic", name):
            found[name] = TopicStatsJson(len(topic.partitions), await messages_in(call, topic), topic.size)
            await slices.rest()
    groups = (group.group for group in broker.groups.groups())
    return BrokerStatsResponse(
        node_id=node_id(call),
        uptime=uptime(call),
        topics=len(found),
        partitions=sum(topic.partitions for topic in found.values()),
        groups=sum(not is_internal(name) for name in groups),
        total_size_bytes=sum(topic.size_bytes for topic in found.values()),
        rates=RatesJson(*map(call.app.history.rate, _RATES)),
        disk=await _disk(call),
        connections=call.app.metrics.connections_open,
        memory_bytes=memory_bytes(),
        loop_lag_ms=round(call.app.metrics.loop_lag_seconds * 1000, 3),
        topic_stats=found,
    )


async def _disk(call: ApiCall) -> DiskStatsJson | None:
    def look() -> Work[DiskSpace]:
        space: DiskSpace = yield lambda: call.runtime.disk.space(call.runtime.store.path)
        return space

    try:
        space = await call.runtime.perform(look())
    except GoQueueError:
        return None
    return DiskStatsJson(space.total_bytes, space.used_bytes, space.free_bytes)


async def history(call: ApiCall, query: HistoryQuery) -> HistoryResponse:
    kept, now_ns, seconds = call.app.history, call.runtime.clock.now_ns(), query.seconds
    step = _history_step(query)
    if step == round(SAMPLE_SECONDS):
        series: dict[str, list[float | None]] = {name: [*one] for name, one in kept.last(seconds).items()}
        return HistoryResponse(interval_seconds=step, end=format_time(kept.end_ns or now_ns), series=series)
    if query.group is None:
        found = kept.rings.read(seconds, step, now_ns)
    else:
        call.access.require("describe", "group", query.group)
        call.runtime.broker.groups.of(query.group).membership.group(query.group)  # refused where there is none
        found = kept.rings.read_group(query.group, seconds, step, now_ns)
    return HistoryResponse(interval_seconds=step, end=format_time(found.end_ns), series=found.series)


def _history_step(query: HistoryQuery) -> int:
    """Return the step, or refuse one that is not kept for so long."""
    lengths = {step: HistoryRings.longest(step) for step in (10, 60)}
    if query.group is None:
        lengths = {round(SAMPLE_SECONDS): HISTORY_SECONDS} | lengths
    if query.step is None:
        return min(step for step, length in lengths.items() if query.seconds <= length)
    longest = lengths.get(query.step) or HistoryRings.longest(query.step)
    if query.seconds > longest:
        kept = ", ".join(f"{step} s up to {format_duration(length)}" for step, length in lengths.items())
        raise RequestInvalid(
            f"no history of {format_duration(query.seconds)} is kept in steps of {query.step} s",
            hint=f"steps and how long they are kept: {kept}; multiples of them as well",
        )
    return query.step


class PriorityStatsQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    topic: Annotated[TopicName | None, Meta(description="Only this topic. Default: all that are in use.")] = None
    group: Annotated[TopicName | None, Meta(description="Ready, in flight and waiting in this group.")] = None


class PriorityLaneJson(Struct, kw_only=True):
    """One priority of one partition. Totals count from the start of the broker."""

    ready: Annotated[
        int, Meta(description="Messages to deliver, in the group with the most; without groups, all messages.")
    ]
    in_flight: int
    waiting: Annotated[int, Meta(description="Waiting for a retry.")]
    enqueued: int
    dequeued: int
    last_served: Annotated[str | None, Meta(description="Last delivery to a group.")]
    avg_wait_time: Annotated[
        float, Meta(description="Seconds from append to lease, of the first message of each lease.")
    ]


class PriorityStatsResponse(Struct, kw_only=True):
    messages_by_priority: Annotated[
        dict[str, int], Meta(description="Appended to these topics since the broker started.")
    ]
    avg_wait_time_by_priority: Annotated[dict[str, float], Meta(description="In seconds, over all topics.")]
    topics: Annotated[
        dict[str, dict[str, dict[str, PriorityLaneJson]]], Meta(description="By topic, partition and priority.")
    ]


async def priority_stats(call: ApiCall, query: PriorityStatsQuery) -> PriorityStatsResponse:
    broker, slices = call.runtime.broker, TimeSlices()
    if query.group is not None:
        call.access.require("describe", "group", query.group)
        broker.groups.of(query.group).membership.group(query.group)  # refused where there is none
    if query.topic is not None:
        call.access.require("describe", "topic", query.topic)
    names = [query.topic] if query.topic is not None else [name for name in broker.topics if not is_internal(name)]
    names = call.access.described("topic", names)
    messages = dict.fromkeys(PRIORITIES, 0)
    found: dict[str, dict[str, dict[str, PriorityLaneJson]]] = {}
    for name in names:
        for partition in broker.topic(name).partitions if query.topic is not None or name in broker.topics else ():
            await slices.rest()
            if partition.log.is_closed or (query.topic is None and not partition.log.size):
                continue
            numbers = await call.runtime.perform(
                lane_counts(broker.groups, broker.groups.totals.deliveries, partition, query.group)
            )
            lanes = dict(zip(PRIORITIES, map(_shown, numbers), strict=True))
            found.setdefault(name, {})[str(partition.number)] = lanes
            for priority, lane in lanes.items():
                messages[priority] += lane.enqueued
    totals = zip(PRIORITIES, broker.groups.totals.deliveries.totals, strict=True)
    waits = {priority: round(served.wait_seconds, 6) for priority, served in totals}
    return PriorityStatsResponse(messages_by_priority=messages, avg_wait_time_by_priority=waits, topics=found)


def _shown(numbers: LaneCounts) -> PriorityLaneJson:
    served = numbers.delivered
    return PriorityLaneJson(
        ready=numbers.ready,
        in_flight=numbers.in_flight,
        waiting=numbers.waiting,
        enqueued=numbers.enqueued,
        dequeued=served.messages if served is not None else 0,
        last_served=format_time(served.last_ns) if served is not None and served.last_ns else None,
        avg_wait_time=round(served.wait_seconds, 6) if served is not None else 0.0,
    )


class ReliabilityStatsResponse(Struct, kw_only=True):
    """Totals since the broker started, and current numbers."""

    acks_total: int
    nacks_total: int
    rejects_total: int
    releases_total: int
    expiries_total: int
    dlq_messages: int
    dropped_total: Annotated[int, Meta(description="Given up where there is no dead-letter topic.")]
    visibility_extensions: int
    in_flight: Annotated[int, Meta(description="Messages in flight.")]
    waiting: Annotated[int, Meta(description="Messages that wait for a retry.")]
    pledged: Annotated[int, Meta(description="Messages acknowledged in transactions that are still open.")]
    oldest_unacked_seconds: Annotated[float, Meta(description="Age of the oldest lease.")]


async def reliability_stats(call: ApiCall) -> ReliabilityStatsResponse:
    groups = call.runtime.broker.groups
    counts, now_ns = groups.totals.settled, groups.clock.now_ns()
    in_flight = waiting = pledged = 0
    oldest_ns = now_ns
    for cursor in groups.all_cursors():
        in_flight += cursor.leased
        waiting += cursor.waiting.count
        pledged += cursor.transactional.count
        oldest_ns = min([oldest_ns, *(lease.grant.given_ns for lease in cursor.leases.values())])
    return ReliabilityStatsResponse(
        acks_total=counts.acks,
        nacks_total=counts.nacks,
        rejects_total=counts.rejects,
        releases_total=counts.releases,
        expiries_total=counts.expiries,
        dlq_messages=counts.dead_letters,
        dropped_total=counts.drops,
        visibility_extensions=counts.extensions,
        in_flight=in_flight,
        waiting=waiting,
        pledged=pledged,
        oldest_unacked_seconds=round((now_ns - oldest_ns) / NANOSECONDS, 3),
    )


class WheelLevelJson(Struct):
    level: int
    tick_ms: float
    slots: int
    entries: int


class DelayStatsResponse(Struct, kw_only=True):
    pending_count: int
    delivered_count: int
    cancelled_count: int
    expired_count: int
    rescheduled_count: int
    avg_delay: Annotated[float | None, Meta(description="Average delay in seconds.")]
    late_p50: Annotated[float | None, Meta(description="Lateness of the last 10,000 messages in seconds.")]
    late_p99: float | None
    next_due: str | None
    wheel: list[WheelLevelJson]
    parked: Annotated[int, Meta(description="Too far ahead for the timing wheel.")]
    topics: Annotated[dict[str, int], Meta(description="Pending messages by topic.")]


async def delay_stats(call: ApiCall) -> DelayStatsResponse:
    deliveries = list(call.runtime.broker.delay_scheduler.led())
    all_delays = [delivery.delays for delivery in deliveries]
    counts = [sum(one.schedule.counts[state] for one in all_delays) for state in range(len(STATES))]
    scheduled = sum(one.scheduled for one in all_delays)
    late = call.runtime.broker.delay_scheduler.lateness()
    standing = await call.runtime.perform(queries.summarize_delays(all_delays, call.runtime.clock.now_ns()))
    return DelayStatsResponse(
        pending_count=counts[0],
        delivered_count=counts[1],
        cancelled_count=counts[2],
        expired_count=counts[3],
        rescheduled_count=sum(one.schedule.rescheduled for one in all_delays),
        avg_delay=sum(one.ahead_seconds for one in all_delays) / scheduled if scheduled else None,
        late_p50=late[0],
        late_p99=late[1],
        next_due=None if standing.next_due_ns is None else format_time(standing.next_due_ns),
        wheel=_levels(deliveries),
        parked=standing.parked,
        topics={name: count for name, count in call.runtime.broker.delay_scheduler.pending().items() if count},
    )


def _levels(deliveries: list[PartitionDelivery]) -> list[WheelLevelJson]:
    """Sum the levels of all timing wheels."""
    levels = [delivery.delays.wheel.levels() for delivery in deliveries] or [TimingWheel(0).levels()]
    return [
        WheelLevelJson(number, tick_ns / 1e6, slots, sum(one[number][2] for one in levels))
        for number, (tick_ns, slots, _) in enumerate(levels[0])
    ]
