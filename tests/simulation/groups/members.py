"""A member of a group, as its client sees it: what it was told, what it has in hand, and what it says of that."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.membership import JoinOptions
from goqueue.broker.groups.poll import PollOptions, PollResult
from goqueue.broker.groups.records import Group
from goqueue.broker.groups.settlement import SettleCommandReply, SettleCommandResult
from goqueue.clock import NANOSECONDS
from goqueue.errors import (
    DeadLetterFinal,
    GenerationStale,
    GoQueueError,
    GroupMismatch,
    GroupNotFound,
    LeaseExpired,
    MemberUnknown,
    OffsetOutOfRange,
    OperatorError,
    PartitionNotFound,
    PartitionNotOwned,
    TopicBusy,
    TopicNotFound,
    TransactionPending,
    TransientError,
)
from tests.simulation.groups.hands import Asked, Begun, Hand, begin
from tests.simulation.groups.model import Key
from tests.simulation.task import Task

if TYPE_CHECKING:
    from tests.simulation.groups.traffic import GroupTraffic

EXPECTED = (
    DeadLetterFinal,
    GenerationStale,
    GroupMismatch,
    GroupNotFound,
    LeaseExpired,
    MemberUnknown,
    OffsetOutOfRange,
    PartitionNotFound,
    PartitionNotOwned,
    TopicBusy,
    TopicNotFound,
    TransactionPending,
)
"""What a member may be told that did nothing wrong, or did not know better. The rest takes a disk that refuses."""


@dataclass(eq=False)
class Client:
    """Reads in one group, and joins again when it is told to."""

    world: "GroupTraffic"
    group: str
    options: dict[str, Any]
    """How the group works, as far as this client has a say in it."""
    name: str
    in_flight_max: int
    member: str | None = None
    generation: int = 0
    stale: int | None = None
    """A generation since which something was taken from it."""
    places: list[PartitionRef] = field(default_factory=list)
    partitions_to_revoke: list[PartitionRef] = field(default_factory=list)
    hands: list[Hand] = field(default_factory=list)
    polls: list[Task] = field(default_factory=list)
    is_joining: bool = False

    def tell(self, *words: object) -> None:
        self.world.tell("  ", self.member or self.name, "of", self.group, *words)

    def refused(self, what: str, error: GoQueueError) -> None:
        """Told that it is no member, it forgets that it was."""
        self.tell(what, "was refused:", error)
        self.world.counts[f"refused: {error.code}"] += 1
        if isinstance(error, MemberUnknown | GroupNotFound):
            self.forget()
        if not isinstance(error, EXPECTED):
            assert isinstance(error, OperatorError | TransientError), f"{what} was refused: {error!r}"
            self.world.refused(what, error)

    def forget(self) -> None:
        """Forget the membership; leases may still be settled."""
        self.member, self.stale, self.places, self.partitions_to_revoke = None, None, [], []

    def vanish(self) -> None:
        for poll in list(self.polls):
            poll.close()
        self.polls.clear()
        self.hands.clear()
        self.is_joining = False
        self.forget()

    def died(self) -> None:
        """The broker has: who waited for an answer of it waits no more."""
        self.is_joining = False
        self.polls.clear()

    # --- membership ---

    def learn(self, group: Group) -> None:
        """Return what it is told of its group."""
        self.world.groups.told(group)
        if self.member not in group.members:
            return
        places = group.partitions_to_process(self.member)
        owned = {*places, *group.partitions_to_revoke(self.member)}
        if group.generation > self.generation and {*self.places, *self.partitions_to_revoke} - owned:
            self.stale = self.generation
        if group.generation >= self.generation:
            self.generation, self.places = group.generation, places
            self.partitions_to_revoke = group.partitions_to_revoke(self.member)

    def join(self, topics: Sequence[str], session_seconds: float) -> None:
        world, life = self.world, self.world.lives
        options = JoinOptions(
            topics=tuple(topics),
            client_id=self.name,
            session_ns=round(session_seconds * NANOSECONDS),
            in_flight_max=self.in_flight_max,
            member_id=self.member,
            **self.options,
        )
        if options.start == "latest":
            world.groups.begin_late.add(self.group)

        def told(result: tuple[str, Group] | GoQueueError) -> None:
            assert world.lives == life, "who asked one process is not told by another"
            if not self.is_joining:  # it has vanished, and no client hears this
                return
            self.is_joining = False
            if isinstance(result, GoQueueError):
                self.refused("joining", result)
                return
            member, group = result
            if member != self.member:
                self.generation, self.stale = 0, None
            self.member = member
            self.tell("joined", group.generation, group.assignment.get(member))
            assert member in group.members, f"who joined is a member: {member} of {group}"
            self.learn(group)

        self.is_joining = True
        try:
            world.shards.of(self.group).membership.join(self.group, options, told)
        except GoQueueError as error:
            self.is_joining = False
            self.refused("joining", error)

    def heartbeat(self) -> None:
        if self.member is None:
            return
        try:
            group, _ = self.world.shards.of(self.group).membership.heartbeat(self.group, self.member, self.generation)
            self.learn(group)
        except GenerationStale as error:
            self.refused("a heartbeat", error)
            self.learn(self.world.shards.of(self.group).membership.assignment(self.group, self.member))
        except GoQueueError as error:
            self.refused("a heartbeat", error)

    def revoke(self) -> None:
        """Give up what is asked for, all or a part."""
        if self.member is None or not self.partitions_to_revoke:
            return
        places = self.partitions_to_revoke[: self.world.random.choice((1, 100))]

        def told(result: tuple[str, Group] | GoQueueError) -> None:
            if isinstance(result, GoQueueError):
                self.refused("giving up", result)
            elif result[0] == self.member:
                self.learn(result[1])

        try:
            membership = self.world.shards.of(self.group).membership
            membership.revoke(self.group, self.member, self.generation, places, told)
        except GoQueueError as error:
            self.refused("giving up", error)

    def leave(self) -> None:
        if self.member is None:
            return
        member = self.member

        def told(error: GoQueueError | None) -> None:
            if error is not None:
                self.refused("leaving", error)
            elif self.member == member:
                self.hands.clear()
                self.forget()

        try:
            self.world.shards.of(self.group).membership.leave(self.group, member, told)
        except GoQueueError as error:
            self.refused("leaving", error)

    # --- poll ---

    def poll(self, options: PollOptions, *, stale: bool = False) -> None:
        """Begin one; what it gives comes when all its jobs are done."""
        if self.member is None:
            return
        generation = self.stale if stale else self.generation
        if generation is None:
            return
        begun = begin(
            self.world, self.group, self.member, self.in_flight_max, in_order=self.options.get("order") == "key"
        )
        work = self.world.shards.of(self.group).polling.poll(self.group, self.member, generation, options)
        done = partial(self._handed, begun, stale)
        task = Task(self.world.world, f"poll of {self.member}", work, done, self._poll_refused)
        self.polls.append(task)
        task.step()

    def _poll_refused(self, error: GoQueueError) -> None:
        self.polls = [poll for poll in self.polls if not poll.is_over]
        self.refused("a poll", error)

    def _handed(self, begun: Begun, is_stale: bool, handed: PollResult) -> None:
        self.polls = [poll for poll in self.polls if not poll.is_over]
        assert not is_stale, f"a stale generation is refused: {self.member} of {self.group}"
        assert len({portion.grant.id for portion in handed.batches}) == len(handed.batches), "leases have names"
        hands = [hand for portion in handed.batches if (hand := begun.take(portion)) is not None]
        begun.check_limits(handed)
        self.world.counts["messages handed out"] += sum(len(hand.left) for hand in hands)
        if self.member == begun.member:
            self.hands += hands
            self.learn(handed.group)

    # --- settle ---

    def settle(self, asked: list[Asked]) -> None:
        """Say something of leases."""
        if self.member is None or not asked:
            return
        told = self._expect(asked)
        statements = [one.statement for one in asked]
        try:
            self.world.shards.of(self.group).settlement.settle(self.group, self.member, statements, told)
        except GoQueueError as error:
            told(error)

    def settle_receipts(self, asked: list[Asked]) -> None:
        """The same of single messages, each with its receipt."""
        told, first = self._expect(asked), asked[0].statement
        receipts = [one.hand.receipt(one.offsets[0]) for one in asked]
        try:
            self.world.shards.settle_receipts(receipts, None, first, told)
        except GoQueueError as error:
            told(error)

    def _expect(self, asked: list[Asked]) -> "_Told":
        for one in asked:
            statement = one.statement
            self.tell(statement.action, statement.topic, statement.partition, statement.ranges, statement.lease[-6:])
            if statement.action == "ack":
                one.hand.progress.maybe.update(one.offsets)
        self.world.model.waiting += 1
        return _Told(self, asked, self.world.lives)

    def answered(self, asked: Asked, verdict: SettleCommandReply) -> None:
        """Return what came of one statement."""
        if isinstance(verdict, GoQueueError):
            self.refused(asked.statement.action, verdict)
            return
        self.tell(asked.statement.action, asked.statement.ranges, asked.statement.lease[-6:], "was answered")
        self.world.counts[f"{asked.statement.action} answered"] += 1
        if asked.statement.action != "extend":
            asked.hand.left -= set(asked.offsets)
        hand, tick = asked.hand, self.world.tick
        if asked.statement.action == "ack":
            hand.progress.finish(asked.offsets, hand.resets, tick)
        elif verdict.moved:
            dead = {offset for _, _, offset in verdict.moved}
            self.world.counts["dead letters"] += len(dead)
            hand.progress.finish(dead, hand.resets, tick)
            hand.progress.dead |= dead & hand.progress.done.keys()

    def commit(self, offsets: dict[Key, int]) -> None:
        if self.member is None:
            return
        groups, life = self.world.groups, self.world.lives
        resets = {key: groups.progress[key].resets for key in offsets}
        meant = {key: self._meant(key, offset) for key, offset in offsets.items()}
        for key, offset in offsets.items():
            groups.progress[key].maybe.update(
                one for one in range(offset) if not self._is_acked_in_transaction(key, one)
            )

        def told(error: GoQueueError | None) -> None:
            assert self.world.lives == life, "who asked one process is not told by another"
            self.world.model.waiting -= 1
            if error is not None:
                self.refused("a commit", error)
                return
            for key, done in meant.items():
                groups.progress[key].finish(done, resets[key], self.world.tick)

        self.world.model.waiting += 1
        try:
            by_place = {key.place: offset for key, offset in offsets.items()}
            self.world.shards.of(self.group).offsets.commit(self.group, self.member, self.generation, by_place, told)
        except GoQueueError as error:
            told(error)

    def _meant(self, key: Key, offset: int) -> list[int]:
        """Return what a commit is about; where lanes are read one by one, of what is below it what was handed out."""
        cursor = self.world.shards.cursor(self.group, key.place)
        owed = self.world.groups.progress[key].owed
        if cursor is None or cursor.heads is None or cursor.topic_ns != key.created_ns:
            return [one for one in range(offset) if not self._is_acked_in_transaction(key, one)]
        history = owed.history if owed is not None else {}
        heads = {one: cursor.heads[content.priority] for one, content in history.items() if one < offset}
        seen = [one for one in range(offset) if one < heads.get(one, cursor.unread)]
        return [one for one in seen if not self._is_acked_in_transaction(key, one)]

    def _is_acked_in_transaction(self, key: Key, offset: int) -> bool:
        """A commit passes around it."""
        cursor = self.world.shards.cursor(self.group, key.place)
        return cursor is not None and cursor.topic_ns == key.created_ns and offset in cursor.transactional


@dataclass(frozen=True)
class _Told:
    """Hears what came of some statements."""

    client: Client
    asked: list[Asked]
    life: int

    def __call__(self, result: list[SettleCommandReply] | GoQueueError) -> None:
        world = self.client.world
        assert world.lives == self.life, "who asked one process is not told by another"
        world.model.waiting -= 1
        if isinstance(result, GoQueueError):
            self.client.refused("settling", result)
            return
        assert len(result) == len(self.asked), "each statement has an answer"
        for asked, verdict in zip(self.asked, result, strict=True):
            assert isinstance(verdict, SettleCommandResult | GoQueueError)
            self.client.answered(asked, verdict)
