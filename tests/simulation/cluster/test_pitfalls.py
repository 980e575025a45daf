"""Pitfalls of controllers that others have met, each as a story of a simulated cluster.

The oracles look at every step, so most stories only say what happens and what must have come of it.
"""

from itertools import combinations, permutations

import pytest

from goqueue.cluster.messages import NodeIdentity, Send, VoteAnswer, VoteRequest
from goqueue.cluster.voters import is_one_step
from tests.simulation.cluster.plan import agree, restore_links, settle, settle_voters
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


# --- changes of the voters (pitfall 22) ---


def voters_of(node: SimulatedNode) -> set[str]:
    assert node.raft is not None
    return {one.directory for one in node.raft.voters}


def replace_lost(universe: Universe) -> None:
    """Let the controller replace voters whose disks were lost, until all nodes have a vote."""
    universe.is_peaceful = universe.replaces_voters = True
    universe.replace_voters()
    settle_voters(universe)


def test_lost_voter_is_replaced_and_then_another_one_may_be_lost() -> None:
    universe, leader = cluster()
    lost, other = others(universe, leader)
    lost.wipe()
    lost.start()
    replace_lost(universe)
    assert voters_of(other) == {"n1-1", "n2-1", "n3-1"} - {f"{lost.me.node}-1"} | {f"{lost.me.node}-2"}

    other.crash()
    committed = len(universe.oracles.committed)
    universe.run(8 * ELECTION)

    assert len(universe.oracles.committed) > committed


def test_change_of_voters_that_was_not_committed_is_reverted_with_its_record() -> None:
    universe, first = cluster()
    isolate(universe, first)
    assert first.raft is not None
    assert first.change_voters(first.raft.voters - {others(universe, first)[0].me})
    assert len(voters_of(first)) == 2, "it counts from its append on"

    universe.run(6 * ELECTION)
    converge(universe)

    assert len(voters_of(first)) == 3
    assert all(not entry.voters for entry in universe.oracles.committed)


def test_change_of_voters_survives_the_crash_of_all_nodes_that_have_it() -> None:
    universe, leader = cluster(5)
    gone = others(universe, leader)[0]
    assert leader.raft is not None
    assert leader.change_voters(leader.raft.voters - {gone.me})
    assert universe.run(4 * SECOND, until=lambda: universe.oracles.voters == leader.raft.voters)  # type: ignore[union-attr]
    for node in universe.nodes:
        node.crash()

    converge(universe)

    assert all(len(voters_of(node)) == 4 for node in universe.nodes)


def test_removed_voter_neither_leads_nor_disturbs_when_it_returns_with_its_disk() -> None:
    universe, leader = cluster()
    gone = others(universe, leader)[0]
    isolate(universe, gone)
    assert leader.raft is not None
    assert leader.change_voters(leader.raft.voters - {gone.me})
    universe.run(6 * ELECTION)
    term = leader.raft.term
    assert leader.raft.is_controller
    assert len(voters_of(gone)) == 3, "it does not know yet"

    universe.cut.clear()
    universe.introduce_observers()
    universe.run(6 * ELECTION)

    assert leader.raft.is_controller
    assert leader.raft.term == term
    assert gone.raft is not None
    assert gone.raft.role == "observer"


def test_second_change_waits_until_the_first_is_committed() -> None:
    universe, leader = cluster(5)
    first, second = (one.me for one in others(universe, leader)[:2])
    isolate(universe, leader)
    assert leader.raft is not None
    assert leader.change_voters(leader.raft.voters - {first})

    assert leader.raft.refuse_voters(leader.raft.voters - {second}) == "the change before this one is not committed yet"


def test_new_leader_changes_no_voters_before_it_has_committed_a_record_of_its_term() -> None:
    universe, first = cluster(5)
    isolate(universe, first)
    universe.run(6 * ELECTION, until=lambda: bool(others_leading(universe, first)))
    (second,) = others_leading(universe, first)
    assert second.raft is not None

    assert second.raft.refuse_voters(second.raft.voters - {first.me}) == f"node {second.me.node} is not the controller"
    universe.run(ELECTION)
    assert second.change_voters(second.raft.voters - {first.me})


def others_leading(universe: Universe, node: SimulatedNode) -> list[SimulatedNode]:
    return [one for one in universe.leaders() if one is not node]


def test_node_that_lacks_records_gets_no_vote() -> None:
    universe, leader = cluster()
    lost = others(universe, leader)[0]
    lost.wipe()
    lost.start()
    assert leader.raft is not None
    assert leader.change_voters({one for one in leader.raft.voters if one.node != lost.me.node})  # type: ignore[arg-type]
    universe.run(2 * SECOND)

    refusal = leader.raft.refuse_voters(leader.raft.voters | {lost.me})

    assert refusal is not None
    assert refusal.startswith(f"node {lost.me.node} has 0 of ")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_majorities_before_and_after_one_change_have_a_node_in_common(count: int) -> None:
    nodes = [NodeIdentity(f"n{number}", "d") for number in range(count + 1)]
    before = frozenset(nodes[:count])
    steps = [before | {nodes[count]}, *(before - {one} for one in before)]
    assert not is_one_step(before, before - {nodes[0]} | {NodeIdentity("n0", "another directory")})
    for after in steps:
        assert is_one_step(before, after) == bool(after)
        for one in combinations(sorted(before), len(before) // 2 + 1):
            for other in combinations(sorted(after), len(after) // 2 + 1):
                assert set(one) & set(other)
