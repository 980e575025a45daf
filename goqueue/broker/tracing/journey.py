"""The journey of a message: what happened to it and to its copies, as one trace."""

from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec.structs import replace

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.tracing.records import PUBLISH_EVENTS, TraceEventType, TraceRecord
from goqueue.clock import NANOSECONDS
from goqueue.limits import TRACE_EVENTS_MAX
from goqueue.quantities import format_time
from goqueue.storage.frame import StoredMessage

TraceStatus = Literal["completed", "pending", "error"]

TraceRelation = Literal["start", "delivered", "dead_letter", "redriven", "same_trace"]
"""How a message came into a trace: as its first one, delivered when due, as a dead letter, redriven from there, or
with the same trace id in its `traceparent`.
"""

GroupPhase = Literal["settled", "in_flight", "waiting", "moving", "in_transaction"]

MessagePhase = Literal[
    "stored", "scheduled", "delivered", "in_transaction", "committed", "aborted", "cancelled", "expired", "gone"
]
"""What a log says of a message. `gone`: it was removed."""


@dataclass(frozen=True, slots=True)
class TraceEvent:
    time_ns: int
    event: TraceEventType
    ref: LogRef
    offset: int
    details: dict[str, Any]


@dataclass(slots=True)
class TracedMessage:
    """A message of a journey: one place in one log."""

    ref: LogRef
    offset: int
    relation: TraceRelation
    source: "TracedMessage | None" = None
    """The message that this is a copy of."""
    phase: MessagePhase = "stored"
    message: StoredMessage | None = None
    """Its content, unless it was removed."""
    due_ns: int = 0
    groups: dict[str, GroupPhase] = field(default_factory=dict)
    """The groups to which it was delivered."""
    copies: list["TracedMessage"] = field(default_factory=list)
    is_dropped: bool = False
    is_dead_letter: bool = False
    is_redriven: bool = False
    """A dead letter that has left its queue, even where its copy is not found."""

    @property
    def status(self) -> TraceStatus:
        if self.is_dropped or self.phase in ("aborted", "expired"):
            return "error"
        if self.is_dead_letter and not self.is_redriven and not self.copies:
            return "error"
        is_open = self.phase in ("scheduled", "in_transaction") or any(one != "settled" for one in self.groups.values())
        return "pending" if is_open else "completed"


@dataclass(slots=True)
class Journey:
    """Everything known of a message and its copies."""

    trace_id: bytes
    messages: list[TracedMessage]
    """The first one first."""
    events: list[TraceEvent]
    """In the order of time."""
    is_sampled: bool
    """False: only what logs, groups and the memory still know is here."""
    parent_span: bytes | None = None
    """The span in the `traceparent` of the first message."""
    state: str = ""
    """Its `tracestate`."""
    is_truncated: bool = False

    @property
    def first(self) -> TracedMessage:
        return self.messages[0]

    @property
    def status(self) -> TraceStatus:
        found = {one.status for one in self.messages}
        return "error" if "error" in found else "pending" if "pending" in found else "completed"

    @property
    def start_ns(self) -> int:
        return self.events[0].time_ns if self.events else 0

    @property
    def end_ns(self) -> int:
        return self.events[-1].time_ns if self.events else 0


def events_of(one: TracedMessage, records: list[TraceRecord]) -> list[TraceEvent]:
    """Return the events of one message from its records, which are in the order of time."""
    events, deliveries = _publish_events(one, records), _Deliveries()
    for record in map(deliveries.follow, records):
        if record is None or record.event == "publish.persisted":
            continue
        is_append = record.event == "delay.ready"
        time_ns = one.message.timestamp_ns if is_append and one.message is not None else record.time_ns
        events.append(TraceEvent(time_ns, record.event, one.ref, one.offset, _details(one, record)))
    return events


_SETTLING = frozenset[TraceEventType](
    {"consume.acked", "consume.nacked", "consume.rejected", "consume.dropped", "visibility.timeout", "consume.released"}
)
_FINAL = frozenset[TraceEventType]({"consume.acked", "consume.rejected", "consume.dropped"})


