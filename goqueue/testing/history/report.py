"""The checker's report about a run."""

from dataclasses import dataclass
from typing import Literal, get_args

from goqueue.testing.history.events import Event

SHOWN_MAX = 5  # of each kind, and of the events of each violation, when a report is printed

ViolationKind = Literal[
    "lost",
    "disagreement",
    "duplicated_store",
    "phantom",
    "aborted_read",
    "uncommitted_read",
    "torn_transaction",
    "lost_write",
    "duplicate",
    "duplicated_after_ack",
    "backward",
    "reordered",
    "skipped",
    "unseen",
    "two_owners",
    "total",
]
KINDS: tuple[ViolationKind, ...] = get_args(ViolationKind)


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and the events that prove it."""

    kind: ViolationKind
    sentence: str
    events: tuple[Event, ...]


@dataclass(slots=True)
class EventCounts:
    """The number of events of each kind."""

    events: int = 0
    sent: int = 0
    """Values that were about to be sent."""
    published: int = 0
    """Answers to publishes; those of a retry, that say the same, count once."""
    stored: int = 0
    """Messages in the logs at the end."""
    received: int = 0
    """Deliveries, in all groups."""
    redelivered: int = 0
    """Those of them that were not the first of their message in the group."""
    acked: int = 0
    """Messages whose ack was answered, in all groups."""
    rejected: int = 0
    """Messages that are known to be dead letters, in all groups."""
    seen: int = 0
    """What plain readers found while the run was under way."""
    transactions: int = 0
    committed: int = 0
    """Transactions whose commit was answered."""
    aborted: int = 0
    """Those that were aborted, or whose commit was never requested."""


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The verdict over one run."""

    violations: list[Violation]
    counts: EventCounts

    @property
    def ok(self) -> bool:
        return not self.violations

    def of(self, kind: ViolationKind) -> list[Violation]:
        return [violation for violation in self.violations if violation.kind == kind]

    def __str__(self) -> str:
        return "\n".join([self._verdict(), _summary(self.counts), *self._details()])

    def _verdict(self) -> str:
        found = {kind: len(self.of(kind)) for kind in KINDS}
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in found.items() if number)
        return f"{_number(len(self.violations), 'violation')} in {self.counts.events:,} events" + (
            kinds and f": {kinds}"
        )

    def _details(self) -> list[str]:
        lines = []
        for kind in KINDS:
            found = self.of(kind)
            for violation in found[:SHOWN_MAX]:
                lines.append(f"{kind}: {violation.sentence}")
                lines += [f"    {event}" for event in violation.events[:SHOWN_MAX]]
            if len(found) > SHOWN_MAX:
                lines.append(f"{kind}: and {len(found) - SHOWN_MAX:,} more")
        return lines


def _summary(counts: EventCounts) -> str:
    logs = f"{counts.sent:,} sent, {counts.published:,} published, {counts.stored:,} stored"
    groups = f"{counts.received:,} received, {counts.redelivered:,} of them again"
    words = [logs, groups, f"{counts.acked:,} acked, {counts.rejected:,} rejected"]
    if counts.seen:
        words.append(f"{counts.seen:,} read on the way")
    if counts.transactions:
        unknown = counts.transactions - counts.committed - counts.aborted
        number = _number(counts.transactions, "transaction")
        words.append(f"{number}, {counts.committed:,} committed, {counts.aborted:,} aborted, {unknown:,} unknown")
    return "; ".join(words)


def _number(count: int, noun: str) -> str:
    return f"no {noun}s" if not count else f"{count:,} {noun}{'' if count == 1 else 's'}"
