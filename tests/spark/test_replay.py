"""Messages and rows of queries back into a topic: what arrives, in which order, and that it arrives once."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from goqueue.client import Client
from goqueue.errors import RequestInvalid, TopicNotFound
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.queries.views import TopicViews
from goqueue.spark.reading.plan import ReadPlan, TopicSelection, make_plan
from goqueue.spark.transfer.replay import (
    Throttle,
    TopicDestination,
    as_messages,
    check_destination,
    messages_of,
    messages_of_query,
    replay,
)
from goqueue.testing.broker import LocalBroker
from tests.spark import naive
from tests.spark.programs import Inspect
from tests.spark.stock import Sent, Stock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KEPT = ("key", "value", "headers", "priority")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "data"
    with Stock(path, segment_bytes=2048) as stock:
        stock.create("orders", 2).create("json")
        stock.fill("orders", 40).fill("orders", 30, partition=1)
        stock.append("json", *(Sent(json.dumps({"n": n, "who": f"w{n % 2}"}).encode()) for n in range(10)))
    return path


def plan_of(place: Path, topic: str) -> tuple[DirectoryLogs, ReadPlan]:
    logs = DirectoryLogs.at(str(place))
    return logs, make_plan(logs, TopicSelection((topic,)))


def arrived(broker: LocalBroker, topic: str, partition: int = 0) -> list[naive.Row]:
    return naive.rows(Path(broker.daemon.config.data_dir), topic, partition)


def create(broker: LocalBroker, topic: str, partitions: int = 1) -> None:
    with Client(broker.url) as client:
        client.create_topic(topic, partitions)


def chosen(rows: list[naive.Row], *names: str) -> list[list[object]]:
    return [[row[name] for name in names] for row in rows]


def test_messages_arrive_unchanged_in_their_order_and_once(
    spark: "SparkSession", place: Path, broker: LocalBroker
) -> None:
    create(broker, "again", 2)
    logs, plan = plan_of(place, "orders")
    to = TopicDestination(broker.url, "again", identity="one", keeps_partitions=True)
    check_destination(to, plan)
    for _ in range(2):
        count = replay(messages_of(spark, logs, plan, to), to)
    for number in range(2):
        expected = naive.rows(place, "orders", number)
        assert chosen(arrived(broker, "again", number), *KEPT) == chosen(expected, *KEPT)
    assert count == sum(len(naive.rows(place, "orders", number)) for number in range(2))


def test_rows_of_a_query_arrive_with_their_bytes(spark: "SparkSession", place: Path, broker: LocalBroker) -> None:
    create(broker, "some")
    to = TopicDestination(broker.url, "some", rate=1e6)
    logs, _ = plan_of(place, "orders")
    messages = messages_of_query(TopicViews(spark, logs), "SELECT * FROM orders WHERE partition = 1 AND offset > 9", to)
    assert replay(messages, to) == len(arrived(broker, "some"))
    expected = naive.rows(place, "orders", 1, first=10)
    assert chosen(arrived(broker, "some"), *KEPT) == chosen(expected, *KEPT)


def test_rows_without_a_value_become_json_and_are_stored_once(
    spark: "SparkSession", place: Path, broker: LocalBroker
) -> None:
    create(broker, "sums")
    to = TopicDestination(broker.url, "sums", identity="sums")
    logs, _ = plan_of(place, "json")
    for _ in range(2):
        query = "SELECT who AS key, who, sum(n) AS s FROM json GROUP BY who"
        replay(messages_of_query(TopicViews(spark, logs), query, to), to)
    found = {row["key"]: json.loads(row["value"]) for row in arrived(broker, "sums")}
    assert found == {b"w0": {"who": "w0", "s": 20}, b"w1": {"who": "w1", "s": 25}}
    assert len(arrived(broker, "sums")) == 2


def test_rows_that_a_query_has_ordered_arrive_in_that_order(
    spark: "SparkSession", place: Path, broker: LocalBroker
) -> None:
    create(broker, "sorted")
    to = TopicDestination(broker.url, "sorted")
    logs, _ = plan_of(place, "json")
    query = "SELECT n + 1 AS value FROM json ORDER BY n DESC LIMIT 5"
    replay(messages_of_query(TopicViews(spark, logs), query, to), to)
    assert [row["value"] for row in arrived(broker, "sorted")] == [b"10", b"9", b"8", b"7", b"6"]


def test_rows_that_cannot_be_messages_are_refused(spark: "SparkSession") -> None:
    with pytest.raises(RequestInvalid, match="can become a value"):
        as_messages(spark.sql("SELECT 1 AS offset"))
    with pytest.raises(RequestInvalid, match="column partition"):
        as_messages(spark.sql("SELECT 'a' AS value"), keeps_partitions=True)


def test_a_destination_that_does_not_fit_is_told(place: Path, broker: LocalBroker) -> None:
    create(broker, "narrow")
    _, plan = plan_of(place, "orders")
    with pytest.raises(RequestInvalid, match="has 1 partitions"):
        check_destination(TopicDestination(broker.url, "narrow", keeps_partitions=True), plan)
    with pytest.raises(TopicNotFound):
        check_destination(TopicDestination(broker.url, "nowhere"), plan)


def test_a_rate_is_kept_and_loses_nothing() -> None:
    batch = pa.record_batch([pa.array(range(60))], names=["n"])
    began = time.monotonic()
    found = [one for piece in Throttle(400.0)(iter([batch])) for one in piece.column(0).to_pylist()]
    assert found == list(range(60))
    assert time.monotonic() - began >= 0.09


def test_the_command_publishes_and_says_how_many(inspect_spark: Inspect, place: Path, broker: LocalBroker) -> None:
    create(broker, "again")
    words = (str(place), "orders", "--into", "again", "--server", broker.url, "--yes", "-o", "json")
    found = inspect_spark("replay", *words)
    assert found.returncode == 0, found.stderr
    (row,) = json.loads(found.stdout)
    expected = [row for number in range(2) for row in naive.rows(place, "orders", number)]
    assert (row["topic"], row["messages"]) == ("again", len(expected))
    assert Counter(map(str, chosen(arrived(broker, "again"), *KEPT))) == Counter(map(str, chosen(expected, *KEPT)))


def test_a_dry_run_sends_nothing(inspect_spark: Inspect, place: Path, broker: LocalBroker) -> None:
    create(broker, "again")
    query = "SELECT key, value FROM orders WHERE key = 'k1' AND value IS NOT NULL"
    found = inspect_spark(
        "replay", str(place), "--into", "again", "--server", broker.url, "--query", query, "--dry-run"
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[0].split() == ["KEY", "VALUE"]
    assert found.stdout.splitlines()[1].split() == ["k1", "with", "a", "key"]
    assert "nothing was sent" in found.stderr
    assert arrived(broker, "again") == []


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--into", "again"), 2, "nothing to replay"),
        (("orders",), 2, "--into"),
        (("orders", "--into", "again", "--query", "SELECT 1"), 2, "exclude each other"),
        (("orders", "--into", "again", "--rate", "0"), 2, "--rate 0"),
        (("orders", "--into", "again", "--id", "x"), 2, "--id needs an end"),
        (("orders", "--into", "again"), 2, "confirmation required"),
        (("orders", "--into", "nowhere", "--yes"), 5, "nowhere"),
        (("ordres", "--into", "again", "--yes"), 5, "ordres"),
    ],
)
def test_a_wrong_call_is_told_before_anything_is_sent(
    inspect: Inspect, place: Path, broker: LocalBroker, words: tuple[str, ...], code: int, sentence: str
) -> None:
    create(broker, "again")
    found = inspect("replay", str(place), *words, "--server", broker.url)
    assert sentence in found.stderr
    assert found.returncode == code
    assert arrived(broker, "again") == []
