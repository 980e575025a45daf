"""What is acknowledged in a transaction is nobody's until that has come to its end; then it is done, or comes again."""

import errno
from collections.abc import Callable

import pytest

from goqueue.broker.delivery.changes import Range
from goqueue.broker.delivery.claims import Statement
from goqueue.broker.delivery.receipt import Receipt
from goqueue.broker.delivery.settlement import Outcome, Verdict
from goqueue.broker.delivery.taking import Portion
from goqueue.broker.transactions.whose import Whose
from goqueue.errors import (
    DiskFull,
    GenerationStale,
    GroupNameInvalid,
    LeaseExpired,
    OffsetOutOfRange,
    PartitionNotFound,
    PartitionNotOwned,
    ReceiptInvalid,
    TopicNotFound,
    TransactionPending,
)
from goqueue.storage.frame import NORMAL
from tests.broker.brokers import Told
from tests.broker.delivery.test_receipt import receipts_of
from tests.broker.groupwork import GATHERED, ORDERS, TRANSACTION, Team, offsets_of, values_of
from tests.broker.transactions.traffic import Traffic

NEVER = 3600.0
OTHER = Whose(8, 0)
CRITICAL = 0


def team_with(*values: str, in_flight_max: int = 1000) -> tuple[Team, str]:
    team = Team()
    team.publish(*values)
    return team, team.join(in_flight_max=in_flight_max)


def waiter(team: Team, member: str) -> list[str]:
    """Has the member's name once it is woken."""
    woken: list[str] = []
    team.coordinator.membership.presence("team", member).waiting[lambda: woken.append(member)] = None
    return woken


# --- acknowledgements ---


def test_what_is_pledged_comes_to_nobody_while_its_transaction_is_open() -> None:
    team, one = team_with("a", "b", "c")
    team.pledge(team.take(one), (0, 2), (2, 3))
    team.due(29.0)
    team.heartbeat(one)
    team.due(29.0)
    assert team.poll(one) == []
    team.leave(one)
    assert team.poll(team.join("two")) == []


def test_what_was_pledged_is_done_once_the_transaction_is_committed_whatever_crashes() -> None:
    team, one = team_with("a", "b", "c")
    team.pledge(team.take(one), (0, 1), (2, 3))
    team = team.crash()
    team.redeem(is_commit=True)
    team = team.crash()
    assert (team.cursor().floor, team.cursor().settled()) == (1, [(2, 3)])
    team.due(31.0)
    assert values_of(team.poll(team.join("two"))) == ["b"]


def test_what_was_pledged_comes_again_at_once_when_the_transaction_is_aborted_whatever_crashes() -> None:
    team, one = team_with("a", "b", "c")
    team.pledge(team.take(one), (0, 2))
    team = team.crash()
    team.redeem(is_commit=False)
    team = team.crash()
    again = team.take(one)
    assert (values_of([again]), again.grant.deliveries, again.grant.failures) == (["a", "b"], 2, 1)


def test_what_was_not_answered_may_be_pledged_or_not_and_the_transaction_ends_all_the_same() -> None:
    team, one = team_with("a")
    told = team.ask_to_pledge(one, team.statement("ack", team.take(one)))
    team = team.crash()
    assert told.all == []
    team.redeem(is_commit=False)
    assert team.cursor().pledged.count == 0


def test_an_end_that_is_no_fault_of_the_messages_is_not_counted_against_them() -> None:
    team, one = team_with("a")
    team.pledge(team.take(one))
    team.redeem(is_commit=False, failed=False)
    again = team.take(one).grant
    assert (again.deliveries, again.failures) == (2, 0)


def test_the_end_may_be_told_again() -> None:
    team, one = team_with("a", "b")
    team.pledge(team.take(one, 1))
    team.redeem(is_commit=True)
    team.pledge(team.take(one, 1), whose=OTHER)
    team.redeem(is_commit=True)
    team.redeem(is_commit=False)
    assert (team.cursor().floor, team.cursor().pledged.count) == (1, 1)
    assert team.coordinator.settlement.counts.acks == 1


