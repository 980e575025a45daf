"""What the broker sees of members and forgets with its own end: signs of life, who waits, who is about to join.

Nothing of it is recorded. After a restart every member has its whole session to show itself again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from goqueue.broker.delivery.changes import Place
from goqueue.broker.groups.group import Group, Member, Reason
from goqueue.broker.groups.statistics import RebalanceStats
from goqueue.errors import GoQueueError, MemberUnknown
from goqueue.quantities import quoted

Joined = Callable[[tuple[str, Group] | GoQueueError], None]
"""Hears the member's id, and of the group with the member in it."""

Left = Callable[[GoQueueError | None], None]


def unknown_member(group: str, member: str) -> MemberUnknown:
    return MemberUnknown(
        f"{quoted(member)} is no member of group {quoted(group)}, or not any more", hint="join again", group=group
    )


@dataclass(slots=True)
class Presence:
    """One member."""

    seen_ns: int
    heard: int = 0
    """The latest generation that it was told of."""
    places: list[Place] = field(default_factory=list)
    """What it may work on."""
    changed: int = 0
    """The generation in which that changed last."""
    polls: int = 0
    """Requests that wait for messages now: whoever waits is alive."""
    alerted: int = 0
    """The generation because of which a poll of it ended early: one does so once."""
    asked_ns: int | None = None
    """Since when it is asked to give something up."""
    is_fenced: bool = False
    """It was told that its generation is stale: a join under its name is its return."""
    waiting: dict[Callable[[], None], None] = field(default_factory=dict)
    """To be called once when there may be something new for it."""
    room_wanted: int = 0
    """How many messages less it has to have in hand before it is worth while to wake it; 0 where that is not it."""
    turn: int = 0
    """How many polls of it there were."""
    served: Place | None = None
    """Where the last messages that it was handed came from: the one behind it is looked at first."""

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, {}
        for call in waiting:
            call()


@dataclass(slots=True)
class Meeting:
    """What gathers until the next rebalance of a group."""

    began_ns: int
    shape: Group | None = None
    """How the group is to work from now on, where nobody was in it."""
    joining: dict[str, Member] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    vanished: set[str] = field(default_factory=set)
    """Of those that leave, who did so without a word: what they had in hand has failed."""
    reasons: set[Reason] = field(default_factory=set)
    joined: list[tuple[str, Joined]] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


@dataclass(slots=True)
class Attendance:
    """One group."""

    members: dict[str, Presence] = field(default_factory=dict)
    heard_by_all: int = 0
    """A generation that every member has been told of."""
    meeting: Meeting | None = None
    parked: list[tuple[str, Joined]] = field(default_factory=list)
    """Members that joined and are told when everybody else has."""
    stats: RebalanceStats = field(default_factory=RebalanceStats)

    def presence(self, member: str, now_ns: int) -> Presence:
        found = self.members.get(member)
        if found is None:
            found = self.members[member] = Presence(now_ns)
        return found

    def wake(self) -> None:
        for presence in list(self.members.values()):
            presence.wake()
