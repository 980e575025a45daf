"""Everything about groups as one object: who is in them, what they are handed, how far they have come.

Silent and synchronous. The shell's duties: call `commit` soon after `on_gathered`, and `deadlines.call_due` when the
moment of `deadlines.next_ns` has come; carry out `undertaker.carry()` after its `on_call`; have `tell_again` done now
and then. Nothing that was decided is told before it is durable: whoever asks hears through what it handed in.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from goqueue.broker.deadlines import Deadlines
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.deadletter import Undertaker
from goqueue.broker.delivery.lender import Lender
from goqueue.broker.delivery.parts import in_parts
from goqueue.broker.delivery.pledges import Pledges
from goqueue.broker.delivery.polls import Polls
from goqueue.broker.delivery.redrive import Redrives
from goqueue.broker.delivery.rules import Rules
from goqueue.broker.delivery.settlement import Settlement
from goqueue.broker.groups.lag import Lags
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.membership import Membership
from goqueue.broker.groups.offsets import Offsets
from goqueue.broker.groups.rebalancer import Rebalancer
from goqueue.broker.groups.topics import Topics
from goqueue.broker.partition import Partition
from goqueue.clock import NANOSECONDS, StallFreeClock, SteadyClock
from goqueue.errors import GoQueueError
from goqueue.limits import CLIENT_ID_CHARACTERS_MAX, GROUP_LOG_BYTES, GROUP_RETENTION_SECONDS, REVOCATION_SECONDS
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log

_UNFIT = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What holds for all groups."""

    rules: Rules = field(default_factory=Rules)
    revocation_ns: int = round(REVOCATION_SECONDS * NANOSECONDS)
    retention_ns: int = GROUP_RETENTION_SECONDS * NANOSECONDS
    log_bytes: int = GROUP_LOG_BYTES
    """Of one of their logs before what still holds is told again."""


