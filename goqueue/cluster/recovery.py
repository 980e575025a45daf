"""Elections that are not clean: the logs of all replicas of a partition, and what would be lost if one of them led.

Two logs agree up to the end of the last epoch that both have, in the one where it ends earlier.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from goqueue.cluster.epoch_index import EpochIndex, EpochRow
from goqueue.cluster.metadata import ClusterState
from goqueue.cluster.partitions import PartitionId, PartitionState


class ReplicaExtent(Struct, frozen=True, array_like=True):
    """The log of one replica."""

    broker_epoch: int
    """The registration of the process that answers."""
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    """Everything below is known there to be committed."""
    epochs: tuple[EpochRow, ...] = ()
    last_time_ns: int = 0
    """Of its last record."""
    problem: str = ""
    """Why this replica cannot lead."""

    @property
    def order(self) -> tuple[int, int]:
        """The greater of two logs is the later one."""
        return self.index.last_epoch, self.end

    @property
    def index(self) -> EpochIndex:
        return EpochIndex(self.epochs, self.end, self.start)


class AskEnds(Struct, frozen=True, array_like=True, tag="ask_ends"):
    """Asks for the ends of replicas that the receiver has."""

    number: int
    """Of the question, for the answer."""
    logs: tuple[PartitionId, ...]


class EndsTold(Struct, frozen=True, array_like=True, tag="ends_told"):
    number: int
    ends: tuple[tuple[PartitionId, ReplicaExtent], ...]


class Candidate(Struct, frozen=True):
    """One replica of a partition, and what would be lost if it led."""

    node: str
    end: ReplicaExtent | None
    """None: it does not answer."""
    lost: int = 0
    """Records that others have and it lacks, as far as they answer; records of its own are not counted."""
    lost_committed: int = 0
    """How many of them are known to be committed."""

    @property
    def can_lead(self) -> bool:
        return self.end is not None and not self.end.problem

    @property
    def is_readable(self) -> bool:
        """Return whether it is known what the replica has."""
        return self.end is not None and (not self.end.problem or self.end.end > 0)


def longest_wanted(state: ClusterState, default: str) -> list[PartitionId]:
    """Return the partitions without a leader whose longest replica may lead. `default` is the cluster's setting."""
    offline = [log for log, one in state.partitions.items() if not one.leader]
    if not offline:
        return []
    settings = {topic.created_ns: topic.settings.unclean_election or default for topic in state.topics.values()}
    return [log for log in offline if settings[log.topic_id] == "longest"]


def find_longest(replicas: Iterable[str], ends: Mapping[str, ReplicaExtent]) -> str:
    """Return the node whose log is the latest; the first one of equals. Empty if none can lead."""
    usable = [node for node in replicas if node in ends and not ends[node].problem]
    return max(usable, key=lambda node: ends[node].order, default="")


def agreed_end(one: ReplicaExtent, other: ReplicaExtent) -> int:
    """Return up to where two logs of a partition are the same."""
    first, second = one.index, other.index
    known = {epoch for epoch, _ in second.rows}
    for epoch, _ in reversed(first.rows):
        if epoch in known:
            return min(first.end_of(epoch)[1], second.end_of(epoch)[1])
    return min(first.end_of(0)[1], second.end_of(0)[1])


def plan_recovery(replicas: Collection[str], ends: Mapping[str, ReplicaExtent]) -> list[Candidate]:
    """Return all replicas, those first that lose least."""
    found = {node: end for node, end in ends.items() if node in replicas}
    committed = max((end.high_watermark for end in found.values()), default=0)
    candidates = []
    for node in replicas:
        if (own := found.get(node)) is None:
            candidates.append(Candidate(node, None))
            continue
        lacks = [(agreed_end(own, other), other.end) for other in found.values()]
        lost = max(committed - own.end, *(end - agreed for agreed, end in lacks))
        kept = min((agreed for agreed, end in lacks if end >= committed), default=own.end)
        candidates.append(Candidate(node, own, lost, max(0, committed - kept)))
    best = find_longest(replicas, ends)

    def order(one: Candidate) -> tuple[bool, bool, int, int, bool]:
        return not one.can_lead, one.end is None, one.lost_committed, one.lost, one.node != best

    return sorted(candidates, key=order)


def are_losses_known(state: PartitionState, candidates: Iterable[Candidate]) -> bool:
    """Return whether no records can be lost but those that a plan counts.

    That takes the ends of all replicas, one of which had all that is committed. Otherwise one of them may have had more
    that is away, and a replica that never had the log would seem to lack nothing.
    """
    return bool(state.isr or state.elr) and all(one.is_readable for one in candidates)
