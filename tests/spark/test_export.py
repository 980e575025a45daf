"""Topics as files: what stands in them, where they are, and what is never written over."""

import csv
import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.parquet as pq
import pytest

from goqueue.errors import PathInvalid, RequestInvalid
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.queries.schemas import JsonFields
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.spark.transfer.export import EXPORTED, ExportRequest, ExportResult, export
from tests.spark import naive
from tests.spark.programs import Inspect
from tests.spark.stock import Sent, Stock, damage, flip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_SECONDS = 24 * 3600


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics over three days, and one of JSON."""
    path = tmp_path_factory.mktemp("export") / "data"
    with Stock(path, segment_bytes=4096) as stock:
        stock.create("orders", 2).create("other").create("json").create("empty")
        for _ in range(3):
            stock.fill("orders", 30).fill("orders", 15, partition=1).fill("other", 10)
            stock.clock.advance(DAY_SECONDS)
        stock.append("json", *(Sent(json.dumps({"n": n, "day": "x"}).encode(), b"k") for n in range(5)))
    return path


def write(spark: "SparkSession", place: Path, wanted: ExportRequest, *topics: str) -> ExportResult:
    logs = DirectoryLogs.at(str(place))
    return export(spark, logs, make_plan(logs, TopicSelection(topics)), wanted)


def stored(place: Path, topic: str, partitions: int = 1) -> list[naive.Row]:
    return [row for number in range(partitions) for row in naive.rows(place, topic, number)]


def parquet(directory: Path) -> list[dict[str, Any]]:
    """All rows of all files, with what their directories say."""
    rows = []
    for file in sorted(directory.rglob("part-*.parquet")):
        named = dict(part.split("=", 1) for part in file.relative_to(directory).parts[:-1])
        rows += [{**row, **named} for row in pq.ParquetFile(file).read().to_pylist()]
    return rows


def comparable(rows: list[Any], *names: str) -> Counter[str]:
    return Counter(repr([_plain(row[name]) for name in names]) for row in rows)


def _plain(value: Any) -> Any:
    """Times in a time zone without a name: each reader has another one for UTC."""
    return value.isoformat() if isinstance(value, datetime) else value


def test_parquet_has_every_message_below_its_day_and_topic(spark: "SparkSession", place: Path, tmp_path: Path) -> None:
    written = write(spark, place, ExportRequest(str(tmp_path / "lake")), "orders", "other")
    expected = stored(place, "orders", 2) + stored(place, "other")
    found = parquet(tmp_path / "lake")
    for row in expected:
        row["day"] = row["timestamp"].strftime("%Y-%m-%d")
    names = ("day", "topic", "partition", "offset", "timestamp", "key", "value", "headers", "priority")
    assert comparable(found, *names) == comparable(expected, *names)
    files = list((tmp_path / "lake").rglob("part-*"))
    assert written == ExportResult(len(expected), sum(one.stat().st_size for one in files), len(files))
    assert len({row["day"] for row in found}) == 3
    assert sorted(one.name for one in (tmp_path / "lake").iterdir() if "=" not in one.name) == ["_SUCCESS"]


def test_spark_reads_what_was_written(spark: "SparkSession", place: Path, tmp_path: Path) -> None:
    write(spark, place, ExportRequest(str(tmp_path / "lake"), partition_by=("topic", "hour", "partition")), "orders")
    frame = spark.read.parquet(str(tmp_path / "lake"))
    found = frame.groupBy("partition").count().collect()
    assert {row.partition: row["count"] for row in found} == {
        number: len(naive.rows(place, "orders", number)) for number in range(2)
    }
    assert set(frame.columns) == {*EXPORTED, "hour"}


@pytest.mark.parametrize("form", ["json", "csv"])
def test_lines_of_text_have_every_message(spark: "SparkSession", place: Path, tmp_path: Path, form: str) -> None:
    wanted = ExportRequest(str(tmp_path / "out"), form, partition_by=())  # type: ignore[arg-type]
    written = write(spark, place, wanted, "other")
    found: list[Any] = []
    for file in (tmp_path / "out").glob("part-*"):
        with file.open(encoding="utf-8", newline="") as lines:
            found += map(json.loads, lines) if form == "json" else csv.DictReader(lines)
    expected = stored(place, "other")
    assert written.rows == len(found) == len(expected)
    assert Counter(str(row["offset"]) for row in found) == Counter(str(row["offset"]) for row in expected)
    absent = None if form == "json" else ""
    texts = [absent if row["value"] is None else row["value"].decode(errors="replace") for row in expected]
    assert Counter(row["value"] for row in found) == Counter(texts)
    assert Counter(row["timestamp"] for row in found) == Counter(
        row["timestamp"].strftime("%Y-%m-%dT%H:%M:%S.%fZ") for row in expected
    )


def test_fields_of_json_are_columns_in_place_of_the_value(spark: "SparkSession", place: Path, tmp_path: Path) -> None:
    wanted = ExportRequest(
        str(tmp_path / "out"), columns=("value", "offset"), fields=JsonFields(), partition_by=("day",)
    )
    written = write(spark, place, wanted, "json")
    found = parquet(tmp_path / "out")
    assert {(row["offset"], row["n"], row["json_day"]) for row in found} == {(n, n, "x") for n in range(5)}
    assert found[0].keys() == {"offset", "n", "json_day", "day"}
    assert (written.rows, written.files) == (5, len(list((tmp_path / "out").rglob("part-*.parquet"))))


def test_an_empty_topic_is_an_empty_export(spark: "SparkSession", place: Path, tmp_path: Path) -> None:
    assert write(spark, place, ExportRequest(str(tmp_path / "out")), "empty") == ExportResult(0, 0, 0)
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["_SUCCESS"]


def test_what_is_there_is_refused_and_replaced_when_asked_for(
    spark: "SparkSession", place: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    for form in ("parquet", "json"):
        write(spark, place, ExportRequest(str(target), form, overwrites=True), "orders")
        with pytest.raises(PathInvalid, match="is not empty"):
            write(spark, place, ExportRequest(str(target), form), "other")
    write(spark, place, ExportRequest(str(target), overwrites=True), "other")
    assert len(parquet(target)) == len(stored(place, "other"))
    assert list(target.rglob("*.json")) == []


def test_nothing_but_an_export_is_ever_removed(spark: "SparkSession", place: Path, tmp_path: Path) -> None:
    precious = tmp_path / "out" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("mine")
    with pytest.raises(PathInvalid, match="holds 'precious"):
        write(spark, place, ExportRequest(str(tmp_path / "out"), overwrites=True), "other")
    assert precious.read_text() == "mine"


def test_an_export_does_not_go_into_the_data_directory(spark: "SparkSession", place: Path) -> None:
    for target in (place, place / "logs" / "new"):
        with pytest.raises(PathInvalid, match="data directory"):
            write(spark, place, ExportRequest(str(target), overwrites=True), "other")


def test_an_export_that_fails_leaves_nothing_and_what_was_there_before(spark: "SparkSession", tmp_path: Path) -> None:
    place = tmp_path / "data"
    with Stock(place) as stock:
        stock.create("orders").fill("orders", 200)
    target = tmp_path / "out"
    write(spark, place, ExportRequest(str(target)), "orders")
    before = comparable(parquet(target), "offset")
    broken = stock.segments("orders")[1]
    flip(broken, broken.stat().st_size // 2, 0xFF)
    with pytest.raises(Exception, match="damaged"):
        write(spark, place, ExportRequest(str(target), overwrites=True), "orders")
    assert comparable(parquet(target), "offset") == before
    with pytest.raises(Exception, match="damaged"):
        write(spark, place, ExportRequest(str(tmp_path / "new")), "orders")
    assert not (tmp_path / "new").exists()
    assert [one for one in target.iterdir() if one.name.startswith("_temporary")] == []


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_an_export_that_skips_damage_has_all_healthy_messages(
    spark: "SparkSession", tmp_path: Path, form: Literal["parquet", "json"]
) -> None:
    place = tmp_path / "data"
    with Stock(place) as stock:
        stock.create("orders").fill("orders", 50)
    before = stored(place, "orders")
    damage(place, before[20])
    wanted = ExportRequest(str(tmp_path / "out"), form, skips_damage=True)
    assert write(spark, place, wanted, "orders").rows == len(before) - 1


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (ExportRequest("x", columns=("valu",)), "'valu' is no column"),
        (ExportRequest("x", partition_by=("month",)), "'month'"),
        (ExportRequest("x", compression="rar"), "parquet has no compression 'rar'"),
        (ExportRequest("x", columns=("topic",)), "no column is left"),
    ],
)
def test_wrong_options_are_reported(spark: "SparkSession", place: Path, wanted: ExportRequest, sentence: str) -> None:
    with pytest.raises(RequestInvalid, match=sentence):
        write(spark, place, wanted, "other")


def test_the_command_says_what_it_has_written(inspect_spark: Inspect, place: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    found = inspect_spark(
        "export", str(place), "oth*", "--out", str(target), "-o", "json", "--columns", "value,offset", "--from", "5"
    )
    assert found.returncode == 0, found.stderr
    (row,) = json.loads(found.stdout)
    expected = naive.rows(place, "other", first=5)
    assert (row["to"], row["format"], row["rows"]) == (str(target), "parquet", len(expected))
    assert {one["offset"] for one in parquet(target)} == {one["offset"] for one in expected}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "--out"),
        (("--out", "x", "--partition-by", "month"), "'month'"),
        (("--out", "x", "--columns", ","), "names nothing"),
        (("--out", "x", "--format", "xml"), "xml"),
    ],
)
def test_a_wrong_call_is_told_before_spark_starts(
    inspect: Inspect, place: Path, words: tuple[str, ...], sentence: str
) -> None:
    found = inspect("export", str(place), "other", *words)
    assert found.returncode == 2
    assert sentence in found.stderr
