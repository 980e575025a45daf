"""What becomes of what was handed out: done, tried again, given back, kept longer; and what silence means."""

import errno

import pytest

from goqueue.broker.delivery.claims import Statement
from goqueue.broker.delivery.rules import Rules
from goqueue.clock import NANOSECONDS
from goqueue.errors import DiskFull, LeaseExpired, LogFenced
from tests.broker.brokers import Told
from tests.broker.groupwork import Team, nanoseconds, values_of


def team_with(*values: str) -> tuple[Team, str]:
    team = Team()
    team.publish(*values)
    return team, team.join()


# --- done ---


def test_what_was_acknowledged_never_comes_back() -> None:
    team, one = team_with("a", "b", "c")
    team.ack(team.take(one), (0, 1), (2, 3))
    team.due(30.0)
    team = team.crash()
    team.due()
    assert values_of(team.poll(one)) == ["b"]


def test_what_was_answered_is_durable_and_what_was_not_is_not() -> None:
    team, one = team_with("a")
    portion = team.take(one)
    told = team.ask_to_settle(one, team.statement("ack", portion))
    assert told.all == []
    assert team.crash().cursor().floor == 0


def test_an_ack_may_be_repeated_when_its_answer_was_lost() -> None:
    team, one = team_with("a", "b", "c")
    portion = team.take(one)
    team.ack(portion, (0, 2))
    team.ack(portion, (0, 2))
    team.ack(portion, (1, 3))
    team.ack(portion, (0, 3))
    assert team.crash().cursor().floor == 3


def test_ack_may_be_repeated_when_the_time_of_its_lease_is_over_and_not_grow() -> None:
    team, one = team_with("a", "b", "c")
    portion = team.take(one, visibility=5.0)
    team.ack(portion, (0, 2))
    for let_pass in (team.running.clock.advance, team.due):  # before it is noticed, and afterwards
        let_pass(6.0)
        team.ack(portion, (0, 2))
        with pytest.raises(LeaseExpired):
            team.ack(portion)


def test_an_ack_may_name_a_message_twice() -> None:
    team, one = team_with("a", "b", "c")
    team.ack(team.take(one), (0, 2), (0, 1), (1, 2))
    assert (team.cursor().floor, team.cursor().settled()) == (2, [])


def test_a_dead_letter_that_is_named_twice_is_one() -> None:
    team, one = team_with("a")
    assert len(team.say("reject", team.take(one), (0, 1), (0, 1)).moved) == 1
    assert team.coordinator.settlement.counts.dead_letters == 1


# --- tried again ---


def test_what_failed_comes_back_after_a_delay_that_doubles() -> None:
    team, one = team_with("a")
    for seconds in (1.0, 2.0, 4.0):
        team.nack(team.take(one))
        team.due(seconds - 0.001)
        assert team.poll(one) == []
        team.due(0.001)
    assert team.take(one).grant.deliveries == 4


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (100, 60), (10**9, 60)])
def test_the_delay_has_a_limit(failures: int, seconds: int) -> None:
    assert Rules().retry_delay_ns(failures) == seconds * NANOSECONDS


def test_who_says_when_has_it_back_then() -> None:
    team, one = team_with("a", "b")
    portion = team.take(one)
    team.nack(portion, (0, 1), delay=0.0)
    team.nack(portion, (1, 2), delay=300.0)
    assert values_of(team.poll(one)) == ["a"]
    team.heartbeat(one)
    for _ in range(30):
        team.due(10.0)
        team.heartbeat(one)
    assert "b" in values_of(team.poll(one))


def test_only_what_failed_is_tried_again() -> None:
    team, one = team_with("a", "b", "c")
    portion = team.take(one)
    assert team.nack(portion, (1, 2)).requeued
    team.ack(portion, (0, 1), (2, 3))
    team.due(1.0)
    again = team.take(one)
    assert (values_of([again]), again.grant.deliveries, again.grant.failures) == (["b"], 2, 1)


def test_a_failure_and_its_delay_survive_a_crash() -> None:
    team, one = team_with("a")
    team.nack(team.take(one), delay=5.0)
    team = team.crash()
    team.due(4.9)
    assert team.poll(one) == []
    team.due(0.1)
    assert team.take(one).grant.failures == 1


