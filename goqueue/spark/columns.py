"""Frames as Arrow columns, without a Python object for each message.

Header, key, value and headers of frames stand one behind the other in the buffer. Taken as one Arrow array of binaries,
four a frame, which copies nothing, each fourth of them is a column that Arrow copies out at the speed of memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from goqueue.compression import decompress
from goqueue.errors import FrameInvalid
from goqueue.limits import FRAME_HEADER_BYTES, MIB
from goqueue.spark.delayed import Fates
from goqueue.spark.reading import Run
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames

BATCH_MESSAGES = 65_536
_EXPANDED_BYTES = 32 * MIB  # of compressed values in a batch: a few bytes of a log can stand for very many
_PARTS = 4  # header, key, value, headers
_LOG_APPEND_TIME = 1  # what Kafka's connector calls a time that the broker gave

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class Batch:
    """Frames of one partition that become one record batch."""

    topic: str
    partition: int
    run: Run
    sound: bool = True
    expanded: Mapping[int, bytes] = field(default_factory=dict)
    """The values that were compressed, by the number of their frame."""
    fates: Fates | None = None
    """Of a delayed log, where a column needs them."""

    def __len__(self) -> int:
        return len(self.run.frames)

    @property
    def frames(self) -> Frames:
        return self.run.frames

    def part(self, number: int, absent: Any = None) -> pa.Array:
        """Header, key, value or headers of each frame; null where `absent` says so."""
        frames = self.frames
        starts = frames.positions
        keys = frames.key_lengths
        values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[starts].astype(np.int64)
        edges = np.empty(_PARTS * len(frames) + 1, np.int32)
        edges[0:-1:_PARTS] = starts
        edges[1::_PARTS] = starts + FRAME_HEADER_BYTES
        edges[2::_PARTS] = edges[1::_PARTS] + keys
        edges[3::_PARTS] = edges[2::_PARTS] + values
        edges[-1] = frames.end
        parts = pa.Array.from_buffers(
            pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(frames.buffer)]
        )
        wanted = np.arange(number, _PARTS * len(frames), _PARTS, dtype=np.int32)
        return parts.take(pa.array(wanted, mask=absent))


def keys(batch: Batch) -> pa.Array:
    """A key of no bytes is no key."""
    return batch.part(1, batch.frames.key_lengths == 0)


def values(batch: Batch) -> pa.Array:
    """As they were published: decompressed, and null in a tombstone."""
    tombstones = (batch.frames.flags & frame.TOMBSTONE) != 0
    found = batch.part(2, tombstones if tombstones.any() else None)
    if not batch.expanded:
        return found
    listed = found.to_pylist()
    for number, value in batch.expanded.items():
        listed[number] = value
    return pa.array(listed, pa.binary())


def headers(batch: Batch) -> pa.Array:
    """Null where there are none. Those of the broker's own, which begin with `__`, are left out."""
    absent = (batch.frames.flags & frame.HAS_HEADERS) == 0
    if absent.all():
        return pa.nulls(len(batch), HEADERS)
    encoded = batch.part(3, absent).dictionary_encode()  # many messages have the same
    pairs = [_pairs(one, is_sound=batch.sound) for one in encoded.dictionary.to_pylist()]
    return pa.array(pairs, HEADERS).take(encoded.indices)


def _pairs(encoded: bytes, *, is_sound: bool) -> list[dict[str, Any]] | None:
    try:
        pairs = frame.decode_headers(encoded)
    except FrameInvalid:
        if is_sound:
            raise
        return None
    return [{"key": name, "value": value} for name, value in pairs if not name.startswith("__")] or None


def _topic(batch: Batch) -> pa.Array:
    return pa.repeat(pa.scalar(batch.topic), len(batch))


def _partition(batch: Batch) -> pa.Array:
    return pa.array(np.full(len(batch), batch.partition, np.int32))


def _offset(batch: Batch) -> pa.Array:
    return pa.array(batch.frames.offsets)


