"""The notes of a node in its data directory: who it is, and how it voted. Both are synced before anything follows from
them.

    {data}/cluster    node, directory id, cluster id, voters
    {data}/vote       term, and the candidate that this node voted for in it
"""

from typing import Any

from goqueue.cluster.formation import ClusterNote
from goqueue.cluster.messages import NodeIdentity, Vote
from goqueue.errors import ClusterNodeMismatch
from goqueue.storage.disk import Disk, read_all
from goqueue.storage.layout import decode_checkpoint, write_checkpoint


class NodeNotes:
    """The notes of one data directory."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk, self._path = disk, path
        self._cluster, self._vote = f"{path}/cluster", f"{path}/vote"

    def refuse_member(self) -> None:
        """Raise if the directory is that of a node of a cluster: what the node shares must not be changed apart."""
        if self._disk.kind(self._cluster) == "file":
            raise ClusterNodeMismatch(
                "the data directory belongs to a node of a cluster, whose keys all nodes share",
                hint="make keys while the cluster runs: `goqueue-admin key create`",
            )

    @property
    def exist(self) -> bool:
        """Return whether the directory is that of a node."""
        return self._disk.kind(self._cluster) == "file"

    def remove(self) -> None:
        """Forget the cluster: first who this node was, because without its vote it could vote twice in a term."""
        for path in (self._cluster, self._vote):
            if self._disk.kind(path) == "file":
                self._disk.remove(path)
                self._disk.sync_directory(self._path)

    def load(self, node: str) -> ClusterNote | None:
        """Return who this directory belongs to, or None if no node of a cluster has used it."""
        facts = self._read(self._cluster)
        if facts is None:
            return None
        note = ClusterNote(
            NodeIdentity(facts["node"], facts["directory"]),
            facts["cluster_id"],
            tuple(NodeIdentity(*voter) for voter in facts["voters"]),
        )
        if note.me.node != node:
            raise ClusterNodeMismatch(
                f"the data directory belongs to node {note.me.node}, and cluster.node_id is {node}",
                hint=f"start it with cluster.node_id {note.me.node}, or name the data directory of {node}",
            )
        return note

    def save(self, note: ClusterNote) -> None:
        voters = [list(voter) for voter in note.voters]
        write_checkpoint(
            self._disk,
            self._cluster,
            node=note.me.node,
            directory=note.me.directory,
            cluster_id=note.cluster_id,
            voters=voters,
        )

    def load_vote(self) -> Vote:
        facts = self._read(self._vote)
        if facts is None:
            return Vote(0)
        return Vote(facts["term"], None if facts["node"] is None else NodeIdentity(facts["node"], facts["directory"]))

    def save_vote(self, vote: Vote) -> None:
        """Any thread may do so, one at a time."""
        candidate = vote.candidate or (None, None)
        write_checkpoint(self._disk, self._vote, term=vote.term, node=candidate[0], directory=candidate[1])

    def _read(self, path: str) -> dict[str, Any] | None:
        if self._disk.kind(path) == "absent":
            return None
        facts = decode_checkpoint(read_all(self._disk, path))
        if facts is None:
            raise ClusterNodeMismatch(
                f"{path} is damaged, so this node no longer knows who it is or how it voted",
                hint="restore the file, or start with an empty data directory: the node then follows without a vote",
            )
        return facts
