"""Queries over topics in this process, by DuckDB."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import duckdb
import pyarrow as pa

from goqueue.client import Nanoseconds
from goqueue.client.tls import TlsOptions
from goqueue.limits import SQL_MESSAGES_MAX
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import LogSource as LogSource  # noqa: PLC0414 - for users of this room
from goqueue.spark.queries.schemas import sample_values
from goqueue.spark.queries.tables import (
    MESSAGE_COLUMNS,
    RAW_COLUMNS,
    TableNames,
    field_columns,
    table_columns,
    without_raw,
)
from goqueue.spark.reading.plan import (
    EARLIEST,
    LATEST,
    ReadBound,
    ReadPlan,
    ReadPoint,
    TimePoint,
    TopicSelection,
    make_plan,
)
from goqueue.sql.fields import FieldType, column_sql, identifier, infer_fields
from goqueue.sql.query import check_query, describe_refusal, missing_table, named_tables, quote_columns
from goqueue.sql.scan import Reading, TopicTable
from goqueue.sql.values import Row, distinct_names, rows_of

SAMPLE_MESSAGES = 200
"""How many messages are looked at to find the fields of JSON values."""
_BATCH_ROWS = 8192
_SETTINGS: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "default_null_order": "nulls_first_on_asc_last_on_desc",  # as Spark
    "enable_external_access": "false",  # a query reads topics, and no files
    "python_enable_replacements": "false",  # nor the variables of this program
    "temp_directory": "",
}
_STREAMED = {"STREAMING_LIMIT", "PROJECTION", "FILTER"}


def broker_logs(url: str, key: str | None, tls: TlsOptions | None = None, tenant: str | None = None) -> LogSource:
    return BrokerLogs(url, key, tls=tls, tenant=tenant or "")


def directory_logs(path: str) -> LogSource:
    return DirectoryLogs.at(path)


def read_bound(position: str | int | Nanoseconds) -> ReadBound:
    """Return an end of what is read, as a flag gives it."""
    return ReadBound(TimePoint(position) if isinstance(position, Nanoseconds) else cast("ReadPoint", position))


@dataclass(frozen=True, slots=True)
class Answer:
    """The columns of a result, and its rows, many at a time, which are computed while they are taken."""

    columns: list[str]
    batches: Iterator[list[Row]]


@dataclass
class TopicQueries:
    """The topics of logs as tables. Close it at the end; the logs stay open."""

    logs: LogSource
    start: ReadBound = EARLIEST
    end: ReadBound = LATEST
    limit: int = SQL_MESSAGES_MAX
    skips_damage: bool = False
    columns: dict[str, list[str]] = field(default_factory=dict)
    """Of the topics that were named."""

    def __post_init__(self) -> None:
        self.reading = Reading(self.logs, self.limit, self.skips_damage)
        self._connection = duckdb.connect(config=_SETTINGS)
        self._connection.execute("SET TimeZone = 'UTC'")

    @property
    def common_columns(self) -> tuple[str, ...]:
        """The columns of every table besides the fields of JSON values."""
        return MESSAGE_COLUMNS

    def close(self) -> None:
        self._connection.close()

    @cached_property
    def _names(self) -> TableNames:
        return TableNames(self.logs.topics())

    def answer(self, query: str, rows: int | None = None, *, encode: Callable[[bytes], str]) -> Answer:
        """Return the result of a query, or its first rows; `encode` makes text of bytes.

        Only the topics that the query names are looked up.
        """
        with self._refusing(query):
            written = self._check(query)
            found = self._bound(written)
            self.reading.counts_planned = not self._ends_early(written, is_cut=rows is not None)
            reader = (found if rows is None else found.limit(rows)).to_arrow_reader(_BATCH_ROWS)
        names = distinct_names(reader.schema.names)
        return Answer(names, self._batches(reader, names, encode, query))

    def _check(self, query: str) -> str:
        """Return a query as DuckDB takes it. Fields may be named as its keywords: Spark takes those as they are."""
        try:
            return check_query(query, self._connection)
        except duckdb.ParserException:
            topics = [self._names.topic(name) for name in named_tables(query) if name in self._names]
            fields = {field.lower() for topic in topics for field in field_columns(self._look(topic)[1])}
            with suppress(duckdb.Error):
                return check_query(quote_columns(query, fields), self._connection)
            raise

    def tables(self) -> Iterator[tuple[str, str, int, list[str]]]:
        """Yield each topic of users, its name in a query, how many messages it has, and its columns of JSON fields."""
        for topic in self._names.topics:
            if not topic.startswith("__"):
                plan, fields = self._look(topic)
                yield topic, self._names.name_of(topic), plan.messages, list(field_columns(fields))

    def _bound(self, query: str) -> duckdb.DuckDBPyRelation:
        """Give the query a table for each topic that it names."""
        created: set[str] = set()
        while True:
            try:
                return self._connection.sql(query)
            except duckdb.CatalogException as error:
                name = missing_table(error)
                if name is None or name not in self._names or name in created:
                    raise
            self._create(name, query)
            created.add(name)

    def _create(self, name: str, query: str) -> None:
        topic = self._names.topic(name)
        plan, fields = self._look(topic)
        source = f"messages of {name}"
        names = field_columns(fields)
        columns = without_raw(table_columns(names), query)
        self._connection.register(source, TopicTable(topic, plan, self.reading))
        made = ", ".join(_column(column, names, fields) for column in columns)
        parsed = f"SELECT *, CASE WHEN json_valid(value) THEN value END AS _json FROM {identifier(source)}"  # noqa: S608
        self._connection.execute(f"CREATE TEMP VIEW {identifier(name)} AS SELECT {made} FROM ({parsed})")  # noqa: S608
        self.columns[topic] = columns

    def _look(self, topic: str) -> tuple[ReadPlan, dict[str, FieldType]]:
        plan = make_plan(self.logs, TopicSelection((topic,)), self.start, self.end)
        return plan, infer_fields(sample_values(self.logs, plan, SAMPLE_MESSAGES))

    def _ends_early(self, query: str, *, is_cut: bool) -> bool:
        """Test if a query passes rows on as it reads them, and needs a limited number of them."""
        with suppress(duckdb.Error):
            ((_, text),) = self._connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
            (node,) = json.loads(text)
            while node["name"] in _STREAMED and len(node["children"]) == 1:
                is_cut = is_cut or node["name"] == "STREAMING_LIMIT"
                (node,) = node["children"]
            return is_cut and not node["children"]
        return False

    def _batches(
        self, reader: pa.RecordBatchReader, names: list[str], encode: Callable[[bytes], str], query: str
    ) -> Iterator[list[Row]]:
        with self._refusing(query):
            for batch in reader:
                yield rows_of(batch, names, encode)

    @contextmanager
    def _refusing(self, query: str) -> Iterator[None]:
        """Raise what ended a scan in place of DuckDB's error about it, and any other of its errors as one of ours."""
        try:
            yield
        except duckdb.Error as error:
            if self.reading.failure is not None:
                raise self.reading.failure from None
            topics = tuple(self._names.topics)
            raise describe_refusal(error, query, topics, self.columns) from None
        except (pa.ArrowException, OSError) as error:
            if self.reading.failure is not None:
                raise self.reading.failure from None
            raise describe_refusal(duckdb.Error(str(error)), query, (), {}) from None


def _column(name: str, names: Mapping[str, str], fields: Mapping[str, FieldType]) -> str:
    """Return the expression of a column of a view."""
    if name in names:
        return f"{column_sql(names[name], fields[names[name]])} AS {identifier(name)}"
    assert name in MESSAGE_COLUMNS or name in RAW_COLUMNS
    return identifier(name)
