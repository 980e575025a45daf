"""Rows of a real Spark written to a real broker, and streams between topics that fail on the way."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.client import Client
from goqueue.errors import MessageTooLarge, PartitionNotFound, RequestInvalid, TopicNotFound
from goqueue.spark.reading.failure import describe_failure
from goqueue.spark.sink.options import check_append, check_columns, write_options
from goqueue.spark.sink.rows import STRETCH_MESSAGES, PartitionRouter
from goqueue.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


TEXT, BYTES = StringType(), BinaryType()
HEADERS = "array<struct<key:string,value:binary>>"
VALUE_BYTES = 100_000  # forty of them are a request


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def read(url: str, topic: str) -> "list[Any]":
    with Client(url) as client, client.reader(topic) as reader:
        return list(reader)


def values(url: str, topic: str) -> list[bytes]:
    return sorted(message.value or b"" for message in read(url, topic))


def save(rows: "DataFrame", url: str, **options: str) -> None:
    rows.write.format("goqueue").mode("append").options(**{"goqueue.url": url}, **options).save()


def refusal(rows: "DataFrame", url: str, **options: str) -> Any:
    with pytest.raises(Exception, match="goqueue") as caught:
        save(rows, url, **options)
    return describe_failure(caught.value)


@pytest.fixture
def small_batches(spark: "SparkSession") -> Iterator[None]:
    """Few rows at a time pass from one worker to the next."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    usual = spark.conf.get(name)
    spark.conf.set(name, 10)
    yield
    spark.conf.set(name, usual or "10000")


@pytest.fixture
def url(broker: LocalBroker) -> str:
    with Client(broker.url) as client:
        for topic in ("orders", "copy"):
            client.create_topic(topic, 2)
    return broker.url


# --- columns and options, before anything is sent ---


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ({"value": IntegerType()}, "column value is int, it takes binary or string"),
        ({"key": LongType()}, "column key is bigint, it takes binary or string"),
        ({"headers": MapType(TEXT, BYTES)}, f"column headers is map<string,binary>, it takes {HEADERS}"),
        ({"headers": ArrayType(TEXT)}, f"column headers is array<string>, it takes {HEADERS}"),
        ({"topic": BYTES}, "column topic is binary, it takes string"),
        ({"partition": TEXT}, "column partition is string, it takes int"),
        ({"priority": DoubleType()}, "column priority is double, it takes string or int"),
        ({"pirority": TEXT}, "'pirority' is no column of a message, priority is"),
        ({"delay": TEXT}, "'delay' is no column of a message"),
    ],
)
def test_columns_that_are_no_part_of_a_message_are_refused(types: dict[str, DataType], problem: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        check_columns(columns(**{"value": TEXT} | types), names_topic=True)
    assert caught.value.details["problems"] == [problem]


def test_all_problems_of_columns_are_told_at_once() -> None:
    with pytest.raises(RequestInvalid) as caught:
        check_columns(columns(vlaue=TEXT, partition=TEXT), names_topic=False)
    assert caught.value.details["problems"] == [
        "'vlaue' is no column of a message, value is",
        "column partition is string, it takes int",
        "there is no column value",
        "nothing says the topic: give the option topic, or a column of that name",
    ]


def test_a_column_that_is_there_twice_is_refused() -> None:
    with pytest.raises(RequestInvalid, match="there are two columns value"):
        check_columns(StructType([StructField("value", TEXT), StructField("value", BYTES)]), names_topic=True)


def test_what_a_message_has_or_reading_gives_may_be_written() -> None:
    pairs = ArrayType(columns(key=TEXT, value=BYTES))
    all_of_a_message = columns(value=TEXT, key=BYTES, headers=pairs, topic=TEXT, partition=LongType())
    check_columns(all_of_a_message.add("priority", ByteType()), names_topic=False)
    given = columns(value=BYTES, offset=LongType(), timestamp=TimestampType(), timestampType=IntegerType())
    check_columns(given.add("segment", LongType()).add("crc_ok", BooleanType()), names_topic=True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "goqueue.url is needed: a broker is written to"),
        ({"goqueue.url": "::"}, "goqueue.url: '::' is not the address of a broker"),
        ({"goqueue.url": "http://h", "topik": "a"}, "'topik' is no option (did you mean topic?)"),
        ({"goqueue.url": "http://h", "topic": ""}, "topic: is empty"),
        ({"goqueue.url": "http://h", "writeId": ""}, "writeId: is empty"),
        ({"goqueue.url": "http://h", "deliveryTimeout": "0s"}, "deliveryTimeout: '0s' is no time to wait"),
        ({"goqueue.url": "http://h", "goqueue.token": "a b"}, "goqueue.token: the API key is invalid"),
    ],
)
def test_options_that_are_wrong_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        write_options(options, is_stream=False)
    assert caught.value.details["problems"] == [problem]


