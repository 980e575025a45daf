"""Runs transactions on the event loop: publishes, timeouts, and completion."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from goqueue.broker.core.admission import encode_marked
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition import Partition, Placement, PublishCallback
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.routing import Routing
from goqueue.broker.core.work import Callback
from goqueue.broker.groups.settle_commands import SettleCommand
from goqueue.broker.groups.settlement import SettleCommandReply, SettleCommandResult
from goqueue.broker.groups.shards import GroupShards
from goqueue.broker.transactions.shards import TransactionShard, TransactionShards
from goqueue.clock import Clock
from goqueue.cluster.participant_messages import (
    AcksCounted,
    AcksKept,
    CountAcks,
    FindGroups,
    KeepAcks,
    KeepOffsets,
    KeepReceipts,
    ParticipantRequest,
    StoreBatch,
)
from goqueue.cluster.refusals import error_of
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


MarkCheck = Callable[[ProducerMark], None]


class ParticipantPort(Protocol):
    """Reaches the participants of transactions in a cluster, here and on other nodes."""

    def store(self, partition: Partition, shard: TransactionShard, request: StoreBatch) -> Deferred[Placement]: ...

    async def in_group(self, number: int, shard: TransactionShard, request: ParticipantRequest) -> Any: ...


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

    async def ask(self, rule: Callable[[Callback[T]], None]) -> T: ...


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

    def __init__(self, transactions: TransactionShards, groups: GroupShards, shell: PublishingShell) -> None:
        self._transactions = transactions
        self._groups = groups
        self._shell = shell
        self.remote: ParticipantPort | None = None
        """None if the broker runs alone."""
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
        name: str | None = None,
        *,
        is_delayed: bool = False,
    ) -> Deferred[Placement]:
        """Publish a batch to a partition that the transaction has enlisted. In a cluster, `is_delayed` says that its
        delayed log is meant.
        """
        shard = self._transactions.of_transaction(whose, name)
        if partition.leadership is None or self.remote is None:
            check = partial(self._check_mark, whose, name)
            return await self.store(partition, content, message_bytes_max, check, routing)
        now_ns = self._shell.clock.now_ns() if is_delayed else None
        _, mark = await self._shell.admitted(bytearray(content), message_bytes_max, now_ns, is_transactional=True)
        assert mark is not None, "admission refuses a transactional batch without a mark"
        shard.check_mark(whose, mark)
        partitions = 0 if routing is None else routing.partitions
        batch = StoreBatch(whose, bytes(content), is_delayed, partitions)
        return self.remote.store(partition, shard, batch)

    async def offer(
        self,
        whose: TransactionId,
        partition: Partition,
        frames: list[bytes],
        sequence: int | None = None,
        name: str | None = None,
        *,
        is_delayed: bool = False,
    ) -> Deferred[Placement]:
        """Publish valid frames without a mark; they get one with this or the next sequence."""
        content, shard = bytearray(b"".join(frames)), self._transactions.of_transaction(whose, name)
        if partition.leadership is None or self.remote is None:
            return await self.store_unmarked(
                partition, content, whose, sequence, lambda _: self._check_ongoing(whose, name)
            )
        shard.ongoing(whose)
        batch = StoreBatch(whose, bytes(content), is_delayed, is_marked=False, sequence=sequence)
        return self.remote.store(partition, shard, batch)

    def _check_mark(self, whose: TransactionId, name: str | None, mark: ProducerMark) -> None:
        self._transactions.of_transaction(whose, name).check_mark(whose, mark)

    def _check_ongoing(self, whose: TransactionId, name: str | None) -> None:
        self._transactions.of_transaction(whose, name).ongoing(whose)

    async def store(
        self,
        partition: Partition,
        content: bytearray | memoryview,
        message_bytes_max: int,
        check: MarkCheck,
        routing: Routing | None = None,
    ) -> Deferred[Placement]:
        """Append a batch with a mark here. `check` raises if that may not be any more."""
        answer, done = self._shell.accept(partition, 0, len(content))
        now_ns = self._shell.clock.now_ns() if partition.is_delayed else None
        try:
            frames, mark = await self._shell.admitted(content, message_bytes_max, now_ns, is_transactional=True)
            await self._shell.load_producers(partition)
            assert mark is not None, "admission refuses a transactional batch without a mark"
            check(mark)
            if routing is not None:
                routing.check(partition, mark)
            partition.take(frames, mark, done, is_transactional=True)
        except GoQueueError as error:
            done(error)
        return answer

    async def store_unmarked(
        self,
        partition: Partition,
        content: bytearray,
        whose: TransactionId,
        sequence: int | None,
        check: MarkCheck,
    ) -> Deferred[Placement]:
        """Append valid frames here, the first with a mark of this or the next sequence."""
        count = len(walked := scan.walk(content))
        answer, done = self._shell.accept(partition, count, len(content))
        try:
            await self._shell.load_producers(partition)
            mark = ProducerMark(*whose, sequence or 0, count)
            check(mark)
            assert partition.producers is not None, "they have just been loaded"
            if sequence is None:
                mark = replace(mark, sequence=partition.producers.next_sequence(*whose))
            first = encode_marked(frame.decode(walked.buffer.data, 0), mark)
            rest = content[int(walked.positions[1]) :] if count > 1 else b""
            partition.take(scan.check_batch(bytearray(first + rest)), mark, done, is_transactional=True)
        except GoQueueError as error:
            done(error)
        return answer

    # --- groups ---

    async def keep_offsets(
        self,
        whose: TransactionId,
        name: str | None,
        group: str,
        who: tuple[str | None, int | None],
        offsets: Mapping[PartitionRef, int],
    ) -> None:
        """Commit offsets of a group with the transaction. `who` is the member with its generation, if it says so."""
        groups = self._groups
        if self.remote is None:
            rule = partial(groups.of(group).transaction_acks.offsets, group, *who, offsets, whose)
            await self._shell.ask(rule)
            return
        rows = tuple((*ref, offset) for ref, offset in offsets.items())
        shard, asked = self._transactions.of_transaction(whose, name), KeepOffsets(whose, group, *who, rows)
        await self.remote.in_group(groups.number(group), shard, asked)

    async def keep_acks(
        self, whose: TransactionId, name: str | None, group: str, member: str, commands: Sequence[SettleCommand]
    ) -> list[SettleCommandReply]:
        """Acknowledge leases of a member with the transaction."""
        groups = self._groups
        if self.remote is None:
            acks = groups.of(group).transaction_acks
            replies: list[SettleCommandReply] = await self._shell.ask(
                partial(acks.acks, group, member, commands, whose)
            )
            return replies
        rows = tuple((one.topic, one.partition, one.lease, one.ranges) for one in commands)
        shard = self._transactions.of_transaction(whose, name)
        return replies_of(await self.remote.in_group(groups.number(group), shard, KeepAcks(whose, group, member, rows)))

    async def count_acks(self, whose: TransactionId, name: str, group: str) -> int:
        """Return how many messages a group has acknowledged in a transaction."""
        if self.remote is None:
            return self._groups.of(group).transaction_acks.count(group, whose)
        shard, asked = self._transactions.of_transaction(whose, name), CountAcks(whose, group)
        counted: AcksCounted = await self.remote.in_group(self._groups.number(group), shard, asked)
        return counted.count

    async def groups_of_receipts(self, whose: TransactionId, name: str | None, receipts: Sequence[str]) -> list[str]:
        if self.remote is None:
            return self._groups.groups_of_receipts(receipts, whose)
        shard, found = self._transactions.of_transaction(whose, name), dict[str, None]()
        for number, places in self._groups.places_by_shard(receipts).items():
            asked = FindGroups(whose, tuple(receipts[place] for place in places))
            found |= dict.fromkeys((await self.remote.in_group(number, shard, asked)).groups)
        return list(found)

    async def keep_receipts(
        self, whose: TransactionId, name: str | None, receipts: Sequence[str], member: str | None
    ) -> list[SettleCommandReply]:
        """Acknowledge messages by their receipt handles with the transaction."""
        if self.remote is None:
            rule = partial(self._groups.acknowledge_receipts, receipts, member, whose)
            replies: list[SettleCommandReply] = await self._shell.ask(rule)
            return replies
        shard, found = self._transactions.of_transaction(whose, name), dict[int, SettleCommandReply]()
        for number, places in self._groups.places_by_shard(receipts).items():
            asked = KeepReceipts(whose, tuple(receipts[place] for place in places), member)
            try:
                kept = replies_of(await self.remote.in_group(number, shard, asked))
            except GoQueueError as error:
                kept = [error.without_tracebacks()] * len(places)
            found.update(zip(places, kept, strict=True))
        return [found[place] for place in range(len(receipts))]


def replies_of(kept: AcksKept) -> list[SettleCommandReply]:
    return [SettleCommandResult() if one is None else error_of(one) for one in kept.refusals]
