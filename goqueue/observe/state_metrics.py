"""Metrics of groups and transactions, read from the broker's state at each scrape.

What must stay true: a counter never falls, although its parts may disappear with a topic; and each label has a bounded
number of values, since each value is a time series: the first groups keep their names, the others share one label.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

LABEL_VALUES_MAX = 1_000  # of one label
LAG_LABELS_MAX = 10_000  # pairs of a group and a topic
OTHER_LABEL = "…others"  # counts what is beyond these limits; no topic and no group can have this name

TRANSACTION_SECONDS_BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0),
)
"""The last bound is the longest that a transaction can last."""

GroupStateLabel = Literal["stable", "rebalancing", "empty"]
GROUP_STATES: tuple[GroupStateLabel, ...] = ("stable", "rebalancing", "empty")
SettlementKind = Literal["acked", "nacked", "rejected", "released", "expired", "dead_lettered", "dropped"]

Samples = list[tuple[tuple[str, ...], float]]
"""Label values, and the number."""

K = TypeVar("K")


def limit_label_values(numbers: Mapping[K, int], others: K, most: int = LABEL_VALUES_MAX) -> dict[K, int]:
    """Keep the largest numbers; add up the rest under `others`."""
    if len(numbers) <= most:
        return dict(numbers)
    largest = sorted(numbers, key=lambda name: (-numbers[name], name))
    kept = {name: numbers[name] for name in largest[:most]}
    kept[others] = kept.get(others, 0) + sum(numbers[name] for name in largest[most:])
    return kept


# --- groups ---


@dataclass(frozen=True, slots=True)
class GroupMetricValues:
    """The numbers of one group."""

    state: GroupStateLabel
    members: int = 0
    in_flight: int = 0
    lag: Mapping[str, int] = field(default_factory=dict)
    """By topic."""
    lost: Mapping[tuple[str, int, int], int] = field(default_factory=dict)
    """By topic, partition and creation time of the topic; only partitions with a loss."""
    settled: int = 0
    """Messages finished since startup. Falls when a topic is deleted."""


@dataclass(frozen=True, slots=True)
class GroupMetricsInput:
    """The numbers of all groups at one moment."""

    groups: Mapping[str, GroupMetricValues] = field(default_factory=dict)
    settled: Mapping[SettlementKind, int] = field(default_factory=dict)
    rebalances: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    revocation_timeouts: int = 0


class GroupMetrics:
    """Turns the numbers of groups into samples; remembers named groups and their losses between scrapes."""

    def __init__(self) -> None:
        self.numbers = GroupMetricsInput()
        """Set before each scrape."""
        self._named: dict[str, None] = {}
        self._lost: Counter[str] = Counter()
        """By group label."""
        self._settled: Counter[str] = Counter()
        """By group label."""
        self._settled_before: dict[str, int] = {}
        self._seen: dict[tuple[str, tuple[str, int, int]], int] = {}

    def collect(self) -> Iterator[tuple[str, Samples]]:
        numbers = self.numbers
        self._name(numbers.groups)
        self._count_lost(numbers.groups)
        self._count_settled(numbers.groups)
        states = Counter(group.state for group in numbers.groups.values())
        yield "goqueue_groups", [((state,), states[state]) for state in GROUP_STATES]
        members, in_flight = self._by_group(numbers.groups)
        yield "goqueue_group_members", name_samples(members)
        yield "goqueue_group_in_flight_messages", name_samples(in_flight)
        yield "goqueue_group_lag_messages", self._lags(numbers.groups)
        yield "goqueue_group_lost_messages", name_samples({name: self._lost[name] for name in members})
        yield "goqueue_group_settled_messages", name_samples({name: self._settled[name] for name in members})
        yield "goqueue_messages_settled", name_samples(numbers.settled)
        yield "goqueue_rebalances", name_samples(numbers.rebalances)
        yield "goqueue_revocation_timeouts", [((), numbers.revocation_timeouts)]

    def _name(self, groups: Mapping[str, GroupMetricValues]) -> None:
        """Give free names to new groups; forget groups that are gone."""
        for name in self._named.keys() - groups.keys():
            del self._named[name]
            self._lost.pop(name, None)
            self._settled.pop(name, None)
        for name in groups:
            if len(self._named) >= LABEL_VALUES_MAX:
                return
            self._named[name] = None

    def _label(self, name: str) -> str:
        return name if name in self._named else OTHER_LABEL

    def _count_lost(self, groups: Mapping[str, GroupMetricValues]) -> None:
        """Add new losses. A count falls when the group skips removed messages before it has polled."""
        lost = {(name, partition): count for name, group in groups.items() for partition, count in group.lost.items()}
        for key, count in lost.items():
            self._lost[self._label(key[0])] += max(0, count - self._seen.get(key, 0))
        self._seen = lost

    def _count_settled(self, groups: Mapping[str, GroupMetricValues]) -> None:
        """Add what was settled since the last scrape."""
        settled = {name: group.settled for name, group in groups.items()}
        for name, count in settled.items():
            self._settled[self._label(name)] += max(0, count - self._settled_before.get(name, 0))
        self._settled_before = settled

    def _by_group(self, groups: Mapping[str, GroupMetricValues]) -> tuple[Counter[str], Counter[str]]:
        members: Counter[str] = Counter()
        in_flight: Counter[str] = Counter()
        for name, group in groups.items():
            members[self._label(name)] += group.members
            in_flight[self._label(name)] += group.in_flight
        return members, in_flight

    def _lags(self, groups: Mapping[str, GroupMetricValues]) -> Samples:
        lags: Counter[tuple[str, str]] = Counter()
        for name, group in groups.items():
            for topic, lag in group.lag.items():
                lags[self._label(name), topic] += lag
        return list(limit_label_values(lags, (OTHER_LABEL, OTHER_LABEL), LAG_LABELS_MAX).items())


def name_samples(numbers: Mapping[str, int] | Mapping[SettlementKind, int]) -> Samples:
    return [((name,), number) for name, number in numbers.items()]


# --- transactions ---


@dataclass(frozen=True, slots=True)
class TransactionMetricsInput:
    """The numbers of all transactions at one moment; ended ones are counted since startup."""

    open: Mapping[str, int] = field(default_factory=dict)
    """By state."""
    oldest_seconds: float = 0.0
    committed: int = 0
    aborted: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    held_back: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By topic and partition; only partitions with messages held back."""

    def collect(self) -> Iterator[tuple[str, Samples]]:
        yield "goqueue_transactions_open", name_samples(self.open)
        yield "goqueue_transaction_oldest_seconds", [((), self.oldest_seconds)]
        yield "goqueue_transactions_committed", [((), self.committed)]
        yield "goqueue_transactions_aborted", name_samples(self.aborted)
        held_back = limit_label_values(self.held_back, (OTHER_LABEL, OTHER_LABEL))
        yield "goqueue_transaction_held_back_messages", list(held_back.items())
