"""One poll: what it asks for, what it has leased so far, and the leasing of one range of offsets.

Invariant: between a read and the decision that follows it, nothing has happened that the decision does not check.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from msgspec.structs import replace as replace_fields

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.view import PartitionView
from goqueue.broker.core.work import Work
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.fetch import MessageSlice, first_lane_of, slice_read, without_blocked_keys
from goqueue.broker.groups.key_order import KeyOrderTracker
from goqueue.broker.groups.lag import DeliveryStats
from goqueue.broker.groups.membership import Membership
from goqueue.broker.groups.policies import DeliveryPolicies
from goqueue.broker.groups.records import (
    AnyCursorRecord,
    Group,
    LeaseGrant,
    LeasesGranted,
    OffsetCommitted,
    Range,
    RetryState,
)
from goqueue.broker.groups.settlement import Settlement
from goqueue.broker.groups.split_gate import SplitGate
from goqueue.broker.groups.store import GroupStore, TopicLookup
from goqueue.clock import Clock
from goqueue.errors import GoQueueError
from goqueue.limits import OFFSET_MAX, POLL_LEASES_MAX
from goqueue.storage import frame
from goqueue.storage.lanes import NO_LANE

Allowance = Callable[[int, int], tuple[int, int]]
"""Returns how many of so many messages and bytes may be handed out now."""
_READ_FACTOR = 2  # times the average size of the messages wanted: a poll for few messages reads little

NEVER_DELIVERED = RetryState(0, 0, 0, 0, NO_LANE)


@dataclass(frozen=True, slots=True)
class PollOptions:
    messages_max: int
    bytes_max: int
    visibility_ns: int | None = None
    """How long the leases last; None: as the group, the topic or the broker says."""
    skip_damage: bool = False
    allowance: Allowance | None = None
    """What may be handed out at most, asked each time when there may be messages; None: any number."""

    def allowed(self) -> "PollOptions":
        """Return the options with what is allowed now."""
        if self.allowance is None:
            return self
        messages, size = self.allowance(self.messages_max, self.bytes_max)
        return replace(self, messages_max=messages, bytes_max=size)


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    topic: str
    partition: int
    grant: LeaseGrant
    content: MessageSlice


@dataclass(slots=True)
class PollResult:
    group: Group
    batches: list[LeasedBatch] = field(default_factory=list)
    is_changed: bool = False
    """True when the member should look at its assignment."""
    is_alert: bool = False
    """True when the member was not told so yet: then the poll does not wait for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollServices:
    """The parts of the coordinator that polls use."""

    store: GroupStore
    topics: TopicLookup
    clock: Clock
    message_age_clock: Clock
    """For the ages of messages, which grow while the broker stands still."""
    policies: DeliveryPolicies
    membership: Membership
    settlement: Settlement
    gate: SplitGate
    key_order: KeyOrderTracker = field(default_factory=KeyOrderTracker)
    stats: DeliveryStats = field(default_factory=DeliveryStats)


