"""Frames as Arrow columns, without a Python object for each message.

Header, key, value and headers of frames follow each other in the buffer. Taken as one Arrow array of binaries, four for
each frame, without copying, every fourth of them is a column that Arrow copies at the speed of memory.

The deadline and state of a delayed message are recorded behind it in its log. So a task goes through a delayed log
twice: from its first offset to the end for the records, and then for the messages. What must stay true: the messages
are read after the records. A broker removes a record after the messages that it is about, or with them; it records a
new deadline anew before it removes the old record, and removes a marker after all its messages. So a record that is
gone is about messages that will not be found, or stands at the end; and the end is read again until no segment was
replaced in between.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from goqueue.broker.delay.records import apply_log_entries, read_log_changes
from goqueue.broker.delay.schedule import ABORTED, NEVER, STATE, STATES, UNDECIDED, DeliverySchedule, Mask
from goqueue.compression import decompress
from goqueue.errors import FrameInvalid
from goqueue.limits import FRAME_HEADER_BYTES, MIB
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import DamagedBytes, FrameRun, Split, read_split
from goqueue.storage import frame, scan
from goqueue.storage.log_view import LogView
from goqueue.storage.scan import Bytes, Frames, Positions

_OF_TRANSACTIONS = ("undecided", "aborted")  # for readers of uncommitted messages
assert (len(STATES), len(STATES) + 1) == (UNDECIDED, ABORTED)


@dataclass(frozen=True, slots=True)
class DelayedStates:
    """Deadlines and states of messages, by their offsets, which rise; a row behind all others is of none."""

    offsets: Positions
    dues: Positions
    states: Bytes

    @classmethod
    def of(cls, schedule: DeliverySchedule) -> "DelayedStates":
        chunks = schedule.chunks
        return cls(
            np.concatenate([*(chunk.offsets for chunk in chunks), np.array([NEVER])]),
            np.concatenate([*(chunk.dues for chunk in chunks), np.zeros(1, np.int64)]),
            np.concatenate([*(chunk.states for chunk in chunks), np.zeros(1, np.uint8)]) & np.uint8(STATE),
        )

    def deliver_at(self, offsets: Positions) -> pa.Array:
        """Return the deadlines; null where there is no sound message."""
        rows, absent = self._find(offsets)
        return pa.array(self.dues[rows] // 1000, pa.timestamp("us", "UTC"), mask=absent)

    def state(self, offsets: Positions) -> pa.Array:
        """Return the states; null where there is no sound message."""
        rows, absent = self._find(offsets)
        return pa.array((*STATES, *_OF_TRANSACTIONS)).take(pa.array(self.states[rows], mask=absent))

    def _find(self, offsets: Positions) -> tuple[Positions, Mask]:
        rows = np.searchsorted(self.offsets, offsets)
        absent: Mask = self.offsets[rows] != offsets
        return rows, absent


def read_delayed_states(logs: LogSource, split: Split, *, fails_on_loss: bool) -> DelayedStates:
    """Read the deadlines and states of the messages of a split, from all records up to now."""
    schedule, view = DeliverySchedule(), logs.view(split.topic, split.partition)
    first = max(split.first, view.earliest)
    while True:
        behind = replace(split, first=first, end=view.end, segments=view.segments)
        for frames in _sound(logs, behind, fails_on_loss=fails_on_loss):
            content = frames.buffer.data[int(frames.positions[0]) : frames.end]
            apply_log_entries(schedule, read_log_changes((content,)).of_messages_below(split.end))
        first, before = max(first, view.end), view
        view = logs.view(split.topic, split.partition)
        if _only_grew(before, view):
            return DelayedStates.of(schedule)


def _sound(logs: LogSource, split: Split, *, fails_on_loss: bool) -> Iterator[Frames]:
    """Yield sound frames. Damage may hide records; records about removed messages were removed with them."""
    for piece in read_split(logs, split):
        if isinstance(piece, FrameRun):
            yield piece.frames
        elif isinstance(piece, DamagedBytes) and fails_on_loss:
            raise piece.error


def _only_grew(before: LogView, after: LogView) -> bool:
    """Test if all that was seen is still there: no segment was replaced or removed, and the last one has grown."""
    if not before.segments:
        return True
    *sealed, active = before.segments
    return set(sealed) <= set(after.segments) and any(
        (one.base_offset, one.version) == (active.base_offset, active.version) and one.size >= active.size
        for one in after.segments
    )


BATCH_MESSAGES = 65_536
_EXPANDED_BYTES = 32 * MIB  # of compressed values in a batch: a few bytes of a log can stand for very many
_PARTS = 4  # header, key, value, headers
_LOG_APPEND_TIME = 1  # what Kafka's connector calls a time that the broker gave

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """Frames of one partition that become one record batch."""

    topic: str
    partition: int
    run: FrameRun
    sound: bool = True
    expanded: Mapping[int, bytes] = field(default_factory=dict)
    """The values that were compressed, by the number of their frame."""
    delayed: DelayedStates | None = None
    """Of a delayed log, where a column needs them."""

    def __len__(self) -> int:
        return len(self.run.frames)

    @property
    def frames(self) -> Frames:
        return self.run.frames

    def part(self, number: int, absent: Any = None) -> pa.Array:
        """Return the header, key, value or headers of each frame; null where `absent` says so."""
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


def keys(batch: FrameBatch) -> pa.Array:
    """Return the keys; an empty key is no key."""
    return batch.part(1, batch.frames.key_lengths == 0)


def values(batch: FrameBatch) -> pa.Array:
    """Return the values decompressed, and null for a tombstone."""
    tombstones = (batch.frames.flags & frame.TOMBSTONE) != 0
    found = batch.part(2, tombstones if tombstones.any() else None)
    if not batch.expanded:
        return found
    listed = found.to_pylist()
    for number, value in batch.expanded.items():
        listed[number] = value
    return pa.array(listed, pa.binary())


def headers(batch: FrameBatch) -> pa.Array:
    """Return the headers; null where there are none. The broker's own, which begin with `__`, are left out."""
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


