"""The rows of a result, one piece after the other: the driver holds some pieces, however many there are."""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, TimestampType, VariantType

from goqueue.errors import RequestInvalid
from goqueue.limits import MIB
from goqueue.nearest import nearest
from goqueue.quantities import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    Result = DataFrame  # commands know Spark by this room alone

Form = Literal["jsonl", "csv"]

TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
SPLIT_BYTES = 32 * MIB
"""Of a task whose rows are handed on as they are: the JVM holds those of two tasks as text."""
CSV_OPTIONS = {"escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
"""Quotes are doubled, and blanks are kept."""
_NESTED = (ArrayType, MapType, StructType, VariantType)


def distinct_names(frame: "DataFrame") -> "DataFrame":
    """Number columns of the same name: `key`, `key_2`."""
    names: list[str] = []
    for name in frame.columns:
        column, number = name, 1
        while column in names:
            number += 1
            column = f"{name}_{number}"
        names.append(column)
    return frame if names == frame.columns else frame.toDF(*names)


def ordered(frame: "DataFrame", name: str, *, backward: bool) -> "DataFrame":
    """Sort by one column; rows without a value are last in both directions."""
    known = {column.lower(): column for column in frame.columns}
    if name.lower() not in known:
        guess = nearest(name, frame.columns)
        hint = f"did you mean {guess}?" if guess else f"there are {', '.join(frame.columns)}"
        raise RequestInvalid(f"there is no column {quoted(name)} to sort by", hint=hint)
    column = F.col(f"`{known[name.lower()].replace('`', '``')}`")
    return frame.orderBy(column.desc_nulls_last() if backward else column.asc_nulls_last())


def with_plain_times(frame: "DataFrame") -> "DataFrame":
    """Cast times to text in UTC: collected, they would be in the local time zone."""
    times = {one.name for one in frame.schema.fields if isinstance(one.dataType, TimestampType)}
    columns = {name: F.col(f"`{name.replace('`', '``')}`") for name in frame.columns}
    return frame.select(
        *(column.cast("string").alias(name) if name in times else column for name, column in columns.items())
    )


def lines(frame: "DataFrame", form: Form) -> Generator[bytes, None, None]:
    """Yield whole lines of JSON or CSV, many in a piece. Bytes are base64 in both."""
    numbered = distinct_names(frame)
    row = F.struct(*(_column(field, form) for field in numbered.schema.fields))
    if form == "jsonl":
        text = F.to_json(row, {**TIMES, "ignoreNullFields": "false"})
    else:
        text = F.to_csv(row, {**TIMES, **CSV_OPTIONS})
    yield from _pieces(numbered.select(text.cast("binary").alias("line")).mapInArrow(_joined, "piece binary"))


def record_batches(frame: "DataFrame") -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows as Arrow batches; at least one, which may be empty."""
    numbered = distinct_names(frame)
    schema = to_arrow_schema(numbered.schema, timezone="UTC")
    is_empty = True
    for piece in _pieces(numbered.mapInArrow(_encoded, "piece binary")):
        for batch in pa.ipc.open_stream(piece):
            yield batch
            is_empty = False
    if is_empty:
        yield pa.RecordBatch.from_pylist([], schema)


def _column(field: "StructField", form: Form) -> "Column":
    found = F.col(f"`{field.name.replace('`', '``')}`")
    if form == "csv" and isinstance(field.dataType, _NESTED):
        found = F.to_json(found, TIMES)
    elif form == "csv" and isinstance(field.dataType, BinaryType):
        found = F.base64(found)
    return found.alias(field.name)


def _pieces(frame: "DataFrame") -> Generator[bytes, None, None]:
    """Yield the partitions in order, each computed while the previous one is read. A reader that stops closes it."""
    for row in frame.toLocalIterator(prefetchPartitions=True):
        yield bytes(row[0])


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if len(batch):
            yield _piece(b"\n".join([*batch.column(0).to_pylist(), b""]))


def _encoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield _piece(sink.getvalue().to_pybytes())


def _piece(content: bytes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([content], pa.binary())], names=["piece"])
