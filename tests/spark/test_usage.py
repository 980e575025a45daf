"""Usage, against adding it up message by message."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.producers import ProducerMark
from goqueue.spark.inspections.usage import UsageGrouping, UsageScan, count_consumption, count_usage
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import ReadBound, ReadPlan, TopicSelection, make_plan
from goqueue.storage import frame
from goqueue.wire.sections import PRODUCER_HEADER
from tests.spark import naive
from tests.spark.stock import Sent, Stock
from tests.spark.traffic import Traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAY_NS = 24 * 3600 * 10**9


def plan_of(path: Path, *topics: str, end: int | None = None) -> tuple[DirectoryLogs, ReadPlan]:
    logs = DirectoryLogs.at(str(path))
    return logs, make_plan(logs, TopicSelection(topics), end=ReadBound("latest" if end is None else end))


def messages(path: Path, topic: str, partitions: int) -> Iterator[frame.StoredMessage]:
    for number in range(partitions):
        yield from (message for _, _, message in naive.frames(path, topic, number))


def size(message: frame.StoredMessage) -> int:
    return 34 + len(message.key or b"") + len(message.value) + len(frame.encode_headers(message.headers))


def test_topics_by_a_header_and_by_the_day(spark: "SparkSession", worked: Traffic) -> None:
    logs, plan = plan_of(worked.path, "jobs", "state")
    expected: Counter[tuple[int, str, bytes | None]] = Counter()
    sizes: Counter[tuple[int, str, bytes | None]] = Counter()
    for topic, partitions in (("jobs", 2), ("state", 1)):
        for message in messages(worked.path, topic, partitions):
            what = (message.timestamp_ns // _DAY_NS * _DAY_NS, topic, dict(message.headers).get("tenant"))
            expected[what] += 1
            sizes[what] += size(message)
    found = count_usage(spark, logs, plan, UsageGrouping(header="tenant", per="day"))
    assert {(one.start, one.topic, one.header): one.messages for one in found} == expected
    assert {(one.start, one.topic, one.header): one.bytes for one in found} == sizes


def test_partitions_and_what_they_carry(spark: "SparkSession", worked: Traffic) -> None:
    logs, plan = plan_of(worked.path, "jobs")
    found = count_usage(spark, logs, plan, UsageGrouping(by="partition"))
    assert [(one.partition, one.payload_bytes) for one in found] == [
        (number, sum(len(m.key or b"") + len(m.value) for _, _, m in naive.frames(worked.path, "jobs", number)))
        for number in range(2)
    ]


# --- producers ---


def batch(producer: int, count: int, *, told: int | None = None) -> list[Sent]:
    """So many messages; the first says how many they were to be."""
    mark = ProducerMark(producer, 0, 0, told or count).encode()
    return [Sent(b"x" * 300, headers=((PRODUCER_HEADER, mark),)), *([Sent(b"y" * 300)] * (count - 1))]


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Batches of two producers, without a producer, one that a crash has torn, and the end of all within one."""
    path = tmp_path_factory.mktemp("batches") / "data"
    with Stock(path) as stock:
        stock.create("orders")
        for content in (
            batch(7, 40),
            batch(8, 3),
            [Sent(b"z" * 300)] * 20,
            batch(7, 5, told=9),
            batch(7, 50),
            batch(8, 30),
        ):
            stock.append("orders", *content)
    return path


def by_producer(path: Path, *, split_bytes: int, end: int | None = None) -> Counter[int | None]:
    logs, plan = plan_of(path, "orders", end=end)
    look = UsageScan(logs, UsageGrouping(by="producer"), {PartitionRef(*one.ref): one.end for one in plan.ranges})
    counts: Counter[int | None] = Counter()
    for split in plan.splits(logs, split_bytes=split_bytes):
        for rows in look(split):
            for row in rows.to_pylist():
                counts[row["producer"]] += row["messages"]
    return counts


@pytest.mark.parametrize("split_bytes", [2**30, 20_000, 4096])
def test_batches_belong_to_their_producer_however_a_log_is_cut(batches: Path, split_bytes: int) -> None:
    assert by_producer(batches, split_bytes=split_bytes) == {7: 95, 8: 33, None: 20}


def test_a_batch_is_counted_up_to_where_reading_ends(batches: Path) -> None:
    assert by_producer(batches, split_bytes=4096, end=30) == {7: 30, None: 0}


def test_spark_adds_what_tasks_have_found(spark: "SparkSession", batches: Path) -> None:
    logs, plan = plan_of(batches, "orders")
    found = count_usage(spark, logs, plan, UsageGrouping(by="producer"))
    assert {one.producer: one.messages for one in found} == {None: 20, 7: 95, 8: 33}


# --- groups ---


def test_what_a_group_has_read_is_told_by_its_log(worked: Traffic) -> None:
    found, since_ns = count_consumption(DirectoryLogs.at(str(worked.path)), ["jobs"], UsageGrouping(per="day"))
    assert {(one.group, one.topic) for one in found} == {("billing", "jobs")}
    assert sum(count.acknowledged for count in found.values()) == worked.acknowledged
    assert sum(count.dead_letters for count in found.values()) == worked.rejected
    assert since_ns is None


def test_only_what_was_read_between_two_moments_counts(worked: Traffic) -> None:
    logs = DirectoryLogs.at(str(worked.path))
    assert count_consumption(logs, ["jobs"], UsageGrouping(), first_ns=2 * 10**18)[0] == {}
    assert count_consumption(logs, ["jobs"], UsageGrouping(), end_ns=1)[0] == {}
    assert count_consumption(logs, ["state"], UsageGrouping())[0] == {}
