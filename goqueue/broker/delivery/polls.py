"""What a poll hands out: messages that are to be tried again first, then new ones, in leases of ranges.

A message whose next failure would be its last is handed out alone, to a member that has nothing else in hand: should
it take its consumer down, no other message has been tried in vain.

What must stay true: only the owner of a place is handed anything of it; nothing leaves before the leases are durable.
"""

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from goqueue.broker.delivery.changes import Committed, Grant, Leased, Place, Range, Retry
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.deadletter import Undertaker
from goqueue.broker.delivery.keys import KeyOrder
from goqueue.broker.delivery.rules import Rules
from goqueue.broker.delivery.settlement import Settlement
from goqueue.broker.delivery.slices import Slice, cut, without
from goqueue.broker.groups.group import Group
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.membership import Membership
from goqueue.broker.groups.presence import Presence
from goqueue.broker.groups.topics import Topics
from goqueue.broker.partition import Partition
from goqueue.broker.work import Promise, Work
from goqueue.clock import Clock
from goqueue.errors import GoQueueError, LogClosed, PartitionNotFound, TopicNotFound
from goqueue.limits import CURSOR_RUNS_MAX, OFFSET_MAX, POLL_LEASES_MAX

_ROOM = 2  # times what messages take on average: whoever wants few is not read much for
_NEW = Retry(0, 0, 0, 0)


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
class _Taking:
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


