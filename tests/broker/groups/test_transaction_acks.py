"""Acks and offset commits in transactions, and what their end does to them."""

from collections.abc import Callable

import pytest

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.poll import LeasedBatch
from goqueue.broker.groups.records import Range
from goqueue.broker.groups.settle_commands import ReceiptHandle, SettleCommand
from goqueue.broker.groups.settlement import SettleCommandReply, SettleCommandResult
from goqueue.errors import (
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
from tests.broker.groups.test_receipt_handle import receipts_of
from tests.broker.groupwork import GATHERED, ORDERS, TRANSACTION, Team, team_with, values_of
from tests.broker.transactions.traffic import Traffic

NEVER = 3600.0
OTHER = TransactionId(8, 0)
CRITICAL = 0


def open_transactions(team: Team, name: str = "team") -> set[TransactionId]:
    """Return the transactions in which messages of a group are acknowledged."""
    cursors = team.running.broker.groups.cursors(name).values()
    return {ack.transaction_id for cursor in cursors for _, _, ack in cursor.transactional.runs()}


# --- acknowledgements ---


def test_ending_a_transaction_can_be_repeated() -> None:
    team, one = team_with("a", "b")
    team.ack_in_transaction(team.take(one, 1))
    team.end_transaction(is_commit=True)
    team.ack_in_transaction(team.take(one, 1), transaction_id=OTHER)
    team.end_transaction(is_commit=True)
    team.end_transaction(is_commit=False)
    assert (team.cursor().floor, team.cursor().transactional.count) == (1, 1)
    assert team.coordinator.settlement.counts.acks == 1


def test_ending_a_transaction_of_deleted_group_does_nothing() -> None:
    team, one = team_with("a")
    team.ack_in_transaction(team.take(one))
    team.leave(one)
    team.ask_to_delete()
    team.end_transaction(is_commit=False)
    assert open_transactions(team, "team") == set()
    assert team.coordinator.transaction_acks.count("team", TRANSACTION) == 0


def test_transactional_ack_can_be_repeated_in_same_transaction_only() -> None:
    team, one = team_with("a", "b", "c")
    batch = team.take(one)
    team.ack_in_transaction(batch, (0, 2))
    team.ack_in_transaction(batch, (0, 2))
    team.ack_in_transaction(batch, (0, 3))
    team.ack_in_transaction(batch)
    assert team.coordinator.transaction_acks.count("team", TRANSACTION) == 3
    with pytest.raises(LeaseExpired):
        team.ack_in_transaction(batch, (0, 1), transaction_id=OTHER)
    with pytest.raises(LeaseExpired):
        team.ack(batch, (0, 1))


def retaken(team: Team, member: str) -> tuple[LeasedBatch, LeasedBatch]:
    """A lease that has expired, and the next one of the same messages."""
    lost = team.take(member, visibility=5.0)
    team.due(6.0)
    return lost, team.take(member)


def commit_acked(team: Team, batch: LeasedBatch) -> None:
    team.ack_in_transaction(batch, transaction_id=OTHER)
    team.end_transaction(is_commit=True, transaction_id=OTHER)


@pytest.mark.parametrize(
    "settle",
    [
        Team.ack,
        commit_acked,
        lambda team, batch: team.commit(batch.grant.member, batch.grant.end),
        lambda team, _: team.reset("latest"),
    ],
    ids=["ack", "transaction", "offset", "reset"],
)
def test_transactional_ack_of_lost_settled_lease_is_refused(
    settle: Callable[[Team, LeasedBatch], object],
) -> None:
    team, one = team_with("a", "b", "c")
    lost, again = retaken(team, one)
    settle(team, again)
    assert (team.cursor().floor, team.cursor().position) == (3, 3)
    for ranges in ((0, 3), (1, 2)):
        with pytest.raises(LeaseExpired):
            team.ack_in_transaction(lost, ranges)
    assert {type(reply) for reply in ack_receipts(team, receipts_of(lost))} == {LeaseExpired}
    assert open_transactions(team, "team") == set()


@pytest.mark.parametrize("is_redelivered", [True, False])
def test_transactional_ack_of_partly_settled_lease_is_refused(is_redelivered: bool) -> None:
    team, one = team_with("a", "b", "c")
    batch = team.take(one)
    if is_redelivered:
        team.nack(batch, (1, 2), delay=0.0)
        team.ack(team.take(one))
    else:
        team.ack(batch, (1, 2))
    for ranges in ((0, 3), (0, 2), (1, 2), (1, 3)):
        with pytest.raises(LeaseExpired):
            team.ack_in_transaction(batch, ranges)
    assert team.coordinator.transaction_acks.count("team", TRANSACTION) == 0
    team.ack_in_transaction(batch, (0, 1), (2, 3))
    assert team.coordinator.transaction_acks.count("team", TRANSACTION) == 2


def test_transactional_ack_of_part_committed_earlier_is_refused() -> None:
    team, one = team_with("a", "b", "c")
    batch = team.take(one)
    team.ack_in_transaction(batch, (0, 1), transaction_id=OTHER)
    with pytest.raises(LeaseExpired):
        team.ack_in_transaction(batch)
    team.end_transaction(is_commit=True, transaction_id=OTHER)
    with pytest.raises(LeaseExpired):
        team.ack_in_transaction(batch)
    assert team.coordinator.transaction_acks.count("team", TRANSACTION) == 0


def test_transactional_ack_of_earlier_delivery_is_refused() -> None:
    team, one = team_with("a", "b", "c")
    lost = team.take(one, visibility=5.0)
    team.ack_in_transaction(lost, (0, 1))
    team.due(6.0)
    again = team.take(one)
    assert again.grant.deliveries == 2
    team.ack_in_transaction(again)
    with pytest.raises(LeaseExpired):
        team.ack_in_transaction(lost)
    team.ack_in_transaction(lost, (0, 1))
    team.ack_in_transaction(again)


def test_transactional_ack_can_be_repeated_but_not_extended_after_expiry() -> None:
    team, one = team_with("a", "b")
    batch = team.take(one, visibility=5.0)
    team.ack_in_transaction(batch, (0, 1))
    for let_pass in (team.running.clock.advance, team.due):  # before it is noticed, and afterwards
        let_pass(6.0)
        team.ack_in_transaction(batch, (0, 1))
        with pytest.raises(LeaseExpired):
            team.ack_in_transaction(batch)
    assert team.coordinator.transaction_acks.count("team", TRANSACTION) == 1


def test_transactional_ack_is_refused_in_other_partition() -> None:
    team = Team(partitions=2)
    for number in range(2):
        team.publish("a", ref=PartitionRef("orders", number))
    one = team.join()
    batch, other = team.poll(one)
    team.ack_in_transaction(batch)
    team.ack_in_transaction(other)
    stray = SettleCommand("ack", other.topic, other.partition, batch.grant.id, ((0, 1),))
    told = team.ask_to_ack_in_transaction(one, stray)
    team.running.flush()
    assert isinstance(told.result[0], LeaseExpired)


def test_only_lost_leases_of_a_call_are_refused() -> None:
    team, one = team_with("a", "b")
    lost = team.take(one, 1, visibility=5.0)
    good = team.take(one, 1)
    team.due(6.0)
    team.ack(team.take(one))
    told = team.ask_to_ack_in_transaction(one, team.command("ack", lost), team.command("ack", good))
    team.running.flush()
    assert [type(reply) for reply in told.result] == [LeaseExpired, SettleCommandResult]
    assert team.cursor().acked_in(TRANSACTION) == [(1, 2, good.grant.history)]


def test_plain_ack_of_lost_settled_lease_is_accepted() -> None:
    team, one = team_with("a", "b")
    lost, again = retaken(team, one)
    team.ack(again)
    assert team.ack(lost) == SettleCommandResult()


def with_gaps() -> tuple[Team, LeasedBatch]:
    """A lease of offsets 0 and 3, between which a transaction was aborted."""
    team = Team()
    traffic = Traffic(team.running)
    traffic.plain(b"one")
    traffic.aborted(b"never")
    traffic.plain(b"two")
    batch = team.take(team.join(session=NEVER))
    assert batch.content.ranges() == [(0, 1), (3, 4)]
    return team, batch


@pytest.mark.parametrize("ranges", [(0, 4), (0, 2), (2, 4), (1, 2)])
def test_transactional_ack_over_gaps_can_be_repeated(ranges: Range) -> None:
    team, batch = with_gaps()
    for _ in range(2):
        team.ack_in_transaction(batch, ranges)
    for _ in range(2):
        team.ack_in_transaction(batch)
    assert team.coordinator.transaction_acks.count("team", TRANSACTION) == 2


def test_lease_gaps_survive_crash_and_rewrite() -> None:
    team, batch = with_gaps()
    team = team.crash()
    team.do(team.running.broker.groups.rewrite_logs())
    team = team.crash()
    team.ack_in_transaction(batch, (0, 2))
    team.ack_in_transaction(batch)
    team.end_transaction(is_commit=True)
    assert team.cursor().floor == 4


@pytest.mark.parametrize("action", ["ack", "nack", "reject", "release", "extend"])
def test_lease_acked_in_transaction_is_gone_outside_it(action: str) -> None:
    team, one = team_with("a", "b")
    batch = team.take(one)
    team.ack_in_transaction(batch, (0, 1))
    if action != "extend":
        with pytest.raises(LeaseExpired):
            team.settle(action, batch, (0, 1))  # type: ignore[arg-type]
    team.ack_in_transaction(batch, (1, 2))
    with pytest.raises(LeaseExpired):
        team.settle(action, batch, timeout=5.0)  # type: ignore[arg-type]
    assert team.coordinator.transaction_acks.count("team", TRANSACTION) == 2


def test_each_command_is_accepted_or_refused_alone() -> None:
    team, one = team_with("a", "b")
    batch = team.take(one)
    told = team.ask_to_ack_in_transaction(
        one, team.command("ack", batch, [(5, 6)]), team.command("ack", batch, [(0, 1)])
    )
    team.running.flush()
    assert [type(reply) for reply in told.result] == [LeaseExpired, SettleCommandResult]
    told = team.ask_to_ack_in_transaction("two", team.command("ack", batch, [(1, 2)]))
    team.running.flush()
    assert isinstance(told.result[0], LeaseExpired)


def test_transactional_acks_free_in_flight_room() -> None:
    team, one = team_with("a", "b", "c", in_flight_max=2)
    batch = team.take(one)
    assert team.poll(one) == []
    woken = team.watch(one)
    team.ack_in_transaction(batch)
    assert woken == [one]
    assert values_of(team.poll(one)) == ["c"]


@pytest.mark.parametrize("is_new", [False, True])
def test_abort_wakes_partition_owner(is_new: bool) -> None:
    team, one = team_with("a")
    if is_new:
        team.commit_in_transaction(1, member=one)
    else:
        team.ack_in_transaction(team.take(one))
    woken = team.watch(one)
    team.end_transaction(is_commit=False)
    assert woken == [one]
    assert values_of(team.poll(one)) == ["a"]


# --- what fails again and again ---


def test_repeated_aborts_move_message_to_dlq() -> None:
    team, one = team_with("poison", "b")
    for failures in range(4):
        batch = team.take(one, 1)
        assert batch.grant.failures == failures
        team.ack_in_transaction(batch)
        team.end_transaction(is_commit=False)
    team.move_dead_letters()
    (letter,) = team.messages()
    headers = dict(letter.headers)
    assert (letter.value, headers["dlq.attempts"], headers["dlq.error"]) == (
        b"poison",
        b"4",
        b"its transaction was aborted",
    )
    team = team.crash()
    assert (team.cursor().floor, team.cursor().moving.count) == (1, 0)


def test_dead_letter_is_retried_forever_in_transactions(team: Team) -> None:
    team.running.create("orders.dlq", 1)
    team.publish("a", ref=PartitionRef("orders.dlq", 0))
    one = team.join(topics=("orders.dlq",))
    for deliveries in range(1, 9):
        batch = team.take(one)
        assert batch.grant.deliveries == deliveries
        team.ack_in_transaction(batch)
        team.end_transaction(is_commit=False)


# --- receipts ---


def ack_receipts(
    team: Team, receipts: list[str], transaction_id: TransactionId = TRANSACTION
) -> list[SettleCommandReply]:
    told: Told[list[SettleCommandReply]] = Told()
    team.running.broker.groups.acknowledge_receipts(receipts, None, transaction_id, told)
    team.running.flush()
    return told.result


def test_receipts_are_acked_in_transaction_and_can_be_repeated() -> None:
    team, one = team_with("a", "b", "c")
    receipts = receipts_of(team.take(one))
    for some in (receipts[:2], receipts[1:], receipts):
        assert team.running.broker.groups.groups_of_receipts(some, TRANSACTION) == ["team"]
        assert [type(reply) for reply in ack_receipts(team, some)] == [SettleCommandResult] * len(some)
    assert team.coordinator.transaction_acks.count("team", TRANSACTION) == 3
    assert {type(reply) for reply in ack_receipts(team, receipts, OTHER)} == {LeaseExpired}
    team.end_transaction(is_commit=True)
    assert team.running.broker.groups.groups_of_receipts(receipts, TRANSACTION) == []
    assert team.cursor().floor == 3


def test_receipts_of_lease_shared_by_transactions_can_be_repeated() -> None:
    team, one = team_with("a", "b")
    first, second = receipts_of(team.take(one))
    ack_receipts(team, [first], OTHER)
    ack_receipts(team, [second])
    team.end_transaction(is_commit=True, transaction_id=OTHER)
    assert team.running.broker.groups.groups_of_receipts([second], TRANSACTION) == ["team"]
    assert ack_receipts(team, [second]) == [SettleCommandResult()]
    assert isinstance(ack_receipts(team, [first])[0], LeaseExpired)


def test_receipts_of_several_groups_are_acked_in_one_transaction() -> None:
    team, one = team_with("a")
    others = Team(team.running, "others")
    receipts = [*receipts_of(team.take(one)), *receipts_of(others.take(others.join()))]
    assert team.running.broker.groups.groups_of_receipts([*receipts, "nothing"], TRANSACTION) == ["team", "others"]
    assert [type(reply) for reply in ack_receipts(team, [*receipts, "nothing"])] == [
        SettleCommandResult,
        SettleCommandResult,
        ReceiptInvalid,
    ]
    assert [open_transactions(team, name) for name in ("team", "others")] == [{TRANSACTION}] * 2


def test_receipt_of_other_delivery_is_refused_in_transaction() -> None:
    team, one = team_with("a")
    batch = team.take(one)
    forged = str(ReceiptHandle(*ORDERS, 0, 2, batch.grant.id))
    assert isinstance(ack_receipts(team, [forged])[0], LeaseExpired)
    ack_receipts(team, receipts_of(batch))
    assert isinstance(ack_receipts(team, [forged])[0], LeaseExpired)
    assert isinstance(ack_receipts(team, [str(ReceiptHandle(*ORDERS, 1, 1, batch.grant.id))])[0], LeaseExpired)


# --- offsets ---


def test_transactional_offset_is_committed_with_transaction() -> None:
    team, one = team_with("a", "b", "c")
    team.poll(one, 1)
    team.commit_in_transaction(2, member=one)
    assert team.coordinator.offsets.committed("team") == {"orders": {0: 0}}
    assert values_of(team.poll(one)) == ["c"]
    team.end_transaction(is_commit=True)
    team = team.crash()
    assert team.coordinator.offsets.committed("team") == {"orders": {0: 2}}


def test_lease_below_transactional_offset_can_be_acked_in_same_transaction_only() -> None:
    team, one = team_with("a", "b", "c")
    batch = team.take(one)
    team.commit_in_transaction(3, member=one)
    team.ack_in_transaction(batch)
    with pytest.raises(LeaseExpired):
        team.ack_in_transaction(batch, transaction_id=OTHER)
    assert team.coordinator.transaction_acks.count("team", TRANSACTION) == 3


def test_transactional_offset_without_member_creates_group(team: Team) -> None:
    team.publish("a", "b", "c")
    team.commit_in_transaction(2)
    assert team.coordinator.offsets.committed("team") == {"orders": {0: 0}}
    team = team.crash()
    team.end_transaction(is_commit=True)
    assert team.coordinator.offsets.committed("team") == {"orders": {0: 2}}
    assert values_of(team.poll(team.join())) == ["c"]


def test_transactional_offset_of_member_is_checked() -> None:
    team, one = team_with("a", "b")
    with pytest.raises(OffsetOutOfRange):
        team.commit_in_transaction(3, member=one)
    with pytest.raises(PartitionNotOwned):
        team.commit_in_transaction(0, PartitionRef("orders", 1), member=one)
    with pytest.raises(GenerationStale):
        team.commit_in_transaction(1, member=one, generation=9)
    assert open_transactions(team, "team") == set()


def test_invalid_transactional_offset_creates_nothing() -> None:
    team = Team(name="others")
    with pytest.raises(OffsetOutOfRange):
        team.commit_in_transaction(1)
    with pytest.raises(PartitionNotFound):
        team.commit_in_transaction(0, PartitionRef("orders", 1))
    with pytest.raises(TopicNotFound):
        team.commit_in_transaction(0, PartitionRef("__metadata", 0))
    with pytest.raises(GroupNameInvalid):
        Team(team.running, "__dead_letters").commit_in_transaction(0)
    assert team.coordinator.store.group("others") is None


def test_offset_over_ack_of_other_transaction_is_refused() -> None:
    team, one = team_with("a", "b", "c")
    team.ack_in_transaction(team.take(one, 2), (1, 2))
    with pytest.raises(TransactionPending, match="7-1"):
        team.commit_in_transaction(3, member=one, transaction_id=OTHER)
    team.commit_in_transaction(1, member=one, transaction_id=OTHER)
    team.end_transaction(is_commit=True)
    team.commit_in_transaction(3, member=one, transaction_id=OTHER)
    team.end_transaction(is_commit=True, transaction_id=OTHER)
    assert team.cursor().floor == 3


# --- lanes, keys ---


def test_transactional_ack_of_lost_lane_lease_is_refused(team: Team) -> None:
    team.publish(*"abcdef", lanes=[NORMAL, CRITICAL] * 3)
    one = team.join(session=NEVER)
    lost = [batch for batch in team.poll(one, 6, visibility=5.0) if batch.grant.runs]
    assert lost
    team.due(6.0)
    for batch in team.poll(one, 6):
        team.ack(batch)
    assert team.cursor().floor == 6
    for batch in lost:
        with pytest.raises(LeaseExpired):
            team.ack_in_transaction(batch)


def test_transactional_ack_of_partly_settled_lane_covers_the_rest(team: Team) -> None:
    team.publish(*"abcdef", lanes=[NORMAL, CRITICAL] * 3)
    batch = next(batch for batch in team.poll(team.join(), 6) if batch.grant.lane == NORMAL)
    assert batch.content.ranges() == [(0, 1), (2, 3), (4, 5)]
    team.ack(batch, (2, 3))
    for ranges in ((0, 5), (1, 3), (2, 5)):
        with pytest.raises(LeaseExpired):
            team.ack_in_transaction(batch, ranges)
    for _ in range(2):
        team.ack_in_transaction(batch, (0, 2), (3, 5))
    assert team.cursor().acked_in(TRANSACTION) == [(0, 1, batch.grant.history), (4, 5, batch.grant.history)]


def test_key_waits_for_failed_message_acked_in_transaction(team: Team) -> None:
    one = team.join(order="key")
    team.publish("a", key="k")
    team.nack(team.take(one), delay=0.0)
    team.ack_in_transaction(team.take(one))
    team.publish("b", key="k")
    assert team.poll(one) == []
    team.end_transaction(is_commit=True)
    team.due()
    assert values_of(team.poll(one)) == ["b"]


def test_partition_with_key_order_is_revoked_after_transaction_ends() -> None:
    team = Team(partitions=2)
    one = team.join("one", order="key")
    for number in range(2):
        team.publish("a", ref=PartitionRef("orders", number), key="k")
    for batch in team.poll(one):
        team.ack_in_transaction(batch)
    told = team.ask_to_join("two", order="key")
    team.due(GATHERED)
    two = told.result[0]
    assert (team.has(two), team.group.phase) == ([], "pending_revoke")
    team.end_transaction(is_commit=False)
    assert (len(team.has(two)), team.group.phase) == (1, "complete")
