"""Polling: delivers messages to members in leases. Retries come first, then new messages.

A message on its last attempt is delivered alone, to a member that has nothing else in flight: if it crashes its
consumer, no other message has failed with it.

Invariants: only the owner of a partition gets its messages; nothing is delivered before its lease is durable, and
nothing of an added partition before the older messages of its keys are settled.
"""

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.work import Work
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.lane_polling import LanePolling
from goqueue.broker.groups.poll import Poll, PollOptions, PollResult, PollServices
from goqueue.broker.groups.records import CursorKey, Group, Range, RetryState
from goqueue.broker.groups.sessions import MemberSession
from goqueue.errors import GoQueueError, LeaderUnavailable, LogClosed, PartitionNotFound, TopicNotFound
from goqueue.limits import CURSOR_RANGES_MAX, OFFSET_MAX


class Polling:
    def __init__(self, services: PollServices) -> None:
        self._services = services
        self._store = services.store
        self._lane_polling = LanePolling()
        self.stats = services.stats
        self._busy: set[CursorKey] = set()
        """Cursors that a poll reads for: what it will lease is not decided yet."""
        self._refused: set[CursorKey] = set()
        """Busy cursors that another poll would have leased from."""
        self._running: dict[Poll, None] = {}
        """Polls that have not ended."""

    def poll(self, name: str, member: str, generation: int | None, options: PollOptions) -> Work[PollResult]:
        """Return the messages that are available now, once their leases are durable."""
        membership = self._services.membership
        group, is_changed = membership.heartbeat(name, member, generation)
        session = membership.session(name, member)
        session.wake_at_room = 0
        poll = Poll(self._services, name, member, options, 0)
        self._running[poll] = None
        try:
            return (yield from self._poll(poll, group, session, is_changed=is_changed))
        finally:
            del self._running[poll]

    def _poll(self, poll: Poll, group: Group, session: MemberSession, *, is_changed: bool) -> Work[PollResult]:
        name, member, options = poll.name, poll.member, poll.options
        membership = self._services.membership
        assigned = group.assignment.get(member, ())
        in_flight = poll.in_flight(assigned)
        room = group.members[member].in_flight_max - in_flight
        poll.messages = min(room, options.messages_max)
        poll.is_held_up = room <= 0 or poll.has_last_attempt_in_flight(assigned, in_flight)
        try:
            if not poll.is_held_up:
                yield from self._lease_from(poll, group.partitions_to_process(member), session, in_flight)
            if poll.batches:
                yield self._store.recorded(name, [])
                # Leases that the disk refused meanwhile, or that were ended, are not delivered.
                poll.batches = [one for one in poll.batches if self._store.lease(one.grant.id) is not None]
        except (GeneratorExit, GoQueueError):  # the client is gone, or gets the error
            self._return_leases(poll)
            raise
        if poll.failure is not None and not poll.batches:
            raise poll.failure
        group = self._store.durable_group(name) or membership.group(name)
        in_flight = poll.in_flight(group.assignment.get(member, ()))
        if in_flight and poll.is_held_up and member in group.members:
            limit = group.members[member].in_flight_max
            session.wake_at_room = max(1, min(options.messages_max, limit // 4) - (limit - in_flight))
        is_alert = is_changed and session.alerted < group.generation
        session.alerted = group.generation if is_changed else session.alerted
        return PollResult(group, poll.batches, is_changed, is_alert)

    def close(self) -> None:
        """Return what running polls have leased: they will not be answered with it."""
        for poll in self._running:
            self._return_leases(poll)
            poll.batches.clear()

    def forget(self, group: str) -> None:
        self._services.key_order.forget(group)
        self._lane_polling.forget(group)

    def forget_topic(self, topic: str) -> None:
        self.stats.forget(topic)
        self._lane_polling.forget_topic(topic)

    def _return_leases(self, poll: Poll) -> None:
        with suppress(GoQueueError):  # the log accepts nothing now: the leases expire
            for batch in poll.batches:
                self._services.settlement.return_lease(batch.grant.id)

    # --- one partition after the other ---

    def _lease_from(self, poll: Poll, refs: list[PartitionRef], session: MemberSession, in_flight: int) -> Work[None]:
        """Lease from the partitions in turn, beginning after the one that was served last."""
        session.poll_number += 1
        poll.number = session.poll_number
        start = bisect_right(refs, session.last_polled) if session.last_polled is not None else 0
        refs = [ref for ref in refs[start:] + refs[:start] if not self._services.gate.holds(poll.name, ref)]
        order = [ref for ref in refs if (poll.name, ref) not in self._busy]
        self._refused |= {(poll.name, ref) for ref in refs if (poll.name, ref) in self._busy}
        poll.is_first = len(order) == len(refs)
        last_attempt = self._due_last_attempt(poll, order)
        if last_attempt is not None:
            if in_flight:
                poll.is_held_up = True
                return
            messages, poll.messages, poll.is_for_last_attempt = poll.messages, min(1, poll.messages), True
            yield from self._lease_exclusively(poll, last_attempt)
            if poll.batches:
                return
            poll.messages, poll.is_for_last_attempt = messages, False  # it is gone, or waits for its key
        for ref in order:
            if poll.is_full:
                break
            yield from self._lease_exclusively(poll, ref)
        if poll.batches:
            session.last_polled = PartitionRef(poll.batches[-1].topic, poll.batches[-1].partition)

    def _lease_exclusively(self, poll: Poll, ref: PartitionRef) -> Work[None]:
        """Let no other poll lease from the cursor until this one has decided."""
        key = (poll.name, ref)
        if key in self._busy:
            self._refused.add(key)
            return
        self._busy.add(key)
        try:
            yield from self._lease_at(poll, ref)
        except (TopicNotFound, PartitionNotFound, LogClosed):  # a rebalance follows that revokes it
            pass
        except LeaderUnavailable:  # of a partition that is read at another node: it wakes the polls when it is there
            pass
        except GoQueueError as error:  # the other partitions may have messages
            poll.failure = error
        finally:
            self._busy.discard(key)
            if key in self._refused:
                self._refused.discard(key)
                self._services.membership.wake_owner(*key)

    def _due_last_attempt(self, poll: Poll, refs: Iterable[PartitionRef]) -> PartitionRef | None:
        """Return a partition where a message on its last attempt is due."""
        now_ns = poll.now_ns()
        for ref in refs:
            cursor = poll.cursor(ref)
            if cursor is None or (due := cursor.waiting.next_due()) is None or due[0] > now_ns:
                continue
            retries = [due[2]]
            if self._store.keeps_key_order(poll.name):  # there, due messages are delivered by offset
                retries = [retry for _, _, retry in cursor.waiting.runs() if retry.due_ns <= now_ns]
            if any(poll.is_last_attempt(ref, retry.failures) for retry in retries):
                return ref
        return None

    # --- one partition ---

    def _lease_at(self, poll: Poll, ref: PartitionRef) -> Work[None]:
        """Lease retries, then new messages; when there are several lanes, each in its turn."""
        may_read_lanes = not (
            poll.is_for_last_attempt or self._store.keeps_key_order(poll.name) or self._is_crowded(poll, ref)
        )
        reads_lanes = may_read_lanes and (yield from self._lane_polling.is_needed(poll, ref))
        may_go_on = reads_lanes or (yield from self._lease_retries(poll, ref))
        if may_go_on and not poll.is_for_last_attempt:
            yield from self._lease_new(poll, ref)

    def _lease_retries(self, poll: Poll, ref: PartitionRef) -> Work[bool]:
        """Return False before a message on its last attempt, which needs a poll of its own."""
        refused: tuple[Range, RetryState] | None = None
        while not poll.is_full and (cursor := poll.cursor(ref)) is not None:
            found = yield from self._next_retry(poll, cursor)
            if found is None or found == refused:
                break
            (first, end), retry = found
            if cursor.heads is not None and first < cursor.position:
                end = min(end, cursor.position)
            if poll.is_last_attempt(ref, retry.failures):
                if not poll.is_for_last_attempt or poll.batches:
                    return False
                end = first + 1
            if not (yield from poll.lease_range(ref, first, end, retry)):
                refused = found  # it has changed during the read, or cannot be had
        return True

    def _lease_new(self, poll: Poll, ref: PartitionRef) -> Work[None]:
        """Read past removed and held back messages, up to some that can be leased."""
        batches, passed = len(poll.batches), None
        while not poll.is_full and len(poll.batches) == batches and not self._is_crowded(poll, ref):
            reads_lanes = yield from self._lane_polling.is_needed(poll, ref)
            cursor = poll.cursor(ref)
            if cursor is None or (cursor.position, cursor.heads) == passed:
                return
            passed = cursor.position, cursor.heads
            if reads_lanes:
                policy = self._services.topics.topic(ref.topic).lane_policy
                yield from self._lane_polling.lease(poll, ref, policy)
            else:
                yield from poll.lease_range(ref, cursor.position, OFFSET_MAX, None)

    def _is_crowded(self, poll: Poll, ref: PartitionRef) -> bool:
        """True when the cursor has so many ranges that nothing new is leased; with key order, messages count."""
        cursor = poll.cursor(ref)
        if cursor is None:
            return False
        waiting = cursor.waiting.count if self._store.keeps_key_order(cursor.group) else 0
        return max(cursor.run_count, waiting) >= CURSOR_RANGES_MAX

    def _next_retry(self, poll: Poll, cursor: Cursor) -> Work[tuple[Range, RetryState] | None]:
        if self._store.keeps_key_order(poll.name):
            view = poll.view(cursor.ref)
            found = yield from self._services.key_order.next_retry(cursor, view, poll.now_ns())
            return found
        due = cursor.waiting.next_due()
        return None if due is None or due[0] > poll.now_ns() else (due[1], due[2])
