"""Topics as tables of SQL: each that a query names is a view, and of each only what the query needs is read."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from goqueue.errors import RequestInvalid
from goqueue.spark.columns import schema_of
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.port import Logs
from goqueue.spark.plan import Plan, Range, Selection, make_plan
from goqueue.spark.points import EARLIEST, LATEST, Bound
from goqueue.spark.queries.pruning import Need, Sketch
from goqueue.spark.queries.query import check_query, check_reads_only, explained, missing_relation, unknown_topic
from goqueue.spark.queries.schemas import JsonFields, column_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MESSAGE = ("partition", "offset", "timestamp", "key", "value", "priority", "headers", "topic")
"""The columns of every view, in the order of `SELECT *`; between value and priority stand the fields of JSON."""
RAW = {"raw_key": "key", "raw_value": "value"}
"""Columns that have as bytes what key and value have as text."""
_TEXTS = ("key", "value")
_AT_FIELDS = MESSAGE.index("priority")


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a view."""

    fields: StructType | None = None

    @property
    def names(self) -> dict[str, str]:
        """Columns to the fields of JSON that they hold."""
        return column_names(self.fields.fieldNames() if self.fields else (), (*MESSAGE, *RAW))

    @property
    def columns(self) -> list[str]:
        return [*MESSAGE[:_AT_FIELDS], *self.names, *MESSAGE[_AT_FIELDS:], *RAW]

    @property
    def schema(self) -> StructType:
        stored = {one.name: one for one in from_arrow_schema(schema_of(MESSAGE)).fields}
        types: dict[str, Any] = {name: one.dataType for name, one in stored.items()}
        types |= {name: stored[source].dataType for name, source in RAW.items()}
        types |= dict.fromkeys(_TEXTS, StringType())
        if self.fields is not None:
            types |= {column: self.fields[name].dataType for column, name in self.names.items()}
        return StructType([StructField(name, types[name]) for name in self.columns])

    def stored(self, needed: Iterable[str]) -> tuple[str, ...]:
        """The columns of messages that these are made of. One is read in any case, since rows must be counted."""
        made = {RAW.get(name, "value" if name in self.names else name) for name in needed}
        return tuple(name for name in MESSAGE if name in made) or ("offset",)

    def of(self, frame: "DataFrame", needed: Iterable[str] | None = None) -> "DataFrame":
        """The view over stored messages. A column that is not needed is there, and null."""
        wanted = set(self.columns if needed is None else needed)
        parsed = [name for name in self.names if name in wanted]
        if parsed and self.fields is not None:
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
        if name in _TEXTS:
            return text(name)
        if name in self.names:
            return F.col("_json").getField(self.names[name])
        return F.col(RAW.get(name, name))


def text(name: str) -> "Column":
    """Bytes as text; what is not UTF-8 becomes U+FFFD, as everywhere where bytes are shown."""
    return F.make_valid_utf8(F.col(name).cast("string"))


def read_ranges(
    spark: "SparkSession",
    logs: Logs,
    ranges: Iterable[Range],
    columns: Iterable[str],
    *,
    split_bytes: int | None = None,
    skips_damage: bool = False,
) -> "DataFrame":
    """Exactly these messages of one or more topics."""
    chosen = list(ranges)
    reader = spark.read.format("goqueue").option("columns", ",".join(columns))
    reader = reader.option("assign", _by_topic({one.place: None for one in chosen}))
    reader = reader.option("startingOffsets", _by_topic({one.place: one.first for one in chosen}))
    reader = reader.option("endingOffsets", _by_topic({one.place: one.end for one in chosen}))
    if split_bytes is not None:
        reader = reader.option("splitBytes", str(split_bytes))
    if skips_damage:
        reader = reader.option("failOnDataLoss", "false")
    return reader.options(**place_options(logs)).load()


def place_options(logs: Logs) -> dict[str, str]:
    """Where the data source finds these logs."""
    isolation = {"isolation": str(logs.isolation)}
    if not isinstance(logs, BrokerLogs):
        return {"path": logs.name} | isolation
    return {"goqueue.url": logs.name} | isolation | ({"goqueue.token": logs.token} if logs.token else {})


def _by_topic(values: Mapping[tuple[str, int], int | None]) -> str:
    """`{"orders": {"0": 23}}`, or `{"orders": [0]}` where there are no values."""
    found: dict[str, Any] = {}
    for (topic, number), value in values.items():
        if value is None:
            found.setdefault(topic, []).append(number)
        else:
            found.setdefault(topic, {})[str(number)] = value
    return json.dumps(found)


