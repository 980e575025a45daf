"""Latencies, against the log of groups and the headers one by one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.spark.inspections.latency import (
    ACKNOWLEDGE,
    PUBLISH,
    WORK,
    LatencyCounts,
    LatencyKey,
    ProducerTime,
    join_counts,
    plan_latency,
)
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.spark.reading.tasks import run_on_splits
from tests.spark import naive
from tests.spark.stock import Sent, Stock, made
from tests.spark.traffic import MADE_NS, Traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECOND = 10**9


def found(
    path: Path,
    source: ProducerTime,
    *,
    bucket_ns: int = 0,
    spark: "SparkSession | None" = None,
    topics: Sequence[str] = (),
) -> LatencyCounts:
    logs = DirectoryLogs.at(str(path))
    prepared = plan_latency(logs, make_plan(logs, TopicSelection(tuple(topics))), source, bucket_ns)
    splits = prepared.plan.splits(logs, split_bytes=8192)
    parts = [prepared.look(one) for one in splits] if spark is None else run_on_splits(spark, splits, prepared.look)
    return join_counts(prepared, parts)


def published(path: Path) -> list[int]:
    """Return the latencies of all messages that were not moved there."""
    frames = [one for number in range(2) for _, _, one in naive.frames(path, "jobs", number)]
    return sorted(one.timestamp_ns - MADE_NS for one in frames if all(name != "__moved" for name, _ in one.headers))


@pytest.mark.parametrize("source", [ProducerTime(header="produced_at"), ProducerTime(field="order.made")])
def test_the_time_of_the_producer_is_in_a_header_or_a_field(worked: Traffic, source: ProducerTime) -> None:
    histogram = found(worked.path, source).lines[LatencyKey(PUBLISH, "jobs", None, 0)]
    expected = published(worked.path)
    assert (histogram.count, histogram.least, histogram.most) == (len(expected), expected[0], expected[-1])
    assert histogram.sum == sum(expected)
    assert histogram.percentile(0.5) == pytest.approx(expected[(len(expected) - 1) // 2], rel=0.0005)


def test_messages_without_a_time_are_counted(worked: Traffic) -> None:
    whole = found(worked.path, ProducerTime(header="nothing"), topics=["state"])
    assert (whole.timeless, whole.lines) == (20, {})


def test_acknowledgements_are_those_that_the_group_gave(spark: "SparkSession", worked: Traffic) -> None:
    whole = found(worked.path, ProducerTime(), spark=spark)
    for span in (ACKNOWLEDGE, WORK):
        histogram = whole.lines[LatencyKey(span, "jobs", "billing", 0)]
        assert histogram.count == worked.acknowledged
        assert 0 < histogram.least <= histogram.most
    assert {line.group for line in whole.lines} == {"billing"}


def test_what_was_done_took_longer_than_the_work_on_it(worked: Traffic) -> None:
    whole = found(worked.path, ProducerTime())
    done, work = (whole.lines[LatencyKey(span, "jobs", "billing", 0)] for span in (ACKNOWLEDGE, WORK))
    assert done.sum > work.sum


def test_buckets_together_are_the_whole(worked: Traffic) -> None:
    source = ProducerTime(header="produced_at")
    whole, parts = found(worked.path, source), found(worked.path, source, bucket_ns=1_000_000)
    assert all(line.bucket_ns % 1_000_000 == 0 and line.bucket_ns for line in parts.lines)
    for line, histogram in whole.lines.items():
        same = [one for name, one in parts.lines.items() if name[:3] == line[:3]]
        assert sum(one.count for one in same) == histogram.count
        assert sum(one.sum for one in same) == histogram.sum


def test_a_clock_that_is_ahead_makes_a_latency_below_zero(tmp_path: Path) -> None:
    stock = made(tmp_path / "data", partitions=1, count=1)
    with Stock(stock.path) as again:
        ahead = again.clock.now_ns() + 5 * _SECOND
        again.append("orders", Sent(b"x", headers=((("made", str(ahead).encode())),)))
    histogram = found(stock.path, ProducerTime(header="made")).lines[LatencyKey(PUBLISH, "orders", None, 0)]
    assert -5 * _SECOND < histogram.least < -3 * _SECOND


def test_traces_are_counted(tmp_path: Path) -> None:
    with Stock(tmp_path / "data") as stock:
        stock.create("orders")
        stock.append("orders", Sent(b"x", headers=(("traceparent", b"00-1-2-01"),)), Sent(b"y"))
    assert found(tmp_path / "data", ProducerTime(header="made")).traced == 1
