"""Lends messages of a place to a poll: reads them, decides, and records the lease.

What must stay true: between the reading and the decision nothing has happened that the decision does not look at.
"""

from collections.abc import Iterable
from itertools import pairwise

from goqueue.broker.delivery.changes import Committed, CursorChange, Grant, Leased, Place, Range, Retry, Settled
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.deadletter import Undertaker
from goqueue.broker.delivery.keys import KeyOrder
from goqueue.broker.delivery.rules import Rules
from goqueue.broker.delivery.served import Served
from goqueue.broker.delivery.settlement import Settlement
from goqueue.broker.delivery.slices import Slice, cut, of_one_lane, without
from goqueue.broker.delivery.taking import Portion, Taking
from goqueue.broker.groups.group import Group
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.membership import Membership
from goqueue.broker.groups.topics import Topics
from goqueue.broker.partition import Partition
from goqueue.broker.view import View
from goqueue.broker.work import Work
from goqueue.clock import Clock
from goqueue.limits import OFFSET_MAX, POLL_LEASES_MAX
from goqueue.storage import frame
from goqueue.storage.lanes import NO_LANE

_ROOM = 2  # times what messages take on average: whoever wants few is not read much for


class Lender:
    """What all ways of taking have in common."""

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
        self.ledger = ledger
        self.keys = KeyOrder()
        self.served = Served()
        self._topics = topics
        self._clock = clock
        self.age_clock = clock
        """For the ages of messages, which grow while the broker stands still."""
        self._rules = rules
        self._membership = membership
        self._settlement = settlement
        self._undertaker = undertaker

    # --- look up ---

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def cursor(self, taking: Taking, place: Place) -> Cursor | None:
        return self.ledger.cursor(taking.name, place)

    def partition(self, place: Place) -> Partition:
        return self._topics.topic(place[0]).partition(place[1])

    def view(self, name: str, place: Place) -> View:
        """What a group sees of a partition."""
        return View(self.partition(place), self.ledger.isolation(name))

    def in_hand(self, name: str, places: Iterable[Place]) -> int:
        cursors = self.ledger.cursors(name)
        return sum(cursors[place].leased for place in places if place in cursors)

    def is_lone(self, place: Place, failures: int) -> bool:
        """Whether a message that has failed so often must be handed out alone."""
        return self._rules.is_last(failures) and self._undertaker.may_bury(place[0])

    def has_lone_in_hand(self, name: str, places: Iterable[Place], in_hand: int) -> bool:
        """Whether the member has a message that must be its only one."""
        cursors = self.ledger.cursors(name) if in_hand == 1 else {}
        return any(
            self.is_lone(place, lease.grant.failures)
            for place in places
            if place in cursors
            for lease in cursors[place].leases.values()
        )

    # --- lend ---

    def lend(
        self, taking: Taking, place: Place, first: int, end: int, retry: Retry | None, most: int = OFFSET_MAX
    ) -> Work[bool]:
        """A lease of the first of these offsets, if they may be had. False: there is nothing more to be had here."""
        view, messages = self.view(taking.name, place), min(taking.messages, most)
        partition = view.partition
        if first < partition.earliest:
            self.pass_over(taking.name, place, partition)
            return True
        if first >= view.end:
            return False
        size = min(taking.bytes, messages * _ROOM * partition.message_bytes)
        read = yield from view.read(first, size, skip_damage=taking.wish.skip_damage)
        dense = partition.is_dense(first, min(end, read.next_offset))
        content = cut(read, first, min(end, view.end), messages, dense=dense)
        tried = retry or Retry(0, 0, 0, 0, NO_LANE)
        if tried.lane == NO_LANE:
            content = of_one_lane(content) if retry is not None else content
            tried = tried._replace(lane=_lane(content))
        stretches, held = [content], list[Range]()
        if retry is None:
            stretches, held = yield from self.unblocked(taking, place, content)
        if content.end == first or not self._is_of_topic(taking, partition):
            return False
        if not self._may_have(taking, place, first, retry, sum(one.count for one in stretches)):
            return False
        gaps = [gap for one in stretches for gap in one.gaps]
        heads = self._heads(taking, place, first)
        change = Leased(taking.name, *place, grants=[], held=held, gaps=gaps, heads=heads, lane=tried.lane)
        self.record(taking, place, change, stretches, tried)
        return retry is not None

    def unblocked(self, taking: Taking, place: Place, content: Slice) -> Work[tuple[list[Slice], list[Range]]]:
        """What may be handed out where messages of one key keep their order, and what is held back."""
        if not self.ledger.ordered(taking.name) or (cursor := self.cursor(taking, place)) is None:
            return [content], []
        blocked = yield from self.keys.blocked(cursor, self.view(taking.name, place))
        return without(content, blocked, POLL_LEASES_MAX)

    def record(self, taking: Taking, place: Place, change: Leased, stretches: Iterable[Slice], tried: Retry) -> None:
        """Lend these stretches with the change, whose grants they become."""
        portions = []
        for stretch in stretches:
            if stretch.count:
                grant = self._grant(taking, stretch, tried, is_laned=bool(change.heads))
                change.grants.append(grant)
                portions.append(Portion(*place, grant, stretch))
        self.note(taking, place, [change])
        for portion in portions:
            taking.add(portion)
            self.served.note(place, tried.lane, portion.content, self.age_clock.now_ns())

    def note(self, taking: Taking, place: Place, changes: list[CursorChange]) -> None:
        self.ledger.record(taking.name, changes)
        self._settlement.attend(self.ledger.cursors(taking.name)[place])

    def _heads(self, taking: Taking, place: Place, first: int) -> list[int]:
        """As they stand, for what is lent from behind the offset where lanes begin to be read one by one."""
        cursor = self.cursor(taking, place)
        return list(cursor.heads) if cursor is not None and cursor.heads and first >= cursor.position else []

    def _grant(self, taking: Taking, content: Slice, tried: Retry, *, is_laned: bool) -> Grant:
        now_ns = self._clock.now_ns()
        first, end = content.first, content.end
        runs: tuple[int, ...] = ()
        if is_laned:
            edges = [edge for one in content.ranges() for edge in one]
            first, end = edges[0], edges[-1]
            runs = tuple(after - before for before, after in pairwise(edges))
        return Grant(
            self.ledger.new_lease_id(taking.name, tried.lane if len(runs) > 1 else None),
            taking.member,
            first,
            end,
            tried.deliveries + 1,
            tried.failures,
            tried.first_ns,
            now_ns,
            now_ns + taking.wish.visibility_ns,
            tried.lane,
            runs if len(runs) > 1 else (),
        )

    # --- may it? ---

    def owns(self, taking: Taking, partition: Partition, count: int) -> bool:
        """Whether the member may have so many of its messages: while they were read, much may have happened."""
        place = (partition.topic, partition.number)
        group = self.ledger.group(taking.name)
        if not self._is_of_topic(taking, partition):
            return False
        if group is None or place not in group.to_work_on(taking.member):
            return False
        is_last = self._membership.presence(taking.name, taking.member).turn == taking.turn
        return (taking.is_first and is_last) or self._has_room(taking, group, count)

    def _is_of_topic(self, taking: Taking, partition: Partition) -> bool:
        """The topic may have been deleted, and another one have its name; the group hears of that in a moment."""
        topic = self._topics.topics.get(partition.topic)
        if topic is None or partition not in topic.partitions:
            return False
        cursor = self.cursor(taking, (partition.topic, partition.number))
        return cursor is not None and cursor.topic_ns == topic.created_ns

    def _may_have(self, taking: Taking, place: Place, first: int, retry: Retry | None, count: int) -> bool:
        """While it was read, the place may have gone to somebody else, or on."""
        cursor = self.cursor(taking, place)
        if cursor is None or not self.owns(taking, self.partition(place), count):
            return False
        if retry is None:  # what came while it was read may be of another lane
            return cursor.position == first >= self.partition(place).log.lanes.since and cursor.heads is None
        run = cursor.waiting.run_at(first)
        return run is not None and run[2] == retry

    def _has_room(self, taking: Taking, group: Group, count: int) -> bool:
        """Another poll of the same member is under way, or was: what that one took is in its hand too."""
        places = group.assignment[taking.member]
        in_hand = self.in_hand(taking.name, places)
        if self.has_lone_in_hand(taking.name, places, in_hand) or (taking.is_lone and in_hand):
            return False
        return in_hand + count <= group.members[taking.member].in_flight_max

    def pass_over(self, name: str, place: Place, partition: Partition) -> None:
        """Retention was quicker than the group: what it has not done is gone, and that is counted.

        Nobody can tell any more in which lanes it was, so what was done behind the first head counts as well.
        """
        cursor = self.ledger.cursors(name)[place]
        earliest = partition.earliest
        reached = max(cursor.unread, cursor.floor)
        in_hand = sum(end - first for first, end in cursor.open_from(reached, earliest))
        unseen = max(0, earliest - reached - in_hand)
        waiting = cursor.waiting.count_within(0, earliest)
        self.ledger.record(name, [Committed(name, *place, floor=earliest, lost=unseen + waiting)])

    def pass_gone(self, taking: Taking, place: Place, gone: list[Range]) -> None:
        """Compaction was quicker: there is nothing to be tried again."""
        self.note(taking, place, [Settled(taking.name, *place, ranges=gone)])


def _lane(content: Slice) -> int:
    """Of messages that are all in one."""
    return content.buffers[0][frame.AT_PRIORITY] if content.buffers else frame.NORMAL
