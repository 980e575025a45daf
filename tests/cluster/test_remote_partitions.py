"""A leader tells each node that follows a partition once when there is more, also after changes of the leader."""

import asyncio
from types import SimpleNamespace
from typing import Any

from goqueue.broker.core.leadership import Leadership
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.peer_messages import FollowPartition, PartitionMoved
from goqueue.events import Signal
from goqueue.runtime.cluster.remote_partitions import RemotePartitions
from tests.broker.brokers import Running

LOG = PartitionId(1, 0)


class Link:
    """A connection to another node, of which only what is sent matters."""

    is_closing = False

    def __init__(self, node: str) -> None:
        self.node = node
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message)


def _node(**parts: object) -> Any:
    return SimpleNamespace(**parts)


class Leader:
    """A node that leads the one partition, or did."""

    def __init__(self) -> None:
        self.running = Running()
        (self.partition,) = self.running.create().partitions
        self.role = Leadership("orders", 0, "n1")
        self.partition.leadership = self.role
        replica = _node(partition=self.partition, leadership=self.role)
        self.member = _node(
            handlers={},
            on_disconnected=Signal[[str]](),
            on_state=Signal[[object]](),
            replicas=_node(local={LOG: replica}),
        )
        broker = _node(partitions=tuple, on_partition_opened=Signal[[Any]]())
        runtime = _node(broker=broker, on_failure=Signal[[]]())
        self.remotes = RemotePartitions(self.member, runtime)

    async def lead(self, *, leads: bool) -> None:
        self.role.leader = "n1" if leads else "n2"
        self.role.is_leading = self.role.is_settled = leads
        self.role.leader_epoch += 1
        self.partition.wake()
        await asyncio.sleep(0)

    def follow(self, link: Link) -> None:
        self.member.handlers[FollowPartition](link, FollowPartition(LOG, None))


def test_node_that_follows_again_after_each_change_of_the_leader_is_told_once() -> None:
    async def main() -> None:
        leader, link, other = Leader(), Link("n3"), Link("n4")
        for _ in range(4):
            await leader.lead(leads=False)
            leader.follow(link)
        leader.follow(other)
        await leader.lead(leads=True)
        assert [len(one.sent) for one in (link, other)] == [1, 1]
        assert isinstance(link.sent[0], PartitionMoved)

    asyncio.run(main())


def test_node_that_is_gone_is_told_nothing() -> None:
    async def main() -> None:
        leader, link = Leader(), Link("n3")
        leader.follow(link)
        leader.member.on_disconnected.emit("n3")
        await leader.lead(leads=True)
        assert link.sent == []

    asyncio.run(main())
