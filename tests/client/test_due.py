"""When a message is to be delivered, as callers may say it, and what is refused at the call."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue import delay
from goqueue.client import Nanoseconds
from goqueue.client.times import delay_fields, delay_header, shift_text
from goqueue.clock import NANOSECONDS
from goqueue.errors import RequestInvalid
from goqueue.limits import DELAY_SECONDS_MAX
from goqueue.quantities import parse_duration

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW_NS = 1_772_366_400 * NANOSECONDS
YEAR = timedelta(seconds=DELAY_SECONDS_MAX)


def header(after: Any = None, at: Any = None) -> tuple[str, bytes] | None:
    return delay_header(after, at, lambda: NOW_NS)


@pytest.mark.parametrize(
    ("after", "nanoseconds"),
    [
        (5, 5 * NANOSECONDS),
        (0.0015, 1_500_000),
        ("1h30m", 5400 * NANOSECONDS),
        ("250ms", 250_000_000),
        (timedelta(minutes=5), 300 * NANOSECONDS),
        (YEAR, 366 * 86_400 * NANOSECONDS),
    ],
)
def test_a_delay_is_seconds_text_or_a_timedelta(after: Any, nanoseconds: int) -> None:
    assert header(after) == delay.deliver_in_header(nanoseconds)
    assert delay_fields(after, None) == {"delay": nanoseconds / NANOSECONDS}


@pytest.mark.parametrize(
    "at",
    [
        NOW,
        NOW.astimezone(timezone(timedelta(hours=2))),
        "2026-03-01T12:00:00Z",
        "2026-03-01T14:00:00+02:00",
        Nanoseconds(NOW_NS),
    ],
)
def test_a_time_is_a_datetime_text_or_nanoseconds(at: Any) -> None:
    assert header(at=at) == delay.deliver_at_header(NOW_NS)
    assert delay_fields(None, at) == {"deliver_at": "2026-03-01T12:00:00.000000000Z"}


@pytest.mark.parametrize("after", [None, "", 0, 0.0, "0s", timedelta()])
def test_no_delay_is_no_delay(after: Any) -> None:
    assert header(after) is None
    assert header(after, "") is None
    assert not delay_fields(after, None).get("delay")


def test_what_is_past_is_delayed_until_now() -> None:
    assert header(at=NOW - YEAR) == delay.deliver_at_header(NOW_NS)


@pytest.mark.parametrize(
    ("after", "at", "why"),
    [
        (1, NOW, "give one of them"),
        (0, NOW, "give one of them"),
        (-1, None, "-1 is not a number of seconds"),
        (float("nan"), None, "nan is not"),
        (float("inf"), None, "inf is not"),
        ("5 parsecs", None, "unknown unit"),
        ("-5m", None, "negative"),
        ([5], None, "delay is list"),
        (timedelta(seconds=-1), None, "-1.0 is not"),
        (YEAR + timedelta(seconds=1), None, "too long, 366 days are the most"),
        (2**63, None, "too long"),
        (None, NOW.replace(tzinfo=None), "no time zone"),
        (None, "tomorrow", "not a time"),
        (None, 1_772_366_400, "deliver_at is 1772366400"),
        (None, 1_772_366_400.5, "deliver_at is 1772366400.5"),
    ],
)
def test_what_can_not_be_meant_is_refused(after: Any, at: Any, why: str) -> None:
    for say in (header, delay_fields):
        with pytest.raises(RequestInvalid, match=why):
            say(after, at)


def test_a_time_may_be_a_year_ahead_and_no_more() -> None:
    assert header(at=NOW + YEAR) is not None
    with pytest.raises(RequestInvalid, match=r"2027-03-02T12:00:00\.000001000Z is too far ahead: 366 days"):
        header(at=NOW + YEAR + timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("shift", "text"),
    [
        ("1h30m", "1h30m"),
        ("+90s", "1m30s"),
        ("-5m", "-5m"),
        (-300, "-5m"),
        (0.5, "500ms"),
        (timedelta(days=-1, seconds=1), "-23h59m59s"),
    ],
)
def test_a_shift_may_have_a_sign(shift: Any, text: str) -> None:
    assert shift_text(shift) == text


@pytest.mark.parametrize("shift", ["--5m", "-", "+-1s", "soon", None, float("nan")])
def test_a_shift_is_a_duration(shift: Any) -> None:
    with pytest.raises(RequestInvalid, match="shift"):
        shift_text(shift)


@given(st.integers(int(-1000 * DELAY_SECONDS_MAX), int(1000 * DELAY_SECONDS_MAX)).map(lambda whole: whole / 1000))
def test_a_shift_is_read_back_as_it_was(seconds: float) -> None:
    text = shift_text(seconds)
    assert parse_duration(text.removeprefix("-")) == abs(seconds)
    assert text.startswith("-") == (seconds < 0)
