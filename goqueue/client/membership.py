"""The membership of a consumer: its partitions, and what answers mean for them. No threads, no sockets.

Changes are carried out as a sequence of steps: requests, callbacks (`CallbackStep`), and actions of the consumer
(`ConsumerAction`). The consumer runs them where it consumes, between two messages.

What must stay true:

- `on_revoked` is called before a partition is revoked, while its leases still hold. Then what was noted is sent, and
  only then the partition is revoked. `on_lost` is called when it is gone already.
- The generation that is sent is one whose assignment was seen.
"""

import enum
from collections.abc import Callable, Generator, Iterable
from typing import Any

import msgspec

from goqueue.client import member_requests
from goqueue.client.api_request import ApiRequest
from goqueue.client.lease_tracker import LeaseTracker
from goqueue.client.member_requests import AssignmentResult, HeartbeatResult, JoinResult, TopicPartition
from goqueue.errors import GenerationStale, GoQueueError, GroupNotFound, MemberUnknown
from goqueue.wire.leases import PollHead

ROUNDS_MAX = 10
"""The limit of assignment requests in a row; a later change is seen after some messages."""


class ConsumerAction(enum.Enum):
    COLLECT = "take the answer to the poll that is under way, if any"
    ABANDON = "drop the poll that is under way"
    SETTLE = "send what was noted, and wait until that is durable"


class CallbackStep(msgspec.Struct, frozen=True):
    """A callback to call, named by its option."""

    name: str
    partitions: list[TopicPartition]


Steps = Generator[ApiRequest[Any] | CallbackStep | ConsumerAction, Any, None]


class PendingChange(enum.IntEnum):
    """The change that the membership needs; a higher value includes the lower ones."""

    NOTHING = 0
    LOOK = 1
    """The assignment has changed."""
    JOIN = 2
    """It must join again; in an eager group all members do for each change."""
    BEGIN = 3
    """The broker does not know it: all its partitions are lost."""


class GroupMembership:
    """One member, from joining to leaving."""

    def __init__(
        self,
        group: str,
        fields: dict[str, Any],
        alert: Callable[[], None],
        *,
        cooperative: bool,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """`settings` are set for the whole group, only when the member is new: a rejoin leaves later changes alone."""
        self.group = group
        self.member_id: str | None = None
        self.generation = 0
        self.places: set[TopicPartition] = set()
        self.beat_seconds = 3.0
        self.want = PendingChange.BEGIN
        self._join_fields = fields
        self._settings = settings or {}
        self._alert = alert
        self._cooperative = cooperative

    def _wants(self, want: PendingChange) -> None:
        self.want = max(self.want, want)
        self._alert()

    # --- answers ---

    def heartbeat(self) -> ApiRequest[HeartbeatResult]:
        assert self.member_id is not None
        return member_requests.heartbeat(self.group, self.member_id, self.generation, cooperative=self._cooperative)

    @property
    def identity(self) -> tuple[str | None, int]:
        """The member id and the generation of requests sent now."""
        return self.member_id, self.generation

    def beat(self, identity: tuple[str | None, int], outcome: HeartbeatResult | GoQueueError) -> None:
        """Record the result of a heartbeat, unless the member has joined again since it was sent."""
        if identity != self.identity:
            return
        if isinstance(outcome, GoQueueError):
            self.refused(outcome)
        elif outcome.rebalance_required:
            self._wants(self._change)

    def polled(self, head: PollHead) -> None:
        if head.rebalance_required:
            self._wants(self._change)

    def refused(self, error: GoQueueError) -> bool:
        """Return whether an error concerns the membership, which then plans a change."""
        if isinstance(error, (MemberUnknown, GroupNotFound)):
            self._wants(PendingChange.BEGIN)
        elif isinstance(error, GenerationStale):
            self._wants(self._change)
        else:
            return False
        return True

    @property
    def _change(self) -> PendingChange:
        return PendingChange.LOOK if self._cooperative else PendingChange.JOIN

    # --- changes ---

    def attend(self, leases: LeaseTracker) -> Steps:
        """Carry out the pending changes. It may stop at any step, and starts again then."""
        while self.want is not PendingChange.NOTHING:
            want = self.want
            try:
                if want is PendingChange.LOOK:
                    yield from self._look(leases)
                else:
                    yield from self._join(leases)
            except (MemberUnknown, GroupNotFound):
                self._wants(want)
                if want is PendingChange.BEGIN:
                    raise
                self._wants(PendingChange.BEGIN)
            except BaseException:
                self._wants(want)
                raise

    def _look(self, leases: LeaseTracker) -> Steps:
        """Request the assignment, and revoke partitions, until none is left to revoke."""
        yield ConsumerAction.COLLECT
        assert self.member_id is not None
        done: set[TopicPartition] = set()
        for _ in range(ROUNDS_MAX):
            self.want = PendingChange.NOTHING
            leases.stats.assignments += 1
            found: AssignmentResult = yield member_requests.assignment(self.group, self.member_id)
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
                continue  # the revocation made a new generation
            self.generation = found.generation
            added = keeping - self.places
            self.places = keeping
            if added:
                yield _told("on_assigned", added)
            return

    def _give_up(self, leases: LeaseTracker, leaving: set[TopicPartition], generation: int) -> Steps:
        assert self.member_id is not None
        told = leaving & self.places
        if told:
            yield _told("on_revoked", told)
        yield ConsumerAction.SETTLE
        self.places -= leaving
        leases.drop(leaving)
        try:
            yield member_requests.revoke(self.group, self.member_id, generation, leaving)
        except GenerationStale:
            return  # it was taken meanwhile; the next assignment shows it

    def _join(self, leases: LeaseTracker) -> Steps:
        """Join, for the first time or again."""
        fields = self._join_fields
        if self.want is PendingChange.BEGIN:
            fields = fields | self._settings
            yield ConsumerAction.ABANDON
            yield from self._lose(leases)
        else:
            yield ConsumerAction.COLLECT
            if self.places:
                yield _told("on_revoked", self.places)
            leases.release_all()  # what was not settled
            yield ConsumerAction.SETTLE
            self.places = set()
            leases.drop()
        joined: JoinResult = yield member_requests.join(
            self.group, fields, self.member_id, cooperative=self._cooperative
        )
        leases.stats.assignments += 1
        self.member_id, self.generation = joined.member_id, joined.generation
        self.beat_seconds = joined.heartbeat_interval
        self.want = PendingChange.NOTHING
        self.places = set(joined.partitions)
        if self.places:
            yield _told("on_assigned", self.places)

    def _lose(self, leases: LeaseTracker) -> Steps:
        lost, self.places = self.places, set()
        leases.drop()
        if lost:
            yield _told("on_lost", lost)

    def give_up_all(self) -> list[TopicPartition]:
        """Return the partitions before leaving; none if the broker does not know the member."""
        going, self.places = self.places, set()
        return [] if self.want is PendingChange.BEGIN else sorted(going)

    def leave(self) -> ApiRequest[dict[str, Any]]:
        assert self.member_id is not None
        return member_requests.leave(self.group, self.member_id, cooperative=self._cooperative)


def _told(name: str, places: Iterable[TopicPartition]) -> CallbackStep:
    return CallbackStep(name, sorted(places))