@dataclass
class Views:
    """The topics of logs, as tables in one session."""

    spark: "SparkSession"
    logs: Logs
    fields: JsonFields = field(default_factory=JsonFields)
    start: Bound = EARLIEST
    end: Bound = LATEST
    skips_damage: bool = False
    plans: dict[str, Plan] = field(default_factory=dict)
    """What is read of each topic that was named, once `frame` has found out."""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """And which columns of its messages."""
    _shapes: dict[str, Shape] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """All that is read."""
        return Plan(tuple(one for plan in self.plans.values() for one in plan.ranges))

    @cached_property
    def _topics(self) -> dict[str, tuple[int, ...]]:
        return self.logs.topics()

    @cached_property
    def _plain(self) -> dict[str, list[str]]:
        """Topics by what they are called without quotes: small letters, and `_` for `-` and `.`."""
        found: dict[str, list[str]] = {}
        for topic in self._topics:
            for name in dict.fromkeys((topic.lower(), _unquoted(topic))):
                found.setdefault(name, []).append(topic)
        return found

    def frame(self, query: str, *, keeps_raw: bool = False, split_bytes: int | None = None) -> "DataFrame":
        """The result of a query. Topics are looked up as it names them: there may be ten thousand others."""
        wanted = check_query(query)
        with explained(self._topics), self._passing():
            check_reads_only(self.spark, wanted)
            needs = self._needs(wanted)
            for name, need in needs.items():
                self._create(name, need, split_bytes)
            result = self.spark.sql(wanted)
        if keeps_raw:
            return result
        unnamed = [name for name in RAW if name not in wanted.lower()]  # they come from a `*`, and repeat what is there
        return result.drop(*unnamed)

    @contextmanager
    def _passing(self) -> Iterator[None]:
        """The views are there while the query is analysed, and leave the session as it was."""
        try:
            yield
        finally:
            for name in self._shapes:
                self.spark.catalog.dropTempView(name)

    def _needs(self, query: str) -> dict[str, Need]:
        """The names of topics in a query, and what it needs of each."""
        named: dict[str, str] = {}
        with Sketch(self.spark) as sketch:
            while (name := self._missing(query)) is not None:
                if name in named:
                    raise unknown_topic(name, self._topics)
                named[name], frame = sketch.frame(self._shape(name).schema)
                frame.createOrReplaceTempView(_escaped(name))
            if getattr(self.spark, "_jsparkSession", None) is None:
                return {name: Need(frozenset(self._shape(name).columns)) for name in named}
            found = sketch.needs(query) if named else {}
        return {name: found.get(sketched, Need(frozenset())) for name, sketched in named.items()}

    def _missing(self, query: str) -> str | None:
        """A topic that the query names, and that is no view yet."""
        try:
            self.spark.sql(query)
        except AnalysisException as error:
            name = missing_relation(error)
            if name is None or len(name) > 1 or not self._is_topic(name[0]):
                raise
            return name[0]
        return None

    def _is_topic(self, name: str) -> bool:
        return name.lower() in self._plain

    def _topic(self, name: str) -> str:
        """The topic that is meant by a name in a query."""
        alike = self._plain.get(name.lower(), [])
        if len([topic for topic in alike if topic.lower() == name.lower()] or alike) > 1:
            raise RequestInvalid(f"{name} may mean {' or '.join(alike)}, which SQL cannot tell apart")
        exact = [topic for topic in alike if topic.lower() == name.lower()]
        return (exact or alike)[0]

    def _shape(self, name: str) -> Shape:
        if name not in self._shapes:
            topic = self._topic(name)
            plan = make_plan(self.logs, Selection((topic,)), self.start, self.end)
            self.plans[topic] = plan
            self._shapes[name] = Shape(self.fields.of(self.spark, self.logs, plan))
        return self._shapes[name]

    def _create(self, name: str, need: Need, split_bytes: int | None) -> None:
        topic, shape = self._topic(name), self._shape(name)
        plan = self.plans[topic] = self._narrowed(self.plans[topic], need)
        self.columns[topic] = shape.stored(need.columns)
        source = read_ranges(
            self.spark,
            self.logs,
            plan.ranges,
            self.columns[topic],
            split_bytes=split_bytes,
            skips_damage=self.skips_damage,
        )
        shape.of(source, need.columns).createOrReplaceTempView(_escaped(name))

    def _narrowed(self, plan: Plan, need: Need) -> Plan:
        """What is left of a plan where a query asks for offsets, times or partitions. One range stays in any case."""
        low, high = need.partitions.low or 0, need.partitions.high
        kept = [one for one in plan.ranges if low <= one.place[1] and (high is None or one.place[1] <= high)]
        ranges = []
        for one in kept or plan.ranges[:1]:
            first, end = one.first, one.end
            for start, stop in need.bounds:
                first = max(first, Bound(start).offset(self.logs, one.place, one.view))
                end = min(end, Bound(stop).offset(self.logs, one.place, one.view))
            first = min(first, one.end)
            ranges.append(Range(one.place, first, max(first, end), one.view))
        return Plan(tuple(ranges))


def _unquoted(topic: str) -> str:
    return topic.lower().replace("-", "_").replace(".", "_")


def _escaped(name: str) -> str:
    """As `createOrReplaceTempView` takes it, which reads identifiers."""
    return f"`{name.replace('`', '``')}`" if not name.isidentifier() else name
