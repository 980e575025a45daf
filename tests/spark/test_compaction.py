"""The gain of compaction, against a dictionary, and against a compaction."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.spark.inspections import compaction as subject
from goqueue.spark.inspections.compaction import CompactionGain, CompactionReport, estimate_compaction
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.storage import frame
from tests.spark import naive
from tests.spark.stock import Sent, Stock, stocked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAR_NS = 4 * 10**18


def found(
    spark: "SparkSession", path: Path, *, now_ns: int = _FAR_NS, top: int = 10, approx: bool = False
) -> CompactionReport:
    logs = DirectoryLogs.at(str(path))
    return estimate_compaction(
        spark, logs, make_plan(logs, TopicSelection()), now_ns=now_ns, top=top, is_approximate=approx
    )


def size(message: frame.StoredMessage) -> int:
    return 34 + len(message.key or b"") + len(message.value) + len(frame.encode_headers(message.headers))


def expected(path: Path, partition: int) -> CompactionGain:
    everything = [m for _, _, m in naive.frames(path, "orders", partition) if not m.flags & frame.CONTROL]
    latest = {message.key: message for message in everything if message.key}
    superseded = [m for m in everything if m.key and latest[m.key] is not m]
    due = [message for message in latest.values() if message.is_tombstone]
    return CompactionGain(
        "orders",
        partition,
        len(everything),
        sum(map(size, everything)),
        len(latest),
        sum(not message.key for message in everything),
        len(superseded),
        sum(map(size, superseded)),
        sum(message.is_tombstone for message in everything),
        len(due),
        sum(map(size, due)),
        0,
        sum(path.stat().st_size for path in (path / "logs" / "orders" / str(partition)).glob("*.log")),
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with stocked(tmp_path_factory.mktemp("compaction") / "data") as stock:
        stock.append("orders", Sent(None, b"k5"), Sent(b"v", b"only in 0"))
        return stock.path


def test_the_gain_is_what_a_dictionary_says(spark: "SparkSession", data: Path) -> None:
    assert found(spark, data).gains == (expected(data, 0), expected(data, 1))
    assert found(spark, data, top=0) == CompactionReport((expected(data, 0), expected(data, 1)), ())


def test_a_tombstone_is_due_after_its_grace(spark: "SparkSession", data: Path) -> None:
    assert [one.tombstones_due for one in found(spark, data, now_ns=0).gains] == [0, 0]


def test_keys_that_were_written_most_come_first(spark: "SparkSession", data: Path) -> None:
    counts: dict[tuple[int, bytes], int] = {}
    for number in range(2):
        for _, _, message in naive.frames(data, "orders", number):
            if message.key and not message.flags & frame.CONTROL:
                counts[number, message.key] = counts.get((number, message.key), -1) + 1
    keys = found(spark, data).keys
    assert {(one.partition, one.key): one.superseded for one in keys} == {k: n for k, n in counts.items() if n}
    assert [one.superseded for one in keys] == sorted((one.superseded for one in keys), reverse=True)


def test_few_keys_are_estimated_exactly(spark: "SparkSession", data: Path) -> None:
    (exact, _), (guess, _) = found(spark, data).gains, found(spark, data, approx=True).gains
    for name in ("messages", "bytes", "keys", "without_key", "superseded", "tombstones"):
        assert getattr(guess, name) == getattr(exact, name), name


def test_parts_of_a_task_are_put_together(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = DirectoryLogs.at(str(data))
    splits = make_plan(logs, TopicSelection()).splits(logs)
    whole = [row for split in splits for batch in subject.CompactionScan(logs)(split) for row in batch.to_pylist()]
    monkeypatch.setattr(subject, "_KEYS_AT_ONCE", 5)
    parts = [row for split in splits for batch in subject.CompactionScan(logs)(split) for row in batch.to_pylist()]
    assert len(parts) > len(whole)
    assert sum(row["bytes"] for row in parts) == sum(row["bytes"] for row in whole)
    assert max(row["offset"] for row in parts) == max(row["offset"] for row in whole)


def test_what_was_compacted_is_clean_and_gains_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    with Stock(tmp_path / "data") as stock:
        stock.create("orders")
        for number in range(60):
            stock.append("orders", Sent(b"v" * 300, b"k%d" % (number % 3)))
        stock.roll("orders")
        (before,) = found(spark, stock.path).gains
        stock.compact("orders")
        (after,) = found(spark, stock.path).gains
    assert (before.keys, before.superseded, before.clean) == (3, 57, 0)
    assert (after.messages, after.superseded, after.clean, after.dirty_bytes) == (3, 0, 60, 0)
    assert before.bytes - before.superseded_bytes == after.bytes