def _topic(batch: FrameBatch) -> pa.Array:
    return pa.repeat(pa.scalar(batch.topic), len(batch))


def _partition(batch: FrameBatch) -> pa.Array:
    return pa.array(np.full(len(batch), batch.partition, np.int32))


def _offset(batch: FrameBatch) -> pa.Array:
    return pa.array(batch.frames.offsets)


def timestamps(batch: FrameBatch) -> pa.Array:
    return pa.array(batch.frames.timestamps // 1000, pa.timestamp("us", "UTC"))


def _timestamp_type(batch: FrameBatch) -> pa.Array:
    return pa.array(np.full(len(batch), _LOG_APPEND_TIME, np.int32))


def priorities(batch: FrameBatch) -> pa.Array:
    found = scan.column(batch.frames.buffer, "u1", frame.AT_PRIORITY)[batch.frames.positions]
    return pa.array(frame.PRIORITIES).take(pa.array(found))


def _crc_ok(batch: FrameBatch) -> pa.Array:
    return pa.repeat(pa.scalar(batch.sound), len(batch))


def _deliver_at(batch: FrameBatch) -> pa.Array:
    assert batch.delayed is not None
    return batch.delayed.deliver_at(batch.frames.offsets)


def _state(batch: FrameBatch) -> pa.Array:
    assert batch.delayed is not None
    return batch.delayed.state(batch.frames.offsets)


def _segment(batch: FrameBatch) -> pa.Array:
    return pa.array(np.full(len(batch), batch.run.segment.base_offset, np.int64))


def _position(batch: FrameBatch) -> pa.Array:
    return pa.array(batch.frames.positions + batch.frames.origin)


@dataclass(frozen=True, slots=True)
class MessageColumn:
    """The type of a column, and the function that makes it."""

    type: pa.DataType
    make: Callable[[FrameBatch], pa.Array]


COLUMNS: dict[str, MessageColumn] = {
    "key": MessageColumn(pa.binary(), keys),
    "value": MessageColumn(pa.binary(), values),
    "topic": MessageColumn(pa.string(), _topic),
    "partition": MessageColumn(pa.int32(), _partition),
    "offset": MessageColumn(pa.int64(), _offset),
    "timestamp": MessageColumn(pa.timestamp("us", "UTC"), timestamps),
    "timestampType": MessageColumn(pa.int32(), _timestamp_type),
    "priority": MessageColumn(pa.string(), priorities),
    "headers": MessageColumn(HEADERS, headers),
    "segment": MessageColumn(pa.int64(), _segment),
    "position": MessageColumn(pa.int64(), _position),
    "crc_ok": MessageColumn(pa.bool_(), _crc_ok),
}
DELAYED_ONLY_COLUMNS: dict[str, MessageColumn] = {
    "deliver_at": MessageColumn(pa.timestamp("us", "UTC"), _deliver_at),
    "state": MessageColumn(pa.string(), _state),
}
"""What there is of a delayed log alone, and what a frame by itself does not tell."""
DELAYED_COLUMNS = COLUMNS | DELAYED_ONLY_COLUMNS
VALUE_COLUMNS = ("data", "data_error", "schema_id")
KEY_COLUMNS = tuple(f"key_{name}" for name in VALUE_COLUMNS)
TYPED_COLUMNS = (*VALUE_COLUMNS, *KEY_COLUMNS)
"""What schemas make of values and keys; the option `schemas` gives them their types."""
DEFAULT_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "priority")
"""What there is without asking; `headers` with `includeHeaders`, the others when they are named."""