class Polls:
    """Hands messages out."""

    def __init__(
        self,
        ledger: Ledger,
        topics: Topics,
        clock: Clock,
        rules: Rules,
        membership: Membership,
        settlement: Settlement,
        undertaker: Undertaker,
    ) -> None:
        self._ledger = ledger
        self._topics = topics
        self._clock = clock
        self._rules = rules
        self._membership = membership
        self._settlement = settlement
        self._undertaker = undertaker
        self._keys = KeyOrder()
        self._busy: set[tuple[str, Place]] = set()
        """Places that a poll reads from: what it will hand out is not decided yet."""
        self._turned_away: set[tuple[str, Place]] = set()
        """Those of them that another poll would have taken from."""

    def poll(self, name: str, member: str, generation: int | None, wish: PollWish) -> Work[Handed]:
        """Messages for a member, if there are any now, once it is durable that it has them."""
        group, is_news = self._membership.heartbeat(name, member, generation)
        presence = self._membership.presence(name, member)
        places = group.to_work_on(member)
        in_hand = self._in_hand(name, group.assignment.get(member, ()))
        room = group.members[member].in_flight_max - in_hand
        presence.room_wanted = 0
        taking = _Taking(name, member, wish, min(room, wish.messages_max), wish.bytes_max)
        taking.is_held_up = room <= 0 or self._is_lone_in_hand(name, group.assignment.get(member, ()), in_hand)
        try:
            if not taking.is_held_up:
                yield from self._take_from(taking, places, presence, in_hand)
            if taking.portions:
                yield self._durable(name)
                self._drop_lost(taking)
        except (GeneratorExit, GoQueueError):  # whoever does not wait for them, or is not told of them
            self._give_back(taking)
            raise
        if taking.failure is not None and not taking.portions:
            raise taking.failure
        group = self._ledger.durable_group(name) or self._membership.group(name)
        in_hand = self._in_hand(name, group.assignment.get(member, ()))
        if in_hand and taking.is_held_up and member in group.members:
            limit = group.members[member].in_flight_max
            presence.room_wanted = max(1, min(wish.messages_max, limit // 4) - (limit - in_hand))
        is_urgent = is_news and presence.alerted < group.generation
        presence.alerted = group.generation if is_news else presence.alerted
        return Handed(group, taking.portions, is_news, is_urgent)

    def forget(self, group: str) -> None:
        """It is gone."""
        self._keys.forget(group)

    def _durable(self, name: str) -> Promise[None]:
        """Kept when nothing can take the leases back."""
        durable: Promise[None] = Promise()
        self._ledger.record(name, [], durable)
        return durable

    def _drop_lost(self, taking: _Taking) -> None:
        """Of leases that a disk has refused meanwhile, or somebody has taken back, nothing is handed out."""
        taking.portions = [one for one in taking.portions if self._ledger.lease(one.grant.id) is not None]

    def _give_back(self, taking: _Taking) -> None:
        with suppress(GoQueueError):  # a log that takes nothing now: they come back when their time is over
            for portion in taking.portions:
                self._settlement.give_back(portion.grant.id)

    def _in_hand(self, name: str, places: Iterable[Place]) -> int:
        cursors = self._ledger.cursors(name)
        return sum(cursors[place].leased for place in places if place in cursors)

    def _is_lone_in_hand(self, name: str, places: Iterable[Place], in_hand: int) -> bool:
        """Whether the member has a message that must be its only one."""
        cursors = self._ledger.cursors(name) if in_hand == 1 else {}
        return any(
            self._is_lone(place, lease.grant.failures)
            for place in places
            if place in cursors
            for lease in cursors[place].leases.values()
        )

    def _is_lone(self, place: Place, failures: int) -> bool:
        return self._rules.is_last(failures) and self._undertaker.may_bury(place[0])

    # --- taking ---

    def _take_from(self, taking: _Taking, places: list[Place], presence: Presence, in_hand: int) -> Work[None]:
        """From one place after the other, beginning behind the one that was served last."""
        presence.turn += 1
        taking.turn = presence.turn
        start = bisect_right(places, presence.served) if presence.served is not None else 0
        places = places[start:] + places[:start]
        order = [place for place in places if (taking.name, place) not in self._busy]
        self._turned_away |= {(taking.name, place) for place in places if (taking.name, place) in self._busy}
        taking.is_first = len(order) == len(places)
        lone = self._lone(taking.name, order)
        if lone is not None:
            if in_hand:
                taking.is_held_up = True
                return
            messages, taking.messages, taking.is_lone = taking.messages, min(1, taking.messages), True
            yield from self._exclusively(taking, lone)
            if taking.portions:
                return
            taking.messages, taking.is_lone = messages, False  # it is gone, or waits for an earlier one of its key
        for place in order:
            if taking.is_full:
                break
            yield from self._exclusively(taking, place)
        if taking.portions:
            presence.served = (taking.portions[-1].topic, taking.portions[-1].partition)

    def _exclusively(self, taking: _Taking, place: Place) -> Work[None]:
        """No other poll takes from this place until it is decided what this one has."""
        if (taking.name, place) in self._busy:
            self._turned_away.add((taking.name, place))
            return
        self._busy.add((taking.name, place))
        try:
            yield from self._take_at(taking, place)
        except (TopicNotFound, PartitionNotFound, LogClosed):
            return  # a rebalance follows that takes the place away
        except GoQueueError as error:  # others may have something
            taking.failure = error
        finally:
            self._busy.discard((taking.name, place))
            self._call_back(taking.name, place)

    def _call_back(self, name: str, place: Place) -> None:
        """Whoever was turned away from here may come again."""
        if (name, place) in self._turned_away:
            self._turned_away.discard((name, place))
            group = self._ledger.group(name)
            owner = group.owners().get(place) if group is not None else None
            if owner is not None:
                self._membership.presence(name, owner).wake()

    def _lone(self, name: str, places: Iterable[Place]) -> Place | None:
        """Where something is due that must be handed out alone."""
        now_ns = self._clock.now_ns()
        for place in places:
            cursor = self._ledger.cursor(name, place)
            if cursor is None or (due := cursor.next_due()) is None or due[0] > now_ns:
                continue
            retries = [due[2]]
            if self._ledger.ordered(name):  # there what is due goes by its offset
                retries = [retry for _, _, retry in cursor.waiting.runs() if retry.due_ns <= now_ns]
            if any(self._is_lone(place, retry.failures) for retry in retries):
                return place
        return None

    def _take_at(self, taking: _Taking, place: Place) -> Work[None]:
        """What is to be tried again, then what is new."""
        in_vain: tuple[Range, Retry] | None = None
        while not taking.is_full and (cursor := self._cursor(taking, place)) is not None:
            found = yield from self._next_retry(taking.name, cursor)
            if found is None or found == in_vain:
                break
            (first, end), retry = found
            if self._is_lone(place, retry.failures):
                if not taking.is_lone or taking.portions:
                    return
                end = first + 1
            if not (yield from self._take_range(taking, place, first, end, retry)):
                in_vain = found  # it has changed while it was read, or cannot be had
        if not taking.is_lone:
            yield from self._take_new(taking, place)

    def _take_new(self, taking: _Taking, place: Place) -> Work[None]:
        """Beyond what is gone, and what is held back, up to something that may be had."""
        portions, passed = len(taking.portions), -1
        while not taking.is_full and len(taking.portions) == portions:
            cursor = self._cursor(taking, place)
            if cursor is None or cursor.position == passed or self._is_crowded(cursor):
                return
            passed = cursor.position
            yield from self._take_range(taking, place, passed, OFFSET_MAX, None)

    def _is_crowded(self, cursor: Cursor) -> bool:
        """Whether there is so much to be done yet that nothing more is begun; keys are kept one by one."""
        waiting = cursor.waiting.count if self._ledger.ordered(cursor.group) else 0
        return max(cursor.run_count, waiting) >= CURSOR_RUNS_MAX

    def _next_retry(self, name: str, cursor: Cursor) -> Work[tuple[Range, Retry] | None]:
        if self._ledger.ordered(name):
            found = yield from self._keys.next_retry(cursor, self._partition(cursor.place), self._clock.now_ns())
            return found
        due = cursor.next_due()
        return None if due is None or due[0] > self._clock.now_ns() else (due[1], due[2])

    def _take_range(self, taking: _Taking, place: Place, first: int, end: int, retry: Retry | None) -> Work[bool]:
        """A lease of the first of these offsets, if they may be had. False: there is nothing more to be had here."""
        partition = self._partition(place)
        if first < partition.earliest:
            self._pass_over(taking.name, place, partition)
            return True
        if first >= partition.last_stable:
            return False
        size = min(taking.bytes, taking.messages * _ROOM * partition.message_bytes)
        read = yield from partition.read(first, size, skip_damage=taking.wish.skip_damage)
        dense = partition.is_dense(first, min(end, read.next_offset))
        content = cut(read, first, min(end, partition.last_stable), taking.messages, dense=dense)
        stretches, held = [content], list[Range]()
        if retry is None and self._ledger.ordered(taking.name) and (cursor := self._cursor(taking, place)) is not None:
            blocked = yield from self._keys.blocked(cursor, partition)
            stretches, held = without(content, blocked, POLL_LEASES_MAX)
        if content.end == first or not self._is_of_topic(taking, partition):
            return False
        if not self._may_have(taking, place, first, retry, sum(one.count for one in stretches)):
            return False
        gaps = [gap for one in stretches for gap in one.gaps]
        change = Leased(taking.name, *place, grants=[], held=held, gaps=gaps)
        for stretch in stretches:
            if stretch.count:
                grant = self._grant(taking, stretch, retry or _NEW)
                change.grants.append(grant)
                taking.add(Portion(*place, grant, stretch))
        self._ledger.record(taking.name, [change])
        self._settlement.attend(self._ledger.cursors(taking.name)[place])
        return retry is not None

    def _grant(self, taking: _Taking, content: Slice, tried: Retry) -> Grant:
        now_ns = self._clock.now_ns()
        return Grant(
            self._ledger.new_lease_id(taking.name),
            taking.member,
            content.first,
            content.end,
            tried.deliveries + 1,
            tried.failures,
            tried.first_ns,
            now_ns,
            now_ns + taking.wish.visibility_ns,
        )

    def _is_of_topic(self, taking: _Taking, partition: "Partition") -> bool:
        """The topic may have been deleted, and another one have its name; the group hears of that in a moment."""
        topic = self._topics.topics.get(partition.topic)
        if topic is None or partition not in topic.partitions:
            return False
        cursor = self._cursor(taking, (partition.topic, partition.number))
        return cursor is not None and cursor.topic_ns == topic.created_ns

    def _may_have(self, taking: _Taking, place: Place, first: int, retry: Retry | None, count: int) -> bool:
        """While it was read, the place may have gone to somebody else, or on."""
        group, cursor = self._ledger.group(taking.name), self._cursor(taking, place)
        if group is None or cursor is None or place not in group.to_work_on(taking.member):
            return False
        is_last = self._membership.presence(taking.name, taking.member).turn == taking.turn
        if not (taking.is_first and is_last) and not self._has_room(taking, group, count):
            return False
        if retry is None:
            return cursor.position == first
        run = cursor.waiting.run_at(first)
        return run is not None and run[2] == retry

    def _has_room(self, taking: _Taking, group: Group, count: int) -> bool:
        """Another poll of the same member is under way, or was: what that one took is in its hand too."""
        places = group.assignment[taking.member]
        in_hand = self._in_hand(taking.name, places)
        if self._is_lone_in_hand(taking.name, places, in_hand) or (taking.is_lone and in_hand):
            return False
        return in_hand + count <= group.members[taking.member].in_flight_max

    def _cursor(self, taking: _Taking, place: Place) -> Cursor | None:
        return self._ledger.cursor(taking.name, place)

    def _partition(self, place: Place) -> Partition:
        return self._topics.topic(place[0]).partition(place[1])

    def _pass_over(self, name: str, place: Place, partition: Partition) -> None:
        """Retention was quicker than the group: what it has not done is gone, and that is counted."""
        cursor = self._ledger.cursors(name)[place]
        earliest = partition.earliest
        unseen = max(0, earliest - max(cursor.position, cursor.floor))
        waiting = sum(end - first for first, end, _ in cursor.waiting.within(0, earliest))
        self._ledger.record(name, [Committed(name, *place, floor=earliest, lost=unseen + waiting)])
