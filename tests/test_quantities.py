"""Sizes and durations: what is read, what is refused with which words, and what is written."""

import math
from contextlib import suppress
from operator import mul

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.quantities import (
    DURATION_NS_MAX,
    DURATION_UNITS,
    SIZE_BYTES_MAX,
    SIZE_UNITS,
    TIME_NS_MAX,
    format_count,
    format_duration,
    format_size,
    format_time,
    parse_duration,
    parse_size,
    parse_time,
    quoted,
)

AMBIGUOUS_NUMBERS = [
    *("", " ", "1\n", "\x00", "nan", "inf", "-inf", "+5", "--1", "1e6", "0x10", "010", "1_000", "1,000", ".5", "5."),
    *("\u0663", "\u096b", "\uff11", "\u00bd", "\u00b2", "\u221e"),
]
TINY_COUNTS = st.integers(0, 999)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("4096", 4096), ("1B", 1), ("64MiB", 2**26), ("64 MiB", 2**26), ("1KB", 1000), ("1.5GiB", 3 * 2**29)],
)
def test_a_size_is_a_number_with_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("1h30m", 5400), ("1h 30m", 5400), ("7d", 604800), ("0.1", 0.1), ("1ns", 1e-9)],
)
def test_a_duration_is_numbers_with_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", AMBIGUOUS_NUMBERS)
def test_what_is_no_plain_number_is_refused_with_its_value(text: str) -> None:
    for parse in (parse_size, parse_duration):
        with pytest.raises(ValueError, match=r"^'.*' (is|begins)") as refusal:
            parse(text)
        assert repr(text) in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-5MiB", "negative"),
        ("64mib", "write MiB"),
        ("64M", "write MiB or MB"),
        ("64k", "write KiB or KB"),
        ("5 apples", "known are"),
        ("0.5B", "not a whole number of bytes"),
        ("8388608TiB", "too large"),
        ("9" * 1_000_000, "too long"),
    ],
)
def test_a_refused_size_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-1s", "negative"),
        ("5M", "write m"),
        ("5min", "write m"),
        ("2 hours", "write h"),
        ("5µs", "write us"),
        ("1w", "known are"),
        ("30m1h", "large units to small"),
        ("1h1h", "each once"),
        ("1.5h3m", "fraction before its last unit"),
        ("0.1ns", "finer than a nanosecond"),
        ("106752d", "292 years"),
    ],
)
def test_a_refused_duration_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_duration(text)


@given(st.text(max_size=50))
def test_any_text_gives_a_value_or_a_value_error(text: str) -> None:
    for parse, most in ((parse_size, SIZE_BYTES_MAX), (parse_duration, DURATION_NS_MAX / 1e9)):
        with suppress(ValueError):
            assert 0 <= parse(text) <= most


@given(st.integers(0, SIZE_BYTES_MAX) | st.builds(mul, TINY_COUNTS, st.sampled_from(sorted(SIZE_UNITS.values()))))
def test_an_exact_size_reads_back_as_it_was(size: int) -> None:
    assert parse_size(format_size(size, exact=True)) == size


@given(st.integers(0, 2**53) | st.builds(mul, TINY_COUNTS, st.sampled_from(sorted(DURATION_UNITS.values()))))
def test_an_exact_duration_reads_back_as_it_was(nanoseconds: int) -> None:
    seconds = nanoseconds / 10**9
    assert parse_duration(format_duration(seconds, exact=True)) == seconds


@given(st.integers(1, SIZE_BYTES_MAX))
def test_a_rounded_size_is_near(size: int) -> None:
    number = format_size(size).rstrip("BKMGTPi")
    unit = format_size(size).removeprefix(number)
    assert float(number) * SIZE_UNITS[unit] == pytest.approx(size, rel=0.006)


@given(st.integers(1, 2**53))
def test_a_rounded_duration_is_near(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds / 1e9)) == pytest.approx(nanoseconds / 1e9, rel=0.03)


