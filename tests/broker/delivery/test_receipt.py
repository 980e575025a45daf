"""Receipt handles: single messages, spoken of by what the poll gave."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.delivery.claims import Statement
from goqueue.broker.delivery.receipt import Receipt, parse_receipt
from goqueue.broker.delivery.settlement import Outcome, Verdict
from goqueue.broker.delivery.taking import Portion
from goqueue.errors import GoQueueError, LeaseExpired, ReceiptInvalid
from tests.broker.brokers import Told
from tests.broker.groupwork import Team

LEASE = "3" + "0123456789abcdef" * 2
ACK = Statement("ack", "", 0, "")


def receipts_of(portion: Portion) -> list[str]:
    grant = portion.grant
    return [
        str(Receipt(portion.topic, portion.partition, offset, grant.deliveries, grant.id))
        for offset in range(grant.first, grant.end)
    ]


def settled(team: Team, receipts: list[str], template: Statement = ACK, member: str | None = None) -> list[Verdict]:
    told: Told[list[Verdict]] = Told()
    team.coordinator.settlement.settle_receipts(receipts, member, template, told)
    team.running.flush()
    return told.result


@given(
    st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True),
    st.integers(0, 9999),
    st.integers(0, 2**62),
    st.integers(1, 999_999_999),
)
def test_a_receipt_is_read_as_it_was_written(topic: str, partition: int, offset: int, deliveries: int) -> None:
    receipt = Receipt(topic, partition, offset, deliveries, LEASE)
    assert parse_receipt(str(receipt)) == receipt


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
def test_what_is_no_receipt_is_refused_in_few_words(text: str) -> None:
    with pytest.raises(ReceiptInvalid) as refusal:
        parse_receipt(text)
    assert len(str(refusal.value)) < 300


def test_messages_are_settled_one_by_one_by_their_receipts() -> None:
    team = Team()
    team.publish("a", "b", "c")
    first, second, third = receipts_of(team.take(team.join()))
    assert [type(verdict) for verdict in settled(team, [third, first])] == [Outcome, Outcome]
    settled(team, [second], Statement("nack", "", 0, "", delay_ns=0))
    cursor = team.crash().cursor()
    assert (cursor.floor, cursor.settled(), cursor.waiting.count) == (1, [(2, 3)], 1)


def test_receipts_of_several_groups_are_answered_together() -> None:
    team = Team()
    team.publish("a")
    receipts = []
    for number in range(5):
        other = Team(team.running, f"team-{number}")
        receipts += receipts_of(other.take(other.join()))
    assert [type(verdict) for verdict in settled(team, receipts)] == [Outcome] * 5
    after = team.crash()
    assert all(Team(after.running, f"team-{number}").cursor().floor == 1 for number in range(5))


def test_a_receipt_of_an_earlier_delivery_is_too_late() -> None:
    team = Team()
    team.publish("a")
    one = team.join()
    portion = team.take(one)
    (earlier,) = receipts_of(portion)
    team.nack(portion, delay=0.0)
    (later,) = receipts_of(team.take(one))
    mixed = earlier.rpartition(":")[0] + ":" + later.rpartition(":")[2]
    refused = settled(team, [earlier, mixed, later.replace("orders", "others"), "nonsense"])
    assert [type(verdict) for verdict in refused] == [LeaseExpired, LeaseExpired, LeaseExpired, ReceiptInvalid]
    assert [type(verdict) for verdict in settled(team, [later])] == [Outcome]


def test_who_names_itself_must_be_who_has_it() -> None:
    team = Team()
    team.publish("a")
    one = team.join()
    receipts = receipts_of(team.take(one))
    assert isinstance(settled(team, receipts, member="other")[0], GoQueueError)
    assert isinstance(settled(team, receipts, member=one)[0], Outcome)


def test_the_lease_names_a_log_that_is_looked_in_and_no_other() -> None:
    ledger = Team().coordinator.ledger
    assert all(ledger.lease(first + "0" * 32) is None for first in ("7", "8", "z", "-", ""))
