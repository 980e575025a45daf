"""Topics as tables of SQL: each that a query names is a view, and of each only what the query needs is read."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from goqueue.errors import SubjectNotFound
from goqueue.spark.logs.backup import BackupLogs
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.port import LogSource
from goqueue.spark.queries.pruning import QuerySketch, ScanRequirement, narrowed
from goqueue.spark.queries.query import (
    QueryContext,
    check_query,
    check_reads_only,
    missing_relation,
    translated_refusals,
)
from goqueue.spark.queries.schemas import JsonFields
from goqueue.spark.queries.tables import (
    DATA_COLUMN,
    ERROR_COLUMN,
    MESSAGE_COLUMNS,
    RAW_COLUMNS,
    TEXT_COLUMNS,
    TableNames,
    field_columns,
    stored_columns,
    table_columns,
    typed_columns,
    unknown_topic,
    without_raw,
)
from goqueue.spark.reading.backup_place import backup_options
from goqueue.spark.reading.columns import schema_of
from goqueue.spark.reading.failure import describe_failure
from goqueue.spark.reading.options import tls_to_options
from goqueue.spark.reading.plan import EARLIEST, LATEST, PartitionRange, ReadBound, ReadPlan, TopicSelection, make_plan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ViewSchema:
    """The columns of a view."""

    fields: StructType | None = None
    is_typed: bool = False
    """True where the fields are those of a schema, which the source decodes itself."""

    @property
    def names(self) -> dict[str, str]:
        """Columns to the fields of values that they hold."""
        fields = self.fields.fieldNames() if self.fields else []
        return typed_columns(fields) if self.is_typed else field_columns(fields)

    @property
    def columns(self) -> list[str]:
        return table_columns([*self.names, *([ERROR_COLUMN] if self.is_typed else [])])

    @property
    def schema(self) -> StructType:
        stored = {one.name: one for one in from_arrow_schema(schema_of(MESSAGE_COLUMNS)).fields}
        types: dict[str, Any] = {name: one.dataType for name, one in stored.items()}
        types |= {name: stored[source].dataType for name, source in RAW_COLUMNS.items()}
        types |= dict.fromkeys(TEXT_COLUMNS, StringType())
        types[ERROR_COLUMN] = StringType()
        if self.fields is not None:
            types |= {column: self.fields[name].dataType for column, name in self.names.items()}
        return StructType([StructField(name, types[name]) for name in self.columns])

    def stored(self, needed: Iterable[str]) -> tuple[str, ...]:
        if not self.is_typed:
            return stored_columns(needed, self.names)
        wanted, names = set(needed), self.names
        decoded = [DATA_COLUMN] if not names.keys().isdisjoint(wanted) else []
        decoded += [ERROR_COLUMN] if ERROR_COLUMN in wanted else []
        return (*stored_columns(wanted - names.keys() - {ERROR_COLUMN}, ()), *decoded)

    def of(self, frame: "DataFrame", needed: Iterable[str] | None = None) -> "DataFrame":
        """Return the view over stored messages. A column that is not needed is null."""
        wanted = set(self.columns if needed is None else needed)
        parsed = [name for name in self.names if name in wanted]
        if parsed and self.is_typed:
            frame = frame.withColumnRenamed(DATA_COLUMN, "_json")
        elif parsed and self.fields is not None:
            schema = StructType([self.fields[self.names[column]] for column in parsed])
            frame = frame.withColumn("_json", F.from_json(text("value"), schema))
        types = self.schema
        return frame.select(
            *(
                (self._column(name) if name in wanted else F.lit(None).cast(types[name].dataType)).alias(name)
                for name in self.columns
            )
        )

    def _column(self, name: str) -> "Column":
        if name in TEXT_COLUMNS:
            return text(name)
        if name in self.names:
            return F.col("_json").getField(self.names[name])
        return F.col(RAW_COLUMNS.get(name, name))


def text(name: str) -> "Column":
    """Cast bytes to text; what is not UTF-8 becomes U+FFFD."""
    return F.make_valid_utf8(F.col(name).cast("string"))


def read_ranges(
    spark: "SparkSession",
    logs: LogSource,
    ranges: Iterable[PartitionRange],
    columns: Iterable[str],
    *,
    split_bytes: int | None = None,
    skips_damage: bool = False,
    schemas: str | None = None,
) -> "DataFrame":
    """Return a frame of exactly these messages."""
    chosen = list(ranges)
    reader = spark.read.format("goqueue").option("columns", ",".join(columns))
    if schemas is not None:
        reader = reader.option("schemas", schemas)
    reader = reader.option("assign", _by_topic({one.ref: None for one in chosen}))
    reader = reader.option("startingOffsets", _by_topic({one.ref: one.first for one in chosen}))
    reader = reader.option("endingOffsets", _by_topic({one.ref: one.end for one in chosen}))
    if split_bytes is not None:
        reader = reader.option("splitBytes", str(split_bytes))
    if skips_damage:
        reader = reader.option("failOnDataLoss", "false")
    return reader.options(**place_options(logs)).load()


def place_options(logs: LogSource) -> dict[str, str]:
    """Return the options of the data source that name these logs."""
    isolation = {"isolation": str(logs.isolation)}
    if isinstance(logs, BackupLogs):
        return backup_options(logs) | isolation
    if not isinstance(logs, BrokerLogs):
        return {"path": logs.name} | isolation
    token = {"goqueue.token": logs.token} if logs.token else {}
    return {"goqueue.url": logs.name} | isolation | token | tls_to_options(logs.tls)


def _by_topic(values: Mapping[tuple[str, int], int | None]) -> str:
    """Return `{"orders": {"0": 23}}`, or `{"orders": [0]}` where there are no values."""
    found: dict[str, Any] = {}
    for (topic, number), value in values.items():
        if value is None:
            found.setdefault(topic, []).append(number)
        else:
            found.setdefault(topic, {})[str(number)] = value
    return json.dumps(found)


@dataclass
class TopicViews:
    """The topics of logs, as tables in one session."""

    spark: "SparkSession"
    logs: LogSource
    fields: JsonFields = field(default_factory=JsonFields)
    start: ReadBound = EARLIEST
    end: ReadBound = LATEST
    skips_damage: bool = False
    schemas: str | None = None
    """Where the schemas of values come from, as the data source takes it; None: values are JSON, or bytes."""
    plans: dict[str, ReadPlan] = field(default_factory=dict)
    """What is read of each topic that was named, once `frame` has found out."""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """And which columns of its messages."""
    _shapes: dict[str, ViewSchema] = field(default_factory=dict)

    @property
    def plan(self) -> ReadPlan:
        """All that is read."""
        return ReadPlan(tuple(one for plan in self.plans.values() for one in plan.ranges))

    @cached_property
    def _names(self) -> TableNames:
        return TableNames(self.logs.topics())

    def frame(self, query: str, *, keeps_raw: bool = False, split_bytes: int | None = None) -> "DataFrame":
        """Return the result of a query. Only the topics that it names are looked up."""
        wanted = check_query(query)
        seen: dict[str, list[str]] = {}
        with translated_refusals(QueryContext(wanted, tuple(self._names.topics), seen)), self._passing(seen):
            check_reads_only(self.spark, wanted)
            needs = self._needs(wanted)
            for name, need in needs.items():
                self._create(name, need, split_bytes)
            result = self.spark.sql(wanted)
        if keeps_raw:
            return result
        kept = without_raw(RAW_COLUMNS, wanted)
        return result.drop(*(name for name in RAW_COLUMNS if name not in kept))

    @contextmanager
    def _passing(self, seen: dict[str, list[str]]) -> Iterator[None]:
        """Drop the views after the query is analysed, and note in `seen` the columns of those it names."""
        try:
            yield
        finally:
            for name, shape in self._shapes.items():
                seen[self._names.topic(name)] = shape.columns
                self.spark.catalog.dropTempView(name)

    def _needs(self, query: str) -> dict[str, ScanRequirement]:
        """Return the names of topics in a query, and what it needs of each."""
        named: dict[str, str] = {}
        with QuerySketch(self.spark) as sketch:
            while (name := self._missing(query)) is not None:
                if name in named:
                    raise unknown_topic(name, self._names.topics)
                named[name], frame = sketch.frame(self._shape(name).schema)
                frame.createOrReplaceTempView(_escaped(name))
            if getattr(self.spark, "_jsparkSession", None) is None:
                return {name: ScanRequirement(frozenset(self._shape(name).columns)) for name in named}
            found = sketch.needs(query) if named else {}
        return {name: found.get(sketched, ScanRequirement(frozenset())) for name, sketched in named.items()}

    def _missing(self, query: str) -> str | None:
        """Return a topic that the query names and that has no view yet."""
        try:
            self.spark.sql(query)
        except AnalysisException as error:
            name = missing_relation(error)
            if name is None or len(name) > 1 or name[0] not in self._names:
                raise
            return name[0]
        return None

    def _shape(self, name: str) -> ViewSchema:
        if name not in self._shapes:
            topic = self._names.topic(name)
            plan = make_plan(self.logs, TopicSelection((topic,)), self.start, self.end)
            self.plans[topic] = plan
            typed = self._typed_fields(topic)
            self._shapes[name] = ViewSchema(
                typed or self.fields.of(self.spark, self.logs, plan), is_typed=typed is not None
            )
        return self._shapes[name]

    def _typed_fields(self, topic: str) -> StructType | None:
        """Return the fields of the topic's schema; None where it has no schema of an object."""
        if self.schemas is None:
            return None
        reader = self.spark.read.format("goqueue").options(**place_options(self.logs)).option("subscribe", topic)
        try:
            found = reader.option("schemas", self.schemas).option("columns", DATA_COLUMN).load().schema
        except Exception as error:
            if isinstance(describe_failure(error), SubjectNotFound):
                return None
            raise
        data = found[DATA_COLUMN].dataType
        return data if isinstance(data, StructType) else None

    def _create(self, name: str, need: ScanRequirement, split_bytes: int | None) -> None:
        topic, shape = self._names.topic(name), self._shape(name)
        plan = self.plans[topic] = narrowed(self.logs, self.plans[topic], need)
        self.columns[topic] = shape.stored(need.columns)
        source = read_ranges(
            self.spark,
            self.logs,
            plan.ranges,
            self.columns[topic],
            split_bytes=split_bytes,
            skips_damage=self.skips_damage,
            schemas=self.schemas if shape.is_typed else None,
        )
        shape.of(source, need.columns).createOrReplaceTempView(_escaped(name))


def _escaped(name: str) -> str:
    """Escape a name for `createOrReplaceTempView`, which parses identifiers."""
    return f"`{name.replace('`', '``')}`" if not name.isidentifier() else name
