"""Frames as Arrow columns: what the plain codec makes of each message, in batches that stay small."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from goqueue.compression import compress
from goqueue.errors import FrameInvalid
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.splits import FrameRun
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading import columns
from goqueue.spark.reading.columns import COLUMNS, DEFAULT_COLUMNS, batches, schema_of
from goqueue.spark.reading.tasks import Extract
from goqueue.storage import frame, scan
from tests.spark import naive
from tests.spark.stock import SHAPES, Sent, Stock, logs_of, made, rows, splits


def of(tmp_path: Path, *messages: Sent) -> list[pa.RecordBatch]:
    """These messages as batches of all columns."""
    with Stock(tmp_path / "d", segment_bytes=50_000_000) as stock:
        stock.create("t").append("t", *messages)
        logs = logs_of(stock)
        return [batch for split in splits(logs) for batch in Extract(logs, tuple(COLUMNS)).batches(split)]


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_each_kind_of_message_alone_is_what_the_plain_codec_says(tmp_path: Path, number: int) -> None:
    shape = SHAPES[number]
    stock = Stock(tmp_path / "d")
    stock.create("t").append("t", shape)
    stock.close()
    found = rows(logs_of(stock), splits(logs_of(stock)))
    assert found == naive.rows(stock.path, "t")
    assert len(found) == (0 if shape.is_control else 1)


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_alone_is_what_it_is_among_all(tmp_path: Path, name: str) -> None:
    stock = made(tmp_path / "d", partitions=1)
    logs = logs_of(stock)
    found = [row[name] for split in splits(logs) for batch in Extract(logs, (name,)).batches(split)
             for row in batch.to_pylist()]  # fmt: skip
    assert found == [row[name] for row in naive.rows(stock.path, "orders")]


def test_types_are_those_that_spark_is_told(tmp_path: Path) -> None:
    for batch in of(tmp_path, *SHAPES):
        assert batch.schema == schema_of(COLUMNS)
        batch.validate(full=True)
    assert [field.name for field in schema_of(DEFAULT_COLUMNS)] == list(DEFAULT_COLUMNS)


def test_batches_of_a_run_do_not_share_its_buffer(tmp_path: Path) -> None:
    stock = made(tmp_path / "d", partitions=1)
    logs = logs_of(stock)
    (split,) = splits(logs)
    found: list[pa.RecordBatch] = []
    for piece in read_messages(logs, split):
        assert isinstance(piece, FrameRun)
        found += batches("orders", 0, piece, list(COLUMNS))
        piece.frames.buffer[:] = 0xEE
    assert [row for batch in found for row in batch.to_pylist()] == naive.rows(stock.path, "orders")


def test_a_batch_has_at_most_so_many_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stock = made(tmp_path / "d", partitions=1)
    monkeypatch.setattr(columns, "BATCH_MESSAGES", 5)
    logs = logs_of(stock)
    found = [batch for split in splits(logs) for batch in Extract(logs, tuple(COLUMNS)).batches(split)]
    assert max(batch.num_rows for batch in found) <= 5
    assert [row for batch in found for row in batch.to_pylist()] == naive.rows(stock.path, "orders")


def test_a_few_bytes_that_stand_for_very_many_are_expanded_in_small_batches(tmp_path: Path) -> None:
    bomb = Sent(bytes(5_000_000), b"k", is_compressed=True)
    found = of(tmp_path, Sent(b"first"), *[bomb, Sent(b"between")] * 20, Sent(None))
    assert sum(batch.num_rows for batch in found) == 42
    assert max(batch.nbytes for batch in found) < 40_000_000
    lengths = [len(row["value"] or b"") for batch in found for row in batch.to_pylist()]
    assert lengths == [5, *[5_000_000, 7] * 20, 0]
    assert [row["offset"] for batch in found for row in batch.select(["offset"]).to_pylist()] == list(range(42))


def test_values_that_are_not_selected_are_not_expanded(tmp_path: Path) -> None:
    with Stock(tmp_path / "d", segment_bytes=50_000_000) as stock:
        stock.create("t").append("t", *[Sent(bytes(5_000_000), is_compressed=True)] * 20)
        logs = logs_of(stock)
        (split,) = splits(logs)
        (batch,) = Extract(logs, ("key", "offset")).batches(split)
        assert batch.num_rows == 20


def broken_value(tmp_path: Path) -> DirectoryLogs:
    """A healthy frame whose compressed value is nonsense: its producer made a mistake."""
    with Stock(tmp_path / "d") as stock:
        stock.create("t").append("t", Sent(b"before"))
        nonsense = frame.encode(b"nonsense", flags=frame.COMPRESSED)
        stock.log("t").append(scan.check_batch(bytearray(nonsense)))
        stock.store.flush()
        return logs_of(stock)


def test_a_value_that_cannot_be_decompressed_is_named_by_its_offset(tmp_path: Path) -> None:
    logs = broken_value(tmp_path)
    with pytest.raises(FrameInvalid, match="offset 1 of t/0: a compressed value cannot be read"):
        rows(logs, splits(logs))


def test_a_tombstone_with_the_flag_of_compression_has_no_value(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        content = compress(b"x" * 100)
        assert content is not None
        stock.create("t")
        encoded = frame.encode(content, b"k", flags=frame.COMPRESSED | frame.TOMBSTONE)
        stock.log("t").append(scan.check_batch(bytearray(encoded)))
        stock.store.flush()
        logs = logs_of(stock)
        assert [row["value"] for row in rows(logs, splits(logs))] == [None]


def test_what_executors_are_sent_is_small(tmp_path: Path) -> None:
    stock = made(tmp_path / "d", partitions=1)
    logs = logs_of(stock)
    extract = Extract(logs, tuple(COLUMNS))
    (split,) = splits(logs)
    again, planned = pickle.loads(pickle.dumps((extract, split)))  # noqa: S301 - as Spark does
    assert [row for batch in again.batches(planned) for row in batch.to_pylist()] == naive.rows(stock.path, "orders")
    assert len(pickle.dumps((extract, split))) < 2000
