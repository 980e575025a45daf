"""All replicas of a node: the note of what is committed, and which topic a partition is of."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from goqueue.broker.core.topic import TopicSpec
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.replication_messages import OpenReplica
from goqueue.runtime.cluster.replica_ends import NOTE
from goqueue.storage.disk import SystemDisk, read_all
from goqueue.storage.layout import decode_checkpoint, write_checkpoint
from tests.cluster.replica_nodes import LOG, ReplicaCluster, ReplicaNode


async def do_nothing(_: ReplicaNode) -> None:
    pass


def run(main: Callable[[ReplicaNode], Coroutine[Any, Any, None]], path: Path, **note: object) -> dict[str, Any] | None:
    """Run a node that finds this note; return the one that it leaves."""

    async def running(main: Callable[[ReplicaNode], Coroutine[Any, Any, None]]) -> None:
        cluster = ReplicaCluster(path)
        await cluster.start("n1")
        try:
            await main(cluster.nodes["n1"])
        finally:
            await cluster.stop()

    asyncio.run(running(do_nothing))
    write_checkpoint(SystemDisk(), str(path / "n1" / NOTE), **note)
    asyncio.run(running(main))
    return decode_checkpoint(read_all(SystemDisk(), str(path / "n1" / NOTE)))


def test_note_of_other_types_is_left_out(tmp_path: Path) -> None:
    left = run(do_nothing, tmp_path, ends={"1/0": "many"})

    assert left is not None
    assert left["ends"] == {"1/0": 0}


def test_note_keeps_what_was_committed_in_logs_that_take_no_part_yet(tmp_path: Path) -> None:
    left = run(do_nothing, tmp_path, ends={"7/0": 5})

    assert left is not None
    assert left["ends"] == {"1/0": 0, "7/0": 5}


def test_partition_is_of_the_topic_that_its_node_has_recorded(tmp_path: Path) -> None:
    async def main(node: ReplicaNode) -> None:
        records = node.runtime.broker.maker.records()
        node.state.topics["news"] = replace(records["orders"], name="news", created_ns=99)

        await node.runtime.create_topic(TopicSpec(name="news", partitions=1))

        own = PartitionId(records["news"].created_ns, 0)
        assert own in node.replicas.local
        assert PartitionId(99, 0) not in node.replicas.local

    run(main, tmp_path)


def test_what_is_known_of_deleted_topics_is_forgotten(tmp_path: Path) -> None:
    async def main(node: ReplicaNode) -> None:
        gone = PartitionId(7, 0)
        node.replicas._early = {gone: {"n2": OpenReplica(gone, 1, 1, 1, 0, 0, 0)}, LOG: {}}
        node.state.deleted.add(7)

        node.replicas._tidy()

        assert node.replicas._early == {}

    left = run(main, tmp_path, ends={"7/0": 5})

    assert left is not None
    assert left["ends"] == {"1/0": 0}
