"""Placement of new partitions: leaders spread evenly over nodes, and the replicas of each over racks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from goqueue.cluster.partitions import PartitionState


@dataclass(slots=True)
class NodePlaces:
    """The nodes that may have replicas, and what they have already."""

    racks: dict[str, str]
    """The rack of each node; empty if it has none."""
    up: frozenset[str]
    """Nodes that are there. The others get a replica only if these are too few, and are never preferred."""
    preferred: Counter[str] = field(default_factory=Counter)
    replicas: Counter[str] = field(default_factory=Counter)

    def count(self, partitions: Iterable[PartitionState]) -> None:
        for state in partitions:
            self.preferred[state.replicas[0]] += 1
            self.replicas.update(state.replicas)

    def place(self, count: int) -> tuple[str, ...]:
        """Choose the replicas of one partition, the preferred leader first. There are so many nodes."""
        chosen: list[str] = []
        while len(chosen) < count:
            left = [node for node in sorted(self.racks) if node not in chosen]
            chosen.append(min(left, key=lambda node: self._cost(node, chosen)))
        self.preferred[chosen[0]] += 1
        self.replicas.update(chosen)
        return tuple(chosen)

    def resize(self, state: PartitionState, count: int) -> tuple[str, ...]:
        """Return the replicas of a partition with another number of them; those that are kept stay in their order."""
        kept = list(state.replicas)
        while len(kept) > count:
            kept.remove(max(kept, key=lambda node: self._cost_to_keep(state, node, kept)))
        while len(kept) < count:
            left = [node for node in sorted(self.racks) if node not in kept]
            kept.append(min(left, key=lambda node: self._cost(node, kept)))
        self.replicas.subtract(set(state.replicas) - set(kept))
        self.replicas.update(set(kept) - set(state.replicas))
        return tuple(kept)

    def _cost_to_keep(self, state: PartitionState, node: str, kept: Sequence[str]) -> tuple[int, ...]:
        """The node with the most goes first."""
        others = [one for one in kept if one != node]
        shared = sum(bool(self.racks[node]) and self.racks[one] == self.racks[node] for one in others)
        return node not in state.isr, node not in self.up, node != state.leader, shared, self.replicas[node]

    def _cost(self, node: str, chosen: Sequence[str]) -> tuple[int, ...]:
        """The node with the least is chosen next."""
        rack = self.racks[node]
        shared = sum(bool(rack) and self.racks[one] == rack for one in chosen)
        if not chosen:
            return node not in self.up, self.preferred[node], self.replicas[node]
        return node not in self.up, shared, self.replicas[node], self.preferred[node]
