"""The leases of a member, and the invariants of every poll result."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.broker.groups.poll import LeasedBatch, PollResult
from goqueue.broker.groups.records import LeaseGrant, Range, RetryState
from goqueue.broker.groups.retries import DEAD_LETTER_SUFFIX
from goqueue.broker.groups.settle_commands import ReceiptHandle, SettleCommand
from goqueue.storage import frame
from tests.simulation.groups.checks import is_there
from tests.simulation.groups.model import Key, Progress
from tests.simulation.publishing.model import content_of

if TYPE_CHECKING:
    from tests.simulation.groups.traffic import GroupTraffic

Waiting = list[tuple[int, int, RetryState]]
"""What is to be tried again, or is held back."""


@dataclass(eq=False)
class Hand:
    """A lease as its member knows it."""

    key: Key
    progress: Progress
    resets: int
    grant: LeaseGrant
    messages: frozenset[int]
    """What came with it; the range of the lease may have other offsets."""
    left: set[int]

    @property
    def whole(self) -> Range:
        return self.grant.first, self.grant.end

    def receipt(self, offset: int) -> str:
        return str(ReceiptHandle(*self.key.place, offset, self.grant.deliveries, self.grant.id))


@dataclass(eq=False)
class Asked:
    """A settlement of one lease until its answer comes."""

    statement: SettleCommand
    hand: Hand

    @property
    def offsets(self) -> list[int]:
        """Return the offsets of messages in the ranges."""
        covered = (offset for first, end in self.statement.ranges for offset in range(first, end))
        return [offset for offset in covered if offset in self.hand.messages]


@dataclass(frozen=True)
class Begun:
    """A poll, and how things stood when it began."""

    world: "GroupTraffic"
    group: str
    member: str
    in_flight_max: int
    tick: int
    resets: dict[Key, int]
    created: dict[str, int]
    waiting: dict[Key, Waiting]
    """Where messages of a key keep their order."""

    def take(self, portion: LeasedBatch) -> Hand | None:
        """Look at everything that was handed out; None where the topic has gone meanwhile."""
        topic, grant = self.world.broker.topics.get(portion.topic), portion.grant
        if topic is None or topic.created_ns != self.created.get(portion.topic):
            return None
        key = Key(self.group, portion.topic, portion.partition, topic.created_ns)
        assert key in self.world.groups.progress, f"messages come of what was opened: {key}"
        progress, messages = self.world.groups.progress[key], _messages_of(portion)
        assert grant.member == self.member, f"a lease is of who polled: {grant}"
        offsets = [message.offset for message in messages]
        self.world.tell(
            "  ", self.member, "of", self.group, "has", *key.place, offsets, grant.deliveries, grant.id[-6:]
        )
        for message in messages:
            self._check(key, progress, message)
            if self.resets.get(key) == progress.resets and not progress.unsure:
                progress.hand_out(message.offset, grant.deliveries, self.tick, self.world.tick)
            progress.handed.add(message.offset)
        return Hand(key, progress, progress.resets, grant, frozenset(offsets), set(offsets))

    def _check(self, key: Key, progress: Progress, message: frame.StoredMessage) -> None:
        if progress.owed is None:
            return
        expected = progress.owed.history.get(message.offset)
        assert expected == content_of(message), f"what was published is handed out: {key} {message.offset}"
        cursor = self.world.shards.cursor(self.group, key.place)
        partition = self.world.broker.topics[key.topic].partitions[key.partition]
        for first, end, retry in self.waiting.get(key, ()) if message.key and cursor is not None else ():
            for offset in range(first, min(end, message.offset)):
                if progress.owed.history[offset].key == message.key and cursor is not None:
                    assert cursor.waiting.get(offset) != retry or not is_there(partition, offset), (
                        f"messages of a key keep their order: {key} {message.offset} came before {offset}, {retry}"
                    )

    def check_limits(self, handed: PollResult) -> None:
        """Return how much it may have in hand; and what is tried for the last time is alone.

        What was given back is in hand again when the disk refuses that: then it may be more.
        """
        cursors = self.world.shards.cursors(self.group)
        leases = [
            lease for one in cursors.values() for lease in one.leases.values() if lease.grant.member == self.member
        ]
        count = sum(lease.left.count for lease in leases)
        assert count <= self.in_flight_max or self.world.is_faulty, f"a member has a limit: {self.member} has {count}"
        for portion in handed.batches:
            is_last = portion.grant.failures >= self.world.retries_of(self.group)
            if is_last and not portion.topic.endswith(DEAD_LETTER_SUFFIX):
                assert portion.content.count == 1, f"a last chance is alone: {portion.grant}"
                assert len(handed.batches) == 1, f"a last chance is alone: {handed.batches}"
                assert count <= 1 or self.world.is_faulty, f"a last chance is alone: {leases}"


def begin(world: "GroupTraffic", group: str, member: str, in_flight_max: int, *, in_order: bool) -> Begun:
    cursors = world.shards.cursors(group) if in_order else {}
    return Begun(
        world,
        group,
        member,
        in_flight_max,
        world.tick,
        {key: progress.resets for key, progress in world.groups.of(group).items() if not progress.unsure},
        {name: topic.created_ns for name, topic in world.broker.topics.items()},
        {Key(group, *place, cursor.topic_ns): list(cursor.waiting.runs()) for place, cursor in cursors.items()},
    )


def _messages_of(portion: LeasedBatch) -> list[frame.StoredMessage]:
    grant, content = portion.grant, portion.content
    assert content.first <= grant.first < grant.end <= content.end, f"a lease is what comes with it: {grant}"
    messages = [frame.decode(one, position) for one in content.buffers for position in frame.walk(one)]
    left_out = {offset for first, end in content.gaps for offset in range(first, end)}
    meant = [offset for first, end in grant.ranges() for offset in range(first, end)]
    expected = [offset for offset in meant if offset not in left_out]
    assert {message.priority for message in messages} <= {grant.lane}, f"a lease is of one lane: {grant}"
    assert [message.offset for message in messages] == expected, f"offsets with a message have one: {grant}"
    return messages
