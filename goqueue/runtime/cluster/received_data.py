"""Frames that a leader has sent, checked before they get into the log of a follower."""

from collections.abc import Callable
from functools import partial

import numpy as np

from goqueue.cluster.epoch_index import EpochRow
from goqueue.cluster.replication_messages import DataHeader
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.peer_tls import PeerFailure
from goqueue.storage import frame, scan
from goqueue.storage.epoch_frame import decode_epoch_frame, epoch_messages
from goqueue.storage.log import Log
from goqueue.storage.scan import Frames


def check_data(content: memoryview, data: DataHeader, last_time: int, node: str) -> Frames:
    """Return the frames of a leader; raise PeerFailure unless all are sound, in order, and those of the header."""
    buffer = np.frombuffer(bytearray(content) if content.readonly else content, np.uint8)
    frames = scan.walk(buffer)
    is_whole = len(frames) > 0 and frames.end == len(buffer) and scan.verify(frames) == len(frames)
    if not is_whole or scan.in_order(frames, data.base - 1, last_time) < len(frames) or frames.last_offset >= data.end:
        raise PeerFailure(f"node {node} sent data of {data.log} from offset {data.base} on that is not sound")
    if not data.has_gaps and frames.last_offset - data.base + 1 != len(frames):
        raise PeerFailure(f"node {node} sent data of {data.log} from offset {data.base} on with a gap")
    return frames


def append_data(log: Log, frames: Frames, free: Callable[..., None], *, has_gaps: bool) -> None:
    """Append checked frames; `free` is called with the size of what is stored or was not taken."""
    size = len(frames.buffer)  # of what the log has not taken
    try:
        for piece in dense_pieces(frames) if has_gaps else (frames,):
            log.append_stamped(piece, partial(free, len(piece.buffer)))
            size -= len(piece.buffer)
    except GoQueueError:
        free(size)
        raise


def dense_pieces(frames: Frames) -> list[Frames]:
    """Split frames where offsets are left out."""
    offsets = frames.offsets
    cuts = (np.flatnonzero(np.diff(offsets) != 1) + 1).tolist()
    if not cuts:
        return [frames]
    edges = [*frames.positions.tolist(), frames.end]
    pieces = []
    for first, last in zip([0, *cuts], [*cuts, len(frames)], strict=True):
        start, end = edges[first], edges[last]
        positions = frames.positions[first:last] - start
        pieces.append(Frames(frames.buffer[start:end], positions, frames.lengths[first:last], end - start))
    return pieces


def epochs_in(frames: Frames) -> tuple[EpochRow, ...]:
    if not frames.flags_of_any & frame.CONTROL:
        return ()
    return tuple((decode_epoch_frame(message).epoch, message.offset) for message in epoch_messages(frames))
