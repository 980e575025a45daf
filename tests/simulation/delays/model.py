"""The naive model of delayed messages: what clients asked for, what they were told, and what they have seen."""

from collections import Counter
from dataclasses import dataclass, field

from goqueue.broker.transactions.opened import End


@dataclass(eq=False)
class Begun:
    """A transaction of one producer in one delayed log, as a coordinator knows it whatever crashes."""

    partition: int
    producer: int
    sequence: int = 0
    decision: str = ""
    """`commit` or `abort`, once that cannot be changed any more."""
    is_ended: bool = False
    """Whether its marker was answered."""
    ended_ns: int = 0
    """The marker has this time, or an earlier one."""

    def give_up(self) -> None:
        """A batch is missing in it, or whoever wrote it does not go on."""
        self.decision = self.decision or "abort"

    @property
    def end(self) -> End:
        return End(self.producer, 0, self.decision == "commit")


@dataclass(eq=False)
class Scheduled:
    """One message; its value is used once."""

    value: bytes
    partition: int
    dues: set[int]
    """When it may be due: several while nobody knows what came of changing that."""
    asked_ns: int
    shifts: set[int] = field(default_factory=lambda: {0})
    """By how much it may have been shifted, from whatever it was due."""
    offset: int | None = None
    """In the delayed log, once that was answered."""
    is_refused: bool = False
    """Nobody needs to deliver it: it was refused, or nobody was told."""
    cancel: str = ""
    """`asked`, or `answered`."""
    is_hurried: bool = False
    """Somebody asked for it to be delivered at once."""
    seen: list[int] = field(default_factory=list)
    """Where it stands in the topic."""
    transaction: Begun | None = None

    @property
    def is_owed(self) -> bool:
        return self.offset is not None and self.cancel == "" and self.is_visible

    @property
    def is_visible(self) -> bool:
        """Whether everybody has to know of it."""
        return self.transaction is None or (self.transaction.is_ended and self.transaction.decision == "commit")

    @property
    def is_hidden(self) -> bool:
        """Whether nobody may know of it."""
        return self.transaction is not None and self.transaction.decision != "commit"

    def may_be_due(self, due_ns: int) -> bool:
        """What was committed later than it was due is due then."""
        if due_ns in self.dues:
            return True
        ended_ns, first_ns = self.transaction.ended_ns if self.transaction is not None else 0, min(self.dues)
        return any(first_ns < due_ns - shift <= ended_ns for shift in self.shifts)

    def __repr__(self) -> str:
        return (
            f"<{self.value!r} at {self.offset} of {self.partition}, due {sorted(self.dues)}, {self.cancel or 'owed'}>"
        )


@dataclass
class Model:
    """Everything that clients know."""

    messages: dict[bytes, Scheduled] = field(default_factory=dict)
    transactions: list[Begun] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def pending(self) -> list[Scheduled]:
        """Those that are owed and were not seen."""
        return [one for one in self.messages.values() if one.is_owed and not one.seen]

    def open(self, partition: int) -> list[Begun]:
        """Transactions of which it was not answered that they have ended."""
        return [one for one in self.transactions if one.partition == partition and not one.is_ended]

    def at(self, partition: int, offset: int) -> Scheduled | None:
        found = (one for one in self.messages.values() if (one.partition, one.offset) == (partition, offset))
        return next(found, None)
