"""The refusals of requests for one delayed message."""

from goqueue.broker.core.partition import Partition
from goqueue.broker.delay.schedule import STATES, ScheduledMessage
from goqueue.errors import DelayedNotFound, DelayedNotPending


def delayed_not_found(partition: Partition, offset: int) -> DelayedNotFound:
    return DelayedNotFound(
        f"there is no delayed message with offset {offset} in partition {partition.number} of {partition.topic}",
        hint="delivered, cancelled and expired messages are removed after a while",
        topic=partition.topic,
        partition=partition.number,
        offset=offset,
    )


def delayed_not_pending(partition: Partition, entry: ScheduledMessage) -> DelayedNotPending:
    state = STATES[entry.state]
    return DelayedNotPending(
        f"the message {entry.offset} in partition {partition.number} of {partition.topic} is {state}",
        hint="only a pending message can be changed",
        state=state,
        partition=partition.number,
        offset=entry.offset,
    )
