"""A group as it is recorded: who is in it, who has which partition, and where a rebalance wants to get.

A group is one value, and each change of it a new one, recorded as a whole. A *generation* is one assignment: in it a
partition has one owner at most.
"""

from typing import Literal

import msgspec

from goqueue.broker.delivery.changes import Place
from goqueue.broker.groups.assignors import Strategy
from goqueue.broker.view import Isolation

Protocol = Literal["cooperative", "eager"]
Order = Literal["none", "key"]
Start = Literal["earliest", "latest"]

Phase = Literal["none", "pending_revoke", "complete"]
"""How far the latest rebalance has come, as far as it is recorded.

    none ──▶ pending_revoke ──▶ complete ──▶ pending_revoke ...
      └──────────────────────────▲

While a member has yet to hear of what it was given, `complete` is shown as `pending_assign`.
"""

Reason = Literal["join", "leave", "session_expired", "topics_changed", "revocation_timeout"]


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody who reads with others."""

    id: str
    client_id: str
    topics: tuple[str, ...]
    session_ns: int
    in_flight_max: int
    joined_ns: int
    confirms: bool = False
    """Whether it says itself when it has given a partition up; else that is when it has nothing in flight there."""
    since: int = 0
    """The generation in which something was taken from it last: what it says of an earlier one is stale."""


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="record", tag="group_stands"):
    """All that is known of a group but its places in the partitions."""

    group: str
    protocol: Protocol = "cooperative"
    strategy: Strategy = "sticky"
    order: Order = "none"
    generation: int = 0
    members: dict[str, Member] = {}
    assignment: dict[str, list[Place]] = {}
    """What each member has, with what it is asked to give up."""
    start: Start = "earliest"
    """Where a partition is read from the first time."""
    isolation: Isolation = "read_committed"
    """What it is handed of transactions."""
    phase: Phase = "none"
    target: dict[str, list[Place]] = {}
    """What each is to have in the end; empty when there is nothing to be done."""
    awaited: list[str] = []
    """Members that have to join again before anything is given out."""
    reasons: list[Reason] = []
    """Of the rebalance under way."""
    began_ns: int = 0
    emptied_ns: int = 0
    """Since when it has no members; 0 while it has some."""

    def to_give_up(self, member: str) -> list[Place]:
        """What it has and is asked for."""
        if self.phase != "pending_revoke":
            return []
        if self.protocol == "eager":
            return self.assignment.get(member, []) if member in self.awaited else []
        wanted = set(self.target.get(member, ()))
        return [place for place in self.assignment.get(member, ()) if place not in wanted]

    def to_work_on(self, member: str) -> list[Place]:
        """What it has and keeps."""
        if self.phase != "pending_revoke":
            return self.assignment.get(member, [])
        if self.protocol == "eager":
            return []
        wanted = set(self.target.get(member, ()))
        return [place for place in self.assignment.get(member, ()) if place in wanted]

    def owners(self) -> dict[Place, str]:
        """Who may have messages of which partition in hand; whoever has joined again has none."""
        stopped = self.protocol == "eager" and self.phase == "pending_revoke"
        return {
            place: member
            for member, places in self.assignment.items()
            if not stopped or member in self.awaited
            for place in places
        }

    def without_members(self, lost: int, now_ns: int) -> "Group":
        """As it goes on where so many records of it may be lost: each may have begun a generation."""
        return Group(
            group=self.group,
            protocol=self.protocol,
            strategy=self.strategy,
            order=self.order,
            isolation=self.isolation,
            generation=self.generation + lost,
            emptied_ns=now_ns,
        )

    def topics(self) -> set[str]:
        return {topic for member in self.members.values() for topic in member.topics}


class GroupDeleted(msgspec.Struct, frozen=True, tag_field="record", tag="group_deleted"):
    group: str
