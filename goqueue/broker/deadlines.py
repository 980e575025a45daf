"""What is due when. Whoever is called looks whether there is anything to do, and says when to be called again."""

from collections.abc import Callable
from heapq import heappop, heappush

Call = Callable[[str], int | None]


class Deadlines:
    """Calls by time, each with a key; a call that was put in earlier for the same key stands."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str, int]] = []
        self._calls: list[Call] = []
        self._armed: dict[tuple[int, str], int] = {}
        self.on_earlier: Callable[[int], None] = lambda _: None
        """Called with the moment of a deadline that comes before all others."""

    def kind(self, call: Call) -> int:
        """Register what is called; returns its number."""
        self._calls.append(call)
        return len(self._calls) - 1

    def add(self, when_ns: int, kind: int, key: str) -> None:
        """Call then, or before, if that was asked for already."""
        armed = self._armed.get((kind, key))
        if armed is None or when_ns < armed:
            self._armed[kind, key] = when_ns
            is_first = not self._heap or when_ns < self._heap[0][0]
            heappush(self._heap, (when_ns, key, kind))
            if is_first:
                self.on_earlier(when_ns)

    @property
    def next_ns(self) -> int | None:
        while self._heap:
            when_ns, key, kind = self._heap[0]
            if self._armed.get((kind, key)) == when_ns:
                return when_ns
            heappop(self._heap)  # an earlier one was put in its place, and has been called
        return None

    def call_due(self, now_ns: int) -> None:
        while (when_ns := self.next_ns) is not None and when_ns <= now_ns:
            _, key, kind = heappop(self._heap)
            del self._armed[kind, key]
            again = self._calls[kind](key)
            if again is not None:
                self.add(max(again, now_ns + 1), kind, key)

    def __repr__(self) -> str:
        return f"<Deadlines {len(self._armed)} next {self.next_ns}>"
