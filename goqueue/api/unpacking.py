"""How much compressed values may come to while answers are made: in one request, and in all of them together.

A value of some hundred bytes may be 16 MiB once it is unpacked. What must stay true: a request unpacks at most
`READ_BYTES_MAX` and one value more, and all requests together hold at most `UNPACKED_BYTES` and one value more each.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from goqueue.compression import decompress, unpacked_size
from goqueue.errors import BrokerOverloaded, FrameInvalid
from goqueue.limits import READ_BYTES_MAX, UNPACKED_BYTES
from goqueue.quantities import format_size
from goqueue.storage import frame


class UnpackedMemory:
    """What the answers of all requests hold of unpacked values. Any thread may use it."""

    def __init__(self, bytes_max: int = UNPACKED_BYTES) -> None:
        self.held = 0
        self._bytes_max = bytes_max
        self._lock = Lock()

    @contextmanager
    def budget(self) -> Iterator["UnpackBudget"]:
        """The budget of one request, given back when its answer is made."""
        budget = UnpackBudget(self)
        try:
            yield budget
        finally:
            with self._lock:
                self.held -= budget.taken

    def take(self, size: int) -> None:
        """Hold more, or BrokerOverloaded."""
        with self._lock:
            if not self.held or self.held + size <= self._bytes_max:
                self.held += size
                return
        raise BrokerOverloaded(
            f"answers to other requests hold {format_size(self.held)} of unpacked values, "
            f"at most {format_size(self._bytes_max)} are allowed",
            hint="read again in a moment, or less at once",
            retry_after=1,
        )


class UnpackBudget:
    """What one request has unpacked."""

    def __init__(self, memory: UnpackedMemory, bytes_max: int = READ_BYTES_MAX) -> None:
        self.taken = 0
        self._memory = memory
        self._bytes_max = bytes_max

    def has_room_for(self, message: frame.Message) -> bool:
        """Whether the value may be unpacked still. For the first one there always is room."""
        if not message.flags & frame.COMPRESSED or not self.taken:
            return True
        return self.taken + max(1, unpacked_size(message.value)) <= self._bytes_max

    def content_of(self, message: frame.Message) -> bytes | None:
        """The value without compression; None where it cannot be unpacked. BrokerOverloaded where all have too much."""
        if not message.flags & frame.COMPRESSED:
            return message.value
        expected = max(0, unpacked_size(message.value))
        self._memory.take(expected)
        self.taken += expected
        try:
            content = decompress(message.value)
        except FrameInvalid:
            return None
        if (more := len(content) - expected) > 0:  # of a value that does not say how large it is
            self._memory.take(more)
            self.taken += more
        return content

    def content_if_room(self, message: frame.Message) -> bytes | None:
        """The same; None, too, where there is no room."""
        return self.content_of(message) if self.has_room_for(message) else None
