"""Writes of a real Spark in transactions: all of a micro-batch or nothing, each row once, whatever fails on the way."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from goqueue.client import Client, transaction_requests
from goqueue.errors import BrokerUnreachable, ProducerFenced, RequestInvalid
from goqueue.spark.reading.failure import describe_failure
from goqueue.spark.sink.options import write_options
from goqueue.spark.sink.transactional import acquire_transactional_id
from tests.brokers import ask
from tests.spark.test_sink import fill, save, small_batches, url, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["small_batches", "url"]

NAME = {"transactional_id": "copies"}


def orders(spark: "SparkSession", url: str, **options: str) -> "DataFrame":
    """Return the topic as a stream."""
    given = {"goqueue.url": url, "subscribe": "orders", "startingOffsets": "earliest"} | options
    return spark.readStream.format("goqueue").options(**given).load().select("key", "value")


def copy(spark: "SparkSession", url: str, checkpoint: Path) -> None:
    """Copy what is there from one topic to the other, in transactions."""
    follow(orders(spark, url, maxOffsetsPerTrigger="400"), url, checkpoint)


def follow(rows: "DataFrame", url: str, checkpoint: Path, **options: str) -> None:
    out = rows.writeStream.format("goqueue").options(**{"goqueue.url": url, "topic": "copy"} | NAME | options)
    query = out.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def stored(url: str, topic: str) -> int:
    """Return all messages, including uncommitted ones."""
    with Client(url) as client, client.reader(topic, isolation="read_uncommitted") as reader:
        return sum(1 for _ in reader)


def forget(log: Path, number: int) -> None:
    """Have a checkpoint know nothing of this batch."""
    for name in (str(number), f".{number}.crc"):
        (log / name).unlink()


def state(url: str, name: str = "copies") -> Any:
    return ask(url, "GET", f"/transactions/{name}").json


# --- options ---


def test_what_is_no_transactional_id_is_refused_before_anything_is_sent() -> None:
    given = {"goqueue.url": "http://127.0.0.1:1", "topic": "t"}
    with pytest.raises(RequestInvalid) as caught:
        write_options(given | {"transactional_id": "a b", "transaction_timeout": "1h"}, is_stream=True)
    assert [text.split(":")[0] for text in caught.value.details["problems"]] == [
        "transactional_id", "transaction_timeout"
    ]  # fmt: skip
    with pytest.raises(RequestInvalid, match="transaction_timeout: needs a transactional_id"):
        write_options(given | {"transaction_timeout": "1m"}, is_stream=True)


# --- batch writes ---


def test_a_write_is_one_transaction_and_repeated_under_its_id_nothing(spark: "SparkSession", url: str) -> None:
    rows = spark.range(1000).selectExpr("string(id) AS value")
    for _ in range(2):
        save(rows, url, topic="orders", writeId="monday", **NAME)
    assert len(values(url, "orders")) == stored(url, "orders") == 1000
    save(rows, url, topic="orders", writeId="tuesday", **NAME)
    assert len(values(url, "orders")) == 2000
    assert state(url)["state"] == "complete_commit"


@pytest.mark.usefixtures("small_batches")
def test_a_write_that_fails_leaves_nothing_to_be_seen(spark: "SparkSession", url: str) -> None:
    def fails_late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            if 150 in numbers:
                raise OSError("no more")
            yield pa.record_batch({"value": [f"{number:0100000}" for number in numbers]})

    rows = spark.range(0, 200, 1, 2).mapInArrow(fails_late, "value string")
    with pytest.raises(Exception, match="no more"):
        save(rows, url, topic="orders", **NAME)
    assert values(url, "orders") == []
    assert state(url)["state"] == "complete_abort"


# --- streams ---


def test_a_committed_batch_is_not_written_again_and_an_older_checkpoint_is_refused(
    spark: "SparkSession", url: str, tmp_path: Path
) -> None:
    fill(url, 0, 800)
    copy(spark, url, tmp_path / "c")
    forget(tmp_path / "c" / "commits", 1)  # as a crash between the broker's commit and Spark's leaves it
    fill(url, 800, 810)
    copy(spark, url, tmp_path / "c")
    assert values(url, "copy") == values(url, "orders")
    assert state(url)["last"]["note"].endswith("/2")
    for number in (1, 2):
        forget(tmp_path / "c" / "commits", number)
        forget(tmp_path / "c" / "offsets", number)
    with pytest.raises(Exception, match="older than the topic") as caught:
        copy(spark, url, tmp_path / "c")
    assert isinstance(describe_failure(caught.value), ProducerFenced)
    assert stored(url, "copy") == 810


def test_a_batch_without_rows_is_no_transaction(spark: "SparkSession", url: str, tmp_path: Path) -> None:
    fill(url, 0, 10)
    follow(orders(spark, url).where("value = 'nothing'"), url, tmp_path / "c")
    assert (state(url)["state"], state(url)["last"]) == ("empty", None)


@pytest.mark.usefixtures("small_batches")
def test_a_stream_whose_tasks_fail_leaves_nothing_until_it_is_started_again(
    spark: "SparkSession", url: str, tmp_path: Path
) -> None:
    fill(url, 0, 200, 100_000)
    mark = str(tmp_path / "failed")

    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 8 and not os.path.exists(mark):
                os.mkdir(mark)
                raise OSError("no more")
            yield batch

    rows = orders(spark, url).mapInArrow(fails_once, "key binary, value binary")
    with pytest.raises(Exception, match="no more"):
        follow(rows, url, tmp_path / "c")
    assert values(url, "copy") == []
    assert state(url)["state"] != "ongoing"
    follow(rows, url, tmp_path / "c")
    assert values(url, "copy") == values(url, "orders")


def test_two_runs_of_one_query_do_not_mix(url: str) -> None:
    """A writer that takes over the transactional id fences the previous one."""
    options = write_options({"goqueue.url": url, "topic": "copy", **NAME}, is_stream=True)
    first = acquire_transactional_id(options)
    with Client(url) as client:
        client.call(transaction_requests.join(first.whose, begin=True))
        second = acquire_transactional_id(options)
        with pytest.raises(ProducerFenced):
            client.call(transaction_requests.join(first.whose, begin=True))
        assert client.call(transaction_requests.join(second.whose, begin=True)) >= 0


def test_what_keeps_a_query_from_taking_over_is_said_in_our_words(
    spark: "SparkSession", url: str, closed_url: str, tmp_path: Path
) -> None:
    fill(url, 0, 1)
    with pytest.raises(Exception, match="goqueue") as caught:
        follow(orders(spark, url), closed_url, tmp_path / "c", deliveryTimeout="1s")
    assert isinstance(describe_failure(caught.value), BrokerUnreachable)
