"""Who is in a group: joining, signs of life, giving up, leaving.

What must stay true: a member whose generation is stale, or who is none, changes nothing; whoever waits is told when
what was decided is durable.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from goqueue.broker.deadlines import Deadlines
from goqueue.broker.delivery.changes import Place
from goqueue.broker.groups import rebalance
from goqueue.broker.groups.assignors import Strategy
from goqueue.broker.groups.group import Group, GroupDeleted, Member, Order, Protocol, Start
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.name import check_group_name, check_new_group_name
from goqueue.broker.groups.presence import Joined, Left, Meeting, Presence, unknown_member
from goqueue.broker.groups.rebalancer import Rebalancer
from goqueue.broker.groups.topics import Topics
from goqueue.broker.name import is_internal
from goqueue.broker.view import Isolation
from goqueue.clock import NANOSECONDS, Clock
from goqueue.config.problem import nearest
from goqueue.errors import (
    GenerationStale,
    GoQueueError,
    GroupFull,
    GroupMismatch,
    GroupNotEmpty,
    GroupNotFound,
    TopicNotFound,
)
from goqueue.limits import GROUP_MEMBERS_MAX, GROUPS_MAX
from goqueue.quantities import format_count, quoted

_LOOK_AGAIN_NS = 60 * NANOSECONDS  # at a group that only a clock in doubt has abandoned


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody who joins asks for; None leaves it to the group."""

    topics: tuple[str, ...]
    client_id: str
    session_ns: int
    in_flight_max: int
    member_id: str | None = None
    protocol: Protocol | None = None
    strategy: Strategy | None = None
    order: Order | None = None
    start: Start | None = None
    isolation: Isolation | None = None
    confirms: bool = False
    is_named: bool = True
    """Whether the name was given, and is not the one that all have who give none."""


