"""Deadlines: callbacks that run at a given time. Each checks what is due and returns when to run again."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from goqueue.events import Signal

_STALE_ENTRIES_MAX = 64  # in the heap, before it is rebuilt

DeadlineCallback = Callable[[Any], int | None]

Key = str | tuple[Any, ...]
"""What a deadline is for: a subject, or a tuple that begins with its subject."""


class Deadlines:
    """Callbacks by time, each with a key. For one callback and key, only the earliest deadline counts."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Key]] = []
        self._callbacks: list[DeadlineCallback] = []
        self._armed: dict[tuple[int, Key], int] = {}
        self._by_subject: dict[str, set[tuple[int, Key]]] = {}
        """The armed deadlines with a tuple as their key, by subject."""
        self.on_earlier: Signal[[int]] = Signal()
        """Emitted with the time of a deadline that comes before all others."""

    def kind(self, callback: DeadlineCallback) -> int:
        self._callbacks.append(callback)
        return len(self._callbacks) - 1

    def add(self, when_ns: int, kind: int, key: Key) -> None:
        """Call back at this time; an earlier deadline for the same key stays."""
        armed = self._armed.get((kind, key))
        if armed is None or when_ns < armed:
            self._armed[kind, key] = when_ns
            if armed is None and isinstance(key, tuple):
                self._by_subject.setdefault(key[0], set()).add((kind, key))
            is_first = not self._heap or when_ns < self._heap[0][0]
            self._push(when_ns, kind, key)
            if is_first:
                self.on_earlier.emit(when_ns)

    def forget(self, subject: str) -> None:
        for armed in self._by_subject.pop(subject, ()):
            del self._armed[armed]
        for kind in range(len(self._callbacks)):
            self._armed.pop((kind, subject), None)

    def clear(self) -> None:
        self._heap.clear()
        self._armed.clear()
        self._by_subject.clear()

    def _push(self, when_ns: int, kind: int, key: Key) -> None:
        """Add a heap entry. Entries become stale when a deadline moves or is dropped; many are swept out at once."""
        if len(self._heap) > 2 * len(self._armed) + _STALE_ENTRIES_MAX:
            self._heap = [(moment, number, name) for (number, name), moment in self._armed.items()]
            heapify(self._heap)
        else:
            heappush(self._heap, (when_ns, kind, key))

    def _disarm(self, kind: int, key: Key) -> None:
        del self._armed[kind, key]
        armed = self._by_subject.get(key[0]) if isinstance(key, tuple) else None
        if armed is not None:
            armed.discard((kind, key))
            if not armed:
                del self._by_subject[key[0]]

    @property
    def next_ns(self) -> int | None:
        while self._heap:
            when_ns, kind, key = self._heap[0]
            if self._armed.get((kind, key)) == when_ns:
                return when_ns
            heappop(self._heap)  # stale
        return None

    def call_due(self, now_ns: int, most: int | None = None) -> None:
        """Run what is due, or at most so many callbacks; the rest stays due."""
        for _ in count() if most is None else range(most):
            if (when_ns := self.next_ns) is None or when_ns > now_ns:
                return
            _, kind, key = heappop(self._heap)
            self._disarm(kind, key)
            again = self._callbacks[kind](key)
            if again is not None:
                self.add(max(again, now_ns + 1), kind, key)

    def __repr__(self) -> str:
        return f"<Deadlines {len(self._armed)} next {self.next_ns}>"
