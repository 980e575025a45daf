"""Settlement: ack, retry, release, extend, and expired leases."""

import errno

import pytest

from goqueue.broker.groups.retries import DeliveryPolicy
from goqueue.broker.groups.settle_commands import SettleCommand
from goqueue.clock import NANOSECONDS
from goqueue.errors import DiskFull, LeaseExpired, LogFenced
from tests.broker.brokers import Told
from tests.broker.groupwork import Team, nanoseconds, team_with

# --- done ---


def test_answered_ack_is_durable() -> None:
    team, one = team_with("a")
    batch = team.take(one)
    told = team.ask_to_settle(one, team.command("ack", batch))
    assert told.all == []
    assert team.crash().cursor().floor == 0


def test_ack_can_be_repeated() -> None:
    team, one = team_with("a", "b", "c")
    batch = team.take(one)
    team.ack(batch, (0, 2))
    team.ack(batch, (0, 2))
    team.ack(batch, (1, 3))
    team.ack(batch, (0, 3))
    assert team.crash().cursor().floor == 3


def test_ack_can_be_repeated_but_not_extended_after_expiry() -> None:
    team, one = team_with("a", "b", "c")
    batch = team.take(one, visibility=5.0)
    team.ack(batch, (0, 2))
    for let_pass in (team.running.clock.advance, team.due):  # before it is noticed, and afterwards
        let_pass(6.0)
        team.ack(batch, (0, 2))
        with pytest.raises(LeaseExpired):
            team.ack(batch)


def test_ack_can_name_a_message_twice() -> None:
    team, one = team_with("a", "b", "c")
    team.ack(team.take(one), (0, 2), (0, 1), (1, 2))
    assert (team.cursor().floor, team.cursor().settled()) == (2, [])


def test_reject_naming_a_message_twice_moves_it_once() -> None:
    team, one = team_with("a")
    assert len(team.settle("reject", team.take(one), (0, 1), (0, 1)).moved) == 1
    assert team.coordinator.settlement.counts.dead_letters == 1


# --- tried again ---


def test_nacked_message_is_retried_with_doubling_backoff() -> None:
    team, one = team_with("a")
    for seconds in (1.0, 2.0, 4.0):
        team.nack(team.take(one))
        team.due(seconds - 0.001)
        assert team.poll(one) == []
        team.due(0.001)
    assert team.take(one).grant.deliveries == 4


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (100, 60), (10**9, 60)])
def test_retry_backoff_is_limited(failures: int, seconds: int) -> None:
    assert DeliveryPolicy().retry_delay_ns(failures) == seconds * NANOSECONDS


# --- silence ---


def test_expired_lease_is_redelivered_as_failure() -> None:
    team, one = team_with("a")
    team.take(one, visibility=5.0)
    team.due(4.999)
    assert team.poll(one) == []
    team.due(0.001)
    again = team.take(one)
    assert (again.grant.deliveries, again.grant.failures) == (2, 1)
    assert team.coordinator.settlement.counts.expiries == 1


def test_ack_after_expiry_is_refused() -> None:
    team, one = team_with("a")
    batch = team.take(one, visibility=5.0)
    team.running.clock.advance(5.0)
    with pytest.raises(LeaseExpired):
        team.ack(batch)
    team.due()
    with pytest.raises(LeaseExpired):
        team.ack(batch)
    assert team.cursor().floor == 0


def test_lease_expired_while_broker_was_down_counts_as_failure() -> None:
    team, one = team_with("a")
    team.take(one, visibility=5.0)
    team.running.clock.advance(6.0)
    team = team.crash()
    team.due()
    assert team.take(one).grant.failures == 1


def test_lease_expiry_refused_by_disk_is_repeated() -> None:
    team, one = team_with("a")
    team.take(one, visibility=5.0)
    team.running.refuse_writes()
    team.due(5.0)
    assert team.cursor().leased == 1
    team.due(1.0)
    assert team.take(one).grant.failures == 1


# --- kept longer ---


def test_extend_can_lengthen_and_shorten_lease() -> None:
    team, one = team_with("a")
    batch = team.take(one, visibility=5.0)
    outcome = team.settle("extend", batch, timeout=20.0)
    assert outcome.until_ns == team.coordinator.clock.now_ns() + nanoseconds(20.0)
    team.due(19.0)
    assert team.poll(one) == []
    team.settle("extend", batch, timeout=0.5)
    team.due(0.5)
    assert team.take(one).grant.failures == 1


def test_lease_extension_is_limited() -> None:
    team, one = team_with("a")
    batch = team.take(one)
    latest_ns = batch.grant.given_ns + nanoseconds(12 * 3600)
    first = team.settle("extend", batch, timeout=11 * 3600)
    assert first.until_ns is not None
    assert first.until_ns < latest_ns
    team.due(2 * 3600)
    assert team.settle("extend", batch, timeout=11 * 3600).until_ns == latest_ns


