"""Messages that a read hands out to a tenant: no more than its quotas allow, counted once they are answered."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from goqueue.api.endpoint import ApiCall
from goqueue.broker.core.partition import Partition
from goqueue.storage import frame, scan
from goqueue.storage.reads import ReadResult


@dataclass(slots=True)
class HandedOut:
    """Messages in an answer, and the bytes of their frames."""

    messages: int = 0
    size: int = 0

    def add(self, size: int) -> None:
        self.messages += 1
        self.size += size


@contextmanager
def handing_out(call: ApiCall, partition: Partition, messages: int, size: int) -> Iterator[HandedOut]:
    """Hold what may be handed out while an answer is made, and then count what it has."""
    handed, meter = HandedOut(), call.meter
    if meter is not None:
        meter.hold_consumed(messages, size)
    try:
        yield handed
    finally:
        if meter is not None:
            meter.release_consumed(messages, size)
    if not partition.log.is_closed:  # deleted meanwhile: its numbers are gone, and must not come back
        call.count_read(partition.topic, handed.messages, handed.size)


def count_messages(found: ReadResult) -> tuple[int, int]:
    """Return how many messages were found, without control records, and the bytes of their frames."""
    messages = size = 0
    for buffer in found.buffers:
        frames = scan.walk(buffer)
        lengths = frames.lengths[(frames.flags & frame.CONTROL) == 0]
        messages, size = messages + len(lengths), size + int(lengths.sum())
    return messages, size


def first_messages(found: ReadResult, messages: int, size: int) -> ReadResult:
    """Return the first of what was found, up to so many messages and bytes; one message at least."""
    kept, taken = list[memoryview](), 0
    for buffer in found.buffers:
        frames = scan.walk(buffer)
        places = np.flatnonzero((frames.flags & frame.CONTROL) == 0)
        ends = frames.positions[places] + frames.lengths[places]
        room = min(messages - taken, int(np.searchsorted(ends, size, "right")))
        room = max(room, 0 if taken else 1)
        if len(places) > room:
            first = int(places[room])
            end = int(frames.positions[first])
            return ReadResult((*kept, buffer[:end]) if end else tuple(kept), int(frames.offsets[first]), found.skipped)
        kept.append(buffer)
        taken, size = taken + len(places), size - len(buffer)
    return found
