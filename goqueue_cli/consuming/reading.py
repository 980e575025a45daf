"""Which messages of a topic are read: all, a stretch of them, or the newest, and how far a search has come."""

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
"""That a broker may be away before somebody who follows is told."""


@dataclass(slots=True)
class Reading:
    """One call's worth of reading. `wish` is what `client.reader` takes beside the topic."""

    client: Client
    topic: str
    wish: dict[str, Any]
    patience: float | None = None
    """How long to wait for a broker that went away while it was followed; None is for ever."""
    _readers: dict[tuple[tuple[int, ...], int], Reader] = field(default_factory=dict)

    @property
    def searches(self) -> bool:
        return bool(self.wish["filters"])

    @property
    def found(self) -> str:
        """How many messages the filters have let through, and of how many."""
        readers = list(self._readers.values())
        matched, scanned = sum(one.matched for one in readers), sum(one.scanned for one in readers)
        return f"matched {format_count(matched)} of {format_count(scanned)} scanned"

    def held_back(self) -> int:
        """How many messages of the chosen partitions are not seen because of open transactions."""
        chosen = self.wish["partitions"]
        places = [one for one in self.client.partitions(self.topic) if not chosen or one["partition"] in chosen]
        return sum(one["high_watermark"] - one["last_stable"] for one in places)

    def all(self) -> Batches:
        """What the wish says. An offset that no chosen partition has reached is refused, and not found to be empty."""
        start = self.wish["start"]
        if self.wish["partitions"] or type(start) is int:
            held = self._held()
            if type(start) is int and all(start > offsets.latest for offsets in held.values()):
                ends = ", ".join(
                    f"{self.topic}/{partition} at {offsets.latest}" for partition, offsets in list(held.items())[:5]
                )
                raise OffsetOutOfRange(
                    f"nothing is at offset {start} yet: {ends}{', …' if len(held) > 5 else ''} will go on",
                    hint="`--from latest --follow` waits for what comes, `--last 10` shows what came last",
                )
        yield from self._batches(self.wish)

    def last(self, count: int) -> Batches:
        """The newest messages of all partitions in the order of their times, and with `follow` what comes behind."""
        ends: dict[int, int] = {}
        newest: list[Message] = []
        for partition, held in self._held().items():
            ends[partition] = held.latest
            own = self.wish | {"partitions": [partition], "until": held.latest, "follow": False}
            newest += self._newest(own, held, count)
        newest.sort(key=lambda message: message.timestamp_ns)  # stable: each partition keeps its order
        for message in newest[max(0, len(newest) - count) :]:
            yield [message]
        if self.wish["follow"]:
            yield from self._batches(self.wish | {"partitions": list(ends), "start": ends})

    def _held(self) -> dict[int, Offsets]:
        """The offsets of the chosen partitions, or of all."""
        info = self.client.topic(self.topic)
        held: dict[int, Offsets] = {}
        for partition in self.wish["partitions"] or range(info.partitions):
            offsets = info.partition_offsets.get(str(partition))
            if offsets is None:
                count = (
                    f"it has {info.partitions}: 0 to {info.partitions - 1}" if info.partitions > 1 else "it has 0 alone"
                )
                raise PartitionNotFound(f"topic {self.topic} has no partition {partition}, {count}")
            held[partition] = offsets
        return held

    def _newest(self, wish: dict[str, Any], held: Offsets, count: int) -> Iterable[Message]:
        """The last messages of a partition. Where too few are found it looks further back, until there are enough."""
        count = min(count, held.latest - held.earliest)
        found: deque[Message] = deque(maxlen=count)
        reach = count
        while count:
            start = max(held.earliest, held.latest - reach)
            found.clear()
            for messages in self._batches(wish | {"start": start}):
                found.extend(messages)
            if len(found) == count or start == held.earliest:
                break
            reach *= 4
        return found

    def _batches(self, wish: dict[str, Any]) -> Batches:
        """What is followed goes on where it was when the broker comes back."""
        for returns in count():
            # Of a search that is repeated further back, the last time counts: it saw all that the others did.
            key = tuple(wish["partitions"] or ()), returns
            patience = _NOTICED_SECONDS if wish["follow"] else None
            with self.client.reader(self.topic, timeout=patience, **wish) as reader:
                self._readers[key] = reader
                try:
                    yield from reader.batches()
                except (BrokerUnreachable, BrokerStopping, RequestTimedOut) as error:
                    if not wish["follow"]:
                        raise
                    self._await_broker(error)
                    wish = wish | {"partitions": list(reader.positions), "start": reader.positions}
                else:
                    return

    def _await_broker(self, failure: GoQueueError) -> None:
        """Until it answers, or there was enough of it."""
        terminal.say(f"the broker is away, trying again: {failure.sentence}")
        began = time.monotonic()
        while True:
            try:
                self.client.topic(self.topic)
            except (BrokerUnreachable, BrokerStopping, RequestTimedOut):
                if self.patience is not None and time.monotonic() - began >= self.patience:
                    raise
            else:
                break
        terminal.say(f"the broker is back after {format_duration(round(time.monotonic() - began, 1))}")


def limited(batches: Batches, limit: int | None) -> Batches:
    """Up to `limit` messages; the one after them is not waited for."""
    if limit is None:
        yield from batches
        return
    while limit > 0:
        messages = next(batches, None)
        if messages is None:
            return
        yield messages[:limit]
        limit -= len(messages)
