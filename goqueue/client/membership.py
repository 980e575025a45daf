"""A member of a group: which partitions it has, and what an answer means for them. No threads, no sockets.

What is to be done is a script. Its steps are calls, callbacks to make (`Told`), and errands that the shell carries
out (`Errand`). The shell runs it on the thread that consumes, between two messages.

What must stay true:

- `on_revoked` is told before a partition is given up, while the leases on it still hold; then what was noted is sent,
  and only then the partition goes. `on_lost` is told when it is gone already.
- The generation that is named is one whose assignment was seen.
"""

import enum
from collections.abc import Callable, Generator, Iterable
from typing import Any

import msgspec

from goqueue.client import polls
from goqueue.client.calls import Call
from goqueue.client.leases import Leases
from goqueue.client.polls import Assignment, Beat, Head, Joined, TopicPartition
from goqueue.errors import GenerationStale, GoQueueError, GroupNotFound, MemberUnknown

ROUNDS_MAX = 10
"""Looks at the assignment in a row; what changes still is looked at after some messages."""


class Errand(enum.Enum):
    COLLECT = "take the answer to the poll that is under way, if there is one"
    ABANDON = "forget the poll that is under way"
    SETTLE = "send what was noted, and wait until that is durable"


class Told(msgspec.Struct, frozen=True):
    """A callback to make, named by its option."""

    name: str
    partitions: list[TopicPartition]


Steps = Generator[Call[Any] | Told | Errand, Any, None]


class Want(enum.IntEnum):
    """What the membership needs; the higher includes the lower."""

    NOTHING = 0
    LOOK = 1
    """Its assignment has changed."""
    JOIN = 2
    """It is to join again; with an eager group everybody does for each change."""
    BEGIN = 3
    """The broker does not know it: whatever it had is lost."""


class Membership:
    """One member, from joining to leaving."""

    def __init__(self, group: str, wishes: dict[str, Any], alert: Callable[[], None], *, cooperative: bool) -> None:
        self.group = group
        self.member_id: str | None = None
        self.generation = 0
        self.places: set[TopicPartition] = set()
        self.beat_seconds = 3.0
        self.want = Want.BEGIN
        self._wishes = wishes
        self._alert = alert
        self._cooperative = cooperative

    def _wants(self, want: Want) -> None:
        self.want = max(self.want, want)
        self._alert()

    # --- what answers mean ---

    def heartbeat(self) -> Call[Beat]:
        assert self.member_id is not None
        return polls.heartbeat(self.group, self.member_id, self.generation, cooperative=self._cooperative)

    @property
    def spoken_as(self) -> tuple[str | None, int]:
        """Who says what is said now."""
        return self.member_id, self.generation

    def beat(self, spoken_as: tuple[str | None, int], outcome: Beat | GoQueueError) -> None:
        """What a heartbeat brought; who has joined again or looked since it was sent need not care."""
        if spoken_as != self.spoken_as:
            return
        if isinstance(outcome, GoQueueError):
            self.refused(outcome)
        elif outcome.rebalance_required:
            self._wants(self._change)

    def polled(self, head: Head) -> None:
        if head.rebalance_required:
            self._wants(self._change)

    def refused(self, error: GoQueueError) -> bool:
        """Whether an error is about the membership, which then knows what to do."""
        if isinstance(error, (MemberUnknown, GroupNotFound)):
            self._wants(Want.BEGIN)
        elif isinstance(error, GenerationStale):
            self._wants(self._change)
        else:
            return False
        return True

    @property
    def _change(self) -> Want:
        return Want.LOOK if self._cooperative else Want.JOIN

    # --- what is done about it ---

    def attend(self, leases: Leases) -> Steps:
        """Do what is needed. It may be broken off anywhere, and begins anew then."""
        while self.want is not Want.NOTHING:
            want = self.want
            try:
                if want is Want.LOOK:
                    yield from self._look(leases)
                else:
                    yield from self._join(leases)
            except (MemberUnknown, GroupNotFound):
                self._wants(want)
                if want is Want.BEGIN:
                    raise
                self._wants(Want.BEGIN)
            except BaseException:
                self._wants(want)
                raise

    def _look(self, leases: Leases) -> Steps:
        """Fetch the assignment, and give up what is to be given up, until nothing is."""
        yield Errand.COLLECT
        assert self.member_id is not None
        done: set[TopicPartition] = set()
        for _ in range(ROUNDS_MAX):
            self.want = Want.NOTHING
            leases.stats.assignments += 1
            found: Assignment = yield polls.assignment(self.group, self.member_id)
            leaving = set(found.partitions_to_revoke) - done
            keeping = set(found.partitions) - leaving - done
            lost = self.places - keeping - leaving
            if lost:
                self.places -= lost
                leases.drop(lost)
                yield _told("on_lost", lost)
            if leaving:
                yield from self._give_up(leases, leaving, found.generation)
                done |= leaving
                continue  # what was given up made a new generation
            self.generation = found.generation
            added = keeping - self.places
            self.places = keeping
            if added:
                yield _told("on_assigned", added)
            return

    def _give_up(self, leases: Leases, leaving: set[TopicPartition], generation: int) -> Steps:
        assert self.member_id is not None
        told = leaving & self.places
        if told:
            yield _told("on_revoked", told)
        yield Errand.SETTLE
        self.places -= leaving
        leases.drop(leaving)
        try:
            yield polls.revoke(self.group, self.member_id, generation, leaving)
        except GenerationStale:
            return  # it was taken meanwhile; the next look tells

    def _join(self, leases: Leases) -> Steps:
        """Join, for the first time or again."""
        if self.want is Want.BEGIN:
            yield Errand.ABANDON
            yield from self._lose(leases)
        else:
            yield Errand.COLLECT
            if self.places:
                yield _told("on_revoked", self.places)
            leases.release_all()  # of which nothing was said
            yield Errand.SETTLE
            self.places = set()
            leases.drop()
        joined: Joined = yield polls.join(self.group, self._wishes, self.member_id, cooperative=self._cooperative)
        leases.stats.assignments += 1
        self.member_id, self.generation = joined.member_id, joined.generation
        self.beat_seconds = joined.heartbeat_interval
        self.want = Want.NOTHING
        self.places = set(joined.partitions)
        if self.places:
            yield _told("on_assigned", self.places)

    def _lose(self, leases: Leases) -> Steps:
        lost, self.places = self.places, set()
        leases.drop()
        if lost:
            yield _told("on_lost", lost)

    def give_up_all(self) -> list[TopicPartition]:
        """What it had until now, before it leaves; nothing where the broker does not know it any more."""
        going, self.places = self.places, set()
        return [] if self.want is Want.BEGIN else sorted(going)

    def leave(self) -> Call[dict[str, Any]]:
        assert self.member_id is not None
        return polls.leave(self.group, self.member_id, cooperative=self._cooperative)


def _told(name: str, places: Iterable[TopicPartition]) -> Told:
    return Told(name, sorted(places))
