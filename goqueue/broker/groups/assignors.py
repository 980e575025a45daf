"""Assignors: which member of a group gets which partition.

Every partition of a subscribed topic goes to exactly one subscriber. Equal input gives an equal assignment, always
and on every machine: ties are decided by member id, then by topic and partition.

`range` assigns contiguous partitions of each topic, so that equal numbers of several topics meet at one member.
`round_robin` alternates over all partitions. `sticky` balances and moves as few partitions as it can.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.records import Strategy

Assignment = dict[str, list[PartitionRef]]
"""The partitions of each member, in order; every member has an entry."""

Subscribers = dict[str, list[str]]
"""The subscribers of each existing topic that has any; topics and members in order."""


@dataclass(frozen=True, slots=True)
class AssignmentInput:
    """Subscriptions and current owners. Ownership may be out of date; unknown topics are ignored."""

    subscriptions: Mapping[str, Collection[str]]
    """The topics of each member."""
    partitions: Mapping[str, int]
    """The number of partitions of each topic."""
    owned: Mapping[str, Collection[PartitionRef]]
    """The current partitions of each member. When several claim one, the lowest member id wins."""


def assign(strategy: Strategy, request: AssignmentInput) -> Assignment:
    assignment: Assignment = {member: [] for member in sorted(request.subscriptions)}
    for ref, member in sorted(_STRATEGIES[strategy](request).items()):
        assignment[member].append(ref)
    return assignment


def _subscribers(request: AssignmentInput) -> Subscribers:
    wanted = {member: frozenset(topics) for member, topics in sorted(request.subscriptions.items())}
    found = {topic: [member for member in wanted if topic in wanted[member]] for topic in sorted(request.partitions)}
    return {topic: members for topic, members in found.items() if members}


def _partitions(request: AssignmentInput, topics: Iterable[str]) -> list[PartitionRef]:
    return [PartitionRef(topic, partition) for topic in topics for partition in range(request.partitions[topic])]


def _range(request: AssignmentInput) -> dict[PartitionRef, str]:
    owners = {}
    for topic, members in _subscribers(request).items():
        size, more = divmod(request.partitions[topic], len(members))
        for rank, member in enumerate(members):
            first = rank * size + min(rank, more)
            for partition in range(first, first + size + (rank < more)):
                owners[PartitionRef(topic, partition)] = member
    return owners


def _round_robin(request: AssignmentInput) -> dict[PartitionRef, str]:
    subscribers = _subscribers(request)
    turns = cycle(sorted({member for members in subscribers.values() for member in members}))
    wanting = {topic: frozenset(members) for topic, members in subscribers.items()}
    return {
        ref: next(member for member in turns if member in wanting[ref.topic])
        for ref in _partitions(request, subscribers)
    }


# --- sticky ---


def _sticky(request: AssignmentInput) -> dict[PartitionRef, str]:
    subscribers = _subscribers(request)
    owners = _owners(request, subscribers)
    if len({tuple(members) for members in subscribers.values()}) == 1:
        members = next(iter(subscribers.values()))
        refs = _partitions(request, subscribers)
        return _deal(refs, owners, _quotas(members, len(refs), owners))
    shares = _Shares(subscribers, owners)
    for topic in sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic)):
        shares.hand_out(topic, request.partitions[topic])
    shares.balance(moves_owned=False)
    shares.balance(moves_owned=True)
    assignment: dict[PartitionRef, str] = {}
    for topic in subscribers:
        assignment |= _deal(_partitions(request, [topic]), owners, shares.quotas(topic))
    return assignment


def _owners(request: AssignmentInput, subscribers: Subscribers) -> dict[PartitionRef, str]:
    wanting = {topic: frozenset(members) for topic, members in subscribers.items()}
    claims: dict[PartitionRef, str] = {}
    for member in sorted(request.owned):
        for topic, partition in request.owned[member]:
            if member in wanting.get(topic, ()):
                claims.setdefault(PartitionRef(topic, partition), member)
    return {ref: claims[ref] for ref in _partitions(request, subscribers) if ref in claims}


def _quotas(members: list[str], refs: int, owners: dict[PartitionRef, str]) -> dict[str, int]:
    """Return how many partitions each member gets: `floor`, and one more for those that own most.

    `_deal` lets a member keep what it owns up to its quota. A larger quota keeps one more partition only for members
    that own more than `floor`, so no other choice moves fewer partitions.
    """
    floor, more = divmod(refs, len(members))
    owned = Counter(owners.values())
    by_owned = sorted(members, key=lambda member: (-owned[member], member))
    return {member: floor + (rank < more) for rank, member in enumerate(by_owned)}


def _deal(refs: list[PartitionRef], owners: dict[PartitionRef, str], quotas: dict[str, int]) -> dict[PartitionRef, str]:
    """Let each member keep what it owns up to its quota; give the rest in turn to members with room."""
    room = dict(quotas)
    assignment = {}
    loose = []
    for ref in refs:
        owner = owners.get(ref)
        if owner is not None and room[owner]:
            room[owner] -= 1
            assignment[ref] = owner
        else:
            loose.append(ref)
    takers = deque(member for member in sorted(room) if room[member])
    for ref in loose:
        member = takers.popleft()
        assignment[ref] = member
        room[member] -= 1
        if room[member]:
            takers.append(member)
    return assignment


class _Shares:
    """The number of partitions of each topic that a member gets, when subscriptions differ.

    `_deal` then chooses the partitions with the fewest moves.
    """

    def __init__(self, subscribers: Subscribers, owners: dict[PartitionRef, str]) -> None:
        self._subscribers = subscribers
        self._load = {member: 0 for members in subscribers.values() for member in members}
        self._owned: Counter[tuple[str, str]] = Counter()
        for (topic, _), member in owners.items():
            self._owned[member, topic] += 1
            self._load[member] += 1
        self._has = Counter(self._owned)

    def quotas(self, topic: str) -> dict[str, int]:
        return {member: self._has[member, topic] for member in self._subscribers[topic]}

    def hand_out(self, topic: str, partitions: int) -> None:
        """Give unowned partitions to the least loaded subscribers, one by one."""
        by_load = [(self._load[member], member) for member in self._subscribers[topic]]
        heapq.heapify(by_load)
        for _ in range(partitions - sum(self.quotas(topic).values())):
            load, member = by_load[0]
            self._has[member, topic] += 1
            self._load[member] = load + 1
            heapq.heapreplace(by_load, (load + 1, member))

    def balance(self, *, moves_owned: bool) -> None:
        """Move partitions from the most loaded member along chains to less loaded ones, while that improves balance.

        A chain ends at the least loaded member that it can reach. If that one has at least two fewer, each member of
        the chain gives one partition to the next. Otherwise no chain into the reached members helps, so they are
        finished. It terminates, because each shift lowers the sum of the squared loads.

        A first pass that moves no owned partitions places the rest best; the second then moves owned ones only where
        balance requires it.
        """
        waiting = set(self._load)
        while waiting:
            heaviest = min(waiting, key=lambda member: (-self._load[member], member))
            chains = self._chains(heaviest, waiting, moves_owned=moves_owned)
            lightest = min(chains, key=self._load.__getitem__)
            if self._load[heaviest] - self._load[lightest] >= 2:
                self._shift(chains, heaviest, lightest)
            else:
                waiting -= chains.keys()

    def _chains(self, heaviest: str, waiting: set[str], *, moves_owned: bool) -> dict[str, tuple[str, str]]:
        """Return the members that moves can reach, nearest first, each with its giver and the topic."""
        chains = {heaviest: ("", "")}
        givers = deque([heaviest])
        unseen = dict.fromkeys(self._subscribers)
        while givers and unseen:
            giver = givers.popleft()
            for topic in self._gifts(giver, unseen, moves_owned=moves_owned):
                del unseen[topic]
                for taker in self._subscribers[topic]:
                    if taker in waiting and taker not in chains:
                        chains[taker] = giver, topic
                        givers.append(taker)
        return chains

    def _gifts(self, giver: str, topics: Iterable[str], *, moves_owned: bool) -> list[str]:
        """Return the topics that a member can give; first those of which it has more than it owned."""
        held = [topic for topic in topics if self._has[giver, topic]]
        more = [topic for topic in held if self._has[giver, topic] > self._owned[giver, topic]]
        return more + [topic for topic in held if topic not in more] if moves_owned else more

    def _shift(self, chains: dict[str, tuple[str, str]], heaviest: str, lightest: str) -> None:
        """Move one partition along each link of a chain; only the loads of its ends change."""
        self._load[heaviest] -= 1
        self._load[lightest] += 1
        taker = lightest
        while taker != heaviest:
            giver, topic = chains[taker]
            self._has[giver, topic] -= 1
            self._has[taker, topic] += 1
            taker = giver


_STRATEGIES: dict[Strategy, Callable[[AssignmentInput], dict[PartitionRef, str]]] = {
    "sticky": _sticky,
    "range": _range,
    "round_robin": _round_robin,
}
