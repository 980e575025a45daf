"""The lifecycle of a log."""

from enum import IntEnum


class LogStage(IntEnum):
    """The lifecycle of a log; it never goes back. A fence is separate: reading the disk again lifts it."""

    OPEN = 0
    STOPPING = 1  # appends are refused, what waits is still written
    CLOSED = 2  # nothing is read or written any more
    RELEASED = 3  # the flusher has none of its files open
