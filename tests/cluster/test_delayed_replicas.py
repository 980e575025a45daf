"""Delayed messages of a partition with replicas: each is delivered once and not early, by any leader."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.work import Promise
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.clock import NANOSECONDS
from goqueue.cluster.partitions import delayed_log_of
from goqueue.delay import deliver_at_header
from goqueue.runtime.cluster.local_replica import LocalReplica
from goqueue.storage import frame
from tests.cluster.replica_nodes import LOG, ReplicaCluster, ReplicaNode

SOON, LATER = 0.3, 3600.0


def run(tmp_path: Path, scenario: Callable[[ReplicaCluster], Awaitable[None]]) -> None:
    async def running() -> None:
        cluster = ReplicaCluster(tmp_path)
        await cluster.start()
        try:
            await scenario(cluster)
        finally:
            await cluster.stop()

    asyncio.run(running())


def delays_of(node: ReplicaNode) -> DelayedMessages:
    return node.runtime.broker.scheduling(node.partition).delays


def delayed_replica(node: ReplicaNode) -> LocalReplica | None:
    return node.replicas.local.get(delayed_log_of(LOG))


async def schedule(node: ReplicaNode, value: bytes, seconds: float, level: CommitLevel = CommitLevel.COMMITTED) -> int:
    """Schedule a message at the leader; return its offset in the delayed log."""
    delays = delays_of(node)
    await node.cluster.until(lambda: (role := delays.delayed_log.leadership) is not None and role.is_leading)
    due_ns = node.runtime.clock.now_ns() + round(seconds * NANOSECONDS)
    content = frame.encode(value, None, frame.encode_headers([deliver_at_header(due_ns)]))
    placement = await node.runtime.offer(delays.delayed_log, [content], len(content), level)
    return placement.first_offset


async def until_led(cluster: ReplicaCluster, name: str, **changes: object) -> ReplicaNode:
    node = cluster.lead(name, **changes)
    await cluster.until_settled(name)
    return node


async def until_delivered(cluster: ReplicaCluster, node: ReplicaNode, *values: bytes) -> None:
    async with asyncio.timeout(30):
        while len(await node.values()) < len(values):
            await asyncio.sleep(0.005)
    await cluster.until(lambda: not delays_of(node).schedule.pending)
    assert await node.values() == list(values)


def test_delayed_message_is_delivered_once_by_the_next_leader(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        first = await until_led(cluster, "n1")
        await schedule(first, b"soon", SOON)
        later = await schedule(first, b"later", LATER)
        await cluster.stop("n1")
        second = await until_led(cluster, "n2", isr=("n2", "n3"))
        await cluster.until(lambda: delays_of(second).is_led)
        await until_delivered_first(cluster, second)
        found = delays_of(second).schedule.find(later)
        assert found is not None
        assert found.is_pending, "it is not due"
        third = cluster.nodes["n3"]
        await cluster.until(lambda: delays_of(third).schedule.pending == 1)
        assert delays_of(third).next_ns is None, "a follower delivers nothing"

    async def until_delivered_first(cluster: ReplicaCluster, node: ReplicaNode) -> None:
        await cluster.until(lambda: delays_of(node).schedule.pending == 1)
        assert await node.values() == [b"soon"]

    run(tmp_path, scenario)


def test_message_that_was_delivered_and_not_recorded_is_not_delivered_again(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        first = await until_led(cluster, "n1")
        await schedule(first, b"a", SOON)
        delays = delays_of(first)

        waits: Promise[None] = Promise()
        await cluster.until(lambda: delays.since is not None or delays.schedule.pending == 1)
        recorded = delays.record_delivered
        delays.record_delivered = lambda offsets, since: (  # type: ignore[method-assign]
            waits.kept() if len(offsets) else recorded(offsets, since)
        )
        async with asyncio.timeout(30):
            while await cluster.nodes["n2"].values() != [b"a"]:
                await asyncio.sleep(0.005)
        second = await until_led(cluster, "n2", isr=("n2", "n3"))
        await until_delivered(cluster, second, b"a")
        waits(None)

    run(tmp_path, scenario)


def test_copy_of_a_leader_that_was_replaced_is_cut_off(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        first = await until_led(cluster, "n1")
        await schedule(first, b"before", 0.0)
        await until_delivered(cluster, first, b"before")
        await schedule(first, b"a", SOON)
        await cluster.until(lambda: delays_of(cluster.nodes["n2"]).schedule.pending == 1)
        cluster.is_away = True
        await first.network.stop()  # it goes on alone, and its copy reaches no other replica
        await cluster.until(lambda: first.partition.log_end > first.partition.high_watermark)
        cluster.nodes.pop("n1")
        second = await until_led(cluster, "n2", isr=("n2", "n3"))
        await until_delivered(cluster, second, b"before", b"a")
        cluster.is_away = False
        await first.stop()
        await cluster.start("n1")
        cluster.tell()
        await cluster.until(lambda: cluster.nodes["n1"].partition.high_watermark >= second.partition.high_watermark)
        assert await cluster.nodes["n1"].values() == [b"before", b"a"]

    run(tmp_path, scenario)


def test_schedule_of_a_delayed_log_that_goes_back_has_nothing_more(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        first = await until_led(cluster, "n1")
        await schedule(first, b"kept", LATER)
        await first.network.stop()
        offset = await schedule(first, b"lost", LATER, CommitLevel.STORED)
        cluster.nodes.pop("n1")
        second = await until_led(cluster, "n2", isr=("n2", "n3"))
        assert await schedule(second, b"other", 2 * LATER) >= offset
        await first.stop()
        await cluster.start("n1")
        cluster.tell()
        found = cluster.nodes["n1"]
        await cluster.until(lambda: delays_of(found).schedule.pending == 2)
        expected = delays_of(second).schedule
        assert all(delays_of(found).schedule.find(at) == expected.find(at) for at in range(offset + 3))

    run(tmp_path, scenario)


def test_replica_that_goes_leaves_the_delayed_log_with_its_partition(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = await until_led(cluster, "n1")
        await schedule(leader, b"later", LATER)
        await cluster.until(lambda: all(delayed_replica(node) is not None for node in cluster.nodes.values()))
        cluster.change(replicas=("n1", "n2"), isr=("n1", "n2"))

        assert leader.replica.delayed is not None
        assert leader.replica.delayed.leader is not None
        assert set(leader.replica.delayed.leader.followers) == {"n2"}

    run(tmp_path, scenario)
