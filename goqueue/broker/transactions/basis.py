"""Services that the transaction coordinators of all shards share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from goqueue.broker.core.catalog import ProducerIdAllocator
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.transactions.partitions import PartitionLookup
from goqueue.broker.transactions.records import TransactionMetadata
from goqueue.broker.transactions.registry import TransactionCounts
from goqueue.clock import Clock
from goqueue.storage.disk import Disk


class TransactionDirectory(Protocol):
    """The transactional ids of all shards."""

    by_producer: dict[int, str]
    counts: TransactionCounts
    is_started: bool
    ongoing_at_start: dict[str, TransactionId]
    """Transactions that were ongoing at the start of the broker: they can only be aborted."""

    @property
    def id_count(self) -> int: ...

    @property
    def is_complete(self) -> bool:
        """False when a log could not be read, or a shard is closed: it may have more ids."""
        ...

    def known(self, producer: int) -> TransactionMetadata | None:
        """Return the id to which this producer belongs or belonged."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBasis:
    """Services of a transaction coordinator."""

    disk: Disk
    lookup: PartitionLookup
    clock: Clock
    """Of deadlines: it stops while the broker stalls."""
    trusted_ns: Callable[[], int]
    """Wall time as far as it is trusted: a clock that jumped ahead removes no id."""
    ids: ProducerIdAllocator
    directory: TransactionDirectory
