"""`format("goqueue")`: what Spark asks of a data source, handed on to the rooms that know the answers."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from goqueue.errors import RequestInvalid
from goqueue.quantities import quoted
from goqueue.spark.logs.splits import Split
from goqueue.spark.reading.columns import (
    COLUMNS,
    DEFAULT_COLUMNS,
    DELAYED_COLUMNS,
    DELAYED_ONLY_COLUMNS,
    TYPED_COLUMNS,
    schema_of,
)
from goqueue.spark.reading.options import ReadOptions, read_options
from goqueue.spark.reading.plan import EARLIEST, LATEST, make_plan
from goqueue.spark.reading.tasks import Extract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

    from goqueue.spark.sink.options import WriteOptions
    from goqueue.spark.stream.reader import GoQueueStreamReader
    from goqueue.spark.typed.columns import TypedPart

NAME = "goqueue"
_DATA_COLUMNS = ("data", "key_data")
"""Those whose types are the schema's."""
TYPED_NAMES = frozenset(TYPED_COLUMNS)
_UNCUT = 2**63  # for columns that cost each split to read all that is behind it as well


class SplitPartition(InputPartition):
    """The split of one task; None for the single task that Spark starts where there is nothing to read."""

    def __init__(self, value: Split | None) -> None:
        super().__init__(value)

    @property
    def split(self) -> Split | None:
        found: Split | None = self.value
        return found


