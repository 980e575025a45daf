"""Partitions of a running cluster move to a node that came later, and away from one that is to go."""

from pathlib import Path

from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.partition import Partition
from goqueue.broker.losses import AbsentLog
from goqueue.cluster.controller_requests import CancelReassignment, ChangeReassignment, StartReassignment
from goqueue.cluster.partitions import PartitionId
from goqueue.limits import CLUSTER_SLICE_BYTES
from goqueue.storage import frame
from tests.cluster.nodes import RunningCluster, RunningNode, run, wait


def partition(node: RunningNode) -> Partition:
    return node.runtime.broker.topics["orders"].partitions[0]


def log_of(node: RunningNode) -> PartitionId:
    return PartitionId(node.member.log.state.topics["orders"].created_ns, 0)


async def publish(cluster: RunningCluster, *values: bytes) -> None:
    leader = cluster[cluster["n1"].state("orders").leader]
    await wait(leader, lambda: partition(leader).leadership is not None and partition(leader).leadership.is_leading)  # type: ignore[union-attr]
    frames = [frame.encode(value) for value in values]
    await leader.runtime.offer(partition(leader), frames, sum(map(len, frames)), CommitLevel.COMMITTED)


async def values(node: RunningNode) -> list[bytes]:
    read = await node.runtime.perform(partition(node).read_uncommitted(0, 1 << 20))
    content = b"".join(map(bytes, read.buffers))
    messages = [frame.decode(content, place) for place in frame.walk(content)]
    return [one.value for one in messages if not one.flags & frame.CONTROL]


def test_partition_moves_to_another_node_and_its_former_log_is_deleted(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        await cluster["n1"].create("orders")
        await cluster.agree(lambda node: "orders" in node.runtime.broker.topics)
        await publish(cluster, b"before")
        await cluster.grow("n4")
        first, second, third = cluster["n1"].state("orders").replicas
        assert isinstance(partition(cluster["n4"]).log, AbsentLog)
        leaving = cluster[first]
        answer = await cluster["n4"].member.ask(StartReassignment(((log_of(leaving), ("n4", second, third)),)))
        assert answer.reassignment == 1
        await cluster.agree(lambda node: node.state("orders").replicas == ("n4", second, third))
        await cluster.agree(lambda node: node.member.log.state.reassignments[1].outcome == "completed")
        await publish(cluster, b"after")
        await wait(leaving, lambda: isinstance(partition(leaving).log, AbsentLog))
        assert not (leaving.directory / "logs/orders/0").exists()
        assert await values(cluster["n4"]) == [b"before", b"after"]

        await cluster["n4"].member.ask(StartReassignment(((log_of(leaving), (first, second, third)),)))
        await cluster.agree(lambda node: node.state("orders").replicas == (first, second, third))
        await publish(cluster, b"back")
        assert await values(leaving) == [b"before", b"after", b"back"]
        assert not leaving.member.replicas.shortened

    run(main, tmp_path)


def test_move_that_is_held_back_and_paused_leaves_nothing_when_it_is_cancelled(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        await cluster["n1"].create("orders")
        await publish(cluster, *[b"x" * CLUSTER_SLICE_BYTES] * 3)  # the second slice waits for days at 1 B/s
        await cluster.grow("n4")
        replicas = cluster["n1"].state("orders").replicas
        node = cluster["n4"]
        await node.member.ask(StartReassignment(((log_of(node), (*replicas, "n4")),), throttle=1))
        await cluster.agree(lambda one: one.state("orders").adding == ("n4",))
        await node.member.ask(ChangeReassignment(1, is_paused=True))
        await cluster.agree(lambda one: one.member.log.state.reassignments[1].is_paused)
        assert node.state("orders").adding == ("n4",)
        await node.member.ask(CancelReassignment(1))
        await cluster.agree(lambda one: one.state("orders").replicas == replicas)
        await wait(node, lambda: isinstance(partition(node).log, AbsentLog))
        await wait(node, lambda: not (node.directory / "logs/orders/0").exists())

    run(main, tmp_path)
