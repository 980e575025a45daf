"""Changes of the cluster that an operator asks for: another controller, a voter replaced, a node taken out for good.

The controller decides each request at once, by what it knows of the connections besides its records.
"""

from goqueue.broker.internal_topics import FOLLOWED
from goqueue.cluster.controller import Controller, Records
from goqueue.cluster.controller_requests import HandOver
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.metadata import VotersChanged, in_pieces
from goqueue.cluster.raft import Raft
from goqueue.cluster.shared_logs import leave_followed
from goqueue.errors import ClusterChangeRefused, NodeNotFound
from goqueue.quantities import format_count, quoted
from goqueue.runtime.cluster.peer_network import PeerNetwork

_NODES = "`goqueue-cli cluster nodes` lists them"


def hand_over(raft: Raft, request: HandOver, now_ns: int) -> None:
    """Let another voter become the controller. Raises ClusterChangeRefused."""
    if request.node == raft.me.node:
        return
    if raft.transfer(now_ns, request.node) is None:
        who = f"node {quoted(request.node)} is no voter that is" if request.node else "no other voter is"
        raise ClusterChangeRefused(f"{who} connected with the controller, {raft.me.node}", hint=_NODES)


def replace_voter(raft: Raft, network: PeerNetwork, peers: frozenset[str], node: str, now_ns: int) -> Records:
    """Return the next step towards a vote for the directory that a node has now: the lost one out, or this one in.

    Raises ClusterChangeRefused, and changes nothing, where a majority could be lost by it.
    """
    if node not in peers:
        raise NodeNotFound(f"node {quoted(node)} is not in cluster.peers, so it has no vote to replace", hint=_NODES)
    links = network.links
    present = raft.me if node == raft.me.node else links[node].hello.identity if node in links else None
    if present is None:
        raise ClusterChangeRefused(
            f"node {node} is not connected with the controller, {raft.me.node}",
            hint="start it first, with its own cluster.node_id and an empty data directory",
        )
    if present in raft.voters:
        return []
    lost = frozenset(one for one in raft.voters if one.node == node)
    voters = raft.voters - lost if lost else raft.voters | {present}
    _refuse_minority(raft, network, voters)
    if (sentence := raft.refuse_voters(voters)) is not None:
        hint = "try again in a moment: what is done already is kept"
        raise ClusterChangeRefused(sentence, hint=hint, retry_after=1)
    return [VotersChanged(tuple(sorted(voters)), now_ns)]


def _refuse_minority(raft: Raft, network: PeerNetwork, voters: frozenset[NodeIdentity]) -> None:
    """Refuse a change after which no majority is there: it could be neither committed nor reverted."""
    present = {raft.me, *(link.hello.identity for link in network.links.values())}
    missing = sorted(one.node for one in voters - present)
    if len(voters & present) <= len(voters) // 2:
        raise ClusterChangeRefused(
            f"no majority of voters would be connected without it: {', '.join(missing)} {_is(missing)} missing",
            hint=f"start {missing[0]} first",
        )


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def remove_node(raft: Raft, network: PeerNetwork, controller: Controller, node: str, now_ns: int) -> Records:
    """Return the records that take a node out of the list. Raises ClusterChangeRefused while it is of use."""
    state = controller.state
    if node not in state.nodes:
        raise NodeNotFound(f"the cluster has no node {quoted(node)}", hint=_NODES)
    if node == raft.me.node or node in network.links:
        raise ClusterChangeRefused(f"node {node} is connected: it would register again at once", hint="stop it first")
    if any(one.node == node for one in raft.voters):
        raise ClusterChangeRefused(
            f"node {node} is a voter, which cluster.peers fixes",
            hint="start another machine with its id, and replace it: `goqueue-admin cluster replace-voter`",
        )
    leaving = dict(leave_followed(node, state, FOLLOWED))
    replicas = sum(node in one.replicas for log, one in state.partitions.items() if log not in leaving)
    if replicas:
        raise ClusterChangeRefused(
            f"node {node} has {format_count(replicas, 'replica')}: partitions would count on a node that is gone",
            hint=f"start it again and move them away: `goqueue-admin cluster drain {node} --decommission`",
        )
    return [*in_pieces(leaving.items()), *controller.remove(node, now_ns)]
