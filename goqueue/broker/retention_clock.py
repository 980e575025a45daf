"""How far the wall clock is believed when it decides what is old enough to be removed.

A clock that is set ahead makes everything look old. So after a jump forward, for one hour, only what is old without the
jump is removed freely, and of the rest at most a share of each topic. Monotonic time shows a jump of a running
broker. At a start, what the directory last knew of the time is all there is: a long downtime looks like a jump, and is
taken for one.

The owner's duty: have `look` called more often than the clock may go wrong by much, and before anything is removed.
"""

from dataclasses import dataclass
from functools import partial

from goqueue.broker.work import Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import CLOCK_DOUBT_SECONDS, CLOCK_JUMP_SECONDS
from goqueue.storage.disk import Disk, discard, read_all
from goqueue.storage.note import decode_note, write_note

NOTE = "clock"
"""The file in the data directory that says how much of the time is in doubt."""
_JUMP_NS = round(CLOCK_JUMP_SECONDS * NANOSECONDS)
_DOUBT_NS = round(CLOCK_DOUBT_SECONDS * NANOSECONDS)


@dataclass(slots=True)
class Allowance:
    """What retention may still remove of one topic for its age while the clock is in doubt."""

    bytes_left: int
    is_used_up: bool = False
    """Whether something stayed because of it."""


class RetentionClock:
    """Wall time, and how much of it is in doubt."""

    def __init__(self, clock: Clock, percent: int, *, last_seen_ns: int = 0, ahead_ns: int = 0) -> None:
        """`percent` of a topic may go although its age is in doubt; 100 believes every clock.

        `last_seen_ns` is the last moment that the data directory knows of. `ahead_ns` is what was in doubt when the
        process before this one ended: it may have used its share, so no other is granted in this doubt.
        """
        self._clock = clock
        self.percent = percent
        self._offset_ns = self._steady_ns = clock.now_ns() - clock.monotonic_ns()
        """Wall time less monotonic time: as it was seen last, and as it would be without the jumps in doubt."""
        self._start_ns = 0
        """What is in doubt since the start."""
        self._until_ns: int | None = None
        self._allowances: dict[str, Allowance] = {}
        self._is_share_gone = ahead_ns > 0
        self._saved_ns = ahead_ns
        """What the note for the next start says; 0: there is none."""
        ahead_ns = max(ahead_ns, clock.now_ns() - last_seen_ns if last_seen_ns else 0)
        if ahead_ns > _JUMP_NS and percent < 100:
            self._start_ns = ahead_ns
            self._until_ns = clock.monotonic_ns() + _DOUBT_NS

    def look(self) -> None:
        """Compare the clocks."""
        now_ns = self._clock.monotonic_ns()
        offset_ns = self._clock.now_ns() - now_ns
        if self._until_ns is not None and now_ns >= self._until_ns:
            self._until_ns, self._start_ns, self._steady_ns = None, 0, self._offset_ns
            self._allowances.clear()
            self._is_share_gone = False
        has_jumped = offset_ns - self._offset_ns > _JUMP_NS
        has_crept = self._until_ns is None and offset_ns - self._steady_ns > _JUMP_NS
        if (has_jumped or has_crept) and self.percent < 100:
            self._until_ns = now_ns + _DOUBT_NS
        if offset_ns < self._steady_ns:
            self._start_ns = max(0, self._start_ns - (self._steady_ns - offset_ns))
            self._steady_ns = offset_ns
        self._offset_ns = offset_ns

    @property
    def is_in_doubt(self) -> bool:
        """Whether retention is limited."""
        return self._until_ns is not None

    @property
    def jumped_ns(self) -> int:
        """By how much the clock has jumped ahead while the broker ran, if that is in doubt still."""
        return self._offset_ns - self._steady_ns if self.is_in_doubt else 0

    @property
    def ahead_ns(self) -> int:
        """How much of wall time is in doubt."""
        return self.jumped_ns + self._start_ns

    def trusted_ns(self) -> int:
        """Wall time without what is in doubt, after a look."""
        self.look()
        return self._clock.now_ns() - self.ahead_ns

    @property
    def seconds_left(self) -> float:
        """Until the wall clock is believed again."""
        if self._until_ns is None:
            return 0.0
        return max(0.0, (self._until_ns - self._clock.monotonic_ns()) / NANOSECONDS)

    def allowance(self, topic: str, size: int) -> Allowance | None:
        """Of a topic of so many bytes; None where nothing is in doubt. It stays the same until the doubt is over."""
        self.look()
        if not self.is_in_doubt:
            return None
        found = self._allowances.get(topic)
        if found is None:
            share = 0 if self._is_share_gone else size * self.percent // 100
            found = self._allowances[topic] = Allowance(share)
        return found

    def held_back(self) -> list[str]:
        """The topics of which something stayed because of the doubt."""
        return sorted(topic for topic, one in self._allowances.items() if one.is_used_up)

    def save(self, disk: Disk, path: str) -> Work[None]:
        """Look, and note for the next start what is in doubt: a restart must not end the doubt."""
        self.look()
        ahead_ns = self.ahead_ns
        if not ahead_ns and self._saved_ns:
            yield partial(_remove, disk, path)
            self._saved_ns = 0
        elif abs(ahead_ns - self._saved_ns) > _JUMP_NS:
            yield partial(write_note, disk, f"{path}/{NOTE}", ahead_ns=ahead_ns)
            self._saved_ns = ahead_ns

    def __repr__(self) -> str:
        return f"<RetentionClock {self.ahead_ns // NANOSECONDS} s in doubt>"


def read_doubt(disk: Disk, path: str) -> int:
    """What was in doubt when the data directory was used last, in nanoseconds."""
    try:
        content = read_all(disk, f"{path}/{NOTE}") if disk.kind(f"{path}/{NOTE}") == "file" else b""
    except GoQueueError:
        return 0
    ahead_ns = (decode_note(content) or {}).get("ahead_ns")
    return ahead_ns if isinstance(ahead_ns, int) and ahead_ns > 0 else 0


def _remove(disk: Disk, path: str) -> None:
    discard(disk, f"{path}/{NOTE}")
    disk.sync_directory(path)
