"""Writes of a real Spark in transactions: all of a micro-batch or nothing, each row once, whoever fails on the way."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from goqueue.client import Client, transactions
from goqueue.errors import BrokerUnreachable, ProducerFenced, RequestInvalid
from goqueue.spark.failure import describe_failure
from goqueue.spark.sink.options import write_options
from goqueue.spark.sink.transactional import take_over
from tests.brokers import ask, broker, nobody
from tests.spark.test_sink import ROOT, fill, save, small_batches, url, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["broker", "nobody", "small_batches", "url"]

NAME = {"transactional_id": "copies"}
COPIES = """
import sys
from pyspark import TaskContext
from goqueue.spark.session import Cluster, session

url, checkpoint = sys.argv[1:]

def fails_at_first(batches):
    for number, batch in enumerate(batches):
        if TaskContext.get().attemptNumber() == 0 and number == 8:
            raise OSError("the first attempt fails")
        yield batch

with session(Cluster("local[2,3]", conf={"spark.sql.execution.arrow.maxRecordsPerBatch": "100"}), name="copy") as spark:
    rows = spark.readStream.format("goqueue").option("goqueue.url", url).option("subscribe", "orders")
    rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "2000").load()
    rows = rows.select("key", "value").mapInArrow(fails_at_first, "key binary, value binary")
    out = rows.writeStream.format("goqueue").option("goqueue.url", url).option("topic", "copy")
    out = out.option("transactional_id", "copies")
    out.option("checkpointLocation", checkpoint).start().awaitTermination()
"""


def orders(spark: "SparkSession", url: str, **options: str) -> "DataFrame":
    """What is in the topic, as a stream."""
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
    """All messages that are there, whether anybody sees them or not."""
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


def test_a_stream_copies_each_message_once_and_goes_on_where_it_was(
    spark: "SparkSession", url: str, tmp_path: Path
) -> None:
    fill(url, 0, 1000)
    copy(spark, url, tmp_path / "c")
    fill(url, 1000, 1010)
    copy(spark, url, tmp_path / "c")
    assert values(url, "copy") == values(url, "orders")
    assert state(url)["last"]["note"].endswith("/3")


def test_a_batch_that_spark_does_not_know_to_be_committed_is_not_written_again(
    spark: "SparkSession", url: str, tmp_path: Path
) -> None:
    """As a crash between the broker's commit and Spark's leaves it."""
    fill(url, 0, 800)
    copy(spark, url, tmp_path / "c")
    forget(tmp_path / "c" / "commits", 1)
    fill(url, 800, 810)
    copy(spark, url, tmp_path / "c")
    assert values(url, "copy") == values(url, "orders")
    assert stored(url, "copy") == 810


def test_a_checkpoint_that_is_older_than_the_topic_is_refused(spark: "SparkSession", url: str, tmp_path: Path) -> None:
    fill(url, 0, 1200)
    copy(spark, url, tmp_path / "c")
    for number in (1, 2):
        forget(tmp_path / "c" / "commits", number)
        forget(tmp_path / "c" / "offsets", number)
    with pytest.raises(Exception, match="older than the topic") as caught:
        copy(spark, url, tmp_path / "c")
    assert isinstance(describe_failure(caught.value), ProducerFenced)
    assert stored(url, "copy") == 1200


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


def test_a_query_that_was_killed_in_a_batch_leaves_nothing_of_it_and_copies_each_message_once(
    spark: "SparkSession", url: str, tmp_path: Path
) -> None:
    """Its tasks fail at their first attempt, on top of that; whoever looks meanwhile sees whole batches."""
    fill(url, 0, 6000, 5000)
    process = subprocess.Popen(
        [sys.executable, "-c", COPIES, url, str(tmp_path / "c")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    seen = set()
    try:
        while stored(url, "copy") < 2500:
            seen.add(len(values(url, "copy")))
            with pytest.raises(subprocess.TimeoutExpired):  # it would copy for ever
                process.wait(0.1)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert len(values(url, "copy")) % 2000 == 0
    copy(spark, url, tmp_path / "c")
    assert values(url, "copy") == values(url, "orders")
    assert seen


def test_two_runs_of_one_query_do_not_mix(url: str) -> None:
    """Whoever takes the transactional id over fences whoever had it."""
    options = write_options({"goqueue.url": url, "topic": "copy", **NAME}, is_stream=True)
    first = take_over(options)
    with Client(url) as client:
        client.call(transactions.join(first.whose, begin=True))
        second = take_over(options)
        with pytest.raises(ProducerFenced):
            client.call(transactions.join(first.whose, begin=True))
        assert client.call(transactions.join(second.whose, begin=True)) >= 0


def test_what_keeps_a_query_from_taking_over_is_said_in_our_words(
    spark: "SparkSession", url: str, nobody: str, tmp_path: Path
) -> None:
    fill(url, 0, 1)
    with pytest.raises(Exception, match="goqueue") as caught:
        follow(orders(spark, url), nobody, tmp_path / "c", deliveryTimeout="1s")
    assert isinstance(describe_failure(caught.value), BrokerUnreachable)
