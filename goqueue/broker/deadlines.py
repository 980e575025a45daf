"""What is due when. Whoever is called looks whether there is anything to do, and says when to be called again."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

_SPARE = 64  # entries that are no longer true, before they are swept out

Call = Callable[[str], int | None]


class Deadlines:
    """Calls by time, each with a key; a call that was put in earlier for the same key stands.

    A key begins with whom it is about, up to the first slash.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, str, int]] = []
        self._calls: list[Call] = []
        self._armed: dict[tuple[int, str], int] = {}
        self._about: dict[str, set[tuple[int, str]]] = {}
        """What is armed for more than the one it is about, by whom that is."""
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
            if armed is None and "/" in key:
                self._about.setdefault(_whom(key), set()).add((kind, key))
            is_first = not self._heap or when_ns < self._heap[0][0]
            self._push(when_ns, kind, key)
            if is_first:
                self.on_earlier(when_ns)

    def forget(self, whom: str) -> None:
        """Nothing is to be called any more that is about this one."""
        for armed in self._about.pop(whom, ()):
            del self._armed[armed]
        for kind in range(len(self._calls)):
            self._armed.pop((kind, whom), None)

    def _push(self, when_ns: int, kind: int, key: str) -> None:
        """Calls are mostly brought forward, or forgotten; now and then what is left of those is swept out."""
        if len(self._heap) > 2 * len(self._armed) + _SPARE:
            self._heap = [(moment, name, number) for (number, name), moment in self._armed.items()]
            heapify(self._heap)
        else:
            heappush(self._heap, (when_ns, key, kind))

    def _disarm(self, kind: int, key: str) -> None:
        del self._armed[kind, key]
        about = self._about.get(whom := _whom(key)) if "/" in key else None
        if about is not None:
            about.discard((kind, key))
            if not about:
                del self._about[whom]

    @property
    def next_ns(self) -> int | None:
        while self._heap:
            when_ns, key, kind = self._heap[0]
            if self._armed.get((kind, key)) == when_ns:
                return when_ns
            heappop(self._heap)  # an earlier one was put in its place, and has been called
        return None

    def call_due(self, now_ns: int, most: int | None = None) -> None:
        """All that is due by now, or so much of it; what is left is due still."""
        for _ in count() if most is None else range(most):
            if (when_ns := self.next_ns) is None or when_ns > now_ns:
                return
            _, key, kind = heappop(self._heap)
            self._disarm(kind, key)
            again = self._calls[kind](key)
            if again is not None:
                self.add(max(again, now_ns + 1), kind, key)

    def __repr__(self) -> str:
        return f"<Deadlines {len(self._armed)} next {self.next_ns}>"


def _whom(key: str) -> str:
    return key.partition("/")[0]
