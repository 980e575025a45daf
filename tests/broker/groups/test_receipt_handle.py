"""Receipt handles: single messages, spoken of by what the poll gave."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.groups.poll import LeasedBatch
from goqueue.broker.groups.settle_commands import ReceiptHandle, SettleCommand, parse_receipt_handle
from goqueue.broker.groups.settlement import SettleCommandReply, SettleCommandResult
from goqueue.errors import GoQueueError, LeaseExpired, ReceiptInvalid
from tests.broker.brokers import Told
from tests.broker.groupwork import Team

LEASE = "3" + "0123456789abcdef" * 2
ACK = SettleCommand("ack", "", 0, "")


def receipts_of(batch: LeasedBatch) -> list[str]:
    grant = batch.grant
    return [
        str(ReceiptHandle(batch.topic, batch.partition, offset, grant.deliveries, grant.id))
        for offset in range(grant.first, grant.end)
    ]


def settled(
    team: Team, receipts: list[str], template: SettleCommand = ACK, member: str | None = None
) -> list[SettleCommandReply]:
    told: Told[list[SettleCommandReply]] = Told()
    team.running.broker.groups.settle_receipts(receipts, member, template, told)
    team.running.flush()
    return told.result


@given(
    st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True),
    st.integers(0, 9999),
    st.integers(0, 2**62),
    st.integers(1, 999_999_999),
)
def test_receipt_handle_round_trips(topic: str, partition: int, offset: int, deliveries: int) -> None:
    receipt = ReceiptHandle(topic, partition, offset, deliveries, LEASE)
    assert parse_receipt_handle(str(receipt)) == receipt


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders:0:0:1",
        f"orders:0:0:0:{LEASE}",
        f"orders:00:0:1:{LEASE}",
        f"orders:0:-1:1:{LEASE}",
        f"or ders:0:0:1:{LEASE}",
        f"orders:0:0:1:{LEASE}0",
        f"orders:0:0:1:{LEASE}\n",
        f"orders:0:0:٣:{LEASE}",
        "x" * 100_000,
    ],
)
def test_invalid_receipt_handle_is_refused(text: str) -> None:
    with pytest.raises(ReceiptInvalid) as refusal:
        parse_receipt_handle(text)
    assert len(str(refusal.value)) < 300


def test_receipts_settle_single_messages(team: Team) -> None:
    team.publish("a", "b", "c")
    first, second, third = receipts_of(team.take(team.join()))
    assert [type(reply) for reply in settled(team, [third, first])] == [SettleCommandResult, SettleCommandResult]
    settled(team, [second], SettleCommand("nack", "", 0, "", delay_ns=0))
    cursor = team.crash().cursor()
    assert (cursor.floor, cursor.settled(), cursor.waiting.count) == (1, [(2, 3)], 1)


def test_receipts_of_several_groups_are_answered_together(team: Team) -> None:
    team.publish("a")
    receipts = []
    for number in range(5):
        other = Team(team.running, f"team-{number}")
        receipts += receipts_of(other.take(other.join()))
    assert [type(reply) for reply in settled(team, receipts)] == [SettleCommandResult] * 5
    after = team.crash()
    assert all(Team(after.running, f"team-{number}").cursor().floor == 1 for number in range(5))


def test_receipt_of_earlier_delivery_is_refused(team: Team) -> None:
    team.publish("a")
    one = team.join()
    batch = team.take(one)
    (earlier,) = receipts_of(batch)
    team.nack(batch, delay=0.0)
    (later,) = receipts_of(team.take(one))
    mixed = earlier.rpartition(":")[0] + ":" + later.rpartition(":")[2]
    refused = settled(team, [earlier, mixed, later.replace("orders", "others"), "nonsense"])
    assert [type(reply) for reply in refused] == [LeaseExpired, LeaseExpired, LeaseExpired, ReceiptInvalid]
    assert [type(reply) for reply in settled(team, [later])] == [SettleCommandResult]


def test_receipt_of_other_member_is_refused(team: Team) -> None:
    team.publish("a")
    one = team.join()
    receipts = receipts_of(team.take(one))
    assert isinstance(settled(team, receipts, member="other")[0], GoQueueError)
    assert isinstance(settled(team, receipts, member=one)[0], SettleCommandResult)


def test_lease_id_selects_its_log() -> None:
    ledger = Team().coordinator.store
    assert all(ledger.lease(first + "0" * 32) is None for first in ("7", "8", "z", "-", ""))
