"""Elections after the process of the leader has ended: the voters take turns, so that they do not split the votes."""

from itertools import pairwise

from goqueue.cluster.epoch_index import EpochIndex
from goqueue.cluster.messages import NodeIdentity, Vote
from goqueue.cluster.raft import Raft
from goqueue.cluster.raft_state import RaftSettings
from goqueue.cluster.voters import VoterHistory

MS = 1_000_000
VOTERS = tuple(NodeIdentity(node, "d") for node in ("n1", "n2", "n3", "n4", "n5"))
NOW = 10_000 * MS


def wait_ms(me: NodeIdentity, leader: NodeIdentity, chance: float) -> float:
    """Return how long a voter waits that has seen the end of its leader's process."""
    raft = Raft(RaftSettings(), me, VoterHistory(VOTERS), Vote(0), EpochIndex([], 0), lambda: chance, 0)
    raft.leader = leader
    raft.refused(leader.node, NOW)
    return (raft.deadline() - NOW) / MS


def test_each_voter_waits_until_the_one_before_it_can_be_elected() -> None:
    first, *others = VOTERS
    waits = [(wait_ms(one, first, 0.0), wait_ms(one, first, 1.0)) for one in others]
    assert waits[0] == (2.0, 17.0)
    assert all(latest < earliest for (_, latest), (earliest, _) in pairwise(waits))


def test_no_voter_waits_for_the_turn_of_the_one_that_has_ended() -> None:
    *_, before_last, last = VOTERS
    assert wait_ms(last, before_last, 0.0) == wait_ms(before_last, last, 0.0)


def test_each_attempt_of_a_voter_leaves_the_others_more_time_to_answer() -> None:
    """A disk that takes long to keep a vote must not keep a cluster without a controller."""
    leader, me, *_ = VOTERS
    raft = Raft(RaftSettings(), me, VoterHistory(VOTERS), Vote(0), EpochIndex([], 0), lambda: 0.5, 0)
    raft.leader = leader
    raft.refused(leader.node, NOW)
    waits, now = [], NOW
    for _ in range(4):
        waits.append((raft.deadline() - now) / MS)
        now = raft.deadline()
        raft.tick(now)
    assert waits == [9.5, 76.0, 152.0, 304.0]
