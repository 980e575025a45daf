"""The search of a topic for delayed messages that were delivered to it."""

from functools import partial

import numpy as np

from goqueue.broker.core.delay_headers import delivered_origins
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Work
from goqueue.broker.delay.timing_wheel import NONE, Numbers
from goqueue.limits import READ_BYTES


def find_arrived(partition: Partition, offset: int, end: int) -> Work[Numbers]:
    """Return the delayed-log offsets of deliveries in this part of the topic, sorted."""
    arrived = [NONE]
    while (offset := max(offset, partition.earliest)) < end:
        read = yield from partition.read_uncommitted(offset, READ_BYTES, skip_damage=True)
        if not read.buffers:
            break
        arrived.append((yield partial(delivered_origins, read.buffers)))
        offset = read.next_offset
    return np.unique(np.concatenate(arrived))


def kept_end(partition: Partition) -> int:
    """Return the end of what the topic keeps whatever happens: later offsets may be given out again."""
    return min(partition.durable_end, partition.high_watermark)