def test_of_a_group_that_is_gone_nothing_is_left_to_be_redeemed() -> None:
    team, one = team_with("a")
    team.pledge(team.take(one))
    team.leave(one)
    told: Told[object] = Told()
    team.coordinator.membership.delete("team", told)
    team.redeem(is_commit=False)
    assert team.coordinator.pledges.standing("team") == set()
    assert team.coordinator.pledges.count("team", TRANSACTION) == 0


def test_an_ack_may_be_repeated_in_the_same_transaction_and_in_no_other() -> None:
    team, one = team_with("a", "b", "c")
    portion = team.take(one)
    team.pledge(portion, (0, 2))
    team.pledge(portion, (0, 2))
    team.pledge(portion, (0, 3))
    team.pledge(portion)
    assert team.coordinator.pledges.count("team", TRANSACTION) == 3
    with pytest.raises(LeaseExpired):
        team.pledge(portion, (0, 1), whose=OTHER)
    with pytest.raises(LeaseExpired):
        team.ack(portion, (0, 1))


def retaken(team: Team, member: str) -> tuple[Portion, Portion]:
    """A lease that has expired, and the next one of the same messages."""
    lost = team.take(member, visibility=5.0)
    team.due(6.0)
    return lost, team.take(member)


def commit_pledge(team: Team, portion: Portion) -> None:
    team.pledge(portion, whose=OTHER)
    team.redeem(is_commit=True, whose=OTHER)


@pytest.mark.parametrize(
    "settle",
    [
        Team.ack,
        commit_pledge,
        lambda team, portion: team.commit(portion.grant.member, portion.grant.end),
        lambda team, _: team.reset("latest"),
    ],
    ids=["ack", "transaction", "offset", "reset"],
)
def test_lost_lease_is_not_pledged_after_its_messages_were_settled(settle: Callable[[Team, Portion], object]) -> None:
    team, one = team_with("a", "b", "c")
    lost, again = retaken(team, one)
    settle(team, again)
    assert (team.cursor().floor, team.cursor().position) == (3, 3)
    for ranges in ((0, 3), (1, 2)):
        with pytest.raises(LeaseExpired):
            team.pledge(lost, ranges)
    assert {type(verdict) for verdict in pledge_receipts(team, receipts_of(lost))} == {LeaseExpired}
    assert team.coordinator.pledges.standing("team") == set()


@pytest.mark.parametrize("is_redelivered", [True, False])
def test_lease_of_which_a_part_was_settled_is_not_pledged_whole(is_redelivered: bool) -> None:
    team, one = team_with("a", "b", "c")
    portion = team.take(one)
    if is_redelivered:
        team.nack(portion, (1, 2), delay=0.0)
        team.ack(team.take(one))
    else:
        team.ack(portion, (1, 2))
    for ranges in ((0, 3), (0, 2), (1, 2), (1, 3)):
        with pytest.raises(LeaseExpired):
            team.pledge(portion, ranges)
    assert team.coordinator.pledges.count("team", TRANSACTION) == 0
    team.pledge(portion, (0, 1), (2, 3))
    assert team.coordinator.pledges.count("team", TRANSACTION) == 2


def test_part_that_an_earlier_transaction_has_committed_is_not_pledged_again() -> None:
    team, one = team_with("a", "b", "c")
    portion = team.take(one)
    team.pledge(portion, (0, 1), whose=OTHER)
    with pytest.raises(LeaseExpired):
        team.pledge(portion)
    team.redeem(is_commit=True, whose=OTHER)
    with pytest.raises(LeaseExpired):
        team.pledge(portion)
    assert team.coordinator.pledges.count("team", TRANSACTION) == 0


def test_earlier_delivery_is_not_pledged_with_a_later_one_in_the_same_transaction() -> None:
    team, one = team_with("a", "b", "c")
    lost = team.take(one, visibility=5.0)
    team.pledge(lost, (0, 1))
    team.due(6.0)
    again = team.take(one)
    assert again.grant.deliveries == 2
    team.pledge(again)
    with pytest.raises(LeaseExpired):
        team.pledge(lost)
    team.pledge(lost, (0, 1))
    team.pledge(again)


