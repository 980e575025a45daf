"""Topics as files: Parquet, JSON lines or CSV, in directories by day and topic.

Parquet for this machine is written from Arrow, everything else by Spark's own writers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812 - the usual name

from goqueue.errors import RequestInvalid
from goqueue.quantities import quoted
from goqueue.spark.logs.port import LogSource
from goqueue.spark.queries.results import CSV_OPTIONS, TIMES
from goqueue.spark.queries.schemas import NO_FIELDS, JsonFields
from goqueue.spark.queries.tables import column_names
from goqueue.spark.queries.views import read_ranges
from goqueue.spark.reading.columns import COLUMNS
from goqueue.spark.reading.plan import ReadPlan
from goqueue.spark.transfer.files import FileTarget, ParquetLayout, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["parquet", "json", "csv"]
PARTITIONS = ("day", "hour", "topic", "partition")
"""By what files can be in directories; days and hours are of UTC."""
EXPORTED = ("key", "value", "headers", "topic", "partition", "offset", "timestamp", "priority")
COMPRESSIONS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none"),
    "json": ("gzip", "zstd", "bzip2", "none"),
    "csv": ("gzip", "zstd", "bzip2", "none"),
}

_WRITERS = 64  # files that one task of Spark keeps open before it sorts its rows


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The options of an export."""

    to: str
    format: Format = "parquet"
    columns: tuple[str, ...] = EXPORTED
    partition_by: tuple[str, ...] = ("day", "topic")
    compression: str | None = None
    """None is the usual one: zstd for Parquet, none for text."""
    overwrites: bool = False
    fields: JsonFields = NO_FIELDS
    skips_damage: bool = False

    @property
    def chosen_compression(self) -> str:
        return self.compression or ("zstd" if self.format == "parquet" else "none")

    @property
    def stored(self) -> tuple[str, ...]:
        """The columns in the files: what names a directory is not repeated."""
        return tuple(name for name in self.columns if name not in self.partition_by)


@dataclass(slots=True)
class ExportResult:
    """The size of a finished export."""

    rows: int = 0
    bytes: int | None = 0
    """None where only the cluster could tell."""
    files: int | None = 0


def export(spark: "SparkSession", logs: LogSource, plan: ReadPlan, wanted: ExportRequest) -> ExportResult:
    """Write all messages of a plan."""
    check_export(wanted)
    target = FileTarget.of(spark, wanted.to)
    target.check_free(overwrites=wanted.overwrites, logs=logs)
    if target.local is not None and wanted.format == "parquet" and wanted.fields.is_none:
        layout = ParquetLayout(wanted.stored, wanted.partition_by, wanted.chosen_compression, not wanted.skips_damage)
        parts = write_parquet(spark, logs, plan.splits(logs), layout, target.local, overwrites=wanted.overwrites)
        return ExportResult(sum(part.rows for part in parts), sum(part.bytes for part in parts), len(parts))
    return _through_spark(spark, _frame(spark, logs, plan, wanted), wanted, target)


def check_export(wanted: ExportRequest) -> None:
    """Report all wrong options at once."""
    problems = [
        f"{quoted(name)} is no column: there are {', '.join(COLUMNS)}" for name in wanted.columns if name not in COLUMNS
    ]
    problems += [
        f"files cannot be in directories by {quoted(name)}: there are {', '.join(PARTITIONS)}"
        for name in wanted.partition_by
        if name not in PARTITIONS
    ]
    known = COMPRESSIONS[wanted.format]
    if wanted.chosen_compression not in known:
        problems.append(
            f"{wanted.format} has no compression {quoted(wanted.chosen_compression)}: there are {', '.join(known)}"
        )
    if not wanted.stored and not problems:
        problems.append("no column is left for the files: all of them are directories")
    if problems:
        raise RequestInvalid("; ".join(problems), problems=problems)


def _frame(spark: "SparkSession", logs: LogSource, plan: ReadPlan, wanted: ExportRequest) -> "DataFrame":
    """Return the rows of the files, followed by the columns that name directories."""
    names = tuple(dict.fromkeys((*wanted.stored, *_made_of(wanted))))
    fields = wanted.fields.of(spark, logs, plan)
    if fields is None:
        frame = read_ranges(spark, logs, plan.ranges, names, skips_damage=wanted.skips_damage)
        made = [text_for(name, wanted.format) for name in wanted.stored]
    else:
        columns = dict.fromkeys((*names, "value"))
        frame = read_ranges(spark, logs, plan.ranges, columns, skips_damage=wanted.skips_damage)
        frame = frame.withColumn("_json", F.from_json(F.col("value").cast("string"), fields))
        found = column_names(fields.fieldNames(), (*COLUMNS, *PARTITIONS))
        made = [text_for(name, wanted.format) for name in wanted.stored if name != "value"]
        made += [F.col("_json").getField(name).alias(column) for column, name in found.items()]
    return frame.select(*made, *_directories(wanted.partition_by))


def _made_of(wanted: ExportRequest) -> Sequence[str]:
    sources = {"day": "timestamp", "hour": "timestamp"}
    return [sources.get(name, name) for name in wanted.partition_by]


def _directories(names: Sequence[str]) -> list[Any]:
    return [(DIRECTORIES[name]() if name in DIRECTORIES else F.col(name)).alias(name) for name in names]


DIRECTORIES: dict[str, Callable[[], Any]] = {
    "day": lambda: F.to_date("timestamp"),
    "hour": lambda: F.date_format("timestamp", "HH"),
}
"""The names of directories that are no columns of a message."""


def text_for(name: str, form: str) -> Any:
    """Return a column for a file; bytes become text in text files, with U+FFFD for what is not UTF-8."""
    column = F.col(f"`{name}`")
    if form == "parquet":
        return column
    if name in ("key", "value"):
        return F.make_valid_utf8(column.cast("string")).alias(name)
    if name == "headers" and form == "csv":
        return F.to_json(column).alias(name)
    return column


def _through_spark(
    spark: "SparkSession", frame: "DataFrame", wanted: ExportRequest, target: FileTarget
) -> ExportResult:
    from pyspark.sql import Observation  # noqa: PLC0415

    counted = Observation("export")
    frame = frame.observe(counted, F.count(F.lit(1)).alias("rows"))
    before = spark.conf.get("spark.sql.maxConcurrentOutputFileWriters")
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(_WRITERS))
    try:
        writer = frame.write.mode("overwrite" if wanted.overwrites else "append")
        writer = writer.option("compression", wanted.chosen_compression)
        for name, value in file_options(wanted.format).items():
            writer = writer.option(name, value)
        if wanted.partition_by:
            writer = writer.partitionBy(*wanted.partition_by)
        writer.format(wanted.format).save(wanted.to)
    finally:
        spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(before))
    files, size = target.measure()
    return ExportResult(int(counted.get["rows"]), size, files)


def file_options(form: str) -> dict[str, str]:
    """Return the options of Spark's writers for a format."""
    if form == "json":
        return {**TIMES, "ignoreNullFields": "false"}
    if form == "csv":
        return {**TIMES, "header": "true", **CSV_OPTIONS}
    return {}
