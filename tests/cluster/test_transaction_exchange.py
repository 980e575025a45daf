"""A participant does what coordinators ask for once, and nothing for those that come late."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from goqueue.broker.core.admission import encode_marked
from goqueue.broker.core.leadership import Leadership
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.topic import TopicSettings, TopicSpec
from goqueue.clock import SystemClock
from goqueue.cluster.participant_messages import (
    AskOutcomes,
    AskParticipant,
    BatchStored,
    CoordinatorId,
    EndHere,
    KeepOffsets,
    OutcomesTold,
    ParticipantAnswered,
    ParticipantRequest,
    StoreBatch,
)
from goqueue.cluster.partitions import PartitionId
from goqueue.events import Signal
from goqueue.observe.metrics import Metrics
from goqueue.runtime.cluster.hanging_transactions import HangingTransactions
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.transaction_exchange import TransactionExchange
from goqueue.runtime.runtime import Runtime
from goqueue.storage import frame
from goqueue.storage.disk import SystemDisk
from goqueue.storage.store import StoreSettings
from tests.broker.cuts import frames_of, messages_of

PRODUCER, LOG, EPOCH = 7, 4, 5
"""The producer, the log of its coordinator, and the epoch of that."""


class Link:
    """A connection of which only the answers matter."""

    node = "n2"

    def __init__(self) -> None:
        self.answers: asyncio.Queue[Any] = asyncio.Queue()

    def send(self, message: Any) -> None:
        self.answers.put_nowait(message)


class Member:
    """The part of a node that the exchange uses."""

    def __init__(self) -> None:
        self.handlers: dict[type, Callable[[Any, Any], None]] = {}
        self.on_disconnected: Signal[[str]] = Signal()
        self.settings = self.network = self
        self.links: dict[str, Link] = {}
        self.node = "n1"


class Participant:
    """A node that leads one partition in epoch 3, and groups, for coordinators on others."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.member, self.link = runtime, Member(), Link()
        self.partition = runtime.broker.topic("orders").partition(0)
        self.exchange = TransactionExchange(self.member, runtime, self._list)  # type: ignore[arg-type]
        self.partition.leadership = led("orders", 3)
        for one in runtime.broker.transactions.partitions:
            one.leadership = Leadership(one.topic, one.number, "n1")
        self.coordinator_epoch(EPOCH)

    @staticmethod
    async def _list(_: object) -> bytes:
        return b""

    def coordinator_epoch(self, epoch: int) -> None:
        """The cluster has recorded another leader of the coordinator's log."""
        role = self.runtime.broker.transactions.partitions[0].leadership
        assert role is not None
        role.leader, role.leader_epoch = "n2", epoch

    async def ask(self, request: ParticipantRequest, *, leader_epoch: int = 3, epoch: int = EPOCH) -> Any:
        log = PartitionId(self.runtime.broker.topic("orders").created_ns, 0)
        asked = AskParticipant(1, log, leader_epoch, CoordinatorId(0, epoch), request)
        self.member.handlers[AskParticipant](self.link, asked)
        answer: ParticipantAnswered = await self.link.answers.get()
        return answer.result if answer.refusal is None else answer.refusal.code

    def committed(self) -> list[str]:
        return [frame.decode(memoryview(one)).value.decode() for one in messages_of(self.partition.read)]

    def markers(self) -> int:
        found = (frame.decode(memoryview(one)).flags for one in frames_of(self.partition.read_uncommitted))
        return sum(bool(flags & frame.CONTROL) for flags in found)


def led(topic: str, epoch: int) -> Leadership:
    role = Leadership(topic, 0, "n1")
    role.leader, role.leader_epoch, role.isr, role.is_leading, role.is_settled = "n1", epoch, ("n1",), True, True
    return role


def batch(value: str, epoch: int, sequence: int = 0) -> StoreBatch:
    mark = ProducerMark(PRODUCER, epoch, sequence, 1)
    content = encode_marked(frame.decode(memoryview(frame.encode(value.encode(), flags=frame.TRANSACTIONAL))), mark)
    return StoreBatch((PRODUCER, epoch), bytes(content))


def end(epoch: int, *, is_commit: bool) -> EndHere:
    return EndHere(((PRODUCER, epoch, is_commit),))


