"""Times of producers, headers as columns and histograms, each against doing it one by one."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_time
from goqueue.spark.inspections.header import header_column
from goqueue.spark.inspections.latency import LatencyHistogram
from goqueue.spark.inspections.producer_times import NO_TIME, JsonTimeField, parse_producer_time, parse_times
from goqueue.storage import frame, scan

_MARCH = 1_772_366_400 * NANOSECONDS
"""2026-03-01T12:00:00Z"""

# --- times ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T12:00:00Z", _MARCH),
        ("2026-03-01T14:00:00.000000007+02:00", _MARCH + 7),
        ("1772366400", _MARCH),
        ("1772366400.5", _MARCH + NANOSECONDS // 2),
        ("1772366400123", _MARCH + 123_000_000),
        ("1772366400123456", _MARCH + 123_456_000),
        ("1772366400123456789", _MARCH + 123_456_789),
        ("0", 0),
        ("-5", NO_TIME),
        ("yesterday", NO_TIME),
        ("", NO_TIME),
        ("1" * 100, NO_TIME),
        ("9" * 20, NO_TIME),
    ],
)
def test_a_time_is_known_by_how_it_is_written(text: str, expected: int) -> None:
    assert parse_producer_time(text) == expected
    assert parse_producer_time(text.encode()) == expected
    assert parse_times(pa.array([text.encode(), None, b"no time", text.encode()])).tolist() == [
        expected, NO_TIME, NO_TIME, expected
    ]  # fmt: skip
    assert parse_times(pa.array([text.encode()] * 2)).tolist() == [expected] * 2


def test_bytes_that_are_no_text_are_no_time() -> None:
    assert parse_times(pa.array([b"\xff\xfe", b"1772366400"])).tolist() == [NO_TIME, _MARCH]


@given(st.lists(st.integers(10**17, 2**62), min_size=1))
def test_many_times_are_read_as_each_of_them(times: list[int]) -> None:
    assert parse_times(pa.array([str(one).encode() for one in times])).tolist() == times
    assert parse_times(pa.array([format_time(one).encode() for one in times])).tolist() == times


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"order": {"made": "2026-03-01T12:00:00Z", "x": [1]}}', _MARCH),
        (b'{"order": {"made": 1772366400}}', _MARCH),
        (b'{"order": {"made": 1772366400.25}}', _MARCH + NANOSECONDS // 4),
        (b'{"order": {"made": null}}', NO_TIME),
        (b'{"order": {"made": [1772366400]}}', NO_TIME),
        (b'{"order": 1772366400}', NO_TIME),
        (b"{}", NO_TIME),
        (b"no JSON", NO_TIME),
        (None, NO_TIME),
    ],
)
def test_a_field_of_json_holds_a_time(value: bytes | None, expected: int) -> None:
    assert JsonTimeField("order.made").moments([value]).tolist() == [expected]


def test_a_field_may_have_any_name() -> None:
    assert JsonTimeField("@made-at").moments([b'{"@made-at": 1772366400}']).tolist() == [_MARCH]


# --- headers ---

names = st.sampled_from(["a", "b", "tenant", "tenants", "é"])
pairs = st.lists(st.tuples(names, st.binary(max_size=6)), max_size=4)


@given(st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5), pairs), min_size=1, max_size=12), names)
def test_a_header_is_the_first_of_its_name(
    messages: list[tuple[bytes, bytes, list[tuple[str, bytes]]]], name: str
) -> None:
    content = b"".join(frame.encode(value, key, frame.encode_headers(told)) for key, value, told in messages)
    found = header_column(scan.walk(bytearray(content)), name)
    assert found.to_pylist() == [next((v for n, v in told if n == name), None) for _, _, told in messages]


# --- histograms ---


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_as_near_as_it_says(numbers: list[int], share: float) -> None:
    histogram, other = LatencyHistogram(), LatencyHistogram()
    histogram.add(np.array(numbers[::2], np.int64))
    other.add(np.array(numbers[1::2], np.int64))
    histogram.join(other)
    exact = sorted(numbers)[max(1, int(np.ceil(share * len(numbers)))) - 1]
    found = histogram.percentile(share)
    assert found is not None
    assert abs(found - exact) <= abs(exact) / 2000 + 1
    assert (histogram.count, histogram.sum) == (len(numbers), sum(numbers))
    assert (histogram.least, histogram.most) == (min(numbers), max(numbers))


def test_a_number_may_count_many_times() -> None:
    one, many = LatencyHistogram(), LatencyHistogram()
    one.add(np.array([5], np.int64), 3)
    many.add(np.array([5, 5, 5], np.int64))
    assert one == many
    assert LatencyHistogram().percentile(0.5) is None
    assert LatencyHistogram().mean is None
