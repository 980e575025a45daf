"""Messages of one key in their order: a later one waits while an earlier one is tried again.

Which keys those are is read from the messages themselves, and forgotten with the process: it is as much as there
are exceptions.
"""

from functools import partial

from goqueue.broker.delivery.changes import Place, Range, Retry
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.partition import Partition
from goqueue.broker.work import Work
from goqueue.errors import OffsetOutOfRange
from goqueue.limits import MIB
from goqueue.storage import frame
from goqueue.storage.extent import Read

_NO_KEY = b""


class KeyOrder:
    """The keys of all messages that others may have to wait for."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, Place], dict[int, bytes]] = {}

    def blocked(self, cursor: Cursor, partition: Partition) -> Work[dict[bytes, int]]:
        """For each key the first message that is being tried again, or is held back: later ones wait for it."""
        name = (cursor.group, cursor.place)
        while missing := self._missing(cursor):
            known = self._keys.setdefault(name, {})
            for first, end in missing:
                known |= yield from _keys_of(partition, first, end)
        found: dict[bytes, int] = {}
        for offset, key in sorted(self._keys.get(name, {}).items()):
            if key:
                found.setdefault(key, offset)
        return found

    def _missing(self, cursor: Cursor) -> list[Range]:
        """Exceptions whose keys are to be looked up; the keys of those that are none any more are forgotten."""
        name = (cursor.group, cursor.place)
        exceptions = [(first, end) for first, end, _ in cursor.waiting.runs()]
        for lease in cursor.leases.values():
            if lease.grant.failures:
                exceptions += lease.ranges()
        known = self._keys.get(name, {})
        if not exceptions:
            self._keys.pop(name, None)
            return []
        offsets = {offset for first, end in exceptions for offset in range(first, end)}
        self._keys[name] = {offset: key for offset, key in known.items() if offset in offsets}
        return [(first, end) for first, end in exceptions if any(one not in known for one in range(first, end))]

    def next_retry(self, cursor: Cursor, partition: Partition, now_ns: int) -> Work[tuple[Range, Retry] | None]:
        """The first message that is due and waits for nobody: a key at a time, so one by one."""
        if not any(retry.due_ns <= now_ns for _, _, retry in cursor.waiting.runs()):
            return None
        blocked = yield from self.blocked(cursor, partition)
        known = self._keys.get((cursor.group, cursor.place), {})
        for first, end, retry in cursor.waiting.runs():
            if retry.due_ns <= now_ns:
                for offset in range(first, end):
                    key = known.get(offset, _NO_KEY)
                    if not key or blocked[key] == offset:
                        return (offset, offset + 1), retry
        return None


def _keys_of(partition: Partition, first: int, end: int) -> Work[dict[int, bytes]]:
    """By offset; an offset without a message has no key."""
    found = dict.fromkeys(range(first, end), _NO_KEY)
    offset = max(first, partition.earliest)
    while offset < min(end, partition.last_stable):
        try:
            read: Read = yield from partition.read(offset, MIB, skip_damage=True)
        except OffsetOutOfRange:
            break
        found |= yield partial(_keys_in, read, range(first, end))
        offset = read.next_offset
    return found


def _keys_in(read: Read, offsets: range) -> dict[int, bytes]:
    found = {}
    for buffer in read.buffers:
        for position in frame.walk(buffer):
            offset = frame.offset_at(buffer, position)
            if offset in offsets:
                found[offset] = frame.key_at(buffer, position)
    return found
