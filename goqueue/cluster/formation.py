"""The formation of a cluster: once, when all voters of the configuration are there and none belongs to a cluster.

    fresh ── all are fresh ──> formed by the first node of the configuration, which tells the others
      │
      └──── a peer is formed ─> joins it: as a voter if it is one of the voters, on this directory; else as an observer

What must stay true: nodes whose disks were wiped never form a second cluster while another node remembers the first:
that node is one of the voters, and formation needs all of them. The note is on the device before a node acts by it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.peer_messages import Hello


@dataclass(frozen=True, slots=True)
class ClusterNote:
    """The identity of a node and its cluster, as its data directory keeps it."""

    me: NodeIdentity
    cluster_id: str = ""
    """Empty before the cluster is formed."""
    voters: tuple[NodeIdentity, ...] = ()

    @property
    def is_formed(self) -> bool:
        return bool(self.cluster_id)


def form(
    note: ClusterNote, peers: tuple[str, ...], hellos: Mapping[str, Hello], new_id: Callable[[], str]
) -> ClusterNote | None:
    """Return the note of a cluster that begins now, or None. `hellos` are those of the nodes that are connected."""
    if note.is_formed or note.me.node != min(peers):
        return None
    others = [hellos.get(node) for node in peers if node != note.me.node]
    if any(hello is None or hello.cluster_id for hello in others):
        return None
    voters = (note.me, *(hello.identity for hello in others if hello is not None))
    return ClusterNote(note.me, new_id(), tuple(sorted(voters)))


def join(note: ClusterNote, cluster_id: str, voters: tuple[NodeIdentity, ...]) -> ClusterNote | None:
    """Return the note of a node that has met a formed cluster, or None if it belongs to one already."""
    if note.is_formed or not cluster_id:
        return None
    return ClusterNote(note.me, cluster_id, tuple(sorted(voters)))


def refuse_hello(note: ClusterNote, peers: tuple[str, ...], hello: Hello) -> str | None:
    """Return why a node cannot be talked to, or None."""
    name = hello.identity.node
    if hello.identity.node == note.me.node:
        return f"another node has the id {name} as well: each node needs a cluster.node_id of its own"
    if hello.peers != peers:
        return (
            f"node {name} has cluster.peers {', '.join(hello.peers)}, this node has {', '.join(peers)}: they must be"
            " the same on all nodes"
        )
    if note.is_formed and hello.cluster_id and hello.cluster_id != note.cluster_id:
        return (
            f"node {name} belongs to cluster {hello.cluster_id}, this node to {note.cluster_id}: a data directory stays"
            " in its cluster"
        )
    return None
