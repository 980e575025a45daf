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
    AbortedEvent,
    AckedEvent,
    AckEvent,
    AckSentEvent,
    BegunEvent,
    CommitSentEvent,
    CommittedEvent,
    DamagedEvent,
    EndEvent,
    Event,
    JoinedEvent,
    OwnedEvent,
    PublishedEvent,
    PublishSentEvent,
    ReceivedEvent,
    RejectedEvent,
    RejectSentEvent,
    ScheduledEvent,
    SeenEvent,
    SettledEvent,
    SettlementEvent,
    StoredEvent,
    in_order_of_time,
)


@dataclass(slots=True)
class LogHistory:
    """One partition as a plain read found it at the end."""

    topic: str
    partition: int
    stored: dict[int, StoredEvent] = field(default_factory=dict)
    changed: list[tuple[StoredEvent, StoredEvent]] = field(default_factory=list)
    """Two reads of one offset that found different values."""
    end: EndEvent | None = None
    """Without it the log was not read to its end, so that what was not found may be there."""
    mentioned: Event | None = None
    """The first publish or delivery that speaks of this log."""

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(slots=True)
class GroupHistory:
    """The way of a group through one partition."""

    group: str
    topic: str
    partition: int
    mentioned: Event
    """The event by which it is known that the group reads this partition."""
    received: list[ReceivedEvent] = field(default_factory=list)
    tried: list[SettlementEvent] = field(default_factory=list)
    """Acks and rejects that were sent: they may have had their effect."""
    answered: list[AckedEvent | RejectedEvent] = field(default_factory=list)
    """Those that certainly had."""
    acked_in_transaction: list[AckEvent] = field(default_factory=list)
    """Acks that are part of transactions: sent or answered, they have their effect with the transaction."""
    floors: list[SettledEvent] = field(default_factory=list)

    @property
    def floor(self) -> SettledEvent | None:
        return max(self.floors, key=lambda settled: settled.floor, default=None)

    def falls(self) -> list[tuple[SettledEvent, SettledEvent]]:
        """Floors that one process saw one after the other, the second below the first."""
        processes = {settled.process for settled in self.floors}
        seen = ([settled for settled in self.floors if settled.process == process] for process in sorted(processes))
        return [pair for floors in seen for pair in pairwise(floors) if pair[1].floor < pair[0].floor]

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(slots=True)
class ReaderHistory:
    """The way of a plain reader through one partition, while the run was under way."""

    reader: str
    topic: str
    partition: int
    seen: list[SeenEvent] = field(default_factory=list)


@dataclass(slots=True)
class TransactionHistory:
    """A transaction: its producer's requests and their answers."""

    name: str
    sent: list[PublishSentEvent] = field(default_factory=list)
    asked: CommitSentEvent | None = None
    """The first time that a client was about to ask for its commit."""
    committed: CommittedEvent | None = None
    aborted: AbortedEvent | None = None

    @property
    def outcome(self) -> Literal["committed", "aborted", "unknown"]:
        """Return what is aborted unless a commit was asked for; without an answer that is unknown."""
        if self.committed is not None:
            return "committed"
        return "aborted" if self.aborted is not None or self.asked is None else "unknown"

    def __str__(self) -> str:
        return self.name


