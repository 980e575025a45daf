"""A history put in order: what was sent, what each log holds, and the way of each group and reader through each
partition, and of each transaction to its end.

It is made in one pass over the events in the order of time. What grows with the traffic is one entry for a message and
one for a delivery; redeliveries are kept apart, since they are few.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from goqueue.testing.history.events import (
    Aborted,
    Ack,
    Acked,
    Acking,
    Begun,
    Committed,
    Committing,
    Damaged,
    End,
    Event,
    Joined,
    Owned,
    Published,
    Publishing,
    Received,
    Rejected,
    Rejecting,
    Scheduled,
    Seen,
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
    pledged: list[Ack] = field(default_factory=list)
    """Acks that are part of transactions: sent or answered, they have their effect with the transaction."""
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


@dataclass(slots=True)
class Reading:
    """The way of a plain reader through one partition, while the run was under way."""

    reader: str
    topic: str
    partition: int
    seen: list[Seen] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(slots=True)
class Transaction:
    """What its producer did in it, and was told."""

    name: str
    sent: list[Publishing] = field(default_factory=list)
    asked: Committing | None = None
    """The first time that somebody was about to ask for its commit."""
    committed: Committed | None = None
    aborted: Aborted | None = None

    @property
    def outcome(self) -> Literal["committed", "aborted", "unknown"]:
        """What is aborted unless a commit was asked for; without an answer to that nobody knows."""
        if self.committed is not None:
            return "committed"
        return "aborted" if self.aborted is not None or self.asked is None else "unknown"

    def __str__(self) -> str:
        return self.name


class Run:
    """Everything that the rules look at."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = 0
        self.sent: dict[str, Publishing] = {}
        self.published: dict[tuple[str, str, int, int], Published] = {}
        """By value, topic, partition and offset."""
        self.scheduled: dict[str, Scheduled] = {}
        self.damaged: set[str] = set()
        """Values that may be missing."""
        self.places: dict[str, Stored] = {}
        """Where the log has a value."""
        self.stored_again: list[tuple[Stored, Stored]] = []
        """One value at two places."""
        self.logs: dict[tuple[str, int], Log] = {}
        self.tracks: dict[tuple[str, str, int], Track] = {}
        self.readings: dict[tuple[str, str, int], Reading] = {}
        self.transactions: dict[str, Transaction] = {}
        self.claims: dict[tuple[str, int, str, int], dict[str, Event]] = {}
        """By group, generation, topic and partition: of each member the first event that says it owned that."""
        take: dict[type[Event], Callable[[Any], None]] = {
            Publishing: self._publishing,
            Published: self._published,
            Scheduled: self._scheduled,
            Damaged: self._damaged,
            Received: self._received,
            Acking: self._tried,
            Acked: self._answered,
            Rejecting: self._tried,
            Rejected: self._answered,
            Joined: self._joined,
            Owned: self._owned,
            Begun: self._begun,
            Committing: self._committing,
            Committed: self._committed,
            Aborted: self._aborted,
            Seen: self._seen,
            Stored: self._stored,
            End: self._end,
            Settled: self._settled,
        }
        for event in sorted(events, key=in_order_of_time):
            self.events += 1
            if handler := take.get(type(event)):
                handler(event)

    def transaction_of(self, value_id: str) -> Transaction | None:
        """The one that a value was sent in."""
        sent = self.sent.get(value_id)
        return self.transactions[sent.transaction] if sent is not None and sent.transaction else None

    def is_read_out(self, topic: str) -> bool:
        """Whether the logs of a topic were read to their ends, all that are known."""
        logs = [log for log in self.logs.values() if log.topic == topic]
        return bool(logs) and all(log.end is not None for log in logs)

    @cached_property
    def answers(self) -> dict[str, Published]:
        """The first answer to each value: an index that is only made when something is wrong."""
        answers: dict[str, Published] = {}
        for answer in self.published.values():
            answers.setdefault(answer.value_id, answer)
        return answers

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

    def _transaction(self, name: str) -> Transaction:
        transaction = self.transactions.get(name)
        if transaction is None:
            transaction = self.transactions[name] = Transaction(name)
        return transaction

    def _claim(self, group: str, generation: int, topic: str, partition: int, member: str, event: Event) -> None:
        key = group, generation, topic, partition
        claims = self.claims.get(key)
        if claims is None:
            claims = self.claims[key] = {}
        if member not in claims:
            claims[member] = event

    def _publishing(self, event: Publishing) -> None:
        if self.sent.setdefault(event.value_id, event) is event and event.transaction:
            self._transaction(event.transaction).sent.append(event)

    def _published(self, event: Published) -> None:
        self.published.setdefault((event.value_id, event.topic, event.partition, event.offset), event)
        log = self._log(event.topic, event.partition)
        log.mentioned = log.mentioned or event

    def _scheduled(self, event: Scheduled) -> None:
        self.scheduled.setdefault(event.value_id, event)

    def _damaged(self, event: Damaged) -> None:
        self.damaged.add(event.value_id)

    def _received(self, event: Received) -> None:
        self._track(event.group, event.topic, event.partition, event).received.append(event)
        self._claim(event.group, event.generation, event.topic, event.partition, event.member, event)
        log = self._log(event.topic, event.partition)
        log.mentioned = log.mentioned or event

    def _tried(self, event: Acking | Rejecting) -> None:
        track = self._track(event.group, event.topic, event.partition, event)
        if isinstance(event, Acking) and event.transaction:
            self._pledged(track, event)
        else:
            track.tried.append(event)

    def _answered(self, event: Acked | Rejected) -> None:
        track = self._track(event.group, event.topic, event.partition, event)
        if isinstance(event, Acked) and event.transaction:
            self._pledged(track, event)
        else:
            track.answered.append(event)

    def _pledged(self, track: Track, event: Ack) -> None:
        self._transaction(event.transaction)
        track.pledged.append(event)

    def _joined(self, event: Joined) -> None:
        for topic, partition in event.assigned:
            self._track(event.group, topic, partition, event)
            self._claim(event.group, event.generation, topic, partition, event.member, event)

    def _owned(self, event: Owned) -> None:
        self._track(event.group, event.topic, event.partition, event)
        self._claim(event.group, event.generation, event.topic, event.partition, event.member, event)

    def _begun(self, event: Begun) -> None:
        self._transaction(event.transaction)

    def _committing(self, event: Committing) -> None:
        transaction = self._transaction(event.transaction)
        transaction.asked = transaction.asked or event

    def _committed(self, event: Committed) -> None:
        transaction = self._transaction(event.transaction)
        transaction.committed = transaction.committed or event

    def _aborted(self, event: Aborted) -> None:
        transaction = self._transaction(event.transaction)
        transaction.aborted = transaction.aborted or event

    def _seen(self, event: Seen) -> None:
        key = event.reader, event.topic, event.partition
        reading = self.readings.get(key)
        if reading is None:
            reading = self.readings[key] = Reading(*key)
        reading.seen.append(event)
        log = self._log(event.topic, event.partition)
        log.mentioned = log.mentioned or event

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
