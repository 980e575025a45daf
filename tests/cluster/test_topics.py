"""Topics of a cluster: decided by the controller, made at all nodes."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from goqueue.broker.core.splits import Split
from goqueue.broker.core.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.internal_topics import GROUPS
from goqueue.broker.losses import AbsentLog
from goqueue.broker.scaling import ScaledTopic
from goqueue.cluster.controller_requests import CreateTopic
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.replication_messages import IsrChange
from goqueue.errors import (
    ControllerUnavailable,
    IsrChangeRefused,
    NotLeader,
    RequestInvalid,
    TopicExists,
    TopicNotFound,
)
from goqueue.runtime.cluster.notes import NodeNotes
from goqueue.storage.disk import SystemDisk
from tests.cluster.nodes import NAMES, RunningCluster, RunningNode, run, wait


def has(name: str, partitions: int = 1) -> Callable[[RunningNode], bool]:
    def look(node: RunningNode) -> bool:
        topic = node.runtime.broker.topics.get(name)
        return topic is not None and len(topic.partitions) == partitions

    return look


def lacks(name: str) -> Callable[[RunningNode], bool]:
    return lambda node: name not in node.runtime.broker.topics


async def alter(node: RunningNode, name: str, **changes: Any) -> TopicSettings:
    broker = node.runtime.broker
    topic: Topic = await node.runtime.ask(partial(broker.alter_topic, name, changes))
    return topic.settings


async def delete(node: RunningNode, name: str) -> None:
    broker = node.runtime.broker
    await node.runtime.ask(partial(broker.delete_topic, name))


def test_topic_is_made_at_all_nodes(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        topic = await cluster["n2"].create("orders", 3)
        await cluster.agree(has("orders", 3))
        ids = {node.runtime.broker.topics["orders"].created_ns for node in cluster.nodes.values()}
        assert ids == {topic.created_ns}
        leaders = {cluster["n1"].state("orders", number).leader for number in range(3)}
        assert leaders == {"n1", "n2", "n3"}
        with pytest.raises(TopicExists):
            await cluster["n3"].create("orders")
        with pytest.raises(RequestInvalid, match="the cluster has 3 nodes"):
            await cluster["n3"].create("more", replication_factor=4)

    run(main, tmp_path)


def test_topic_is_altered_scaled_and_deleted_by_any_node(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        await cluster["n1"].create("orders", 2)
        settings = await alter(cluster["n2"], "orders", cleanup="compact", lane_weights=(5, 4, 3, 2, 1))
        assert (settings.cleanup, settings.lane_weights) == ("compact", (5, 4, 3, 2, 1))
        await cluster.agree(lambda node: node.runtime.broker.topics["orders"].settings == settings)
        broker = cluster["n3"].runtime.broker
        scale = partial(broker.scaler.scale, "orders", 4, accept_key_moves=True)
        scaled: ScaledTopic = await cluster["n3"].runtime.ask(scale)
        assert (scaled.before, len(scaled.topic.partitions)) == (2, 4)
        await cluster.agree(has("orders", 4))
        await cluster.agree(
            lambda node: node.runtime.broker.topics["orders"].splits == {2: Split(0, 1), 3: Split(1, 1)}
        )
        await delete(cluster["n2"], "orders")
        await cluster.agree(lacks("orders"))
        with pytest.raises(TopicNotFound):
            await delete(cluster["n1"], "orders")
        await cluster.agree(lambda node: not (node.directory / "logs/orders").exists())

    run(main, tmp_path)


def test_topic_that_is_deleted_while_a_node_makes_it_is_deleted_there_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.runtime.cluster.cluster_topics._OTHERS_SECONDS", 0)

    async def main(cluster: RunningCluster) -> None:
        slow, held = cluster["n3"], list[Callable[[], None]]()
        maker = slow.runtime.broker.maker
        follow = maker.follow
        monkeypatch.setattr(
            maker,
            "follow",
            lambda decided, here, told: follow(decided, here, lambda found: held.append(partial(told, found))),
        )
        await cluster["n1"].create("orders")
        await wait(slow, lambda: bool(held))
        await delete(cluster["n1"], "orders")
        await wait(slow, lambda: "orders" not in slow.member.log.state.topics)

        held[0]()

        await cluster.agree(lacks("orders"))

    run(main, tmp_path)


def test_node_without_a_replica_has_a_placeholder_also_after_a_restart(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        await cluster["n1"].create("orders", 3, replication_factor=1)
        await cluster.agree(has("orders", 3))
        for restarted in (False, True):
            if restarted:
                await cluster["n2"].stop()
                await cluster["n2"].start()
            node = cluster["n2"]
            absent = [isinstance(one.log, AbsentLog) for one in node.runtime.broker.topics["orders"].partitions]
            leaders = [cluster["n1"].state("orders", number).replicas[0] for number in range(3)]
            assert absent == [leader != "n2" for leader in leaders]
        assert len(list(tmp_path.glob("*/logs/orders/*"))) == 3

    run(main, tmp_path)


def test_absent_node_makes_up_for_what_it_missed(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        first = await cluster["n1"].create("orders", 1)
        await cluster.agree(has("orders"))
        await cluster["n3"].crash()
        await delete(cluster["n1"], "orders")
        await cluster["n1"].create("returns")
        second = await cluster["n1"].create("orders", 2)
        await cluster["n3"].start()
        assert cluster["n3"].runtime.broker.topics["orders"].created_ns == first.created_ns
        await cluster.agree(lambda node: has("orders", 2)(node) and has("returns")(node), "n3")
        assert cluster["n3"].runtime.broker.topics["orders"].created_ns == second.created_ns
        assert cluster["n3"].member.topics.problems == {}

    run(main, tmp_path)


def test_topics_from_before_the_cluster_are_adopted_and_of_one_name_only_one(tmp_path: Path) -> None:
    async def main() -> None:
        alone = RunningCluster(tmp_path, "n1", "n2", "n3", feature_level=0)
        await alone.start()
        for node in alone.nodes.values():
            await wait(node, lambda node=node: node.member.log.state.cluster_id != "")  # type: ignore[misc]
            await node.create(f"of-{node.name}")
        for name in ("n1", "n2"):
            await alone[name].create("both")
        await alone.end()
        cluster = RunningCluster(tmp_path, "n1", "n2", "n3")
        await cluster.form()
        try:
            await cluster.agree(lambda node: {"of-n1", "of-n2", "of-n3", "both"} <= node.member.log.state.topics.keys())
            await cluster.agree(has("of-n3"), "n1")
            assert cluster["n1"].state("of-n2").replicas == ("n2",)
            owner = cluster["n1"].state("both").leader
            (other,) = {"n1", "n2"} - {owner}
            await wait(cluster[other], lambda: "both" in cluster[other].member.topics.problems)
            assert has("both")(cluster[other])
            partition = cluster[other].runtime.broker.topics["both"].partition(0)
            await wait(
                cluster[other], lambda: "node " + owner in str(partition.leadership and partition.leadership.refusal())
            )
            with pytest.raises(NotLeader, match=f"node {owner}"):
                cluster[other].member.topics.refuse_namesake("both")
            cluster[owner].member.topics.refuse_namesake("both")
        finally:
            await cluster.end()

    asyncio.run(main())


def has_parts(node: RunningNode, name: str) -> bool:
    """Test if a node sees another one as leader or replica in sync of a partition."""
    states = [node.state("orders", number) for number in range(3)]
    return any(name in (state.leader, *state.isr) for state in states)


def test_crashed_node_loses_its_leaders_and_comes_back_in_sync(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        await cluster["n1"].create("orders", 3)
        victim = cluster.controller.name
        left = [name for name in cluster.nodes if name != victim]
        await cluster[victim].crash()
        await cluster.agree(lambda node: victim in node.member.log.state.fenced, *left)
        await cluster.agree(lambda node: not has_parts(node, victim), *left)
        await cluster[victim].start()
        await cluster.agree(lambda node: victim not in node.member.log.state.fenced)

    run(main, tmp_path, session_ms=60_000)  # so it is not the silence


def test_silent_node_is_fenced_and_let_in_again(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        victim = next(name for name in cluster.nodes if name != cluster.controller.name)
        member = cluster[victim].member
        heard: list[str] = []
        membership = cluster.controller.member.membership
        hear = membership.heard

        def hear_not(node: str, now_ns: int) -> None:
            if node != victim or heard:
                hear(node, now_ns)

        membership.heard = hear_not  # type: ignore[method-assign]
        await cluster.agree(lambda node: victim in node.member.log.state.fenced)
        heard.append("again")
        await cluster.agree(lambda node: victim not in node.member.log.state.fenced)
        assert member.presence.is_registered

    run(main, tmp_path)


def test_stopping_node_gives_its_leaders_away_before_it_ends(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        await cluster["n1"].create("orders", 3)
        victim = cluster.controller.name
        left = [name for name in cluster.nodes if name != victim]
        await cluster[victim].stop()
        state = cluster[victim].member.log.state
        assert victim in state.fenced, "it knows of its fence before it ends"
        assert {one.leader for one in state.partitions.values()} == set(left)
        await cluster.agree(lambda node: node.member.controller is not None and not node.member.is_stopping, *left)
        await cluster[victim].start()
        await cluster.agree(lambda node: victim not in node.member.log.state.fenced)

    run(main, tmp_path, session_ms=60_000)


def test_leader_asks_for_another_isr(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        await cluster["n1"].create("orders")
        node = cluster["n1"]
        partition = PartitionId(node.member.log.state.topics["orders"].created_ns, 0)
        before = node.state("orders")
        leader = cluster[before.leader]
        change = IsrChange(partition, before.leader, 1, 1, ((before.leader, 0),), "test")
        answer = await leader.member.ask(change)
        assert leader.member.log.applied_end >= answer.version
        assert leader.state("orders").isr == (before.leader,)
        with pytest.raises(IsrChangeRefused) as refused:
            await leader.member.ask(change)
        assert refused.value.details["reason"] == "partition_epoch"

    run(main, tmp_path)


def test_nothing_is_decided_without_a_majority(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        node = cluster.controller
        for name in cluster.nodes:
            if name != node.name:
                await cluster[name].crash()
        await wait(node, lambda: node.member.controller is None)
        with pytest.raises(ControllerUnavailable):
            await node.member.client.ask(_creation(), seconds=0.1)

    run(main, tmp_path)


def _creation() -> Any:
    return CreateTopic("orders", 1, TopicSpec(name="orders").settings)


def test_single_node_decides_as_a_cluster_of_one(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        await cluster["n1"].create("orders", 2)
        assert cluster["n1"].state("orders", 1).replicas == ("n1",)
        await cluster["n1"].stop()
        await cluster["n1"].start()
        await cluster.agree(lambda node: node.member.is_registered)
        await cluster.agree(lambda node: node.state("orders").leader == "n1" and node.state("orders").leader_epoch > 1)
        await delete(cluster["n1"], "orders")
        assert lacks("orders")(cluster["n1"])

    run(main, tmp_path, "n1")


def test_logs_of_another_cluster_are_led_in_an_epoch_above_theirs(tmp_path: Path) -> None:
    """As after the restore of a backup, which has no notes about the cluster."""
    former: list[int] = []

    async def before(cluster: RunningCluster) -> None:
        await cluster["n1"].create("orders")
        former.append(cluster["n1"].state("orders").leader_epoch)

    async def after(cluster: RunningCluster) -> None:
        for name in ("orders", GROUPS):
            partition = cluster["n1"].runtime.broker.topics[name].partition(0)
            await wait(cluster["n1"], lambda: (role := partition.leadership) is not None and role.knows_end)  # noqa: B023
            assert cluster["n1"].state(name).leader_epoch > former[0]

    run(before, tmp_path, "n1", feature_level=2)
    (tmp_path / "n1" / "high-watermarks").unlink()
    NodeNotes(SystemDisk(), str(tmp_path / "n1")).remove()
    run(after, tmp_path, *NAMES, feature_level=2)
