"""What is told of transactions: taken from the broker at each scrape, as it stands then."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from goqueue.observe.label import OTHERS, bounded

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
"""Bounds of how long transactions last: the last one is that of every transaction."""

Place = tuple[str, str]
"""A topic and the number of a partition, as labels."""

Samples = list[tuple[tuple[str, ...], float]]
"""Values of the labels, and the number."""


@dataclass(frozen=True, slots=True)
class TransactionNumbers:
    """All transactions at one moment; what has ended is counted since the start."""

    open: Mapping[str, int] = field(default_factory=dict)
    """By state."""
    oldest_seconds: float = 0.0
    committed: int = 0
    aborted: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    held_back: Mapping[Place, int] = field(default_factory=dict)
    """Only where there is anything."""

    def collect(self) -> Iterator[tuple[str, Samples]]:
        """The samples of each metric."""
        yield "goqueue_transactions_open", [((state,), count) for state, count in self.open.items()]
        yield "goqueue_transaction_oldest_seconds", [((), self.oldest_seconds)]
        yield "goqueue_transactions_committed", [((), self.committed)]
        yield "goqueue_transactions_aborted", [((reason,), count) for reason, count in self.aborted.items()]
        held_back = bounded(self.held_back, (OTHERS, OTHERS))
        yield "goqueue_transaction_held_back_messages", list(held_back.items())
