"""One header of many messages as a column, without a Python object for each of them.

All messages are walked together: one cursor a message, and each step looks at the next header of every one.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goqueue.limits import FRAME_HEADER_BYTES
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames, Positions

_LENGTH_BYTES = 2


def header_column(frames: Frames, name: str) -> pa.Array:
    """Return the value of the first header of this name; null where there is none."""
    starts, lengths = locate_header(frames, name)
    return gathered(frames, starts, lengths)


def locate_header(frames: Frames, name: str) -> tuple[Positions, Positions]:
    """Return where the value begins in the buffer, and its length; -1 where a message does not have the header."""
    starts, lengths = np.full(len(frames), -1, np.int64), np.zeros(len(frames), np.int64)
    wanted, sizes = name.encode(), scan.column(frames.buffer, ">u2", 0)
    numbers = np.flatnonzero(frames.flags & frame.HAS_HEADERS)
    if not len(numbers):
        return starts, lengths
    ends = (frames.positions + frames.lengths)[numbers]
    cursors = _first_headers(frames)[numbers]
    left = sizes[cursors].astype(np.int64)
    cursors += _LENGTH_BYTES
    while len(numbers):
        going = (left > 0) & (cursors + _LENGTH_BYTES <= ends)
        numbers, ends, cursors, left = numbers[going], ends[going], cursors[going], left[going]
        at_value = cursors + _LENGTH_BYTES + sizes[cursors]
        whole = at_value + _LENGTH_BYTES <= ends
        numbers, ends, cursors, left, at_value = (
            numbers[whole], ends[whole], cursors[whole], left[whole], at_value[whole]
        )  # fmt: skip
        value_sizes = sizes[at_value].astype(np.int64)
        fits = _has_name(frames.buffer, cursors, at_value - cursors - _LENGTH_BYTES, wanted)
        starts[numbers[fits]] = at_value[fits] + _LENGTH_BYTES
        lengths[numbers[fits]] = value_sizes[fits]
        left[fits] = 0
        left -= 1
        cursors = at_value + _LENGTH_BYTES + value_sizes
    return starts, lengths


def _first_headers(frames: Frames) -> Positions:
    values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[frames.positions].astype(np.int64)
    found: Positions = frames.positions + FRAME_HEADER_BYTES + frames.key_lengths + values
    return found


def _has_name(buffer: scan.Bytes, cursors: Positions, sizes: Positions, wanted: bytes) -> NDArray[np.bool_]:
    fits: NDArray[np.bool_] = sizes == len(wanted)
    for number, byte in enumerate(wanted):
        chosen = np.flatnonzero(fits)
        fits[chosen] = buffer[cursors[chosen] + _LENGTH_BYTES + number] == byte
    return fits


def gathered(frames: Frames, starts: Positions, lengths: Positions) -> pa.Array:
    """Return pieces of the buffer as binaries; null where a start is below 0."""
    edges = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=edges[1:])
    index = np.arange(edges[-1]) + np.repeat(starts - edges[:-1], lengths)
    content: NDArray[Any] = frames.buffer[index]
    valid = np.packbits(starts >= 0, bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)