class _Deliveries:
    """The deliveries of one message to groups, as its records tell them one after the other."""

    def __init__(self) -> None:
        self._fetched: dict[str, TraceRecord] = {}
        """The latest delivery to each group."""
        self._settled: set[tuple[str, int]] = set()
        """Groups and attempts that have ended."""
        self._done: set[str] = set()
        """Groups that have finished with it."""

    def follow(self, record: TraceRecord) -> TraceRecord | None:
        """Return the record, completed; None if it is not about this message."""
        group = record.group
        if record.event == "consume.fetched":
            self._fetched[group] = record
            self._done.discard(group)
            self._settled.discard((group, record.attempt))  # as after a reset of the group
        elif record.event == "visibility.extended":
            return None if (group, record.attempt) in self._settled else record  # the rest of its lease was extended
        elif record.event in _SETTLING:
            if record.event == "consume.acked" and record.reason and group in self._done:
                return None  # each commit of an offset covers all messages before it
            if not record.attempt and not record.reason and group in self._fetched:
                record = _with_delivery(record, self._fetched[group])
            if record.attempt and (group, record.attempt) in self._settled:
                return None  # an ack in a lane may name what was settled before
            self._settled.add((group, record.attempt))
            if record.event in _FINAL:
                self._done.add(group)
        return record


def _with_delivery(record: TraceRecord, fetched: TraceRecord) -> TraceRecord:
    """Complete the record of a settlement with its delivery, where the broker had restarted between both."""
    return replace(record, member=fetched.member, attempt=fetched.attempt, since_ns=fetched.time_ns)


def _publish_events(one: TracedMessage, records: list[TraceRecord]) -> list[TraceEvent]:
    """Return the events of the publish. Of a copy, which the broker writes itself, only that it is persisted."""
    persisted = next((record for record in records if record.event in ("publish.persisted", "delay.scheduled")), None)
    appended_ns = one.message.timestamp_ns if one.message is not None else 0
    if persisted is not None:
        appended_ns = appended_ns or persisted.since_ns
    if not appended_ns:
        return []
    persisted_ns = persisted.time_ns if persisted is not None else appended_ns
    details: dict[TraceEventType, dict[str, Any]] = {
        "publish.received": {},
        "publish.partitioned": {"partition": one.ref.partition, "by": _placed_by(one.message)},
        "publish.persisted": {} if persisted is not None else {"from": "log"},
    }
    names = PUBLISH_EVENTS if one.relation in ("start", "same_trace") else ("publish.persisted",)
    return [
        TraceEvent(
            max(persisted_ns, appended_ns) if name == "publish.persisted" else appended_ns,
            name,
            one.ref,
            one.offset,
            details[name],
        )
        for name in names
    ]


def _placed_by(message: StoredMessage | None) -> str:
    return "unknown" if message is None else "key" if message.key else "turn"


def _details(one: TracedMessage, record: TraceRecord) -> dict[str, Any]:
    details: dict[str, Any] = {}
    for name in ("group", "member", "attempt", "reason", "transaction"):
        if value := getattr(record, name):
            details[name] = value
    if record.since_ns and record.event in _SETTLING:
        details["seconds"] = record.duration_ns / NANOSECONDS
    if record.event.startswith("dlq."):
        target = next((copy for copy in one.copies if copy.ref == LogRef(record.to_topic, record.to_partition)), None)
        details |= {"topic": record.to_topic, "partition": record.to_partition}
        if target is not None:
            details["offset"] = target.offset
    elif record.event in ("delay.scheduled", "delay.rescheduled"):
        if one.due_ns:
            details["deliver_at"] = format_time(one.due_ns)
    elif record.until_ns:
        name = "until" if record.event in ("consume.fetched", "visibility.extended") else "retry_at"
        details[name] = format_time(record.until_ns)
    if record.event == "delay.ready" and one.source is not None:
        details["delayed_offset"] = one.source.offset
    return details


def in_order(events: list[TraceEvent]) -> tuple[list[TraceEvent], bool]:
    """Sort events by time, causes before effects; return whether there were too many."""
    events.sort(key=lambda one: (one.time_ns, one.event != "delay.ready"))
    return events[:TRACE_EVENTS_MAX], len(events) > TRACE_EVENTS_MAX
