"""The log of a replica before it takes a role, and when it goes back to what its leader has."""

import asyncio
import logging
from collections.abc import Callable

from goqueue.broker.core.epochs import load_epochs
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.transaction_tracker import TransactionTracker
from goqueue.broker.core.truncation import reset_partition, truncate_partition
from goqueue.cluster.epoch_index import EpochIndex
from goqueue.cluster.follower_replica import CutBack, EmptyLog
from goqueue.cluster.recovery import ReplicaExtent
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.replica_owner import ReplicaOwner

_log = logging.getLogger("goqueue.cluster")

_JOB_SECONDS = 0.02
"""Between two looks whether retention or compaction has ended."""


class ReplicaLog:
    """The log of one partition. Its replica calls `tell_progress` after each report, and each change of the state."""

    def __init__(self, owner: ReplicaOwner, partition: Partition, transactions: TransactionTracker) -> None:
        self._owner, self._partition, self._transactions = owner, partition, transactions
        self._progress = asyncio.Event()
        self._looking = asyncio.Lock()
        """Two looks at once would each add what the other has found, and write the same note."""
        self.is_busy: Callable[[], bool] = lambda: False
        """Returns whether what follows from the log is being used in a way that a cut would break."""

    def tell_progress(self) -> None:
        self._progress.set()
        self._progress.clear()

    async def wait(self) -> None:
        """Wait for progress."""
        await self._progress.wait()

    async def index(self) -> EpochIndex:
        """Return the epochs of the log, once all of it is stored. Raises LogFenced."""
        log = self._partition.log
        async with self._looking:
            await self._owner.perform(load_epochs(log, self._owner.disk))
        await self._until_stored()
        log.refuse_unless_open()
        async with self._looking:
            if self._transactions.is_doubtful:
                await self._owner.perform(self._transactions.look_anew())
        return EpochIndex(log.epochs.rows_below(log.first_offset, log.next_offset), log.next_offset, log.first_offset)

    @property
    def _is_stored(self) -> bool:
        log = self._partition.log
        return log.is_settled and log.durable_end >= log.next_offset

    async def _until_stored(self) -> None:
        log = self._partition.log
        while not self._is_stored:
            log.refuse_unless_open()
            log.sync_soon()
            await self._progress.wait()

    async def extent(self, core: EpochIndex | None, high_watermark: int, problem: str) -> ReplicaExtent:
        """Return what the log has. `core` is its index while it has a role."""
        broker_epoch = self._owner.broker_epoch
        try:
            index = await self.index() if core is None else core
        except GoQueueError as error:
            return ReplicaExtent(broker_epoch, problem=error.sentence)
        rows, last_time = tuple(index.rows), self._partition.log.last_time
        return ReplicaExtent(broker_epoch, index.start, index.end, high_watermark, rows, last_time, problem)

    async def cut(self, effect: CutBack | EmptyLog) -> None:
        """Bring the log back to what the leader has. Raises GoQueueError if the disk refuses that."""
        partition, disk = self._partition, self._owner.disk
        log = partition.log
        while log.job is not None or self.is_busy() or not self._is_stored:
            await (asyncio.sleep(_JOB_SECONDS) if self._is_stored else self._until_stored())
        if isinstance(effect, CutBack):
            work = truncate_partition(partition, disk, effect.end, self._transactions)
        else:
            work = reset_partition(partition, disk, effect.start, list(effect.rows), self._transactions)
        _log.info("replica %s goes back from %d as its leader says: %r", log.name, log.next_offset, effect)
        await self._owner.perform(work)
