"""Frames that are about to become text."""

from collections.abc import Iterable, Iterator

from goqueue.limits import KIB
from goqueue.storage import frame

_TOLD_AT_ONCE = 100
_BYTES_TOLD_AT_ONCE = 64 * KIB
"""What is turned into text on the loop; more is given to a thread, so that others are not kept waiting."""


def starts(buffer: memoryview) -> Iterator[int]:
    """Where each frame starts; they have been verified."""
    position = 0
    while position < len(buffer):
        yield position
        position += frame.measure(buffer, position)


def is_brief(count: int, buffers: Iterable[memoryview]) -> bool:
    """Whether turning them into text takes so little that it may be done on the loop."""
    views = tuple(buffers)
    if count > _TOLD_AT_ONCE or sum(map(len, views)) > _BYTES_TOLD_AT_ONCE:
        return False
    return not any(view[position + frame.AT_FLAGS] & frame.COMPRESSED for view in views for position in starts(view))
