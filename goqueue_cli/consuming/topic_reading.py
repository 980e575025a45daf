"""Reading a topic: all messages, a range, or the newest, with the progress of a search."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from goqueue.client import Client, Message, Offsets, Reader
from goqueue.console import terminal
from goqueue.errors import (
    BrokerStopping,
    BrokerUnreachable,
    GoQueueError,
    OffsetOutOfRange,
    PartitionNotFound,
    RequestTimedOut,
)
from goqueue.quantities import format_count, format_duration

Batches = Iterator[list[Message]]

_NOTICED_SECONDS = 2.0
"""Time after which --follow reports that the broker is unreachable."""


@dataclass(slots=True)
class TopicReading:
    """The reading of one command. `options` are the arguments of `client.reader` besides the topic."""

    client: Client
    topic: str
    options: dict[str, Any]
    patience: float | None = None
    """Maximum time to wait for an unreachable broker with --follow; None waits without end."""
    _readers: dict[tuple[tuple[int, ...], int], Reader] = field(default_factory=dict)

    @property
    def searches(self) -> bool:
        return bool(self.options["filters"])

    @property
    def found(self) -> str:
        """Return how many messages matched the filters, and how many were scanned."""
        readers = list(self._readers.values())
        matched, scanned = sum(one.matched for one in readers), sum(one.scanned for one in readers)
        return f"matched {format_count(matched)} of {format_count(scanned)} scanned"

    def held_back(self) -> int:
        """Count the messages of the chosen partitions that open transactions hold back."""
        chosen = self.options["partitions"]
        places = [one for one in self.client.partitions(self.topic) if not chosen or one["partition"] in chosen]
        return sum(one["high_watermark"] - one["last_stable"] for one in places)

    def all(self) -> Batches:
        """Yield the chosen messages; a start offset beyond the end of all partitions is an error."""
        start = self.options["start"]
        if self.options["partitions"] or type(start) is int:
            held = self._held()
            if type(start) is int and all(start > offsets.latest for offsets in held.values()):
                ends = ", ".join(
                    f"{self.topic}/{partition} at {offsets.latest}" for partition, offsets in list(held.items())[:5]
                )
                raise OffsetOutOfRange(
                    f"no message at offset {start} yet: {ends}{', …' if len(held) > 5 else ''} is next",
                    hint="`--from latest --follow` waits for new messages, `--last 10` shows the newest",
                )
        yield from self._batches(self.options)

    def last(self, count: int) -> Batches:
        """Yield the newest messages of all partitions in the order of their times, and with `follow` the next ones."""
        ends: dict[int, int] = {}
        newest: list[Message] = []
        for partition, held in self._held().items():
            ends[partition] = held.latest
            own = self.options | {"partitions": [partition], "until": held.latest, "follow": False}
            newest += self._newest(own, held, count)
        newest.sort(key=lambda message: message.timestamp_ns)  # stable: each partition keeps its order
        for message in newest[max(0, len(newest) - count) :]:
            yield [message]
        if self.options["follow"]:
            yield from self._batches(self.options | {"start": ends})

    def _held(self) -> dict[int, Offsets]:
        """Return the offsets of the chosen partitions, or of all."""
        info = self.client.topic(self.topic)
        held: dict[int, Offsets] = {}
        for partition in self.options["partitions"] or range(info.partitions):
            offsets = info.partition_offsets.get(str(partition))
            if offsets is None:
                count = (
                    f"it has {info.partitions}: 0 to {info.partitions - 1}" if info.partitions > 1 else "it has 0 alone"
                )
                raise PartitionNotFound(f"topic {self.topic} has no partition {partition}, {count}")
            held[partition] = offsets
        return held

    def _newest(self, options: dict[str, Any], held: Offsets, count: int) -> Iterable[Message]:
        """Return the last messages of a partition; with filters, search further back until there are enough."""
        count = min(count, held.latest - held.earliest)
        found: deque[Message] = deque(maxlen=count)
        reach = count
        while count:
            start = max(held.earliest, held.latest - reach)
            found.clear()
            for messages in self._batches(options | {"start": start}):
                found.extend(messages)
            if len(found) == count or start == held.earliest:
                break
            reach *= 4
        return found

    def _batches(self, options: dict[str, Any]) -> Batches:
        """Yield batches; with `follow`, continue after an outage of the broker."""
        for returns in count():
            # If a search is repeated further back, the last one counts: it scanned all messages of the others.
            key = tuple(options["partitions"] or ()), returns
            patience = _NOTICED_SECONDS if options["follow"] else None
            with self.client.reader(self.topic, timeout=patience, **options) as reader:
                self._readers[key] = reader
                try:
                    yield from reader.batches()
                except (BrokerUnreachable, BrokerStopping, RequestTimedOut) as error:
                    if not options["follow"]:
                        raise
                    self._await_broker(error)
                    options = options | {"start": reader.positions}
                else:
                    return

    def _await_broker(self, failure: GoQueueError) -> None:
        """Wait until the broker answers, or the maximum time is over."""
        terminal.say(f"the broker is unreachable, retrying: {failure.sentence}")
        began = time.monotonic()
        while True:
            try:
                self.client.topic(self.topic)
            except (BrokerUnreachable, BrokerStopping, RequestTimedOut):
                if self.patience is not None and time.monotonic() - began >= self.patience:
                    raise
            else:
                break
        terminal.say(f"the broker answers again after {format_duration(round(time.monotonic() - began, 1))}")


def limited(batches: Batches, limit: int | None) -> Batches:
    """Yield up to `limit` messages, without waiting for the next one."""
    if limit is None:
        yield from batches
        return
    while limit > 0:
        messages = next(batches, None)
        if messages is None:
            return
        yield messages[:limit]
        limit -= len(messages)
