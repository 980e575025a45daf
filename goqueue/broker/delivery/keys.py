"""Messages of one key in their order: a later one waits while an earlier one is tried again.

Which keys those are is read from the messages themselves, and forgotten with the process: it is as much as there
are exceptions.
"""

from collections import deque
from collections.abc import Set
from functools import partial
from heapq import heapify, heappop, heappush

from goqueue.broker.delivery.changes import Place, Range, Retry
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.view import View
from goqueue.broker.work import Work
from goqueue.errors import OffsetOutOfRange
from goqueue.limits import MIB
from goqueue.storage import frame
from goqueue.storage.extent import Read

_NO_KEY = b""


class _Exceptions:
    """Those of one place, as they were at one revision of its cursor, and what was handed out since."""

    __slots__ = ("cursor", "keys", "queues", "ready", "revision")

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        """One that comes in its stead may be of another topic, or not know what this one knew."""
        self.revision = -1
        self.keys: dict[int, bytes] = {}
        self.queues: dict[bytes, deque[int]] = {}
        """The exceptions of each key, the one that all others wait for first."""
        self.ready: list[tuple[int, int, int]] = []
        """When which message that waits for nobody is due, and how often it has failed, as a heap."""

    def arrange(self) -> None:
        """Work out who waits for whom, once all keys are known."""
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

    def next(self, now_ns: int) -> tuple[Range, Retry] | None:
        while self.ready and self.ready[0][0] <= now_ns:
            due_ns, offset, failures = self.ready[0]
            retry = self.cursor.waiting.get(offset)
            if retry is not None and retry.due_ns == due_ns:
                return (offset, offset + 1), retry
            heappop(self.ready)
            if not failures:  # one that has failed keeps the others waiting until it is done
                self._follow(offset)
        return None

    def _follow(self, offset: int) -> None:
        """It was handed out, and nobody waits for it any more: the next one of its key may go."""
        queue = self.queues.get(self.keys[offset])
        if queue:
            queue.popleft()
        if queue and (retry := self.cursor.waiting.get(queue[0])) is not None:
            heappush(self.ready, (retry.due_ns, queue[0], retry.failures))


class KeyOrder:
    """The keys of all messages that others may have to wait for."""

    def __init__(self) -> None:
        self._exceptions: dict[str, dict[Place, _Exceptions]] = {}

    def forget(self, group: str) -> None:
        """It is gone."""
        self._exceptions.pop(group, None)

    def blocked(self, cursor: Cursor, view: View) -> Work[dict[bytes, int]]:
        """For each key the first message that is being tried again, or is held back: later ones wait for it."""
        exceptions = yield from self._look(cursor, view)
        return {key: queue[0] for key, queue in exceptions.queues.items()}

    def next_retry(self, cursor: Cursor, view: View, now_ns: int) -> Work[tuple[Range, Retry] | None]:
        """The first message that is due and waits for nobody: a key at a time, so one by one."""
        due = cursor.next_due()
        if due is None or due[0] > now_ns:
            return None
        exceptions = self._exceptions.get(cursor.group, {}).get(cursor.place)
        if exceptions is None or exceptions.cursor is not cursor or exceptions.revision != cursor.revision:
            exceptions = yield from self._look(cursor, view)
        return exceptions.next(now_ns)

    def _look(self, cursor: Cursor, view: View) -> Work[_Exceptions]:
        """All exceptions as they are now; keys that are not known yet are read."""
        places = self._exceptions.setdefault(cursor.group, {})
        found = places.get(cursor.place)
        if found is None or found.cursor is not cursor:
            found = places[cursor.place] = _Exceptions(cursor)
        while missing := self._missing(found):
            found.keys |= yield from _keys_of(view, missing)
        found.arrange()
        if not found.keys:
            places.pop(cursor.place, None)
            if not places:
                self._exceptions.pop(cursor.group, None)
        return found

    def _missing(self, found: _Exceptions) -> list[Range]:
        """Those whose keys are to be looked up; the keys of those that are none any more are forgotten."""
        cursor, known = found.cursor, found.keys
        ranges = [(first, end) for first, end, _ in cursor.waiting.runs()]
        for lease in cursor.leases.values():
            if lease.grant.failures:
                ranges += lease.ranges()
        ranges += [(first, end) for first, end, pledge in cursor.pledged.runs() if pledge.tried.failures]
        offsets = {offset for first, end in ranges for offset in range(first, end)}
        found.keys = {offset: key for offset, key in known.items() if offset in offsets}
        if len(found.keys) == len(offsets):
            return []
        return [(first, end) for first, end in ranges if any(one not in known for one in range(first, end))]


def _keys_of(view: View, ranges: list[Range]) -> Work[dict[int, bytes]]:
    """By offset; an offset without a message has no key. What lies close together is read together: among lanes there
    are as many ranges as messages."""
    found = {offset: _NO_KEY for first, end in ranges for offset in range(first, end)}
    offset = 0
    for first, end in sorted(ranges):
        offset = max(offset, first, view.earliest)
        while offset < min(end, view.end):
            try:
                read: Read = yield from view.read(offset, MIB, skip_damage=True)
            except OffsetOutOfRange:
                break
            found |= yield partial(_keys_in, read, found.keys())
            offset = read.next_offset
    return found


def _keys_in(read: Read, offsets: Set[int]) -> dict[int, bytes]:
    found = {}
    for buffer in read.buffers:
        for position in frame.walk(buffer):
            offset = frame.offset_at(buffer, position)
            if offset in offsets:
                found[offset] = frame.key_at(buffer, position)
    return found
