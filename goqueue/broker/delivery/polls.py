"""What a poll hands out: messages that are to be tried again first, then new ones, in leases of ranges.

A message whose next failure would be its last is handed out alone, to a member that has nothing else in hand: should
it take its consumer down, no other message has been tried in vain.

What must stay true: only the owner of a place is handed anything of it; nothing leaves before the leases are durable.
"""

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress

from goqueue.broker.delivery.changes import Place, Range, Retry
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.lane_turns import LaneTurns
from goqueue.broker.delivery.lender import Lender
from goqueue.broker.delivery.served import Served
from goqueue.broker.delivery.settlement import Settlement
from goqueue.broker.delivery.taking import Handed, PollWish, Taking
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.membership import Membership
from goqueue.broker.groups.presence import Presence
from goqueue.broker.groups.topics import Topics
from goqueue.broker.work import Promise, Work
from goqueue.clock import Clock
from goqueue.errors import GoQueueError, LogClosed, PartitionNotFound, TopicNotFound
from goqueue.limits import CURSOR_RUNS_MAX, OFFSET_MAX


class Polls:
    """Hands messages out."""

    def __init__(
        self,
        ledger: Ledger,
        topics: Topics,
        clock: Clock,
        membership: Membership,
        settlement: Settlement,
        lender: Lender,
    ) -> None:
        self._ledger = ledger
        self._topics = topics
        self._clock = clock
        self._membership = membership
        self._settlement = settlement
        self._lender = lender
        self._turns = LaneTurns(lender)
        self._busy: set[tuple[str, Place]] = set()
        """Places that a poll reads from: what it will hand out is not decided yet."""
        self._turned_away: set[tuple[str, Place]] = set()
        """Those of them that another poll would have taken from."""

    def poll(self, name: str, member: str, generation: int | None, wish: PollWish) -> Work[Handed]:
        """Messages for a member, if there are any now, once it is durable that it has them."""
        group, is_news = self._membership.heartbeat(name, member, generation)
        presence = self._membership.presence(name, member)
        places = group.to_work_on(member)
        in_hand = self._lender.in_hand(name, group.assignment.get(member, ()))
        room = group.members[member].in_flight_max - in_hand
        presence.room_wanted = 0
        taking = Taking(name, member, wish, min(room, wish.messages_max), wish.bytes_max)
        taking.is_held_up = room <= 0 or self._lender.has_lone_in_hand(name, group.assignment.get(member, ()), in_hand)
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
        in_hand = self._lender.in_hand(name, group.assignment.get(member, ()))
        if in_hand and taking.is_held_up and member in group.members:
            limit = group.members[member].in_flight_max
            presence.room_wanted = max(1, min(wish.messages_max, limit // 4) - (limit - in_hand))
        is_urgent = is_news and presence.alerted < group.generation
        presence.alerted = group.generation if is_news else presence.alerted
        return Handed(group, taking.portions, is_news, is_urgent)

    def forget(self, group: str) -> None:
        """It is gone."""
        self._lender.keys.forget(group)
        self._turns.forget(group)

    def forget_topic(self, topic: str) -> None:
        """It is gone."""
        self._lender.served.forget(topic)
        self._turns.forget_topic(topic)

    @property
    def served(self) -> Served:
        """What was handed out since the start."""
        return self._lender.served

    def _durable(self, name: str) -> Promise[None]:
        """Kept when nothing can take the leases back."""
        durable: Promise[None] = Promise()
        self._ledger.record(name, [], durable)
        return durable

    def _drop_lost(self, taking: Taking) -> None:
        """Of leases that a disk has refused meanwhile, or somebody has taken back, nothing is handed out."""
        taking.portions = [one for one in taking.portions if self._ledger.lease(one.grant.id) is not None]

    def _give_back(self, taking: Taking) -> None:
        with suppress(GoQueueError):  # a log that takes nothing now: they come back when their time is over
            for portion in taking.portions:
                self._settlement.give_back(portion.grant.id)

    # --- taking ---

    def _take_from(self, taking: Taking, places: list[Place], presence: Presence, in_hand: int) -> Work[None]:
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

    def _exclusively(self, taking: Taking, place: Place) -> Work[None]:
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
            if any(self._lender.is_lone(place, retry.failures) for retry in retries):
                return place
        return None

    def _take_at(self, taking: Taking, place: Place) -> Work[None]:
        """What is to be tried again, then what is new; where there are several lanes, each in its turn."""
        takes_turns = not (taking.is_lone or self._ledger.ordered(taking.name) or self._is_crowded(taking, place))
        is_turn = takes_turns and (yield from self._turns.is_due(taking, place))
        may_go_on = is_turn or (yield from self._take_tried(taking, place))
        if may_go_on and not taking.is_lone:
            yield from self._take_new(taking, place)

    def _take_tried(self, taking: Taking, place: Place) -> Work[bool]:
        """False where one comes up that must be handed out alone."""
        in_vain: tuple[Range, Retry] | None = None
        while not taking.is_full and (cursor := self._lender.cursor(taking, place)) is not None:
            found = yield from self._next_retry(taking.name, cursor)
            if found is None or found == in_vain:
                break
            (first, end), retry = found
            if cursor.heads is not None and first < cursor.position:
                end = min(end, cursor.position)
            if self._lender.is_lone(place, retry.failures):
                if not taking.is_lone or taking.portions:
                    return False
                end = first + 1
            if not (yield from self._lender.lend(taking, place, first, end, retry)):
                in_vain = found  # it has changed while it was read, or cannot be had
        return True

    def _take_new(self, taking: Taking, place: Place) -> Work[None]:
        """Beyond what is gone, and what is held back, up to something that may be had."""
        portions, passed = len(taking.portions), None
        while not taking.is_full and len(taking.portions) == portions and not self._is_crowded(taking, place):
            is_turn = yield from self._turns.is_due(taking, place)
            cursor = self._lender.cursor(taking, place)
            if cursor is None or (cursor.position, cursor.heads) == passed:
                return
            passed = cursor.position, cursor.heads
            if is_turn:
                yield from self._turns.take(taking, place, self._topics.topic(place[0]).lane_rules)
            else:
                yield from self._lender.lend(taking, place, cursor.position, OFFSET_MAX, None)

    def _is_crowded(self, taking: Taking, place: Place) -> bool:
        """Whether there is so much to be done yet that nothing more is begun; keys are kept one by one."""
        cursor = self._lender.cursor(taking, place)
        if cursor is None:
            return False
        waiting = cursor.waiting.count if self._ledger.ordered(cursor.group) else 0
        return max(cursor.run_count, waiting) >= CURSOR_RUNS_MAX

    def _next_retry(self, name: str, cursor: Cursor) -> Work[tuple[Range, Retry] | None]:
        if self._ledger.ordered(name):
            view, now_ns = self._lender.view(name, cursor.place), self._clock.now_ns()
            found = yield from self._lender.keys.next_retry(cursor, view, now_ns)
            return found
        due = cursor.next_due()
        return None if due is None or due[0] > self._clock.now_ns() else (due[1], due[2])