class RunHistory:
    """Everything that the rules look at."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = 0
        self.sent: dict[str, PublishSentEvent] = {}
        self.published: dict[tuple[str, str, int, int], PublishedEvent] = {}
        """By value, topic, partition and offset."""
        self.scheduled: dict[str, ScheduledEvent] = {}
        self.damaged: set[str] = set()
        """Values that may be missing."""
        self.places: dict[str, StoredEvent] = {}
        """Where the log has a value."""
        self.stored_again: list[tuple[StoredEvent, StoredEvent]] = []
        """One value at two places."""
        self.logs: dict[tuple[str, int], LogHistory] = {}
        self.tracks: dict[tuple[str, str, int], GroupHistory] = {}
        self.readings: dict[tuple[str, str, int], ReaderHistory] = {}
        self.transactions: dict[str, TransactionHistory] = {}
        self.claims: dict[tuple[str, int, str, int], dict[str, Event]] = {}
        """By group, generation, topic and partition: of each member the first event that says it owned that."""
        take: dict[type[Event], Callable[[Any], object]] = {
            PublishSentEvent: self._publishing,
            PublishedEvent: self._published,
            ScheduledEvent: lambda event: self.scheduled.setdefault(event.value_id, event),
            DamagedEvent: lambda event: self.damaged.add(event.value_id),
            ReceivedEvent: self._received,
            AckSentEvent: self._settlement,
            AckedEvent: self._settlement,
            RejectSentEvent: self._settlement,
            RejectedEvent: self._settlement,
            JoinedEvent: self._joined,
            OwnedEvent: self._owned,
            BegunEvent: lambda event: self._transaction(event.transaction),
            CommitSentEvent: self._committing,
            CommittedEvent: self._committed,
            AbortedEvent: self._aborted,
            SeenEvent: self._seen,
            StoredEvent: self._stored,
            EndEvent: self._end,
            SettledEvent: self._settled,
        }
        for event in sorted(events, key=in_order_of_time):
            self.events += 1
            if handler := take.get(type(event)):
                handler(event)

    def transaction_of(self, value_id: str) -> TransactionHistory | None:
        """The one that a value was sent in."""
        sent = self.sent.get(value_id)
        return self.transactions[sent.transaction] if sent is not None and sent.transaction else None

    def is_read_out(self, topic: str) -> bool:
        """Return whether the logs of a topic were read to their ends, all that are known."""
        logs = [log for log in self.logs.values() if log.topic == topic]
        return bool(logs) and all(log.end is not None for log in logs)

    @cached_property
    def answers(self) -> dict[str, PublishedEvent]:
        """The first answer to each value: an index that is only made when something is wrong."""
        answers: dict[str, PublishedEvent] = {}
        for answer in self.published.values():
            answers.setdefault(answer.value_id, answer)
        return answers

    def _log(self, event: PublishedEvent | ReceivedEvent | SeenEvent | StoredEvent | EndEvent) -> LogHistory:
        log = self.logs.get((event.topic, event.partition))
        if log is None:
            log = self.logs[event.topic, event.partition] = LogHistory(event.topic, event.partition)
        if log.mentioned is None and not isinstance(event, EndEvent):
            log.mentioned = event
        return log

    def _track(self, group: str, topic: str, partition: int, event: Event) -> GroupHistory:
        track = self.tracks.get((group, topic, partition))
        if track is None:
            track = self.tracks[group, topic, partition] = GroupHistory(group, topic, partition, event)
        return track

    def _transaction(self, name: str) -> TransactionHistory:
        transaction = self.transactions.get(name)
        if transaction is None:
            transaction = self.transactions[name] = TransactionHistory(name)
        return transaction

    def _claim(self, group: str, generation: int, topic: str, partition: int, member: str, event: Event) -> None:
        key = group, generation, topic, partition
        claims = self.claims.get(key)
        if claims is None:
            claims = self.claims[key] = {}
        if member not in claims:
            claims[member] = event

    def _publishing(self, event: PublishSentEvent) -> None:
        if self.sent.setdefault(event.value_id, event) is event and event.transaction:
            self._transaction(event.transaction).sent.append(event)

    def _published(self, event: PublishedEvent) -> None:
        self.published.setdefault((event.value_id, event.topic, event.partition, event.offset), event)
        self._log(event)

    def _received(self, event: ReceivedEvent) -> None:
        self._track(event.group, event.topic, event.partition, event).received.append(event)
        self._claim(event.group, event.generation, event.topic, event.partition, event.member, event)
        self._log(event)

    def _settlement(self, event: AckSentEvent | AckedEvent | RejectSentEvent | RejectedEvent) -> None:
        track = self._track(event.group, event.topic, event.partition, event)
        if isinstance(event, AckEvent) and event.transaction:
            self._transaction(event.transaction)
            track.acked_in_transaction.append(event)
        elif isinstance(event, (AckedEvent, RejectedEvent)):
            track.answered.append(event)
        else:
            track.tried.append(event)

    def _joined(self, event: JoinedEvent) -> None:
        for topic, partition in event.assigned:
            self._track(event.group, topic, partition, event)
            self._claim(event.group, event.generation, topic, partition, event.member, event)

    def _owned(self, event: OwnedEvent) -> None:
        self._track(event.group, event.topic, event.partition, event)
        self._claim(event.group, event.generation, event.topic, event.partition, event.member, event)

    def _committing(self, event: CommitSentEvent) -> None:
        transaction = self._transaction(event.transaction)
        transaction.asked = transaction.asked or event

    def _committed(self, event: CommittedEvent) -> None:
        transaction = self._transaction(event.transaction)
        transaction.committed = transaction.committed or event

    def _aborted(self, event: AbortedEvent) -> None:
        transaction = self._transaction(event.transaction)
        transaction.aborted = transaction.aborted or event

    def _seen(self, event: SeenEvent) -> None:
        key = event.reader, event.topic, event.partition
        reading = self.readings.get(key)
        if reading is None:
            reading = self.readings[key] = ReaderHistory(*key)
        reading.seen.append(event)
        self._log(event)

    def _stored(self, event: StoredEvent) -> None:
        log = self._log(event)
        before = log.stored.setdefault(event.offset, event)
        if before.value_id != event.value_id:
            log.changed.append((before, event))
        elsewhere = self.places.setdefault(event.value_id, event)
        if before is event and elsewhere is not event:
            self.stored_again.append((elsewhere, event))

    def _end(self, event: EndEvent) -> None:
        self._log(event).end = event

    def _settled(self, event: SettledEvent) -> None:
        self._track(event.group, event.topic, event.partition, event).floors.append(event)
