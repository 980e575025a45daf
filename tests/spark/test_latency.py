"""How long messages take, against what the ledger and the headers say one by one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.spark.inspections.latency import ACKNOWLEDGE, PUBLISH, WORK, Found, Line, Source, prepare, together
from goqueue.spark.jobs import on_each
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.plan import Selection, make_plan
from tests.spark import naive
from tests.spark.stock import Sent, Stock, made
from tests.spark.traffic import MADE_NS, Traffic, traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECOND = 10**9


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    return traffic(tmp_path_factory.mktemp("latency") / "data")


def found(
    path: Path, source: Source, *, bucket_ns: int = 0, spark: "SparkSession | None" = None, topics: Sequence[str] = ()
) -> Found:
    logs = DirectoryLogs.at(str(path))
    prepared = prepare(logs, make_plan(logs, Selection(tuple(topics))), source, bucket_ns)
    splits = prepared.plan.splits(logs, split_bytes=8192)
    parts = [prepared.look(one) for one in splits] if spark is None else on_each(spark, splits, prepared.look)
    return together(prepared, parts)


def published(path: Path) -> list[int]:
    """What the log's time says of each message that was not moved there."""
    frames = [one for number in range(2) for _, _, one in naive.frames(path, "jobs", number)]
    return sorted(one.timestamp_ns - MADE_NS for one in frames if all(name != "__moved" for name, _ in one.headers))


@pytest.mark.parametrize("source", [Source(header="produced_at"), Source(field="order.made")])
def test_the_time_of_the_producer_is_in_a_header_or_a_field(worked: Traffic, source: Source) -> None:
    histogram = found(worked.path, source).lines[Line(PUBLISH, "jobs", None, 0)]
    expected = published(worked.path)
    assert (histogram.count, histogram.least, histogram.most) == (len(expected), expected[0], expected[-1])
    assert histogram.sum == sum(expected)
    assert histogram.percentile(0.5) == pytest.approx(expected[(len(expected) - 1) // 2], rel=0.0005)


def test_messages_without_a_time_are_counted(worked: Traffic) -> None:
    whole = found(worked.path, Source(header="nothing"), topics=["state"])
    assert (whole.timeless, whole.lines) == (20, {})


def test_acknowledgements_are_those_that_the_group_gave(spark: "SparkSession", worked: Traffic) -> None:
    whole = found(worked.path, Source(), spark=spark)
    for span in (ACKNOWLEDGE, WORK):
        histogram = whole.lines[Line(span, "jobs", "billing", 0)]
        assert histogram.count == worked.acknowledged
        assert 0 < histogram.least <= histogram.most
    assert {line.group for line in whole.lines} == {"billing"}


def test_what_was_done_took_longer_than_the_work_on_it(worked: Traffic) -> None:
    whole = found(worked.path, Source())
    done, work = (whole.lines[Line(span, "jobs", "billing", 0)] for span in (ACKNOWLEDGE, WORK))
    assert done.sum > work.sum


def test_buckets_together_are_the_whole(worked: Traffic) -> None:
    source = Source(header="produced_at")
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
    histogram = found(stock.path, Source(header="made")).lines[Line(PUBLISH, "orders", None, 0)]
    assert -5 * _SECOND < histogram.least < -3 * _SECOND


def test_traces_are_counted(tmp_path: Path) -> None:
    with Stock(tmp_path / "data") as stock:
        stock.create("orders")
        stock.append("orders", Sent(b"x", headers=(("traceparent", b"00-1-2-01"),)), Sent(b"y"))
    assert found(tmp_path / "data", Source(header="made")).traced == 1
