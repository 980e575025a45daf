"""The progress of one follower, as its leader knows it, and that of a majority."""

from collections.abc import Iterable


class FollowerProgress:
    """The progress of a follower."""

    __slots__ = ("heard_ns", "is_streaming", "match", "next", "resent_ns")

    def __init__(self, next_offset: int, now_ns: int) -> None:
        self.match = 0
        """It has everything below this offset durably."""
        self.next = next_offset
        """The next record to send."""
        self.heard_ns = now_ns
        """When the newest message was sent that it has answered, by the leader's clock."""
        self.resent_ns = -1
        """When it was sent again what did not arrive."""
        self.is_streaming = False
        """Whether its log fits, so records are sent without waiting for answers."""


def majority_value(values: Iterable[int], count: int) -> int:
    """Return the greatest value that a majority of `count` voters has reached. Voters without a value have none."""
    ordered = sorted(values, reverse=True)
    majority = count // 2
    return ordered[majority] if majority < len(ordered) else 0
