"""Facts about reassignments: how far each move is, what is left, and how long that takes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from goqueue.clock import NANOSECONDS
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.peer_messages import ReplicaSizes
from goqueue.cluster.reassigner import MoveStage, stage_of
from goqueue.cluster.reassignment_records import Move, Reassignment
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.replica_sizes import sizes_of

_STALLED_NS = 60 * NANOSECONDS
ReassignmentState = Literal["running", "paused", "completed", "cancelled"]


@dataclass(frozen=True, slots=True)
class MoveFacts:
    topic: str
    """Empty if it was deleted."""
    partition: int
    move: Move
    stage: MoveStage
    state: PartitionState | None
    size: int
    """Bytes of one replica, as far as its leader could be asked."""
    left: int
    """Bytes to be copied."""
    rate: int
    """Bytes of a second, of late."""

    @property
    def is_verified(self) -> bool:
        """Return whether the partition has the replicas of the plan, all in sync."""
        state = self.state
        return self.stage == "done" and state is not None and set(state.isr) == set(self.move.target)

    def waits_for(self, up: Iterable[str]) -> str | None:
        """Return what a move waits for that is under way."""
        if self.stage != "moving" or self.state is None:
            return None
        missing = [node for node in self.state.adding if node not in self.state.isr]
        if gone := [node for node in missing if node not in up]:
            return f"{', '.join(gone)} is not there"
        if not self.state.leader:
            return "no leader"
        if missing:
            return f"{', '.join(missing)} to be in sync"
        return f"min_isr {self.state.min_isr}: in sync are {', '.join(self.state.isr)}"


@dataclass(frozen=True, slots=True)
class ReassignmentFacts:
    reassignment: Reassignment
    moves: tuple[MoveFacts, ...]

    @property
    def state(self) -> ReassignmentState:
        found = self.reassignment
        return found.outcome or ("paused" if found.is_paused else "running")

    @property
    def done(self) -> int:
        found = self.reassignment
        return found.done if found.outcome else sum(one.stage == "done" for one in self.moves)

    @property
    def left(self) -> int:
        return sum(one.left for one in self.moves)

    @property
    def rate(self) -> int:
        return 0 if self.state != "running" else sum(one.rate for one in self.moves)

    @property
    def seconds_left(self) -> float | None:
        """Return how long it takes at the rate of late; None if nothing is being copied."""
        return self.left / self.rate if self.rate and self.left else None


def reassignment_facts(
    member: ClusterNode, reassignment: Reassignment, sizes: Mapping[PartitionId, ReplicaSizes]
) -> ReassignmentFacts:
    state = member.log.state
    found = []
    for move in reassignment.moves:
        partition = state.partitions.get(move.log)
        stage, size = stage_of(move, reassignment, partition), sizes.get(move.log)
        total, left, rate = 0 if size is None else size.bytes, 0, 0
        if stage == "waiting":
            left = total * len(set(move.target) - set(move.before))
        elif stage == "moving" and size is not None:
            left, rate = (sum(one[part] for one in size.left.values()) for part in (0, 1))
        name = state.names.get(move.log.topic_id, "")
        found.append(MoveFacts(name, move.log.partition, move, stage, partition, total, left, rate))
    return ReassignmentFacts(reassignment, tuple(found))


def move_bytes_left(member: ClusterNode) -> int:
    """Return what new replicas lack of the partitions that this node leads."""
    partitions = member.log.state.partitions
    sizes = (sizes_of(member, log) for log, state in partitions.items() if state.adding)
    return sum(left for size in sizes if size is not None for left, _ in size.left.values())


def stalled_moves(member: ClusterNode) -> Iterator[tuple[str, str]]:
    """Yield partitions whose move does not go on, as far as this node knows, and why."""
    state, now = member.log.state, member.now()
    for log, found in state.partitions.items():
        reassignment = state.reassignment_of(log) if found.adding else None
        if reassignment is None or reassignment.is_paused:
            continue
        name = f"{state.names[log.topic_id]}/{log.partition}"
        if gone := [node for node in found.adding if node in state.fenced or node not in state.nodes]:
            yield name, f"{', '.join(gone)} is not there"
        elif (size := sizes_of(member, log)) is not None:
            idle = [node for node in size.left if _is_idle(member, log, node, size.left[node][0], now)]
            if idle and member.wall_clock() - reassignment.started_ns > _STALLED_NS:
                yield name, f"nothing was sent to {', '.join(idle)} for a minute"


def _is_idle(member: ClusterNode, log: PartitionId, node: str, left: int, now: int) -> bool:
    transfer = member.replicas.catch_up.transfers.get((log, node))
    return left > 0 and (transfer is None or now - transfer.progress_ns > _STALLED_NS)