class GoQueueSource(DataSource):
    """Batch and streaming reads of topics, and writes into them."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    def schema(self) -> StructType:
        options = read_options(self.options)
        names = _columns(options)
        typed = _typed_types(_typed_parts(options, dict.fromkeys(names)))
        plain = schema_of(name for name in names if name not in typed)
        return from_arrow_schema(
            pa.schema([pa.field(name, typed[name]) if name in typed else plain.field(name) for name in names])
        )

    def reader(self, schema: StructType) -> "GoQueueReader":
        options = read_options(self.options)
        return GoQueueReader(options, *_asked_for(schema, options))

    # What only some jobs need is loaded by these.

    def streamReader(self, schema: StructType) -> "GoQueueStreamReader":  # noqa: N802
        from goqueue.spark.stream.reader import GoQueueStreamReader, check_stream  # noqa: PLC0415

        check_stream(self.options)
        options = read_options(self.options)
        return GoQueueStreamReader(options, *_asked_for(schema, options), SplitPartition)

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceArrowWriter":
        from goqueue.spark.sink.transactional import TransactionalWriter  # noqa: PLC0415
        from goqueue.spark.sink.writer import GoQueueWriter  # noqa: PLC0415

        options = self._checked_write(schema, overwrite=overwrite, is_stream=False)
        return GoQueueWriter(options) if options.transactional_id is None else TransactionalWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamArrowWriter":  # noqa: N802
        from goqueue.spark.sink.transactional import TransactionalStreamWriter  # noqa: PLC0415
        from goqueue.spark.sink.writer import GoQueueStreamWriter  # noqa: PLC0415

        options = self._checked_write(schema, overwrite=overwrite, is_stream=True)
        is_plain = options.transactional_id is None
        return GoQueueStreamWriter(options) if is_plain else TransactionalStreamWriter(options)

    def _checked_write(self, schema: StructType, *, overwrite: bool, is_stream: bool) -> "WriteOptions":
        from goqueue.spark.sink.options import check_append, check_columns, write_options  # noqa: PLC0415

        check_append(overwrite=overwrite)
        options = write_options(self.options, is_stream=is_stream)
        check_columns(schema, names_topic=options.topic is not None)
        return options


class GoQueueReader(DataSourceReader):
    """A batch read: planned once on the driver, read by executors."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...], typed: "tuple[TypedPart, ...]") -> None:
        self._options = options
        self._logs = options.logs()
        self._extract = Extract(self._logs, columns, fails_on_loss=options.fails_on_loss, typed=typed)

    def partitions(self) -> list[SplitPartition]:
        options = self._options
        plan = make_plan(
            self._logs,
            options.selection,
            options.start or EARLIEST,
            options.end or LATEST,
            is_strict=options.fails_on_loss,
        )
        size = options.split_bytes or (_UNCUT if self._extract.reads_delayed_states else None)
        splits = plan.splits(self._logs, split_bytes=size, least=options.partitions_least)
        return [SplitPartition(split) for split in splits] or [SplitPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            yield from self._extract.batches(partition.value)


def register(spark: "SparkSession") -> None:
    """Make `format("goqueue")` known to a session that has not found it by itself."""
    spark.dataSource.register(GoQueueSource)


def _columns(options: ReadOptions) -> tuple[str, ...]:
    if options.columns is None:
        usual = (*DEFAULT_COLUMNS, *DELAYED_ONLY_COLUMNS) if options.is_delayed else DEFAULT_COLUMNS
        if options.typed is not None:
            at = usual.index("value")
            usual = (*usual[:at], *options.typed.default_columns, *usual[at + 1 :])
        return (*usual, "headers") if options.has_headers else usual
    for name in options.columns:
        if name not in _known(options):
            raise RequestInvalid(f"columns: {quoted(name)} is no column", hint=_hint(name, options))
        if options.columns.count(name) > 1:
            raise RequestInvalid(f"columns: {quoted(name)} is named twice")
    return options.columns


def _known(options: ReadOptions) -> tuple[str, ...]:
    return (*(DELAYED_COLUMNS if options.is_delayed else COLUMNS), *(TYPED_COLUMNS if options.typed else ()))


def _hint(name: str, options: ReadOptions) -> str:
    if name in DELAYED_ONLY_COLUMNS:
        return "messages of delayed logs have it: set the option delayed to true"
    if name in TYPED_COLUMNS:
        return "the option schemas makes it, such as own"
    return f"there are: {', '.join(_known(options))}"


def _asked_for(schema: StructType, options: ReadOptions) -> "tuple[tuple[str, ...], tuple[TypedPart, ...]]":
    """Return the columns of the schema that a caller has given, which selects the columns to read."""
    if not schema.fields:
        raise RequestInvalid("the schema names no column", hint=_hint("", options))
    for field in schema.fields:
        if field.name not in _known(options):
            raise RequestInvalid(
                f"the schema has a column {quoted(field.name)}, which messages do not have",
                hint=_hint(field.name, options),
            )
    given = {one.name: one.type for one in to_arrow_schema(schema, timezone="UTC")}
    typed = _typed_parts(options, given)
    for field in schema.fields:
        if field.name not in _DATA_COLUMNS:
            kind = {**_typed_types(typed), **{one.name: one.type for one in schema_of(DELAYED_COLUMNS)}}[field.name]
            right = from_arrow_schema(pa.schema([pa.field(field.name, kind)])).fields[0].dataType.simpleString()
            if field.dataType.simpleString() != right:
                raise RequestInvalid(
                    f"column {field.name} is {right}, the schema says {field.dataType.simpleString()}",
                    hint=f"read it as {right}, and CAST it",
                )
    return tuple(schema.fieldNames()), typed


def _typed_parts(options: ReadOptions, wanted: "Mapping[str, pa.DataType | None]") -> "tuple[TypedPart, ...]":
    """Return the typed columns among the wanted ones, with the types that the caller gave."""
    if options.typed is None or TYPED_NAMES.isdisjoint(wanted):
        return ()
    selection = options.selection
    topics = tuple(selection.assigned) if selection.assigned is not None else selection.names
    return options.typed.parts(options, topics if selection.pattern is None else (), wanted)


def _typed_types(parts: "tuple[TypedPart, ...]") -> dict[str, pa.DataType]:
    return {name: column.type for part in parts for name, column in part.columns().items()}
