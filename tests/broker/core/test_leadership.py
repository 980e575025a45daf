"""Refusals of nodes that may not answer for a partition of a cluster."""

import pytest

from goqueue.broker.core.leadership import Leadership
from goqueue.errors import LeaderUnavailable, NotEnoughReplicas, NotLeader


def leadership(*, leader: str = "n1", is_leading: bool = True, has_lease: bool = True) -> Leadership:
    addresses = {"n1": "http://10.0.0.1:8080", "n2": "http://10.0.0.2:8080"}
    made = Leadership("orders", 3, "n1", addresses.get, lambda: has_lease)
    made.leader, made.leader_epoch, made.is_leading = leader, 5, is_leading
    made.replicas = made.isr = ("n1", "n2", "n3")
    made.min_isr = 2
    return made


def test_leader_answers() -> None:
    leadership().refuse_unless_leader()


def test_follower_names_the_leader_with_its_address() -> None:
    with pytest.raises(NotLeader, match="partition 3 of topic 'orders' is led by node n2, not by node n1") as caught:
        leadership(leader="n2", is_leading=False).refuse_unless_leader()
    assert caught.value.details == {
        "topic": "orders",
        "partition": 3,
        "leader": "n2",
        "leader_address": "http://10.0.0.2:8080",
        "leader_epoch": 5,
    }


def test_partition_without_a_leader_is_unavailable() -> None:
    with pytest.raises(LeaderUnavailable, match="has no leader now"):
        leadership(leader="", is_leading=False).refuse_unless_leader()


def test_node_that_knows_no_leader_yet_does_not_say_that_there_is_none() -> None:
    unknown = Leadership("orders", 3, "n1")
    with pytest.raises(LeaderUnavailable, match="n1 does not know yet which node leads partition 3 of topic 'orders'"):
        unknown.refuse_unless_leader()
    assert "n1 does not know yet which node leads orders/3" in unknown.other_coordinator().sentence


def test_new_leader_is_unavailable_until_it_has_taken_over() -> None:
    with pytest.raises(LeaderUnavailable, match="node n1 is taking over"):
        leadership(is_leading=False).refuse_unless_leader()


def test_leader_without_its_lease_does_not_answer() -> None:
    with pytest.raises(LeaderUnavailable, match="the controller has not confirmed that in time"):
        leadership(has_lease=False).refuse_unless_leader()


def test_leader_shows_the_end_only_once_it_is_settled_and_while_it_has_its_lease() -> None:
    for has_lease in (True, False):
        for is_settled in (True, False):
            role = leadership(has_lease=has_lease)
            role.is_settled = is_settled
            assert role.shows_end == (has_lease and is_settled)


def test_publish_for_all_replicas_needs_enough_of_them() -> None:
    alone = leadership()
    alone.isr = ("n1",)
    with pytest.raises(NotEnoughReplicas, match="has 1 replica in sync, and min_isr is 2"):
        alone.refuse_unless_enough()
    leadership().refuse_unless_enough()


def test_node_that_hands_over_takes_nothing_and_says_why() -> None:
    role = Leadership("orders", 3, "n1")
    role.leader, role.is_leading = "n1", True
    role.refuse_unless_leading()
    role.hand_over()
    with pytest.raises(LeaderUnavailable, match="node n1 stops and hands partition 3 of topic 'orders' over"):
        role.refuse_unless_leading()