def test_pledge_may_be_repeated_when_the_time_of_its_lease_is_over_and_not_grow() -> None:
    team, one = team_with("a", "b")
    portion = team.take(one, visibility=5.0)
    team.pledge(portion, (0, 1))
    for let_pass in (team.running.clock.advance, team.due):  # before it is noticed, and afterwards
        let_pass(6.0)
        team.pledge(portion, (0, 1))
        with pytest.raises(LeaseExpired):
            team.pledge(portion)
    assert team.coordinator.pledges.count("team", TRANSACTION) == 1


def test_lease_is_pledged_in_its_own_partition_only() -> None:
    team = Team(partitions=2)
    for number in range(2):
        team.publish("a", place=("orders", number))
    one = team.join()
    portion, other = team.poll(one)
    team.pledge(portion)
    team.pledge(other)
    stray = Statement("ack", other.topic, other.partition, portion.grant.id, ((0, 1),))
    told = team.ask_to_pledge(one, stray)
    team.running.flush()
    assert isinstance(told.result[0], LeaseExpired)


def test_of_several_leases_in_one_call_those_that_are_lost_are_refused() -> None:
    team, one = team_with("a", "b")
    lost = team.take(one, 1, visibility=5.0)
    good = team.take(one, 1)
    team.due(6.0)
    team.ack(team.take(one))
    told = team.ask_to_pledge(one, team.statement("ack", lost), team.statement("ack", good))
    team.running.flush()
    assert [type(verdict) for verdict in told.result] == [LeaseExpired, Outcome]
    assert team.cursor().pledged_by(TRANSACTION) == [(1, 2, good.grant.tried)]


def test_lost_lease_is_acked_outside_a_transaction_after_its_messages_were_settled() -> None:
    team, one = team_with("a", "b")
    lost, again = retaken(team, one)
    team.ack(again)
    assert team.ack(lost) == Outcome()


def with_gaps() -> tuple[Team, Portion]:
    """A lease of offsets 0 and 3, between which a transaction was aborted."""
    team = Team()
    traffic = Traffic(team.running)
    traffic.plain(b"one")
    traffic.aborted(b"never")
    traffic.plain(b"two")
    portion = team.take(team.join(session=NEVER))
    assert portion.content.ranges() == [(0, 1), (3, 4)]
    return team, portion


@pytest.mark.parametrize("ranges", [(0, 4), (0, 2), (2, 4), (1, 2)])
def test_pledge_over_offsets_without_messages_may_be_repeated(ranges: Range) -> None:
    team, portion = with_gaps()
    for _ in range(2):
        team.pledge(portion, ranges)
    for _ in range(2):
        team.pledge(portion)
    assert team.coordinator.pledges.count("team", TRANSACTION) == 2


def test_lease_knows_its_offsets_without_messages_after_a_crash_and_a_rewritten_log() -> None:
    team, portion = with_gaps()
    team = team.crash()
    team.do(team.coordinator.ledger.tell_again())
    team = team.crash()
    team.pledge(portion, (0, 2))
    team.pledge(portion)
    team.redeem(is_commit=True)
    assert team.cursor().floor == 4


def test_disk_that_refuses_a_pledge_leaves_nothing_to_be_repeated() -> None:
    team, one = team_with("a")
    portion = team.take(one, visibility=5.0)
    team.running.disk.fail("write", errno.ENOSPC)
    told = team.ask_to_pledge(one, team.statement("ack", portion))
    team.running.flush()
    assert isinstance(told.refusal, DiskFull)
    team.due(6.0)
    team.ack(team.take(one))
    with pytest.raises(LeaseExpired):
        team.pledge(portion)


@pytest.mark.parametrize("verb", ["ack", "nack", "reject", "release", "extend"])
def test_its_lease_is_gone_for_whoever_speaks_of_it_without_the_transaction(verb: str) -> None:
    team, one = team_with("a", "b")
    portion = team.take(one)
    team.pledge(portion, (0, 1))
    if verb != "extend":
        with pytest.raises(LeaseExpired):
            team.say(verb, portion, (0, 1))  # type: ignore[arg-type]
    team.pledge(portion, (1, 2))
    with pytest.raises(LeaseExpired):
        team.say(verb, portion, timeout=5.0)  # type: ignore[arg-type]
    assert team.coordinator.pledges.count("team", TRANSACTION) == 2


