"""Pitfalls of controllers that others have met, each as a story of a simulated cluster.

The oracles look at every step, so most stories only say what happens and what must have come of it.
"""

from itertools import combinations, permutations

import pytest

from goqueue.cluster.messages import Send, VoteAnswer, VoteRequest
from tests.simulation.cluster.plan import agree, restore_links, settle
from tests.simulation.cluster.universe import ELECTION, MS, SECOND, SimulatedNode, Universe

LINKS = tuple(permutations(("n1", "n2", "n3"), 2))


def cluster(count: int = 3, seed: int = 1) -> tuple[Universe, SimulatedNode]:
    """A cluster with a leader."""
    universe = Universe(seed, count)
    universe.start()
    return universe, lead(universe)


def lead(universe: Universe) -> SimulatedNode:
    """Wait for a leader that has committed something in its term."""

    def has_leader() -> bool:
        return any(one.raft is not None and one.raft.is_controller for one in universe.leaders())

    assert universe.run(10 * ELECTION, until=has_leader)
    return next(one for one in universe.leaders() if one.raft is not None and one.raft.is_controller)


def others(universe: Universe, *nodes: SimulatedNode) -> list[SimulatedNode]:
    return [one for one in universe.nodes if one not in nodes]


def isolate(universe: Universe, node: SimulatedNode) -> None:
    for one in universe.nodes:
        universe.cut |= {(node.me.node, one.me.node), (one.me.node, node.me.node)}


def converge(universe: Universe) -> None:
    settle(universe)
    restore_links(universe)
    agree(universe)


def test_crash_between_decision_and_sync_of_a_vote_leaves_no_trace_of_the_vote() -> None:
    universe, leader = cluster()
    voter = others(universe, leader)[0]
    voter.stalled_until = universe.now + 60 * SECOND
    leader.crash()
    universe.run(4 * ELECTION)

    assert not universe.leaders(), "the vote is on no disk, so it is not answered"
    voter.crash()
    leader.start()
    voter.stalled_until = 0
    voter.start()
    converge(universe)


def test_isolated_node_that_believes_all_others_dead_does_not_lead() -> None:
    universe, leader = cluster()
    for one in others(universe, leader):
        one.crash()

    universe.run(6 * ELECTION)

    assert not universe.leaders()


def test_record_of_a_deposed_leader_is_never_committed() -> None:
    universe, old = cluster()
    isolate(universe, old)
    old.propose(-1)
    new = lead_without(universe, old)
    assert old.raft is not None
    assert not old.raft.is_leader

    universe.cut.clear()
    universe.run(4 * ELECTION)

    assert new.raft is not None
    assert new.raft.is_leader
    assert all(entry.value != -1 for node in universe.nodes for entry in node.entries)


def lead_without(universe: Universe, node: SimulatedNode) -> SimulatedNode:
    """Wait until another node leads and this one has noticed."""

    def has_changed() -> bool:
        leading = universe.leaders()
        return len(leading) == 1 and leading[0] is not node

    assert universe.run(10 * ELECTION, until=has_changed)
    return universe.leaders()[0]


def test_five_elections_without_traffic_leave_five_epochs_on_all_nodes() -> None:
    universe, leader = cluster()
    universe.is_quiet = True
    for _ in range(5):
        leader.crash()
        following = lead(universe)
        leader.start()
        universe.run(3 * ELECTION)
        leader = following

    epochs = [sorted({entry.epoch for entry in node.entries}) for node in universe.nodes]

    assert len(epochs[0]) >= 6
    assert epochs == [epochs[0]] * 3


def test_three_histories_of_brief_leaders_become_one() -> None:
    universe, first = cluster(5)
    for number in range(3):
        leader = lead(universe)
        isolate(universe, leader)
        for value in range(number + 1):
            leader.propose(-100 * (number + 1) - value)  # it reaches no other node
        universe.run(100 * MS)
        leader.crash()
        universe.cut.clear()
        lead(universe)
        leader.start()
    del first

    converge(universe)

    lengths = {len(node.entries) for node in universe.nodes}
    assert len(lengths) == 1
    assert all(isinstance(entry.value, int) and entry.value > -100 for node in universe.nodes for entry in node.entries)


def test_leader_that_restarts_with_a_shorter_log_does_not_lead_in_its_term() -> None:
    """It has sent what it had not synced; its offsets must not be given out again in that epoch."""
    universe, leader = cluster()
    leader.stalled_until = universe.now + 60 * SECOND
    leader.propose(1000)
    universe.run(50 * MS)
    assert leader.raft is not None
    term = leader.raft.term
    leader.stalled_until = 0
    leader.crash()

    leader.start()

    assert leader.raft.term == term
    assert not leader.raft.is_leader
    converge(universe)
    new = lead(universe)
    assert new.raft is not None
    assert new.raft.term > term


