"""Carries rebalances out: from the event that causes one, through its records, to the answers of members.

The rules are in `rebalance.py`. Events that come together cause one rebalance: they gather in a pending rebalance,
which begins a moment after the first of them.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from msgspec.structs import replace

from goqueue.broker.core.delivery_settings import with_delivery_changes
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.view import PartitionView
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.rebalance import begin, force, rejoin, revoke
from goqueue.broker.groups.records import GROUP_CHOICES, CursorClosed, CursorOpened, Group, GroupRecord, RebalanceReason
from goqueue.broker.groups.sessions import GroupSession, JoinCallback, PendingRebalance, RebalanceStats, unknown_member
from goqueue.broker.groups.store import GroupRules, GroupServices, is_topic_deleted, topic_of
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import JOIN_BATCH_SECONDS

_RETRY_NS = NANOSECONDS
_GATHER_NS = round(JOIN_BATCH_SECONDS * NANOSECONDS)

ReleaseLeases = Callable[[Cursor, bool], Sequence[GroupRecord]]
"""Returns the records that end all leases of a cursor; the flag says whether that counts as a failure."""


class Rebalancer(GroupRules):
    def __init__(
        self, services: GroupServices, release_leases: ReleaseLeases, revocation_ns: int, totals: RebalanceStats
    ) -> None:
        """`totals` counts for all groups."""
        super().__init__(services)
        self._release_leases = release_leases
        self.revocation_ns = revocation_ns
        self._sessions: dict[str, GroupSession] = {}
        self.totals = totals
        self.on_assigned: Signal[[Group]] = Signal()
        """Called when an assignment is durable."""
        self.on_deleted: Signal[[str]] = Signal()
        """Called when a group was deleted, maybe before that is durable."""
        self.on_durable: Signal[[Group, Group, Collection[str]]] = Signal()
        """Called with the group before and after a rebalance step, and with the members whose session expired."""
        self.on_complete: Signal[[int]] = Signal()
        """Called with the duration in nanoseconds when a rebalance is complete and durable."""
        self.creating: set[str] = set()
        """Groups that members have asked to join and that are not recorded yet: they count towards the limit."""
        self._begin_deadline = self._deadlines.kind(self._begin_pending)
        self._revocation_deadline = self._deadlines.kind(self._force_late)

    def close(self, error: GoQueueError) -> None:
        """Refuse all who wait for a rebalance, and wake all polls."""
        for session in self._sessions.values():
            pending, session.pending = session.pending or PendingRebalance(0), None
            joins, session.waiting_for_rejoin = [*session.waiting_for_rejoin, *pending.join_callbacks], []
            for _, joined in joins:
                joined(error)
            for left in pending.leave_callbacks:
                left(error)
            session.wake()

    def group_session(self, name: str) -> GroupSession:
        """Return the session of a group, which is created where there is none."""
        found = self._sessions.get(name)
        if found is None:
            found = self._sessions[name] = GroupSession()
        return found

    def forget(self, name: str) -> None:
        """Drop the sessions of a deleted group."""
        self.creating.discard(name)
        gone = self._sessions.pop(name, None)
        if gone is not None:
            gone.wake()
        self.on_deleted.emit(name)

    def pending_rebalance(self, name: str) -> PendingRebalance | None:
        found = self._sessions.get(name)
        return found.pending if found is not None else None

    # --- causes ---

    def request_rebalance(self, name: str, reason: RebalanceReason, delay_ns: int = _GATHER_NS) -> PendingRebalance:
        """Return the pending rebalance of a group; it begins a moment after its first cause."""
        session = self.group_session(name)
        pending = session.pending
        if pending is None:
            pending = session.pending = PendingRebalance(self._clock.now_ns())
            self._deadlines.add(pending.began_ns + delay_ns, self._begin_deadline, name)
        pending.reasons.add(reason)
        return pending

    def check_topics(self, group: Group) -> None:
        """Request a rebalance when topics were created, deleted or changed since the assignment was made."""
        given = {ref for refs in (*group.assignment.values(), *group.target.values()) for ref in refs}
        counts = self._partition_counts(group.topics())
        wanted = {PartitionRef(topic, number) for topic, count in counts.items() for number in range(count)}
        cursors = self._store.cursors(group.group)
        is_stale = any(is_topic_deleted(self._topics, cursor) for cursor in cursors.values())
        is_stale |= any(ref not in cursors for refs in group.assignment.values() for ref in refs)
        if is_stale or (given != wanted and group.members):
            self.request_rebalance(group.group, "topics_changed")

    def _partition_counts(self, names: Collection[str]) -> dict[str, int]:
        topics = self._topics.topics
        return {name: len(topics[name].partitions) for name in names if name in topics}

    # --- decide and record ---

    def _begin_pending(self, name: str) -> None:
        self.creating.discard(name)
        session = self.group_session(name)
        pending, session.pending = session.pending, None
        before = self._store.group(name)
        if pending is not None and pending.settings is not None:
            before = _with_settings(before, pending.settings)
        if pending is None or before is None:
            return
        if pending.delivery:
            before = replace(before, delivery=with_delivery_changes(before.delivery, pending.delivery))
        if before.phase != "pending_revoke":
            for stats in (session.stats, self.totals):
                stats.count_begin(sorted(pending.reasons))
        topics = before.topics() | {topic for member in pending.joining.values() for topic in member.topics}
        after = begin(
            before,
            joining=list(pending.joining.values()),
            leaving=pending.leaving,
            partitions=self._partition_counts(topics),
            reasons=pending.reasons,
            now_ns=pending.began_ns,
        )
        self.record_step(before, after, pending=pending)

    def record_step(
        self,
        before: Group,
        after: Group,
        *,
        pending: PendingRebalance | None = None,
        callback: JoinCallback | None = None,
        member: str = "",
    ) -> None:
        """Record the next step of a rebalance, and answer members when it is durable."""
        pending = pending or PendingRebalance(self._clock.now_ns())
        after = self._without_idle(after)
        callbacks = [*pending.join_callbacks, *([(member, callback)] if callback is not None else [])]
        # In this order, because a crash may keep only the first records: no member may own what another has in flight.
        # Missing cursors are found at the next start.
        records: list[GroupRecord] = [
            *self._end_leases(after, pending.expired),
            after,
            *self._open_and_close_cursors(after),
        ]
        done = partial(self._finish, before, after, pending, callbacks)
        try:
            self._store.record(after.group, records, done)
        except GoQueueError as error:
            done(error)

    def _without_idle(self, group: Group) -> Group:
        """Revoke partitions with nothing in flight from members that do not confirm revocations."""
        if group.phase != "pending_revoke" or group.protocol != "cooperative":
            return group
        idle = {
            name: [ref for ref in group.partitions_to_revoke(name) if not self._is_busy(group.group, ref)]
            for name, member in group.members.items()
            if not member.confirms
        }
        return revoke(group, idle)

    def _is_busy(self, name: str, ref: PartitionRef) -> bool:
        """With key order, messages acknowledged in a transaction may have to come again before the next ones."""
        cursor = self._store.cursor(name, ref)
        if cursor is None or topic_of(self._topics, cursor) is None:
            return False
        return cursor.leased > 0 or (cursor.transactional.count > 0 and self._store.keeps_key_order(name))

    def _open_and_close_cursors(self, group: Group) -> list[GroupRecord]:
        """Open a cursor for each newly assigned partition, and close those of deleted topics."""
        found = self._store.cursors(group.group)
        closed = {ref for ref, cursor in found.items() if is_topic_deleted(self._topics, cursor)}
        records: list[GroupRecord] = [CursorClosed(group.group, *ref) for ref in found if ref in closed]
        assigned = [ref for refs in group.assignment.values() for ref in refs if ref not in found or ref in closed]
        known = {ref.topic: ref.partition for ref in sorted(found, reverse=True) if ref not in closed}
        # The last partitions first: a crash may keep only the first records, and a group that has a cursor in a
        # partition must have had the chance to open all behind it.
        for ref in sorted(assigned, reverse=True):
            topic = self._topics.topics.get(ref.topic)
            if topic is None or ref.partition >= len(topic.partitions):
                continue
            partition = topic.partition(ref.partition)
            # A group that has read the topic before begins an added partition at its first message.
            is_added = ref.partition in topic.splits and known.get(ref.topic, ref.partition) < ref.partition
            is_earliest = group.start == "earliest" or is_added
            floor = partition.earliest if is_earliest else PartitionView(partition, group.isolation).end
            records.append(CursorOpened(group.group, *ref, topic_ns=topic.created_ns, floor=floor))
        return records

    def _end_leases(self, group: Group, expired: Collection[str]) -> list[GroupRecord]:
        """End the leases of members on partitions that they lose."""
        owners = group.owners()
        records: list[GroupRecord] = []
        for ref, cursor in self._store.cursors(group.group).items():
            if cursor.leases and topic_of(self._topics, cursor) is not None:
                holder = next(iter(cursor.leases.values())).grant.member
                if owners.get(ref) != holder:
                    records += self._release_leases(cursor, holder in expired)
        return records

    # --- when it is durable ---

    def _finish(
        self,
        before: Group,
        after: Group,
        pending: PendingRebalance,
        callbacks: list[tuple[str, JoinCallback]],
        error: GoQueueError | None,
    ) -> None:
        session = self.group_session(after.group)
        if error is not None:
            self._fail(session, after.group, pending, callbacks, error)
            return
        is_rebalance = bool(pending.reasons) or before.phase == "pending_revoke"
        self._count(before, after, session, is_rebalance=is_rebalance)
        self._update_sessions(session, after.group)
        self.on_durable.emit(before, after, pending.expired)
        for left in pending.leave_callbacks:
            left(None)
        if after.phase == "complete":
            callbacks, session.waiting_for_rejoin = [*session.waiting_for_rejoin, *callbacks], []
        elif after.protocol == "eager":
            session.waiting_for_rejoin += callbacks
            return
        for name, joined in callbacks:
            self._answer_join(name, joined, after)

    def _fail(
        self,
        session: GroupSession,
        name: str,
        pending: PendingRebalance,
        callbacks: list[tuple[str, JoinCallback]],
        error: GoQueueError,
    ) -> None:
        session.stats.failed += 1
        self.totals.failed += 1
        for _, joined in callbacks:
            joined(error)
        for left in pending.leave_callbacks:
            left(error)
        self._repeat(pending, name)
        if self._store.group(name) is None and session.pending is None:
            self.forget(name)

    def _repeat(self, pending: PendingRebalance, name: str) -> None:
        """Expired members and topic changes remain even when the disk refused to record them."""
        if self._store.group(name) is None or self._store.group_log.log.fence is not None:
            return  # a fenced log accepts nothing until the next start, which checks everything
        if "topics_changed" in pending.reasons:
            self.request_rebalance(name, "topics_changed", _RETRY_NS)
        if pending.expired:
            repeated = self.request_rebalance(name, "session_expired", _RETRY_NS)
            repeated.leaving |= pending.expired
            repeated.expired |= pending.expired

    def is_waiting_for_rejoin(self, name: str, member: str) -> bool:
        """True while an eager member waits for the others: it can send no heartbeat."""
        return any(waiting == member for waiting, _ in self.group_session(name).waiting_for_rejoin)

    def _answer_join(self, name: str, callback: JoinCallback, group: Group) -> None:
        if name not in group.members:  # it left while it waited
            callback(unknown_member(group.group, name))
            return
        session = self.group_session(group.group).member(name, self._clock.now_ns())
        session.seen_ns = self._clock.now_ns()
        session.known_generation, session.is_fenced = group.generation, False
        callback((name, group))

    def _count(self, before: Group, after: Group, session: GroupSession, *, is_rebalance: bool) -> None:
        now_ns = self._clock.now_ns()
        is_over, took_ns = is_rebalance and after.phase == "complete", now_ns - after.began_ns
        for stats in (session.stats, self.totals):
            stats.count_moves(before, after)
            if is_over:
                stats.count_end(took_ns, now_ns)
        if is_over:
            self.on_complete.emit(took_ns)

    def _update_sessions(self, group_session: GroupSession, name: str) -> None:
        """Update what members may process, start revocation deadlines, and wake members."""
        group = self._store.group(name)
        now_ns = self._clock.now_ns()
        if group is None:
            return
        for gone in group_session.members.keys() - group.members.keys():
            group_session.members.pop(gone).wake()
        for member in group.members:
            session = group_session.member(member, now_ns)
            partitions = group.partitions_to_process(member)
            if partitions != session.partitions:
                session.partitions, session.changed = partitions, group.generation
            is_asked = bool(group.partitions_to_revoke(member)) or member in group.awaited
            if not is_asked:
                session.asked_ns = None
            elif session.asked_ns is None:
                session.asked_ns = now_ns
                self._deadlines.add(now_ns + self.revocation_ns, self._revocation_deadline, name)
        group_session.wake()
        self.on_assigned.emit(group)

    def restart_deadlines(self, name: str) -> None:
        """After a start or a reset: members have the full time again for what is asked of them."""
        self._update_sessions(self.group_session(name), name)

    # --- revocation ---

    def release_idle_partitions(self, name: str) -> None:
        """Continue a rebalance after a member has nothing in flight in a partition any more."""
        group = self._store.group(name)
        if group is not None and group.phase == "pending_revoke":
            after = self._without_idle(group)
            if after is not group:
                self.record_step(group, after)

    def _force_late(self, name: str) -> int | None:
        group, now_ns = self._store.group(name), self._clock.now_ns()
        if group is None or group.phase != "pending_revoke":
            return None
        deadlines = {
            member: session.asked_ns + self.revocation_ns
            for member, session in self.group_session(name).members.items()
            if session.asked_ns is not None and member in group.members
        }
        late = [member for member, deadline_ns in deadlines.items() if deadline_ns <= now_ns]
        if late:
            for stats in (self.group_session(name).stats, self.totals):
                stats.timeouts += len(late)
            self.record_step(group, force(group, late, self._partition_counts(group.topics()), now_ns))
            return now_ns + _RETRY_NS  # in case the disk refuses it
        return min(deadlines.values(), default=None)

    def rejoin(self, group: Group, member: str, callback: JoinCallback) -> None:
        """Eager: a member has stopped; it is answered when all others have rejoined too."""
        after = rejoin(group, member, self._partition_counts(group.topics()))
        self.record_step(group, after, callback=callback, member=member)

    def revocation_deadline(self, name: str, member: str) -> int | None:
        session = self.group_session(name).members.get(member)
        return None if session is None or session.asked_ns is None else session.asked_ns + self.revocation_ns


def _with_settings(group: Group | None, settings: Group) -> Group:
    """Return a group without members with the settings of the member that joins first."""
    if group is None:
        return settings
    return replace(group, **{field: getattr(settings, field) for field in GROUP_CHOICES})