class Coordinator:
    """The groups of one broker."""

    def __init__(
        self,
        logs: Sequence[Log],
        disk: Disk,
        topics: Topics,
        clock: StallFreeClock,
        chance: Callable[[int], int],
        settings: GroupSettings,
    ) -> None:
        least_ns = max((log.last_time for log in logs), default=0)
        steady = self.clock = SteadyClock(clock, least_ns)
        ages = SteadyClock(clock.machine, least_ns)
        self._stall_free = clock
        self.settings = settings
        self._topics = topics
        self._chance = chance
        self.deadlines = Deadlines()
        self.ledger = Ledger(logs, disk, chance, settings.log_bytes)
        self.undertaker = Undertaker(self.ledger, topics, steady, self.deadlines)
        self.settlement = Settlement(self.ledger, steady, self.deadlines, settings.rules, self.undertaker)
        self.rebalancer = Rebalancer(
            self.ledger, topics, steady, self.deadlines, self.settlement.release, settings.revocation_ns
        )
        self.membership = Membership(
            self.ledger, topics, steady, self.deadlines, self.rebalancer, self._new_member_id, settings.retention_ns
        )
        self.offsets = Offsets(self.ledger, topics, steady, self.membership, self.rebalancer)
        lender = Lender(self.ledger, topics, steady, settings.rules, self.membership, self.settlement, self.undertaker)
        lender.age_clock = ages
        self.polls = Polls(self.ledger, topics, steady, self.membership, self.settlement, lender)
        self.pledges = Pledges(self.ledger, steady, self.offsets, self.settlement)
        self.lags = Lags(self.ledger, topics, ages)
        self.redrives = Redrives(self.ledger, topics, steady, self.undertaker)
        self.rebalancer.on_forgotten = self._forget_when_durable
        self.ledger.on_refused = self.settlement.attend_again
        self.settlement.on_room = self._made_room
        self.settlement.on_due = self._is_due
        self.settlement.on_progress = self.lags.progress
        self.offsets.on_progress = self._committed

    def open(self) -> None:
        """Make the state from the logs, and go on with what was under way."""
        self.ledger.open()
        for group in self.ledger.groups():
            for cursor in self.ledger.cursors(group.group).values():
                self._bring_back(cursor)
                self.settlement.attend(cursor)
        self.redrives.close_gone()
        self.membership.open()
        self.undertaker.open()
        self.commit()

    def _bring_back(self, cursor: Cursor) -> None:
        """A partition may have lost its last messages with the power, where they were not synced before the answer.

        What is known of those before them stays: some may have been done in a transaction that was committed.
        """
        topic = self._topics.topics.get(cursor.topic)
        if topic is None or topic.created_ns != cursor.topic_ns or cursor.partition >= len(topic.partitions):
            return
        partition = topic.partitions[cursor.partition]
        end = partition.log_end
        if cursor.reach > end and partition.log.fence is None:
            self.ledger.record(cursor.group, in_parts(cursor.stands().below(end)))

    def close(self) -> None:
        self.ledger.close()

    def on_wall_ns(self, moment_ns: int) -> int:
        """A moment of its clock as people see it: that clock leaves out the time in which the broker stood still."""
        return moment_ns + self._stall_free.stalled_ns

    def commit(self) -> None:
        self.ledger.commit()

    def topic_changed(self, name: str) -> None:
        """It has come, gone, or has other partitions now."""
        self.redrives.close_gone()
        if name not in self._topics.topics:
            self.polls.forget_topic(name)
        for group in self.ledger.groups():
            if any(name in member.topics for member in group.members.values()) or any(
                place[0] == name for place in self.ledger.cursors(group.group)
            ):
                self.rebalancer.look_at_topics(group)

    def partitions_of(self, name: str, member: str) -> Iterator[Partition]:
        """Those that a member may be handed messages of."""
        group = self.ledger.group(name)
        for topic, number in group.to_work_on(member) if group is not None else ():
            found = self._topics.topics.get(topic)
            if found is not None and number < len(found.partitions):
                yield found.partitions[number]

    def _forget_when_durable(self, name: str) -> None:
        """Should the disk refuse that a group is gone, it goes on with all that is known of it."""
        with suppress(GoQueueError):  # a log that takes nothing now
            self.ledger.record(name, [], lambda error: self._forget(name) if error is None else None)

    def _forget(self, name: str) -> None:
        """A group of this name that is made anew must not find anything of the old one; one that was has its own."""
        if self.ledger.group(name) is None and self.rebalancer.meeting_of(name) is None:
            self.deadlines.forget(name)
            self.undertaker.forget(name)
            self.polls.forget(name)
            self.lags.forget(name)

    def _new_member_id(self, client_id: str) -> str:
        """The client's name, as far as it is fit for one, and something that nobody else has."""
        fit = _UNFIT.sub("-", client_id)
        return f"{fit[:CLIENT_ID_CHARACTERS_MAX]}-{self._chance(64):016x}"

    # --- waking those who wait ---

    def _committed(self, cursor: Cursor, member: str, count: int) -> None:
        self.lags.progress(cursor, count)
        self._made_room(cursor, member)

    def _made_room(self, cursor: Cursor, member: str) -> None:
        """A member has less in hand: it may be handed more, or give up what it was asked for."""
        group = self.ledger.group(cursor.group)
        if group is None:
            return
        if not cursor.leased and group.phase == "pending_revoke":
            self.rebalancer.left_idle(cursor.group)
        presence = self.rebalancer.attendance(cursor.group).members.get(member)
        if presence is not None and presence.room_wanted and presence.waiting:
            cursors = self.ledger.cursors(cursor.group)
            known = group.members.get(member)
            in_hand = sum(cursors[place].leased for place in group.assignment.get(member, ()) if place in cursors)
            if known is not None and (not in_hand or known.in_flight_max - in_hand >= presence.room_wanted):
                presence.wake()

    def _is_due(self, cursor: Cursor) -> None:
        group = self.ledger.group(cursor.group)
        owner = group.owners().get(cursor.place) if group is not None else None
        if owner is not None:
            self.rebalancer.attendance(cursor.group).presence(owner, self.clock.now_ns()).wake()

    def __repr__(self) -> str:
        return f"<Coordinator {self.ledger!r}>"
