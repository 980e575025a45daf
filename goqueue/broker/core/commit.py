"""The commit of a partition: how far its messages are committed, and the callers that wait for it.

    committed_end ≤ stored_end of the log        synced: what is committed and on the device

The log reports what it has stored: what is synced or, with `flush: interval`, written. This decides what of it is
committed, shows that to readers, and answers the callers that wait. A broker alone commits what its log has stored; a
leader, what the replicas have stored as well.

The log calls `advance` after each report of the flusher, before it calls the appenders.
"""

from bisect import bisect_right, insort
from collections.abc import Callable
from enum import Enum
from functools import partial
from operator import itemgetter

from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import OFFSET_MAX
from goqueue.storage.log import Log
from goqueue.storage.writer import AppendCallback, call_all


class CommitLevel(Enum):
    """A level of progress that callers wait for. Each includes the one before it."""

    STORED = "stored"
    """The log here has it, which is enough for `acks=leader`."""
    COMMITTED = "committed"
    """Readers may see it."""
    SYNCED = "synced"
    """It is on the device whatever the flush mode: a loss of power does not take it."""


_end_of = itemgetter(0)


class Commit:
    """The commit rule of one partition, and the callers that wait."""

    def __init__(self, log: Log, on_advance: Callable[[], None]) -> None:
        """`on_advance` is called when there may be more to read."""
        self._log = log
        self._on_advance = on_advance
        self.committed_end = log.readable_end
        """The high watermark: readers see only smaller offsets."""
        self.replicated_end = OFFSET_MAX
        """How far all replicas in sync have come. A broker alone has none that it waits for."""
        self.obstacle: GoQueueError | None = None
        """Why nothing that was appended here is committed any more, such as another leader."""
        self._overdue_end = 0
        self._waiting: dict[CommitLevel, list[tuple[int, AppendCallback]]] = {}
        self.on_committed: Signal[[int]] = Signal()
        """Called with the high watermark when it has changed."""
        log.on_report = self.advance

    def when(self, end: int, level: CommitLevel, done: AppendCallback) -> None:
        """Call `done` when everything below this offset has reached the level; at once if it has."""
        if self.reached(level) >= end:
            done(None)
        elif (obstacle := self.obstacle or self._log.obstacle) is not None:
            done(obstacle)
        else:
            insort(self._waiting.setdefault(level, []), (end, done), key=_end_of)
            if level is CommitLevel.SYNCED:
                self._log.sync_soon()

    def advance(self) -> None:
        """Decide what is committed, show it to readers, and answer those who wait."""
        self._log.show(min(self._log.stored_end, self.replicated_end))
        if self._log.readable_end != self.committed_end:
            self.committed_end = self._log.readable_end
            self.on_committed.emit(self.committed_end)
            self._on_advance()
        if self._waiting:
            self._answer()

    def give_up_overdue(self, error: GoQueueError | None) -> None:
        """Answer with the error those who have waited for a commit since the last call; it may come all the same.

        None: they wait on.
        """
        end, self._overdue_end = self._overdue_end, self._log.next_offset if error is not None else 0
        if error is None or not end:
            return
        waiting = self._waiting.get(CommitLevel.COMMITTED, [])
        count = bisect_right(waiting, end, key=_end_of)
        answers = [partial(done, error) for _, done in waiting[:count]]
        del waiting[:count]
        call_all(answers)

    def give_up(self, error: GoQueueError) -> None:
        """Answer all who wait for what is not committed: it may be, and when is not known."""
        self._answer_all(error)

    def reached(self, level: CommitLevel) -> int:
        """Return the end of what has reached the level."""
        if level is CommitLevel.COMMITTED:
            return self.committed_end
        if level is CommitLevel.STORED:
            return self._log.stored_end
        return min(self.committed_end, self._log.durable_end)

    def _answer(self) -> None:
        """Answer those who wait for what is reached, and all if the log will not come further."""
        self._answer_all(self.obstacle or self._log.obstacle)

    def _answer_all(self, obstacle: GoQueueError | None) -> None:
        answers = list[Callable[[], None]]()
        for level, waiting in list(self._waiting.items()):
            reached = self.reached(level)
            count = bisect_right(waiting, reached, key=_end_of) if obstacle is None else len(waiting)
            answers += [partial(done, None if end <= reached else obstacle) for end, done in waiting[:count]]
            del waiting[:count]
            if not waiting:
                del self._waiting[level]
        call_all(answers)
