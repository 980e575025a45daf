"""Messages of one key in their order, for a consumer that reads ahead.

A message that failed or was given back comes again; later ones of its key that are in hand by then would overtake it.
So they are not handed out but given back as well, and the broker, which knows of the failure now, holds them back.

What must stay true: a message is handed out only if each earlier one of its key that is to come again has come again,
or if the broker knew of it before the message was asked for.
"""

from collections import deque
from collections.abc import Iterable

from goqueue.client.delivered import Delivered
from goqueue.client.intervals import Range
from goqueue.client.lease import RELEASE, Held, Note

Key = tuple[str, int, bytes]
"""Of one partition of a topic."""

_NEVER = float("inf")


class KeyOrder:
    """Which keys wait for what. Whoever calls it holds the lock that guards the leases."""

    def __init__(self) -> None:
        self.polls = 0
        """So many times it was asked for messages."""
        self._awaited: dict[Key, dict[int, float]] = {}
        """The offsets that are to come again, each with the last poll that the broker may have answered without
        knowing of it."""
        self._known: deque[tuple[int, Key, int]] = deque()
        """Those that the broker knows of, in the order of these polls."""

    def left(self, held: Held, ranges: Iterable[Range]) -> None:
        """These messages are to come again."""
        for key, offset in _keyed(held, ranges):
            self._awaited.setdefault(key, {})[offset] = _NEVER

    def told(self, held: Held, ranges: Iterable[Range]) -> None:
        """The broker knows of that, or has refused to: whatever is asked for from now on is in order."""
        for key, offset in _keyed(held, ranges):
            awaited = self._awaited.get(key, {})
            if awaited.get(offset) == _NEVER:
                awaited[offset] = self.polls
                self._known.append((self.polls, key, offset))

    def sift(self, held: Held, messages: list[Delivered]) -> list[Delivered]:
        """Those of a lease that may be handed out now; the others are given back."""
        self._forget(held.asked)
        if not self._awaited:
            return messages
        kept = []
        for message in messages:
            if self._must_wait(held, message):
                held.noted.append(Note(RELEASE, message.offset, message.offset + 1))
            else:
                kept.append(message)
        held.fold()
        return kept

    def _must_wait(self, held: Held, message: Delivered) -> bool:
        offset, key = message.offset, (message.topic, message.partition, message.key or b"")
        awaited = self._awaited.get(key)
        if not awaited:
            return False
        if any(one < offset and held.asked <= until for one, until in awaited.items()):
            return True
        awaited.pop(offset, None)  # it has come again
        if not awaited:
            del self._awaited[key]
        return False

    def _forget(self, asked: int) -> None:
        """Answers are read in their order: nothing comes any more that was asked for before."""
        while self._known and self._known[0][0] < asked:
            until, key, offset = self._known.popleft()
            awaited = self._awaited.get(key, {})
            if awaited.get(offset) == until:
                del awaited[offset]
                if not awaited:
                    del self._awaited[key]


def _keyed(held: Held, ranges: Iterable[Range]) -> Iterable[tuple[Key, int]]:
    leased = held.leased
    for first, end in ranges:
        for offset in range(first, end):
            key = held.keys.get(offset)
            if key:
                yield (leased.topic, leased.partition, key), offset
