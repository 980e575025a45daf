"""Ends transactions that are open here and that no coordinator knows any more.

That happens when something committed was lost, by an unclean election of a partition, of a group's log or of the log of
transactional ids, and to topics that were brought to the cluster with open transactions. Readers of committed messages
would stop there for ever.

A transaction that was open at two looks in a row is asked for at all coordinators. It is ended if each of them has
answered in the latest epoch that this node knows, and none has it open: what a coordinator asks to write is in its log
before. It is committed if its coordinator says that it was, else aborted.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import NamedTuple

from goqueue.broker.core.open_transactions import TransactionEnd, TransactionId
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.work import Promise
from goqueue.broker.groups.shards import GroupEnd
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.transaction_exchange import TransactionExchange
from goqueue.runtime.runtime import Runtime

_log = logging.getLogger("goqueue.cluster")

_LOOK_SECONDS = 5.0


class OpenHere(NamedTuple):
    """A transaction that is open here, in a log or in a group."""

    whose: TransactionId
    log: LogRef | None
    group: str = ""


class HangingTransactions:
    """Looks from time to time. Created on the loop."""

    def __init__(self, runtime: Runtime, exchange: TransactionExchange, tasks: OwnedTasks) -> None:
        self._runtime, self._broker, self._exchange = runtime, runtime.broker, exchange
        self._seen: set[OpenHere] = set()
        tasks.run(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """End what has hung since the last look."""
        found = set(self._open_here())
        lasting, self._seen = sorted(found & self._seen, key=str), found
        if not lasting:
            return
        told = await self._exchange.outcomes_of(tuple({one.whose for one in lasting}))
        if told is None:
            return
        for one in lasting:
            if one.whose not in told.opened:
                try:
                    await self._end(one, is_commit=one.whose in told.committed)
                except GoQueueError as error:  # the next look finds it again
                    _log.info("transaction %s is not ended yet: %s", one.whose, error)

    def _open_here(self) -> Iterator[OpenHere]:
        for partition in self._broker.transactions.lookup.partitions():
            if _is_led(partition):
                for producer, opened in partition.open:
                    log = LogRef(partition.topic, partition.number, partition.is_delayed)
                    yield OpenHere(TransactionId(producer, opened.epoch), log)
        for cursor in self._broker.groups.all_cursors():
            for whose in {one.transaction_id for _, _, one in cursor.transactional.runs()}:
                yield OpenHere(whose, None, cursor.group)

    async def _end(self, one: OpenHere, *, is_commit: bool) -> None:
        _log.warning("transaction %s is open here, and no coordinator knows it: it is %s", one.whose,
                     "committed, as it was" if is_commit else "aborted")  # fmt: skip
        if one.log is not None:
            port, ends = self._broker.transactions.lookup.port, [TransactionEnd(*one.whose, is_commit)]
            ended: Promise[None] = await self._runtime.perform(port.end_transactions(one.log, ends))
        else:
            ended = Promise()
            self._broker.groups.end_here(GroupEnd(one.group, one.whose, is_commit, False), ended)
        await self._runtime.perform(ended.kept())


def _is_led(partition: Partition) -> bool:
    return partition.leadership is not None and partition.leadership.knows_end and len(partition.open) > 0