def test_each_statement_is_taken_or_refused_for_itself() -> None:
    team, one = team_with("a", "b")
    portion = team.take(one)
    told = team.ask_to_pledge(one, team.statement("ack", portion, [(5, 6)]), team.statement("ack", portion, [(0, 1)]))
    team.running.flush()
    assert [type(verdict) for verdict in told.result] == [LeaseExpired, Outcome]
    told = team.ask_to_pledge("two", team.statement("ack", portion, [(1, 2)]))
    team.running.flush()
    assert isinstance(told.result[0], LeaseExpired)


def test_what_is_pledged_leaves_room_for_more() -> None:
    team, one = team_with("a", "b", "c", in_flight_max=2)
    portion = team.take(one)
    assert team.poll(one) == []
    woken = waiter(team, one)
    team.pledge(portion)
    assert woken == [one]
    assert values_of(team.poll(one)) == ["c"]


@pytest.mark.parametrize("is_new", [False, True])
def test_the_owner_is_woken_when_a_transaction_is_aborted(is_new: bool) -> None:
    team, one = team_with("a")
    if is_new:
        team.pledge_offset(1, member=one)
    else:
        team.pledge(team.take(one))
    woken = waiter(team, one)
    team.redeem(is_commit=False)
    assert woken == [one]
    assert values_of(team.poll(one)) == ["a"]


def test_a_disk_that_refuses_leaves_everything_as_it_was() -> None:
    team, one = team_with("a")
    portion = team.take(one)
    told = team.ask_to_pledge(one, team.statement("ack", portion))
    team.running.disk.fail("write", errno.ENOSPC)
    team.running.flush()
    assert isinstance(told.refusal, DiskFull)
    ended = team.ask_to_redeem(is_commit=True)
    team.running.flush()
    assert ended.all == [None]
    team.ack(portion)
    assert team.cursor().floor == 1


# --- what fails again and again ---


def test_what_is_part_of_aborted_transactions_again_and_again_becomes_a_dead_letter() -> None:
    team, one = team_with("poison", "b")
    for failures in range(4):
        portion = team.take(one, 1)
        assert portion.grant.failures == failures
        team.pledge(portion)
        team.redeem(is_commit=False)
    team.carry()
    (letter,) = team.messages()
    headers = dict(letter.headers)
    assert (letter.value, headers["dlq.attempts"], headers["dlq.error"]) == (
        b"poison",
        b"4",
        b"its transaction was aborted",
    )
    team = team.crash()
    assert (team.cursor().floor, team.cursor().moving.count) == (1, 0)


def test_a_message_with_one_chance_left_is_alone_after_an_aborted_transaction_too() -> None:
    team, one = team_with("poison", "b")
    for _ in range(3):
        portion = team.take(one, 1)
        team.pledge(portion)
        team.redeem(is_commit=False)
    assert values_of(team.poll(one)) == ["poison"]


def test_a_dead_letter_is_tried_in_transactions_for_ever() -> None:
    team = Team()
    team.running.create("orders.dlq", 1)
    team.publish("a", place=("orders.dlq", 0))
    one = team.join(topics=("orders.dlq",))
    for deliveries in range(1, 9):
        portion = team.take(one)
        assert portion.grant.deliveries == deliveries
        team.pledge(portion)
        team.redeem(is_commit=False)


# --- receipts ---


def pledge_receipts(team: Team, receipts: list[str], whose: Whose = TRANSACTION) -> list[Verdict]:
    told: Told[list[Verdict]] = Told()
    team.coordinator.pledges.receipts(receipts, None, whose, told)
    team.running.flush()
    return told.result