_NONE: Mapping[str, MessageColumn] = {}


def schema_of(names: Iterable[str]) -> pa.Schema:
    return pa.schema([pa.field(name, DELAYED_COLUMNS[name].type) for name in names])


def batches(
    topic: str,
    partition: int,
    run: FrameRun,
    names: list[str],
    *,
    sound: bool = True,
    delayed: DelayedStates | None = None,
    typed: Mapping[str, MessageColumn] = _NONE,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a judged run (see `visibility`), with the columns of these names.

    `typed` has columns that the options of this read make of values and keys.
    """
    columns = {name: typed[name] if name in typed else DELAYED_COLUMNS[name] for name in names}
    schema = pa.schema([pa.field(name, one.type) for name, one in columns.items()])
    reads_values = "value" in names or not typed.keys().isdisjoint(names)
    for piece in _slices(run):
        whole = FrameBatch(topic, partition, piece, sound, delayed=delayed)
        for batch in _expanded(whole) if reads_values else (whole,):
            made = pa.record_batch([one.make(batch) for one in columns.values()], schema=schema)
            yield made if batch.run.dropped is None else made.filter(pa.array(batch.run.real))


def _slices(run: FrameRun) -> Iterator[FrameRun]:
    for first in range(0, len(run.frames), BATCH_MESSAGES):
        yield run.between(first, first + BATCH_MESSAGES)


def _expanded(whole: FrameBatch) -> Iterator[FrameBatch]:
    """Split a batch so that its values fit into memory when they are decompressed."""
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


def _part(whole: FrameBatch, first: int, end: int, expanded: Mapping[int, bytes]) -> FrameBatch:
    return replace(whole, run=whole.run.between(first, end), expanded=expanded)


def _decompressed(batch: FrameBatch, number: int, value: bytes) -> bytes:
    """Decompress a value; one with a wrong checksum stays as it is."""
    try:
        return decompress(value)
    except FrameInvalid as error:
        if not batch.sound:
            return value
        offset = int(batch.frames.offsets[number])
        raise FrameInvalid(f"offset {offset} of {batch.topic}/{batch.partition}: {error.sentence}") from None
