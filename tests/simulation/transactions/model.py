"""The naive model of transactions: what clients asked for, what they were told, and what readers have seen.

It outlives crashes, as clients do. Every value is used once, so one that is seen twice was stored twice. A tick is one
step of a life: what was answered at one tick must show in what is asked for at a later one.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.limits import EPOCH_MAX

Outcome = Literal["commit", "abort"]


class Where(NamedTuple):
    """A partition, for as long as its topic lives."""

    topic: str
    number: int
    created_ns: int


@dataclass(eq=False)
class Place:
    """The messages that one partition owes to readers."""

    where: Where
    messages: list["Message"] = field(default_factory=list)
    was_compacted: bool = False
    may_expire: bool = False
    """Whether retention may have removed something."""
    read_to: int = 0
    """How far a reader of what is committed has come, who reads everything once."""

    def __repr__(self) -> str:
        return f"<{self.where.topic}/{self.where.number}>"


@dataclass(eq=False)
class Transaction:
    """A transaction as its producer knows it."""

    id: str
    whose: TransactionId
    messages: list["Message"] = field(default_factory=list)
    asked: set[Outcome] = field(default_factory=set)
    """How its producer wanted it to end, whatever the result."""
    counted: frozenset[int] | None = None
    """Of its members those whose messages are committed."""
    outcome: Outcome | None = None
    """Once it was answered, or seen."""
    known_at: int = 0
    """The tick at which it was."""

    @property
    def is_committed(self) -> bool:
        return self.outcome == "commit"

    def has_ended(self, outcome: Outcome, tick: int) -> None:
        """It was told so, or a client has seen it; from then on it is so for ever."""
        assert self.outcome in (None, outcome), f"what was decided stays so: {self} has ended with {outcome}"
        assert outcome == "abort" or "commit" in self.asked, f"no client has asked for it: {self} was committed"
        if self.outcome is None:
            self.outcome, self.known_at = outcome, tick

    def __repr__(self) -> str:
        return f"<transaction {self.whose} of {self.id}, {self.outcome or sorted(self.asked)}>"


@dataclass(eq=False)
class Message:
    """Its value is used once."""

    value: bytes
    key: bytes | None
    place: Place
    due_ns: int | None = None
    """Of one that waits for its time."""
    transaction: Transaction | None = None
    member: int | None = None
    """Who has written it for the producer."""
    offset: int | None = None
    """Where it was stored, once that was answered; of a delayed one in the delayed log."""
    is_owed: bool = False
    """Whether readers must see it, if its transaction is committed."""
    seen: int | None = None
    """Where readers see it."""

    @property
    def counts(self) -> bool:
        counted = self.transaction.counted if self.transaction is not None else None
        return counted is None or self.member is None or self.member in counted

    @property
    def is_hidden(self) -> bool:
        """Return whether no client may see it who reads what is committed."""
        one = self.transaction
        return one is not None and (one.outcome == "abort" or "commit" not in one.asked or not self.counts)

    @property
    def is_certain(self) -> bool:
        """Return whether every client has to see it."""
        is_committed = self.transaction is None or self.transaction.is_committed
        return self.is_owed and is_committed and self.counts

    def __repr__(self) -> str:
        return f"<{self.value[:12]!r} at {self.offset} of {self.place}, seen at {self.seen}, {self.transaction}>"


@dataclass
class Model:
    """Everything that clients know."""

    places: dict[Where, Place] = field(default_factory=dict)
    messages: dict[bytes, Message] = field(default_factory=dict)
    transactions: dict[TransactionId, Transaction] = field(default_factory=dict)
    latest: dict[str, TransactionId] = field(default_factory=dict)
    """The epoch that was given out last for each transactional id."""
    producers: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def place(self, where: Where) -> Place:
        return self.places.setdefault(where, Place(where))

    def given(self, name: str, whose: TransactionId, before: TransactionId | None) -> None:
        """An epoch was given out for a transactional id to a client who asked when there was another one."""
        latest = self.latest.get(name)
        if before is None or before.producer != whose.producer:
            if latest is None or latest.producer != whose.producer:
                self.new_producer(whose.producer)
        else:
            assert before.epoch < whose.epoch <= EPOCH_MAX, f"epochs rise: {name} had {before}, has {whose}"
        if latest is None or latest.producer != whose.producer or latest.epoch < whose.epoch:
            self.latest[name] = whose

    def new_producer(self, number: int) -> None:
        assert number not in self.producers, f"the producer id {number} was given twice"
        self.producers.add(number)

    def forget_unsynced(self) -> None:
        """Return what was answered before it was synced may be gone; what was committed is not."""
        for message in self.messages.values():
            if message.transaction is None or not message.transaction.is_committed:
                message.offset, message.is_owed, message.seen = None, False, None
        for place in self.places.values():
            place.read_to = 0
