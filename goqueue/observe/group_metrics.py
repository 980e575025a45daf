"""What is told of groups: taken from the broker at each scrape, as it stands then.

What must stay true: a counter never falls, although what it is made of may go with a topic; and groups beyond the
bound are told of together, whoever came first keeps its name.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from goqueue.observe.label import OTHERS, VALUES_MAX, bounded

LAGS_MAX = 10_000  # pairs of a group and a topic that are told of by name

State = Literal["stable", "rebalancing", "empty"]
STATES: tuple[State, ...] = ("stable", "rebalancing", "empty")
Outcome = Literal["acked", "nacked", "rejected", "released", "expired", "dead_lettered"]
Place = tuple[str, int]
"""A topic and the number of a partition."""

Samples = list[tuple[tuple[str, ...], float]]
"""Values of the labels, and the number."""


@dataclass(frozen=True, slots=True)
class OneGroup:
    state: State
    members: int = 0
    in_flight: int = 0
    lag: Mapping[str, int] = field(default_factory=dict)
    """By topic."""
    lost: Mapping[Place, int] = field(default_factory=dict)
    """Only where there was a loss."""


@dataclass(frozen=True, slots=True)
class GroupNumbers:
    """All groups at one moment."""

    groups: Mapping[str, OneGroup] = field(default_factory=dict)
    settled: Mapping[Outcome, int] = field(default_factory=dict)
    rebalances: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    revocation_timeouts: int = 0


class GroupMetrics:
    """Remembers from scrape to scrape what the numbers alone do not tell."""

    def __init__(self) -> None:
        self.numbers = GroupNumbers()
        """Those of now, put here before each scrape."""
        self._named: dict[str, None] = {}
        self._lost: Counter[str] = Counter()
        """By the group, as it is named."""
        self._seen: dict[tuple[str, Place], int] = {}

    def collect(self) -> Iterator[tuple[str, Samples]]:
        """The samples of each metric."""
        numbers = self.numbers
        self._name(numbers.groups)
        self._count_lost(numbers.groups)
        states = Counter(group.state for group in numbers.groups.values())
        yield "goqueue_groups", [((state,), states[state]) for state in STATES]
        members, in_flight = self._by_group(numbers.groups)
        yield "goqueue_group_members", _samples(members)
        yield "goqueue_group_in_flight_messages", _samples(in_flight)
        yield "goqueue_group_lag_messages", self._lags(numbers.groups)
        yield "goqueue_group_lost_messages", _samples({name: self._lost[name] for name in members})
        yield "goqueue_messages_settled", _samples(numbers.settled)
        yield "goqueue_rebalances", _samples(numbers.rebalances)
        yield "goqueue_revocation_timeouts", [((), numbers.revocation_timeouts)]

    def _name(self, groups: Mapping[str, OneGroup]) -> None:
        """A group that is gone leaves its place, and its numbers go."""
        for name in self._named.keys() - groups.keys():
            del self._named[name]
            self._lost.pop(name, None)
        for name in groups:
            if len(self._named) >= VALUES_MAX:
                return
            self._named[name] = None

    def _label(self, name: str) -> str:
        return name if name in self._named else OTHERS

    def _count_lost(self, groups: Mapping[str, OneGroup]) -> None:
        """Add what is new: the loss of a place begins at 0 again when its topic is made anew."""
        lost = {(name, place): count for name, group in groups.items() for place, count in group.lost.items()}
        for key, count in lost.items():
            before = self._seen.get(key, 0)
            self._lost[self._label(key[0])] += count - before if count >= before else count
        self._seen = lost

    def _by_group(self, groups: Mapping[str, OneGroup]) -> tuple[Counter[str], Counter[str]]:
        members: Counter[str] = Counter()
        in_flight: Counter[str] = Counter()
        for name, group in groups.items():
            members[self._label(name)] += group.members
            in_flight[self._label(name)] += group.in_flight
        return members, in_flight

    def _lags(self, groups: Mapping[str, OneGroup]) -> Samples:
        lags: Counter[tuple[str, str]] = Counter()
        for name, group in groups.items():
            for topic, lag in group.lag.items():
                lags[self._label(name), topic] += lag
        return list(bounded(lags, (OTHERS, OTHERS), LAGS_MAX).items())


def _samples(numbers: Mapping[str, int] | Mapping[Outcome, int]) -> Samples:
    return [((name,), number) for name, number in numbers.items()]
