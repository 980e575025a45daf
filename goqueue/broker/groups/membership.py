"""Membership: join, heartbeat, revoke, leave, and the expiry of sessions and of empty groups.

Invariants: an unknown member, or one with a stale generation, changes nothing; an answer is given when what it says
is durable.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from goqueue.broker.core.delivery_settings import check_delivery_settings, with_delivery_changes
from goqueue.broker.core.names import check_name, check_new_name, is_internal
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.view import Isolation
from goqueue.broker.groups.rebalance import revoke
from goqueue.broker.groups.rebalancer import Rebalancer
from goqueue.broker.groups.records import (
    GROUP_CHOICES,
    Group,
    GroupDeleted,
    Member,
    MessageOrder,
    RebalanceProtocol,
    StartPosition,
    Strategy,
)
from goqueue.broker.groups.sessions import DoneCallback, JoinCallback, MemberSession, PendingRebalance, unknown_member
from goqueue.broker.groups.store import GroupRules, GroupServices
from goqueue.clock import NANOSECONDS
from goqueue.errors import (
    GenerationStale,
    GoQueueError,
    GroupFull,
    GroupMismatch,
    GroupNameInvalid,
    GroupNotEmpty,
    GroupNotFound,
    RequestInvalid,
    TopicNotFound,
)
from goqueue.limits import GROUP_MEMBERS_MAX, GROUPS_MAX
from goqueue.nearest import nearest
from goqueue.quantities import format_count, quoted

_RECHECK_NS = 60 * NANOSECONDS  # of a group that is expired only if the clock is right


def check_group_name(name: str) -> None:
    check_name(name, "group", GroupNameInvalid)


def check_new_group_name(name: str) -> None:
    check_new_name(name, "group", GroupNameInvalid)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions:
    """The settings that a member asks for when it joins; None leaves one to the group."""

    topics: tuple[str, ...]
    client_id: str
    session_ns: int
    in_flight_max: int
    member_id: str | None = None
    protocol: RebalanceProtocol | None = None
    strategy: Strategy | None = None
    order: MessageOrder | None = None
    start: StartPosition | None = None
    isolation: Isolation | None = None
    delivery: Mapping[str, Any] = field(default_factory=dict)
    """Delivery settings of the group that the member names, now and for all members."""
    confirms: bool = False
    is_named: bool = True
    """True when the client id was given, and is not the default one."""


class Membership(GroupRules):
    def __init__(
        self,
        services: GroupServices,
        rebalancer: Rebalancer,
        new_id: Callable[[str], str],
        retention_ns: int,
        trusted_ns: Callable[[], int],
    ) -> None:
        super().__init__(services)
        self._rebalancer = rebalancer
        self._new_id = new_id
        self._retention_ns = retention_ns
        self._session_deadline = self._deadlines.kind(self._expire_member)
        self._retention_deadline = self._deadlines.kind(self._expire_group)
        self.trusted_ns = trusted_ns
        """Wall time as far as it is trusted: no group expires because a clock has jumped ahead."""
        rebalancer.on_assigned.subscribe(self._arm_deadlines)

    def open(self) -> None:
        """Give every member a full session after a start, and check for changed topics."""
        for group in self._store.groups():
            self._rebalancer.restart_deadlines(group.group)
            if group.phase == "complete":  # members learn of changes with their next heartbeat
                self._rebalancer.group_session(group.group).known_by_all = group.generation
            self._rebalancer.check_topics(group)

    def _arm_deadlines(self, group: Group) -> None:
        for member in group.members.values():
            session = self.session(group.group, member.id)
            key = (group.group, member.id)
            self._deadlines.add(session.seen_ns + member.session_ns, self._session_deadline, key)
        if group.emptied_ns:
            self._deadlines.add(group.emptied_ns + self._retention_ns, self._retention_deadline, group.group)

    # --- lookup ---

    def group(self, name: str) -> Group:
        group = self._store.group(name)
        if group is None or is_internal(name):
            check_group_name(name)
            self._store.refuse_unless_readable()
            known = [group.group for group in self._directory.groups() if not is_internal(group.group)]
            meant = nearest(name, known)
            hint = f"did you mean {meant}?" if meant else "GET /groups lists all groups; the first join creates a group"
            raise GroupNotFound(f"group {quoted(name)} does not exist", hint=hint, group=name)
        return group

    def check(self, name: str, member: str, generation: int | None) -> tuple[Group, MemberSession]:
        """Return group and session of a member; raise when it is unknown or its generation is stale."""
        self._store.refuse_when_closed()
        group = self.group(name)
        known, pending = group.members.get(member), self._rebalancer.pending_rebalance(name)
        if known is None or (pending is not None and member in pending.leaving):
            raise unknown_member(name, member)
        session = self.session(name, member)
        if generation is not None and not known.since <= generation <= group.generation:
            session.is_fenced = True
            raise GenerationStale(
                f"generation {generation} of member {quoted(member)} is stale: group {quoted(name)} is at"
                f" {group.generation}",
                hint="ask for the assignment, or join again with the member's id",
                generation=group.generation,
            )
        session.seen_ns = self._clock.now_ns()
        return group, session

    def session(self, name: str, member: str) -> MemberSession:
        return self._rebalancer.group_session(name).member(member, self._clock.now_ns())

    def wake_owner(self, name: str, ref: PartitionRef) -> None:
        """Wake the polls of the member that has a partition."""
        if (owner := self._store.owner(name, ref)) is not None:
            self.session(name, owner).wake()

    def heartbeat(self, name: str, member: str, generation: int | None) -> tuple[Group, bool]:
        """Extend the session. Return the group, and whether the member must revoke or learn something."""
        group, session = self.check(name, member, generation)
        group = self._store.durable_group(name) or group
        is_asked = member in group.awaited or bool(group.partitions_to_revoke(member))
        is_changed = generation is not None and generation < session.changed
        session.known_generation = group.generation
        return group, is_asked or is_changed

    def assignment(self, name: str, member: str) -> Group:
        """Return the group with the member's assignment, whatever generation it knew."""
        group, session = self.check(name, member, None)
        group = self._store.durable_group(name) or group
        session.known_generation, session.is_fenced = group.generation, False
        return group

    def is_assignment_delivered(self, group: Group) -> bool:
        """True when every member was told of its assignment."""
        session = self._rebalancer.group_session(group.group)
        if session.known_by_all < group.generation:
            sessions = session.members
            if not all(
                member.id in sessions and sessions[member.id].known_generation >= member.since
                for member in group.members.values()
            ):
                return False
            session.known_by_all = group.generation
        return True

    # --- join ---

    def join(self, name: str, options: JoinOptions, callback: JoinCallback) -> None:
        """Add a member. The callback gets its id and the group as soon as its assignment is durable."""
        self._store.refuse_when_closed()
        check_new_group_name(name)
        for topic in options.topics:
            if is_internal(self._topics.topic(topic).name):
                raise TopicNotFound(f"topic {quoted(topic)} is internal", hint="groups cannot read internal topics")
        group, pending = self._store.group(name), self._rebalancer.pending_rebalance(name)
        settings = self._settings(name, options, group, pending)
        named = {**(pending.delivery if pending is not None else {}), **options.delivery}
        self._check_delivery(name, named, settings, {*options.topics, *_topics_of(settings, pending)})
        if group is not None and (known := self._known_member(group, options)) is not None:
            self._rejoin(group, known, options, callback)
            return
        self._check_room(name, group, pending)
        member = Member(
            self._new_id(options.client_id),
            options.client_id,
            options.topics,
            options.session_ns,
            options.in_flight_max,
            self._clock.now_ns(),
            options.confirms,
        )
        if group is None:
            self._rebalancer.creating.add(name)
        pending = self._rebalancer.request_rebalance(name, "join")
        if not settings.members:
            pending.settings = settings
        pending.delivery |= options.delivery
        pending.joining[member.id] = member
        pending.join_callbacks.append((member.id, callback))

    def check_group_limit(self) -> None:
        """Raise unless there is room for one more group; groups that are being created count."""
        if self._directory.group_count >= GROUPS_MAX:
            raise GroupFull(
                f"there are {GROUPS_MAX} groups, which is the limit", hint="delete groups that are not used"
            )

    def new_group(self, name: str) -> Group:
        """Return a group without members, if there is room for it."""
        if name in self._rebalancer.creating:  # it was counted when its first member asked to join
            self._rebalancer.creating.remove(name)
        else:
            self.check_group_limit()
        return Group(group=name, emptied_ns=self._clock.now_ns())

    def _check_room(self, name: str, group: Group | None, pending: PendingRebalance | None) -> None:
        if group is None and name not in self._rebalancer.creating:
            self.check_group_limit()
        count = len(group.members if group else ()) + len(pending.joining if pending else ())
        if count >= GROUP_MEMBERS_MAX:
            raise GroupFull(
                f"group {quoted(name)} has {count} members already",
                hint="a group needs at most as many members as partitions",
            )

    def _settings(
        self, name: str, options: JoinOptions, group: Group | None, pending: PendingRebalance | None
    ) -> Group:
        """Return the settings of the group. The first member chooses them; later ones must agree."""
        current = pending.settings if pending is not None and pending.settings is not None else group
        asked = {field: value for field in GROUP_CHOICES if (value := getattr(options, field)) is not None}
        if current is None:
            return Group(group=name, **asked)
        if not current.members and not (pending and pending.joining):
            return replace(current, **asked)
        for choice, value in asked.items():
            if choice != "start" and getattr(current, choice) != value:
                raise GroupMismatch(
                    f"group {quoted(name)} has {choice} {getattr(current, choice)}, but the member asked for {value}",
                    hint=f"ask for {getattr(current, choice)}, leave {choice} out, or use another group",
                )
        return current

    def _known_member(self, group: Group, options: JoinOptions) -> Member | None:
        """Find the member that rejoins: by its id, or by client id if it was told that its generation is stale.

        The latter is for clients that do not send a member id.
        """
        pending = self._rebalancer.pending_rebalance(group.group)
        if options.member_id is not None:
            member = group.members.get(options.member_id)
        else:
            sessions = self._rebalancer.group_session(group.group).members
            named = (one for one in group.members.values() if one.client_id == options.client_id and not one.confirms)
            fenced = (one for one in named if one.id in sessions and sessions[one.id].is_fenced)
            member = next(fenced, None) if options.is_named and not options.confirms else None
        return None if member is None or (pending is not None and member.id in pending.leaving) else member

    def _rejoin(self, group: Group, member: Member, options: JoinOptions, callback: JoinCallback) -> None:
        session = self.session(group.group, member.id)
        session.seen_ns, session.is_fenced = self._clock.now_ns(), False
        changed = replace(
            member,
            topics=options.topics,
            session_ns=options.session_ns,
            in_flight_max=options.in_flight_max,
            confirms=options.confirms,
        )
        if changed.topics != member.topics:
            pending = self._rebalancer.request_rebalance(group.group, "topics_changed")
            pending.delivery |= options.delivery
            pending.joining[member.id] = changed
            pending.join_callbacks.append((member.id, callback))
            return
        delivery = with_delivery_changes(group.delivery, options.delivery)
        after = group
        if changed != member or delivery != group.delivery:
            after = replace(group, members={**group.members, member.id: changed}, delivery=delivery)
        if (waiting := self._rebalancer.pending_rebalance(group.group)) is not None:
            waiting.delivery |= options.delivery
        if group.protocol == "eager" and group.phase == "pending_revoke":
            self._rebalancer.rejoin(after, member.id, callback)
        elif after is not group:
            self._rebalancer.record_step(group, after, callback=callback, member=member.id)
        else:
            self._answer_when_durable(group.group, member.id, callback)

    def _answer_when_durable(self, name: str, member: str, callback: JoinCallback) -> None:
        def durable(error: GoQueueError | None) -> None:
            group = self._store.durable_group(name)
            if error is None and group is not None and member in group.members:
                self.session(name, member).known_generation = group.generation
                callback((member, group))
            else:
                callback(error or unknown_member(name, member))

        self._store.record(name, [], durable)

    # --- revoke and leave ---

    def revoke(
        self, name: str, member: str, generation: int | None, refs: Collection[PartitionRef], callback: JoinCallback
    ) -> None:
        """Confirm revocations. Messages in flight there are delivered again, which is not a failure."""
        group, _ = self.check(name, member, generation)
        after = revoke(group, {member: refs})
        if after is group:
            self._answer_when_durable(name, member, callback)
        else:
            self._rebalancer.record_step(group, after, callback=callback, member=member)

    def leave(self, name: str, member: str, callback: DoneCallback) -> None:
        """Remove a member. Its messages in flight are delivered again at once, which is not a failure."""
        self.check(name, member, None)
        pending = self._rebalancer.request_rebalance(name, "leave")
        pending.leaving.add(member)
        pending.leave_callbacks.append(callback)

    def remove_members(self, name: str, reason: GoQueueError, callback: DoneCallback) -> None:
        """Remove all members of a group. Those that are joining are refused with this reason."""
        self._store.refuse_when_closed()
        group, pending = self._store.group(name), self._rebalancer.request_rebalance(name, "leave")
        joins, pending.join_callbacks, pending.joining = pending.join_callbacks, [], {}
        for _, joined in joins:
            joined(reason)
        if group is None:  # all its members were joining
            self._rebalancer.forget(name)
            callback(None)
        else:
            pending.leaving |= group.members.keys()
            pending.leave_callbacks.append(callback)

    def _expire_member(self, key: tuple[str, str]) -> int | None:
        name, member = key
        group, now_ns = self._store.group(name), self._clock.now_ns()
        if group is None or (known := group.members.get(member)) is None:
            return None
        session = self.session(name, member)
        if session.polls or self._rebalancer.is_waiting_for_rejoin(name, member):
            return now_ns + known.session_ns
        if session.seen_ns + known.session_ns > now_ns:
            return session.seen_ns + known.session_ns
        pending = self._rebalancer.request_rebalance(name, "session_expired")
        pending.leaving.add(member)
        pending.expired.add(member)
        return None

    # --- settings ---

    def alter(self, name: str, changes: Mapping[str, Any], callback: DoneCallback) -> None:
        """Change delivery settings of a group; None leaves a field to its topics and to the broker again."""
        group, pending = self.group(name), self._rebalancer.pending_rebalance(name)
        joining = {} if pending is None else pending.delivery
        topics = _topics_of(group, pending) or {ref.topic for ref in self._store.cursors(name)}
        self._check_delivery(name, {**joining, **changes}, group, topics)
        delivery = with_delivery_changes(group.delivery, changes)
        for setting in changes:  # a member that is joining named its own before
            joining.pop(setting, None)
        records = [replace(group, delivery=delivery)] if delivery != group.delivery else []
        self._store.record(name, records, callback)

    def _check_delivery(self, name: str, changes: Mapping[str, Any], group: Group, topics: Collection[str]) -> None:
        """Raise unless changed settings fit together, and the topics that the group reads."""
        delivery = with_delivery_changes(group.delivery, changes)
        check_delivery_settings(delivery)
        if delivery.dead_letter_topic in topics:
            raise RequestInvalid(
                f"group {quoted(name)} reads topic {quoted(delivery.dead_letter_topic or '')}, which is its"
                " dead_letter_topic",
                hint="read the dead letters in another group, or name another dead_letter_topic",
                problems=[],
            )

    # --- delete ---

    def has_members(self, name: str) -> bool:
        """Return whether a group has members, or some are joining."""
        group, pending = self._store.group(name), self._rebalancer.pending_rebalance(name)
        return bool((group is not None and group.members) or (pending is not None and pending.joining))

    def deletable(self, name: str) -> Group:
        """Return a group that may be deleted."""
        group = self.group(name)
        if self.has_members(name):
            raise GroupNotEmpty(
                f"group {quoted(name)} has {format_count(len(group.members), 'member')}",
                hint="stop its consumers first, or wait until their sessions expire",
            )
        return group

    def delete(self, name: str, callback: DoneCallback) -> None:
        self.deletable(name)
        self._store.record(name, [GroupDeleted(name)], callback)
        self._rebalancer.forget(name)

    def _expire_group(self, name: str) -> int | None:
        """Delete a group that has been empty for its retention time."""
        group, now_ns = self._store.group(name), self._clock.now_ns()
        if group is None or not group.emptied_ns or is_internal(name):
            return None
        until_ns = group.emptied_ns + self._retention_ns
        if until_ns > now_ns:
            return until_ns
        if until_ns > self.trusted_ns():
            return now_ns + _RECHECK_NS
        if self._rebalancer.pending_rebalance(name) is None:
            with suppress(GoQueueError):  # the log accepts nothing now
                self.delete(name, lambda _: None)
        return now_ns + self._retention_ns


def _topics_of(group: Group, pending: PendingRebalance | None) -> set[str]:
    """Return the topics of the members, those included that are joining."""
    joining = pending.joining.values() if pending is not None else ()
    return group.topics() | {topic for member in joining for topic in member.topics}
