"""The messages of nodes on their connection, besides those of Raft."""

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from goqueue.broker.core.remote_partition import PartitionPositions
from goqueue.cluster.controller_requests import ControllerAnswer, ControllerRequest
from goqueue.cluster.messages import NodeIdentity, RaftMessage
from goqueue.cluster.participant_messages import TransactionMessage
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.recovery import AskEnds, EndsTold
from goqueue.cluster.refusals import Refusal
from goqueue.cluster.replication_messages import ReplicationMessage
from goqueue.cluster.tenant_shares import TenantShare, TenantUseReport

PROTOCOL = 1


class Hello(Struct, frozen=True, array_like=True, tag="hello"):
    """The first message of each side."""

    protocol: int
    identity: NodeIdentity
    cluster_id: str
    """Empty before the cluster is formed."""
    peers: tuple[str, ...]
    """The nodes of `cluster.peers`: they are the same on all nodes."""
    voters: tuple[NodeIdentity, ...] = ()
    version: str = ""


class Formed(Struct, frozen=True, array_like=True, tag="formed"):
    """The cluster exists, with these voters."""

    cluster_id: str
    voters: tuple[NodeIdentity, ...]


class Ping(Struct, frozen=True, array_like=True, tag="ping"):
    """Any message shows that the sender is alive; this one says nothing else."""


class Leaving(Struct, frozen=True, array_like=True, tag="leaving"):
    """The sender stops."""


class Failed(Struct, frozen=True, array_like=True, tag="failed"):
    """The sender takes no part any more until its process is started again."""

    reason: str


class Register(Struct, frozen=True, array_like=True, tag="register"):
    """Asks the controller to record the sender. It is sent again until the record is committed."""

    incarnation: str
    """Made by each start of the process."""
    client_address: str
    peer_address: str
    version: str
    rack: str = ""
    feature_level: int = 0
    damaged: tuple[PartitionId, ...] = ()
    """Replicas that have lost something which they had confirmed."""
    is_whole: bool = False
    """The node's own catalog has lost nothing: what is not damaged is intact, or was never here."""
    has_groups: bool = False
    """It has groups, and knows of no log of groups that the cluster shares."""
    has_keys: bool = False
    """The same for API keys."""
    brings: tuple[str, ...] = ()
    """The same for the other internal topics: the names of those with records."""


class Unreachable(Struct, frozen=True, array_like=True, tag="unreachable"):
    """Tells the controller that the process of a node is gone: its connection ended, and a new one was refused."""

    node: str


class Followed(Struct, frozen=True, array_like=True, tag="followed"):
    """The topics of the sender have become those of this version of the cluster."""

    version: int


class Ask(Struct, frozen=True, array_like=True, tag="ask"):
    """A request to the controller."""

    number: int
    request: ControllerRequest


class Answered(Struct, frozen=True, array_like=True, tag="answered"):
    """The answer to the request of this number."""

    number: int
    answer: ControllerAnswer | None
    refusal: Refusal | None = None


class Renew(Struct, frozen=True, array_like=True, tag="renew"):
    """Asks the controller whether the sender may go on to answer as the leader of its partitions."""

    sent_ns: int
    """By the monotonic clock of the sender, which counts the lease from then."""


class Renewed(Struct, frozen=True, array_like=True, tag="renewed"):
    """The sender is the controller, and has not fenced the receiver."""

    sent_ns: int
    """As in the question."""


class StoreCopies(Struct, frozen=True, array_like=True, tag="store_copies"):
    """Asks the leader of a partition to store copies of messages, each once."""

    number: int
    """Of the question, for the answer."""
    topic: str
    topic_id: int
    partition: int
    copies: tuple[tuple[bytes, bytes, int], ...]
    """Frame, origin, and the end of the partition from which it may be there."""


class CopiesStored(Struct, frozen=True, array_like=True, tag="copies_stored"):
    number: int
    problem: str = ""
    """Empty if all are committed."""


class ListGroups(Struct, frozen=True, array_like=True, tag="list_groups"):
    """Asks for the groups that the receiver coordinates."""

    number: int
    after: str
    limit: int
    has_details: bool


class GroupsListed(Struct, frozen=True, array_like=True, tag="groups_listed"):
    number: int
    content: bytes
    """JSON, as the list of groups answers clients."""


class AskPartition(Struct, frozen=True, array_like=True, tag="ask_partition"):
    """Asks the leader of a partition for what a node without a replica needs of it."""

    needed_level: ClassVar[int] = 2
    number: int
    log: PartitionId
    question: str
    arguments: tuple[Any, ...]


class PartitionAnswered(Struct, frozen=True, array_like=True, tag="partition_answered"):
    needed_level: ClassVar[int] = 2
    number: int
    positions: PartitionPositions | None
    """None if the receiver of the question does not lead the partition."""
    answer: Any
    refusal: Refusal | None = None


