"""Elections that are not clean: what each replica has, what would be lost, and the longest one where allowed."""

import shutil
from pathlib import Path

import pytest

from goqueue.client import RecoveryCandidate, RecoveryPlan
from goqueue.cluster.controller_requests import ElectLeader
from goqueue.cluster.formation import ClusterNote
from goqueue.cluster.messages import NodeIdentity, Vote
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.recovery import (
    Candidate,
    ReplicaExtent,
    agreed_end,
    are_losses_known,
    find_longest,
    plan_recovery,
)
from goqueue.commands.main import main
from goqueue.console.exit_codes import DONE, USAGE
from goqueue.runtime.cluster.notes import NodeNotes
from goqueue.storage.disk import SystemDisk
from goqueue_admin.partitions import loss_of
from tests.cluster.nodes import RunningCluster, run, wait


def end(end: int, *epochs: tuple[int, int], high_watermark: int = 0, problem: str = "") -> ReplicaExtent:
    return ReplicaExtent(1, 0, end, high_watermark, epochs, problem=problem)


def test_longest_log_is_that_of_the_latest_epoch() -> None:
    ends = {"n1": end(90, (1, 0)), "n2": end(40, (1, 0), (2, 30)), "n3": end(99, (3, 0), problem="damaged")}

    assert find_longest(("n3", "n1", "n2"), ends) == "n2"
    assert find_longest(("n1", "n2"), {"n1": end(5), "n2": end(5)}) == "n1"
    assert find_longest(("n1",), {}) == ""


@pytest.mark.parametrize(
    ("one", "other", "agreed"),
    [
        (end(10, (1, 0)), end(7, (1, 0)), 7),
        (end(10, (1, 0)), end(20, (1, 0), (2, 8)), 8),
        (end(10, (1, 0), (3, 9)), end(12, (1, 0), (2, 4)), 4),
        (end(10, (3, 2)), end(12, (2, 5)), 2),
        (end(10), end(12, (4, 11)), 10),
        (end(0), end(12), 0),
    ],
)
def test_logs_agree_up_to_the_end_of_the_last_epoch_that_both_have(
    one: ReplicaExtent, other: ReplicaExtent, agreed: int
) -> None:
    assert agreed_end(one, other) == agreed_end(other, one) == agreed


def test_plan_names_what_each_replica_would_lose_and_begins_with_the_least() -> None:
    ends = {
        "n1": end(10, (1, 0), high_watermark=10),
        "n2": end(30, (1, 0), (2, 25), high_watermark=20),
        "n3": end(29, (1, 0), problem="its log is damaged"),
    }

    plan = plan_recovery(("n1", "n2", "n3", "n4"), ends)

    assert plan == [
        Candidate("n2", ends["n2"], lost=4),  # n3 has some of epoch 1 that n2 does not have, and none is committed
        Candidate("n1", ends["n1"], lost=20, lost_committed=10),
        Candidate("n3", ends["n3"], lost=5),
        Candidate("n4", None),
    ]


@pytest.mark.parametrize(
    ("isr", "ends", "are_known"),
    [
        (("n1",), {"n1": end(3, problem="its disk refuses writes"), "n2": end(3)}, True),
        (("n1",), {"n1": end(0, problem="its log is damaged"), "n2": end(3)}, False),
        (("n1",), {"n2": end(3)}, False),
        ((), {"n1": end(0), "n2": end(0)}, False),
    ],
)
def test_losses_are_known_if_all_replicas_answer_and_one_had_everything(
    isr: tuple[str, ...], ends: dict[str, ReplicaExtent], *, are_known: bool
) -> None:
    state = PartitionState(("n1", "n2"), "", 1, 1, isr)

    assert are_losses_known(state, plan_recovery(state.replicas, ends)) is are_known


def test_replica_lacks_what_another_knows_to_be_committed_even_if_no_log_has_it() -> None:
    ends = {"n1": end(4, (1, 0), high_watermark=4), "n2": end(0, high_watermark=9)}

    found = {one.node: (one.lost, one.lost_committed) for one in plan_recovery(("n1", "n2"), ends)}

    assert found == {"n1": (5, 5), "n2": (9, 9)}


def test_replica_that_never_had_the_log_does_not_seem_to_lose_nothing() -> None:
    empty = RecoveryCandidate(node="n3", can_lead=True, log_end=0, last_epoch=0, lost=0, lost_committed=0)
    plan = RecoveryPlan(
        topic="orders", partition=2, leader=None, leader_epoch=1, isr=[], elr=[], unclean_election="never",
        has_controller=True, candidates=[empty],
    )  # fmt: skip

    lost = "an unknown number of records: no replica is known to have had them all"
    assert loss_of(plan, empty) == f" with an empty log and lose {lost}"


def test_longest_replica_leads_only_where_the_topic_allows_it(tmp_path: Path) -> None:
    """A node comes back with an empty disk: no other has its partitions."""

    async def main(cluster: RunningCluster) -> None:
        lost = next(name for name in cluster.nodes if name != cluster.controller.name)
        for topic, policy in (("orders", "longest"), ("payments", "never")):
            await cluster["n1"].create(topic, 3, replication_factor=1, unclean_election=policy)
        states = {
            topic: [cluster["n1"].state(topic, number).leader for number in range(3)]
            for topic in ("orders", "payments")
        }
        await cluster[lost].stop()
        shutil.rmtree(tmp_path / lost)
        await cluster[lost].start()
        node = cluster.controller
        orders, payments = states["orders"].index(lost), states["payments"].index(lost)

        await wait(node, lambda: node.state("orders", orders).unclean_epoch > 0)
        assert node.state("orders", orders).leader == lost
        kept = node.state("payments", payments)
        assert (kept.leader, kept.unclean_epoch) == ("", 0)

        log = PartitionId(node.member.log.state.topics["payments"].created_ns, payments)
        found = await node.member.recovery.ask([log])
        assert {name: one.end for name, one in found[log].items()} == {lost: 0}
        await node.member.ask(ElectLeader(log, lost, is_unclean=True))
        assert node.state("payments", payments).leader == lost

    run(main, tmp_path, feature_level=2)


def test_stopped_node_forgets_its_cluster_only_with_consent(tmp_path: Path) -> None:
    notes = NodeNotes(SystemDisk(), str(tmp_path))
    notes.save(ClusterNote(NodeIdentity("n1", "d"), "c"))
    notes.save_vote(Vote(7))

    assert main(["cluster", "forget", "--data-dir", str(tmp_path)]) == USAGE
    assert notes.load_vote() == Vote(7)
    assert main(["cluster", "forget", "--data-dir", str(tmp_path), "--yes"]) == DONE
    assert notes.load("n1") is None
    assert notes.load_vote() == Vote(0)
    assert main(["cluster", "forget", "--data-dir", str(tmp_path), "--yes"]) != DONE
