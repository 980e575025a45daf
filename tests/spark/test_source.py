"""`format("goqueue")` read by a real Spark: what people write, and what they are told."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.errors import (
    GoQueueError,
    OffsetOutOfRange,
    PathInvalid,
    RangeDamaged,
    RequestInvalid,
    TopicNotFound,
)
from goqueue.spark.reading.columns import COLUMNS, DEFAULT_COLUMNS
from goqueue.spark.reading.failure import describe_failure
from goqueue.testing.broker import LocalBroker
from tests.brokers import create, publish
from tests.spark import naive
from tests.spark.stock import Stock, damage, made

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Stock:
    """A data directory whose writer has stopped, for those who only read it."""
    return made(tmp_path_factory.mktemp("stock") / "d", count=60)


def load(spark: "SparkSession", path: Path | str, schema: str | None = None, **options: str) -> "DataFrame":
    reader = spark.read.format("goqueue").option("path", str(path)).options(**options)
    return (reader.schema(schema) if schema is not None else reader).load()


def collected(frame: "DataFrame") -> list[dict[str, Any]]:
    """All rows, in the order of a log, as Python has them."""
    table = frame.orderBy("partition", "offset").toArrow()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def wanted(stock: Stock, names: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = naive.rows(stock.path, "orders") + naive.rows(stock.path, "orders", 1)
    return [{name: row[name] for name in names} for row in rows]


def refused(act: Callable[[], object]) -> GoQueueError:
    """Return the error that a user of our session gets."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever pyspark makes of it
        act()
    return describe_failure(caught.value)


def test_all_columns_of_all_messages_are_there(spark: "SparkSession", stock: Stock) -> None:
    names = tuple(COLUMNS)
    found = load(spark, stock.path, columns=",".join(names), minPartitions="5")
    assert found.columns == list(names)
    assert found.rdd.getNumPartitions() >= 5
    assert collected(found) == wanted(stock, names)


def test_the_usual_columns_are_there_without_asking(spark: "SparkSession", stock: Stock) -> None:
    assert load(spark, stock.path).columns == list(DEFAULT_COLUMNS)
    assert collected(load(spark, stock.path, subscribe="orders")) == wanted(stock, DEFAULT_COLUMNS)
    assert load(spark, stock.path, includeHeaders="true").columns == [*DEFAULT_COLUMNS, "headers"]


def test_a_schema_is_a_projection(spark: "SparkSession", stock: Stock) -> None:
    found = load(spark, stock.path, "offset bigint, partition int, value binary")
    assert collected(found) == wanted(stock, ("offset", "partition", "value"))
    assert load(spark, stock.path, "key binary").count() == len(wanted(stock, ()))


