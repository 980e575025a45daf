"""The condition of a consumer group: one rule for the doctor, the API and everything that is shown."""

from collections.abc import Sequence
from typing import Literal, Protocol

from goqueue.limits import GROUP_BEHIND_RATIO, GROUP_STUCK_SECONDS, GROUP_TROUBLE_MESSAGES, GROUP_TROUBLE_SECONDS

GroupCondition = Literal["stuck", "falling_behind", "unattended", "behind", "keeping_up"]
"""The worst first. `behind`: old messages wait, but at least as many are finished as arrive. `unattended`: messages
wait and there is no member. `stuck`: members finish nothing."""


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
        waits = any(one.messages for one in partitions)
        return "unattended" if waits and empty_seconds >= GROUP_TROUBLE_SECONDS else "keeping_up"
    late = [one for one in partitions if one.member and one.ready and one.seconds >= GROUP_TROUBLE_SECONDS]
    if any(map(is_stuck, late)):
        return "stuck"
    if sum(one.ready for one in late) < GROUP_TROUBLE_MESSAGES:
        return "keeping_up"
    rate, incoming = sum(one.rate for one in late), sum(one.incoming for one in late)
    return "falling_behind" if incoming > rate * GROUP_BEHIND_RATIO else "behind"


def is_stuck(one: PartitionProgress) -> bool:
    """True when a member finishes nothing although messages are ready. One message may take minutes to process."""
    patience = GROUP_STUCK_SECONDS if one.in_flight else GROUP_TROUBLE_SECONDS
    return one.member is not None and one.ready > 0 and min(one.idle_seconds, one.seconds) >= patience