def test_a_stream_has_an_identity_already() -> None:
    given = {"goqueue.url": "http://h", "checkpointLocation": "/c", "queryName": "q"}
    assert write_options(given, is_stream=True).write_id is None
    with pytest.raises(RequestInvalid, match="writeId is for batch writes"):
        write_options({**given, "writeId": "w"}, is_stream=True)


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(RequestInvalid, match="a log only grows"):
        check_append(overwrite=True)


def test_messages_without_a_key_go_in_stretches_that_begin_at_the_tasks_number(url: str) -> None:
    with Client(url) as client:
        router = PartitionRouter(client.topic("orders"), 3)
    keys = pa.array([b"", b"k"] * STRETCH_MESSAGES, pa.binary())
    keyless = router.route(len(keys), keys, None)[::2]
    assert set(keyless) == {1}
    assert set(router.route(10, None, None)) == {0}


# --- batch writes ---


def test_every_part_of_a_message_arrives(spark: "SparkSession", url: str) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES "
        "('a', 'x', array(named_struct('key', 'h', 'value', X'01')), 'high', 0), "
        "('b', NULL, NULL, NULL, 0), (NULL, 'gone', array(), 'low', 0), ('', '', NULL, 'critical', 1) "
        "AS t(value, key, headers, priority, partition)"
    ).coalesce(1)
    save(rows, url, topic="orders")
    found = [(one.partition, one.value, one.key, list(one.headers), one.priority) for one in read(url, "orders")]
    assert sorted(found, key=str) == sorted(
        [
            (0, b"a", b"x", [("h", b"\x01")], 1),
            (0, b"b", None, [], 2),
            (0, None, b"gone", [], 3),
            (1, b"", None, [], 0),
        ],
        key=str,
    )


def test_keys_go_where_other_producers_send_them(spark: "SparkSession", url: str) -> None:
    keys = [f"k{number}" for number in range(50)]
    with Client(url) as client, client.producer() as producer:
        producer.send_many("copy", keys, keys)
    rows = spark.range(50).selectExpr("concat('k', id) AS value", "concat('k', id) AS key")
    save(rows, url, topic="orders")
    found = [{(one.partition, one.value) for one in read(url, topic)} for topic in ("orders", "copy")]
    assert found[0] == found[1]


def test_rows_go_to_the_topics_that_they_name(spark: "SparkSession", url: str) -> None:
    rows = spark.range(100).selectExpr("string(id) AS value", "if(id % 3 = 0, 'orders', 'copy') AS topic")
    save(rows, url)
    assert values(url, "orders") == sorted(b"%d" % number for number in range(0, 100, 3))
    assert values(url, "copy") == sorted(b"%d" % number for number in range(100) if number % 3)


def test_a_topic_is_copied_with_all_its_columns(spark: "SparkSession", url: str) -> None:
    with Client(url) as client, client.producer() as producer:
        for number in range(20):
            producer.send("orders", b"%d" % number, b"k", {"h": b"%d" % number}, priority=number % 5)
    rows = spark.read.format("goqueue").option("goqueue.url", url).option("subscribe", "orders")
    save(rows.option("includeHeaders", "true").load(), url, topic="copy")
    found = [
        [(one.partition, one.offset, one.value, one.key, dict(one.headers), one.priority) for one in read(url, topic)]
        for topic in ("orders", "copy")
    ]
    assert found[0] == found[1]


def test_a_write_with_an_id_is_stored_once_however_often_it_is_made(spark: "SparkSession", url: str) -> None:
    rows = spark.range(1000).selectExpr("string(id) AS value")
    for _ in range(2):
        save(rows, url, topic="orders", writeId="monday")
        save(rows, url, topic="copy")
    assert len(values(url, "orders")) == 1000
    assert len(values(url, "copy")) == 2000


