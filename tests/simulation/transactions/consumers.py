"""A member of a group that reads, and acknowledges by itself or in transactions of others."""

from dataclasses import dataclass, field

from goqueue.broker.delivery.changes import Grant
from goqueue.broker.delivery.claims import Statement, Verb
from goqueue.broker.delivery.receipt import Receipt
from goqueue.broker.delivery.settlement import Verdict
from goqueue.broker.delivery.taking import Handed, PollWish, Portion
from goqueue.broker.groups.group import Group
from goqueue.broker.groups.membership import Wish
from goqueue.broker.work import Promise
from goqueue.clock import NANOSECONDS
from goqueue.errors import (
    GenerationStale,
    GoQueueError,
    GroupNotFound,
    MemberUnknown,
    OffsetOutOfRange,
    PartitionNotOwned,
    TopicNotFound,
)
from goqueue.storage import frame
from tests.simulation.doing import Doing
from tests.simulation.transactions.model import Place, Pledge
from tests.simulation.transactions.producers import GONE, Incarnation
from tests.simulation.transactions.world import TOPICS, TransactionWorld

EXPECTED = (*GONE, GenerationStale, GroupNotFound, MemberUnknown, OffsetOutOfRange, PartitionNotOwned, TopicNotFound)


@dataclass(eq=False)
class Hand:
    """A lease as its member knows it."""

    place: Place
    grant: Grant
    left: set[int]

    def receipt(self, offset: int) -> str:
        where = self.place.where
        return str(Receipt(where.topic, where.number, offset, self.grant.deliveries, self.grant.id))


