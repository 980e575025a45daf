"""The records of the replicated log, and the state that they make: the same on all nodes up to the same offset."""

from contextlib import suppress

import msgspec

from goqueue.cluster.messages import NodeIdentity
from goqueue.storage import frame


class ClusterCreated(msgspec.Struct, frozen=True, tag="cluster_created", tag_field="record"):
    """The first record of a cluster."""

    cluster_id: str
    voters: tuple[NodeIdentity, ...]
    time_ns: int


class NodeRegistered(msgspec.Struct, frozen=True, tag="node_registered", tag_field="record"):
    """A process of a node has started. The offset of this record is the broker epoch of the process."""

    node: str
    directory: str
    incarnation: str
    client_address: str
    peer_address: str
    version: str
    time_ns: int


class NodeLeft(msgspec.Struct, frozen=True, tag="node_left", tag_field="record"):
    """A node was taken out of the cluster's list. It is listed again when it registers again."""

    node: str
    time_ns: int


ClusterRecord = ClusterCreated | NodeRegistered | NodeLeft
_decoder: msgspec.json.Decoder[ClusterRecord] = msgspec.json.Decoder(ClusterRecord)


def encode_cluster_record(record: ClusterRecord) -> bytes:
    """Encode a record as a frame that is not stamped yet."""
    key = "cluster" if isinstance(record, ClusterCreated) else f"node/{record.node}"
    return frame.encode(msgspec.json.encode(record), key.encode())


def decode_cluster_record(message: frame.StoredMessage) -> ClusterRecord:
    """Raises msgspec.DecodeError if a later version has written it."""
    return _decoder.decode(message.value)


class ClusterState:
    """The state that the committed records make."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.voters: tuple[NodeIdentity, ...] = ()
        self.nodes: dict[str, tuple[NodeRegistered, int]] = {}
        """The registration of each node, with its broker epoch."""

    def apply(self, record: ClusterRecord, offset: int) -> None:
        match record:
            case ClusterCreated():
                self.cluster_id, self.voters = record.cluster_id, record.voters
            case NodeRegistered():
                self.nodes[record.node] = record, offset
            case NodeLeft():
                self.nodes.pop(record.node, None)

    def apply_message(self, message: frame.StoredMessage) -> None:
        """Apply a committed message of the log. Control records belong to the log itself."""
        if message.flags & frame.CONTROL:
            return
        with suppress(msgspec.DecodeError):  # a later version has written it
            self.apply(decode_cluster_record(message), message.offset)