def timestamps(batch: Batch) -> pa.Array:
    return pa.array(batch.frames.timestamps // 1000, pa.timestamp("us", "UTC"))


def _timestamp_type(batch: Batch) -> pa.Array:
    return pa.array(np.full(len(batch), _LOG_APPEND_TIME, np.int32))


def priorities(batch: Batch) -> pa.Array:
    found = scan.column(batch.frames.buffer, "u1", frame.AT_PRIORITY)[batch.frames.positions]
    return pa.array(frame.PRIORITIES).take(pa.array(found))


def _crc_ok(batch: Batch) -> pa.Array:
    return pa.repeat(pa.scalar(batch.sound), len(batch))


def _deliver_at(batch: Batch) -> pa.Array:
    assert batch.fates is not None
    return batch.fates.deliver_at(batch.frames.offsets)


def _state(batch: Batch) -> pa.Array:
    assert batch.fates is not None
    return batch.fates.state(batch.frames.offsets)


def _segment(batch: Batch) -> pa.Array:
    return pa.array(np.full(len(batch), batch.run.segment.base_offset, np.int64))


def _position(batch: Batch) -> pa.Array:
    return pa.array(batch.frames.positions + batch.frames.origin)


@dataclass(frozen=True, slots=True)
class Column:
    """What a column holds, and how it is made."""

    type: pa.DataType
    make: Callable[[Batch], pa.Array]


COLUMNS: dict[str, Column] = {
    "key": Column(pa.binary(), keys),
    "value": Column(pa.binary(), values),
    "topic": Column(pa.string(), _topic),
    "partition": Column(pa.int32(), _partition),
    "offset": Column(pa.int64(), _offset),
    "timestamp": Column(pa.timestamp("us", "UTC"), timestamps),
    "timestampType": Column(pa.int32(), _timestamp_type),
    "priority": Column(pa.string(), priorities),
    "headers": Column(HEADERS, headers),
    "segment": Column(pa.int64(), _segment),
    "position": Column(pa.int64(), _position),
    "crc_ok": Column(pa.bool_(), _crc_ok),
}
FATES: dict[str, Column] = {
    "deliver_at": Column(pa.timestamp("us", "UTC"), _deliver_at),
    "state": Column(pa.string(), _state),
}
"""What there is of a delayed log alone, and what a frame by itself does not tell."""
DELAYED_COLUMNS = COLUMNS | FATES
USUAL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "priority")
"""What there is without asking; `headers` with `includeHeaders`, the others when they are named."""


def schema_of(names: Iterable[str]) -> pa.Schema:
    return pa.schema([pa.field(name, DELAYED_COLUMNS[name].type) for name in names])


def batches(
    topic: str, partition: int, run: Run, names: list[str], *, sound: bool = True, fates: Fates | None = None
) -> Iterator[pa.RecordBatch]:
    """The messages of a run that was judged (`outcomes`), with the columns of these names."""
    schema = schema_of(names)
    for piece in _slices(run):
        whole = Batch(topic, partition, piece, sound, fates=fates)
        for batch in _expanded(whole) if "value" in names else (whole,):
            made = pa.record_batch([DELAYED_COLUMNS[name].make(batch) for name in names], schema=schema)
            yield made if batch.run.dropped is None else made.filter(pa.array(batch.run.real))


def _slices(run: Run) -> Iterator[Run]:
    for first in range(0, len(run.frames), BATCH_MESSAGES):
        yield run.between(first, first + BATCH_MESSAGES)


def _expanded(whole: Batch) -> Iterator[Batch]:
    """The same messages with their values decompressed, in as many batches as these need."""
    flags = whole.frames.flags
    compressed = np.flatnonzero((flags & (frame.COMPRESSED | frame.TOMBSTONE)) == frame.COMPRESSED)
    if not len(compressed):
        yield whole
        return
    first, size, expanded = 0, 0, dict[int, bytes]()
    stored = whole.part(2).take(pa.array(compressed))
    for number, value in zip(compressed.tolist(), stored, strict=True):
        found = _decompressed(whole, number, value.as_py())
        if expanded and size + len(found) > _EXPANDED_BYTES:
            yield _part(whole, first, number, expanded)
            first, size, expanded = number, 0, {}
        expanded[number - first] = found
        size += len(found)
    yield _part(whole, first, len(whole), expanded)


def _part(whole: Batch, first: int, end: int, expanded: Mapping[int, bytes]) -> Batch:
    return replace(whole, run=whole.run.between(first, end), expanded=expanded)


def _decompressed(batch: Batch, number: int, value: bytes) -> bytes:
    """As it is stored, where its checksum is wrong and nothing can be made of it."""
    try:
        return decompress(value)
    except FrameInvalid as error:
        if not batch.sound:
            return value
        offset = int(batch.frames.offsets[number])
        raise FrameInvalid(f"offset {offset} of {batch.topic}/{batch.partition}: {error.sentence}") from None
