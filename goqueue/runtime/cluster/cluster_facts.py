"""Facts about a cluster, as far as one of its nodes knows them."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from goqueue.clock import NANOSECONDS
from goqueue.cluster.membership import NodeStatus
from goqueue.cluster.partition_health import PartitionHealth, count_needing, count_partitions
from goqueue.cluster.partitions import PartitionState
from goqueue.observe.cluster_metrics import ClusterMetricValues
from goqueue.observe.facts import ClusterCondition
from goqueue.quantities import format_count
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.partition_facts import partition_facts, replica_lags
from goqueue.runtime.cluster.reassignment_facts import move_bytes_left, stalled_moves

NodeRole = Literal["controller", "voter", "observer"]
ClusterHealth = Literal["ok", "degraded", "fail"]
_NO_VOTE = "it has no vote: its data directory is not the one that votes"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node as this one sees it."""

    node: str
    status: NodeStatus
    role: NodeRole
    directory: str | None
    """None before it is known."""
    broker_epoch: int | None
    client_address: str | None
    peer_address: str | None
    version: str | None
    feature_level: int | None
    """The level that its version knows."""
    registered_ns: int | None
    silence_seconds: float | None
    problem: str | None
    """Why there is no connection with it or why it has no vote, where an operator must act."""
    failure: str | None
    """Why it takes no part any more, although it may be alive."""
    lacks_vote: bool
    """It is one of the peers, on another data directory than the voter."""

    @property
    def is_working(self) -> bool:
        return self.status == "alive" and self.failure is None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster as this node sees it."""

    node: str
    cluster_id: str | None
    controller: str | None
    term: int
    version: int
    """How far the records of the cluster are applied here."""
    log_end: int
    feature_level: int
    """What all nodes know: nothing of a later level is recorded."""
    has_vote: bool
    voters_max: int
    voters_alive: int
    controller_changes: int
    authentication_failures: int
    lost_part: str | None
    """Why this node takes no part any more."""
    waiting_for: tuple[str, ...]
    """Nodes that the first formation waits for."""
    nodes: tuple[NodeFacts, ...]
    partitions: PartitionHealth
    draining: frozenset[str]
    """Nodes that shall lead nothing."""
    needing: dict[str, int]
    """Partitions that would accept no publishes with acks=all without a node."""

    @property
    def has_quorum(self) -> bool:
        return self.voters_alive > self.voters_max // 2

    @property
    def health(self) -> ClusterHealth:
        if self.controller is None or self.lost_part is not None or self.partitions.offline:
            return "fail"
        is_whole = self.voters_alive == self.voters_max and all(
            one.status == "alive" and one.problem is None for one in self.nodes
        )
        return "ok" if is_whole and not self.partitions.under_replicated else "degraded"

    def is_safe_to_stop(self, node: str) -> bool:
        """Return whether a majority of voters is left when a node stops, and enough replicas of each partition."""
        return self.why_not_to_stop(node) is None

    def why_not_to_stop(self, node: str) -> str | None:
        """Return what would be missing without a node."""
        left = [one for one in self.nodes if one.role != "observer" and one.is_working and one.node != node]
        if len(left) <= self.voters_max // 2:
            return f"{len(left)} of {self.voters_max} voters would be left: no majority"
        if needing := self.needing.get(node):
            return f"{format_count(needing, 'partition')} would have fewer replicas in sync than min_isr"
        return None


def cluster_facts(member: ClusterNode) -> ClusterFacts:
    raft, note, state = member.raft, member.note, member.log.state
    controller = member.controller
    voters = {one.node: one for one in member.voters}
    names = sorted({*member.membership.nodes, *voters, *state.nodes})
    nodes = tuple(_node(member, name, None if controller is None else controller.node) for name in names)
    electing = [one for one in nodes if one.role != "observer"]
    missing = (
        [] if note.is_formed else [one for one in member.settings.peers if member.membership.status(one) != "alive"]
    )
    return ClusterFacts(
        node=member.settings.node,
        cluster_id=note.cluster_id or None,
        controller=None if controller is None else controller.node,
        term=0 if raft is None else raft.term,
        version=member.log.applied_end,
        log_end=member.log.log.next_offset,
        feature_level=state.feature_level,
        has_vote=note.me in member.voters,
        voters_max=len(voters) or len(member.settings.peers),
        voters_alive=sum(one.is_working for one in electing),
        controller_changes=member.controller_changes,
        authentication_failures=member.network.authentication_failures,
        lost_part=None if member.failure is None else member.failure.sentence,
        waiting_for=tuple(missing),
        nodes=nodes,
        partitions=count_partitions(state.partitions.values()),
        draining=frozenset(state.draining),
        needing={name: count_needing(state.partitions.values(), name) for name in names},
    )


def cluster_condition(
    member: ClusterNode | None, unadopted: tuple[tuple[str, str], ...] = ()
) -> ClusterCondition | None:
    """Return what the doctor examines."""
    if member is None:
        return None
    facts, since, replicas = cluster_facts(member), member.leaderless_ns, member.replicas
    return ClusterCondition(
        node=facts.node,
        seconds_without_controller=0.0 if since is None else (member.now() - since) / NANOSECONDS,
        failure=facts.lost_part,
        without_vote=tuple(one.node for one in facts.nodes if one.lacks_vote),
        dead=tuple(one.node for one in facts.nodes if one.status == "dead"),
        problems=tuple(
            (one.node, one.problem)
            for one in facts.nodes
            if one.problem is not None and one.failure is None and not one.lacks_vote
        ),
        failed=tuple(
            (one.node, one.failure)
            for one in facts.nodes
            if one.failure is not None and one.status != "dead" and one.node != facts.node
        ),
        waiting_for=facts.waiting_for,
        nodes=len(facts.nodes),
        unserved=tuple(sorted(member.topics.problems.items())),
        unadopted=unadopted,
        **_partition_names(member),
        lags=tuple(sorted(replica_lags(member).items())),
        damaged=member.replicas.repair.problems,
        differing=tuple((one.log, one.node, one.first_offset) for one in replicas.comparison.differences.values()),
        repaired=tuple((log, one.ranges, one.size) for log, one in sorted(member.replicas.repair.by_log.items())),
        stalled_moves=tuple(stalled_moves(member)),
        certificate=None if (tls := member.settings.tls) is None else tls.facts(),
    )


def _partition_names(member: ClusterNode) -> dict[str, tuple[str, ...]]:
    """Return the partitions that need attention, by what is wrong with them."""
    found: dict[str, list[str]] = {
        "offline": [],
        "under_min_isr": [],
        "under_replicated": [],
        "unclean": [],
        "away": [],
    }
    for one in partition_facts(member):
        if one.condition != "ok":
            found[one.condition].append(one.name)
        state = one.state
        if state.unclean_epoch == state.leader_epoch:
            found["unclean"].append(one.name)
        elif state.leader not in ("", state.replicas[0]) and _could_lead(member, state):
            found["away"].append(one.name)
    return {what: tuple(names) for what, names in found.items()}


def _could_lead(member: ClusterNode, state: PartitionState) -> bool:
    """Return whether the preferred leader will get the partition back."""
    first = state.replicas[0]
    return first in state.isr and first not in member.log.state.draining and not state.is_moving


def has_other_nodes(member: ClusterNode) -> bool:
    """Return whether the cluster has, or is to have, more nodes than this one."""
    return len(member.settings.peers) > 1 or len(member.log.state.nodes) > 1


def cluster_metrics(member: ClusterNode | None) -> ClusterMetricValues | None:
    if member is None:
        return None
    facts = cluster_facts(member)
    return ClusterMetricValues(
        has_controller=facts.controller is not None,
        is_controller=facts.controller == facts.node,
        epoch=facts.term,
        records=facts.version,
        controller_changes=facts.controller_changes,
        authentication_failures=facts.authentication_failures,
        nodes=Counter(one.status for one in facts.nodes),
        partitions=facts.partitions.count,
        offline_partitions=facts.partitions.offline,
        under_replicated_partitions=facts.partitions.under_replicated,
        under_min_isr_partitions=facts.partitions.under_min_isr,
        led_partitions=sum(one.leader == facts.node for one in member.log.state.partitions.values()),
        replica_lag_messages=replica_lags(member),
        replication_bytes_sent={node: one.sent for node, one in member.replicas.traffic.items()},
        replication_bytes_received={node: one.received for node, one in member.replicas.traffic.items()},
        isr_shrinks=member.log.state.counts["isr_shrinks"],
        isr_expansions=member.log.state.counts["isr_expansions"],
        leader_elections=member.log.state.counts["leader_elections"],
        unclean_elections=member.log.state.counts["unclean_elections"],
        damaged_replicas=len(member.replicas.repair.problems),
        repaired_ranges=member.replicas.repair.counts.ranges,
        moving_partitions=sum(one.is_moving for one in member.log.state.partitions.values()),
        move_bytes_left=move_bytes_left(member),
    )


def _node(member: ClusterNode, name: str, controller: str | None) -> NodeFacts:
    found = member.log.state.nodes.get(name)
    registered = None if found is None else found[0]
    link = member.network.links.get(name)
    present = member.note.me if name == member.settings.node else None if link is None else link.hello.identity
    voter = next((one for one in member.voters if one.node == name), None)
    is_voter = voter is not None and present in (None, voter)
    if not member.note.is_formed:
        is_voter = name in member.settings.peers
    lacks_vote = name in member.settings.peers and not is_voter
    silence = member.membership.silence_ns(name, member.now())
    failure = member.membership.failures.get(name)
    own_problem = _NO_VOTE if lacks_vote else None
    if failure is not None:
        own_problem = f"it takes no part until it is restarted: {failure}"
    return NodeFacts(
        node=name,
        status=member.membership.status(name),
        role="controller" if name == controller else "voter" if is_voter else "observer",
        directory=present.directory if present is not None else voter.directory if voter is not None else None,
        broker_epoch=None if found is None else found[1],
        client_address=None if registered is None else registered.client_address,
        peer_address=None if registered is None else registered.peer_address or None,
        version=None if registered is None else registered.version,
        feature_level=None if registered is None else registered.feature_level,
        registered_ns=None if registered is None else registered.time_ns,
        silence_seconds=None if silence is None else silence / NANOSECONDS,
        problem=member.network.problems.get(name, own_problem),
        failure=failure,
        lacks_vote=lacks_vote,
    )
