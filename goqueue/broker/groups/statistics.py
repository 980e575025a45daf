"""What rebalances came to, since the broker started."""

from collections import Counter
from dataclasses import dataclass, field

from goqueue.broker.groups.group import Group


@dataclass(slots=True)
class RebalanceStats:
    """Of one group, or of all."""

    total: int = 0
    successful: int = 0
    failed: int = 0
    revoked: int = 0
    """Partitions taken from members."""
    assigned: int = 0
    timeouts: int = 0
    """Members that did not give up in time what they were asked for."""
    last_ns: int = 0
    """How long the last one took."""
    longest_ns: int = 0
    sum_ns: int = 0
    last_at_ns: int = 0
    by_reason: Counter[str] = field(default_factory=Counter)

    @property
    def average_ns(self) -> float:
        return self.sum_ns / self.successful if self.successful else 0.0

    def began(self, reasons: list[str]) -> None:
        self.total += 1
        self.by_reason.update(reasons)

    def moved(self, before: Group, after: Group) -> None:
        had = {(member, place) for member, places in before.assignment.items() for place in places}
        has = {(member, place) for member, places in after.assignment.items() for place in places}
        self.revoked += len(had - has)
        self.assigned += len(has - had)

    def ended(self, took_ns: int, now_ns: int) -> None:
        self.successful += 1
        self.last_ns = took_ns
        self.longest_ns = max(self.longest_ns, took_ns)
        self.sum_ns += took_ns
        self.last_at_ns = now_ns
