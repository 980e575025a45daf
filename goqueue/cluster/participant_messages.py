"""Requests of the coordinator of a transaction to its participants on other nodes: the leaders of partitions, and the
coordinators of groups.

Each participant does it once, and not at all for a transaction that has ended there, or for a coordinator that another
one has replaced. So requests may arrive late, and may be repeated.
"""

from msgspec import Struct

from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.refusals import Refusal

Whose = tuple[int, int]
"""The producer and the epoch of a transaction."""


class StoreBatch(Struct, frozen=True, array_like=True, tag="store_batch"):
    """Store a batch of a producer."""

    whose: Whose
    frames: bytes
    is_delayed: bool = False
    partitions: int = 0
    """The number of partitions by which the producer has placed it; 0: it does not say."""
    is_marked: bool = True
    """Whether the first frame has the mark of the producer; if not, the leader gives it one."""
    sequence: int | None = None
    """For the mark; None: the next one."""


class BatchStored(Struct, frozen=True, array_like=True, tag="batch_stored"):
    """The ranges of offsets of a batch."""

    pieces: tuple[tuple[int, int], ...]
    time_ns: int
    duplicate: bool


class EndHere(Struct, frozen=True, array_like=True, tag="end_here"):
    """Write the markers of these producers, where they have something open."""

    ends: tuple[tuple[int, int, bool], ...]
    """Producer, epoch, and whether it is a commit."""
    is_delayed: bool = False


class KeepOffsets(Struct, frozen=True, array_like=True, tag="keep_offsets"):
    """Commit offsets of a group with the transaction."""

    whose: Whose
    group: str
    member: str | None
    generation: int | None
    offsets: tuple[tuple[str, int, int], ...]
    """Topic, partition and offset."""


class KeepAcks(Struct, frozen=True, array_like=True, tag="keep_acks"):
    """Acknowledge leases of a member with the transaction."""

    whose: Whose
    group: str
    member: str
    acks: tuple[tuple[str, int, str, tuple[tuple[int, int], ...]], ...]
    """Topic, partition, lease, and ranges of offsets."""


class KeepReceipts(Struct, frozen=True, array_like=True, tag="keep_receipts"):
    """Acknowledge messages by their receipt handles with the transaction."""

    whose: Whose
    receipts: tuple[str, ...]
    member: str | None


class FindGroups(Struct, frozen=True, array_like=True, tag="find_groups"):
    """Return the groups of receipt handles."""

    whose: Whose
    receipts: tuple[str, ...]


class CountAcks(Struct, frozen=True, array_like=True, tag="count_acks"):
    """Return how many messages a group has acknowledged in a transaction."""

    whose: Whose
    group: str


class EndInGroup(Struct, frozen=True, array_like=True, tag="end_in_group"):
    """Settle what a group has acknowledged in a transaction, or deliver it again."""

    whose: Whose
    group: str
    is_commit: bool
    failed: bool


class AcksKept(Struct, frozen=True, array_like=True, tag="acks_kept"):
    """One for each ack: why it is refused, or None."""

    refusals: tuple[Refusal | None, ...]


class AcksCounted(Struct, frozen=True, array_like=True, tag="acks_counted"):
    count: int


class GroupsFound(Struct, frozen=True, array_like=True, tag="groups_found"):
    groups: tuple[str, ...]


ParticipantRequest = StoreBatch | EndHere | KeepOffsets | KeepAcks | KeepReceipts | FindGroups | CountAcks | EndInGroup
ParticipantResult = BatchStored | AcksKept | GroupsFound | AcksCounted


class CoordinatorId(Struct, frozen=True, array_like=True):
    """A coordinator of transactions: the partition of their log, and its leader epoch."""

    partition: int
    leader_epoch: int


class AskParticipant(Struct, frozen=True, array_like=True, tag="ask_participant"):
    """Asks the leader of a log, in this epoch."""

    number: int
    log: PartitionId
    leader_epoch: int
    coordinator: CoordinatorId
    request: ParticipantRequest


class ParticipantAnswered(Struct, frozen=True, array_like=True, tag="participant_answered"):
    number: int
    result: ParticipantResult | None = None
    refusal: Refusal | None = None


class ListTransactions(Struct, frozen=True, array_like=True, tag="list_transactions"):
    """Asks for the transactions that the receiver coordinates, or for their statistics."""

    number: int
    state: str
    """As in the query of the list; empty: the statistics."""
    limit: int


class TransactionsListed(Struct, frozen=True, array_like=True, tag="transactions_listed"):
    number: int
    content: bytes
    """JSON, as the request answers clients."""


class AskOutcomes(Struct, frozen=True, array_like=True, tag="ask_outcomes"):
    """Asks a node for what it knows of transactions, as the coordinator of some."""

    number: int
    whose: tuple[Whose, ...]


class OutcomesTold(Struct, frozen=True, array_like=True, tag="outcomes_told"):
    number: int
    coordinators: tuple[CoordinatorId, ...]
    """All that answer."""
    opened: tuple[Whose, ...]
    committed: tuple[Whose, ...]


TransactionMessage = (
    AskParticipant | ParticipantAnswered | ListTransactions | TransactionsListed | AskOutcomes | OutcomesTold
)
