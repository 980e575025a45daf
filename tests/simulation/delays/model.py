"""The naive model of delayed messages: what clients asked for, what they were told, and what they have seen."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(eq=False)
class Scheduled:
    """One message; its value is used once."""

    value: bytes
    partition: int
    dues: set[int]
    """When it may be due: several while nobody knows what came of changing that."""
    asked_ns: int
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

    @property
    def is_owed(self) -> bool:
        return self.offset is not None and self.cancel == ""

    def __repr__(self) -> str:
        return (
            f"<{self.value!r} at {self.offset} of {self.partition}, due {sorted(self.dues)}, {self.cancel or 'owed'}>"
        )


@dataclass
class Model:
    """Everything that clients know."""

    messages: dict[bytes, Scheduled] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def pending(self) -> list[Scheduled]:
        """Those that are owed and were not seen."""
        return [one for one in self.messages.values() if one.is_owed and not one.seen]

    def at(self, partition: int, offset: int) -> Scheduled | None:
        found = (one for one in self.messages.values() if (one.partition, one.offset) == (partition, offset))
        return next(found, None)
