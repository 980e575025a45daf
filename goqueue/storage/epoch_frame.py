"""Epoch frames: the control record that a leader appends first, before anything else in its epoch.

The key says what it is; the value says which epoch begins, which one ended, who leads and when that began:

    version u16, epoch u64, previous u64, time u64, length of the node's id u16, the node's id in UTF-8

So an epoch is replicated, truncated, recovered and copied like a message, also one in which nothing else is appended.
A later version adds fields at the end, and a reader takes those that it knows.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from goqueue.errors import FrameInvalid
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame
from goqueue.storage.scan import Frames

KEY = b"epoch"
VERSION = 1

_FIELDS = struct.Struct(">HQQQH")
_KINDS = frame.CONTROL | frame.TRANSACTIONAL


@dataclass(frozen=True, slots=True)
class EpochFrame:
    """The beginning of a leader epoch."""

    epoch: int
    node: str
    """The id of the leader."""
    time_ns: int
    previous: int = 0
    """The epoch of the messages before it; 0: the log had none."""

    def encode(self) -> bytes:
        """Encode as a frame that is not stamped yet."""
        node = self.node.encode()
        fields = _FIELDS.pack(VERSION, self.epoch, self.previous, self.time_ns, len(node))
        return frame.encode(fields + node, KEY, flags=frame.CONTROL)


def is_epoch_frame(message: frame.StoredMessage) -> bool:
    return message.flags & _KINDS == frame.CONTROL and message.key == KEY


def decode_epoch_frame(message: frame.StoredMessage) -> EpochFrame:
    """Decode the value. Raises if it is impossible."""
    value = message.value
    if len(value) < _FIELDS.size:
        raise _impossible(message, f"its value has {len(value)} bytes, at least {_FIELDS.size} belong there")
    version, epoch, previous, time_ns, length = _FIELDS.unpack_from(value)
    end = _FIELDS.size + length
    if not version or len(value) < end or (version == VERSION and len(value) > end):
        raise _impossible(message, f"version {version}, a node id of {length} bytes and {len(value)} bytes in all")
    if not previous < epoch <= OFFSET_MAX or time_ns > OFFSET_MAX:
        raise _impossible(message, f"epoch {epoch} after epoch {previous}, at the time {time_ns}")
    try:
        node = value[_FIELDS.size : end].decode()
    except UnicodeDecodeError as error:
        raise _impossible(message, f"the node's id is not UTF-8: {error.reason}") from None
    return EpochFrame(epoch, node, time_ns, previous)


def epoch_messages(frames: Frames) -> Iterator[frame.StoredMessage]:
    """Yield the epoch frames among these, possible or not. Other control records cost no object."""
    chosen = ((frames.flags & _KINDS) == frame.CONTROL) & (frames.key_lengths == len(KEY))
    for position in frames.positions[chosen].tolist():
        if frame.key_at(frames.buffer.data, position) == KEY:
            yield frame.decode(frames.buffer.data, position)


def _impossible(message: frame.StoredMessage, problem: str) -> FrameInvalid:
    return FrameInvalid(f"the epoch frame at offset {message.offset} is impossible: {problem}")