def test_receipts_are_pledged_one_by_one_and_again_in_the_same_transaction() -> None:
    team, one = team_with("a", "b", "c")
    receipts = receipts_of(team.take(one))
    for some in (receipts[:2], receipts[1:], receipts):
        assert team.coordinator.pledges.groups_of(some, TRANSACTION) == ["team"]
        assert [type(verdict) for verdict in pledge_receipts(team, some)] == [Outcome] * len(some)
    assert team.coordinator.pledges.count("team", TRANSACTION) == 3
    assert {type(verdict) for verdict in pledge_receipts(team, receipts, OTHER)} == {LeaseExpired}
    team.redeem(is_commit=True)
    assert team.coordinator.pledges.groups_of(receipts, TRANSACTION) == []
    assert team.cursor().floor == 3


def test_receipts_of_a_lease_that_two_transactions_share_may_be_repeated_after_one_has_ended() -> None:
    team, one = team_with("a", "b")
    first, second = receipts_of(team.take(one))
    pledge_receipts(team, [first], OTHER)
    pledge_receipts(team, [second])
    team.redeem(is_commit=True, whose=OTHER)
    assert team.coordinator.pledges.groups_of([second], TRANSACTION) == ["team"]
    assert pledge_receipts(team, [second]) == [Outcome()]
    assert isinstance(pledge_receipts(team, [first])[0], LeaseExpired)


def test_receipts_of_several_groups_are_pledged_together() -> None:
    team, one = team_with("a")
    others = Team(team.running, "others")
    receipts = [*receipts_of(team.take(one)), *receipts_of(others.take(others.join()))]
    assert team.coordinator.pledges.groups_of([*receipts, "nothing"], TRANSACTION) == ["team", "others"]
    assert [type(verdict) for verdict in pledge_receipts(team, [*receipts, "nothing"])] == [
        Outcome,
        Outcome,
        ReceiptInvalid,
    ]
    assert [team.coordinator.pledges.standing(name) for name in ("team", "others")] == [{TRANSACTION}] * 2


def test_a_receipt_of_another_delivery_is_not_taken() -> None:
    team, one = team_with("a")
    portion = team.take(one)
    forged = str(Receipt(*ORDERS, 0, 2, portion.grant.id))
    assert isinstance(pledge_receipts(team, [forged])[0], LeaseExpired)
    pledge_receipts(team, receipts_of(portion))
    assert isinstance(pledge_receipts(team, [forged])[0], LeaseExpired)
    assert isinstance(pledge_receipts(team, [str(Receipt(*ORDERS, 1, 1, portion.grant.id))])[0], LeaseExpired)


# --- offsets ---


def test_an_offset_is_committed_with_the_transaction_and_not_before() -> None:
    team, one = team_with("a", "b", "c")
    team.poll(one, 1)
    team.pledge_offset(2, member=one)
    assert team.coordinator.offsets.committed("team") == {"orders": {0: 0}}
    assert values_of(team.poll(one)) == ["c"]
    team.redeem(is_commit=True)
    team = team.crash()
    assert team.coordinator.offsets.committed("team") == {"orders": {0: 2}}


def test_an_offset_of_an_aborted_transaction_was_never_committed() -> None:
    team, one = team_with("a", "b", "c")
    team.take(one, 1)
    team.pledge_offset(3, member=one)
    team = team.crash()
    team.redeem(is_commit=False)
    assert team.coordinator.offsets.committed("team") == {"orders": {0: 0}}
    tried, new = team.poll(one)
    assert (values_of([tried]), tried.grant.deliveries, tried.grant.failures) == (["a"], 2, 1)
    assert (values_of([new]), new.grant.deliveries, new.grant.failures) == (["b", "c"], 1, 0)


def test_offsets_grow_in_a_transaction_and_never_shrink() -> None:
    team, one = team_with("a", "b", "c")
    for offset in (1, 3, 2):
        team.pledge_offset(offset, member=one)
    assert team.coordinator.pledges.count("team", TRANSACTION) == 3
    team.redeem(is_commit=True)
    assert team.cursor().floor == 3


def test_lease_may_be_pledged_after_an_offset_behind_it_in_the_same_transaction_only() -> None:
    team, one = team_with("a", "b", "c")
    portion = team.take(one)
    team.pledge_offset(3, member=one)
    team.pledge(portion)
    with pytest.raises(LeaseExpired):
        team.pledge(portion, whose=OTHER)
    assert team.coordinator.pledges.count("team", TRANSACTION) == 3


