"""The condition of a consumer group: one rule for the doctor, the API and everything that is shown."""

from collections.abc import Sequence
from typing import Literal, Protocol

from goqueue.limits import GROUP_BEHIND_RATIO, GROUP_STUCK_SECONDS, GROUP_TROUBLE_MESSAGES, GROUP_TROUBLE_SECONDS

GroupCondition = Literal["stuck", "falling_behind", "unattended", "behind", "lagging", "keeping_up"]
"""The worst first. `behind`: old messages wait, but at least as many are finished as arrive. `unattended`: messages
wait and there is no member. `stuck`: members finish nothing. `lagging`: falling behind or unattended, but not for long
enough to count as trouble."""


class PartitionProgress(Protocol):
    """The lag of a group in one partition, and its speed there."""

    @property
    def member(self) -> str | None: ...
    @property
    def messages(self) -> int: ...
    @property
    def ready(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def rate(self) -> float: ...
    @property
    def incoming(self) -> float: ...
    @property
    def idle_seconds(self) -> float: ...


def group_condition(partitions: Sequence[PartitionProgress], empty_seconds: float | None) -> GroupCondition:
    """Judge a group. `empty_seconds` says how long it has had no members; None while it has some.

    Trouble counts once it lasts for half a minute: batches and deployments come and go in less.
    """
    if empty_seconds is not None:
        if not any(one.messages for one in partitions):
            return "keeping_up"
        return unattended_condition(empty_seconds)
    late = [one for one in partitions if one.member and one.ready and one.seconds >= GROUP_TROUBLE_SECONDS]
    if any(map(is_stuck, late)):
        return "stuck"
    if _is_many(late):
        return "falling_behind" if _is_growing(late) else "behind"
    waiting = [one for one in partitions if one.member and one.ready]
    return "lagging" if _is_many(waiting) and _is_growing(waiting) else "keeping_up"


def unattended_condition(empty_seconds: float) -> GroupCondition:
    """Judge a group without members for which messages wait."""
    return "unattended" if empty_seconds >= GROUP_TROUBLE_SECONDS else "lagging"


def _is_many(partitions: Sequence[PartitionProgress]) -> bool:
    return sum(one.ready for one in partitions) >= GROUP_TROUBLE_MESSAGES


def _is_growing(partitions: Sequence[PartitionProgress]) -> bool:
    return sum(one.incoming for one in partitions) > sum(one.rate for one in partitions) * GROUP_BEHIND_RATIO


def is_stuck(one: PartitionProgress) -> bool:
    """True when a member finishes nothing although messages are ready. One message may take minutes to process."""
    patience = GROUP_STUCK_SECONDS if one.in_flight else GROUP_TROUBLE_SECONDS
    return one.member is not None and one.ready > 0 and min(one.idle_seconds, one.seconds) >= patience
