"""Buckets of time against messages counted one by one."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.clock import NANOSECONDS
from goqueue.spark.inspections.timeline import (
    By,
    SilentPeriod,
    TimeBucket,
    TimelineGroup,
    bucket_for,
    count_buckets,
    count_by_bucket,
    fill_empty_buckets,
    silent_periods,
    time_span,
    unit_of,
    unit_starts,
)
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.storage import frame
from tests.spark import naive
from tests.spark.stock import made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("timeline") / "data").path


def counted(path: Path, bucket: int, by: By | None) -> Counter[tuple[TimelineGroup, int]]:
    found: Counter[tuple[TimelineGroup, int]] = Counter()
    for partition in (0, 1):
        for _, _, message in naive.frames(path, "orders", partition):
            group: TimelineGroup = {
                None: (),
                "topic": ("orders",),
                "partition": ("orders", partition),
                "priority": (frame.PRIORITIES[message.priority],),
            }[by]
            if not message.flags & frame.CONTROL:
                found[group, message.timestamp_ns // bucket * bucket] += 1
    return found


@pytest.mark.parametrize("by", [None, "topic", "partition", "priority"])
def test_each_message_is_counted_in_its_bucket(spark: "SparkSession", path: Path, by: By | None) -> None:
    logs = DirectoryLogs.at(str(path))
    splits = make_plan(logs, TopicSelection()).splits(logs, split_bytes=4096)
    bucket = 7 * NANOSECONDS if by else 1500 * 10**6
    found = count_by_bucket(spark, logs, splits, bucket, by)
    assert {(one.group, one.start): one.messages for one in found} == counted(path, bucket, by)
    if by is None:
        seconds = counted(path, unit_of(bucket), None)
        assert max(one.peak for one in found) == max(seconds.values())
        assert min(one.first_time or 0 for one in found) == naive.frames(path, "orders")[0][2].timestamp_ns


def test_the_ends_of_a_log_are_known_from_its_indexes(path: Path) -> None:
    logs = DirectoryLogs.at(str(path))
    found = time_span(logs, make_plan(logs, TopicSelection()))
    times = [message.timestamp_ns for number in (0, 1) for _, _, message in naive.frames(path, "orders", number)]
    assert found is not None
    assert found[0] == min(times)
    assert max(times) - 60 * NANOSECONDS < found[1] <= max(times)


def test_the_ends_of_a_log_without_indexes_are_read(tmp_path: Path) -> None:
    stock = made(tmp_path / "data", partitions=1)
    for file in stock.directory("orders").glob("*index"):
        file.unlink()
    logs = DirectoryLogs.at(str(stock.path))
    times = [message.timestamp_ns for _, _, message in naive.frames(stock.path, "orders")]
    assert time_span(logs, make_plan(logs, TopicSelection())) == (times[0], times[-1])


@given(st.lists(st.integers(0, 400), min_size=1), st.integers(1, 50))
def test_a_unit_begins_where_the_one_before_ends(times: list[int], unit: int) -> None:
    rising = sorted(times)
    starts = unit_starts(np.array(rising, np.int64), unit).tolist()
    assert starts == [
        number for number, time in enumerate(rising) if not number or time // unit != rising[number - 1] // unit
    ]


@given(st.integers(0, 2**62), st.integers(0, 2**60))
def test_a_bucket_is_chosen_that_makes_a_picture(first: int, length: int) -> None:
    bucket = bucket_for(first, first + length)
    century = 100 * 365 * 86_400 * NANOSECONDS
    assert count_buckets(first, first + length, bucket) <= 60 or length > century // 2


def test_empty_buckets_are_there_for_every_group() -> None:
    found = [TimeBucket(("a",), 10, 1, 5), TimeBucket(("a",), 30, 2, 5), TimeBucket(("b",), 20, 3, 5)]
    assert [(one.group, one.start, one.messages) for one in fill_empty_buckets(found, 10)] == [
        (("a",), 10, 1), (("a",), 20, 0), (("a",), 30, 2), (("b",), 10, 0), (("b",), 20, 3), (("b",), 30, 0),
    ]  # fmt: skip
    assert not fill_empty_buckets([], 10)


def test_the_longest_silence_comes_first() -> None:
    found = [
        TimeBucket((), 0, 1, 1, 1, 4),
        TimeBucket((), 10, 1, 1, 11, 12),
        TimeBucket((), 40, 1, 1, 41, 41),
        TimeBucket((), 90, 1, 1, 99, 99),
    ]
    assert silent_periods(found, 10) == [SilentPeriod((), 41, 99), SilentPeriod((), 12, 41)]