# --- who may speak ---


def test_lease_of_other_member_cannot_be_settled() -> None:
    team, one = team_with("a")
    batch = team.take(one)
    for action in ("ack", "nack", "reject", "release", "extend"):
        with pytest.raises(LeaseExpired, match="'other'"):
            team.settle(action, batch, member="other")
    assert team.cursor().leased == 1


def test_offsets_outside_lease_are_refused() -> None:
    team, one = team_with("a", "b", "c")
    batch = team.take(one, 2)
    for ranges in ((0, 3), (2, 3), (1, 1), (1, 0)):
        with pytest.raises(LeaseExpired):
            team.ack(batch, ranges)
    assert team.cursor().leased == 2


def test_acked_message_cannot_be_nacked() -> None:
    team, one = team_with("a", "b")
    batch = team.take(one)
    team.ack(batch, (0, 1))
    for action in ("nack", "reject", "release"):
        with pytest.raises(LeaseExpired):
            team.settle(action, batch, (0, 2))
    assert team.cursor().leased == 1


def test_nacked_message_cannot_be_acked() -> None:
    team, one = team_with("a", "b")
    batch = team.take(one)
    team.nack(batch, (0, 1))
    with pytest.raises(LeaseExpired):
        team.ack(batch, (0, 2))
    assert team.cursor().floor == 0


def test_unknown_lease_is_refused() -> None:
    team, one = team_with("a")
    told = team.ask_to_settle(
        one,
        SettleCommand("ack", "orders", 0, "5" + "0" * 32, ((0, 1),)),
        SettleCommand("ack", "nothing", 7, "", ((0, 1),)),
    )
    team.running.flush()
    assert [type(reply) for reply in told.result] == [LeaseExpired, LeaseExpired]


def test_each_command_is_accepted_or_refused_alone() -> None:
    team, one = team_with("a", "b", "c")
    batch = team.take(one)
    told = team.ask_to_settle(
        one,
        team.command("ack", batch, [(0, 1)]),
        team.command("ack", batch, [(5, 6)]),
        team.command("nack", batch, [(1, 2)]),
    )
    team.running.flush()
    ack, refused, nack = told.result
    assert not isinstance(ack, LeaseExpired)
    assert isinstance(refused, LeaseExpired)
    assert not isinstance(nack, LeaseExpired)
    assert (team.cursor().floor, team.cursor().leased, team.cursor().waiting.count) == (1, 1, 1)


# --- the disk ---


def test_repeated_ack_waits_for_durability_of_first() -> None:
    team, one = team_with("a")
    batch = team.take(one)
    first = team.ask_to_settle(one, team.command("ack", batch))
    again = team.ask_to_settle(one, team.command("ack", batch))
    assert first.all == again.all == []
    team.running.refuse_writes()
    team.running.flush()
    assert isinstance(first.refusal, DiskFull)
    assert isinstance(again.refusal, DiskFull)


def test_fenced_log_refuses_settlement() -> None:
    team, one = team_with("a")
    batch = team.take(one)
    told = team.ask_to_settle(one, team.command("ack", batch))
    team.running.disk.fail("sync", errno.EIO, path="*/__consumer_offsets/*.log")
    team.running.flush()
    assert isinstance(told.refusal, LogFenced)
    with pytest.raises(LogFenced):
        team.ask_to_settle(one, team.command("ack", batch))
    assert Team(team.running.crash(), "team").cursor().leased == 1


def test_settlements_are_counted() -> None:
    team, one = team_with(*"abcde")
    batch = team.take(one)
    for number, action in enumerate(("ack", "nack", "reject", "release")):
        team.settle(action, batch, (number, number + 1))  # type: ignore[arg-type]
    team.settle("extend", batch, timeout=1.0)
    counts = team.coordinator.settlement.counts
    assert (counts.acks, counts.nacks, counts.rejects, counts.releases, counts.extensions) == (1, 1, 1, 1, 1)
    assert counts.dead_letters == 1


def test_dead_letters_of_expired_member_are_counted() -> None:
    team, one = team_with("a")
    for _ in range(3):
        team.nack(team.take(one, visibility=60.0), delay=0.0)
    team.take(one, visibility=60.0)
    team.due(30.0)
    team.due(0.03)
    assert team.coordinator.settlement.counts.dead_letters == 1


def test_progress_reports_number_of_messages() -> None:
    team, one = team_with("a", "b", "c")
    seen: Told[int] = Told()
    team.coordinator.settlement.on_progress.subscribe(lambda _, count: seen(count))
    team.ack(team.take(one), (0, 1), (1, 3))
    assert seen.all == [3]