def run(directory: Path, main: Callable[[Participant], Awaitable[None]]) -> None:
    async def running() -> None:
        runtime = Runtime(SystemDisk(), SystemClock(), Metrics("1"))
        runtime.start(str(directory), "test", StoreSettings())
        await runtime.create_topic(TopicSpec(name="orders", partitions=1, settings=TopicSettings()))
        try:
            await main(Participant(runtime))
        finally:
            await runtime.stop()

    asyncio.run(running())


def test_batch_that_comes_after_the_end_of_its_transaction_is_refused(tmp_path: Path) -> None:
    async def main(node: Participant) -> None:
        assert isinstance(await node.ask(batch("late", 1)), BatchStored)
        assert await node.ask(end(1, is_commit=False)) is None
        assert await node.ask(batch("later", 1, 1)) == "transaction_not_open"
        assert isinstance(await node.ask(batch("in time", 2)), BatchStored)
        assert await node.ask(end(2, is_commit=True)) is None
        assert node.committed() == ["in time"]

    run(tmp_path, main)


def test_batch_that_comes_before_anything_of_its_transaction_and_after_its_end_is_refused(tmp_path: Path) -> None:
    async def main(node: Participant) -> None:
        assert await node.ask(end(1, is_commit=False)) is None
        assert await node.ask(batch("late", 1)) == "transaction_not_open"
        assert node.partition.open.first_offset is None, "readers of committed messages would stop here for ever"

    run(tmp_path, main)


def test_late_end_does_not_hit_the_next_transaction(tmp_path: Path) -> None:
    async def main(node: Participant) -> None:
        await node.ask(batch("first", 1))
        await node.ask(end(1, is_commit=True))
        await node.ask(batch("second", 2))
        assert await node.ask(end(1, is_commit=True)) is None, "a repeated end is done"
        assert node.committed() == ["first"]
        assert node.markers() == 1
        await node.ask(end(2, is_commit=False))
        assert node.committed() == ["first"]

    run(tmp_path, main)


def test_replaced_coordinator_is_refused(tmp_path: Path) -> None:
    async def main(node: Participant) -> None:
        await node.ask(batch("first", 1))
        assert isinstance(await node.ask(batch("second", 1, 1), epoch=EPOCH + 1), BatchStored), "it is known by this"
        assert await node.ask(end(1, is_commit=False)) == "not_coordinator"
        node.coordinator_epoch(EPOCH + 2)
        assert await node.ask(batch("third", 1, 2), epoch=EPOCH + 1) == "not_coordinator"
        assert await node.ask(end(1, is_commit=True), epoch=EPOCH + 2) is None
        assert node.committed() == ["first", "second"]

    run(tmp_path, main)


def test_request_of_another_leader_epoch_is_refused(tmp_path: Path) -> None:
    async def main(node: Participant) -> None:
        assert await node.ask(batch("early", 1), leader_epoch=4) == "leader_unavailable"
        assert await node.ask(batch("late", 1), leader_epoch=2) == "leader_unavailable"
        node.partition.leadership = led("orders", 4)
        assert isinstance(await node.ask(batch("in time", 1), leader_epoch=4), BatchStored)
        assert await node.ask(KeepOffsets((PRODUCER, 1), "g", None, None, ()), leader_epoch=3) == "leader_unavailable"

    run(tmp_path, main)


def test_transaction_that_no_coordinator_knows_is_aborted(tmp_path: Path) -> None:
    async def main(node: Participant) -> None:
        tasks = OwnedTasks("a test", lambda: None)
        hanging = HangingTransactions(node.runtime, node.exchange, tasks)
        await node.ask(batch("lost", 1))
        await hanging.look()
        await hanging.look()
        assert len(node.partition.open) == 1, "other nodes coordinate, and did not answer"
        for one in node.runtime.broker.transactions.partitions:
            one.leadership = led(one.topic, EPOCH)
        await hanging.look()
        assert not len(node.partition.open)
        assert node.committed() == []
        await tasks.stop()

    run(tmp_path, main)


def test_nodes_say_what_they_coordinate_and_no_more(tmp_path: Path) -> None:
    async def main(node: Participant) -> None:
        node.member.handlers[AskOutcomes](node.link, AskOutcomes(1, ((PRODUCER, 1),)))
        told: OutcomesTold = await node.link.answers.get()
        assert (told.coordinators, told.opened, told.committed) == ((), (), ()), "it leads none of their logs"

    run(tmp_path, main)
