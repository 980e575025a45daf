"""What may happen to a group's place in a partition: the records, and the values that they are made of.

The tag of a record is its name on disk. A field is only ever added, with a default; `docs/format.md` lists them.
"""

from itertools import accumulate
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from goqueue.broker.transactions.whose import Whose
from goqueue.storage.frame import NORMAL
from goqueue.storage.lanes import NO_LANE

Run = TypeVar("Run", bound=tuple[Any, ...])

Place = tuple[str, int]
"""A topic and the number of a partition."""

Range = tuple[int, int]
"""Offsets: the first, and the one behind the last."""


class Retry(NamedTuple):
    """Messages that were handed out, or held back, and wait to be handed out (again)."""

    deliveries: int
    failures: int
    first_ns: int
    """When they were handed out for the first time; 0 when they never were."""
    due_ns: int
    lane: int = NORMAL
    """`NO_LANE` where nobody has looked."""

    @property
    def turn(self) -> int:
        """The lane whose turn is theirs."""
        return NORMAL if self.lane == NO_LANE else self.lane


class Pledge(NamedTuple):
    """Messages that are done with if a transaction is committed, and how they stood before."""

    whose: Whose
    tried: Retry


class Grant(NamedTuple):
    """A lease as it was given: this range, to that member, until then, for the so-manieth time.

    Where messages of other lanes lie between, `runs` says which of the range are meant: so many, then so many not, and
    so on.
    """

    id: str
    member: str
    first: int
    end: int
    deliveries: int
    failures: int
    first_ns: int
    given_ns: int
    until_ns: int
    lane: int = NORMAL
    runs: tuple[int, ...] = ()

    @property
    def messages(self) -> int:
        """How many messages."""
        return sum(self.runs[::2]) if self.runs else self.end - self.first

    @property
    def tried(self) -> Retry:
        """How its messages stand once it is gone, to be had at once."""
        return Retry(self.deliveries, self.failures, self.first_ns or self.given_ns, 0, self.lane)

    def edges(self) -> tuple[list[int], list[int]]:
        """Where the ranges of its messages begin, and where they end."""
        edges = list(accumulate(self.runs, initial=self.first)) if self.runs else [self.first, self.end]
        return edges[::2], edges[1::2]

    def ranges(self) -> list[Range]:
        """Its messages."""
        return list(zip(*self.edges(), strict=True))


class Held(NamedTuple):
    """A lease as it stands: what is left of it, and until when."""

    grant: Grant
    left: list[Range]
    until_ns: int
    gaps: tuple[Range, ...] = ()
    """Of the grant's range, the offsets that were not leased with it, since they have no message or were held back."""


class Move(NamedTuple):
    """A message on its way to another topic. Whether it got there can be looked up from `since` on."""

    topic: str
    partition: int
    since: int
    """Where that partition ended when it was decided."""
    error: str
    deliveries: int
    first_ns: int
    last_ns: int


Departing = tuple[int, int, Move]
"""A range of messages that go the same way."""

Promised = tuple[int, int, Pledge]
"""A range of messages that one transaction has acknowledged."""


class Change(msgspec.Struct, frozen=True, tag_field="record", omit_defaults=True):
    """Whose place this is about."""

    group: str
    topic: str
    partition: int

    @property
    def place(self) -> Place:
        return self.topic, self.partition


class Opened(Change, frozen=True, tag="cursor_opened"):
    """The group begins to read here."""

    topic_ns: int
    """When the topic was created: one of the same name that is made later is another."""
    floor: int


class Stands(Change, frozen=True, tag="cursor_stands"):
    """All of it, so that nothing that was recorded before is needed any more.

    What would be too large for one record is told in several parts, one after the other, and holds with the last.
    """

    topic_ns: int
    floor: int
    position: int
    acked: list[Range] = []
    waiting: list[tuple[int, int, Retry]] = []
    leases: list[Held] = []
    moving: list[Departing] = []
    lost: int = 0
    heads: list[int] = []
    part: int = 0
    """How many parts of it came before this one."""
    more: bool = False
    """Whether another part follows."""
    pledged: list[Promised] = []

    def below(self, end: int) -> "Stands":
        """The same without anything from this offset on."""
        leases = [held._replace(left=_clipped(held.left, end)) for held in self.leases]
        return replace(
            self,
            floor=min(self.floor, end),
            position=min(self.position, end),
            heads=[min(head, end) for head in self.heads],
            acked=_clipped(self.acked, end),
            waiting=_clipped(self.waiting, end),
            leases=[held for held in leases if held.left],
            moving=_clipped(self.moving, end),
            pledged=_clipped(self.pledged, end),
        )


def _clipped(runs: list[Run], end: int) -> list[Run]:
    """What of these lies below this offset; each is a first offset, the one behind the last, and what is said of it."""
    return [cast(Run, (run[0], min(run[1], end), *run[2:])) for run in runs if run[0] < end]


class Leased(Change, frozen=True, tag="leased"):
    grants: list[Grant]
    held: list[Range] = []
    """Passed over, because an earlier message of the same key is not done yet."""
    gaps: list[Range] = []
    """Offsets of no message: there is nothing to be done about them."""
    heads: list[int] = []
    """Where the lanes are read one by one: the offset of each from which on nothing was handed out yet."""
    lane: int = NORMAL
    """Of what is held back."""


class Joined(Change, frozen=True, tag="lanes_joined"):
    """All lanes have been handed out up to here: from now on they are read as one again."""

    position: int


class Settled(Change, frozen=True, tag="settled"):
    """Done with: acknowledged, or in another topic now."""

    ranges: list[Range]
    lease: str | None = None


class Requeued(Change, frozen=True, tag="requeued"):
    """To be handed out again; with `failed` that counts against them."""

    lease: str
    ranges: list[Range]
    due_ns: int
    failed: bool = True


class Extended(Change, frozen=True, tag="extended"):
    lease: str
    until_ns: int


class Departed(Change, frozen=True, tag="departed"):
    """Messages are on their way to another topic."""

    moves: list[Departing]
    lease: str | None = None

    def offsets(self) -> list[int]:
        return [offset for first, end, _ in self.moves for offset in range(first, end)]


class Pledged(Change, frozen=True, tag="pledged"):
    """Done with if this transaction is committed, and nobody's until it has come to its end.

    Without a lease, all of these ranges that was handed out or waits is meant; and what was never handed out, unless
    lanes are read one by one.
    """

    whose: Whose
    ranges: list[Range]
    lease: str | None = None


class Redeemed(Change, frozen=True, tag="redeemed"):
    """A transaction has come to its end: what it pledged is done with, or to be handed out again.

    With `failed` the latter counts against what had been handed out.
    """

    whose: Whose
    is_commit: bool
    failed: bool = True
    due_ns: int = 0


class Committed(Change, frozen=True, tag="committed"):
    """Everything below is done with, whatever it was, but what is on its way to another topic, or pledged."""

    floor: int
    lost: int = 0
    """How many of them nobody had seen: retention was quicker."""


class Rewound(Change, frozen=True, tag="rewound"):
    """The group reads on from here, and what was known of it is forgotten."""

    floor: int


class Closed(Change, frozen=True, tag="cursor_closed"):
    """The topic is gone."""


CursorChange = (
    Opened
    | Stands
    | Leased
    | Joined
    | Settled
    | Requeued
    | Extended
    | Departed
    | Pledged
    | Redeemed
    | Committed
    | Rewound
    | Closed
)
