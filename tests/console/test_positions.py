"""Moments as people write them, ahead and behind."""

import time

import pytest

from goqueue.console.failure import UsageInvalid
from goqueue.console.positions import parse_time_flag
from goqueue.quantities import parse_time

_HOUR = 3_600 * 10**9


@pytest.mark.parametrize(("text", "away"), [("now", 0), ("+1h", _HOUR), ("-1h30m", -_HOUR * 3 // 2)])
def test_a_moment_may_be_told_from_now(text: str, away: int) -> None:
    before = time.time_ns()
    assert before + away <= parse_time_flag("--at", text) <= time.time_ns() + away


def test_nothing_was_before_the_first_of_all_moments() -> None:
    assert parse_time_flag("--from", "-100000d") == 0


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-03-01", "2026-03-01T00:00:00Z"),
        ("2026-03-01 12:30", "2026-03-01T12:30:00Z"),
        ("2026-03-01T12:30:00+02:00", "2026-03-01T10:30:00Z"),
    ],
)
def test_a_moment_may_be_a_time_or_a_day(text: str, meant: str) -> None:
    assert parse_time_flag("--at", text) == parse_time(meant)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("5m", "did you mean --at +5m?"),
        ("17", "did you mean --at +17s?"),
        ("+17", "did you mean --at +17s?"),
        ("soon", "--at takes now, a time"),
        ("+soon", "--at takes now, a time"),
        ("", "--at takes now, a time"),
    ],
)
def test_what_is_no_moment_is_told_with_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(UsageInvalid) as refused:
        parse_time_flag("--at", text)
    assert (refused.value.hint or "").startswith(hint)
