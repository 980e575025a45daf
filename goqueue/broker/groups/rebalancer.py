"""Rebalances from their triggers to what was recorded and told.

Triggers that come together are one rebalance: they gather in a meeting, which is held a moment after the first.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from msgspec.structs import replace

from goqueue.broker.deadlines import Deadlines
from goqueue.broker.delivery.changes import Closed, Opened, Place
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.groups import rebalance
from goqueue.broker.groups.group import Group, Reason
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.presence import Attendance, Joined, Meeting, unknown_member
from goqueue.broker.groups.state import Record
from goqueue.broker.groups.statistics import RebalanceStats
from goqueue.broker.groups.topics import Topics
from goqueue.broker.view import View
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import JOIN_GATHER_SECONDS

_AGAIN_NS = NANOSECONDS
_GATHER_NS = round(JOIN_GATHER_SECONDS * NANOSECONDS)

Release = Callable[[Cursor, bool], Sequence[Record]]
"""What becomes of the messages that were in hand at a cursor, whether that counts as their failure or not."""


class Rebalancer:
    """Carries groups from one assignment to the next."""

    def __init__(
        self,
        ledger: Ledger,
        topics: Topics,
        clock: Clock,
        deadlines: Deadlines,
        release: Release,
        revocation_ns: int,
    ) -> None:
        self._ledger = ledger
        self._topics = topics
        self._clock = clock
        self._deadlines = deadlines
        self._release = release
        self.revocation_ns = revocation_ns
        self._attendance: dict[str, Attendance] = {}
        self.totals = RebalanceStats()
        self.on_assigned: Callable[[Group], None] = lambda _: None
        """Called when an assignment is durable."""
        self.on_forgotten: Callable[[str], None] = lambda _: None
        """Called when a group is gone, though that may not be durable yet."""
        self.on_durable: Callable[[Group, Group, Collection[str]], None] = lambda _, __, ___: None
        """Called with the group as it was and as it is, and with the members that have vanished."""
        self.on_complete: Callable[[int], None] = lambda _: None
        """Called when a rebalance is complete and durable, with how many nanoseconds it took."""
        self.beginning: set[str] = set()
        """Groups that members have asked to join, and that are not recorded yet: they need room as well."""
        self._meeting = deadlines.kind(self._hold_meeting)
        self._revocation = deadlines.kind(self._force_late)

    def attendance(self, name: str) -> Attendance:
        """Who was seen of a group; groups that nobody has joined should not be asked for."""
        found = self._attendance.get(name)
        if found is None:
            found = self._attendance[name] = Attendance()
        return found

    def forget(self, name: str) -> None:
        """The group is gone."""
        self.beginning.discard(name)
        gone = self._attendance.pop(name, None)
        if gone is not None:
            gone.wake()
        self.on_forgotten(name)

    def meeting_of(self, name: str) -> Meeting | None:
        found = self._attendance.get(name)
        return found.meeting if found is not None else None

    # --- triggers ---

    def call_meeting(self, name: str, reason: Reason, delay_ns: int = _GATHER_NS) -> Meeting:
        """Something has changed: rebalance in a moment."""
        attendance = self.attendance(name)
        meeting = attendance.meeting
        if meeting is None:
            meeting = attendance.meeting = Meeting(self._clock.now_ns())
            self._deadlines.add(meeting.began_ns + delay_ns, self._meeting, name)
        meeting.reasons.add(reason)
        return meeting

    def look_at_topics(self, group: Group) -> None:
        """Rebalance where topics have come, gone or changed since the assignment was made."""
        given = {place for places in (*group.assignment.values(), *group.target.values()) for place in places}
        wanted = {(topic, number) for topic, count in self._partitions(group).items() for number in range(count)}
        cursors = self._ledger.cursors(group.group)
        stale = any(self._is_gone(cursor) for cursor in cursors.values())
        stale |= any(place not in cursors for places in group.assignment.values() for place in places)
        if stale or (given != wanted and group.members):
            self.call_meeting(group.group, "topics_changed")

    def _partitions(self, group: Group) -> dict[str, int]:
        topics = self._topics.topics
        return {name: len(topics[name].partitions) for name in group.topics() if name in topics}

    def _is_current(self, cursor: Cursor) -> bool:
        """Whether its topic is still the one that it was opened for."""
        topic = self._topics.topics.get(cursor.topic)
        return topic is not None and topic.created_ns == cursor.topic_ns

    def _is_gone(self, cursor: Cursor) -> bool:
        """Whether no member will read on there. A topic whose record is lost may be brought back."""
        return not self._is_current(cursor) and not self._topics.has_lost_record(cursor.topic)

    # --- meetings ---

    def _hold_meeting(self, name: str) -> None:
        self.beginning.discard(name)
        attendance = self.attendance(name)
        meeting, attendance.meeting = attendance.meeting, None
        before = self._ledger.group(name)
        if meeting is not None and meeting.shape is not None:
            before = _shaped(before, meeting.shape)
        if meeting is None or before is None:
            return
        if before.phase != "pending_revoke":
            for stats in (attendance.stats, self.totals):
                stats.began(sorted(meeting.reasons))
        partitions = self._partitions_with(before, meeting)
        after = rebalance.begin(
            before,
            joining=list(meeting.joining.values()),
            leaving=meeting.leaving,
            partitions=partitions,
            reasons=meeting.reasons,
            now_ns=meeting.began_ns,
        )
        self.decide(before, after, meeting=meeting)

    def _partitions_with(self, group: Group, meeting: Meeting) -> dict[str, int]:
        names = group.topics() | {topic for member in meeting.joining.values() for topic in member.topics}
        topics = self._topics.topics
        return {name: len(topics[name].partitions) for name in names if name in topics}

    def decide(
        self,
        before: Group,
        after: Group,
        *,
        meeting: Meeting | None = None,
        joined: Joined | None = None,
        member: str = "",
    ) -> None:
        """Record what follows, and tell who waits when that is durable."""
        meeting = meeting or Meeting(self._clock.now_ns())
        after = self._without_idle(after)
        told = [*meeting.joined, *([(member, joined)] if joined is not None else [])]
        # In this order, since a crash may keep the first of them only: nobody owns what another has in hand. Which
        # places are missing is found out at the next start.
        records: list[Record] = [*self._releases(after, meeting.vanished), after, *self._cursors(after)]
        done = partial(self._settled, before, after, meeting, told)
        try:
            self._ledger.record(after.group, records, done)
        except GoQueueError as error:
            done(error)

    def _without_idle(self, group: Group) -> Group:
        """Members that do not confirm give up what they have nothing in hand of."""
        if group.phase != "pending_revoke" or group.protocol != "cooperative":
            return group
        idle = {
            name: [place for place in group.to_give_up(name) if not self._is_busy(group.group, place)]
            for name, member in group.members.items()
            if not member.confirms
        }
        return rebalance.give_up_all(group, idle)

    def _is_busy(self, name: str, place: Place) -> bool:
        """Where messages of a key keep their order, what is pledged may have to come again before the next ones."""
        cursor = self._ledger.cursor(name, place)
        if cursor is None or not self._is_current(cursor):
            return False
        return cursor.leased > 0 or (cursor.pledged.count > 0 and self._ledger.ordered(name))

    def _cursors(self, group: Group) -> list[Record]:
        """A place for each partition that is read from now on, and an end to those whose topic is gone."""
        found = self._ledger.cursors(group.group)
        records: list[Record] = [
            Closed(group.group, *place) for place, cursor in found.items() if self._is_gone(cursor)
        ]
        closed = {record.place for record in records if isinstance(record, Closed)}
        for places in group.assignment.values():
            for place in places:
                topic = self._topics.topics.get(place[0])
                is_there = topic is not None and place[1] < len(topic.partitions)
                if topic is not None and is_there and (place not in found or place in closed):
                    partition = topic.partitions[place[1]]
                    floor = partition.earliest if group.start == "earliest" else View(partition, group.isolation).end
                    records.append(Opened(group.group, *place, topic_ns=topic.created_ns, floor=floor))
        return records

    def _releases(self, group: Group, vanished: Collection[str]) -> list[Record]:
        """What members have in hand of partitions that are not theirs any more goes to others."""
        owners = group.owners()
        records: list[Record] = []
        for place, cursor in self._ledger.cursors(group.group).items():
            if cursor.leases and self._is_current(cursor):
                holder = next(iter(cursor.leases.values())).grant.member
                if owners.get(place) != holder:
                    records += self._release(cursor, holder in vanished)
        return records

    # --- when it is durable ---

    def _settled(
        self, before: Group, after: Group, meeting: Meeting, told: list[tuple[str, Joined]], error: GoQueueError | None
    ) -> None:
        attendance = self.attendance(after.group)
        if error is not None:
            attendance.stats.failed += 1
            self.totals.failed += 1
            for _, joined in told:
                joined(error)
            for left in meeting.left:
                left(error)
            self._try_again(meeting, after.group)
            if self._ledger.group(after.group) is None and attendance.meeting is None:
                self.forget(after.group)
            return
        self._count(before, after, attendance, is_rebalance=bool(meeting.reasons) or before.phase == "pending_revoke")
        self._notice(attendance, after.group)
        self.on_durable(before, after, meeting.vanished)
        for left in meeting.left:
            left(None)
        if after.phase == "complete":
            told, attendance.parked = [*attendance.parked, *told], []
            for name, joined in told:
                self._admit(name, joined, after)
        elif after.protocol == "eager":
            attendance.parked += told
        else:
            for name, joined in told:
                self._admit(name, joined, after)

    def _try_again(self, meeting: Meeting, name: str) -> None:
        """Who has vanished stays away, and topics are as they are, whatever the disk says."""
        if self._ledger.group(name) is None or self._ledger.shelf(name).log.fence is not None:
            return  # a fenced log takes nothing until the next start, which looks at all of it
        if "topics_changed" in meeting.reasons:
            self.call_meeting(name, "topics_changed", _AGAIN_NS)
        if meeting.vanished:
            again = self.call_meeting(name, "session_expired", _AGAIN_NS)
            again.leaving |= meeting.vanished
            again.vanished |= meeting.vanished

    def is_parked(self, name: str, member: str) -> bool:
        """Whether it waits until everybody else has joined again: it can give no other sign of life."""
        return any(parked == member for parked, _ in self.attendance(name).parked)

    def _admit(self, name: str, joined: Joined, group: Group) -> None:
        if name not in group.members:  # it left while it waited
            joined(unknown_member(group.group, name))
            return
        presence = self.attendance(group.group).presence(name, self._clock.now_ns())
        presence.seen_ns = self._clock.now_ns()
        presence.heard, presence.is_fenced = group.generation, False
        joined((name, group))

    def _count(self, before: Group, after: Group, attendance: Attendance, *, is_rebalance: bool) -> None:
        now_ns = self._clock.now_ns()
        is_over, took_ns = is_rebalance and after.phase == "complete", now_ns - after.began_ns
        for stats in (attendance.stats, self.totals):
            stats.moved(before, after)
            if is_over:
                stats.ended(took_ns, now_ns)
        if is_over:
            self.on_complete(took_ns)

    def _notice(self, attendance: Attendance, name: str) -> None:
        """Let members see what is asked of them, and have deadlines run."""
        group = self._ledger.group(name)
        now_ns = self._clock.now_ns()
        if group is None:
            return
        for gone in attendance.members.keys() - group.members.keys():
            attendance.members.pop(gone).wake()
        for member in group.members:
            presence = attendance.presence(member, now_ns)
            places = group.to_work_on(member)
            if places != presence.places:
                presence.places, presence.changed = places, group.generation
            is_asked = bool(group.to_give_up(member)) or member in group.awaited
            if not is_asked:
                presence.asked_ns = None
            elif presence.asked_ns is None:
                presence.asked_ns = now_ns
                self._deadlines.add(now_ns + self.revocation_ns, self._revocation, name)
        attendance.wake()
        self.on_assigned(group)

    def arm(self, name: str) -> None:
        """After a start: members that are asked for something have all the time for it again."""
        self._notice(self.attendance(name), name)

    # --- giving up ---

    def left_idle(self, name: str) -> None:
        """A member has nothing in hand of some partition any more, which others may be waiting for."""
        group = self._ledger.group(name)
        if group is not None and group.phase == "pending_revoke":
            after = self._without_idle(group)
            if after is not group:
                self.decide(group, after)

    def _force_late(self, name: str) -> int | None:
        group, now_ns = self._ledger.group(name), self._clock.now_ns()
        if group is None or group.phase != "pending_revoke":
            return None
        asked = {
            member: presence.asked_ns + self.revocation_ns
            for member, presence in self.attendance(name).members.items()
            if presence.asked_ns is not None and member in group.members
        }
        late = [member for member, deadline_ns in asked.items() if deadline_ns <= now_ns]
        if late:
            for stats in (self.attendance(name).stats, self.totals):
                stats.timeouts += len(late)
            self.decide(group, rebalance.force(group, late, self._partitions(group), now_ns))
            return now_ns + _AGAIN_NS  # should the disk refuse it
        return min(asked.values(), default=None)

    def come_back(self, group: Group, member: str, joined: Joined) -> None:
        """Eager: a member has stopped, and is told what it has when all others have too."""
        after = rebalance.come_back(group, member, self._partitions(group))
        self.decide(group, after, joined=joined, member=member)

    def deadline_of(self, name: str, member: str) -> int | None:
        """Until when it has to give up what it is asked for."""
        presence = self.attendance(name).members.get(member)
        return None if presence is None or presence.asked_ns is None else presence.asked_ns + self.revocation_ns


def _shaped(group: Group | None, shape: Group) -> Group:
    """A group that nobody was in works as the first one who joins wishes."""
    if group is None:
        return shape
    return replace(
        group,
        protocol=shape.protocol,
        strategy=shape.strategy,
        order=shape.order,
        start=shape.start,
        isolation=shape.isolation,
    )
