"""A damaged replica is repaired with the bytes of another one while the partition is served."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from goqueue.cluster.leader_replica import AskController
from goqueue.cluster.replication_messages import ResignLeadership
from goqueue.errors import RangeDamaged
from goqueue.runtime.cluster import replica_comparison, replica_repair, replication_stream
from goqueue.runtime.cluster.local_replica import LocalReplica
from goqueue.storage import frame, scan
from goqueue.storage import scrub as scrub_of_logs
from goqueue.storage.check import check_segment, plan_check
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.disk import SystemDisk
from goqueue.storage.log import LogSettings
from goqueue.storage.segment_repair import FetchedRange
from goqueue.storage.store import StoreSettings
from tests.cluster.replica_nodes import LOG, NODES, ReplicaCluster, ReplicaNode

VALUES = [b"%02d" % number + b"." * 100 for number in range(30)]


def run(main: Callable[[ReplicaCluster], Coroutine[Any, Any, None]], path: Path) -> None:
    """Run three nodes, led by n1, each with three sealed segments of ten messages."""

    async def running() -> None:
        cluster = ReplicaCluster(path, store=StoreSettings(tail_bytes=1))
        await cluster.start()
        try:
            leader = cluster.lead("n1")
            await cluster.until_settled("n1")
            for first in range(0, len(VALUES), 10):
                for value in VALUES[first : first + 10]:
                    await leader.publish(value)
                await cluster.until_alike()
                for node in cluster.nodes.values():
                    node.partition.log.roll()
            await cluster.until(lambda: all(len(node.partition.log.sealed()) == 3 for node in cluster.nodes.values()))
            await main(cluster)
        finally:
            await cluster.stop()

    asyncio.run(running())


def path_of(node: ReplicaNode, number: int) -> Path:
    return Path(node.partition.log.segments[number].path)


def flip(node: ReplicaNode, number: int, position: int = 300) -> None:
    """Change one bit of a segment that is on the disk."""
    path = path_of(node, number)
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


def contents(node: ReplicaNode) -> list[bytes]:
    return [path.read_bytes() for path in sorted(Path(node.partition.log.directory).glob("*.log"))]


async def read(node: ReplicaNode) -> list[bytes]:
    try:
        return await node.values()
    except RangeDamaged:
        return []


async def until_repaired(cluster: ReplicaCluster, name: str) -> None:
    repair = cluster.nodes[name].replicas.repair
    await cluster.until(lambda: repair.counts.ranges > 0 and not repair.damaged)
    await cluster.until(lambda: name in cluster.state.isr)


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_flipped_bit_that_a_read_finds_is_replaced_by_the_bytes_of_another_replica(tmp_path: Path, name: str) -> None:
    async def main(cluster: ReplicaCluster) -> None:
        node, other = cluster.nodes[name], cluster.nodes["n3"]
        before = contents(node)
        flip(node, 1)

        assert await read(node) == []
        await until_repaired(cluster, name)

        assert contents(node)[:3] == before[:3] == contents(other)[:3]
        assert await node.values() == VALUES
        assert all(path.suffix != ".cleaned" for path in Path(node.partition.log.directory).iterdir())

    run(main, tmp_path)


def test_damaged_leader_resigns_first_and_publishes_go_on(tmp_path: Path) -> None:
    async def main(cluster: ReplicaCluster) -> None:
        node = cluster.nodes["n1"]
        flip(node, 0)

        await read(node)
        await cluster.until(lambda: cluster.state.leader == "n2")
        await cluster.until_settled("n2")
        await cluster.nodes["n2"].publish(b"after")
        await until_repaired(cluster, "n1")

        (resigned,) = [one for one in cluster.asked if isinstance(one, ResignLeadership)]
        assert resigned.is_damaged
        assert await node.values() == [*VALUES, b"after"]

    run(main, tmp_path)


def test_damaged_leader_resigns_once_while_the_controller_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_repair, "_RESIGN_SECONDS", 0.01)
    monkeypatch.setattr(replica_repair, "_RETRY_SECONDS", 0.01)
    steps, asked = list[int](), list[AskController]()

    async def main(cluster: ReplicaCluster) -> None:
        node = cluster.nodes["n1"]
        ask_controller = node.replicas.ask_controller
        cluster.is_away = True
        await cluster.stop("n2", "n3")

        def ask(replica: LocalReplica, one: AskController) -> "asyncio.Task[None]":
            if isinstance(one.request, ResignLeadership):
                asked.append(one)
            return ask_controller(replica, one)

        async def fetch(*_: object) -> FetchedRange:
            steps.append(1)
            raise RangeDamaged("no other node is there")

        monkeypatch.setattr(node.replicas, "ask_controller", ask)
        monkeypatch.setattr(node.replicas.repair, "_fetch", fetch)
        flip(node, 0)
        await read(node)
        await cluster.until(lambda: len(steps) > 3)
        assert len(asked) == 1

    run(main, tmp_path)


def test_damaged_follower_is_not_in_sync_until_it_was_repaired(tmp_path: Path) -> None:
    async def main(cluster: ReplicaCluster) -> None:
        node = cluster.nodes["n2"]
        node.state.feature_level = 1  # it cannot ask for messages yet
        flip(node, 1)

        await read(node)
        await cluster.until(lambda: cluster.state.isr == ("n1", "n3"))
        await cluster.nodes["n1"].publish(b"after")
        await cluster.until(lambda: node.partition.high_watermark == cluster.nodes["n1"].partition.high_watermark)
        assert cluster.state.isr == ("n1", "n3")
        assert node.replicas.repair.damaged

        node.state.feature_level = 2
        await until_repaired(cluster, "n2")
        assert len(cluster.state.isr) == len(NODES)

    run(main, tmp_path)


def test_truncated_segment_gets_its_end_back(tmp_path: Path) -> None:
    async def main(cluster: ReplicaCluster) -> None:
        node = cluster.nodes["n2"]
        before = contents(node)
        path = path_of(node, 2)
        path.write_bytes(path.read_bytes()[:200])

        await read(node)
        await until_repaired(cluster, "n2")

        assert contents(node)[:3] == before[:3]

    run(main, tmp_path)


def test_damage_that_a_start_finds_in_the_last_segment_is_repaired(tmp_path: Path) -> None:
    async def main(cluster: ReplicaCluster) -> None:
        await cluster.nodes["n1"].publish(b"30", b"31", b"32")
        await cluster.until_alike()
        await cluster.stop("n2")
        (tmp_path / "n2" / "clean").unlink()
        last = max((tmp_path / "n2/logs/orders/0").glob("*.log"))
        content = bytearray(last.read_bytes())
        content[40] ^= 1
        last.write_bytes(content)
        cluster.change(isr=("n1", "n3"))

        await cluster.start("n2")
        cluster.tell()
        assert LOG in cluster.nodes["n2"].replicas.local
        await until_repaired(cluster, "n2")

        assert await cluster.nodes["n2"].values() == [*VALUES, b"30", b"31", b"32"]

    run(main, tmp_path)


def test_what_no_replica_has_stays_damaged_and_spreads_to_none(tmp_path: Path) -> None:
    async def main(cluster: ReplicaCluster) -> None:
        node = cluster.nodes["n2"]
        before = contents(cluster.nodes["n1"])
        await cluster.stop("n1", "n3")
        flip(node, 1)

        await read(node)
        repair = node.replicas.repair
        await cluster.until(lambda: any(one.problem for one in repair.damaged.values()))
        await cluster.start("n1", "n3")
        cluster.tell()
        await cluster.until(lambda: not repair.damaged)

        assert contents(node)[:3] == before[:3] == contents(cluster.nodes["n3"])[:3]

    run(main, tmp_path)


def test_replica_with_messages_that_an_unclean_election_has_dropped_repairs_no_other_one(tmp_path: Path) -> None:
    dropped, kept = ([b"%s %d" % (word, number) + b"." * 100 for number in range(5)] for word in (b"drop", b"kept"))

    async def main(cluster: ReplicaCluster) -> None:
        await cluster.stop("n1", "n2")
        cluster.lead("n3", isr=("n3",), min_isr=1)
        await cluster.until_settled("n3")
        await cluster.nodes["n3"].publish(*dropped)
        await cluster.stop("n3")
        await cluster.start("n1", "n2")
        cluster.lead("n2", isr=("n1", "n2"), unclean_epoch=cluster.state.leader_epoch + 1)
        await cluster.until_settled("n2")
        await cluster.nodes["n2"].publish(*kept)
        await cluster.until_alike()
        await cluster.stop("n2")
        node = cluster.nodes["n1"]
        node.partition.log.roll()
        await cluster.until(lambda: len(node.partition.log.sealed()) == 4)
        flip(node, 3)

        await cluster.start("n3")
        cluster.tell()
        await read(node)
        repair = node.replicas.repair
        await cluster.until(lambda: any("n3: it has nothing of" in one.problem for one in repair.damaged.values()))
        await cluster.start("n2")
        cluster.tell()
        await until_repaired(cluster, "n1")

        assert await node.values() == [*VALUES, *kept]

    run(main, tmp_path)


async def scrub(cluster: ReplicaCluster) -> None:
    """Read all logs of all nodes, the leader last."""
    for name in ("n3", "n2", "n1"):
        await cluster.nodes[name].runtime.scrub.run_pass()


def test_damage_that_no_client_reads_is_found_by_the_scrub_and_repaired(tmp_path: Path) -> None:
    async def main(cluster: ReplicaCluster) -> None:
        node = cluster.nodes["n2"]
        before = contents(node)
        flip(node, 0)
        path_of(node, 1).unlink()

        await scrub(cluster)
        await cluster.until(lambda: not node.replicas.repair.damaged)
        await until_repaired(cluster, "n2")

        assert await node.values() == VALUES
        assert b"".join(contents(node)[:3]).startswith(b"".join(before[:3]))
        assert node.runtime.scrub.damages == {}

    run(main, tmp_path)


def test_sound_messages_that_differ_are_told_and_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub_of_logs, "BLOCK_OFFSETS", 10)
    monkeypatch.setattr(replica_comparison, "BLOCK_OFFSETS", 10)

    async def main(cluster: ReplicaCluster) -> None:
        node, leader = cluster.nodes["n2"], cluster.nodes["n1"]
        await scrub(cluster)
        compared = node.replicas.comparison
        await cluster.until(lambda: compared.compared_blocks == 3)
        assert leader.replicas.comparison.differences == {}
        path = path_of(node, 1)
        place = path.read_bytes().index(b"12.")
        changed = bytearray(path.read_bytes())
        start = max(one for one in frame.walk(bytes(changed)) if one < place)
        end = start + frame.measure(bytes(changed), start)
        changed[place : place + 3] = b"xx."
        changed[start + frame.AT_CRC : start + frame.AT_CRC + 4] = bytes(4)
        crc = crc32c(bytes(changed[start:end]))
        changed[start + frame.AT_CRC : start + frame.AT_CRC + 4] = crc.to_bytes(4, "big")
        path.write_bytes(changed)

        await scrub(cluster)
        differences = leader.replicas.comparison.differences
        await cluster.until(lambda: len(differences) == 1)

        (one,) = differences.values()
        assert (one.log, one.node) == ("orders/0", "n2")
        assert path.read_bytes() == changed

    run(main, tmp_path)


@pytest.mark.parametrize("slice_bytes", [1, 500, 1 << 20])
def test_what_compaction_has_removed_at_the_leader_is_no_damage_of_a_follower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int
) -> None:
    monkeypatch.setattr(replication_stream, "CLUSTER_SLICE_BYTES", slice_bytes)
    letters = ("abab", "cdce", "fgfg", "hhhh", "ijik", "a")

    async def main(cluster: ReplicaCluster) -> None:
        node = cluster.nodes["n1"]
        log = node.partition.log
        for keys in letters:
            for key in keys:
                log.append(scan.check_batch(bytearray(frame.encode(b"." * 100, key=key.encode()))))
            log.roll()
        await cluster.until(lambda: log.is_settled and log.stored_end == log.next_offset)
        log.show(log.stored_end)
        job = plan_compaction(log, SystemDisk(), now_ns=1)
        await asyncio.to_thread(job.run)
        job.apply()
        await cluster.stop("n1")
        await cluster.start()

        cluster.lead("n1")
        await cluster.until_settled("n1")
        content = await cluster.until_alike()

        assert frame.offset_at(content, 0) > 0
        follower = cluster.nodes["n2"]
        log = follower.partition.log
        log.roll()
        await cluster.until(lambda: log.sealed() == log.segments[:-1])
        await follower.runtime.scrub.run_pass()
        assert follower.runtime.scrub.damages == {}
        assert not follower.replicas.repair.damaged
        assert len(cluster.state.isr) == len(NODES)
        await cluster.stop("n2")
        tasks, findings = plan_check(SystemDisk(), log.name, log.directory)
        for task in tasks:
            findings += check_segment(SystemDisk(), task).findings
        assert findings == []

    async def running() -> None:
        cluster = ReplicaCluster(tmp_path, store=StoreSettings(tail_bytes=1, log=LogSettings(segment_bytes=600)))
        try:
            await cluster.start("n1")
            await main(cluster)
        finally:
            await cluster.stop()

    asyncio.run(running())