class FollowPartition(Struct, frozen=True, array_like=True, tag="follow_partition"):
    """Asks the leader of a partition to tell its positions once, when they are others than these."""

    needed_level: ClassVar[int] = 2
    log: PartitionId
    known: PartitionPositions | None


class PartitionMoved(Struct, frozen=True, array_like=True, tag="partition_moved"):
    """The answer: these are the positions now."""

    needed_level: ClassVar[int] = 2
    log: PartitionId
    positions: PartitionPositions


class JournalFollowed(Struct, frozen=True, array_like=True, tag="journal_followed"):
    """The sender has applied a followed log up to this offset."""

    needed_level: ClassVar[int] = 2
    log: str
    end: int


class Forward(Struct, frozen=True, array_like=True, tag="forward"):
    """Asks a node to answer the request of a client, whose rights it checks itself."""

    needed_level: ClassVar[int] = 2
    number: int
    log: str
    """Only if the receiver leads this followed log; empty: in any case."""
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    id: str
    peer: str
    certificate: tuple[tuple[str, ...], int] | None = None
    """The names in the certificate of the client, and when it expires."""


class Forwarded(Struct, frozen=True, array_like=True, tag="forwarded"):
    needed_level: ClassVar[int] = 2
    number: int
    status: int
    """0: nothing was done, because the sender does not lead the log."""
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    end: int = 0
    """What the answer says is known to who has applied the log up to here."""


class Offer(Struct, frozen=True, array_like=True, tag="offer"):
    """Offers records from before the cluster had a followed log to its leader."""

    needed_level: ClassVar[int] = 2
    number: int
    log: str
    frames: tuple[bytes, ...]


class Offered(Struct, frozen=True, array_like=True, tag="offered"):
    needed_level: ClassVar[int] = 2
    number: int
    is_done: bool
    """False: it is to be offered again."""
    clashes: tuple[tuple[int, str], ...] = ()
    """Which of the records the cluster does not take, and why."""


class AskReplicaSizes(Struct, frozen=True, array_like=True, tag="ask_replica_sizes"):
    """Asks for the sizes of partitions that the receiver leads."""

    needed_level: ClassVar[int] = 2

    number: int
    logs: tuple[PartitionId, ...]


class ReplicaSizes(Struct, frozen=True, array_like=True):
    """The size of a partition, and what replicas that come lack of it."""

    log: PartitionId
    bytes: int
    left: dict[str, tuple[int, int]]
    """Bytes that are left, and bytes of a second of late, by node."""


class ReplicaSizesTold(Struct, frozen=True, array_like=True, tag="replica_sizes_told"):
    needed_level: ClassVar[int] = 2

    number: int
    sizes: tuple[ReplicaSizes, ...]


class UseReported(Struct, frozen=True, array_like=True, tag="use_reported"):
    """Tells the leader of the tenants' log what a node has of quotas, where that has changed."""

    needed_level: ClassVar[int] = 2
    number: int
    node: str
    rows: tuple[TenantUseReport, ...]


class SharesAnswered(Struct, frozen=True, array_like=True, tag="shares_answered"):
    needed_level: ClassVar[int] = 2
    number: int
    is_led: bool
    """False: the sender does not lead the log."""
    rows: tuple[TenantShare, ...] = ()


class TenantAsked(Struct, frozen=True, array_like=True, tag="tenant_asked"):
    """Asks what a node coordinates for a tenant, and to delete that first if `removes`."""

    needed_level: ClassVar[int] = 2
    number: int
    tenant: str
    removes: bool


class TenantAnswered(Struct, frozen=True, array_like=True, tag="tenant_answered"):
    needed_level: ClassVar[int] = 2
    number: int
    groups: dict[str, int] = {}
    """With the number of their members."""
    transactional_ids: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    """Subjects and keys that the sender would have to delete."""
    keys: tuple[str, ...] = ()
    problem: str = ""
    """Why not all was deleted."""


PeerMessage = (
    Hello
    | Formed
    | Ping
    | Leaving
    | Failed
    | Register
    | Unreachable
    | Followed
    | Ask
    | Answered
    | Renew
    | Renewed
    | StoreCopies
    | CopiesStored
    | ListGroups
    | GroupsListed
    | AskPartition
    | PartitionAnswered
    | FollowPartition
    | PartitionMoved
    | JournalFollowed
    | Forward
    | Forwarded
    | Offer
    | Offered
    | AskEnds
    | EndsTold
    | TransactionMessage
    | AskReplicaSizes
    | ReplicaSizesTold
    | TenantAsked
    | TenantAnswered
    | UseReported
    | SharesAnswered
    | RaftMessage
)
AnyMessage = PeerMessage | ReplicationMessage

_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)
_encoder = msgspec.msgpack.Encoder()


def encode_message(message: AnyMessage) -> bytes:
    return _encoder.encode(message)


def decode_message(content: bytes | memoryview) -> AnyMessage:
    """Raises msgspec.DecodeError if it is none."""
    return _decoder.decode(content)
