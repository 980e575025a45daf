"""Transactions as groups take part in them: what was acked in a transaction, and how each came to its end.

Decisions are held to be durable, as the broker's own log of transactions is. What was open when the broker ended is
aborted, and every decision is repeated until it was answered.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.settlement import SettleCommandReply, SettleCommandResult
from goqueue.errors import GoQueueError
from tests.simulation.groups.checks import is_done
from tests.simulation.groups.model import Key, Progress

if TYPE_CHECKING:
    from tests.simulation.groups.hands import Asked
    from tests.simulation.groups.members import Client
    from tests.simulation.groups.traffic import GroupTraffic

OPEN_MAX = 3


@dataclass(frozen=True, eq=False)
class Promise:
    """Messages of one place that a client wanted to ack in a transaction."""

    progress: Progress
    resets: int
    offsets: frozenset[int]


@dataclass(eq=False)
class Transaction:
    """A transaction as its producer knows it."""

    whose: TransactionId
    asked: list[Promise] = field(default_factory=list)
    answered: dict[str, list[Promise]] = field(default_factory=dict)
    """By group, those that are durable."""
    groups: set[str] = field(default_factory=set)
    """Those that have yet to hear of its end, and may have something of it."""
    under_way: set[str] = field(default_factory=set)
    """Those of them that were told, and have not answered."""
    is_commit: bool | None = None
    failed: bool = True

    def answer(self, group: str, promise: Promise, tick: int) -> None:
        self.answered.setdefault(group, []).append(promise)
        if self.is_commit is None and promise.resets == promise.progress.resets and not promise.progress.unsure:
            for offset in promise.offsets:
                promise.progress.transactional.setdefault(offset, tick)

    def decide(self, *, is_commit: bool, failed: bool) -> None:
        """From now on it may be done with, or come again."""
        self.is_commit, self.failed = is_commit, failed
        for promise in self.asked:
            for offset in promise.offsets:
                promise.progress.transactional.pop(offset, None)
            if is_commit:
                promise.progress.maybe.update(promise.offsets)


class Transactions:
    """All that are open, and all that were decided and are being carried out."""

    def __init__(self, world: "GroupTraffic") -> None:
        self._world = world
        self._epoch = 0
        self.open: list[Transaction] = []
        self.ending: list[Transaction] = []

    def some(self) -> Transaction:
        """One that is open, or a new one."""
        if len(self.open) < OPEN_MAX and (not self.open or self._world.random.random() < 0.3):
            self._epoch += 1
            self.open.append(Transaction(TransactionId(7, self._epoch)))
        return self._world.random.choice(self.open)

    def standing(self, group: str) -> set[TransactionId]:
        """Those that may have something acked in a transaction there."""
        return {one.whose for one in (*self.open, *self.ending) if group in one.groups}

    # --- ack in a transaction ---

    def acks(self, client: "Client", asked: "Sequence[Asked]") -> None:
        if client.member is None or not asked:
            return
        transaction = self.some()
        told, statements = _Told(client, transaction, asked), [one.statement for one in asked]
        self._tell(client, transaction, *((one.topic, one.partition, one.ranges, one.lease[-6:]) for one in statements))
        try:
            transaction_acks = self._world.shards.of(client.group).transaction_acks
            transaction_acks.acks(client.group, client.member, statements, transaction.whose, told)
        except GoQueueError as error:
            told(error)
            return
        told.look()

    def receipts(self, client: "Client", asked: "Sequence[Asked]") -> None:
        """The same of single messages, each with its receipt."""
        transaction, shards = self.some(), self._world.shards
        told, receipts = _Told(client, transaction, asked), [one.hand.receipt(one.offsets[0]) for one in asked]
        self._tell(client, transaction, *receipts)
        try:
            assert set(shards.groups_of_receipts(receipts, transaction.whose)) <= {client.group}, (
                "a receipt is of one group"
            )
            shards.acknowledge_receipts(receipts, None, transaction.whose, told)
        except GoQueueError as error:
            told(error)
            return
        told.look()

    def _tell(self, client: "Client", transaction: Transaction, *said: object) -> None:
        client.tell("acks in transaction", transaction.whose, *said)
        transaction.groups.add(client.group)
        self._world.model.waiting += 1

    def offsets(self, client: "Client", offsets: dict[PartitionRef, int], *, is_member: bool) -> None:
        """A place that is not there yet is opened where no member is named."""
        transaction, world, life = self.some(), self._world, self._world.lives
        promises: list[Promise] = []

        def told(error: GoQueueError | None) -> None:
            assert world.lives == life, "who asked one process is not told by another"
            world.model.waiting -= 1
            if error is not None:
                client.refused("an ack in a transaction", error)
                return
            world.counts["offsets committed in transactions"] += len(offsets)
            for promise in promises:
                transaction.answer(client.group, promise, world.tick)

        self._tell(client, transaction, offsets, client.member if is_member else "no owner")
        member, generation = (client.member, client.generation) if is_member else (None, None)
        try:
            world.shards.of(client.group).transaction_acks.offsets(
                client.group, member, generation, offsets, transaction.whose, told
            )
        except GoQueueError as error:
            told(error)
            return
        world.see()
        for place, end in offsets.items():
            cursor = world.shards.cursors(client.group)[place]
            progress = world.groups.progress[Key(client.group, *place, cursor.topic_ns)]
            promise = Promise(
                progress, progress.resets, frozenset(_acked_in_transaction(cursor, range(end), transaction.whose))
            )
            reach = end if cursor.heads is None else min(end, cursor.position)
            for offset in set(range(cursor.floor, reach)) - promise.offsets:
                assert is_done(cursor, offset), f"all below an offset is acked in a transaction: {offset} of {cursor!r}"
            promises.append(promise)
            transaction.asked.append(promise)

    # --- how they end ---

    def end(self, transaction: Transaction, *, is_commit: bool, failed: bool) -> None:
        self.open.remove(transaction)
        self.ending.append(transaction)
        self._world.tell("  ", transaction.whose, "is committed" if is_commit else "is aborted", failed)
        self._world.counts[f"transactions {'committed' if is_commit else 'aborted'}"] += 1
        transaction.decide(is_commit=is_commit, failed=failed)

    def redeem(self) -> None:
        """Tell the groups that have not heard of an end."""
        for transaction in list(self.ending):
            for group in sorted(transaction.groups - transaction.under_way):
                self._redeem(transaction, group)
            if not transaction.groups:
                self.ending.remove(transaction)

    def _redeem(self, transaction: Transaction, group: str) -> None:
        transaction.under_way.add(group)
        told = partial(self._told, transaction, group, self._world.lives)
        self._world.model.waiting += 1
        is_commit = bool(transaction.is_commit)
        self._world.shards.of(group).transaction_acks.end_transaction(
            group, transaction.whose, is_commit, transaction.failed, told
        )

    def _told(self, transaction: Transaction, group: str, life: int, error: GoQueueError | None) -> None:
        world = self._world
        assert world.lives == life, "who asked one process is not told by another"
        world.model.waiting -= 1
        transaction.under_way.discard(group)
        if error is not None:
            world.refused(f"the end of {transaction.whose} in {group}", error)
            return
        world.tell("  ", group, "has heard of the end of", transaction.whose)
        transaction.groups.discard(group)
        for promise in transaction.answered.pop(group, ()):
            if transaction.is_commit:
                promise.progress.finish(promise.offsets, promise.resets, world.tick)
            elif promise.resets == promise.progress.resets and not promise.progress.unsure:
                promise.progress.again |= promise.offsets - promise.progress.maybe

    def recovered(self) -> None:
        """A start aborts what was open, and goes on with what was decided."""
        for transaction in (*self.open, *self.ending):
            transaction.under_way.clear()
        for transaction in list(self.open):
            self.end(transaction, is_commit=False, failed=self._world.random.random() < 0.5)


@dataclass(eq=False)
class _Told:
    """Hears what came of some acknowledgements."""

    client: "Client"
    transaction: Transaction
    asked: "Sequence[Asked]"
    promises: list[Promise] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._life = self.client.world.lives

    def look(self) -> None:
        """Return what was decided, though it is not durable yet."""
        ledger = self.client.world.shards
        for asked in self.asked:
            hand, cursor = asked.hand, ledger.cursor(self.client.group, asked.hand.key.place)
            acked_in_transaction = (
                _acked_in_transaction(cursor, asked.offsets, self.transaction.whose) if cursor is not None else ()
            )
            self.promises.append(Promise(hand.progress, hand.resets, frozenset(acked_in_transaction)))
        self.transaction.asked += self.promises

    def __call__(self, result: list[SettleCommandReply] | GoQueueError) -> None:
        world = self.client.world
        assert world.lives == self._life, "who asked one process is not told by another"
        world.model.waiting -= 1
        if isinstance(result, GoQueueError):
            self.client.refused("acking in a transaction", result)
            return
        if not self.promises:  # it was answered at once
            self.look()
        assert len(result) == len(self.asked), "each statement has an answer"
        for asked, promise, verdict in zip(self.asked, self.promises, result, strict=True):
            if isinstance(verdict, GoQueueError):
                self.client.refused("acking in a transaction", verdict)
                continue
            assert isinstance(verdict, SettleCommandResult)
            world.counts["messages acked in transactions"] += len(promise.offsets)
            self.transaction.answer(self.client.group, promise, world.tick)
            asked.hand.left -= promise.offsets


def _acked_in_transaction(cursor: Cursor, offsets: Iterable[int], whose: TransactionId) -> list[int]:
    found = {offset: cursor.transactional.get(offset) for offset in offsets}
    return [
        offset
        for offset, transaction_ack in found.items()
        if transaction_ack is not None and transaction_ack.transaction_id == whose
    ]
