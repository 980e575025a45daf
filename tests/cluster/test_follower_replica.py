"""A follower of a partition: where its log is cut, and what it takes."""

import itertools

import pytest

from goqueue.cluster.follower_replica import FollowerStage
from goqueue.cluster.replication_messages import (
    DataHeader,
    ReplicaDiverged,
    ReplicaPosition,
    decode_positions,
    encode_positions,
)
from goqueue.limits import OFFSET_MAX
from tests.cluster.replicas import LOG, Replica, exchange, state


def one_leader() -> tuple[Replica, Replica]:
    one, two = Replica("n1"), Replica("n2")
    one.lead(state("n1", 1, ("n1", "n2")))
    one.publish("a", "b")
    one.sync()
    two.follow("n1", 1)
    exchange(one, two)
    return one, two


def test_follower_has_the_records_and_the_high_watermark_of_its_leader() -> None:
    one, two = one_leader()
    assert two.records == one.records
    assert two.follower is not None
    assert two.follower.high_watermark == 3


def test_follower_that_restarts_without_its_last_records_keeps_those_of_the_same_epoch() -> None:
    """The first scenario of KIP-101: a cut to the high watermark would lose what is committed."""
    one, two = one_leader()
    one.publish("c")
    one.sync()
    exchange(one, two)
    two.restart()
    two.high_watermark = 1  # its note is old
    two.follow("n1", 1)
    exchange(one, two)

    assert two.values() == ["epoch 1", "a", "b", "c"]