def test_what_is_given_back_comes_at_once_and_has_not_failed() -> None:
    team, one = team_with("a")
    for deliveries in range(1, 10):
        portion = team.take(one)
        assert (portion.grant.deliveries, portion.grant.failures) == (deliveries, 0)
        team.say("release", portion)


# --- silence ---


def test_nobody_else_sees_a_message_until_its_time_is_over_and_then_that_was_a_failure() -> None:
    team, one = team_with("a")
    team.take(one, visibility=5.0)
    team.due(4.999)
    assert team.poll(one) == []
    team.due(0.001)
    again = team.take(one)
    assert (again.grant.deliveries, again.grant.failures) == (2, 1)
    assert team.coordinator.settlement.counts.expiries == 1


def test_what_comes_too_late_is_refused() -> None:
    team, one = team_with("a")
    portion = team.take(one, visibility=5.0)
    team.running.clock.advance(5.0)
    with pytest.raises(LeaseExpired):
        team.ack(portion)
    team.due()
    with pytest.raises(LeaseExpired):
        team.ack(portion)
    assert team.cursor().floor == 0


def test_a_lease_that_ended_while_the_broker_was_down_has_failed() -> None:
    team, one = team_with("a")
    team.take(one, visibility=5.0)
    team.running.clock.advance(6.0)
    team = team.crash()
    team.due()
    assert team.take(one).grant.failures == 1


def test_a_lease_goes_on_after_a_crash_and_can_be_settled() -> None:
    team, one = team_with("a", "b")
    portion = team.take(one)
    team = team.crash()
    assert team.poll(one) == []
    team.ack(portion)
    assert team.cursor().floor == 2


def test_an_expiry_that_the_disk_refuses_happens_a_moment_later() -> None:
    team, one = team_with("a")
    team.take(one, visibility=5.0)
    team.running.disk.fail("write", errno.ENOSPC)
    team.due(5.0)
    assert team.cursor().leased == 1
    team.due(1.0)
    assert team.take(one).grant.failures == 1


# --- kept longer ---


def test_a_lease_can_be_kept_longer_and_given_up_sooner() -> None:
    team, one = team_with("a")
    portion = team.take(one, visibility=5.0)
    outcome = team.say("extend", portion, timeout=20.0)
    assert outcome.until_ns == team.coordinator.clock.now_ns() + nanoseconds(20.0)
    team.due(19.0)
    assert team.poll(one) == []
    team.say("extend", portion, timeout=0.5)
    team.due(0.5)
    assert team.take(one).grant.failures == 1


def test_an_extension_survives_a_crash() -> None:
    team, one = team_with("a")
    portion = team.take(one, visibility=5.0)
    team.say("extend", portion, timeout=25.0)
    team = team.crash()
    team.due(10.0)
    team.ack(portion)


def test_a_lease_does_not_last_for_ever() -> None:
    team, one = team_with("a")
    portion = team.take(one)
    latest_ns = portion.grant.given_ns + nanoseconds(12 * 3600)
    first = team.say("extend", portion, timeout=11 * 3600)
    assert first.until_ns is not None
    assert first.until_ns < latest_ns
    team.due(2 * 3600)
    assert team.say("extend", portion, timeout=11 * 3600).until_ns == latest_ns


# --- who may speak ---


def test_another_member_cannot_speak_of_a_lease() -> None:
    team, one = team_with("a")
    portion = team.take(one)
    for verb in ("ack", "nack", "reject", "release", "extend"):
        with pytest.raises(LeaseExpired, match="'other'"):
            team.say(verb, portion, member="other")
    assert team.cursor().leased == 1


def test_nobody_speaks_of_what_was_not_in_the_lease() -> None:
    team, one = team_with("a", "b", "c")
    portion = team.take(one, 2)
    for ranges in ((0, 3), (2, 3), (1, 1), (1, 0)):
        with pytest.raises(LeaseExpired):
            team.ack(portion, ranges)
    assert team.cursor().leased == 2


def test_what_is_done_cannot_fail_any_more() -> None:
    team, one = team_with("a", "b")
    portion = team.take(one)
    team.ack(portion, (0, 1))
    for verb in ("nack", "reject", "release"):
        with pytest.raises(LeaseExpired):
            team.say(verb, portion, (0, 2))
    assert team.cursor().leased == 1


