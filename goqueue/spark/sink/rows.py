"""Rows of Spark as messages: the columns of a record batch, checked and brought into the form that frames need."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.errors import RequestInvalid
from goqueue.limits import PRIORITY_COUNT
from goqueue.quantities import quoted
from goqueue.spark.sink.frames import Messages, encode_headers
from goqueue.storage.frame import NORMAL, PRIORITIES
from goqueue.storage.scan import Bytes

PIECE_BYTES = 256 * 1024 * 1024
"""Of a record batch that is looked at in one go: Arrow counts the bytes of joined columns in an int32."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Messages, with what their rows say of where they go."""

    messages: Messages
    topics: pa.Array | None
    partitions: pa.Array | None


def read_rows(batch: pa.RecordBatch) -> Rows:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return Rows(_messages(columns), columns.get("topic"), columns.get("partition"))


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch that is too large for one go, in halves."""
    if batch.nbytes <= PIECE_BYTES or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from pieces(batch.slice(0, half))
    yield from pieces(batch.slice(half))


def _messages(columns: dict[str, pa.Array]) -> Messages:
    values, keys = columns["value"].cast(pa.binary()), None
    if "key" in columns and columns["key"].null_count < len(values):
        keys = columns["key"].cast(pa.binary()).fill_null(b"")
    tombstones = None
    if values.null_count:
        absent = values.is_null()
        if keys is None or pc.any(pc.and_(absent, pc.equal(pc.binary_length(keys), 0))).as_py():
            raise RequestInvalid(
                "a row has neither value nor key", hint="null as value deletes a key; an empty message is X''"
            )
        tombstones = np.array(absent)
        values = values.fill_null(b"")
    headers = columns.get("headers")
    return Messages(
        values,
        keys,
        None if headers is None or headers.null_count == len(headers) else encode_headers(headers),
        _priorities(columns["priority"]) if "priority" in columns else None,
        tombstones,
    )


def _priorities(column: pa.Array) -> Bytes:
    """As the numbers that frames have; null is normal."""
    if pa.types.is_integer(column.type):
        numbers = column.cast(pa.int64())
        wrong = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, PRIORITY_COUNT))
    else:
        words = column.cast(pa.string())
        numbers = pc.index_in(words, value_set=pa.array(PRIORITIES))
        wrong = pc.and_(numbers.is_null(), words.is_valid())
    if pc.any(wrong).as_py():
        found = str(column.filter(wrong)[0].as_py())
        raise RequestInvalid(
            f"{quoted(found)} is not a priority", hint=f"write one of {', '.join(PRIORITIES)}, or 0 to 4"
        )
    chosen: Bytes = np.array(numbers.fill_null(NORMAL)).astype(np.uint8)
    return chosen
