"""What a poll takes from a partition whose messages have several priorities: of each lane its share, in its order.

Within a lane, what is to be tried again comes before what is new. Lanes are read one by one from where a message of
a second priority lies ahead, until all of them have been handed out up to one offset; then they are one again.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from goqueue.broker.delivery.changes import Joined, Leased, Place, Range, Retry
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.gathering import Gathered, gather
from goqueue.broker.delivery.lender import Lender
from goqueue.broker.delivery.taking import Taking
from goqueue.broker.lanes.shares import LaneRules, Shares
from goqueue.broker.ranges import RangeMap
from goqueue.broker.work import Work
from goqueue.errors import RangeDamaged
from goqueue.limits import LANE_SPANS_MAX, POLL_LEASES_MAX, PRIORITY_COUNT
from goqueue.storage.lanes import LANES

_RUNS_LOOKED_AT = 10_000  # of what waits, for some that were tried alike


class _Ahead(NamedTuple):
    """What is new in each lane, as it was counted."""

    heads: Sequence[int]
    counts: Sequence[int]
    """From there on, or one more than are wanted."""
    end: int

    def holds_for(self, cursor: Cursor) -> bool:
        """Whether it is true still: a lane may have gone on meanwhile, but not back, as a reset lets it, or a disk that
        refuses what was counted on. Of what lies before a head nothing was counted."""
        return all(_head(cursor, lane) >= head for lane, head in enumerate(self.heads))


class LaneTurns:
    """Of all groups."""

    def __init__(self, lender: Lender) -> None:
        self._lender = lender
        self._shares: dict[str, dict[Place, Shares]] = {}

    def forget(self, group: str) -> None:
        """It is gone."""
        self._shares.pop(group, None)

    def forget_topic(self, topic: str) -> None:
        """It is gone."""
        for shares in self._shares.values():
            for place in [place for place in shares if place[0] == topic]:
                del shares[place]

    def is_due(self, taking: Taking, place: Place) -> Work[bool]:
        """Whether lanes are to be read one by one here; where that is over, it is recorded.

        What is to be tried again keeps its lane, and so many leases are not to become many more when they expire: so
        that is over when nothing waits, and what is in hand is of stretches of one lane.
        """
        cursor, partition = self._lender.cursor(taking, place), self._lender.partition(place)
        if cursor is None:
            return False
        if cursor.unread < partition.earliest:
            self._lender.pass_over(taking.name, place, partition)
        reach = cursor.reach
        if cursor.heads is None:
            return reach < partition.log.lanes.since and not (yield from partition.lanes.is_single(reach))
        heads = list(cursor.heads)
        if reach < partition.log.lanes.since and not (yield from partition.lanes.is_single(reach)):
            return True
        if cursor.waiting or any(lease.grant.runs for lease in cursor.leases.values()):
            return True
        if len(cursor.pledged) > POLL_LEASES_MAX:  # they may come again
            return True
        for lane in LANES:
            if heads[lane] < reach and (yield from partition.lanes.next(lane, heads[lane], reach)) is not None:
                return True
        if cursor.heads != heads or self._lender.cursor(taking, place) is not cursor:  # it has moved meanwhile, or back
            return True
        self._lender.note(taking, place, [Joined(taking.name, *place, position=reach)])
        return False

    def take(self, taking: Taking, place: Place, rules: LaneRules) -> Work[None]:
        """Of each lane what is its turn; those first that were passed over for too long: there may be little room."""
        lender, partition = self._lender, self._lender.partition(place)
        cursor = lender.cursor(taking, place)
        if cursor is None:
            return
        shares = self._shares.setdefault(taking.name, {}).setdefault(place, Shares())
        size = max(partition.message_bytes, shares.message_bytes)
        end, wanted = lender.view(taking.name, place).end, min(taking.messages, max(1, taking.bytes // size))
        heads = [_head(cursor, lane) for lane in LANES]
        new = [0] * PRIORITY_COUNT
        for lane in LANES:
            new[lane] = yield from partition.lanes.count(lane, heads[lane], end, wanted + 1)
        tried, now_ns = [0] * PRIORITY_COUNT, lender.now_ns()
        if not lender.ledger.ordered(taking.name):  # there keys decide what comes first, and it has been taken
            tried = [self._due_count(cursor, lane, wanted, now_ns) for lane in LANES]
        ready = [min(wanted, one + other) for one, other in zip(new, tried, strict=True)]
        late = shares.passed_over(rules, ready, now_ns)
        given, taken, before = shares.divide(rules, ready, wanted, now_ns), [0] * PRIORITY_COUNT, taking.bytes
        failure: RangeDamaged | None = None
        for lane in (*late, *(lane for lane in LANES if lane not in late)):
            try:
                if tried[lane]:
                    taken[lane] = yield from self._take_tried(taking, place, lane, given[lane])
                if new[lane] and taken[lane] < given[lane]:
                    left = given[lane] - taken[lane]
                    taken[lane] += yield from self._take_new(taking, place, lane, left, _Ahead(heads, new, end))
            except RangeDamaged as error:  # others may have something
                failure = failure or error
            shares.give_back(lane, max(0, given[lane] - taken[lane]))
        shares.note(ready, taken, now_ns)
        if count := sum(taken):
            shares.message_bytes = (before - taking.bytes) // count
        if failure is not None:
            raise failure

    # --- what is to be tried again ---

    def _due_count(self, cursor: Cursor, lane: int, most: int, now_ns: int) -> int:
        """How many messages of a lane are due, of those that were tried as the first of them was; there may be more.
        One that must be handed out alone has no share: its turn comes when it has waited longest."""
        due = cursor.waiting.next_due_of(lane)
        if due is None or due[0] > now_ns or self._lender.is_lone(cursor.place, due[2].failures):
            return 0
        return sum(end - first for first, end in _alike(cursor, due[1][0], due[2], most))

    def _take_tried(self, taking: Taking, place: Place, lane: int, most: int) -> Work[int]:
        """Those of the lane that are due, one kind of retry after the other; how many were taken."""
        lender, before, in_vain = self._lender, taking.messages, None
        while not taking.is_full and (left := most - before + taking.messages) > 0:
            cursor = lender.cursor(taking, place)
            due = cursor.waiting.next_due_of(lane) if cursor is not None else None
            if cursor is None or due is None or due[0] > lender.now_ns() or due == in_vain:
                break
            _, (first, end), retry = in_vain = due
            if lender.is_lone(place, retry.failures):
                break
            if cursor.heads is None or first < cursor.position:
                yield from lender.lend(taking, place, first, min(end, cursor.position), retry, left)
            else:
                yield from self._take_alike(taking, place, list(_alike(cursor, first, retry, left)), retry)
        return before - taking.messages

    def _take_alike(self, taking: Taking, place: Place, spans: list[Range], retry: Retry) -> Work[None]:
        """Messages of a lane that were tried alike come again as one lease."""
        lender, partition = self._lender, self._lender.partition(place)
        if spans[0][0] < partition.earliest:
            lender.pass_over(taking.name, place, partition)
            return
        view = lender.view(taking.name, place)
        found = yield from gather(view, spans, taking.bytes, skip_damage=taking.wish.skip_damage)
        cursor = lender.cursor(taking, place)
        count = found.content.count if found.content is not None else 0
        if cursor is None or cursor.heads is None or not lender.owns(taking, partition, count):
            return
        if any(cursor.waiting.get(first) != retry for first, _ in spans):
            return
        if gone := _missing(spans, found):
            lender.pass_gone(taking, place, gone)
        if found.content is not None:
            change = Leased(taking.name, *place, grants=[], heads=list(cursor.heads), lane=retry.lane)
            lender.record(taking, place, change, [found.content], retry)

    # --- what is new ---

    def _take_new(self, taking: Taking, place: Place, lane: int, most: int, ahead: _Ahead) -> Work[int]:
        """The next messages of the lane; how many were taken."""
        lender, partition, before = self._lender, self._lender.partition(place), taking.messages
        cursor = lender.cursor(taking, place)
        if cursor is None or taking.is_full:
            return 0
        head, new, end, view = _head(cursor, lane), ahead.counts, ahead.end, lender.view(taking.name, place)
        start = yield from view.seen_from(head)
        spans = yield from partition.lanes.spans(lane, start, end, min(most, taking.messages), LANE_SPANS_MAX)
        if not spans and start == head:
            return 0
        found, through, held = Gathered(None, end), end, list[Range]()
        if spans:
            found = yield from gather(view, spans, taking.bytes, skip_damage=taking.wish.skip_damage)
            through = yield from found.head(view, lane, spans, end)
        stretches = [found.content] if found.content is not None else []
        if found.content is not None:
            stretches, held = yield from lender.unblocked(taking, place, found.content)
            if held or len(stretches) > 1:
                through = max([one.end for one in stretches] + [stop for _, stop in held])
        cursor = lender.cursor(taking, place)
        if cursor is None or _head(cursor, lane) != head or not ahead.holds_for(cursor):
            return 0
        if not lender.owns(taking, partition, sum(one.count for one in stretches)):
            return 0
        heads = [_head(cursor, one) if new[one] else max(_head(cursor, one), end) for one in LANES]
        heads[lane] = through
        change = Leased(taking.name, *place, grants=[], held=held, heads=heads, lane=lane)
        lender.record(taking, place, change, stretches, Retry(0, 0, 0, 0, lane))
        return before - taking.messages


def _head(cursor: Cursor, lane: int) -> int:
    return cursor.heads[lane] if cursor.heads is not None else cursor.position


def _alike(cursor: Cursor, first: int, retry: Retry, most: int) -> Iterator[Range]:
    """At most so many waiting messages from this offset on that were tried just as this one, in spans."""
    spans = 0
    for start, end, other in islice(cursor.waiting.within(first, cursor.reach), _RUNS_LOOKED_AT):
        if other == retry:
            yield start, min(end, start + most)
            most -= end - start
            spans += 1
        if most <= 0 or spans == LANE_SPANS_MAX:
            return


def _missing(spans: list[Range], found: Gathered) -> list[Range]:
    """What of the spans was looked at and is not there."""
    left = RangeMap((first, end, True) for first, end in spans)
    left.cut(found.through, spans[-1][1])
    for first, end in found.content.ranges() if found.content is not None else ():
        left.cut(first, end)
    return [(first, end) for first, end, _ in left.runs()]
