"""Leases messages of several priorities: each lane gets its share, in its order.

Within a lane, retries come before new messages. Lanes are read separately from where a message of a second priority
lies ahead, until all lanes have been delivered up to one offset; then they are merged again.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from goqueue.broker.core.lane_scheduler import LanePolicy, LaneScheduler
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.core.work import Work
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.fetch import LaneFetch, fetch_lane
from goqueue.broker.groups.poll import Poll
from goqueue.broker.groups.records import LanesMerged, LeasesGranted, MessagesSettled, Range, RetryState
from goqueue.errors import RangeDamaged
from goqueue.limits import LANE_SPANS_MAX, POLL_LEASES_MAX, PRIORITY_COUNT
from goqueue.storage.lanes import LANES

_RUNS_SCANNED_MAX = 10_000  # of waiting messages, in the search for some with the same history


class _NewMessages(NamedTuple):
    """The new messages of each lane, as they were counted."""

    heads: Sequence[int]
    counts: Sequence[int]
    """From the heads on; one more than wanted when there are more."""
    end: int

    def is_valid_for(self, cursor: Cursor) -> bool:
        """False when a lane has moved back, as after a reset: before a head nothing was counted."""
        return all(_head(cursor, lane) >= head for lane, head in enumerate(self.heads))


class LanePolling:
    def __init__(self) -> None:
        self._schedulers: dict[str, dict[PartitionRef, LaneScheduler]] = {}

    def forget(self, group: str) -> None:
        self._schedulers.pop(group, None)

    def forget_topic(self, topic: str) -> None:
        for schedulers in self._schedulers.values():
            for ref in [ref for ref in schedulers if ref.topic == topic]:
                del schedulers[ref]

    def is_needed(self, poll: Poll, ref: PartitionRef) -> Work[bool]:
        """True when lanes must be read separately. When they no longer must, record that they are merged.

        Retries keep their lane, and a lease of one lane must not become many when it expires. So lanes are merged when
        nothing waits, and leases are of contiguous messages.
        """
        cursor, partition = poll.cursor(ref), poll.partition(ref)
        if cursor is None:
            return False
        if cursor.unread < partition.earliest:
            poll.skip_removed(ref, partition)
        reach = cursor.reach
        if cursor.heads is None:
            return reach < partition.log.lanes.since and not (yield from partition.lanes.is_single(reach))
        heads = list(cursor.heads)
        if reach < partition.log.lanes.since and not (yield from partition.lanes.is_single(reach)):
            return True
        if cursor.waiting or any(lease.grant.runs for lease in cursor.leases.values()):
            return True
        if len(cursor.transactional) > POLL_LEASES_MAX:  # they may be delivered again
            return True
        for lane in LANES:
            if heads[lane] < reach and (yield from partition.lanes.next(lane, heads[lane], reach)) is not None:
                return True
        if cursor.heads != heads or poll.cursor(ref) is not cursor:  # it has moved during the lookups
            return True
        poll.record(ref, [LanesMerged(poll.name, *ref, position=reach)])
        return False

    def lease(self, poll: Poll, ref: PartitionRef, policy: LanePolicy) -> Work[None]:
        """Lease the share of each lane. Lanes that waited too long come first, because there may be little room."""
        partition, cursor = poll.partition(ref), poll.cursor(ref)
        if cursor is None:
            return
        scheduler = self._schedulers.setdefault(poll.name, {}).setdefault(ref, LaneScheduler())
        size = max(partition.message_bytes, scheduler.message_bytes)
        end, wanted = poll.view(ref).end, min(poll.messages, max(1, poll.bytes // size))
        heads = [_head(cursor, lane) for lane in LANES]
        counts = [0] * PRIORITY_COUNT
        for lane in LANES:
            counts[lane] = yield from partition.lanes.count(lane, heads[lane], end, wanted + 1)
        retries, now_ns = [0] * PRIORITY_COUNT, poll.now_ns()
        if not poll.store.keeps_key_order(poll.name):  # with key order, retries were leased before
            retries = [_count_due(poll, cursor, lane, wanted) for lane in LANES]
        ready = [min(wanted, one + other) for one, other in zip(counts, retries, strict=True)]
        late = scheduler.starved(policy, ready, now_ns)
        shares, before = scheduler.divide(policy, ready, wanted, now_ns), poll.bytes
        new = _NewMessages(heads, counts, end)
        taken = [0] * PRIORITY_COUNT
        failure: RangeDamaged | None = None
        for lane in (*late, *(lane for lane in LANES if lane not in late)):
            try:
                if retries[lane]:
                    taken[lane] = yield from _lease_retries(poll, ref, lane, shares[lane])
                if counts[lane] and taken[lane] < shares[lane]:
                    taken[lane] += yield from _lease_new(poll, ref, lane, shares[lane] - taken[lane], new)
            except RangeDamaged as error:  # the other lanes may have messages
                failure = failure or error
            scheduler.give_back(lane, max(0, shares[lane] - taken[lane]))
        scheduler.note(ready, taken, now_ns)
        if count := sum(taken):
            scheduler.message_bytes = (before - poll.bytes) // count
        if failure is not None:
            raise failure


# --- retries ---


def _count_due(poll: Poll, cursor: Cursor, lane: int, most: int) -> int:
    """Count the due messages of a lane with the same history as the first of them; there may be more.

    A message on its last attempt counts as none: it is leased by a poll of its own.
    """
    due = cursor.waiting.next_due_of(lane)
    if due is None or due[0] > poll.now_ns() or poll.is_last_attempt(cursor.ref, due[2].failures):
        return 0
    return sum(end - first for first, end in _same_history(cursor, due[1][0], due[2], most))


def _lease_retries(poll: Poll, ref: PartitionRef, lane: int, most: int) -> Work[int]:
    """Lease due messages of a lane, one delivery history after the other; return how many."""
    before, refused = poll.messages, None
    while not poll.is_full and (left := most - before + poll.messages) > 0:
        cursor = poll.cursor(ref)
        due = cursor.waiting.next_due_of(lane) if cursor is not None else None
        if cursor is None or due is None or due[0] > poll.now_ns() or due == refused:
            break
        _, (first, end), retry = refused = due
        if poll.is_last_attempt(ref, retry.failures):
            break
        if cursor.heads is None or first < cursor.position:
            yield from poll.lease_range(ref, first, min(end, cursor.position), retry, left)
        else:
            yield from _lease_same_history(poll, ref, list(_same_history(cursor, first, retry, left)), retry)
    return before - poll.messages


def _lease_same_history(poll: Poll, ref: PartitionRef, spans: list[Range], retry: RetryState) -> Work[None]:
    """Lease retries of a lane with the same history as one lease."""
    partition = poll.partition(ref)
    if spans[0][0] < partition.earliest:
        poll.skip_removed(ref, partition)
        return
    found = yield from fetch_lane(poll.view(ref), spans, poll.bytes, skip_damage=poll.options.skip_damage)
    cursor = poll.cursor(ref)
    count = found.content.count if found.content is not None else 0
    if cursor is None or cursor.heads is None or not poll.owns(partition, ref, count):
        return
    if any(cursor.waiting.get(first) != retry for first, _ in spans):
        return
    if gone := _missing(spans, found):
        poll.record(ref, [MessagesSettled(poll.name, *ref, ranges=gone)])  # compaction has removed them
    if found.content is not None:
        change = LeasesGranted(poll.name, *ref, grants=[], heads=list(cursor.heads), lane=retry.lane)
        poll.grant(ref, change, [found.content], retry)


def _same_history(cursor: Cursor, first: int, retry: RetryState, most: int) -> Iterator[Range]:
    """Yield spans of at most so many waiting messages with one delivery history, from an offset on."""
    spans = 0
    for start, end, other in islice(cursor.waiting.within(first, cursor.reach), _RUNS_SCANNED_MAX):
        if other == retry:
            yield start, min(end, start + most)
            most -= end - start
            spans += 1
        if most <= 0 or spans == LANE_SPANS_MAX:
            return


def _missing(spans: list[Range], found: LaneFetch) -> list[Range]:
    """Return the offsets of the spans that were read and have no message."""
    left = RangeMap((first, end, True) for first, end in spans)
    left.cut(found.through, spans[-1][1])
    for first, end in found.content.ranges() if found.content is not None else ():
        left.cut(first, end)
    return [(first, end) for first, end, _ in left.runs()]


# --- new messages ---


def _lease_new(poll: Poll, ref: PartitionRef, lane: int, most: int, new: _NewMessages) -> Work[int]:
    """Lease the next messages of the lane; return how many."""
    partition, before, cursor = poll.partition(ref), poll.messages, poll.cursor(ref)
    if cursor is None or poll.is_full:
        return 0
    head, end, view = _head(cursor, lane), new.end, poll.view(ref)
    start = yield from view.seen_from(head)
    spans = yield from partition.lanes.spans(lane, start, end, min(most, poll.messages), LANE_SPANS_MAX)
    if not spans and start == head:
        return 0
    found, through, held = LaneFetch(None, end), end, list[Range]()
    if spans:
        found = yield from fetch_lane(view, spans, poll.bytes, skip_damage=poll.options.skip_damage)
        through = yield from found.head(view, lane, spans, end)
    stretches = [found.content] if found.content is not None else []
    if found.content is not None:
        stretches, held = yield from poll.unblocked(ref, found.content)
        if held or len(stretches) > 1:
            through = max([one.end for one in stretches] + [stop for _, stop in held])
    cursor = poll.cursor(ref)
    if cursor is None or _head(cursor, lane) != head or not new.is_valid_for(cursor):
        return 0
    if not poll.owns(partition, ref, sum(one.count for one in stretches)):
        return 0
    heads = [_head(cursor, one) if new.counts[one] else max(_head(cursor, one), end) for one in LANES]
    heads[lane] = through
    change = LeasesGranted(poll.name, *ref, grants=[], held=held, heads=heads, lane=lane)
    poll.grant(ref, change, stretches, RetryState(0, 0, 0, 0, lane))
    return before - poll.messages


def _head(cursor: Cursor, lane: int) -> int:
    return cursor.heads[lane] if cursor.heads is not None else cursor.position
