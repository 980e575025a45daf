"""Assembly of journeys: follows a message to its origins and to its copies, and gathers what is recorded of each.

What happened comes from trace records; what is true now comes from the logs and cursors. Where records are gone, copies
are searched in logs, within bounds.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise

from goqueue.broker.broker import Broker
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import LogRef, PartitionRef
from goqueue.broker.core.work import Work
from goqueue.broker.delay.schedule import CANCELLED, DELIVERED, EXPIRED, PENDING
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.dead_letters import REDRIVE_GROUP
from goqueue.broker.groups.retries import dead_letter_topic
from goqueue.broker.tracing.journey import (
    GroupPhase,
    Journey,
    MessagePhase,
    TracedMessage,
    TraceEvent,
    TraceRelation,
    events_of,
    in_order,
)
from goqueue.broker.tracing.message_search import MessageOrigin, MessageSearch, Position, origin_of, trace_id_at
from goqueue.broker.tracing.records import TraceEventType, TraceRecord
from goqueue.broker.tracing.selection import TraceSelection, TraceStore
from goqueue.limits import TRACE_EVENTS_MAX, TRACE_HOPS_MAX, TRACE_LOST_SCAN_BYTES
from goqueue.storage import frame
from goqueue.wire.trace_context import TraceContext, read_trace_context

MayRead = Callable[[str], bool]
"""Returns whether the caller may read a topic. What it may not read is not followed."""

_BATCHES_MAX = 10_000
_FATES = frozenset[TraceEventType]({"consume.acked", "consume.dropped", "dlq.routed"})


class JourneyAssembler:
    """Answers one question: a trace, or a list of them."""

    def __init__(self, broker: Broker, store: TraceStore, *, follows_ids: bool = True) -> None:
        """With `follows_ids`, a journey has other messages with the same id in their `traceparent`."""
        self._follows_ids = follows_ids
        self._broker = broker
        self._store = store
        self._search = MessageSearch(broker)
        self._is_truncated = False
        self._bytes_left = TRACE_LOST_SCAN_BYTES
        """Of logs that may still be searched for copies of which no record is left."""

    def over(self, store: TraceStore) -> "JourneyAssembler":
        """Return an assembler for lists, with the records of another store. It does not search logs for ids."""
        return JourneyAssembler(self._broker, store, follows_ids=False)

    def of_id(self, trace_id: bytes, may_read: MayRead) -> Work[Journey | None]:
        """Return the journey with this trace id; None if no message is known to have it."""
        position = self._search.derived_position(trace_id, may_read)
        if position is None:
            found = yield from self._with_trace_id(trace_id, may_read)
            position = found[0] if found else None
        return None if position is None else (yield from self.of_message(*position, may_read))

    def of_message(self, ref: LogRef, offset: int, may_read: MayRead) -> Work[Journey | None]:
        """Return the journey of a message; None if nothing is known of it."""
        self._is_truncated = False
        path = yield from self._path(ref, offset, may_read)
        start = path[0]
        messages: dict[Position, TracedMessage] = {}
        events: list[TraceEvent] = []
        context = yield from self._gather(path, messages, events, may_read)
        if not events:
            return None
        if context is not None and self._follows_ids:
            others = yield from self._with_trace_id(context.trace_id, may_read)
            for position in others:
                if position in messages:
                    continue
                if len(messages) < TRACE_HOPS_MAX:
                    others_path = yield from self._path(*position, may_read)
                    other = others_path[0]
                    if (other.ref, other.offset) not in messages:
                        other.relation = "same_trace"
                        yield from self._gather(others_path, messages, events, may_read)
                else:
                    self._is_truncated = True
        ordered, has_more_events = in_order(events)
        is_sampled = any(self._store.ring.sampling.keeps_message(one.ref, one.offset) for one in messages.values())
        trace_id = context.trace_id if context is not None else trace_id_at(start.ref, start.offset)
        return Journey(
            trace_id,
            list(messages.values()),
            ordered,
            is_sampled,
            parent_span=None if context is None else context.span_id,
            state="" if context is None else context.state,
            is_truncated=has_more_events or self._is_truncated,
        )

    def _with_trace_id(self, trace_id: bytes, may_read: MayRead) -> Work[list[Position]]:
        """Return messages whose headers have this id, the newest batch first."""
        batches = yield from self._store.find(TraceSelection(has_headers=True, may_read=may_read), _BATCHES_MAX)
        return (yield from self._search.with_trace_id(trace_id, batches))

    def explain_absence(self, ref: LogRef, offset: int) -> Work[str]:
        """Return why nothing is known of a message, for people."""
        return self._search.explain_absence(ref, offset)

    # --- backwards ---

    def _path(self, ref: LogRef, offset: int, may_read: MayRead) -> Work[list[TracedMessage]]:
        """Return the copies that lead to a message, the first one first, as far as that can be told."""
        path = [TracedMessage(ref, offset, "start")]
        seen: set[Position] = set()
        while (ref, offset) not in seen and len(seen) < TRACE_HOPS_MAX:
            seen.add((ref, offset))
            message = yield from self._search.read(ref, offset)
            origin = None if message is None else origin_of(ref, message)
            if origin is None or not may_read(origin.ref.topic) or self._search.partition(origin.ref) is None:
                break
            ref, offset = origin.ref, origin.offset
            if (ref, offset) not in seen:
                source = TracedMessage(ref, offset, "start")
                path[-1].relation, path[-1].source = _relation(origin), source
                path.append(source)
        return path[::-1]

    # --- forwards ---

    def _gather(
        self,
        path: list[TracedMessage],
        messages: dict[Position, TracedMessage],
        events: list[TraceEvent],
        may_read: MayRead,
    ) -> Work[TraceContext | None]:
        """Add the first message of a path, all its copies and their events. Return the context that one of them has."""
        context: TraceContext | None = None
        waiting = deque(path[:1])
        copy_on_path = {(one.ref, one.offset): copy for one, copy in pairwise(path)}
        while waiting and len(messages) < TRACE_HOPS_MAX:
            one = waiting.popleft()
            if (one.ref, one.offset) in messages:
                continue
            records = yield from self._store.of_message(one.ref, one.offset, TRACE_EVENTS_MAX)
            one.message = yield from self._search.read(one.ref, one.offset)
            if one.message is not None:
                context = context or read_trace_context(one.message.headers)
            yield from self._examine(one, records)
            known = copy_on_path.get((one.ref, one.offset))
            if one.message is None and not records and one.phase == "gone" and known is None:
                continue
            messages[one.ref, one.offset] = one
            copies = yield from self._copies(one, records, may_read)
            if known is not None and all((copy.ref, copy.offset) != (known.ref, known.offset) for copy in copies):
                known.source = one
                copies.append(known)
            one.copies += copies
            waiting += copies
            events += events_of(one, records)
        self._is_truncated |= any((one.ref, one.offset) not in messages for one in waiting)
        return context

    def _copies(self, one: TracedMessage, records: list[TraceRecord], may_read: MayRead) -> Work[list[TracedMessage]]:
        copies: dict[Position, TracedMessage] = {}
        if one.ref.is_delayed:
            at = yield from self._delivered(one)
            if at is not None:
                ref = LogRef(one.ref.topic, one.ref.partition)
                copies[ref, at] = TracedMessage(ref, at, "delivered", one)
        for record in records:
            if not record.to_topic or not may_read(record.to_topic):
                continue
            target = LogRef(record.to_topic, self._number(record.to_topic, record.to_partition))
            group = record.group or REDRIVE_GROUP
            at = yield from self._search.copy_of(one.ref, one.offset, group, target, record.to_offset)
            if at is not None and (target, at) not in copies:
                relation: TraceRelation = "dead_letter" if record.event == "dlq.routed" else "redriven"
                copies[target, at] = TracedMessage(target, at, relation, one)
        for target in self._unrecorded_targets(one, records, bool(copies)):
            if not may_read(target.topic) or one.message is None:
                continue
            time_ns, left = one.message.timestamp_ns, self._bytes_left
            found, examined = yield from self._search.moved_copies(one.ref, one.offset, target, time_ns, left)
            self._bytes_left -= examined
            for at in found:
                relation = "redriven" if one.is_dead_letter else "dead_letter"
                copies.setdefault((target, at), TracedMessage(target, at, relation, one))
        return list(copies.values())

    def _unrecorded_targets(self, one: TracedMessage, records: list[TraceRecord], has_copies: bool) -> list[LogRef]:
        """Return where there may be copies of which no record tells."""
        if one.ref.is_delayed or one.message is None or self._bytes_left <= 0:
            return []
        if one.is_dead_letter:
            origin = origin_of(one.ref, one.message)
            names = {origin.ref.topic} if origin is not None and one.is_redriven and not has_copies else set[str]()
        else:
            names = set[str]() if self._tells_all(one, records) else self._dead_letter_topics(one.ref.topic)
        return [
            LogRef(name, self._number(name, one.ref.partition)) for name in sorted(names) if name in self._broker.topics
        ]

    def _tells_all(self, one: TracedMessage, records: list[TraceRecord]) -> bool:
        """Return whether records tell of the publish, and of each group that has settled a message how it did."""
        told = {record.group for record in records if record.event in _FATES}
        settled = {name for name, cursor in self._cursors(one.ref) if _phase_in(cursor, one.offset) == "settled"}
        return _has_publish(records) and settled <= told

    def _dead_letter_topics(self, topic: str) -> set[str]:
        names = {dead_letter_topic(topic)}
        for coordinator in self._broker.groups:
            policies = coordinator.policies
            names |= {policies.dead_letter_topic(topic), *policies.dead_letter_topics_of_groups(topic)}
        return names - {topic}

    def _number(self, topic: str, number: int) -> int:
        found = self._broker.topics.get(topic)
        return number if found is None else number % len(found.partitions)

    def _delivered(self, one: TracedMessage) -> Work[int | None]:
        """Return where in its topic a delayed message was delivered."""
        if one.phase != "delivered":
            return None
        topic = LogRef(one.ref.topic, one.ref.partition)
        selection = TraceSelection(topic.topic, topic.partition, is_delayed=False, delayed_offset=one.offset)
        for record in (yield from self._store.find(selection, 10)):
            at = yield from self._search.delivered_at(topic, one.offset, record.first, record.end)
            if at is not None:
                return at
        return (yield from self._search.delivered_after(topic, one.offset, one.due_ns)) if one.due_ns else None

    # --- what is true now ---

    def _examine(self, one: TracedMessage, records: list[TraceRecord]) -> Work[None]:
        """Find out what logs and groups say of a message."""
        partition = self._search.partition(one.ref)
        one.is_dropped = any(record.event == "consume.dropped" for record in records)
        if partition is None or one.offset >= partition.high_watermark:
            one.phase = "gone"
        elif one.ref.is_delayed:
            self._examine_delayed(one, records)
        else:
            one.phase = yield from self._phase(partition, one)
            one.groups = self._groups(one.ref, one.offset, records)
            origin = None if one.message is None else origin_of(one.ref, one.message)
            one.is_dead_letter = origin is not None and _relation(origin) == "dead_letter"
            one.is_redriven = one.is_dead_letter and self._is_redriven(one)

    def _is_redriven(self, one: TracedMessage) -> bool:
        topic, store = self._broker.topics[one.ref.topic], self._broker.groups.of(REDRIVE_GROUP).store
        cursor = store.cursor_of(REDRIVE_GROUP, topic, one.ref.partition)
        return cursor is not None and cursor.is_settled(one.offset, one.offset + 1)

    def _examine_delayed(self, one: TracedMessage, records: list[TraceRecord]) -> None:
        topic = self._broker.topics[one.ref.topic].partition(one.ref.partition)
        delays = self._broker.delay_scheduler.delays(topic)
        entry = None if delays is None else delays.schedule.find(one.offset)
        if entry is not None:
            one.due_ns = max(0, entry.due_ns)
            phases: dict[int, MessagePhase] = {
                PENDING: "scheduled",
                DELIVERED: "delivered",
                CANCELLED: "cancelled",
                EXPIRED: "expired",
            }
            one.phase = phases.get(entry.state, "stored")
            return
        ends: dict[str, MessagePhase] = {
            "delay.cancelled": "cancelled",
            "delay.expired": "expired",
            "transaction.aborted": "aborted",
        }
        one.phase = next((ends[record.event] for record in records if record.event in ends), "delivered")

    def _phase(self, partition: Partition, one: TracedMessage) -> Work[MessagePhase]:
        if one.message is None:
            return "gone"
        if not one.message.flags & frame.TRANSACTIONAL:
            return "stored"
        if one.offset >= partition.last_stable:
            is_open = any(first <= one.offset < end for _, opened in partition.open for first, end in opened.ranges)
            if is_open or partition.open.held is not None:
                return "in_transaction"
        aborted = yield from partition.aborted.within(one.offset, one.offset + 1)
        return "aborted" if aborted else "committed"

    def _groups(self, ref: LogRef, offset: int, records: list[TraceRecord]) -> dict[str, GroupPhase]:
        """Return what the groups that received a message have done with it.

        Where its records are gone, groups that began behind it are among them: a cursor does not tell these apart.
        """
        is_recorded = _has_publish(records)
        received = {record.group for record in records if record.group and record.group != REDRIVE_GROUP}
        found: dict[str, GroupPhase] = {}
        for name, cursor in self._cursors(ref):
            phase = _phase_in(cursor, offset)
            if phase is not None and (phase != "settled" or name in received or not is_recorded):
                found[name] = phase
        return found

    def _cursors(self, ref: LogRef) -> Iterator[tuple[str, Cursor]]:
        topic = self._broker.topics[ref.topic]
        key = PartitionRef(ref.topic, ref.partition)
        for coordinator in self._broker.groups:
            for name, cursors in coordinator.store.group_log.durable.cursors.items():
                cursor = cursors.get(key)
                if cursor is not None and cursor.topic_ns == topic.created_ns and name != REDRIVE_GROUP:
                    yield name, cursor


def _has_publish(records: list[TraceRecord]) -> bool:
    return any(record.event in ("publish.persisted", "delay.ready") for record in records)


def _relation(origin: MessageOrigin) -> TraceRelation:
    """Return how a message came from its origin."""
    if not origin.group:
        return "delivered"
    return "redriven" if origin.group == REDRIVE_GROUP else "dead_letter"


def _phase_in(cursor: Cursor, offset: int) -> GroupPhase | None:
    """Return what a group does with a message; None if it was not delivered."""
    if offset in cursor.moving:
        return "moving"
    if offset in cursor.transactional:
        return "in_transaction"
    if any(offset in lease.left for lease in cursor.leases.values()):
        return "in_flight"
    if offset in cursor.waiting:
        waiting = cursor.waiting.get(offset)
        return "waiting" if waiting is not None and waiting.deliveries else None
    return "settled" if cursor.is_settled(offset, offset + 1) else None
