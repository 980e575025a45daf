"""Figures as tables show them."""

import time

import pytest

from goqueue.console.formatting import (
    PRIORITIES,
    format_ago,
    format_milliseconds,
    format_partitions,
    format_rate,
    format_size_rate,
    format_to_second,
    format_until,
    priority_name,
)
from goqueue.quantities import format_time
from goqueue.storage import frame


@pytest.mark.parametrize(
    ("a_second", "shown"),
    [
        (0, "0/s"), (0.001, "<0.01/s"), (0.01, "0.01/s"), (1.5, "1.5/s"), (2.0, "2/s"),
        (12.34, "12.3/s"), (100, "100/s"), (1234567.8, "1,234,568/s"),
    ],
)  # fmt: skip
def test_a_rate_has_as_many_digits_as_tell_something(a_second: float, shown: str) -> None:
    assert format_rate(a_second) == shown


def test_sizes_and_times_have_their_units() -> None:
    assert (format_size_rate(1536.4), format_milliseconds(21.006), format_milliseconds(1500)) == (
        "1.5KiB/s",
        "21ms",
        "1.5s",
    )


def test_a_moment_is_ahead_or_behind() -> None:
    now = time.time_ns()
    assert (format_until(format_time(now + 90 * 10**9)), format_until(format_time(now - 3_600 * 10**9))) == (
        "in 1m30s",
        "1h ago",
    )


def test_a_time_for_people_ends_with_its_second() -> None:
    assert (
        format_to_second("2026-03-01T12:00:00.999999999Z")
        == format_to_second("2026-03-01T12:00:00Z")
        == "2026-03-01T12:00:00Z"
    )


def test_priorities_have_the_names_of_the_broker() -> None:
    assert PRIORITIES == frame.PRIORITIES
    assert [priority_name(number) for number in (0, 4, 9)] == ["critical", "background", "9"]


def test_a_clock_that_is_ahead_makes_nothing_older_than_now() -> None:
    assert format_ago(format_time(time.time_ns() + 10**12)) == "0s ago"


@pytest.mark.parametrize(
    ("places", "shown"),
    [
        ([], "-"),
        ([("orders", 0)], "orders/0"),
        ([("orders", 5), ("payments", 1), ("orders", 1), ("orders", 0), ("orders", 2)], "orders/0-2,5 payments/1"),
    ],
)
def test_partitions_next_to_each_other_are_a_run(places: list[tuple[str, int]], shown: str) -> None:
    assert format_partitions(places) == shown
