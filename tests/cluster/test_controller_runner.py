"""The office of the controller: which nodes it fences, and when."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from goqueue.clock import NANOSECONDS
from goqueue.cluster.controller_requests import DeleteTopic
from goqueue.cluster.membership import Membership, MembershipSettings
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.metadata import ClusterRecord, ClusterState, FeatureLevelRaised, NodeFenced, NodeRegistered
from goqueue.errors import ControllerUnavailable, TopicNotFound
from goqueue.runtime.cluster.controller_runner import ControllerRunner

NODES = ("n1", "n2", "n3")
SESSION, ELECTION = 2.0, 1.0


class Node:
    """Node n1, which follows n2 first; `lead` makes it the controller of a cluster with three nodes."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.handlers: dict[type, Any] = {}
        identity = NodeIdentity("n1", "d")
        self.note = SimpleNamespace(me=identity, voters=(), cluster_id="c")
        self.settings = SimpleNamespace(session_ns=round(SESSION * NANOSECONDS), replication_factor=3, min_isr=2)
        state = ClusterState()
        state.cluster_id = "c"
        state.apply(FeatureLevelRaised(1), 0)
        for offset, node in enumerate(NODES, 1):
            state.apply(NodeRegistered(node, "d", node, "", "", "1", 0, "", 1), offset)
        self.log = SimpleNamespace(state=state, log=SimpleNamespace(next_offset=10))
        self.raft: Any = SimpleNamespace(
            is_leader=False, is_controller=False, leader=NodeIdentity("n2", "d"), progress={}, epoch_start=0,
            settings=SimpleNamespace(election_ns=round(ELECTION * NANOSECONDS)),
        )  # fmt: skip
        self.network = SimpleNamespace(links={})
        self.membership = Membership(MembershipSettings(10**12, 10**12), "n1", NODES)
        self.fenced: list[str] = []
        self.office = ControllerRunner(cast(Any, self))
        self.office.look()
        self.hear("n2", "n3")

    @property
    def controller(self) -> NodeIdentity:
        return cast(NodeIdentity, self.raft.leader)

    def now(self) -> int:
        return round(self.seconds * NANOSECONDS)

    def wall_clock(self) -> int:
        return 1

    def hear(self, *nodes: str) -> None:
        for node in nodes:
            self.membership.heard(node, self.now())

    def append(self, records: Sequence[ClusterRecord]) -> "asyncio.Future[int]":
        self.fenced += [record.node for record in records if isinstance(record, NodeFenced)]
        return cast("asyncio.Future[int]", SimpleNamespace(add_done_callback=lambda _: None))

    def lead(self) -> None:
        self.raft.is_leader = self.raft.is_controller = True
        self.raft.leader = self.note.me
        self.office.look()

    def wait(self, seconds: float, *heard: str) -> None:
        """Let time pass, while these nodes are heard."""
        for _ in range(round(seconds / 0.25)):
            self.seconds += 0.25
            self.hear(*heard)
            self.office.tick()


@pytest.fixture
def node() -> Node:
    return Node()


def test_silent_node_is_fenced_after_a_session(node: Node) -> None:
    node.lead()
    node.wait(SESSION, "n2")
    assert node.fenced == []
    node.wait(0.25, "n2")
    assert node.fenced == ["n3"]


def test_controller_whose_own_loop_is_late_fences_later(node: Node) -> None:
    node.lead()
    node.wait(1, "n2", "n3")
    node.seconds += 0.75  # no tick comes for so long
    node.hear("n2")
    node.wait(SESSION - 0.75, "n2")
    assert node.fenced == []
    node.wait(1, "n2")
    assert node.fenced == ["n3"]


def test_node_that_was_silent_for_long_has_a_whole_session_with_a_new_controller(node: Node) -> None:
    node.wait(10, "n2")
    node.lead()
    node.wait(SESSION, "n2")
    assert node.fenced == []


def test_former_controller_has_only_the_rest_of_a_session(node: Node) -> None:
    node.wait(1.5)
    node.lead()
    node.wait(SESSION - ELECTION)
    assert node.fenced == []
    node.wait(0.25)
    assert node.fenced == ["n2"]


def test_pause_of_the_controller_fences_no_node(node: Node) -> None:
    node.lead()
    node.wait(SESSION / 2, "n2", "n3")
    node.seconds += 60
    node.wait(SESSION)
    assert node.fenced == []


def test_process_that_two_nodes_have_seen_gone_is_fenced_at_once(node: Node) -> None:
    node.lead()
    node.office.gone("n3", "n2")
    assert node.fenced == []
    node.office.gone("n3", "n1")
    assert node.fenced == ["n3"]


def test_process_that_was_seen_gone_before_the_office_was_open_is_fenced_when_it_opens(node: Node) -> None:
    node.raft.is_leader, node.raft.leader = True, node.note.me
    node.office.gone("n2", "n1")
    node.office.gone("n2", "n3")
    assert node.fenced == []
    node.lead()
    assert node.fenced == ["n2"]


def test_process_is_not_gone_while_it_is_connected_or_if_only_one_node_says_so(node: Node) -> None:
    node.lead()
    node.office.gone("n2", "n1")
    node.network.links["n3"] = object()
    node.office.gone("n3", "n2")
    node.office.gone("n3", "n1")
    assert node.fenced == []


def test_sights_that_are_far_apart_are_not_of_one_end(node: Node) -> None:
    node.lead()
    node.office.gone("n3", "n2")
    node.wait(5, "n2", "n3")
    node.office.gone("n3", "n1")
    assert node.fenced == []


def test_node_that_lost_the_office_fences_none(node: Node) -> None:
    node.lead()
    node.raft.is_leader = node.raft.is_controller = False
    node.office.look()
    node.office.gone("n3", "n2")
    node.office.gone("n3", "n1")
    node.wait(10)
    assert node.fenced == []


def test_refusal_is_answered_when_what_it_was_decided_on_is_committed(node: Node) -> None:
    async def main() -> None:
        committed: list[asyncio.Future[int]] = []
        lease = True

        def append(records: Sequence[ClusterRecord]) -> "asyncio.Future[int]":
            del records
            committed.append(asyncio.get_running_loop().create_future())
            return committed[-1]

        node.append = append  # type: ignore[method-assign]
        node.raft.has_lease = lambda _: lease
        node.lead()
        for refusal in (TopicNotFound, ControllerUnavailable):
            before = len(committed)
            asked = asyncio.ensure_future(node.office.decide(DeleteTopic("unknown")))
            while len(committed) == before:
                await asyncio.sleep(0)
            assert not asked.done()
            committed[-1].set_result(1)
            with pytest.raises(refusal):
                await asked
            lease = False  # another node may have created the topic

    asyncio.run(main())
