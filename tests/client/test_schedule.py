"""Schedules: the next time of each, compared with a search minute by minute."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.schedule import Cron, cron, every, parse_schedule
from goqueue.clock import NANOSECONDS
from goqueue.errors import RequestInvalid


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * NANOSECONDS


@pytest.mark.parametrize(
    ("fields", "after", "following"),
    [
        ("0 3 * * *", "2026-03-01T02:59:59", "2026-03-01T03:00:00"),
        ("0 3 * * *", "2026-03-01T03:00:00", "2026-03-02T03:00:00"),
        ("*/15 * * * *", "2026-03-01T10:44:00", "2026-03-01T10:45:00"),
        ("5/20 8-9 * * *", "2026-03-01T08:46:00", "2026-03-01T09:05:00"),
        ("30 9 * * mon-fri", "2026-02-27T10:00:00", "2026-03-02T09:30:00"),
        ("0 0 13 * fri", "2026-03-07T00:00:00", "2026-03-13T00:00:00"),  # both are restricted: either is enough
        ("0 0 1,15 * 3", "2026-03-02T00:00:00", "2026-03-04T00:00:00"),
        ("0 12 * * 7", "2026-03-02T00:00:00", "2026-03-08T12:00:00"),
        ("0 0 29 feb *", "2096-03-01T00:00:00", "2104-02-29T00:00:00"),
        ("@monthly", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
    ],
)
def test_next_time_of_cron_fields(fields: str, after: str, following: str) -> None:
    assert cron(fields).next_after(at(after)) == at(following)


def field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.tuples(st.one_of(st.just("*"), span), st.integers(1, 30)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    part = st.one_of(number.map(str), span, step)
    return st.one_of(st.just("*"), st.lists(part, min_size=1, max_size=3).map(",".join))


def matches(schedule: Cron, time: datetime) -> bool:
    days = [time.day in schedule.days, time.isoweekday() % 7 in schedule.weekdays]
    of_day = any(days) if schedule.either_day else all(days)
    return of_day and (
        time.minute in schedule.minutes and time.hour in schedule.hours and time.month in schedule.months
    )


@given(st.tuples(field(0, 59), field(0, 23), field(1, 28), st.just("*"), field(0, 7)), st.integers(0, 2**31))
def test_no_time_between_is_left_out(fields: tuple[str, ...], second: int) -> None:
    schedule = cron(" ".join(fields))
    following = schedule.next_after(second * NANOSECONDS)
    found = datetime.fromtimestamp(following // NANOSECONDS, UTC)
    minute = datetime.fromtimestamp(second // 60 * 60 + 60, UTC)
    assert matches(schedule, found)
    assert found >= minute
    for _ in range(3_000):  # two days
        if minute == found:
            break
        assert not matches(schedule, minute)
        minute += timedelta(minutes=1)
    assert schedule.next_after(following - 1) == following
    assert parse_schedule(str(schedule)) == schedule


@given(st.integers(1, 365 * 86_400), st.integers(0, 2**62))
def test_interval_is_kept_from_one_time_to_the_next(seconds: int, time_ns: int) -> None:
    schedule = every(seconds)
    following = schedule.next_after(time_ns)
    assert 0 < following - time_ns <= seconds * NANOSECONDS
    assert schedule.next_after(following) - following == seconds * NANOSECONDS
    assert parse_schedule(str(schedule)) == schedule


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("0 3 * *", "the schedule '0 3 * *' has 4 fields, and needs 5"),
        ("60 * * * *", "the minute '60' of a schedule is not in 0 to 59"),
        ("0 5-3 * * *", "the hour '5-3' of a schedule is not in 0 to 23"),
        ("*/0 * * * *", "the minute '*/0' of a schedule is not in 0 to 59"),
        ("0 0 * * funday", "the day of week 'funday' of a schedule is not understood"),
        ("0 0 30 2 *", "the schedule '0 0 30 2 *' never occurs"),
    ],
)
def test_fields_that_mean_nothing_are_refused(fields: str, sentence: str) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        cron(fields)
    assert refusal.value.sentence == sentence


@pytest.mark.parametrize("seconds", [0, 0.5, 1.5, 366 * 86_400])
def test_interval_out_of_range_is_refused(seconds: float) -> None:
    with pytest.raises(RequestInvalid, match="a schedule cannot run every"):
        every(seconds)
