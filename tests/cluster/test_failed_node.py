"""A node whose disk refused the cluster's log: the others know that it takes no part, and why."""

from pathlib import Path

from goqueue.errors import DiskFailed, DiskFull
from goqueue.runtime.cluster.cluster_facts import cluster_condition, cluster_facts
from tests.cluster.nodes import RunningCluster, RunningNode, run


def test_failed_node_is_no_living_voter_until_it_is_started_again(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        failed = next(node for node in cluster.nodes.values() if node is not cluster.controller)
        others = [node for node in cluster.nodes if node != failed.name]
        failed.member.fail(DiskFull("the device has no space left"))

        def reason(node: RunningNode) -> dict[str, str | None]:
            return {one.node: one.failure for one in cluster_facts(node.member).nodes if one.failure}

        await cluster.agree(lambda node: reason(node) == {failed.name: "the device has no space left"})
        for name in others:
            facts, condition = cluster_facts(cluster[name].member), cluster_condition(cluster[name].member)
            assert (facts.voters_alive, facts.health) == (2, "degraded")
            assert condition is not None
            assert condition.failed == ((failed.name, "the device has no space left"),)
            assert condition.problems == ()
            assert not facts.is_safe_to_stop(others[0])

        await failed.stop()
        await failed.start()
        await cluster.agree(lambda node: not reason(node) and cluster_facts(node.member).voters_alive == 3)

    run(main, tmp_path)


def test_others_lead_what_a_failed_node_has_led_until_it_is_started_again(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        failed = next(node for node in cluster.nodes.values() if node is not cluster.controller)
        others = [node for node in cluster.nodes if node != failed.name]
        await cluster.agree(lambda node: "__consumer_offsets" in node.member.log.state.topics)
        failed.member.fail(DiskFull("the device has no space left"))

        def led(node: RunningNode) -> set[str]:
            return {one.leader for one in node.member.log.state.partitions.values()}

        await cluster.agree(lambda node: failed.name not in led(node), *others)
        await cluster.agree(lambda node: failed.name in node.member.log.state.fenced, *others)
        await failed.stop()
        await failed.start()
        await cluster.agree(lambda node: failed.name not in node.member.log.state.fenced, *others)

    run(main, tmp_path)


def test_node_whose_catalog_takes_no_records_takes_no_part(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        failed = cluster["n2"]
        failed.runtime.store.logs["__metadata/0"].fence_off(DiskFailed("the device failed"))
        await cluster.agree(lambda node: "the device failed" in node.member.membership.failures.get("n2", ""))

    run(main, tmp_path)


def test_node_that_connects_later_is_told_of_the_failure(tmp_path: Path) -> None:
    async def main(cluster: RunningCluster) -> None:
        failed, late = (node for node in cluster.nodes.values() if node is not cluster.controller)
        await late.stop()
        failed.member.fail(DiskFull("the device has no space left"))
        await late.start()
        await cluster.agree(lambda node: failed.name in node.member.membership.failures, late.name)

    run(main, tmp_path)