def test_options_choose_what_is_read(spark: "SparkSession", stock: Stock) -> None:
    time_ns = naive.frames(stock.path, "orders")[40][2].timestamp_ns
    found = load(
        spark, stock.path, "offset bigint, partition int", assign='{"orders": [0, 1]}',
        startingOffsets='{"orders": {"0": 10, "1": -1}}', endingTimestamp=str(-(-time_ns // 10**6)),
    )  # fmt: skip
    last = naive.first_since(stock.path, "orders", 0, -(-time_ns // 10**6) * 10**6, 60)
    assert collected(found) == [
        {"offset": row["offset"], "partition": 0} for row in naive.rows(stock.path, "orders", 0, 10, last)
    ]


def test_a_view_can_be_made_in_sql(spark: "SparkSession", stock: Stock) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING goqueue OPTIONS (path '{stock.path}', subscribe 'orders')"
    )
    (row,) = spark.sql("SELECT count(*) AS n, sum(offset) AS s FROM orders WHERE partition = 1").collect()
    offsets = [row["offset"] for row in naive.rows(stock.path, "orders", 1)]
    assert (row.n, row.s) == (len(offsets), sum(offsets))
    assert spark.catalog.dropTempView("orders")


def test_a_session_without_registration_finds_the_format(spark: "SparkSession", stock: Stock) -> None:
    assert load(spark.newSession(), stock.path).count() == len(wanted(stock, ()))


def test_a_copy_without_a_lock_and_a_path_from_here_are_read(
    spark: "SparkSession", stock: Stock, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(stock.path, tmp_path / "copy of it"))
    (copy / "lock").unlink()
    for one in copy.rglob("*"):
        one.chmod(0o555 if one.is_dir() else 0o444)
    assert load(spark, copy).count() == len(wanted(stock, ()))
    for one in copy.rglob("*"):
        one.chmod(0o755)


def test_where_there_is_nothing_there_are_no_rows(spark: "SparkSession", tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        assert collected(load(spark, stock.path)) == []
        stock.create("orders")
        assert collected(load(spark, stock.path, subscribe="orders")) == []


# --- a broker at work ---


def test_a_broker_is_read_as_its_directory_is(spark: "SparkSession", broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "t", 2, segment_bytes=4096)
    for number in range(30):
        publish(broker.url, "t", "x" * 300, str(number), key=f"k{number}", headers={"h": "v"})
    reader = spark.read.format("goqueue").option("columns", ",".join(COLUMNS)).option("splitBytes", "4KiB")
    remote = reader.option("goqueue.url", broker.url).load()
    rows = naive.rows(tmp_path / "data", "t") + naive.rows(tmp_path / "data", "t", 1)
    assert len(rows) == 60
    assert collected(remote) == rows


# --- what people are told ---


def test_wrong_options_are_told_all_at_once(spark: "SparkSession", stock: Stock) -> None:
    error = refused(lambda: load(spark, stock.path, subscripe="orders", splitBytes="big"))
    assert isinstance(error, RequestInvalid)
    assert "'subscripe' is no option (did you mean subscribe?)" in error.sentence
    assert "splitBytes: 'big' is not a size" in error.sentence
    assert error.hint == "docs/spark.md lists all options"


@pytest.mark.parametrize(
    ("schema", "sentence", "hint"),
    [
        ("offset int", "column offset is bigint, the schema says int", "read it as bigint, and CAST it"),
        ("value string", "column value is binary, the schema says string", "read it as binary, and CAST it"),
        ("ofset bigint", "the schema has a column 'ofset', which messages do not have", "there are: key, value"),
    ],
)
def test_a_schema_that_messages_do_not_have_is_refused(
    spark: "SparkSession", stock: Stock, schema: str, sentence: str, hint: str
) -> None:
    error = refused(load(spark, stock.path, schema).collect)
    assert (type(error), error.sentence) == (RequestInvalid, sentence)
    assert str(error.hint).startswith(hint)


def test_what_is_not_there_is_told_as_everywhere(spark: "SparkSession", stock: Stock, tmp_path: Path) -> None:
    error = refused(load(spark, stock.path, subscribe="ordes").count)
    assert (type(error), error.sentence) == (TopicNotFound, "there is no topic 'ordes'")
    assert error.hint == "did you mean orders?"
    error = refused(load(spark, tmp_path / "nowhere").count)
    assert (type(error), error.sentence) == (PathInvalid, f"{tmp_path}/nowhere does not exist")
    error = refused(load(spark, stock.path, startingOffsets='{"orders": {"0": 61}}').count)
    assert (type(error), error.hint) == (OffsetOutOfRange, "failOnDataLoss=false begins with what is there")


def test_damage_ends_a_strict_read_and_is_passed_over_otherwise(
    spark: "SparkSession", stock: Stock, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(stock.path, tmp_path / "d"))
    rows = naive.rows(copy, "orders")
    file = damage(copy, rows[4])
    error = refused(load(spark, copy, assign='{"orders": [0]}').count)
    assert isinstance(error, RangeDamaged)
    assert f"{file} is damaged from byte {rows[4]['position']} to {rows[5]['position']}: " in error.sentence
    assert str(error.hint).endswith("failOnDataLoss=false in a job) reads on behind it")
    found = load(spark, copy, "offset bigint, partition int", assign='{"orders": [0]}', failOnDataLoss="false")
    assert [row["offset"] for row in collected(found)] == [row["offset"] for row in rows if row != rows[4]]
    asked = load(spark, copy, "offset bigint, partition int, crc_ok boolean", assign='{"orders": [0]}')
    assert [row["offset"] for row in collected(asked) if not row["crc_ok"]] == [rows[4]["offset"]]
