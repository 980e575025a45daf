"""The delayed logs that this node publishes to or answers for: in a cluster, those of partitions that it leads."""

import asyncio
from functools import partial

from goqueue.api.endpoint import ApiCall
from goqueue.broker.core.partition import Partition
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.errors import LeaderUnavailable
from goqueue.quantities import quoted
from goqueue.runtime.deferred import Deferred
from goqueue.runtime.runner import completed_within

_BEGIN_SECONDS = 2.0
"""For a delayed log to be made and led."""

# --- publish ---


def delayed_log(call: ApiCall, partition: Partition) -> Partition:
    """Return the delayed log of a partition, which is made on first use."""
    if partition.leadership is not None:
        partition.leadership.refuse_unless_leader()
        call.app.refuse_before_level("delayed messages")
    return call.runtime.broker.scheduling(partition).delays.delayed_log


async def begin_delayed_log(call: ApiCall, partition: Partition) -> bool:
    """Wait a moment until a new delayed log is led here, in a cluster; return whether that took any time."""
    role, loop = partition.leadership, asyncio.get_running_loop()
    if role is None or not role.may_answer:
        return False
    began, has_waited = loop.time(), False
    while (log := delayed_log(call, partition).leadership) is not None and not log.is_leading:
        if (left := began + _BEGIN_SECONDS - loop.time()) <= 0:
            break
        woken, has_waited = Deferred[None](), True
        forget = delayed_log(call, partition).watch(partial(woken.resolve, None))
        try:
            await completed_within(woken, left)
        finally:
            forget()
    return has_waited


async def begun_delayed_log(call: ApiCall, partition: Partition) -> Partition:
    """Return the delayed log of a partition, which is led here by then, if it can be."""
    await begin_delayed_log(call, partition)
    return delayed_log(call, partition)


def transaction_log(call: ApiCall, partition: Partition, *, is_delayed: bool) -> Partition:
    """Return the log for a batch of a transaction. In a cluster the leader of the partition finds its delayed log."""
    return delayed_log(call, partition) if is_delayed and partition.leadership is None else partition


# --- ask and change ---


def deliveries_of(call: ApiCall, number: int | None = None) -> list[PartitionDelivery]:
    """Return the deliveries of a topic, or of one partition, that have delayed messages, to change them.

    In a cluster the leader of all of them answers.
    """
    topic = call.runtime.broker.topic(call.parameters["topic"])
    partitions = topic.partitions if number is None else [topic.partition(number)]
    found = [led_delivery(call, partition) for partition in partitions]
    return [delivery for delivery in found if delivery is not None]


def deliveries_shown(call: ApiCall, number: int | None = None) -> list[PartitionDelivery]:
    """Return them to show them: of one partition from its leader, of a topic from the replicas here."""
    topic, scheduler = call.runtime.broker.topic(call.parameters["topic"]), call.runtime.broker.delay_scheduler
    if number is not None or call.app.cluster is None:
        return deliveries_of(call, number)
    for partition in topic.partitions:
        if partition.leadership is not None:
            partition.leadership.refuse_unless_replica()
    return [found for partition in topic.partitions if (found := scheduler.delivery(partition)) is not None]


def led_delivery(call: ApiCall, partition: Partition) -> PartitionDelivery | None:
    """Return the delivery of a partition that is led here, if it has one. Raises NotLeader, LeaderUnavailable."""
    if partition.leadership is not None:
        partition.leadership.refuse_unless_leader()
    delivery = call.runtime.broker.delay_scheduler.delivery(partition)
    if delivery is not None and not delivery.delays.is_led:
        raise LeaderUnavailable(
            f"the leader of partition {partition.number} of topic {quoted(partition.topic)} is taking over its delayed "
            "messages",
            hint="retry in a moment",
            retry_after=1,
            topic=partition.topic,
            partition=partition.number,
        )
    return delivery
