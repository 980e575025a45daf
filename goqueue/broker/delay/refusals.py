"""What whoever asks about a delayed message is told when there is nothing to be done about it."""

from goqueue.broker.delay.schedule import STATES, Entry
from goqueue.broker.partition import Partition
from goqueue.errors import DelayedNotFound, DelayedNotPending


def not_found(partition: Partition, offset: int) -> DelayedNotFound:
    return DelayedNotFound(
        f"no message with the offset {offset} is scheduled in partition {partition.number} of {partition.topic}",
        hint="a message that was settled is forgotten after a while",
        topic=partition.topic,
        partition=partition.number,
        offset=offset,
    )


def not_pending(partition: Partition, entry: Entry) -> DelayedNotPending:
    state = STATES[entry.state]
    return DelayedNotPending(
        f"the message {entry.offset} in partition {partition.number} of {partition.topic} is {state}",
        hint="only a pending message can be changed",
        state=state,
        partition=partition.number,
        offset=entry.offset,
    )
