"""Counts of requests that were refused or delayed because of quotas, and for how long."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from goqueue.clock import NANOSECONDS

_STREAK_NS: Final = 60 * NANOSECONDS
"""Refusals that follow each other within this time count as one throttling."""


@dataclass(slots=True)
class QuotaViolations:
    """Refusals and delays of one tenant since the broker started, by kind of quota."""

    refused: Counter[str] = field(default_factory=Counter)
    """Requests that were refused, and throttlings that delayed polls and reads."""
    warned: Counter[str] = field(default_factory=Counter)
    """Requests beyond a soft limit."""
    since_ns: dict[str, int] = field(default_factory=dict)
    """Monotonic: when the current throttling of a kind began."""
    last_ns: dict[str, int] = field(default_factory=dict)

    def count(self, kind: str, now_ns: int) -> None:
        self.refused[kind] += 1
        if not self.is_throttled(kind, now_ns):
            self.since_ns[kind] = now_ns
        self.last_ns[kind] = now_ns

    def note_delay(self, kind: str, now_ns: int) -> None:
        """Count the first of delays that follow each other: a consumer that waits as it should does nothing wrong."""
        if not self.is_throttled(kind, now_ns):
            self.count(kind, now_ns)
        self.last_ns[kind] = now_ns

    def is_throttled(self, kind: str, now_ns: int) -> bool:
        last_ns = self.last_ns.get(kind)
        return last_ns is not None and now_ns - last_ns <= _STREAK_NS

    def throttled_seconds(self, kind: str, now_ns: int) -> float:
        """Return the time from the first to the last violation without a longer pause; 0 once there is such a pause."""
        if not self.is_throttled(kind, now_ns):
            return 0.0
        return (self.last_ns[kind] - self.since_ns[kind]) / NANOSECONDS
