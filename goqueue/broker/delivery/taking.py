"""A poll: what it asks for, what has been taken for it so far, and what it is handed."""

from dataclasses import dataclass, field

from goqueue.broker.delivery.changes import Grant
from goqueue.broker.delivery.slices import Slice
from goqueue.broker.groups.group import Group
from goqueue.errors import GoQueueError
from goqueue.limits import POLL_LEASES_MAX


@dataclass(frozen=True, slots=True)
class PollWish:
    """How much a member asks for, and for how long it wants it to itself."""

    messages_max: int
    bytes_max: int
    visibility_ns: int
    skip_damage: bool = False


@dataclass(frozen=True, slots=True)
class Portion:
    """One lease, with its messages."""

    topic: str
    partition: int
    grant: Grant
    content: Slice


@dataclass(slots=True)
class Handed:
    """What came of a poll."""

    group: Group
    portions: list[Portion] = field(default_factory=list)
    is_news: bool = False
    """Whether the member should look at its assignment."""
    is_urgent: bool = False
    """Whether it has not been told so yet: then it does not wait for messages."""


@dataclass(slots=True)
class Taking:
    """A poll under way."""

    name: str
    member: str
    wish: PollWish
    messages: int
    """How many more."""
    bytes: int
    portions: list[Portion] = field(default_factory=list)
    failure: GoQueueError | None = None
    is_lone: bool = False
    is_held_up: bool = False
    """Whether the member has to be done with something before it is handed more."""
    turn: int = 0
    is_first: bool = True
    """Whether no other poll of the member was under way when it began."""

    @property
    def is_full(self) -> bool:
        return self.messages <= 0 or self.bytes <= 0 or len(self.portions) >= POLL_LEASES_MAX

    def add(self, portion: Portion) -> None:
        self.portions.append(portion)
        self.messages -= portion.content.count
        self.bytes -= portion.content.size
