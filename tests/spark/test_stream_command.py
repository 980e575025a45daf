"""Topics that are followed: into files and into topics, going on where a checkpoint says, each message once."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.client import Client
from goqueue.commands.inspect import stream
from goqueue.commands.inspect.request import InspectRequest
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import ReadBound
from goqueue.spark.transfer.follow import FileOutput, FollowRequest, batches, follow
from goqueue.spark.transfer.replay import TopicDestination
from goqueue.testing.broker import LocalBroker
from tests.brokers import publish
from tests.spark import naive
from tests.spark.programs import Inspect
from tests.spark.stock import Stock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.spark.logs.port import LogSource
    from goqueue.spark.transfer.follow import CompletedBatch


def create(broker: LocalBroker, *topics: str, partitions: int = 1) -> None:
    with Client(broker.url) as client:
        for topic in topics:
            client.create_topic(topic, partitions)


def run(spark: "SparkSession", logs: "LogSource", wanted: FollowRequest) -> "list[CompletedBatch]":
    """All that is there now."""
    query = follow(spark, logs, replace(wanted, ends_with_what_is_there=True))
    return [batch for batch in batches(query) if batch is not None]


@pytest.fixture
def logs(broker: LocalBroker) -> Iterator[BrokerLogs]:
    found = BrokerLogs(broker.url)
    yield found
    found.client.close()


def values(broker: LocalBroker, topic: str) -> list[bytes]:
    return [row["value"] for row in naive.rows(Path(broker.daemon.config.data_dir), topic)]


def test_files_grow_with_a_topic_and_have_each_message_once(spark: "SparkSession", tmp_path: Path) -> None:
    place = tmp_path / "data"
    wanted = FollowRequest(
        ("ord*",), str(tmp_path / "checkpoint"), FileOutput(str(tmp_path / "lake")), messages_per_batch=30
    )
    with Stock(place, segment_bytes=4096) as stock:
        stock.create("orders", 2).create("other").fill("orders", 40).fill("orders", 20, partition=1).fill("other", 9)
        logs = DirectoryLogs.at(str(place))
        first = run(spark, logs, wanted)
        stock.fill("orders", 10)
        second = run(spark, logs, wanted)
    expected = [row for number in range(2) for row in naive.rows(place, "orders", number)]
    found = spark.read.parquet(str(tmp_path / "lake")).collect()
    assert Counter((row.partition, row.offset, bytes(row.value or b"")) for row in found) == Counter(
        (row["partition"], row["offset"], row["value"] or b"") for row in expected
    )
    assert {str(row.day) for row in found} == {row["timestamp"].strftime("%Y-%m-%d") for row in expected}
    assert len(first) > 1
    assert first[-1].lag == 0
    assert second[0].number == first[-1].number + 1
    assert sum(batch.messages for batch in (*first, *second)) == len(expected)


def test_a_query_decides_what_becomes_of_messages(
    spark: "SparkSession", broker: LocalBroker, logs: BrokerLogs, tmp_path: Path
) -> None:
    create(broker, "orders", "large")
    publish(broker.url, "orders", *(json.dumps({"total": n, "key": n}) for n in range(10)))
    query = "SELECT json_key AS key, total * 2 AS twice FROM input WHERE total >= 7"
    to = TopicDestination(broker.url, "large")
    wanted = FollowRequest(("orders",), str(tmp_path / "c"), to, query=query, start=ReadBound(2))
    (batch,) = run(spark, logs, wanted)
    assert batch.messages == 8
    assert [json.loads(value) for value in values(broker, "large")] == [{"twice": 14}, {"twice": 16}, {"twice": 18}]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("SELECT 1 AS value", "does not read the stream"),
        ("SELECT nope AS value FROM input", "no column 'nope'"),
        ("SELECT count(*) AS value FROM input", "watermark"),
        ("SELECT value FROM orders", "no topic 'orders'"),
    ],
)
def test_a_query_that_cannot_run_is_told(
    spark: "SparkSession", broker: LocalBroker, logs: BrokerLogs, tmp_path: Path, query: str, sentence: str
) -> None:
    create(broker, "orders", "large")
    wanted = FollowRequest(("orders",), str(tmp_path / "c"), TopicDestination(broker.url, "large"), query=query)
    with pytest.raises((GoQueueError, RequestInvalid), match=sentence):
        run(spark, logs, wanted)


def test_the_command_ends_after_the_batch_that_is_interrupted_and_continues_behind_it(
    inspect_spark: Inspect, broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "orders", "copy")
    publish(broker.url, "orders", *map(str, range(5)))
    words = ["stream", "--url", broker.url, "orders", "--into", "copy", "--server", broker.url]
    words += ["--checkpoint", str(tmp_path / "c"), "-o", "jsonl"]
    tell = stream._tell

    def tell_and_interrupt(request: InspectRequest, batch: "CompletedBatch") -> None:
        tell(request, batch)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(stream, "_tell", tell_and_interrupt)
        interrupted = inspect_spark(*words, "--every", "1s")
    assert interrupted.returncode == 130, interrupted.stderr
    assert "Traceback" not in interrupted.stderr
    first = json.loads(interrupted.stdout)
    assert (first["batch"], first["messages"], first["lag"]) == (0, 5, 0)
    publish(broker.url, "orders", "5")
    again = inspect_spark(*words, "--available-now")
    assert again.returncode == 0, again.stderr
    assert [json.loads(line)["messages"] for line in again.stdout.splitlines()] == [1]
    assert values(broker, "copy") == [str(number).encode() for number in range(6)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("orders", "--out", "x"), "--checkpoint"),
        (("orders", "--checkpoint", "c"), "one of --out and --into is needed"),
        (("orders", "--checkpoint", "c", "--out", "x", "--into", "y"), "one of --out and --into"),
        (("--checkpoint", "c", "--out", "x"), "no topic to follow"),
        (("orders", "--checkpoint", "c", "--out", "x", "--every", "soon"), "--every"),
        (("orders", "--checkpoint", "c", "--out", "x", "--to", "5"), "no --to"),
        (("orders", "--checkpoint", "c", "--out", "x", "--partition-by", "year"), "'year'"),
        (("orders", "--checkpoint", "c", "--out", "x", "--query", "DROP TABLE input"), "'DROP'"),
    ],
)
def test_a_wrong_call_is_told_before_spark_starts(
    inspect: Inspect, words: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    found = inspect("stream", str(tmp_path), *words)
    assert sentence in found.stderr
    assert found.returncode == 2