class Membership:
    """The rules for all members of all groups."""

    def __init__(
        self,
        ledger: Ledger,
        topics: Topics,
        clock: Clock,
        deadlines: Deadlines,
        rebalancer: Rebalancer,
        new_id: Callable[[str], str],
        retention_ns: int,
    ) -> None:
        self._ledger = ledger
        self._topics = topics
        self._clock = clock
        self._deadlines = deadlines
        self._rebalancer = rebalancer
        self._new_id = new_id
        self._retention_ns = retention_ns
        self._session = deadlines.kind(self._look_for)
        self._abandonment = deadlines.kind(self._forget_abandoned)
        self.trusted_ns = clock.now_ns
        """Wall time as far as it is believed: no group is forgotten for a clock that has jumped ahead."""
        rebalancer.on_assigned = self._arm

    def open(self) -> None:
        """After a start every member has a whole session to show itself, and topics may have changed."""
        for group in self._ledger.groups():
            self._rebalancer.arm(group.group)
            if group.phase == "complete":  # whoever has not been told hears with its next sign of life
                self._rebalancer.attendance(group.group).heard_by_all = group.generation
            self._rebalancer.look_at_topics(group)

    def _arm(self, group: Group) -> None:
        """Have an eye on its members, or on how long it stays without any."""
        for member in group.members.values():
            presence = self._rebalancer.attendance(group.group).presence(member.id, self._clock.now_ns())
            self._deadlines.add(presence.seen_ns + member.session_ns, self._session, f"{group.group}/{member.id}")
        if group.emptied_ns:
            self._deadlines.add(group.emptied_ns + self._retention_ns, self._abandonment, group.group)

    # --- look up ---

    def group(self, name: str) -> Group:
        group = self._ledger.group(name)
        if group is None or is_internal(name):
            check_group_name(name)
            self._ledger.refuse_unless_readable(name)
            raise GroupNotFound(f"there is no group {quoted(name)}", hint=self._nearest_hint(name), group=name)
        return group

    def _nearest_hint(self, name: str) -> str:
        meant = nearest(name, [group.group for group in self._ledger.groups() if not is_internal(group.group)])
        return (
            f"did you mean {meant}?" if meant else "GET /groups lists all of them; whoever joins a group first makes it"
        )

    def check(self, name: str, member: str, generation: int | None) -> tuple[Group, Presence]:
        """The group, if this is a member of it that knows what was taken from it."""
        group = self.group(name)
        known, meeting = group.members.get(member), self._rebalancer.meeting_of(name)
        if known is None or (meeting is not None and member in meeting.leaving):
            raise unknown_member(name, member)
        presence = self._rebalancer.attendance(name).presence(member, self._clock.now_ns())
        if generation is not None and not known.since <= generation <= group.generation:
            presence.is_fenced = True
            raise GenerationStale(
                f"generation {generation} of member {quoted(member)} is stale: group {quoted(name)} is at"
                f" {group.generation}",
                hint="ask for the assignment, or join again with the member's id",
                generation=group.generation,
            )
        presence.seen_ns = self._clock.now_ns()
        return group, presence

    def presence(self, name: str, member: str) -> Presence:
        return self._rebalancer.attendance(name).presence(member, self._clock.now_ns())

    def heartbeat(self, name: str, member: str, generation: int | None) -> tuple[Group, bool]:
        """The group, and whether the member has something to do, or to learn."""
        group, presence = self.check(name, member, generation)
        group = self._ledger.durable_group(name) or group
        is_asked = member in group.awaited or bool(group.to_give_up(member))
        is_news = generation is not None and generation < presence.changed
        presence.heard = group.generation
        return group, is_asked or is_news

    def assignment(self, name: str, member: str) -> Group:
        """For a member that wants to know, whatever it knew."""
        group, presence = self.check(name, member, None)
        group = self._ledger.durable_group(name) or group
        presence.heard, presence.is_fenced = group.generation, False
        return group

    def is_heard(self, group: Group) -> bool:
        """Whether every member has been told of what it has."""
        attendance = self._rebalancer.attendance(group.group)
        if attendance.heard_by_all < group.generation:
            present = attendance.members
            if not all(
                member.id in present and present[member.id].heard >= member.since for member in group.members.values()
            ):
                return False
            attendance.heard_by_all = group.generation
        return True

    # --- join ---

    def join(self, name: str, wish: Wish, told: Joined) -> None:
        """Told the member's id, and what it has, as soon as that is known."""
        check_new_group_name(name)
        for topic in wish.topics:
            if is_internal(self._topics.topic(topic).name):
                raise TopicNotFound(f"topic {quoted(topic)} is internal", hint="groups read topics of clients")
        group, meeting = self._ledger.group(name), self._rebalancer.meeting_of(name)
        shape = self._shape(name, wish, group, meeting)
        if group is not None and (member := self._known(group, wish)) is not None:
            self._join_again(group, member, wish, told)
            return
        self._check_room(name, group, meeting)
        newcomer = Member(
            self._new_id(wish.client_id),
            wish.client_id,
            wish.topics,
            wish.session_ns,
            wish.in_flight_max,
            self._clock.now_ns(),
            wish.confirms,
        )
        if group is None:
            self._rebalancer.beginning.add(name)
        meeting = self._rebalancer.call_meeting(name, "join")
        if not shape.members:
            meeting.shape = shape
        meeting.joining[newcomer.id] = newcomer
        meeting.joined.append((newcomer.id, told))

    def check_room(self) -> None:
        """For one more group, besides those that will be recorded when their first members have gathered."""
        if self._ledger.group_count + len(self._rebalancer.beginning) >= GROUPS_MAX:
            raise GroupFull(f"there are {GROUPS_MAX} groups already", hint="delete those that nobody needs any more")

    def new_group(self, name: str) -> Group:
        """One that nobody has joined yet, if there is room for it."""
        if name in self._rebalancer.beginning:  # it has its room, and is recorded now
            self._rebalancer.beginning.remove(name)
        else:
            self.check_room()
        return Group(group=name, emptied_ns=self._clock.now_ns())

    def _check_room(self, name: str, group: Group | None, meeting: Meeting | None) -> None:
        if group is None and name not in self._rebalancer.beginning:
            self.check_room()
        count = len(group.members if group else ()) + len(meeting.joining if meeting else ())
        if count >= GROUP_MEMBERS_MAX:
            raise GroupFull(
                f"group {quoted(name)} has {count} members already", hint="more consumers than partitions only wait"
            )

    def _shape(self, name: str, wish: Wish, group: Group | None, meeting: Meeting | None) -> Group:
        """How the group works: as it did, or, where nobody is in it, as the first one wishes."""
        current = meeting.shape if meeting is not None and meeting.shape is not None else group
        asked = {
            field: value
            for field in ("protocol", "strategy", "order", "start", "isolation")
            if (value := getattr(wish, field)) is not None
        }
        if current is None:
            return Group(group=name, **asked)
        if not current.members and not (meeting and meeting.joining):
            return replace(current, **asked)
        for field, value in asked.items():
            if field != "start" and getattr(current, field) != value:
                raise GroupMismatch(
                    f"group {quoted(name)} works with {field} {getattr(current, field)}, {value} was asked for",
                    hint="ask for the same, leave it out, or choose another group",
                )
        return current

    def _known(self, group: Group, wish: Wish) -> Member | None:
        """Who joins again: under its id or, where clients do not know of that, under a name of its own after it was
        told that its generation is stale."""
        meeting = self._rebalancer.meeting_of(group.group)
        if wish.member_id is not None:
            member = group.members.get(wish.member_id)
        else:
            present = self._rebalancer.attendance(group.group).members
            named = (one for one in group.members.values() if one.client_id == wish.client_id and not one.confirms)
            fenced = (one for one in named if one.id in present and present[one.id].is_fenced)
            member = next(fenced, None) if wish.is_named and not wish.confirms else None
        return None if member is None or (meeting is not None and member.id in meeting.leaving) else member

    def _join_again(self, group: Group, member: Member, wish: Wish, told: Joined) -> None:
        presence = self._rebalancer.attendance(group.group).presence(member.id, self._clock.now_ns())
        presence.seen_ns, presence.is_fenced = self._clock.now_ns(), False
        changed = replace(
            member,
            topics=wish.topics,
            session_ns=wish.session_ns,
            in_flight_max=wish.in_flight_max,
            confirms=wish.confirms,
        )
        if changed.topics != member.topics:
            meeting = self._rebalancer.call_meeting(group.group, "topics_changed")
            meeting.joining[member.id] = changed
            meeting.joined.append((member.id, told))
            return
        group_now = replace(group, members={**group.members, member.id: changed}) if changed != member else group
        if group.protocol == "eager" and group.phase == "pending_revoke":
            self._rebalancer.come_back(group_now, member.id, told)
        elif group_now is not group:
            self._rebalancer.decide(group, group_now, joined=told, member=member.id)
        else:
            self._tell(group.group, member.id, told)

    def _tell(self, name: str, member: str, told: Joined) -> None:
        """What its group is, when all that was decided before is durable."""

        def durable(error: GoQueueError | None) -> None:
            group = self._ledger.durable_group(name)
            if error is None and group is not None and member in group.members:
                self.presence(name, member).heard = group.generation
                told((member, group))
            else:
                told(error or unknown_member(name, member))

        self._ledger.record(name, [], durable)

    # --- give up and leave ---

    def give_up(self, name: str, member: str, generation: int | None, places: Collection[Place], told: Joined) -> None:
        """What it was asked for. What it has in hand there is handed out again, and that counts as no failure."""
        group, _ = self.check(name, member, generation)
        after = rebalance.give_up(group, member, places)
        if after is group:
            self._tell(name, member, told)
        else:
            self._rebalancer.decide(group, after, joined=told, member=member)

    def leave(self, name: str, member: str, told: Left) -> None:
        """What it has in hand is handed out again at once, and that counts as no failure."""
        self.check(name, member, None)
        meeting = self._rebalancer.call_meeting(name, "leave")
        meeting.leaving.add(member)
        meeting.left.append(told)

    def _look_for(self, key: str) -> int | None:
        """A member without a sign of life is none."""
        name, _, member = key.partition("/")
        group, now_ns = self._ledger.group(name), self._clock.now_ns()
        if group is None or (known := group.members.get(member)) is None:
            return None
        presence = self._rebalancer.attendance(name).presence(member, now_ns)
        if presence.polls or self._rebalancer.is_parked(name, member):
            return now_ns + known.session_ns
        if presence.seen_ns + known.session_ns > now_ns:
            return presence.seen_ns + known.session_ns
        meeting = self._rebalancer.call_meeting(name, "session_expired")
        meeting.leaving.add(member)
        meeting.vanished.add(member)
        return None

    # --- the end of a group ---

    def delete(self, name: str, told: Left) -> None:
        group, meeting = self.group(name), self._rebalancer.meeting_of(name)
        if group.members or (meeting is not None and meeting.joining):
            raise GroupNotEmpty(
                f"group {quoted(name)} has {format_count(len(group.members), 'member')}",
                hint="stop its consumers first, or wait until their sessions end",
            )
        self._ledger.record(name, [GroupDeleted(name)], told)
        self._rebalancer.forget(name)

    def _forget_abandoned(self, name: str) -> int | None:
        group, now_ns = self._ledger.group(name), self._clock.now_ns()
        if group is None or not group.emptied_ns or is_internal(name):
            return None
        until_ns = group.emptied_ns + self._retention_ns
        if until_ns > now_ns:
            return until_ns
        if until_ns > self.trusted_ns():
            return now_ns + _LOOK_AGAIN_NS
        if self._rebalancer.meeting_of(name) is None:
            with suppress(GoQueueError):  # a log that takes nothing now
                self.delete(name, lambda _: None)
        return now_ns + self._retention_ns
