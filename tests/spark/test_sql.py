"""Topics as tables: what they show, what is read for a query, what is refused, how results are written."""

import csv
import io
import json
import logging
import shutil
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

from goqueue.errors import GoQueueError, RequestInvalid, TopicNotFound
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.queries import results
from goqueue.spark.queries.pruning import Interval
from goqueue.spark.queries.query import check_query, translated_refusals
from goqueue.spark.queries.schemas import NO_FIELDS, JsonFields, infer_fields, parse_schema
from goqueue.spark.queries.tables import column_names
from goqueue.spark.queries.views import TopicViews
from goqueue.sql.engine import TopicQueries, directory_logs
from goqueue.sql.fields import infer_fields as inferred_types
from tests.spark import naive
from tests.spark.programs import Inspect
from tests.spark.stock import Sent, Stock, damage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = Path(sys.executable).with_name("goqueue")


def order(number: int) -> Sent:
    value = {"order": number, "customer": f"c{number % 3}", "total": number * 1.5, "key": "mine", "tags": ["a"]}
    return Sent(json.dumps(value).encode(), f"c{number % 3}".encode())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders as JSON in two partitions; a topic of all shapes, whose name wants quotes; one without messages."""
    path = tmp_path_factory.mktemp("sql") / "data"
    with Stock(path, segment_bytes=2048) as stock:
        stock.create("orders", 2).create("all.kinds-1").create("empty").create("Twin").create("twin")
        for first in range(0, 60, 10):
            stock.append("orders", *map(order, range(first, first + 10)), partition=first // 10 % 2)
        stock.fill("all.kinds-1", 24)
    return path


def views(spark: "SparkSession", place: Path, fields: JsonFields | None = None) -> TopicViews:
    return TopicViews(spark, DirectoryLogs.at(str(place)), fields or JsonFields())


def test_fields_of_json_values_are_columns(spark: "SparkSession", place: Path) -> None:
    found = views(spark, place).frame("SELECT customer, sum(total) AS s FROM orders GROUP BY 1").collect()
    expected: Counter[str] = Counter()
    for number in range(60):
        expected[f"c{number % 3}"] += number * 1.5  # type: ignore[assignment]
    assert {row.customer: row.s for row in found} == dict(expected)


def test_a_star_shows_messages_as_a_naive_reader_finds_them(spark: "SparkSession", place: Path) -> None:
    found = views(spark, place).frame("SELECT * FROM `all.kinds-1` ORDER BY offset").collect()
    stored = naive.rows(place, "all.kinds-1")
    assert [row.offset for row in found] == [row["offset"] for row in stored]
    assert [row.value for row in found] == [
        None if row["value"] is None else row["value"].decode(errors="replace") for row in stored
    ]
    assert [row.priority for row in found] == [row["priority"] for row in stored]
    assert found[0].asDict().keys() == {
        "partition", "offset", "timestamp", "key", "value", "priority", "headers", "topic",
    }  # fmt: skip


def test_raw_columns_have_the_bytes(spark: "SparkSession", place: Path) -> None:
    found = views(spark, place).frame("SELECT raw_key, raw_value FROM all_kinds_1 ORDER BY offset").collect()
    stored = naive.rows(place, "all.kinds-1")
    assert [(row.raw_key, row.raw_value) for row in found] == [(row["key"], row["value"]) for row in stored]


@pytest.mark.parametrize(
    ("query", "columns", "messages"),
    [
        ("SELECT count(*) FROM orders", ("offset",), 60),
        ("SELECT key FROM (SELECT * FROM orders)", ("key",), 60),
        ("SELECT max(total) FROM orders WHERE partition = 1", ("partition", "value"), 30),
        ("SELECT priority FROM orders WHERE offset BETWEEN 5 AND 6 AND partition IN (0, 1)", None, 4),
        ("SELECT (SELECT count(headers) FROM orders) FROM orders WHERE 5 > offset", ("offset", "headers"), 60),
        ("SELECT count(*) FROM orders a JOIN orders b ON a.offset = 1 AND b.offset = 3", ("offset",), 6),
        ("SELECT count(*) FROM orders WHERE offset < 3 OR partition = 0", ("partition", "offset"), 60),
        ("SELECT count(*) FROM orders WHERE key = 'x, GreaterThan(offset,100)'", ("key",), 60),
        ("SELECT count(*) FROM orders WHERE timestamp < '1999-01-01'", ("timestamp",), 0),
        ("WITH c AS (SELECT topic FROM orders) SELECT topic, count(*) FROM c GROUP BY 1", ("topic",), 60),
    ],
)
def test_only_what_a_query_needs_is_read(
    spark: "SparkSession", place: Path, query: str, columns: tuple[str, ...] | None, messages: int
) -> None:
    looked = views(spark, place)
    looked.frame(query)
    assert columns is None or set(looked.columns["orders"]) == set(columns)
    assert looked.plans["orders"].messages == messages


def test_pruning_changes_no_result(spark: "SparkSession", place: Path) -> None:
    times = [row["timestamp"] for number in range(2) for row in naive.rows(place, "orders", number)]
    moment = sorted(times)[25]
    stamp = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
    found = views(spark, place).frame(
        f"SELECT (SELECT count(*) FROM orders WHERE timestamp >= TIMESTAMP '{stamp}') AS since, "  # noqa: S608 - ours
        f"(SELECT count(*) FROM orders WHERE timestamp <= TIMESTAMP '{stamp}' AND offset <= 12) AS until"
    )
    stored = [row for number in range(2) for row in naive.rows(place, "orders", number)]
    assert found.collect()[0].asDict() == {
        "since": sum(one >= moment for one in times),
        "until": sum(row["timestamp"] <= moment and row["offset"] <= 12 for row in stored),
    }


def test_describe_shows_the_columns_and_a_taken_name_gets_a_prefix(spark: "SparkSession", place: Path) -> None:
    found = views(spark, place).frame("DESCRIBE orders").collect()
    types = {row.col_name: row.data_type for row in found}
    assert types["key"] == "string"
    assert types["json_key"] == "string"
    assert types["total"] == "double"
    assert types["tags"] == "array<string>"


def test_a_given_schema_wins_and_without_json_there_are_no_fields(spark: "SparkSession", place: Path) -> None:
    given = views(spark, place, JsonFields("total STRING, nope INT"))
    assert given.frame("SELECT total, nope FROM orders WHERE offset = 1 AND partition = 0").collect() == [("1.5", None)]
    with pytest.raises(RequestInvalid, match="no column 'total'"):
        views(spark, place, NO_FIELDS).frame("SELECT total FROM orders")


def test_what_spark_refuses_afterwards_is_told_by_spark(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in logging.root.manager.loggerDict if one.endswith("QueryContextLogger")]:
        monkeypatch.delitem(logging.root.manager.loggerDict, name)
    with pytest.raises(RequestInvalid, match="no column 'nope'"), translated_refusals():
        spark.sql("SELECT nope FROM range(1)")
    with pytest.raises(AnalysisException, match="nope"):
        spark.sql("SELECT nope FROM range(1)")


def test_the_session_is_left_as_it_was(spark: "SparkSession", place: Path) -> None:
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    views(spark, place).frame("SELECT 1 FROM orders")
    views(spark, place).frame("SELECT 1 FROM `all.kinds-1`")
    assert [one.name for one in spark.catalog.listTables() if one.isTemporary] == []
    assert spark.conf.get("spark.sql.adaptive.enabled") == adaptive


def test_a_query_that_skips_damage_finds_all_healthy_messages(
    spark: "SparkSession", place: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(place, tmp_path / "copy"))
    rows = naive.rows(copy, "orders")
    damage(copy, rows[4])
    logs = DirectoryLogs.at(str(copy))
    query = "SELECT offset FROM orders WHERE partition = 0 ORDER BY offset"
    found = TopicViews(spark, logs, JsonFields(), skips_damage=True).frame(query).collect()
    assert [row.offset for row in found] == [row["offset"] for row in rows if row != rows[4]]
    with pytest.raises(Exception, match="--skip-damage"):
        TopicViews(spark, logs, JsonFields()).frame(query).collect()


def test_an_empty_topic_has_no_rows(spark: "SparkSession", place: Path) -> None:
    assert views(spark, place).frame("SELECT count(*), max(offset) FROM empty").collect() == [(0, None)]


@pytest.mark.parametrize(
    ("query", "kind", "sentence", "hint"),
    [
        ("SELECT * FROM ordres", TopicNotFound, "no topic 'ordres' .line 1, column 15", "did you mean orders?"),
        ("SELECT * FROM all.kinds", TopicNotFound, "no topic 'all.kinds'", "did you mean `all.kinds-1`?"),
        (
            "SELECT custmer FROM orders",
            RequestInvalid,
            "no column 'custmer' .line 1, column 8",
            "did you mean customer? orders has partition, offset, timestamp, key, value, customer, json_key, order,",
        ),
        ("SELECT a.nope FROM orders a", RequestInvalid, "no column 'a.nope'", "orders has partition, offset,"),
        ("SELECT * FROM orders-v1", TopicNotFound, "no topic 'orders-v1' .line 1", "did you mean orders?"),
        (
            "SELECT * FROM all.kinds-1",
            RequestInvalid,
            "kinds-1 is written without quotes",
            "all_kinds_1 or `all.kinds-1`",
        ),
        ("SELECT 1 +\n +", RequestInvalid, "Syntax error at or near end of input .line 2, column 3", None),
        ("SELECT 1; SELECT 2", RequestInvalid, "Syntax error", None),
        ("SELECT nosuch(1) FROM orders", RequestInvalid, "nosuch", None),
        ("SELECT * FROM twin", RequestInvalid, "cannot tell apart", None),
        ("WITH a AS (SELECT 1) INSERT INTO orders SELECT * FROM a", RequestInvalid, "only read", "begins with"),
        ("FROM orders INSERT INTO a SELECT * INSERT INTO b SELECT *", RequestInvalid, "only read", None),
        ("SELECT TRANSFORM(key) USING 'cat' FROM orders", RequestInvalid, "only read", None),
    ],
)
def test_a_wrong_query_is_told_in_a_sentence(
    spark: "SparkSession", place: Path, query: str, kind: type[GoQueueError], sentence: str, hint: str | None
) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        views(spark, place).frame(query)
    assert "\n" not in caught.value.sentence
    assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize("query", ["", " ; ", "DROP TABLE x", "set a=1", "-- SELECT\ninsert into x", "begin select 1"])
def test_what_is_no_query_is_refused_before_spark_starts(query: str) -> None:
    with pytest.raises(RequestInvalid):
        check_query(query)


@pytest.mark.parametrize("query", ["select 1;", "/* a */ (SELECT 1)", "-- b\nWITH a AS (SELECT 1) FROM a", "table x"])
def test_a_query_may_begin_in_many_ways(query: str) -> None:
    assert check_query(query) == query.rstrip(";")


def test_lines_and_batches_are_all_rows_in_order(spark: "SparkSession") -> None:
    query = "SELECT id, if(id % 2 = 0, 'a\"b', NULL) AS t, array(id) AS many, X'00FF' AS b FROM range(5) ORDER BY id"
    frame = spark.sql(query)
    found = [json.loads(line) for piece in results.lines(frame, "jsonl") for line in piece.splitlines()]
    assert found == [{"id": n, "t": 'a"b' if n % 2 == 0 else None, "many": [n], "b": "AP8="} for n in range(5)]
    text = b"".join(results.lines(frame, "csv")).decode()
    assert list(csv.reader(io.StringIO(text))) == [
        [str(n), 'a"b' if n % 2 == 0 else "", f"[{n}]", "AP8="] for n in range(5)
    ]
    assert pa.Table.from_batches(results.record_batches(frame)).column("id").to_pylist() == list(range(5))


def test_columns_that_are_called_alike_get_numbers(spark: "SparkSession") -> None:
    frame = results.distinct_names(spark.sql("SELECT 1 AS a, 2 AS a, 3 AS a_2"))
    assert frame.columns == ["a", "a_2", "a_2_2"]
    assert frame.collect() == [(1, 2, 3)]


def test_a_result_without_rows_has_its_schema(spark: "SparkSession") -> None:
    frame = spark.sql("SELECT id FROM range(0)")
    assert list(results.lines(frame, "jsonl")) == []
    assert pa.Table.from_batches(results.record_batches(frame)).schema.names == ["id"]


def test_fields_get_columns_that_are_free() -> None:
    assert column_names(["a", "A", "Key"], ["key"]) == {"a": "a", "json_A": "A", "json_Key": "Key"}


@pytest.mark.parametrize("text", ["{", "a b c d", '{"type": "nope"}', "INT"])
def test_a_wrong_schema_is_refused(spark: "SparkSession", text: str) -> None:
    del spark  # types are parsed by the JVM
    with pytest.raises(RequestInvalid):
        parse_schema(text)


def test_intervals_meet_and_join() -> None:
    low, high = Interval(3, None), Interval(None, 9)
    assert low.meet(high) == Interval(3, 9)
    assert low.meet(Interval(5, 6)) == Interval(5, 6)
    assert Interval(3, 5).join(Interval(8, 9)) == Interval(3, 9)
    assert Interval(3, 5).join(low) == Interval(3, None)


def test_the_command_answers_a_table_and_says_when_it_is_cut(inspect_spark: Inspect, place: Path) -> None:
    found = inspect_spark(
        "sql", str(place), "-", "--limit", "2", stdin="SELECT offset, timestamp FROM orders ORDER BY 2, 1"
    )
    lines = found.stdout.splitlines()
    assert (found.returncode, lines[0].split()) == (0, ["OFFSET", "TIMESTAMP"])
    first = min(row["timestamp"] for row in naive.rows(place, "orders"))
    assert lines[1].split(maxsplit=1)[1].startswith(first.strftime("%Y-%m-%d %H:%M:%S"))
    assert len(lines) == 3
    assert found.stderr == "the first 2 rows; --limit shows more, -o jsonl and -o csv all of them\n"


@pytest.mark.slow
def test_a_reader_that_stops_causes_no_output_on_stderr(place: Path) -> None:
    command = [str(PROGRAM), "spark-inspect", "sql", str(place), "SELECT * FROM orders CROSS JOIN range(200)"]
    quick = ["-o", "csv", "--no-json", "--master", "local[1]"]
    with subprocess.Popen([*command, *quick], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"partition,offset")
        process.stdout.close()
        assert process.stderr.read() == b""


def test_times_are_times_in_parquet(spark: "SparkSession", place: Path) -> None:
    frame = views(spark, place).frame("SELECT timestamp, offset FROM orders ORDER BY offset")
    (batch, *_) = results.record_batches(frame)
    assert batch.schema.field("timestamp").type == pa.timestamp("us", "UTC")
    empty = views(spark, place).frame("SELECT timestamp FROM orders WHERE offset < 0")
    assert next(results.record_batches(empty)).schema.field("timestamp").type == pa.timestamp("us", "UTC")


def test_the_command_writes_parquet_for_programs(inspect_spark: Inspect, place: Path, tmp_path: Path) -> None:
    query = tmp_path / "query.sql"
    query.write_text("SELECT customer, offset FROM orders WHERE partition = 0 ORDER BY offset;\n")
    found = inspect_spark("sql", str(place), f"@{query}", "-o", "parquet")
    assert found.returncode == 0, found.stderr
    table = pq.read_table(io.BytesIO(found.output))
    assert table.column("offset").to_pylist() == list(range(30))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sql", "DIR"), "there is no query"),
        (("sql", "DIR", "SELECT", "1"), "'1' is too much"),
        (("sql", "DIR", "DELETE FROM orders"), "'DELETE' does not begin a query"),
        (("sql", "DIR", "@/nowhere.sql"), "/nowhere.sql cannot be read"),
        (("sql", "DIR", "SELECT 1", "--no-json", "--json-schema", "a INT"), "exclude each other"),
        (("sql", "/nowhere", "SELECT 1"), "/nowhere"),
    ],
)
def test_a_wrong_call_is_told_before_spark_starts(
    inspect: Inspect, place: Path, words: tuple[str, ...], sentence: str
) -> None:
    found = inspect(*(str(place) if word == "DIR" else word for word in words))
    assert sentence in found.stderr
    assert found.returncode == 2
    assert found.stdout == ""


@pytest.mark.parametrize("topic", ["orders", "all_kinds_1", "empty"])
def test_small_queries_show_the_same_tables_without_spark(spark: "SparkSession", place: Path, topic: str) -> None:
    query = f"SELECT * FROM {topic} ORDER BY partition, offset"  # noqa: S608 - ours
    expected = views(spark, place).frame(query)
    with closing(TopicQueries(directory_logs(str(place)))) as queries:
        answer = queries.answer(query, encode=lambda content: b64encode(content).decode())
        found = [row for batch in answer.batches for row in batch]
    assert answer.columns == expected.columns
    lines = (line for piece in results.lines(expected, "jsonl") for line in piece.splitlines())
    assert found == [json.loads(line) for line in lines]


def test_fields_of_json_have_the_types_that_spark_finds(spark: "SparkSession") -> None:
    values = [
        '{"b": 1, "a": null, "f": [1, 2.5], "g": {"y": true, "x": "t"}}',
        '{"b": 2.5, "c": "text", "d": [], "e": {}, "g": {"x": 1, "z": [{"n": 1}]}}',
        '{"c": 7, "h": [{"n": 1}, {"m": null}], "i": false}',
    ]
    names = {"BOOLEAN": "boolean", "BIGINT": "bigint", "DOUBLE": "double", "VARCHAR": "string"}

    def written(kind: Any) -> str:
        if isinstance(kind, list):
            return f"array<{written(kind[0])}>"
        if isinstance(kind, dict):
            return f"struct<{','.join(f'{name}:{written(one)}' for name, one in kind.items())}>"
        return names[kind]

    expected = infer_fields(spark, values)
    assert expected is not None
    assert written(inferred_types(values)) == expected.simpleString()
