"""Key order: a message waits while an earlier one of its key is retried.

The keys are read from the messages and are not recorded. Memory grows with the number of retried and held back
messages.
"""

from collections import deque
from collections.abc import Set
from functools import partial
from heapq import heapify, heappop, heappush

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.view import PartitionView
from goqueue.broker.core.work import Work
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.records import Range, RetryState
from goqueue.errors import OffsetOutOfRange
from goqueue.limits import MIB
from goqueue.storage import frame
from goqueue.storage.reads import ReadResult

_NO_KEY = b""


class _BlockingMessages:
    """The blocking messages of one cursor at one revision, and what was delivered since."""

    __slots__ = ("cursor", "keys", "queues", "ready", "revision")

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        """Compared by identity: a cursor that reby_ref it may be of another topic."""
        self.revision = -1
        self.keys: dict[int, bytes] = {}
        self.queues: dict[bytes, deque[int]] = {}
        """The blocking messages of each key, the first of which blocks the others."""
        self.ready: list[tuple[int, int, int]] = []
        """Unblocked messages as a heap: due time, offset, failures."""

    def arrange(self) -> None:
        """Compute which messages are blocked, once all keys are known."""
        waiting = self.cursor.waiting
        self.revision, self.queues, self.ready = self.cursor.revision, {}, []
        for offset in sorted(self.keys):
            key = self.keys[offset]
            if key:
                queue = self.queues.setdefault(key, deque())
                queue.append(offset)
                if len(queue) > 1:
                    continue
            if (retry := waiting.get(offset)) is not None:
                self.ready.append((retry.due_ns, offset, retry.failures))
        heapify(self.ready)

    def next(self, now_ns: int) -> tuple[Range, RetryState] | None:
        while self.ready and self.ready[0][0] <= now_ns:
            due_ns, offset, failures = self.ready[0]
            retry = self.cursor.waiting.get(offset)
            if retry is not None and retry.due_ns == due_ns:
                return (offset, offset + 1), retry
            heappop(self.ready)
            if not failures:  # a failed message blocks its key until it is settled
                self._unblock_next(offset)
        return None

    def _unblock_next(self, offset: int) -> None:
        """Unblock the next message of the key after one that was delivered."""
        queue = self.queues.get(self.keys[offset])
        if queue:
            queue.popleft()
        if queue and (retry := self.cursor.waiting.get(queue[0])) is not None:
            heappush(self.ready, (retry.due_ns, queue[0], retry.failures))


class KeyOrderTracker:
    """The keys of all messages that may block later ones."""

    def __init__(self) -> None:
        self._blocking: dict[str, dict[PartitionRef, _BlockingMessages]] = {}

    def forget(self, group: str) -> None:
        self._blocking.pop(group, None)

    def blocked(self, cursor: Cursor, view: PartitionView) -> Work[dict[bytes, int]]:
        blocking = yield from self._update(cursor, view)
        return {key: queue[0] for key, queue in blocking.queues.items()}

    def next_retry(self, cursor: Cursor, view: PartitionView, now_ns: int) -> Work[tuple[Range, RetryState] | None]:
        """Return the first due message that is not blocked."""
        due = cursor.waiting.next_due()
        if due is None or due[0] > now_ns:
            return None
        blocking = self._blocking.get(cursor.group, {}).get(cursor.ref)
        if blocking is None or blocking.cursor is not cursor or blocking.revision != cursor.revision:
            blocking = yield from self._update(cursor, view)
        return blocking.next(now_ns)

    def _update(self, cursor: Cursor, view: PartitionView) -> Work[_BlockingMessages]:
        """Return the current blocking messages; read the keys that are not known."""
        by_ref = self._blocking.setdefault(cursor.group, {})
        found = by_ref.get(cursor.ref)
        if found is None or found.cursor is not cursor:
            found = by_ref[cursor.ref] = _BlockingMessages(cursor)
        while missing := self._missing(found):
            found.keys |= yield from _keys_of(view, missing)
        found.arrange()
        if not found.keys:
            by_ref.pop(cursor.ref, None)
            if not by_ref:
                self._blocking.pop(cursor.group, None)
        return found

    def _missing(self, found: _BlockingMessages) -> list[Range]:
        """Return the ranges whose keys must be read, and drop keys that are not needed any more."""
        cursor, known = found.cursor, found.keys
        ranges = [(first, end) for first, end, _ in cursor.waiting.runs()]
        for lease in cursor.leases.values():
            if lease.grant.failures:
                ranges += lease.ranges()
        ranges += [(first, end) for first, end, ack in cursor.transactional.runs() if ack.history.failures]
        offsets = {offset for first, end in ranges for offset in range(first, end)}
        found.keys = {offset: key for offset, key in known.items() if offset in offsets}
        if len(found.keys) == len(offsets):
            return []
        return [(first, end) for first, end in ranges if any(one not in known for one in range(first, end))]


def _keys_of(view: PartitionView, ranges: list[Range]) -> Work[dict[int, bytes]]:
    """Return keys by offset; an offset without a message has no key. Ranges close together are read together."""
    found = {offset: _NO_KEY for first, end in ranges for offset in range(first, end)}
    offset = 0
    for first, end in sorted(ranges):
        offset = max(offset, first, view.earliest)
        while offset < min(end, view.end):
            try:
                read: ReadResult = yield from view.read(offset, MIB, skip_damage=True)
            except OffsetOutOfRange:
                break
            found |= yield partial(_keys_in, read, found.keys())
            offset = read.next_offset
    return found


def _keys_in(read: ReadResult, offsets: Set[int]) -> dict[int, bytes]:
    found = {}
    for buffer in read.buffers:
        for position in frame.walk(buffer):
            offset = frame.offset_at(buffer, position)
            if offset in offsets:
                found[offset] = frame.key_at(buffer, position)
    return found
