"""Plans: which replicas to move, with the fewest moves. Pure functions over the partitions at rest.

A replica weighs its bytes, and something for itself. Racks come first: no move puts two replicas of a partition on one
rack that were on two. The order of replicas decides who leads, and costs no copy.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from goqueue.cluster.partitions import PartitionId
from goqueue.errors import ClusterChangeRefused
from goqueue.limits import CLUSTER_MOVES_MAX, MIB

Replicas = tuple[str, ...]
Plan = dict[PartitionId, Replicas]
_REPLICA_WEIGHT = MIB
"""Of a replica without messages."""
_UNEVEN_SHARE = 0.1
"""Of the average: a smaller difference between nodes is left alone."""


@dataclass(slots=True)
class PlannedCluster:
    """The replicas of all partitions, as the plan so far leaves them."""

    racks: Mapping[str, str]
    """The rack of each node that may get replicas; empty if it has none."""
    before: Mapping[PartitionId, Replicas]
    bytes: Mapping[PartitionId, int]
    now: Plan = field(init=False)
    load: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.now = dict(self.before)
        self.load = Counter(dict.fromkeys(self.racks, 0))
        for log, replicas in self.now.items():
            self.load.update(dict.fromkeys(replicas, self.weight(log)))

    def weight(self, log: PartitionId) -> int:
        return self.bytes.get(log, 0) + _REPLICA_WEIGHT

    def crowd(self, replicas: Iterable[str]) -> int:
        """Return how many replicas share their rack with an earlier one."""
        racks = [self.racks.get(node, "") for node in replicas]
        named = [rack for rack in racks if rack]
        return len(named) - len(set(named))

    def replaced(self, log: PartitionId, node: str, by: str) -> Replicas:
        return tuple(by if one == node else one for one in self.now[log])

    def move(self, log: PartitionId, node: str, to: str) -> None:
        self.now[log] = self.replaced(log, node, to)
        self.load[node] -= self.weight(log)
        self.load[to] += self.weight(log)

    def takers(self, log: PartitionId) -> list[str]:
        """Return the nodes that could get a replica, the least loaded first."""
        return sorted((one for one in self.racks if one not in self.now[log]), key=lambda one: (self.load[one], one))

    @property
    def changes(self) -> Plan:
        return {log: replicas for log, replicas in self.now.items() if replicas != self.before[log]}


def plan_drain(cluster: PlannedCluster, node: str) -> Plan:
    """Give each replica of a node to another one. Raises ClusterChangeRefused where all others have one."""
    heaviest = sorted(cluster.before, key=lambda log: -cluster.weight(log))
    for log in heaviest:
        if node not in cluster.now[log]:
            continue
        takers = [one for one in cluster.takers(log) if one != node]
        if not takers:
            raise ClusterChangeRefused(
                f"node {node} cannot be drained: partitions have a replica on each other node that is there",
                hint="add a node first, or lower the replication_factor of the topics",
            )
        cluster.move(log, node, min(takers, key=lambda one: cluster.crowd(cluster.replaced(log, node, one))))
    return cluster.changes


def plan_balance(cluster: PlannedCluster, to: str | None = None) -> Plan:
    """Even out racks, bytes, and leaders; with `to`, move replicas to this node only."""
    _mend_racks(cluster, to)
    average = sum(cluster.load[node] for node in cluster.racks) / max(len(cluster.racks), 1)
    moved: set[PartitionId] = set()
    while len(moved) < CLUSTER_MOVES_MAX and (step := _best_move(cluster, average, moved, to)) is not None:
        moved.add(step[0])
        cluster.move(*step)
    _spread_leaders(cluster)
    return cluster.changes


def _mend_racks(cluster: PlannedCluster, to: str | None) -> None:
    for log, replicas in cluster.before.items():
        if not (crowd := cluster.crowd(replicas)):
            continue
        steps = [
            (cluster.crowd(cluster.replaced(log, node, taker)), number, node, taker)
            for number, taker in enumerate(cluster.takers(log))
            if to in (None, taker)
            for node in reversed(replicas)
        ]
        best = min(steps, default=None, key=lambda step: step[:2])
        if best is not None and best[0] < crowd:
            cluster.move(log, best[2], best[3])


def _best_move(
    cluster: PlannedCluster, average: float, moved: set[PartitionId], to: str | None
) -> tuple[PartitionId, str, str] | None:
    """Return the move that evens out two nodes the most: from the one with the most, to the one with the least."""
    by_load = sorted(cluster.racks, key=lambda node: (cluster.load[node], node))
    for source in reversed(by_load):
        for target in by_load if to is None else [to]:
            difference = cluster.load[source] - cluster.load[target]
            if difference <= max(average * _UNEVEN_SHARE, _REPLICA_WEIGHT):
                break
            candidates = [
                log
                for log, replicas in cluster.now.items()
                if source in replicas
                and target not in replicas
                and log not in moved
                and cluster.weight(log) < difference
                and cluster.crowd(cluster.replaced(log, source, target)) <= cluster.crowd(replicas)
            ]
            if candidates:
                best = min(candidates, key=lambda log: (abs(difference - 2 * cluster.weight(log)), log))
                return best, source, target
    return None


def _spread_leaders(cluster: PlannedCluster) -> None:
    """Change who is preferred, where a node is so for two partitions more than another replica's."""
    preferred = Counter(dict.fromkeys(cluster.racks, 0))
    preferred.update(replicas[0] for replicas in cluster.now.values())
    is_better = True
    while is_better:
        is_better = False
        for log, replicas in cluster.now.items():
            others = [node for node in replicas[1:] if node in cluster.racks]
            least = min(others, default=replicas[0], key=lambda node: (preferred[node], node))
            if preferred[replicas[0]] - preferred[least] > 1:
                preferred.subtract((replicas[0],))
                preferred.update((least,))
                cluster.now[log] = (least, *(node for node in replicas if node != least))
                is_better = True