def test_who_names_no_member_needs_no_group() -> None:
    team = Team()
    team.publish("a", "b", "c")
    team.pledge_offset(2)
    assert team.coordinator.offsets.committed("team") == {"orders": {0: 0}}
    team = team.crash()
    team.redeem(is_commit=True)
    assert team.coordinator.offsets.committed("team") == {"orders": {0: 2}}
    assert values_of(team.poll(team.join())) == ["c"]


def test_offsets_with_a_member_are_checked_as_always() -> None:
    team, one = team_with("a", "b")
    with pytest.raises(OffsetOutOfRange):
        team.pledge_offset(3, member=one)
    with pytest.raises(PartitionNotOwned):
        team.pledge_offset(0, ("orders", 1), member=one)
    with pytest.raises(GenerationStale):
        team.pledge_offset(1, member=one, generation=9)
    assert team.coordinator.pledges.standing("team") == set()


def test_offsets_without_a_member_are_checked_before_anything_is_made() -> None:
    team = Team(name="others")
    with pytest.raises(OffsetOutOfRange):
        team.pledge_offset(1)
    with pytest.raises(PartitionNotFound):
        team.pledge_offset(0, ("orders", 1))
    with pytest.raises(TopicNotFound):
        team.pledge_offset(0, ("__metadata", 0))
    with pytest.raises(GroupNameInvalid):
        Team(team.running, "__dead_letters").pledge_offset(0)
    assert team.coordinator.ledger.group("others") is None


def test_what_one_transaction_has_pledged_another_cannot_commit() -> None:
    team, one = team_with("a", "b", "c")
    team.pledge(team.take(one, 2), (1, 2))
    with pytest.raises(TransactionPending, match="7-1"):
        team.pledge_offset(3, member=one, whose=OTHER)
    team.pledge_offset(1, member=one, whose=OTHER)
    team.redeem(is_commit=True)
    team.pledge_offset(3, member=one, whose=OTHER)
    team.redeem(is_commit=True, whose=OTHER)
    assert team.cursor().floor == 3


def test_a_commit_outside_passes_around_what_is_pledged() -> None:
    team, one = team_with("a", "b", "c")
    team.pledge(team.take(one), (1, 2))
    team.commit(one, 3)
    assert (team.cursor().floor, team.cursor().settled()) == (1, [(2, 3)])
    team.redeem(is_commit=False)
    assert values_of(team.poll(one)) == ["b"]


def test_a_reset_forgets_what_was_pledged() -> None:
    team, one = team_with("a", "b")
    team.pledge(team.take(one, 1))
    team.reset("earliest")
    team.redeem(is_commit=True)
    assert values_of(team.poll(one)) == ["a", "b"]


# --- lanes, keys ---


def test_among_lanes_an_offset_pledges_what_was_handed_out_and_leaves_what_nobody_has_seen() -> None:
    team = Team()
    team.publish(*"abcdef", lanes=[NORMAL, NORMAL, CRITICAL, NORMAL, CRITICAL, NORMAL])
    one = team.join()
    team.poll(one, 3)
    in_hand = {
        offset
        for lease in team.cursor().leases.values()
        for offset, _ in [(o, 0) for f, e in lease.ranges() for o in range(f, e)]
    }
    team.pledge_offset(6, member=one)
    pledged = {offset for offset in range(6) if offset in team.cursor().pledged}
    assert pledged == in_hand
    team.redeem(is_commit=True)
    assert {offset for one_of in team.poll(one) for offset in offsets_of(one_of)} == set(range(6)) - in_hand