@pytest.mark.usefixtures("small_batches")
def test_a_write_that_failed_half_way_is_completed_by_the_next(spark: "SparkSession", url: str, tmp_path: Path) -> None:
    mark, width = str(tmp_path / "failed"), VALUE_BYTES

    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            if 150 in numbers and not os.path.exists(mark):
                os.mkdir(mark)
                raise OSError("no more")
            yield pa.record_batch({"value": [f"{number:0{width}}" for number in numbers]})

    rows = spark.range(0, 200, 1, 1).mapInArrow(fails_once, "value string")
    with pytest.raises(Exception, match="no more"):
        save(rows, url, topic="orders", writeId="w")
    begun = len(values(url, "orders"))
    save(rows, url, topic="orders", writeId="w")
    assert 0 < begun < 200
    assert values(url, "orders") == [b"%0*d" % (width, number) for number in range(200)]


def test_what_is_wrong_is_said_in_our_words(spark: "SparkSession", url: str) -> None:
    rows = spark.range(3).selectExpr("string(id) AS value")
    missing = refusal(rows, url, topic="nowhere")
    assert (type(missing), "nowhere" in missing.sentence) == (TopicNotFound, True)
    assert isinstance(refusal(rows.selectExpr("value AS vlaue"), url, topic="orders"), RequestInvalid)
    assert isinstance(refusal(rows.selectExpr("value", "7 AS partition"), url, topic="orders"), PartitionNotFound)
    assert isinstance(refusal(rows.selectExpr("repeat('x', 1100000) AS value"), url, topic="orders"), MessageTooLarge)
    assert isinstance(refusal(rows.selectExpr("value", "string(NULL) AS topic"), url), RequestInvalid)
    assert values(url, "orders") == []


def test_a_topic_is_created_where_the_broker_does_so(spark: "SparkSession", tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "other"), topics__auto_create="true") as local:
        save(spark.range(3).selectExpr("string(id) AS value"), local.url, topic="fresh")
        assert values(local.url, "fresh") == [b"0", b"1", b"2"]


# --- streams ---


def copy(spark: "SparkSession", url: str, checkpoint: Path, topic: str = "copy", **options: str) -> "list[int]":
    """Copy what is there; return the number of messages of each batch."""
    given = {"goqueue.url": url, "subscribe": "orders", "startingOffsets": "earliest"} | options
    rows = spark.readStream.format("goqueue").options(**given).load().select("key", "value")
    out = rows.writeStream.format("goqueue").options(**{"goqueue.url": url, "topic": topic})
    query = out.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    return [one.numInputRows for one in query.recentProgress if one.numInputRows]


def fill(url: str, first: int, end: int, width: int = 10) -> None:
    with Client(url) as client, client.producer() as producer:
        for number in range(first, end):
            producer.send("orders", b"%0*d" % (width, number), partition=number % 2)


def test_a_stream_copies_a_topic_in_batches_and_goes_on_where_it_was(
    spark: "SparkSession", url: str, tmp_path: Path
) -> None:
    fill(url, 0, 1000)
    assert copy(spark, url, tmp_path / "c", maxOffsetsPerTrigger="400") == [400, 400, 200]
    fill(url, 1000, 1010)
    assert copy(spark, url, tmp_path / "c") == [10]
    assert values(url, "copy") == values(url, "orders")


def test_batches_that_were_written_but_not_committed_are_stored_once(
    spark: "SparkSession", url: str, tmp_path: Path
) -> None:
    """As a crash between the two leaves it; more than the broker remembers of a producer is sent again."""
    fill(url, 0, 450, VALUE_BYTES)
    copy(spark, url, tmp_path / "c")
    for left in (tmp_path / "c" / "commits").iterdir():
        left.unlink()
    fill(url, 450, 460)
    copy(spark, url, tmp_path / "c")
    assert values(url, "copy") == values(url, "orders")


def test_two_queries_write_into_one_topic(spark: "SparkSession", url: str, tmp_path: Path) -> None:
    fill(url, 0, 100)
    for checkpoint in ("one", "other"):
        copy(spark, url, tmp_path / checkpoint)
    assert set(Counter(values(url, "copy")).values()) == {2}
