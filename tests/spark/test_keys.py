"""Keys and skew against messages counted one by one."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.spark.inspections import keys
from goqueue.spark.inspections.inspection import format_key, format_percent
from goqueue.spark.inspections.keys import (
    LEFT_OUT,
    OF_KEY,
    SCHEMA,
    KeepFrequentKeys,
    KeyScan,
    PartitionKeys,
    count_keys,
)
from goqueue.spark.inspections.skew import HotKey, PartitionShare, TopicSpread, gini, measure_skew, verdict
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.storage import frame
from tests.spark import naive
from tests.spark.stock import Sent, Stock, made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("keys") / "data").path


def messages(path: Path, partition: int) -> list[frame.StoredMessage]:
    found = [message for _, _, message in naive.frames(path, "orders", partition)]
    return [message for message in found if not message.flags & frame.CONTROL]


@pytest.mark.parametrize("approx", [False, True])
def test_keys_are_counted(spark: "SparkSession", path: Path, approx: bool) -> None:
    logs = DirectoryLogs.at(str(path))
    found = count_keys(spark, logs, make_plan(logs, TopicSelection()).splits(logs, split_bytes=4096), 3, approx=approx)
    both = messages(path, 0) + messages(path, 1)
    counts = Counter(message.key for message in both)
    without = counts.pop(None)
    expected = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0] or b""))[:3]
    assert [(one.key, one.messages) for one in found.top] == expected
    assert (found.messages, found.without_key, found.distinct) == (len(both), without, len(counts))
    assert found.tombstones == sum(message.is_tombstone for message in both)
    assert found.is_estimate == approx
    assert [one.partitions for one in found.top] == [2, 2, 2]
    assert found.hottest is not None
    assert found.hottest.messages == len(messages(path, 0))


def test_tasks_hand_over_what_they_hold_before_it_is_too_much(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = DirectoryLogs.at(str(path))
    splits = make_plan(logs, TopicSelection()).splits(logs)
    whole = [row for split in splits for batch in KeyScan(logs)(split) for row in batch.to_pylist()]
    monkeypatch.setattr(keys, "_HELD_ROWS", 4)
    pieces = [row for split in splits for batch in KeyScan(logs)(split) for row in batch.to_pylist()]
    assert len(pieces) > len(whole)
    assert _sums(pieces) == _sums(whole)


def _sums(rows: list[dict[str, object]]) -> Counter[tuple[object, object]]:
    found: Counter[tuple[object, object]] = Counter()
    for row in rows:
        assert isinstance(row["messages"], int)
        found[row["partition"], row["key"]] += row["messages"]
    return found


@given(st.lists(st.integers(0, 30), max_size=200), st.integers(1, 8))
def test_pruning_loses_no_message_and_keeps_what_is_frequent(numbers: list[int], keep: int) -> None:
    batches = [
        pa.RecordBatch.from_pylist(
            [dict(zip(SCHEMA.names, ("t", 0, OF_KEY, b"%d" % number, 1, 2, 0), strict=True)) for number in part],
            schema=SCHEMA,
        )
        for part in (numbers[:50], numbers[50:])
        if part
    ]
    rows = [row for batch in KeepFrequentKeys(keep)(iter(batches)) for row in batch.to_pylist()]
    assert sum(row["messages"] for row in rows) == len(numbers)
    assert sum(row["bytes"] for row in rows) == 2 * len(numbers)
    assert sum(row["kind"] == OF_KEY for row in rows) <= keep
    true = Counter(b"%d" % number for number in numbers)
    assert all(row["messages"] <= true[row["key"]] for row in rows if row["kind"] == OF_KEY)
    left_out = sum(row["messages"] for row in rows if row["kind"] == LEFT_OUT)
    assert bool(left_out) == (len(true) > keep or any(row["messages"] < true[row["key"]] for row in rows if row["key"]))


def test_a_hot_key_is_named_for_a_hot_partition(spark: "SparkSession", tmp_path: Path) -> None:
    with Stock(tmp_path / "data") as stock:
        stock.create("even", 2).create("orders", 4).create("silent", 2)
        for number in (0, 1):
            stock.append("even", *[Sent(b"v", b"k%d" % number)] * 9, partition=number)
        for number in range(4):
            stock.append("orders", Sent(b"v", b"a"), Sent(b"v"), partition=number)
        stock.append("orders", *[Sent(b"v", b"hot")] * 30, Sent(b"v", b"b"), Sent(b"v", b"b"), partition=3)
    logs = DirectoryLogs.at(str(stock.path))
    plan = make_plan(logs, TopicSelection())
    even, orders, silent = measure_skew(spark, logs, plan, plan.splits(logs))
    assert [one.counts.messages for one in orders.shares] == [2, 2, 2, 34]
    assert orders.hottest.keys == (HotKey(b"hot", 30), HotKey(b"b", 2), HotKey(b"a", 1))
    said = "partition 3 has 3.4 times the mean (max/mean 3.40, Gini 0.60); key hot makes 88.2% of it, b 5.88%, a 2.94%"
    assert verdict(orders) == said
    assert verdict(even) == "even (max/mean 1.00, Gini 0.00)"
    assert verdict(silent) == "no messages"
    assert len(silent.shares) == 2


def test_messages_without_a_key_can_be_to_blame() -> None:
    hot = PartitionShare(PartitionKeys("t", 1, 80, 1, 0, 60), (HotKey(b"k", 20),))
    assert verdict(TopicSpread("t", (PartitionShare(PartitionKeys("t", 0, 1, 1, 0, 0), ()), hot))).endswith(
        "75.0% of it have no key"
    )


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_gini_is_the_mean_difference(amounts: list[int]) -> None:
    differences = sum(abs(one - other) for one in amounts for other in amounts)
    expected = differences / (2 * len(amounts) * sum(amounts)) if sum(amounts) else 0.0
    assert gini(amounts) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("key", "text"), [(b"k1", "k1"), ("é".encode(), "é"), (b"\xff\x00", "0xff00"), (b"a\x1b[1m", "0x611b5b316d")]
)
def test_a_key_that_is_no_text_is_shown_in_hexadecimal(key: bytes, text: str) -> None:
    assert format_key(key) == text


def test_shares_have_as_many_digits_as_tell_something() -> None:
    assert [format_percent(share) for share in (1.0, 0.333, 0.0123, 0.00001, 0.0)] == ["100.0%", "33.3%", "1.23%", "<0.01%", "0.00%"]  # noqa: E501 # fmt: skip
