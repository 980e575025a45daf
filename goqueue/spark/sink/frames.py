"""Messages in Arrow columns as frames, without a Python object for each of them but its checksum.

Headers, keys, values and encoded headers are columns of bytes that Arrow joins row by row; what comes out stands in
memory as a log has it: one frame behind the other.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from goqueue.client.accumulator import OWN_HEADERS_BYTES_MAX
from goqueue.errors import MessageTooLarge, RequestInvalid
from goqueue.limits import FRAME_HEADER_BYTES, HEADERS_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX
from goqueue.storage import frame
from goqueue.storage.scan import Bytes, Positions

_PREFIX = np.dtype([("magic", ">u2"), ("version", "u1"), ("flags", "u1"), ("checksum", ">u4")])
_FIELDS = np.dtype(
    [
        ("offset", ">u8"),
        ("timestamp", ">u8"),
        ("priority", "u1"),
        ("reserved", "u1"),
        ("key", ">u2"),
        ("value", ">u4"),
        ("headers", ">u2"),
    ]
)
assert _PREFIX.itemsize == frame.AT_OFFSET
assert _PREFIX.itemsize + _FIELDS.itemsize == FRAME_HEADER_BYTES
_NOTHING = pa.scalar(b"", pa.binary())
_MAGIC = int.from_bytes(frame.MAGIC, "big")
_STARTS = [crc32c(frame.MAGIC + bytes((frame.VERSION, flags)) + bytes(4)) for flags in range(frame.FLAGS_ALL + 1)]


@dataclass(frozen=True, slots=True, eq=False)
class MessageArrays:
    """Columns of the same length. No array has nulls: a key of no bytes is no key."""

    values: pa.BinaryArray
    keys: pa.BinaryArray | None = None
    headers: pa.BinaryArray | None = None
    """Encoded."""
    priorities: Bytes | None = None
    tombstones: "np.ndarray[Any, np.dtype[np.bool_]] | None" = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Positions) -> "MessageArrays":
        chosen = pa.array(rows)
        return MessageArrays(
            self.values.take(chosen),
            None if self.keys is None else self.keys.take(chosen),
            None if self.headers is None else self.headers.take(chosen),
            None if self.priorities is None else self.priorities[rows],
            None if self.tombstones is None else self.tombstones[rows],
        )


@dataclass(frozen=True, slots=True, eq=False)
class EncodedFrames:
    """Frames one behind the other."""

    content: Bytes
    edges: Positions
    """Where each one starts, and where the last one ends."""

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        return int(self.edges[-1] - self.edges[0])

    @property
    def bytes_behind_first(self) -> memoryview:
        return self.content.data[int(self.edges[1]) : int(self.edges[-1])]

    def rows(self, first: int, end: int) -> "EncodedFrames":
        return replace(self, edges=self.edges[first : end + 1])


def encode(messages: MessageArrays, flags: int = 0) -> EncodedFrames:
    """Encode all messages as `frame.encode` does each, with these flags."""
    lengths = {
        "key": _lengths(messages.keys),
        "value": _lengths(messages.values),
        "headers": _lengths(messages.headers) if messages.headers is not None else np.full(1, len(frame.NO_HEADERS)),
    }
    for name, most in (("key", KEY_BYTES_MAX), ("value", VALUE_BYTES_MAX), ("headers", HEADERS_BYTES_MAX)):
        if (largest := int(lengths[name].max(initial=0))) > most:
            raise MessageTooLarge(f"the {name} of a message has {largest} bytes, {most} is the most")
    fields = np.zeros(len(messages), _FIELDS)
    fields["priority"] = frame.NORMAL if messages.priorities is None else messages.priorities
    for name, found in lengths.items():
        fields[name] = found
    covered = pc.binary_join_element_wise(
        _column_of(fields),
        *([] if messages.keys is None else [messages.keys]),
        messages.values,
        pa.scalar(frame.NO_HEADERS, pa.binary()) if messages.headers is None else messages.headers,
        _NOTHING,
    )
    return _sealed(covered, _flags(messages, lengths["headers"]) | np.uint8(flags))


def _sealed(covered: pa.BinaryArray, flags: Bytes) -> EncodedFrames:
    """Add the part of the header that precedes the checksum, and the checksum."""
    prefixes = np.zeros(len(covered), _PREFIX)
    prefixes["magic"], prefixes["version"], prefixes["flags"] = _MAGIC, frame.VERSION, flags
    prefixes["checksum"] = _checksums(covered.to_pylist(), flags)
    whole = pc.binary_join_element_wise(_column_of(prefixes), covered, _NOTHING)
    edges = np.frombuffer(whole.buffers()[1], np.int32)[whole.offset : whole.offset + len(whole) + 1]
    return EncodedFrames(np.frombuffer(whole.buffers()[2], np.uint8), edges.astype(np.int64))


def _checksums(covered: list[bytes], flags: Bytes) -> list[int]:
    """Continue each checksum from that of its prefix, which only the flags determine."""
    return list(map(crc32c, covered, [_STARTS[flag] for flag in flags.tolist()]))


def _flags(messages: MessageArrays, headers: Positions) -> Bytes:
    flags: Bytes = np.where(headers > len(frame.NO_HEADERS), np.uint8(frame.HAS_HEADERS), np.uint8(0))
    if messages.tombstones is not None:
        flags = flags | np.where(messages.tombstones, np.uint8(frame.TOMBSTONE), np.uint8(0))
    return np.broadcast_to(flags, len(messages))


def _lengths(column: pa.BinaryArray | None) -> Positions:
    if column is None:
        return np.zeros(1, np.int64)
    found: Positions = pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def encode_headers(column: pa.ListArray) -> pa.BinaryArray:
    """Encode lists of pairs as `frame.encode_headers` does each; null is no headers."""
    pairs = column.flatten()
    names, values = pc.struct_field(pairs, "key"), pc.struct_field(pairs, "value").cast(pa.binary())
    if names.null_count:
        raise RequestInvalid("a header has no name", hint="key of a header may not be null")
    if pc.any(pc.starts_with(names, "__")).as_py():
        raise RequestInvalid("a header has a name that begins with __", hint="those are the broker's: rename it")
    names, values = names.cast(pa.binary()), values.fill_null(b"")
    joined = pc.binary_join_element_wise(_u16(names), names, _u16(values), values, _NOTHING)
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    edges = np.append(0, np.cumsum(counts)).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(edges), joined)
    number = _column_of(counts.astype(">u2"))
    encoded = pc.binary_join_element_wise(number, pc.binary_join(lists, _NOTHING), _NOTHING)
    if len(encoded) and (largest := int(_lengths(encoded).max())) > OWN_HEADERS_BYTES_MAX:
        raise MessageTooLarge(f"the headers of a message have {largest} bytes, {OWN_HEADERS_BYTES_MAX} is the most")
    return encoded


def _u16(column: pa.BinaryArray) -> pa.BinaryArray:
    """Return the length of each value as two bytes."""
    lengths = _lengths(column)
    if len(lengths) and (largest := int(lengths.max())) > HEADERS_BYTES_MAX:
        raise MessageTooLarge(f"a header of a message has {largest} bytes, {HEADERS_BYTES_MAX} is the most")
    return _column_of(lengths.astype(">u2"))


def _column_of(items: "np.ndarray[Any, np.dtype[Any]]") -> pa.BinaryArray:
    edges = np.arange(0, (len(items) + 1) * items.itemsize, items.itemsize, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(items), [None, pa.py_buffer(edges), pa.py_buffer(items)])
