"""Rows of Spark as messages: the columns of a record batch, checked and brought into the form that frames need."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.client.admin_requests import TopicInfo
from goqueue.errors import PartitionNotFound, RequestInvalid
from goqueue.limits import PRIORITY_COUNT
from goqueue.partitioner import hash_function
from goqueue.quantities import quoted
from goqueue.spark.sink.frames import MessageArrays, encode_headers
from goqueue.storage.frame import NORMAL, PRIORITIES
from goqueue.storage.scan import Bytes

if TYPE_CHECKING:
    from goqueue.storage.scan import Positions

PIECE_BYTES = 256 * 1024 * 1024
"""Of a record batch that is looked at in one go: Arrow counts the bytes of joined columns in an int32."""


@dataclass(frozen=True, slots=True)
class SinkRows:
    """Messages, with what their rows say of where they go."""

    messages: MessageArrays
    topics: pa.Array | None
    partitions: pa.Array | None


def read_rows(batch: pa.RecordBatch) -> SinkRows:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return SinkRows(_messages(columns), columns.get("topic"), columns.get("partition"))


def split_large_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch that is too large into halves."""
    if batch.nbytes <= PIECE_BYTES or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from split_large_batch(batch.slice(0, half))
    yield from split_large_batch(batch.slice(half))


def _messages(columns: dict[str, pa.Array]) -> MessageArrays:
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
    return MessageArrays(
        values,
        keys,
        None if headers is None or headers.null_count == len(headers) else encode_headers(headers),
        _priorities(columns["priority"]) if "priority" in columns else None,
        tombstones,
    )


def _priorities(column: pa.Array) -> Bytes:
    """Return the priorities as numbers; null is normal."""
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


STRETCH_MESSAGES = 8192
"""So many messages without a key go to one partition before the next has its turn: few large requests."""
_POSITIVE = 0x7FFFFFFF


class PartitionRouter:
    """For one topic, as one task writes to it."""

    def __init__(self, topic: TopicInfo, task: int) -> None:
        self.topic = topic
        self._hash_key = hash_function(topic.partitioner)
        self._task = task
        self._keyless = 0

    def route(self, count: int, keys: pa.BinaryArray | None, given: pa.Array | None) -> "Positions":
        """Choose the partition that a row names, or that of its key, or the next in turn."""
        chosen = np.full(count, -1, np.int64) if given is None else self._given(given)
        left = np.flatnonzero(chosen < 0)
        if len(left) and keys is not None:
            chosen[left] = self._by_key(keys if len(left) == count else keys.take(pa.array(left)))
            left = np.flatnonzero(chosen < 0)
        numbers = self._keyless + np.arange(len(left))
        chosen[left] = (self._task + numbers // STRETCH_MESSAGES) % self.topic.partitions
        self._keyless += len(left)
        return chosen

    def _given(self, column: pa.Array) -> "Positions":
        least, most = pc.min_max(column).values()
        for found in (least.as_py(), most.as_py()):
            if found is not None and not 0 <= found < self.topic.partitions:
                raise PartitionNotFound(
                    f"a row says partition {found}, topic {self.topic.name} has 0 to {self.topic.partitions - 1}",
                    hint="without a column partition, or where it is null, messages go by their key",
                )
        numbers: Positions = np.array(column.cast(pa.int64()).fill_null(-1))
        return numbers

    def _by_key(self, keys: pa.BinaryArray) -> "Positions":
        """Return the partition by key; -1 where there is no key."""
        hash_key = self._hash_key
        hashes = np.fromiter((hash_key(key) if key else -1 for key in keys.to_pylist()), np.int64, len(keys))
        found: Positions = np.where(hashes < 0, -1, (hashes & _POSITIVE) % self.topic.partitions)
        return found