@pytest.mark.parametrize(
    ("size", "rounded", "exact"),
    [
        (0, "0B", "0B"),
        (1023, "1023B", "1023B"),
        (64 * 2**20, "64MiB", "64MiB"),
        (2**20 - 1, "1MiB", "1048575B"),
        (2**31 - 1, "2GiB", "2147483647B"),
        (10**6, "977KiB", "1MB"),
        (-2048, "-2KiB", "-2KiB"),
    ],
)
def test_sizes_are_rounded_for_people_and_exact_for_programs(size: int, rounded: str, exact: str) -> None:
    assert (format_size(size), format_size(size, exact=True)) == (rounded, exact)


@pytest.mark.parametrize(
    ("seconds", "rounded", "exact"),
    [
        (0, "0s", "0s"),
        (0.0015, "1.5ms", "1.5ms"),
        (59.96, "1m", "59.96s"),
        (90, "1m30s", "1m30s"),
        (3599.7, "1h", "59m59.7s"),
        (93784.5, "1d2h", "1d2h3m4.5s"),
        (-5, "-5s", "-5s"),
    ],
)
def test_durations_are_rounded_for_people_and_exact_for_programs(seconds: float, rounded: str, exact: str) -> None:
    assert (format_duration(seconds), format_duration(seconds, exact=True)) == (rounded, exact)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
def test_what_is_no_length_of_time_is_not_written_as_one(seconds: float) -> None:
    with pytest.raises(ValueError, match="cannot be written as a duration"):
        format_duration(seconds)


def test_counts_are_grouped_and_agree_with_their_noun() -> None:
    assert format_count(1_234_567) == "1,234,567"
    assert [format_count(count, "message") for count in (0, 1, 2)] == ["0 messages", "1 message", "2 messages"]
    assert format_count(2, "entry", "entries") == "2 entries"


@given(st.text())
def test_a_quoted_value_is_short_and_cannot_move_the_cursor(text: str) -> None:
    assert quoted(text).isprintable()
    assert len(quoted("\U0001f600" * 1000)) < 100


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01t00:00:01.5z", 1_500_000_000),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T22:30:00-01:30", 0),
        ("2024-02-29T00:00:00Z", 1_709_164_800 * 10**9),
        ("2262-04-11T23:47:16.854775807Z", TIME_NS_MAX),
    ],
)
def test_a_time_is_read_to_the_nanosecond(text: str, time: int) -> None:
    assert parse_time(text) == time


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-06-30T23:59:60Z", "leap second"),
        ("2026-02-29T00:00:00Z", "a day that no calendar has"),
        ("2026-01-01T24:00:00Z", "an hour that no clock shows"),
        ("2026-01-01T00:00:00+24:00", "an hour that no clock shows"),
        ("2026-01-01T00:00:00.1234567891Z", "finer than a nanosecond"),
        ("1969-12-31T23:59:59Z", "outside of what can be stored"),
        ("1970-01-01T00:00:00+00:01", "outside of what can be stored"),
        ("2262-04-11T23:47:16.854775808Z", "outside of what can be stored"),
        *((text, "is not a time") for text in ("", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z")),
        *(
            (text, "is not a time")
            for text in ("2026-1-1T0:0:0Z", "2026-01-01T00:00:00Z\n", "\u0662026-01-01T00:00:00Z")
        ),
        *((text, "is not a time") for text in ("2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,5Z", "1" * 1_000_000)),
    ],
)
def test_a_time_that_cannot_be_meant_is_refused_with_its_reason(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refusal:
        parse_time(text)
    assert len(str(refusal.value)) < 200


@given(st.integers(0, TIME_NS_MAX))
def test_a_time_is_read_back_as_it_was_written(time: int) -> None:
    assert parse_time(format_time(time)) == time


@given(st.lists(st.integers(0, TIME_NS_MAX)))
def test_times_sort_as_their_texts_do(times: list[int]) -> None:
    assert sorted(map(format_time, times)) == [format_time(time) for time in sorted(times)]


@pytest.mark.parametrize("time", [-1, TIME_NS_MAX + 1])
def test_a_time_beyond_the_range_is_not_written(time: int) -> None:
    with pytest.raises(ValueError, match="outside of what can be written"):
        format_time(time)
