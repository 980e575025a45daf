"""The lease with which a leader answers alone."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from goqueue.clock import NANOSECONDS
from goqueue.cluster.peer_messages import PeerMessage, Renew, Renewed
from goqueue.events import Signal
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.cluster.serving_lease import ServingLease


class Raft:
    """The election as a node knows it."""

    def __init__(self, *, is_controller: bool) -> None:
        self.is_leader = self.is_controller = self.majority = is_controller
        self.voters = [SimpleNamespace(node=name) for name in ("n1", "n2", "n3")]

    def has_lease(self, _: int) -> bool:
        return self.majority


class Node:
    """A node with a session of one second, connected with another one."""

    def __init__(self, name: str, controller: str) -> None:
        self.sent: list[PeerMessage] = []
        self.seconds = 100.0
        me, leader = SimpleNamespace(node=name), SimpleNamespace(node=controller)
        self.note = SimpleNamespace(me=me)
        self.controller = me if name == controller else leader
        self.raft = Raft(is_controller=name == controller)
        self.settings = SimpleNamespace(session_ns=NANOSECONDS)
        self.fenced: set[str] = set()
        self.office = SimpleNamespace(may_lead=lambda node: node not in self.fenced)
        links = {other: None for other in ("n1", "n2", "n3") if other != name}
        self.network = SimpleNamespace(send=lambda _, message: self.sent.append(message), links=links)
        self.handlers: dict[type, Any] = {}
        self.on_disconnected: Signal[[str]] = Signal()
        self.lease = ServingLease(cast(Any, self))

    def now(self) -> int:
        return round(self.seconds * NANOSECONDS)

    def hear(self, sender: str, message: Renew | Renewed) -> None:
        self.lease.received(cast(PeerLink, SimpleNamespace(node=sender, send=self.sent.append)), message)


@pytest.fixture
def leased() -> Node:
    """Node n2, whose lease was renewed by n1."""
    node = Node("n2", "n1")
    node.lease.renew()
    (asked,) = node.sent
    assert isinstance(asked, Renew)
    node.hear("n1", Renewed(asked.sent_ns))
    return node


def test_lease_counts_from_the_question_and_ends_before_the_session(leased: Node) -> None:
    leased.seconds += 0.79
    assert leased.lease.is_held
    leased.seconds += 0.02
    assert not leased.lease.is_held


def test_lease_ends_with_the_connection_to_the_controller(leased: Node) -> None:
    leased.lease.ended("n3")
    assert leased.lease.is_held
    leased.lease.ended("n1")
    assert not leased.lease.is_held


def test_lease_of_the_controller_ends_when_it_is_not_connected_with_a_majority() -> None:
    node, held = Node("n1", "n1"), list[bool]()
    for other in ("n2", "n3"):
        del node.network.links[other]
        held.append(node.lease.is_held)

    assert held == [True, False]
    node.hear("n3", Renew(5))
    assert node.sent == []


def test_late_answer_does_not_shorten_a_lease(leased: Node) -> None:
    leased.hear("n1", Renewed(0))
    assert leased.lease.is_held


def test_controller_renews_the_lease_of_nodes_that_it_has_not_fenced() -> None:
    node = Node("n1", "n1")
    node.hear("n2", Renew(7))
    node.fenced.add("n3")
    node.hear("n3", Renew(8))
    assert node.sent == [Renewed(7)]


def test_controller_without_its_majority_renews_nothing_and_has_no_lease() -> None:
    node = Node("n1", "n1")
    assert node.lease.is_held
    node.raft.majority = False
    node.hear("n2", Renew(7))
    assert node.sent == []
    assert not node.lease.is_held