@pytest.mark.parametrize("count", [3, 5])
def test_majority_of_empty_disks_elects_no_leader(count: int) -> None:
    universe, leader = cluster(count)
    for one in others(universe, leader)[: count // 2 + 1]:
        one.wipe()
        one.start()
    universe.introduce_observers()

    universe.run(8 * ELECTION)

    assert not universe.leaders()


def test_node_with_an_empty_disk_follows_without_a_vote() -> None:
    universe, leader = cluster()
    follower = others(universe, leader)[0]
    follower.wipe()
    follower.start()
    universe.introduce_observers()

    converge(universe)

    assert follower.raft is not None
    assert follower.raft.role == "observer"
    assert follower.saved.candidate is None


def test_power_loss_of_all_and_a_late_start_of_the_longest_loses_nothing() -> None:
    universe, leader = cluster(5)
    universe.run(3 * SECOND)
    committed = len(universe.oracles.committed)
    for node in universe.nodes:
        node.crash()
    shortest_first = sorted(universe.nodes, key=lambda node: len(node.entries))
    for node in shortest_first:
        node.start()
        universe.run(2 * SECOND)
    del leader

    converge(universe)

    assert all(len(node.entries) >= committed for node in universe.nodes)


def test_leader_with_a_stalled_disk_hands_over_although_its_heartbeats_go_on() -> None:
    universe, leader = cluster()
    leader.stalled_until = universe.now + 60 * SECOND

    new = lead_without(universe, leader)

    assert new is not leader
    universe.run(4 * ELECTION)
    assert universe.leaders() == [new]


@pytest.mark.parametrize("count", range(len(LINKS) + 1))
def test_cluster_works_under_each_set_of_cut_links_that_leaves_two_nodes_connected(count: int) -> None:
    for number, cut in enumerate(combinations(LINKS, count)):
        universe, _ = cluster(seed=count * 100 + number)
        universe.cut = set(cut)
        connected = any({(a, b), (b, a)}.isdisjoint(cut) for a, b in combinations(("n1", "n2", "n3"), 2))
        universe.run(10 * ELECTION)
        before = len(universe.oracles.committed)
        universe.run(5 * ELECTION)
        if connected:
            assert len(universe.oracles.committed) > before, f"without {cut}"
        converge(universe)


def test_leader_that_wakes_from_a_pause_leads_no_more() -> None:
    universe, leader = cluster()
    leader.paused_until = universe.now + 5 * SECOND

    def has_two() -> bool:
        return any(one is not leader for one in universe.leaders())

    assert universe.run(5 * SECOND, until=has_two)
    new = next(one for one in universe.leaders() if one is not leader)

    universe.run(6 * SECOND)

    assert universe.leaders() == [new]
    assert leader.raft is not None
    assert not leader.raft.has_lease(leader.clock())


def test_leader_in_a_minority_has_no_lease_before_another_is_elected() -> None:
    universe, leader = cluster(5)
    isolate(universe, leader)

    def has_another() -> bool:
        return any(one is not leader for one in universe.leaders())

    assert universe.run(10 * ELECTION, until=has_another)
    assert leader.raft is not None
    assert not leader.raft.has_lease(leader.clock())


def test_voter_that_restarts_grants_no_vote_while_a_lease_that_it_confirmed_may_hold() -> None:
    universe, leader = cluster()
    voter, candidate = others(universe, leader)
    asked = VoteRequest(1000, 999, 999, pre_vote=True)
    voter.crash()
    voter.start()
    assert voter.raft is not None

    def is_granted() -> bool:
        assert voter.raft is not None
        voter.raft.receive(candidate.me, asked, voter.clock())
        answers = [one.message for one in voter.raft.effects if isinstance(one, Send)]
        voter.raft.effects.clear()
        return any(isinstance(one, VoteAnswer) and one.granted for one in answers)

    assert not is_granted()
    isolate(universe, voter)
    universe.run(ELECTION * 11 // 10)
    assert is_granted()


def test_clean_stop_hands_over_without_an_election_timeout() -> None:
    universe, leader = cluster()
    universe.run(ELECTION)
    assert leader.raft is not None
    assert leader.raft.transfer(leader.clock()) is not None
    leader.work()

    def has_another() -> bool:
        return any(one is not leader and one.raft is not None and one.raft.is_controller for one in universe.leaders())

    assert universe.run(ELECTION // 4, until=has_another)


def test_leader_whose_process_is_gone_is_replaced_within_a_quarter_of_the_timeout() -> None:
    universe, leader = cluster()
    universe.run(ELECTION)
    leader.crash()
    for one in others(universe, leader):
        assert one.raft is not None
        one.call(one.raft.refused, leader.me.node)

    def has_another() -> bool:
        return any(one.raft is not None and one.raft.is_controller for one in universe.leaders())

    assert universe.run(ELECTION // 4, until=has_another)
