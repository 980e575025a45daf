"""How far behind a group is, and when it will have caught up."""

import pytest

from goqueue.broker.groups.lag import Lag, Meter
from goqueue.clock import NANOSECONDS
from tests.broker.groupwork import ORDERS, Team


def lag_of(team: Team) -> Lag:
    (lag,) = team.do(team.coordinator.lags.of("team"))
    return lag


def lag(messages: int, rate: float, incoming: float) -> Lag:
    return Lag(ORDERS, "one", 0, 0, messages, 0.0, 0, 0, 0, 0, 0, rate, incoming)


def test_what_is_published_and_not_done_is_the_lag() -> None:
    team = Team()
    one = team.join()
    team.publish("a", "b", "c", "d")
    team.running.clock.advance(5.0)
    found = lag_of(team)
    assert (found.place, found.member, found.floor, found.end, found.messages) == (ORDERS, one, 0, 4, 4)
    assert found.seconds == pytest.approx(5.0)


def test_each_message_is_told_where_it_is() -> None:
    team = Team()
    one = team.join()
    team.publish(*"abcdef")
    portion = team.take(one, 5)
    team.ack(portion, (1, 2))
    team.nack(portion, (0, 1), delay=60.0)
    team.say("reject", portion, (2, 3))
    team.pledge(portion, (3, 4))
    found = lag_of(team)
    assert (found.messages, found.leased, found.waiting, found.moving, found.pledged) == (5, 1, 1, 1, 1)


def test_what_is_pledged_is_done_for_the_speed_when_its_transaction_is_committed_and_once() -> None:
    team = Team()
    one = team.join()
    team.publish("a", "b", "c")
    team.pledge(team.take(one, 1))
    team.pledge_offset(3, member=one)
    assert (lag_of(team).messages, lag_of(team).rate) == (3, 0.0)
    team.redeem(is_commit=True)
    rate = lag_of(team).rate
    team.redeem(is_commit=True)
    assert (lag_of(team).messages, lag_of(team).rate) == (0, rate)
    assert rate == pytest.approx(3.0, rel=0.1)


def test_a_commit_counts_what_was_left_and_not_what_was_done_or_is_pledged() -> None:
    team = Team()
    one = team.join()
    team.publish(*"abcdef")
    portion = team.take(one, 4)
    team.ack(portion, (1, 2))
    before = lag_of(team).rate
    team.pledge(portion, (0, 1))
    for offset in (3, 5, 5):
        team.commit(one, offset)
    assert lag_of(team).rate == pytest.approx(4 * before, rel=0.01)


def test_when_all_is_done_there_is_none() -> None:
    team = Team()
    one = team.join()
    team.publish("a", "b")
    team.ack(team.take(one))
    found = lag_of(team)
    assert (found.messages, found.seconds, found.drain_seconds) == (0, 0.0, 0.0)


def test_what_retention_took_is_no_lag_and_is_told() -> None:
    team = Team()
    one = team.join()
    team.publish("a", "b")
    team.expire()
    team.publish("c")
    team.poll(one)
    found = lag_of(team)
    assert (found.messages, found.lost) == (1, 2)


def test_a_place_that_nobody_has_and_a_group_that_is_none() -> None:
    team = Team()
    team.leave(team.join())
    team.publish("a")
    assert lag_of(team).member is None
    assert team.do(team.coordinator.lags.of("nobody")) == []


def test_a_topic_that_is_gone_has_no_lag() -> None:
    team = Team()
    team.join()
    team.running.delete()
    assert team.do(team.coordinator.lags.of("team")) == []


def test_places_come_in_their_order() -> None:
    team = Team(partitions=12)
    team.join()
    assert [found.place[1] for found in team.do(team.coordinator.lags.of("team"))] == list(range(12))


def test_rates_are_of_the_last_minute_and_are_forgotten_with_the_group() -> None:
    team = Team()
    one = team.join(session=1800.0)
    for _ in range(60):
        team.running.clock.advance(1.0)
        team.publish("a", "b")
        team.ack(team.take(one))
    found = lag_of(team)
    assert found.rate == pytest.approx(2.0, rel=0.1)
    assert found.incoming == pytest.approx(2.0, rel=0.1)
    team.coordinator.lags.forget("team")
    assert lag_of(team).rate == 0.0


@pytest.mark.parametrize(
    ("messages", "rate", "incoming", "seconds"),
    [(0, 0.0, 5.0, 0.0), (100, 20.0, 10.0, 10.0), (100, 10.0, 10.0, None), (100, 5.0, 10.0, None)],
)
def test_when_it_will_have_caught_up(messages: int, rate: float, incoming: float, seconds: float | None) -> None:
    assert lag(messages, rate, incoming).drain_seconds == seconds


def test_a_meter_is_right_from_the_start_and_forgets() -> None:
    meter = Meter(0)
    for second in range(10):
        meter.add(100, second * NANOSECONDS)
    assert meter.rate(10 * NANOSECONDS) == pytest.approx(100, rel=0.1)
    assert meter.rate(600 * NANOSECONDS) < 1


def test_what_nobody_reads_will_never_have_caught_up() -> None:
    team = Team()
    one = team.join()
    team.publish("a", "b")
    team.ack(team.take(one, 1))
    assert lag_of(team).drain_seconds is not None
    team.leave(one)
    assert lag_of(team).drain_seconds is None
