"""Lag and drain estimate of groups."""

import pytest

from goqueue.broker.groups.lag import GroupLag, RateMeter
from goqueue.clock import NANOSECONDS
from tests.broker.groupwork import ORDERS, Team


def lag_of(team: Team) -> GroupLag:
    (lag,) = team.do(team.coordinator.lags.of_group("team"))
    return lag


def lag(messages: int, rate: float, incoming: float, seconds: float = 60.0) -> GroupLag:
    return GroupLag(ORDERS, "one", 0, 0, messages, messages, seconds, 0, 0, 0, 0, 0, rate, incoming, 0.0)


def test_lag_counts_unfinished_messages(team: Team) -> None:
    one = team.join()
    team.publish("a", "b", "c", "d")
    team.running.clock.advance(5.0)
    found = lag_of(team)
    assert (found.ref, found.member, found.floor, found.end, found.messages) == (ORDERS, one, 0, 4, 4)
    assert found.seconds == pytest.approx(5.0)


def test_lag_reports_leased_waiting_and_moving_messages(team: Team) -> None:
    one = team.join()
    team.publish(*"abcdef")
    batch = team.take(one, 5)
    team.ack(batch, (1, 2))
    team.nack(batch, (0, 1), delay=60.0)
    team.settle("reject", batch, (2, 3))
    team.ack_in_transaction(batch, (3, 4))
    found = lag_of(team)
    assert (found.messages, found.in_flight, found.waiting, found.moving, found.transactional) == (5, 1, 1, 1, 1)


def test_transactional_acks_count_as_progress_once_at_commit(team: Team) -> None:
    one = team.join()
    team.publish("a", "b", "c")
    team.ack_in_transaction(team.take(one, 1))
    team.commit_in_transaction(3, member=one)
    assert (lag_of(team).messages, lag_of(team).rate) == (3, 0.0)
    team.end_transaction(is_commit=True)
    rate = lag_of(team).rate
    team.end_transaction(is_commit=True)
    assert (lag_of(team).messages, lag_of(team).rate) == (0, rate)
    assert rate == pytest.approx(3.0, rel=0.1)


def test_offset_commit_counts_only_unfinished_messages_as_progress(team: Team) -> None:
    one = team.join()
    team.publish(*"abcdef")
    batch = team.take(one, 4)
    team.ack(batch, (1, 2))
    before = lag_of(team).rate
    team.ack_in_transaction(batch, (0, 1))
    for offset in (3, 5, 5):
        team.commit(one, offset)
    assert lag_of(team).rate == pytest.approx(4 * before, rel=0.01)


def test_messages_removed_by_retention_are_lost_and_not_lag(team: Team) -> None:
    one = team.join()
    team.publish("a", "b")
    team.expire()
    team.publish("c")
    before = lag_of(team)
    team.poll(one)
    found = lag_of(team)
    assert (before.messages, before.lost) == (found.messages, found.lost) == (1, 2)


def test_lag_of_unassigned_partition_and_unknown_group(team: Team) -> None:
    team.leave(team.join())
    team.publish("a")
    assert lag_of(team).member is None
    assert team.do(team.coordinator.lags.of_group("unknown")) == []


def test_deleted_topic_has_no_lag(team: Team) -> None:
    team.join()
    team.running.delete()
    assert team.do(team.coordinator.lags.of_group("team")) == []


def test_lag_lists_partitions_in_order() -> None:
    team = Team(partitions=12)
    team.join()
    assert [found.ref[1] for found in team.do(team.coordinator.lags.of_group("team"))] == list(range(12))


def test_rates_cover_last_minute_and_are_dropped_with_group(team: Team) -> None:
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
def test_drain_estimate(messages: int, rate: float, incoming: float, seconds: float | None) -> None:
    assert lag(messages, rate, incoming).drain_seconds == seconds


@pytest.mark.parametrize(
    ("messages", "age", "seconds"), [(3, 0.3, 0.3), (49, 4.9, 4.9), (51, 4.9, None), (3, 5.1, None)]
)
def test_drain_estimate_of_group_that_keeps_up_is_the_time_of_what_waits(
    messages: int, age: float, seconds: float | None
) -> None:
    assert lag(messages, 10.0, 10.1, age).drain_seconds == seconds
    assert lag(messages, 10.0, 12.0, age).drain_seconds is None


def test_incoming_rate_of_new_topic_covers_the_time_since_its_first_message(team: Team) -> None:
    one = team.join()
    for _ in range(10):
        team.publish("a", "b", "c")
        team.running.clock.advance(1.0)
        team.ack(team.take(one, 2))
    found = lag_of(team)
    assert found.incoming == pytest.approx(3.0)
    assert found.rate < found.incoming
    assert found.drain_seconds is None


def test_incoming_rate_of_a_burst_after_silence_covers_a_minute(team: Team) -> None:
    team.join()
    team.publish("a")
    team.running.clock.advance(600.0)
    team.publish(*"bcdefg")
    assert lag_of(team).incoming == pytest.approx(0.1)


def test_rate_meter_is_accurate_from_start_and_decays() -> None:
    meter = RateMeter(0)
    for second in range(10):
        meter.add(100, second * NANOSECONDS)
    assert meter.rate(10 * NANOSECONDS) == pytest.approx(100, rel=0.1)
    assert meter.rate(600 * NANOSECONDS) < 1


def test_drain_estimate_is_absent_without_members(team: Team) -> None:
    one = team.join()
    team.publish("a", "b", "c")
    team.running.clock.advance(90.0)
    team.ack(team.take(one, 2))
    assert lag_of(team).drain_seconds is not None
    team.leave(one)
    assert lag_of(team).drain_seconds is None