@dataclass(eq=False)
class Consumer:
    """Joins again when it is told that it is no member."""

    world: TransactionWorld
    group: str
    name: str
    member: str | None = None
    generation: int = 0
    hands: list[Hand] = field(default_factory=list)
    is_joining: bool = False
    is_polling: bool = False
    is_draining: bool = False

    def __post_init__(self) -> None:
        self.world.on_death.append(self._died)

    def _died(self) -> None:
        self.is_joining = self.is_polling = False
        if self.world.mode == "interval":  # a lease that is lost cannot be told from one that is done with
            self.hands.clear()

    def forget(self) -> None:
        self.member = None

    def refused(self, what: str, error: GoQueueError) -> None:
        self.world.tell("  ", what, "of", self.name, "was refused:", error)
        if isinstance(error, MemberUnknown | GroupNotFound | GenerationStale):
            self.forget()
        if not isinstance(error, EXPECTED):
            self.world.refused(what, error)

    def join(self, session_seconds: float) -> None:
        wish = Wish(
            topics=tuple(name for name in TOPICS if name in self.world.broker.topics),
            client_id=self.name,
            session_ns=round(session_seconds * NANOSECONDS),
            in_flight_max=1000,
            member_id=self.member,
        )
        life = self.world.lives

        def told(result: tuple[str, Group] | GoQueueError) -> None:
            assert self.world.lives == life, "who asked one process is not told by another"
            self.is_joining = False
            if isinstance(result, GoQueueError):
                self.refused("joining", result)
            else:
                self.member, self.generation = result[0], result[1].generation

        if not wish.topics:
            return
        self.is_joining = True
        try:
            self.world.broker.coordinator.membership.join(self.group, wish, told)
        except GoQueueError as error:
            self.is_joining = False
            self.refused("joining", error)

    def heartbeat(self) -> None:
        """And give up what is asked back."""
        assert self.member is not None
        membership = self.world.broker.coordinator.membership

        def told(result: tuple[str, Group] | GoQueueError) -> None:
            if isinstance(result, GoQueueError):
                self.refused("giving up", result)

        try:
            group, _ = membership.heartbeat(self.group, self.member, None)
            self.generation = max(self.generation, group.generation)
            if places := group.to_give_up(self.member):
                membership.give_up(self.group, self.member, self.generation, places, told)
        except GoQueueError as error:
            self.refused("a heartbeat", error)

    def poll(self, wish: PollWish) -> None:
        assert self.member is not None
        tick, self.is_polling = self.world.tick, True

        def handed(result: Handed) -> None:
            self.is_polling = False
            for portion in result.portions:
                self._take(portion, tick)
            self.generation = max(self.generation, result.group.generation)

        def refused(error: GoQueueError) -> None:
            self.is_polling = False
            self.refused("a poll", error)

        polls = self.world.broker.coordinator.polls
        Doing(
            self.world, f"poll of {self.name}", polls.poll(self.group, self.member, None, wish), handed, refused
        ).step()

    def _take(self, portion: Portion, tick: int) -> None:
        """What was handed out is committed, and neither done nor pledged."""
        topic = self.world.broker.topics.get(portion.topic)
        if topic is None:
            return
        place = self.world.place(topic.partitions[portion.partition])
        offsets = set[int]()
        for buffer in portion.content.buffers:
            for position in frame.walk(buffer):
                message = frame.decode(buffer, position)
                known = self.world.model.messages.get(message.value)
                if known is None or known.place is not place:  # of a topic that had this name before
                    continue
                assert not known.is_hidden, f"what is not committed is not handed out: {known}"
                offsets.add(message.offset)
        self.world.tell("  ", self.name, "of", self.group, "has", place, sorted(offsets))
        self._check(place, offsets, tick)
        self.hands.append(Hand(place, portion.grant, offsets))

    def _check(self, place: Place, offsets: set[int], tick: int) -> None:
        world, progress = self.world, self.world.model.of(self.group, place)
        done = {offset for offset in offsets if progress.acked.get(offset, tick) < tick}
        assert not done, f"what is done never comes back: {self.group} was handed {done} of {place}"
        for transaction, pledge in world.model.pledges(self.group, place):
            mine = pledge.offsets & offsets
            if not mine or pledge.answered_at is None or pledge.answered_at >= tick:
                continue
            is_before = transaction.is_committed and transaction.known_at < tick
            assert not is_before, f"what is committed never comes back: {mine} of {place}, {transaction}"
            record = world.transactions.register.by_id.get(transaction.id)
            is_open = record is not None and record.whose == transaction.whose and record.state == "ongoing"
            assert not is_open, f"what is pledged is nobody else's: {mine} of {place}, {transaction}"
        if self.is_draining:
            progress.drained |= offsets

    # --- what it says of messages ---

    def statement(self, verb: Verb, hand: Hand, offsets: set[int]) -> Statement:
        where = hand.place.where
        ranges = tuple((offset, offset + 1) for offset in sorted(offsets))
        return Statement(verb, where.topic, where.number, hand.grant.id, ranges, 0)

    def settle(self, verb: Verb, hand: Hand, offsets: set[int]) -> None:
        """By itself."""
        assert self.member is not None
        world, life, progress = self.world, self.world.lives, self.world.model.of(self.group, hand.place)
        if verb == "ack":
            progress.maybe |= offsets

        def told(result: list[Verdict] | GoQueueError) -> None:
            assert world.lives == life, "who asked one process is not told by another"
            if isinstance(result, GoQueueError):
                self.refused(verb, result)
            elif isinstance(result[0], GoQueueError):
                self.refused(verb, result[0])
            else:
                world.tell("  ", verb, sorted(offsets), "of", hand.place, "by", self.name, "was answered")
                hand.left -= offsets
                if verb == "ack":
                    for offset in offsets:
                        progress.acked.setdefault(offset, world.tick)

        try:
            settlement = world.broker.coordinator.settlement
            settlement.settle(self.group, self.member, [self.statement(verb, hand, offsets)], told)
        except GoQueueError as error:
            told(error)

    def pledge(self, producer: Incarnation, hand: Hand, offsets: set[int], *, by_receipts: bool) -> None:
        """In the transaction of a producer."""
        assert self.member is not None
        assert producer.whose is not None
        pledges, member, whose = self.world.broker.coordinator.pledges, self.member, producer.whose
        pledge = self._pledged(producer, hand.place, offsets)
        receipts = [hand.receipt(offset) for offset in sorted(offsets)]
        settled = set[int]()

        def ask(told: Promise[list[Verdict]]) -> None:
            settled.update(self.world.model.settled(self.group, hand.place, self.world.tick))
            if by_receipts:
                pledges.receipts(receipts, member, whose, told)
            else:
                pledges.acks(self.group, member, [self.statement("ack", hand, offsets)], whose, told)

        def answered(verdicts: list[Verdict]) -> None:
            taken = not any(isinstance(verdict, GoQueueError) for verdict in verdicts)
            for verdict in verdicts:
                if isinstance(verdict, GoQueueError):
                    self.refused("a pledge", verdict)
            if taken:
                twice = offsets & settled
                assert not twice, f"what is done is not pledged again: {twice} of {hand.place} by {whose}"
                pledge.answered_at = self.world.tick
                hand.left -= offsets

        groups = pledges.groups_of(receipts, whose) if by_receipts else [self.group]
        if groups:
            producer.pledge("pledge", groups, ask, answered)

    def pledge_offset(self, producer: Incarnation, place: Place, offset: int) -> None:
        """Everything below is done with when the transaction is; of what nobody was handed nobody knows the lane."""
        assert producer.whose is not None
        where, whose, coordinator = place.where, producer.whose, self.world.broker.coordinator
        cursor = coordinator.ledger.cursor(self.group, (where.topic, where.number))
        offsets = set(range(offset))
        if cursor is None or cursor.heads is not None or cursor.topic_ns != where.created_ns:
            self.world.model.of(self.group, place).maybe |= offsets
            offsets = set()
        pledge = self._pledged(producer, place, offsets)

        def ask(told: Promise[None]) -> None:
            if self.world.partition(where) is None:
                raise TopicNotFound("it was deleted meanwhile")
            standing = coordinator.ledger.cursor(self.group, (where.topic, where.number))
            if standing is None or standing.heads is not None or standing.topic_ns != where.created_ns:
                self.world.model.of(self.group, place).maybe |= offsets
                pledge.offsets = frozenset()
            coordinator.pledges.offsets(self.group, None, None, {(where.topic, where.number): offset}, whose, told)

        def answered(_: object) -> None:
            pledge.answered_at = self.world.tick

        producer.pledge("offsets", [self.group], ask, answered)

    def _pledged(self, producer: Incarnation, place: Place, offsets: set[int]) -> Pledge:
        pledge = Pledge(self.group, place, frozenset(offsets))
        producer.begun().pledges.append(pledge)
        return pledge
