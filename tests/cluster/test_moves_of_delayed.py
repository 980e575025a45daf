"""A partition with delayed messages moves: its delayed log moves with it, and each message is delivered once."""

from functools import partial
from pathlib import Path

import numpy as np

from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.losses import AbsentLog
from goqueue.clock import NANOSECONDS
from goqueue.cluster.controller_requests import StartReassignment
from goqueue.cluster.partitions import delayed_log_of
from goqueue.delay import deliver_at_header
from goqueue.storage import frame
from tests.cluster.nodes import RunningCluster, RunningNode, run, wait
from tests.cluster.test_moves import log_of, partition, values

SOON, LATER = [b"soon %d" % number for number in range(5)], [b"later %d" % number for number in range(10)]


def delivery_of(node: RunningNode) -> PartitionDelivery:
    return node.runtime.broker.scheduling(partition(node))


def delays_of(node: RunningNode) -> DelayedMessages:
    return delivery_of(node).delays


def leader_of(cluster: RunningCluster) -> RunningNode:
    return cluster[cluster["n1"].state("orders").leader]


async def schedule(node: RunningNode, seconds: float, *values: bytes) -> None:
    await wait(node, lambda: (role := partition(node).leadership) is not None and role.is_leading)
    delayed_log = delays_of(node).delayed_log
    await wait(node, lambda: (role := delayed_log.leadership) is not None and role.is_leading)
    due_ns = node.runtime.clock.now_ns() + round(seconds * NANOSECONDS)
    headers = frame.encode_headers([deliver_at_header(due_ns)])
    frames = [frame.encode(value, None, headers) for value in values]
    await node.runtime.offer(delayed_log, frames, sum(map(len, frames)), CommitLevel.COMMITTED)


def has_left(node: RunningNode) -> bool:
    return isinstance(partition(node).log, AbsentLog) and not (node.directory / "logs/orders/0").exists()


async def move(cluster: RunningCluster, *target: str) -> None:
    """Move the partition. The nodes that come have all of the delayed log when the move is recorded as done."""
    former = cluster["n1"].state("orders").replicas
    end = delays_of(leader_of(cluster)).delayed_log.high_watermark
    ends: dict[str, int] = {}

    def note(node: RunningNode, *_: object) -> None:
        replica = node.member.replicas.local.get(delayed_log_of(log_of(node)))
        if node.state("orders").replicas == target and node.name not in ends:
            ends[node.name] = replica.partition.log.durable_end if replica is not None else 0

    coming = [cluster[name] for name in target if name not in former]
    for node in coming:
        node.member.on_state.subscribe(partial(note, node))
    await cluster["n1"].member.ask(StartReassignment(((log_of(cluster["n1"]), target),)))
    await cluster.agree(lambda node: node.state("orders").replicas == target)
    assert all(ends[node.name] >= end for node in coming), (ends, end)
    await cluster.agree(lambda node: all(one.outcome for one in node.member.log.state.reassignments.values()))
    for node in (cluster[name] for name in former if name not in target):
        await wait(node, partial(has_left, node))
        assert not list(node.runtime.broker.delay_scheduler.deliveries())
        assert delayed_log_of(log_of(node)) not in node.member.replicas.local


async def deliver_all(node: RunningNode) -> None:
    """Deliver what is pending now."""
    await wait(node, lambda: delays_of(node).is_led)
    delays = delays_of(node)
    await node.runtime.perform(delays.catch_up_fully())
    offsets = [at for at in range(delays.delayed_log.log_end) if (one := delays.schedule.find(at)) and one.is_pending]
    await node.runtime.perform(delivery_of(node).deliver_now(np.array(offsets, np.int64)))
    await wait(node, lambda: not delays.schedule.pending)


def test_delayed_messages_move_with_their_partition_and_are_delivered_once(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        await cluster["n1"].create("orders")
        await cluster.agree(lambda node: "orders" in node.runtime.broker.topics)
        first, second, third = cluster["n1"].state("orders").replicas
        await schedule(cluster[first], 3600, *LATER)
        await schedule(cluster[first], 0.5, *SOON)  # due before the move, during it or after it
        await cluster.grow("n4")
        await move(cluster, "n4", second, third)
        await move(cluster, first, second, third)
        await schedule(leader_of(cluster), 0.0, b"back")
        await move(cluster, "n4", second, third)
        assert leader_of(cluster) is cluster["n4"]

        await deliver_all(cluster["n4"])
        assert sorted(await values(cluster["n4"])) == sorted([*SOON, *LATER, b"back"])
        assert not any(node.member.replicas.shortened for node in cluster.nodes.values())

    run(main, tmp_path)