def test_among_lanes_what_was_pledged_in_vain_keeps_its_lane() -> None:
    team = Team()
    team.publish(*"abcdef", lanes=[NORMAL, CRITICAL] * 3)
    one = team.join()
    lanes = {portion.grant.lane: offsets_of(portion) for portion in team.poll(one, 6)}
    team.pledge_offset(6, member=one)
    assert team.coordinator.pledges.count("team", TRANSACTION) == 6
    team = team.crash()
    team.redeem(is_commit=False)
    again = team.poll(one, 6)
    assert {portion.grant.lane: offsets_of(portion) for portion in again} == lanes
    for portion in again:
        team.pledge(portion)
        team.pledge(portion)
    team.redeem(is_commit=True)
    assert team.cursor().floor == 6


def test_lost_lease_of_one_lane_is_not_pledged_after_its_messages_were_settled() -> None:
    team = Team()
    team.publish(*"abcdef", lanes=[NORMAL, CRITICAL] * 3)
    one = team.join(session=NEVER)
    lost = [portion for portion in team.poll(one, 6, visibility=5.0) if portion.grant.runs]
    assert lost
    team.due(6.0)
    for portion in team.poll(one, 6):
        team.ack(portion)
    assert team.cursor().floor == 6
    for portion in lost:
        with pytest.raises(LeaseExpired):
            team.pledge(portion)


def test_lane_of_which_a_part_was_settled_is_pledged_but_for_that() -> None:
    team = Team()
    team.publish(*"abcdef", lanes=[NORMAL, CRITICAL] * 3)
    portion = next(portion for portion in team.poll(team.join(), 6) if portion.grant.lane == NORMAL)
    assert portion.content.ranges() == [(0, 1), (2, 3), (4, 5)]
    team.ack(portion, (2, 3))
    for ranges in ((0, 5), (1, 3), (2, 5)):
        with pytest.raises(LeaseExpired):
            team.pledge(portion, ranges)
    for _ in range(2):
        team.pledge(portion, (0, 2), (3, 5))
    assert team.cursor().pledged_by(TRANSACTION) == [(0, 1, portion.grant.tried), (4, 5, portion.grant.tried)]


def test_what_nobody_had_seen_has_its_lanes_again_after_an_aborted_transaction() -> None:
    team = Team()
    team.publish(*"abcdef", lanes=[NORMAL, CRITICAL] * 3)
    team.pledge_offset(6)
    team.redeem(is_commit=False)
    assert {portion.grant.lane for portion in team.poll(team.join(), 6)} == {NORMAL, CRITICAL}


def test_what_nobody_had_seen_is_lent_lane_by_lane_where_others_were_handed_out_behind_it() -> None:
    team, lanes = Team(), [NORMAL, CRITICAL, CRITICAL, NORMAL]
    team.publish(*"abcd", lanes=lanes)
    one = team.join()
    team.pledge_offset(4, member=one)
    team.publish("e", lanes=[NORMAL])
    assert values_of(team.poll(one)) == ["e"]
    team.redeem(is_commit=False)
    found = team.poll(one)
    assert {offset: portion.grant.lane for portion in found for offset in offsets_of(portion)} == dict(enumerate(lanes))
    assert [portion.grant.deliveries for portion in found] == [1, 1, 1]
    for portion in found:
        team.ack(portion)
    assert (team.cursor().floor, team.cursor().leased) == (4, 1)


def test_later_messages_of_a_key_wait_for_a_pledged_one_that_has_failed_before() -> None:
    team = Team()
    one = team.join(order="key")
    team.publish("a", key="k")
    team.nack(team.take(one), delay=0.0)
    team.pledge(team.take(one))
    team.publish("b", key="k")
    assert team.poll(one) == []
    team.redeem(is_commit=True)
    team.due()
    assert values_of(team.poll(one)) == ["b"]


def test_where_keys_keep_their_order_a_partition_is_given_up_when_what_is_pledged_there_has_come_to_its_end() -> None:
    team = Team(partitions=2)
    one = team.join("one", order="key")
    for number in range(2):
        team.publish("a", place=("orders", number), key="k")
    for portion in team.poll(one):
        team.pledge(portion)
    told = team.ask_to_join("two", order="key")
    team.due(GATHERED)
    two = told.result[0]
    assert (team.has(two), team.group.phase) == ([], "pending_revoke")
    team.redeem(is_commit=False)
    assert (len(team.has(two)), team.group.phase) == (1, "complete")