def test_an_ack_of_what_has_failed_already_is_refused() -> None:
    team, one = team_with("a", "b")
    portion = team.take(one)
    team.nack(portion, (0, 1))
    with pytest.raises(LeaseExpired):
        team.ack(portion, (0, 2))
    assert team.cursor().floor == 0


def test_a_lease_that_never_was_is_refused() -> None:
    team, one = team_with("a")
    told = team.ask_to_settle(
        one, Statement("ack", "orders", 0, "5" + "0" * 32, ((0, 1),)), Statement("ack", "nothing", 7, "", ((0, 1),))
    )
    team.running.flush()
    assert [type(verdict) for verdict in told.result] == [LeaseExpired, LeaseExpired]


def test_each_statement_is_taken_or_refused_for_itself() -> None:
    team, one = team_with("a", "b", "c")
    portion = team.take(one)
    told = team.ask_to_settle(
        one,
        team.statement("ack", portion, [(0, 1)]),
        team.statement("ack", portion, [(5, 6)]),
        team.statement("nack", portion, [(1, 2)]),
    )
    team.running.flush()
    ack, refused, nack = told.result
    assert not isinstance(ack, LeaseExpired)
    assert isinstance(refused, LeaseExpired)
    assert not isinstance(nack, LeaseExpired)
    assert (team.cursor().floor, team.cursor().leased, team.cursor().waiting.count) == (1, 1, 1)


# --- the disk ---


def test_what_the_disk_refuses_did_not_happen_and_can_be_said_again() -> None:
    team, one = team_with("a")
    portion = team.take(one)
    told = team.ask_to_settle(one, team.statement("ack", portion))
    team.running.disk.fail("write", errno.ENOSPC)
    team.running.flush()
    assert isinstance(told.refusal, DiskFull)
    assert team.cursor().leased == 1
    team.ack(portion)
    assert team.crash().cursor().floor == 1


def test_who_repeats_an_ack_hears_nothing_before_the_first_one_is_durable() -> None:
    team, one = team_with("a")
    portion = team.take(one)
    first = team.ask_to_settle(one, team.statement("ack", portion))
    again = team.ask_to_settle(one, team.statement("ack", portion))
    assert first.all == again.all == []
    team.running.disk.fail("write", errno.ENOSPC)
    team.running.flush()
    assert isinstance(first.refusal, DiskFull)
    assert isinstance(again.refusal, DiskFull)


def test_a_fenced_log_refuses_its_groups_and_says_so() -> None:
    team, one = team_with("a")
    portion = team.take(one)
    told = team.ask_to_settle(one, team.statement("ack", portion))
    team.running.disk.fail("sync", errno.EIO, path="*/__consumer_offsets/*.log")
    team.running.flush()
    assert isinstance(told.refusal, LogFenced)
    with pytest.raises(LogFenced):
        team.ask_to_settle(one, team.statement("ack", portion))
    assert Team(team.running.crash(), "team").cursor().leased == 1


def test_what_happens_is_counted() -> None:
    team, one = team_with(*"abcde")
    portion = team.take(one)
    for number, verb in enumerate(("ack", "nack", "reject", "release")):
        team.say(verb, portion, (number, number + 1))  # type: ignore[arg-type]
    team.say("extend", portion, timeout=1.0)
    counts = team.coordinator.settlement.counts
    assert (counts.acks, counts.nacks, counts.rejects, counts.releases, counts.extensions) == (1, 1, 1, 1, 1)
    assert counts.dead_letters == 1


def test_dead_letters_of_a_member_that_is_gone_are_counted_too() -> None:
    team, one = team_with("a")
    for _ in range(3):
        team.nack(team.take(one, visibility=60.0), delay=0.0)
    team.take(one, visibility=60.0)
    team.due(30.0)
    team.due(0.03)
    assert team.coordinator.settlement.counts.dead_letters == 1


def test_progress_is_told_with_how_many() -> None:
    team, one = team_with("a", "b", "c")
    seen: Told[int] = Told()
    team.coordinator.settlement.on_progress = lambda _, count: seen(count)
    team.ack(team.take(one), (0, 1), (1, 3))
    assert seen.all == [3]
