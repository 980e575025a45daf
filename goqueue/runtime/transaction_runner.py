"""Runs transactions on the event loop: publishes, timeouts, and completion."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from goqueue.broker.core.admission import encode_marked
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition import Partition, Placement, PublishCallback
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.routing import Routing
from goqueue.broker.transactions.shards import TransactionShard, TransactionShards
from goqueue.clock import Clock
from goqueue.errors import GoQueueError, TransactionPending
from goqueue.runtime.deferred import Deferred
from goqueue.runtime.runner import Runner, ShardRunners, Shell
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames

_log = logging.getLogger("goqueue.transactions")

_ANSWER_SECONDS = 10.0  # an answer waits for the end of a transaction; usually milliseconds
_TOGETHER = 50  # timeouts or completions per turn of the loop: some ten milliseconds
_RETRY_SECONDS = 1.0  # before a refused recovery is retried

T = TypeVar("T")


class PublishingShell(Shell, Protocol):
    """The part of the runtime that transactions need."""

    clock: Clock

    def accept(self, partition: Partition, count: int, size: int) -> tuple[Deferred[Placement], PublishCallback]: ...

    async def admitted(
        self,
        content: bytearray | memoryview,
        message_bytes_max: int,
        now_ns: int | None,
        *,
        is_transactional: bool = False,
    ) -> tuple[Frames, ProducerMark | None]: ...

    async def load_producers(self, partition: Partition) -> None: ...


class TransactionShardRunner(Runner):
    """Runs the transaction coordinator of one shard: its commits, timeouts, and the ends that it has decided."""

    def __init__(self, coordinator: TransactionShard, shell: Shell) -> None:
        super().__init__(shell)
        self._coordinator = coordinator
        self._recovery: asyncio.Task[None] | None = None
        self._decided: list[str] = []
        """Ids whose completion has not begun."""

    def start(self) -> None:
        coordinator = self._coordinator
        coordinator.on_gathered.subscribe(lambda: self._loop.call_soon(coordinator.commit))
        coordinator.on_decided.subscribe(self._complete_soon)
        self._recovery = self._run(self._recover())
        self._watch(coordinator.deadlines, coordinator.clock, _TOGETHER)

    async def stop(self) -> None:
        """Complete what is decided. Open transactions stay open, and the next start aborts them."""
        self._coordinator.commit()
        await super().stop()
        self._coordinator.commit()

    # --- ends ---

    async def _recover(self) -> None:
        while True:
            try:
                await self._shell.perform(self._coordinator.completer.recover())
                return
            except GoQueueError as error:
                _log.warning("open transactions of the last run cannot be ended yet: %s", error)
            except Exception:
                _log.exception("open transactions of the last run cannot be ended; the next start retries")
                return
            if self._is_stopping:
                return
            await asyncio.sleep(_RETRY_SECONDS)

    def _complete_soon(self, name: str) -> None:
        self._decided.append(name)
        if len(self._decided) == 1:
            self._run(self._complete_decided())

    async def _complete_decided(self) -> None:
        """Start the completions in groups, with turns for other work in between."""
        while self._decided:
            for name in self._decided[:_TOGETHER]:
                self._run(self._complete(name))
            del self._decided[:_TOGETHER]
            await asyncio.sleep(0)

    async def _complete(self, name: str) -> None:
        try:
            if self._recovery is not None and not self._recovery.done():
                await asyncio.shield(self._recovery)
            await self._shell.perform(self._coordinator.completer.complete(name))
        except Exception:
            _log.exception("the transaction of %s cannot be completed; the next start retries", name)


class TransactionRunner:
    """Runs transactions: their shards, and publishes."""

    def __init__(self, transactions: TransactionShards, shell: PublishingShell) -> None:
        self._transactions = transactions
        self._shell = shell
        self._runners = ShardRunners(transactions, lambda coordinator: TransactionShardRunner(coordinator, shell))

    def start(self) -> None:
        self._runners.start()

    async def stop(self) -> None:
        await self._runners.stop()

    async def in_time(self, answer: Awaitable[T], name: str) -> T:
        """Wait for the end of a transaction, within a time limit."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            raise TransactionPending(
                f"the transaction of {name} has not ended after {_ANSWER_SECONDS:g} seconds",
                hint="ask again in a moment",
                retry_after=1,
            ) from None

    # --- publish ---

    async def publish(
        self,
        whose: TransactionId,
        partition: Partition,
        content: bytearray | memoryview,
        message_bytes_max: int,
        routing: Routing | None = None,
    ) -> Deferred[Placement]:
        """Publish a batch to a partition that the transaction has enlisted."""
        answer, done = self._shell.accept(partition, 0, len(content))
        now_ns = self._shell.clock.now_ns() if partition.is_delayed else None
        try:
            frames, mark = await self._shell.admitted(content, message_bytes_max, now_ns, is_transactional=True)
            await self._shell.load_producers(partition)
            assert mark is not None, "admission refuses a transactional batch without a mark"
            self._transactions.of_transaction(whose).check_mark(whose, mark)
            if routing is not None:
                routing.check(partition, mark)
            partition.take(frames, mark, done, is_transactional=True)
        except GoQueueError as error:
            done(error)
        return answer

    async def offer(
        self, whose: TransactionId, partition: Partition, frames: list[bytes], sequence: int | None = None
    ) -> Deferred[Placement]:
        """Publish valid frames without a mark; they get one with this or the next sequence."""
        answer, done = self._shell.accept(partition, len(frames), sum(map(len, frames)))
        try:
            await self._shell.load_producers(partition)
            self._transactions.of_transaction(whose).ongoing(whose)
            assert partition.producers is not None, "they have just been loaded"
            following = partition.producers.next_sequence(*whose)
            mark = ProducerMark(*whose, following if sequence is None else sequence, len(frames))
            first = encode_marked(frame.decode(frames[0]), mark)
            batch = scan.check_batch(bytearray(b"".join((first, *frames[1:]))))
            partition.take(batch, mark, done, is_transactional=True)
        except GoQueueError as error:
            done(error)
        return answer
