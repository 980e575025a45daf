"""A history put in order: what was sent, what each log holds, and the way of each group through each partition.

It is made in one pass over the events in the order of time. What grows with the traffic is one entry for a message and
one for a delivery; redeliveries are kept apart, since they are few.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from goqueue.testing.history.events import (
    Acked,
    Acking,
    End,
    Event,
    Joined,
    Owned,
    Published,
    Publishing,
    Received,
    Rejected,
    Rejecting,
    Settled,
    Settling,
    Stored,
    in_order_of_time,
)


@dataclass(slots=True)
class Log:
    """One partition as a plain read found it at the end."""

    topic: str
    partition: int
    stored: dict[int, Stored] = field(default_factory=dict)
    changed: list[tuple[Stored, Stored]] = field(default_factory=list)
    """Two reads of one offset that found different values."""
    end: End | None = None
    """Without it the log was not read to its end, so that what was not found may be there."""
    mentioned: Event | None = None
    """The first publish or delivery that speaks of this log."""

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(slots=True)
class Track:
    """The way of a group through one partition."""

    group: str
    topic: str
    partition: int
    mentioned: Event
    """The event by which it is known that the group reads this partition."""
    received: list[Received] = field(default_factory=list)
    tried: list[Settling] = field(default_factory=list)
    """Acks and rejects that were sent: they may have had their effect."""
    answered: list[Acked | Rejected] = field(default_factory=list)
    """Those that certainly had."""
    floors: list[Settled] = field(default_factory=list)

    @property
    def floor(self) -> Settled | None:
        return max(self.floors, key=lambda settled: settled.floor, default=None)

    def falls(self) -> list[tuple[Settled, Settled]]:
        """Floors that one process saw one after the other, the second below the first."""
        processes = {settled.process for settled in self.floors}
        seen = ([settled for settled in self.floors if settled.process == process] for process in sorted(processes))
        return [pair for floors in seen for pair in pairwise(floors) if pair[1].floor < pair[0].floor]

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Run:
    """Everything that the rules look at."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = 0
        self.sent: dict[str, Publishing] = {}
        self.published: dict[tuple[str, str, int, int], Published] = {}
        """By value, topic, partition and offset."""
        self.places: dict[str, Stored] = {}
        """Where the log has a value."""
        self.stored_again: list[tuple[Stored, Stored]] = []
        """One value at two places."""
        self.logs: dict[tuple[str, int], Log] = {}
        self.tracks: dict[tuple[str, str, int], Track] = {}
        self.claims: dict[tuple[str, int, str, int], dict[str, Event]] = {}
        """By group, generation, topic and partition: of each member the first event that says it owned that."""
        take: dict[type[Event], Callable[[Any], None]] = {
            Publishing: self._publishing,
            Published: self._published,
            Received: self._received,
            Acking: self._tried,
            Acked: self._answered,
            Rejecting: self._tried,
            Rejected: self._answered,
            Joined: self._joined,
            Owned: self._owned,
            Stored: self._stored,
            End: self._end,
            Settled: self._settled,
        }
        for event in sorted(events, key=in_order_of_time):
            self.events += 1
            if handler := take.get(type(event)):
                handler(event)

    def _log(self, topic: str, partition: int) -> Log:
        log = self.logs.get((topic, partition))
        if log is None:
            log = self.logs[topic, partition] = Log(topic, partition)
        return log

    def _track(self, group: str, topic: str, partition: int, event: Event) -> Track:
        track = self.tracks.get((group, topic, partition))
        if track is None:
            track = self.tracks[group, topic, partition] = Track(group, topic, partition, event)
        return track

    def _claim(self, group: str, generation: int, topic: str, partition: int, member: str, event: Event) -> None:
        key = group, generation, topic, partition
        claims = self.claims.get(key)
        if claims is None:
            claims = self.claims[key] = {}
        if member not in claims:
            claims[member] = event

    def _publishing(self, event: Publishing) -> None:
        self.sent.setdefault(event.value_id, event)

    def _published(self, event: Published) -> None:
        self.published.setdefault((event.value_id, event.topic, event.partition, event.offset), event)
        log = self._log(event.topic, event.partition)
        log.mentioned = log.mentioned or event

    def _received(self, event: Received) -> None:
        self._track(event.group, event.topic, event.partition, event).received.append(event)
        self._claim(event.group, event.generation, event.topic, event.partition, event.member, event)
        log = self._log(event.topic, event.partition)
        log.mentioned = log.mentioned or event

    def _tried(self, event: Acking | Rejecting) -> None:
        self._track(event.group, event.topic, event.partition, event).tried.append(event)

    def _answered(self, event: Acked | Rejected) -> None:
        self._track(event.group, event.topic, event.partition, event).answered.append(event)

    def _joined(self, event: Joined) -> None:
        for topic, partition in event.assigned:
            self._track(event.group, topic, partition, event)
            self._claim(event.group, event.generation, topic, partition, event.member, event)

    def _owned(self, event: Owned) -> None:
        self._track(event.group, event.topic, event.partition, event)
        self._claim(event.group, event.generation, event.topic, event.partition, event.member, event)

    def _stored(self, event: Stored) -> None:
        log = self._log(event.topic, event.partition)
        log.mentioned = log.mentioned or event
        before = log.stored.setdefault(event.offset, event)
        if before.value_id != event.value_id:
            log.changed.append((before, event))
        elsewhere = self.places.setdefault(event.value_id, event)
        if before is event and elsewhere is not event:
            self.stored_again.append((elsewhere, event))

    def _end(self, event: End) -> None:
        self._log(event.topic, event.partition).end = event

    def _settled(self, event: Settled) -> None:
        self._track(event.group, event.topic, event.partition, event).floors.append(event)
