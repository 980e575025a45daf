"""Replicas with real logs and connections: what is published at the leader is the same everywhere."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from goqueue.broker.core.commit import CommitLevel
from goqueue.errors import LeadershipLost, NotLeader
from tests.cluster.replica_nodes import ReplicaCluster

Scenario = Callable[[ReplicaCluster], Awaitable[None]]


def run(path: Path, scenario: Scenario) -> None:
    async def all_of_it() -> None:
        cluster = ReplicaCluster(path)
        try:
            await cluster.start()
            await scenario(cluster)
        finally:
            await cluster.stop()

    asyncio.run(all_of_it())


def test_published_messages_are_the_same_frames_on_all_replicas(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await asyncio.gather(*(leader.publish(b"%d" % number) for number in range(20)))
        await cluster.until_alike()

        for node in cluster.nodes.values():
            assert sorted(await node.values()) == sorted(b"%d" % number for number in range(20))

    run(tmp_path, scenario)


def test_new_leader_has_everything_that_was_confirmed(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await leader.publish(b"before")
        await cluster.stop("n1")
        leader = cluster.lead("n2", isr=("n2", "n3"))
        await cluster.until_settled("n2")
        await leader.publish(b"after")
        await cluster.start("n1")
        cluster.tell()
        await cluster.until_alike()

        assert await cluster.nodes["n1"].values() == [b"before", b"after"]
        await cluster.until(lambda: len(cluster.state.isr) == 3)

    run(tmp_path, scenario)


def test_what_only_the_former_leader_has_is_cut_off(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await leader.publish(b"kept")
        await cluster.stop("n2", "n3")
        await leader.publish(b"lost", level=CommitLevel.STORED)
        await cluster.stop("n1")
        await cluster.start("n2", "n3")
        leader = cluster.lead("n2", isr=("n2", "n3"))
        await cluster.until_settled("n2")
        await leader.publish(b"won")
        await cluster.start("n1")
        cluster.tell()
        await cluster.until_alike()

        assert await cluster.nodes["n1"].values() == [b"kept", b"won"]

    run(tmp_path, scenario)


def test_waiting_publish_is_told_that_the_leadership_was_lost(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await cluster.stop("n2", "n3")
        waiting = asyncio.ensure_future(leader.publish(b"unknown"))
        await cluster.until(lambda: leader.partition.log.is_settled and leader.partition.log_end == 2)
        cluster.change(leader="n2", leader_epoch=2)

        with pytest.raises(LeadershipLost):
            await waiting
        with pytest.raises(NotLeader):
            await leader.publish(b"refused")

    run(tmp_path, scenario)


def test_dead_follower_leaves_the_isr_and_then_stalls_no_publish(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await cluster.stop("n3")
        await leader.publish(b"waits for a second")

        assert cluster.state.isr == ("n1", "n2")
        await leader.publish(b"waits for nothing")

    run(tmp_path, scenario)