class Poll:
    def __init__(self, services: PollServices, name: str, member: str, options: PollOptions, messages: int) -> None:
        self.services = services
        self.store = services.store
        self.name = name
        self.member = member
        self.options = options
        self.messages = messages
        """How many more messages it may lease."""
        self.bytes = options.bytes_max
        self.batches: list[LeasedBatch] = []
        self.failure: GoQueueError | None = None
        self.is_for_last_attempt = False
        self.is_held_up = False
        """True when the member must settle messages before it gets more."""
        self.number = 0
        self.is_first = True
        """True when no other poll of the member was running at the beginning."""

    @property
    def is_full(self) -> bool:
        return self.messages <= 0 or self.bytes <= 0 or len(self.batches) >= POLL_LEASES_MAX

    # --- lookup ---

    def now_ns(self) -> int:
        return self.services.clock.now_ns()

    def cursor(self, ref: PartitionRef) -> Cursor | None:
        return self.store.cursor(self.name, ref)

    def partition(self, ref: PartitionRef) -> Partition:
        return self.services.topics.topic(ref.topic).partition(ref.partition)

    def view(self, ref: PartitionRef) -> PartitionView:
        return PartitionView(self.partition(ref), self.store.isolation(self.name))

    def in_flight(self, refs: Iterable[PartitionRef]) -> int:
        cursors = self.store.cursors(self.name)
        return sum(cursors[ref].leased for ref in refs if ref in cursors)

    def is_last_attempt(self, ref: PartitionRef, failures: int) -> bool:
        return self.services.policies.of(self.name, ref.topic).is_last_attempt(failures)

    def has_last_attempt_in_flight(self, refs: Iterable[PartitionRef], in_flight: int) -> bool:
        """True when the only message in flight is on its last attempt, which must stay alone."""
        cursors = self.store.cursors(self.name) if in_flight == 1 else {}
        return any(
            self.is_last_attempt(ref, lease.grant.failures)
            for ref in refs
            if ref in cursors
            for lease in cursors[ref].leases.values()
        )

    # --- lease ---

    def lease_range(
        self, ref: PartitionRef, first: int, end: int, retry: RetryState | None, most: int = OFFSET_MAX
    ) -> Work[bool]:
        """Lease the first messages of a range, if they may be had. Return False when there are no more here."""
        view, messages = self.view(ref), min(self.messages, most)
        partition = view.partition
        if first < partition.earliest:
            self.skip_removed(ref, partition)
            return True
        if first >= view.end:
            return False
        size = min(self.bytes, messages * _READ_FACTOR * partition.message_bytes)
        read = yield from view.read(first, size, skip_damage=self.options.skip_damage)
        dense = partition.is_dense(first, min(end, read.next_offset))
        content = slice_read(read, first, min(end, view.end), messages, dense=dense)
        history = retry or NEVER_DELIVERED
        if history.lane == NO_LANE:
            content = first_lane_of(content) if retry is not None else content
            lane = content.buffers[0][frame.AT_PRIORITY] if content.buffers else frame.NORMAL
            history = history._replace(lane=lane)
        stretches, held = [content], list[Range]()
        if retry is None:
            stretches, held = yield from self.unblocked(ref, content)
        if content.end == first or not self._is_same_topic(ref, partition):
            return False
        if not self._may_lease(ref, first, retry, sum(one.count for one in stretches)):
            return False
        gaps = [gap for one in stretches for gap in one.gaps]
        heads = self._heads(ref, first)
        change = LeasesGranted(self.name, *ref, grants=[], held=held, gaps=gaps, heads=heads, lane=history.lane)
        self.grant(ref, change, stretches, history)
        return retry is not None

    def unblocked(self, ref: PartitionRef, content: MessageSlice) -> Work[tuple[list[MessageSlice], list[Range]]]:
        """Return the messages that may be delivered, and those that are held back to keep the order of their key."""
        if not self.store.keeps_key_order(self.name) or (cursor := self.cursor(ref)) is None:
            return [content], []
        blocked = yield from self.services.key_order.blocked(cursor, self.view(ref))
        return without_blocked_keys(content, blocked, POLL_LEASES_MAX)

    def grant(
        self, ref: PartitionRef, change: LeasesGranted, stretches: Iterable[MessageSlice], history: RetryState
    ) -> None:
        """Record the change with a lease for each stretch, and add the leases to the poll."""
        batches = []
        visibility_ns = self.options.visibility_ns or self.services.policies.of(self.name, ref.topic).visibility_ns
        for stretch in stretches:
            if stretch.count:
                grant = self._new_grant(stretch, history, visibility_ns, is_laned=bool(change.heads))
                change.grants.append(grant)
                batches.append(LeasedBatch(*ref, grant, stretch))
        counts = {
            "messages": sum(batch.content.count for batch in batches),
            "size": sum(batch.content.size for batch in batches),
        }
        self.record(ref, [replace_fields(change, **counts)])
        for batch in batches:
            self.batches.append(batch)
            self.messages -= batch.content.count
            self.bytes -= batch.content.size
            self.services.stats.count(ref, history.lane, batch.content, self.services.message_age_clock.now_ns())

    def record(self, ref: PartitionRef, records: list[AnyCursorRecord]) -> None:
        self.store.record(self.name, records)
        self.services.settlement.arm_deadline(self.store.cursors(self.name)[ref])

    def _heads(self, ref: PartitionRef, first: int) -> list[int]:
        """Return the current heads for a lease behind the offset from which lanes are read separately."""
        cursor = self.cursor(ref)
        return list(cursor.heads) if cursor is not None and cursor.heads and first >= cursor.position else []

    def _new_grant(
        self, content: MessageSlice, history: RetryState, visibility_ns: int, *, is_laned: bool
    ) -> LeaseGrant:
        now_ns = self.now_ns()
        first, end = content.first, content.end
        runs: tuple[int, ...] = ()
        if is_laned:
            edges = [edge for one in content.ranges() for edge in one]
            first, end = edges[0], edges[-1]
            runs = tuple(after - before for before, after in pairwise(edges))
        return LeaseGrant(
            self.store.new_lease_id(history.lane if len(runs) > 1 else None),
            self.member,
            first,
            end,
            history.deliveries + 1,
            history.failures,
            history.first_ns,
            now_ns,
            now_ns + visibility_ns,
            history.lane,
            runs if len(runs) > 1 else (),
        )

    # --- checks after a read ---

    def owns(self, partition: Partition, ref: PartitionRef, count: int) -> bool:
        """True when the member may still lease so many messages of the partition."""
        group = self.store.group(self.name)
        if not self._is_same_topic(ref, partition):
            return False
        if group is None or ref not in group.partitions_to_process(self.member):
            return False
        if self.services.gate.holds(self.name, ref):  # the parent was reset during the read
            return False
        is_latest = self.services.membership.session(self.name, self.member).poll_number == self.number
        return (self.is_first and is_latest) or self._has_room(group, count)

    def _is_same_topic(self, ref: PartitionRef, partition: Partition) -> bool:
        """False when the topic was deleted and maybe recreated; a rebalance of the group follows."""
        topic = self.services.topics.topics.get(ref.topic)
        if topic is None or partition not in topic.partitions:
            return False
        cursor = self.cursor(ref)
        return cursor is not None and cursor.topic_ns == topic.created_ns

    def _may_lease(self, ref: PartitionRef, first: int, retry: RetryState | None, count: int) -> bool:
        """False when the partition was reassigned during the read, or the cursor has moved."""
        cursor = self.cursor(ref)
        if cursor is None or not self.owns(self.partition(ref), ref, count):
            return False
        if retry is None:  # messages that were appended during the read may be of another lane
            return cursor.position == first >= self.partition(ref).log.lanes.since and cursor.heads is None
        run = cursor.waiting.run_at(first)
        return run is not None and run[2] == retry

    def _has_room(self, group: Group, count: int) -> bool:
        """Check the in-flight limit again, because another poll of the member may have leased messages."""
        refs = group.assignment[self.member]
        in_flight = self.in_flight(refs)
        if self.has_last_attempt_in_flight(refs, in_flight) or (self.is_for_last_attempt and in_flight):
            return False
        return in_flight + count <= group.members[self.member].in_flight_max

    def skip_removed(self, ref: PartitionRef, partition: Partition) -> None:
        """Commit up to the earliest offset: retention has removed the messages before it. Count the lost ones."""
        earliest = partition.earliest
        lost = self.store.cursors(self.name)[ref].lost_before(earliest)
        self.store.record(self.name, [OffsetCommitted(self.name, *ref, floor=earliest, lost=lost)])
