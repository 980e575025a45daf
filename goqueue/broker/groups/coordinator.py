"""The groups of one shard: members, polls, settlement, offsets, lag, dead letters.

Synchronous, without I/O. The caller's duties: run `commit` soon after `on_gathered`; run `deadlines.call_due` at
`deadlines.next_ns`; run `dead_letter_mover.move_all()` after its `on_move_queued`; rewrite the group log now and
then. Nothing is answered before it is durable: callers get their answers through callbacks.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from goqueue.broker.core.deadlines import Deadlines
from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.publish_port import PublishPort
from goqueue.broker.core.work import Promise
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.dead_letters import DeadLetterMover
from goqueue.broker.groups.lag import DeliveryStats, LagReader
from goqueue.broker.groups.membership import Membership
from goqueue.broker.groups.offsets import CommittedOffsets
from goqueue.broker.groups.policies import DeliveryPolicies
from goqueue.broker.groups.poll import PollServices
from goqueue.broker.groups.polling import Polling
from goqueue.broker.groups.rebalancer import Rebalancer
from goqueue.broker.groups.records import GroupRecord
from goqueue.broker.groups.redrive import Redriver
from goqueue.broker.groups.retries import DeliveryPolicy
from goqueue.broker.groups.sessions import RebalanceStats
from goqueue.broker.groups.settlement import Settlement, SettlementCounts
from goqueue.broker.groups.split_gate import SplitGate
from goqueue.broker.groups.state import split_snapshot
from goqueue.broker.groups.store import GroupDirectory, GroupServices, GroupStore, TopicLookup, topic_of
from goqueue.broker.groups.transaction_acks import TransactionAckRules
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import CLIENT_ID_CHARACTERS_MAX, GROUP_LOG_BYTES, GROUP_RETENTION_SECONDS, REVOCATION_SECONDS
from goqueue.storage.disk import Disk

_NOT_IN_MEMBER_IDS = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    policy: DeliveryPolicy = field(default_factory=DeliveryPolicy)
    revocation_ns: int = round(REVOCATION_SECONDS * NANOSECONDS)
    retention_ns: int = GROUP_RETENTION_SECONDS * NANOSECONDS
    log_bytes: int = GROUP_LOG_BYTES
    """The size at which a group log is rewritten."""
    is_replicated: bool = False
    """True in a cluster: each shard is open where its log is led."""


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """Counts of all groups since the broker started."""

    settled: SettlementCounts = field(default_factory=SettlementCounts)
    rebalances: RebalanceStats = field(default_factory=RebalanceStats)
    deliveries: DeliveryStats = field(default_factory=DeliveryStats)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBasis:
    """Services that the coordinators of all shards share."""

    disk: Disk
    topics: TopicLookup
    port: PublishPort
    clock: Clock
    """Of deadlines: it stops while the broker stalls."""
    message_age_clock: Clock
    random_bits: Callable[[int], int]
    settings: GroupSettings
    trusted_ns: Callable[[], int]
    """Wall time as far as it is trusted."""
    directory: GroupDirectory
    policies: DeliveryPolicies
    totals: GroupTotals


class GroupCoordinator:
    """The groups of one shard."""

    def __init__(self, partition: Partition, basis: GroupBasis) -> None:
        settings, topics, totals = basis.settings, basis.topics, basis.totals
        self.clock = basis.clock
        self._topics = topics
        self._random_bits = basis.random_bits
        self.deadlines = Deadlines()
        store = self.store = GroupStore(partition, basis.disk, basis.random_bits, settings.log_bytes)
        services = GroupServices(store, topics, basis.port, basis.clock, self.deadlines, basis.directory)
        self.policies = basis.policies
        self.dead_letter_mover = DeadLetterMover(services)
        self.settlement = Settlement(services, self.policies, self.dead_letter_mover, totals.settled)
        self.rebalancer = Rebalancer(
            services, self.settlement.release_leases, settings.revocation_ns, totals.rebalances
        )
        self.membership = Membership(
            services, self.rebalancer, self._new_member_id, settings.retention_ns, basis.trusted_ns
        )
        self.offsets = CommittedOffsets(services, self.membership, self.rebalancer)
        self.gate = SplitGate(store, topics)
        self.polling = Polling(
            PollServices(
                store=store,
                topics=topics,
                clock=basis.clock,
                message_age_clock=basis.message_age_clock,
                policies=self.policies,
                membership=self.membership,
                settlement=self.settlement,
                gate=self.gate,
                stats=totals.deliveries,
            )
        )
        self.transaction_acks = TransactionAckRules(services, self.offsets, self.settlement)
        self.lags = LagReader(services._replace(clock=basis.message_age_clock), self.gate)
        self.redrives = Redriver(services, self.dead_letter_mover, self.policies)
        self.gate.on_open.subscribe(self.membership.wake_owner)
        self.rebalancer.on_deleted.subscribe(self._forget_when_durable)
        store.on_refused.subscribe(self.settlement.rearm_deadlines)
        self.settlement.on_room.subscribe(self._continue_with_room)
        self.settlement.on_due.subscribe(lambda cursor: self.membership.wake_owner(cursor.group, cursor.ref))
        self.settlement.on_progress.subscribe(self.lags.count_progress)
        self.offsets.on_progress.subscribe(self._count_commit)

    @property
    def journal(self) -> Journal[GroupRecord]:
        return self.store.group_log.journal

    def open(self) -> None:
        """Rebuild the state from the log, and continue what was running."""
        self.store.open()
        for group in self.store.groups():
            for cursor in self.store.cursors(group.group).values():
                self._cut_to_log_end(cursor)
                self.settlement.arm_deadline(cursor)
        self.redrives.close_deleted()
        self.membership.open()
        self.dead_letter_mover.open()
        self.commit()

    def _cut_to_log_end(self, cursor: Cursor) -> None:
        """Cut a cursor to the end of its partition, which may have lost its last messages in a power failure.

        Messages before the end keep their state: some may have been settled in a committed transaction.
        """
        topic = topic_of(self._topics, cursor)
        if topic is None:
            return
        partition = topic.partition(cursor.partition)
        if partition.leadership is not None:  # what was handed out was committed, and a follower may be behind
            return
        end = partition.log_end
        if cursor.reach > end and partition.log.fence is None:
            self.store.record(cursor.group, split_snapshot(cursor.snapshot().below(end)))

    def close(self, error: GoQueueError) -> Promise[None]:
        """Answer all who wait with this error, and decide nothing more."""
        self.polling.close()
        settled = self.journal.close(error)
        self.rebalancer.close(error)
        self.dead_letter_mover.close(error)
        self.deadlines.clear()
        return settled

    def commit(self) -> None:
        self.store.commit()

    def topic_changed(self, name: str) -> None:
        """Handle a topic that was created or deleted, or has other partitions now."""
        self.redrives.close_deleted()
        if name not in self._topics.topics:
            self.polling.forget_topic(name)
            self.gate.look_again(name)
        for group in self.store.groups():
            if any(name in member.topics for member in group.members.values()) or any(
                ref.topic == name for ref in self.store.cursors(group.group)
            ):
                self.rebalancer.check_topics(group)

    def partitions_of(self, name: str, member: str) -> Iterator[Partition]:
        """Yield the partitions that a member may get messages of now."""
        group = self.store.group(name)
        for ref in group.partitions_to_process(member) if group is not None else ():
            topic = self._topics.topics.get(ref.topic)
            if topic is not None and ref.partition < len(topic.partitions) and not self.gate.holds(name, ref):
                yield topic.partition(ref.partition)

    def _forget_when_durable(self, name: str) -> None:
        """If the disk refuses the deletion, the group continues with all its state."""
        with suppress(GoQueueError):  # the log accepts nothing now
            self.store.record(name, [], lambda error: self._forget(name) if error is None else None)

    def _forget(self, name: str) -> None:
        """Drop the state of a deleted group, unless a group of this name was created again."""
        if self.store.group(name) is None and self.rebalancer.pending_rebalance(name) is None:
            self.deadlines.forget(name)
            self.dead_letter_mover.forget(name)
            self.polling.forget(name)
            self.gate.forget(name)
            self.lags.forget(name)

    def _new_member_id(self, client_id: str) -> str:
        """Return the client id, with other characters replaced, and a random suffix."""
        prefix = _NOT_IN_MEMBER_IDS.sub("-", client_id)[:CLIENT_ID_CHARACTERS_MAX]
        return f"{prefix}-{self._random_bits(64):016x}"

    # --- waking polls ---

    def _count_commit(self, cursor: Cursor, members: set[str], count: int) -> None:
        self.lags.count_progress(cursor, count)
        for member in members:
            self._continue_with_room(cursor, member)

    def _continue_with_room(self, cursor: Cursor, member: str) -> None:
        """Continue a rebalance or a poll that waited until a member has fewer messages in flight."""
        group = self.store.group(cursor.group)
        if group is None:
            return
        if not cursor.leased and group.phase == "pending_revoke":
            self.rebalancer.release_idle_partitions(cursor.group)
        session = self.rebalancer.group_session(cursor.group).members.get(member)
        if session is not None and session.wake_at_room and session.waiting:
            cursors = self.store.cursors(cursor.group)
            known = group.members.get(member)
            in_flight = sum(cursors[ref].leased for ref in group.assignment.get(member, ()) if ref in cursors)
            if known is not None and (not in_flight or known.in_flight_max - in_flight >= session.wake_at_room):
                session.wake()
