"""A file of one node of three is damaged or gone: it is repaired or refused plainly, and nothing is lost."""

import asyncio
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from goqueue.broker.core.catalog import TopicCreated
from goqueue.errors import GoQueueError
from tests.cluster.nodes import RunningCluster
from tests.cluster.replica_nodes import LOG, ReplicaCluster
from tests.cluster.test_replica_repair import VALUES, run

ORDERS = "logs/orders/0"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 2
    path.write_bytes(content)


def flip_one(name: str, data: Path) -> None:
    flip(data / name)


def flip_many(data: Path) -> None:
    """Change a bit of one file of each kind that a node repairs by itself or from others."""
    flip(data / "high-watermarks")
    flip(next((data / "logs/__metadata/0").glob("*.log")))
    flip(data / "logs/__metadata/0/snapshot")
    flip(data / ORDERS / "epochs")
    segments = sorted((data / ORDERS).glob("*.log"))
    flip(segments[0])
    flip(segments[0].with_suffix(".index"))
    flip(segments[1].with_suffix(".timeindex"))


def remove_segment(number: int, data: Path) -> None:
    sorted((data / ORDERS).glob("*.log"))[number].unlink()


def truncate_segment(number: int, data: Path) -> None:
    path = sorted((data / ORDERS).glob("*.log"))[number]
    path.write_bytes(path.read_bytes()[:777])


@pytest.mark.parametrize(
    ("damage", "is_clean"),
    [
        (flip_many, False),
        (partial(remove_segment, 0), True),
        (partial(remove_segment, 1), False),
        (partial(truncate_segment, 2), True),
    ],
    ids=["flip many", "remove first", "remove middle", "truncate last"],
)
def test_files_of_one_node_are_repaired(tmp_path: Path, damage: Callable[[Path], None], *, is_clean: bool) -> None:
    async def main(cluster: ReplicaCluster) -> None:
        await cluster.stop("n2")
        if not is_clean:
            (tmp_path / "n2" / "clean").unlink()
        damage(tmp_path / "n2")
        cluster.change(isr=("n1", "n3"))

        await cluster.start("n2")
        node = cluster.nodes["n2"]
        cluster.tell()
        end = cluster.nodes["n1"].partition.high_watermark
        await cluster.until(lambda: node.partition.high_watermark == end)  # the scrub reads what is committed
        await node.runtime.scrub.run_pass()
        await cluster.until(lambda: not node.replicas.repair.damaged and "n2" in cluster.state.isr)

        await cluster.until_alike()
        assert await node.values() == VALUES

    run(main, tmp_path)


def test_log_that_is_gone_is_fetched_from_another_replica(tmp_path: Path) -> None:
    async def main(cluster: ReplicaCluster) -> None:
        await cluster.stop("n2")
        shutil.rmtree(tmp_path / "n2" / ORDERS)
        cluster.change(isr=("n1", "n3"))

        await cluster.start("n2")
        node = cluster.nodes["n2"]
        records = cast(dict[str, TopicCreated], node.runtime.broker.maker.records())
        node.state.topics["orders"] = records["orders"] = replace(records["orders"], created_ns=LOG.topic_id)
        cluster.tell()
        assert "orders/0" in node.runtime.store.unopened
        node.replicas.repair.begin_lost_logs()
        cluster.tell()
        await cluster.until(lambda: "n2" in cluster.state.isr)

        await cluster.until_alike()
        assert await node.values() == VALUES

    run(main, tmp_path)


def test_node_refuses_to_start_without_what_it_has_confirmed_as_a_voter(tmp_path: Path) -> None:
    async def refused(path: Path, damage: Callable[[Path], None]) -> str:
        cluster = RunningCluster(path, "n1")
        await cluster.form()
        await cluster["n1"].stop()
        (path / "n1" / "clean").unlink()
        damage(path / "n1")
        with pytest.raises(GoQueueError) as error:
            await cluster["n1"].start()
        await cluster["n1"].runtime.stop()
        return str(error.value)

    async def main() -> None:
        log = "logs/__cluster_metadata/0"
        for number, name in enumerate(("cluster", "vote", f"{log}/00000000000000000000.log")):
            assert "damaged" in await refused(tmp_path / f"{number}", partial(flip_one, name))
        assert "is gone" in await refused(tmp_path / "gone", lambda data: shutil.rmtree(data / log))

    asyncio.run(main())
