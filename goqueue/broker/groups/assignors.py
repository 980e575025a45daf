"""Who gets which partition.

Every partition of a topic that somebody subscribes to goes to exactly one of those who do. The same request has the
same answer at all times and on every machine: ties are decided by the member's id, then by topic and partition.

`range` deals the partitions of each topic in contiguous pieces, so that those of one number in several topics
meet at one member. `round_robin` deals them all in turn. `sticky` is balanced and moves as little as it can.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

Place = tuple[str, int]
"""Topic and partition."""

Assignment = dict[str, list[Place]]
"""By member; everyone has an entry, in order of the places."""

Strategy = Literal["sticky", "range", "round_robin"]

Subscribers = dict[str, list[str]]
"""The topics that exist and that somebody wants, each with those who do; both in order."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who wants what, and who has what. What is owned may be out of date; topics that are not known are ignored."""

    subscriptions: Mapping[str, Collection[str]]
    """The topics of each member."""
    partitions: Mapping[str, int]
    """How many each topic has."""
    owned: Mapping[str, Collection[Place]]
    """What each has now. Of several members who claim a place the one with the lowest id is believed."""


def assign(strategy: Strategy, request: Request) -> Assignment:
    assignment: Assignment = {member: [] for member in sorted(request.subscriptions)}
    for place, member in sorted(_STRATEGIES[strategy](request).items()):
        assignment[member].append(place)
    return assignment


def _subscribers(request: Request) -> Subscribers:
    wanted = {member: frozenset(topics) for member, topics in sorted(request.subscriptions.items())}
    found = {topic: [member for member in wanted if topic in wanted[member]] for topic in sorted(request.partitions)}
    return {topic: members for topic, members in found.items() if members}


def _places(request: Request, topics: Iterable[str]) -> list[Place]:
    return [(topic, partition) for topic in topics for partition in range(request.partitions[topic])]


def _range(request: Request) -> dict[Place, str]:
    owners = {}
    for topic, members in _subscribers(request).items():
        size, more = divmod(request.partitions[topic], len(members))
        for rank, member in enumerate(members):
            first = rank * size + min(rank, more)
            for partition in range(first, first + size + (rank < more)):
                owners[topic, partition] = member
    return owners


def _round_robin(request: Request) -> dict[Place, str]:
    subscribers = _subscribers(request)
    turns = cycle(sorted({member for members in subscribers.values() for member in members}))
    wanting = {topic: frozenset(members) for topic, members in subscribers.items()}
    return {
        (topic, partition): next(member for member in turns if member in wanting[topic])
        for topic, partition in _places(request, subscribers)
    }


# --- sticky ---


def _sticky(request: Request) -> dict[Place, str]:
    subscribers = _subscribers(request)
    owners = _owners(request, subscribers)
    if len({tuple(members) for members in subscribers.values()}) == 1:
        members = next(iter(subscribers.values()))
        places = _places(request, subscribers)
        return _deal(places, owners, _quotas(members, len(places), owners))
    shares = _Shares(subscribers, owners)
    for topic in sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic)):
        shares.hand_out(topic, request.partitions[topic])
    shares.balance(moves_owned=False)
    shares.balance(moves_owned=True)
    assignment: dict[Place, str] = {}
    for topic in subscribers:
        assignment |= _deal(_places(request, [topic]), owners, shares.quotas(topic))
    return assignment


def _owners(request: Request, subscribers: Subscribers) -> dict[Place, str]:
    """Who may keep what, if balance allows it."""
    wanting = {topic: frozenset(members) for topic, members in subscribers.items()}
    claims: dict[Place, str] = {}
    for member in sorted(request.owned):
        for place in request.owned[member]:
            if member in wanting.get(place[0], ()):
                claims.setdefault(place, member)
    return {place: claims[place] for place in _places(request, subscribers) if place in claims}


def _quotas(members: list[str], places: int, owners: dict[Place, str]) -> dict[str, int]:
    """Balanced means that everyone gets `floor` places, and so many as remain get one more.

    A member with a quota keeps at most what it owns and at most the quota, and `_deal` lets it keep just that. One more
    in the quota saves one more place exactly for those who own more than `floor`; so no choice of who
    gets more keeps more places than giving it to those who own most.
    """
    floor, more = divmod(places, len(members))
    owned = Counter(owners.values())
    by_owned = sorted(members, key=lambda member: (-owned[member], member))
    return {member: floor + (rank < more) for rank, member in enumerate(by_owned)}


def _deal(places: list[Place], owners: dict[Place, str], quotas: dict[str, int]) -> dict[Place, str]:
    """Everyone keeps what is owned up to the quota; the rest goes in turn to those who have room."""
    room = dict(quotas)
    assignment = {}
    loose = []
    for place in places:
        owner = owners.get(place)
        if owner is not None and room[owner]:
            room[owner] -= 1
            assignment[place] = owner
        else:
            loose.append(place)
    takers = deque(member for member in sorted(room) if room[member])
    for place in loose:
        member = takers.popleft()
        assignment[place] = member
        room[member] -= 1
        if room[member]:
            takers.append(member)
    return assignment


class _Shares:
    """How many partitions of each topic a member gets, where subscriptions differ.

    Partitions of a topic are alike here; which ones it will be, `_deal` decides with the fewest moves.
    """

    def __init__(self, subscribers: Subscribers, owners: dict[Place, str]) -> None:
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
        """What nobody owns goes to the least loaded, one by one."""
        by_load = [(self._load[member], member) for member in self._subscribers[topic]]
        heapq.heapify(by_load)
        for _ in range(partitions - sum(self.quotas(topic).values())):
            load, member = by_load[0]
            self._has[member, topic] += 1
            self._load[member] = load + 1
            heapq.heapreplace(by_load, (load + 1, member))

    def balance(self, *, moves_owned: bool) -> None:
        """Move from the most loaded to the least loaded whom a chain of moves can reach, while it has two less.

        When there is none, whoever can be reached has at most one less than the most loaded. A chain from anybody
        else that ends among those would not help either, so all of them are done. This ends: each
        move makes the sum of the squared loads smaller.

        Where nothing that is owned may move, this finds the best place for the rest; so afterwards it moves
        only if balance cannot be had without.
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
        """Whom moves can reach, nearest first, each with who would give it one, and of which topic."""
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
        """Of these topics the ones that it can give of; first those of which it has more than it owned."""
        held = [topic for topic in topics if self._has[giver, topic]]
        more = [topic for topic in held if self._has[giver, topic] > self._owned[giver, topic]]
        return more + [topic for topic in held if topic not in more] if moves_owned else more

    def _shift(self, chains: dict[str, tuple[str, str]], heaviest: str, lightest: str) -> None:
        """Each of the chain gives one to the next; only its two ends change their loads."""
        self._load[heaviest] -= 1
        self._load[lightest] += 1
        taker = lightest
        while taker != heaviest:
            giver, topic = chains[taker]
            self._has[giver, topic] -= 1
            self._has[taker, topic] += 1
            taker = giver


_STRATEGIES: dict[Strategy, Callable[[Request], dict[Place, str]]] = {
    "sticky": _sticky,
    "range": _range,
    "round_robin": _round_robin,
}
