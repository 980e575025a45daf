"""Groups in a cluster: each is coordinated by the node that leads the log of its group."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from goqueue.broker.core.leadership import Leadership
from goqueue.broker.groups.shards import GroupShards
from goqueue.runtime.cluster.leader_shards import LeaderShards
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.testing.broker import LocalBroker
from tests.api.members import Member
from tests.api.wire import until
from tests.brokers import ask, create, publish

ADDRESS = "http://10.0.0.2:8080"
BILLING = "billing"


class Node:
    """A broker that is node n1 of a cluster: it leads all logs of groups at first."""

    def __init__(self, broker: LocalBroker) -> None:
        self.broker, self.url = broker, broker.url
        self.has_lease = True
        self.groups: GroupShards = broker.daemon.runtime.broker.groups
        self.on_loop(self._begin)

    def on_loop(self, action: Callable[[], Any]) -> Any:
        async def act() -> Any:
            return action()

        return asyncio.run_coroutine_threadsafe(act(), self.broker.daemon.runtime.turn.loop).result(10)

    def _begin(self) -> None:
        for partition in self.groups.partitions:
            self.groups.close(partition.number)
            partition.leadership = Leadership(
                partition.topic, partition.number, "n1", lambda _: ADDRESS, lambda: self.has_lease
            )
        self.shards = LeaderShards(self.groups, OwnedTasks("a test", lambda: None))
        for number in range(len(self.groups.partitions)):
            self._set(number, "n1", 1)
        self.shards.look()

    def _set(self, number: int, leader: str, epoch: int) -> None:
        partition = self.groups.partitions[number]
        leadership = partition.leadership
        assert leadership is not None
        leadership.leader, leadership.leader_epoch = leader, epoch
        leadership.is_leading = leadership.is_settled = leader == "n1"
        partition.wake()

    def polls_of(self, member: Member) -> int:
        """The number of waiting polls of a member."""
        sessions = self.groups.of(member.group).rebalancer.group_session(member.group)
        return sessions.members[member.id].polls

    def lead(self, leader: str, epoch: int, group: str = BILLING) -> None:
        """Let a node lead the log of a group."""
        self.on_loop(lambda: self._set(self.groups.number(group), leader, epoch))


@pytest.fixture
def node(broker: LocalBroker) -> Iterator[Node]:
    create(broker.url, "orders")
    publish(broker.url, "orders", "a", "b")
    made = Node(broker)
    yield made
    made.on_loop(made.shards.stop)


def test_group_is_served_by_the_leader_of_its_log(node: Node) -> None:
    member = Member(node.url).join()
    assert [one["value"] for one in member.poll()] == ["a", "b"]


def test_node_without_a_lease_coordinates_no_longer_until_it_has_one(node: Node) -> None:
    member = Member(node.url).join()
    member.poll()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(member.polled, timeout="50s")
        until(node.url, lambda: node.polls_of(member))
        node.has_lease = False
        assert waiting.result().code == "leader_unavailable", "it would keep a member from the next coordinator"
    node.has_lease = True
    until(node.url, lambda: member.polled().status == 200)


def test_other_nodes_name_the_coordinator(node: Node) -> None:
    member = Member(node.url).join()
    node.lead("n2", 2)
    until(node.url, lambda: member.polled().status == 421)
    answer = member.polled()
    assert answer.code == "not_coordinator"
    number = node.groups.number(BILLING)
    assert answer.json["details"] == {
        "coordinator": "n2", "coordinator_address": ADDRESS, "log": f"__consumer_offsets/{number}",
    }  # fmt: skip
    for path in ("/heartbeat", "/leave"):
        assert member.ask("POST", path, {"member_id": member.id}).status == 421
    assert ask(node.url, "GET", f"/groups/{BILLING}").status == 421


def test_groups_of_other_logs_go_on(node: Node) -> None:
    other = next(name for name in ("a", "b", "c", "d") if node.groups.number(name) != node.groups.number(BILLING))
    node.lead("n2", 2)
    until(node.url, lambda: Member(node.url).ask("GET", "").status == 421)
    assert len(Member(node.url, other).join().poll()) == 2


def test_waiting_poll_is_answered_when_the_coordinator_moves(node: Node) -> None:
    member = Member(node.url).join()
    member.poll()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(member.polled, timeout="25s")
        until(node.url, lambda: node.polls_of(member))
        node.lead("n2", 2)
        answer = waiting.result()
    assert (answer.status, answer.code) == (421, "not_coordinator")


def test_group_without_a_leader_asks_for_patience(node: Node) -> None:
    node.lead("", 2)
    until(node.url, lambda: Member(node.url).ask("GET", "").code == "leader_unavailable")
    assert Member(node.url).ask("GET", "").status == 503


def test_members_and_leases_survive_a_change_of_the_coordinator(node: Node) -> None:
    member = Member(node.url).join()
    first, second = member.poll()
    member.settle(acks=[{"topic": "orders", "partition": 0, "lease": lease_of(first), "ranges": [[0, 1]]}])

    node.lead("n2", 2)
    until(node.url, lambda: member.polled().status == 421)
    node.lead("n1", 3)
    until(node.url, lambda: member.polled().status == 200)

    assert member.beat()["generation"] == member.generation, "the members noticed a rebalance"
    assert member.poll() == [], "what is leased was handed out again"
    settled = member.settle(acks=[{"topic": "orders", "partition": 0, "lease": lease_of(second), "ranges": [[1, 2]]}])
    assert settled["acks"] == [{}]


def test_group_is_opened_anew_in_another_epoch_of_the_same_leader(node: Node) -> None:
    before = node.on_loop(lambda: list(node.groups))
    node.lead("n1", 5)
    until(node.url, lambda: node.on_loop(lambda: len(list(node.groups))) == len(before))
    assert len(set(before) - set(node.on_loop(lambda: list(node.groups)))) == 1


def test_group_is_not_opened_before_the_leader_has_settled(node: Node) -> None:
    number = node.groups.number(BILLING)
    node.lead("n2", 2)
    until(node.url, lambda: Member(node.url).ask("GET", "").status == 421)

    def take_over() -> None:
        leadership = node.groups.partitions[number].leadership
        assert leadership is not None
        leadership.leader, leadership.leader_epoch, leadership.is_leading = "n1", 3, True
        node.groups.partitions[number].wake()

    node.on_loop(take_over)
    assert Member(node.url).ask("GET", "").code == "leader_unavailable"
    node.lead("n1", 3)
    until(node.url, lambda: Member(node.url).ask("GET", "").code == "group_not_found")


def lease_of(message: dict[str, Any]) -> str:
    return str(message["receipt_handle"]).rpartition(":")[2]
