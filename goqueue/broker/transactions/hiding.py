"""A read without the messages that were aborted: what is left are views around them."""

from functools import partial
from itertools import pairwise

import numpy as np

from goqueue.broker.work import Work
from goqueue.limits import KIB
from goqueue.storage import frame, scan
from goqueue.storage.aborted import Aborted
from goqueue.storage.extent import Read

_VIEWS_MAX = 16  # in place of one buffer: more are copied into one, since each costs whoever sends it
_BRIEF_BYTES = 64 * KIB  # looked through at once; more than that is a job


def hidden(read: Read, aborted: Aborted) -> Work[Read]:
    """What is left for those who read what is committed. Nothing is, where there are control records only."""
    job = partial(_hidden, read, aborted)
    found: Read = job() if read.size <= _BRIEF_BYTES else (yield job)
    return found


def _hidden(read: Read, aborted: Aborted) -> Read:
    edges = [*map(frame.offset_at, read.buffers), read.next_offset]
    pieces = zip(read.buffers, pairwise(edges), strict=True)
    buffers = tuple(part for buffer, (first, end) in pieces for part in _parts(buffer, aborted, first, end))
    if any(map(has_message, buffers)):
        return Read(buffers, read.next_offset, read.skipped)
    return Read((), aborted.behind(read.next_offset), read.skipped)


def _parts(buffer: memoryview, aborted: Aborted, first: int, end: int) -> list[memoryview]:
    """The views around what is aborted in a buffer with such offsets."""
    if aborted.is_clean(first, end):
        return [buffer]
    frames = scan.walk(buffer)
    stays = ~aborted.mask(frames)
    if stays.all():
        return [buffer]
    edges = np.flatnonzero(np.diff(stays, prepend=False, append=False)).reshape(-1, 2)
    bounds = np.append(frames.positions, frames.end)
    parts = [buffer[bounds[first] : bounds[end]] for first, end in edges.tolist()]
    return parts if len(parts) <= _VIEWS_MAX else [memoryview(b"".join(parts))]


def begins_with_message(read: Read) -> bool:
    return bool(read.buffers) and not read.buffers[0][frame.AT_FLAGS] & frame.CONTROL


def has_message(buffer: memoryview) -> bool:
    """Whether not all of it are control records. Mostly the first frame says so."""
    if not buffer[frame.AT_FLAGS] & frame.CONTROL:
        return True
    return not (scan.walk(buffer).flags & frame.CONTROL).all()
