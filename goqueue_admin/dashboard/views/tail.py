"""Messages as they come: the newest some ten thousand of them, and how many more there were."""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.console.terminal import visible
from goqueue.quantities import format_size
from goqueue_admin.dashboard.views import numbers

if TYPE_CHECKING:
    from goqueue.client import Message

RING_LINES = 50_000
PREVIEW_BYTES = 400
"""Of a value that are kept for its line; whoever opens the message gets all of it from the broker."""


class Seen(NamedTuple):
    """One message, as its line needs it."""

    partition: int
    offset: int
    time_ns: int
    key: bytes | None
    value: bytes | None
    size: int


def seen(message: "Message") -> Seen:
    value, key = message.value, message.key
    return Seen(
        message.partition,
        message.offset,
        message.timestamp_ns,
        key[:PREVIEW_BYTES] if key else key,
        value[:PREVIEW_BYTES] if value else value,
        len(value or b""),
    )


class Ring:
    """The newest lines. A line has one number for all time, from 0 up; `first` is the oldest that is still there."""

    def __init__(self, most: int = RING_LINES) -> None:
        self._lines: list[Seen] = []
        self._most = most
        self.end = 0

    @property
    def first(self) -> int:
        return max(0, self.end - self._most)

    def __len__(self) -> int:
        return self.end - self.first

    def add(self, lines: Iterable[Seen]) -> None:
        for line in lines:
            if self.end < self._most:
                self._lines.append(line)
            else:
                self._lines[self.end % self._most] = line
            self.end += 1

    def __getitem__(self, number: int) -> Seen:
        if not self.first <= number < self.end:
            raise IndexError(f"line {number} is not among {self.first} to {self.end}")
        return self._lines[number % self._most]

    def clear(self) -> None:
        self._lines.clear()
        self.end = 0


class Pace:
    """How many of something happened in each second of the last few."""

    def __init__(self) -> None:
        self.total = 0
        self._marks: deque[tuple[int, int]] = deque([(0, 0)], maxlen=32)

    def add(self, count: int) -> None:
        self.total += count

    def mark(self, now_ns: int) -> None:
        self._marks.append((now_ns, self.total))

    @property
    def per_second(self) -> float:
        """Over the last second or so that was marked."""
        now, total = self._marks[-1]
        then, before = next(
            (mark for mark in reversed(self._marks) if mark[0] and now - mark[0] >= NANOSECONDS), self._marks[0]
        )
        passed = now - then
        return (total - before) * NANOSECONDS / passed if then and passed else 0.0


def told(received: Pace, shown: Pace, scanned: int | None) -> str:
    """What comes, what of it is seen, and what is passed over."""
    if scanned is not None:
        return f"{received.total:,} of {scanned:,} fit"
    dropped = received.total - shown.total
    if not dropped:
        return f"{received.total:,} shown, {numbers.count(received.per_second)}/s"
    pace = f"shown {numbers.count(shown.per_second)}/s of {numbers.count(received.per_second)}/s"
    return f"{pace}, dropped {numbers.short(dropped)}"


def text(content: bytes | None) -> str:
    """On one line, with everything visible that a terminal would obey. What is no text is shown as bytes."""
    if content is None:
        return numbers.NOTHING
    try:
        return visible(content.decode())
    except UnicodeDecodeError as error:
        if error.start >= len(content) - 3:  # the preview ends inside a character
            return visible(content[: error.start].decode())
        return f"0x{content.hex()}"


class Cells(NamedTuple):
    time: str
    partition: str
    offset: str
    key: str
    value: str
    is_tombstone: bool


def cells(line: Seen) -> Cells:
    is_tombstone = line.value is None
    value = "(tombstone)" if is_tombstone else text(line.value) if line.value else f"({format_size(0)})"
    return Cells(
        numbers.moment(line.time_ns), str(line.partition), str(line.offset), text(line.key), value, is_tombstone
    )