def test_longer_log_of_an_older_epoch_is_cut_where_the_epoch_ended() -> None:
    """The second scenario of KIP-101: both logs have the same length, and differ."""
    one, two = one_leader()
    one.publish("lost")
    one.sync()
    two.lead(state("n2", 2, ("n2", "n1")))
    two.publish("won")
    two.sync()
    one.follow("n2", 2)
    exchange(two, one)

    assert one.values() == two.values() == ["epoch 1", "a", "b", "epoch 2", "won"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("counts", [(0, 1, 2), (2, 1, 0), (3, 3, 3)])
def test_three_histories_become_that_of_the_last_leader(order: tuple[int, ...], counts: tuple[int, ...]) -> None:
    """Leaders that fail one after the other, none of which reaches another (KIP-279)."""
    nodes = [Replica("n1"), Replica("n2"), Replica("n3")]
    for number, (place, count) in enumerate(zip(order, counts, strict=True), 1):
        nodes[place].lead(state(nodes[place].node, number))
        nodes[place].publish(*(f"{number}.{value}" for value in range(count)))
        nodes[place].sync()
    last = nodes[order[-1]]
    for place in order[:-1]:
        nodes[place].follow(last.node, 3)
        exchange(last, nodes[place])

        assert nodes[place].records == last.records
    assert last.leader is not None
    assert last.leader.high_watermark == last.end


def test_epochs_without_records_are_no_endless_loop() -> None:
    one, two = one_leader()
    for epoch in range(2, 7):
        leader, other = (two, one) if epoch % 2 else (one, two)
        leader.lead(state(leader.node, epoch, ("n1", "n2")))
        leader.sync()
        other.follow(leader.node, epoch)
        exchange(leader, other)

    assert one.records == two.records
    assert one.values()[-5:] == [f"epoch {epoch}" for epoch in range(2, 7)]


def test_log_is_cut_only_when_all_of_it_is_durable() -> None:
    one, two = one_leader()
    one.publish("lost")
    two.lead(state("n2", 2, ("n2", "n1")))
    two.sync()
    one.follow("n2", 2)
    exchange(two, one, sync=False)
    assert one.values()[-1] == "lost"

    one.sync()
    exchange(two, one)

    assert one.records == two.records


def test_nothing_committed_is_cut_off() -> None:
    one, two = one_leader()
    two.restart(loses=2)
    two.lead(state("n2", 2, ("n2",)))
    two.sync()
    follower = one.follow("n2", 2)
    exchange(two, one)

    assert one.values() == ["epoch 1", "a", "b"]
    assert "everything below 3 is committed here" in follower.problem


def test_committed_records_are_cut_off_after_an_unclean_election() -> None:
    one, two = one_leader()
    two.restart(loses=2)
    two.lead(state("n2", 2, ("n2",)))
    two.sync()
    one.follow("n2", 2, unclean_epoch=2)
    exchange(two, one)

    assert one.records == two.records
    assert one.values() == ["epoch 1", "epoch 2"]


def test_follower_below_the_start_of_the_leader_begins_anew() -> None:
    one, two = one_leader()
    del one.records[:2]
    one.start = 2
    one.lead(state("n1", 2, ("n1",)))
    one.publish("c")
    one.sync()
    two.restart(loses=2)
    two.high_watermark = 1
    two.follow("n1", 2)
    exchange(one, two)

    assert (two.start, two.records) == (2, one.records)
    assert two.follower is not None
    assert two.follower.index.last_epoch == 2


def test_follower_that_lags_behind_retention_asks_again() -> None:
    one, two = one_leader()
    one.publish("c", "d")
    one.sync()
    assert one.leader is not None
    one.leader.followers["n2"].next = 0
    two.restart(loses=3)
    two.high_watermark = 0
    two.follow("n1", 1)
    two.follower.connected() if two.follower else None
    del one.records[:4]
    one.start = 4
    one.leader.forget_below(4)
    exchange(one, two)

    assert (two.start, two.records) == (4, one.records)


def test_late_answer_changes_nothing() -> None:
    _, two = one_leader()
    follower = two.follower
    assert follower is not None
    follower.diverged(ReplicaDiverged(LOG, 1, 1, 1, 0))

    assert follower.stage is FollowerStage.STREAMING
    assert follower.effects == []


def test_data_that_does_not_follow_is_not_taken() -> None:
    _, two = one_leader()
    follower = two.follower
    assert follower is not None

    assert follower.takes(DataHeader(LOG, 1, 3, 5, 3, 0))
    assert not follower.takes(DataHeader(LOG, 1, 4, 5, 3, 0))
    assert not follower.takes(DataHeader(LOG, 2, 3, 5, 3, 0))
    follower.disconnected()
    assert not follower.takes(DataHeader(LOG, 1, 3, 5, 3, 0))
    assert follower.confirmed_end is None


def test_damaged_follower_confirms_only_what_is_sound_until_it_was_repaired() -> None:
    one, two = one_leader()
    follower, leader = two.follower, one.leader
    assert follower is not None
    assert leader is not None
    follower.is_sound_below(1)
    exchange(one, two)
    assert (leader.followers["n2"].match, follower.confirmed_end) == (1, 1)
    one.publish("c")
    one.sync()
    exchange(one, two)
    assert (leader.followers["n2"].match, follower.high_watermark) == (1, 3)

    follower.is_sound_below(OFFSET_MAX)
    exchange(one, two)
    assert (leader.followers["n2"].match, leader.high_watermark) == (4, 4)


def test_damage_that_has_taken_the_first_frame_of_an_epoch_is_cut_off() -> None:
    one, two = one_leader()
    one.lead(state("n1", 2, ("n1", "n2")))
    one.publish("c")
    one.sync()
    two.follow("n1", 2)
    exchange(one, two)
    two.restart()
    two.follow("n1", 2)
    follower = two.follower
    assert follower is not None
    follower.high_watermark, follower.index.rows = 5, follower.index.rows[:1]
    follower.is_sound_below(2)
    exchange(one, two)

    assert follower.problem == ""
    assert follower.index.last_epoch == 2
    assert two.records == one.records


def test_follower_whose_first_messages_are_gone_begins_anew() -> None:
    one, two = one_leader()
    follower = two.follower
    assert follower is not None
    follower.disconnected()
    follower.lacks_beginning = True
    follower.index.forget_below(1)
    follower.connected()
    exchange(one, two)

    assert two.records == one.records
    assert not follower.lacks_beginning


def test_headers_and_positions_are_decoded_as_they_were_encoded() -> None:
    header = DataHeader(LOG, 3, 1 << 40, (1 << 40) + 5, 7, 2, has_gaps=True)
    rows = [ReplicaPosition(LOG, 3, 9, 1), ReplicaPosition(LOG, 4, 1 << 50)]

    assert DataHeader.decode(header.encode() + b"frames") == header
    assert list(decode_positions(encode_positions(rows))) == rows
