"""Group commit: one thread that writes and syncs whatever has gathered, for all logs.

While one round is at the disk the next gathers, so the busier the broker, the more messages each
sync covers. The owner's thread hands over logs that have something to write and gets a `FlushReport` a
round; the thread itself touches nothing but files.

Two modes. `always`: a message is answered after the sync. `interval`: it is answered once written,
and synced within the interval.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Literal, Protocol

from goqueue.clock import NANOSECONDS, Clock
from goqueue.events import Signal
from goqueue.limits import COPY_SYNC_SECONDS, WRITERS_MAX
from goqueue.storage.writer import LogWriter, WriteResult

FlushMode = Literal["always", "interval"]
_COPIES_NS = round(COPY_SYNC_SECONDS * NANOSECONDS)


class Flushable(Protocol):
    """The part of a log that the flusher uses."""

    writer: LogWriter
    submitted: bool
    """Whether the log waits for a round. The flusher clears it before it looks at what waits."""

    @property
    def is_closed(self) -> bool: ...


FlushReport = list[tuple[Flushable, WriteResult]]


class Flusher:
    """Either `start` the thread, or call `flush` from the owner's own: never both."""

    def __init__(
        self,
        clock: Clock,
        mode: FlushMode,
        interval_ns: int,
        deliver: Callable[[FlushReport], None],
        logs_open_max: int = WRITERS_MAX,
    ) -> None:
        self.mode: FlushMode = mode
        self._clock = clock
        self._interval_ns = interval_ns
        self._deliver = deliver
        self._inbox: SimpleQueue[Flushable | None] = SimpleQueue()
        self._logs_open_max = logs_open_max
        self._open: OrderedDict[Flushable, None] = OrderedDict()
        self._unsynced: dict[Flushable, None] = {}
        self._wanted: deque[Flushable] = deque()
        """Logs that must be synced before the interval is over. Owner and thread both change it."""
        self._synced_ns = self._copies_synced_ns = clock.monotonic_ns()
        self._copied: dict[Flushable, None] = {}
        """Logs whose copies have got something since they were synced."""
        self._thread: threading.Thread | None = None
        self.defer: Callable[[Callable[[], None]], object] | None = None
        """Calls a function once the owner has done what it is at; None: logs are handed to the thread at once."""
        self._submitted: list[Flushable] = []
        """Logs that are handed over then."""
        self.on_round: Signal[[int]] = Signal()
        """Hears, on the thread that did it, how many nanoseconds each round took."""
        self.failure: BaseException | None = None
        """What ended the thread against its will. An empty report tells the owner to look."""

    def submit(self, log: Flushable) -> None:
        """Have the log's chunks written in the next round."""
        if not log.submitted:
            log.submitted = True
            if self.defer is None:
                self._inbox.put(log)
            else:
                if not self._submitted:
                    self.defer(self._hand_over)
                self._submitted.append(log)

    def _hand_over(self) -> None:
        submitted, self._submitted = self._submitted, []
        for log in submitted:
            self._inbox.put(log)

    def sync_soon(self, log: Flushable) -> None:
        """Have what was written of this log synced in the next round, whatever the mode."""
        self._wanted.append(log)
        self.submit(log)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="goqueue-flusher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write and sync what is left, and end the thread."""
        self._hand_over()
        if self._thread is not None:
            self._inbox.put(None)
            self._thread.join()
            self._thread = None
        if self.failure is None:
            self.flush()

    def flush(self, *, sync: bool = True) -> None:
        """One round on the calling thread, with a sync whatever the mode; without `sync` only where one is due."""
        self._round(self._gathered(), sync=sync or self._is_due())

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            self.failure = error
            self._deliver([])

    def _serve(self) -> None:
        while True:
            try:
                first = self._inbox.get(timeout=self._patience())
            except Empty:
                self._round([], sync=self._is_due())
                continue
            if first is None:
                return
            self._round([first, *self._gathered()], sync=self._is_due())

    def _gathered(self) -> list[Flushable]:
        """Return all that was handed over. A stop that waits is put back, behind what came before it."""
        logs: list[Flushable] = []
        while True:
            try:
                log = self._inbox.get_nowait()
            except Empty:
                return logs
            if log is None:
                self._inbox.put(None)
                return logs
            logs.append(log)

    def _patience(self) -> float | None:
        """Seconds until a sync is due, if anything is unsynced."""
        due = []
        if self._unsynced:
            due.append(self._synced_ns + self._interval_ns)
        if not self._copied.keys() <= self._unsynced.keys():
            due.append(self._copies_synced_ns + _COPIES_NS)
        return max(0, min(due) - self._clock.monotonic_ns()) / NANOSECONDS if due else None

    def _is_due(self) -> bool:
        return self.mode == "always" or self._clock.monotonic_ns() - self._synced_ns >= self._interval_ns

    def _round(self, logs: Iterable[Flushable], *, sync: bool) -> None:
        began = self._clock.monotonic_ns()
        outcomes: dict[Flushable, WriteResult] = {}
        for log in logs:
            log.submitted = False
            if log.is_closed:
                self._forget(log)
                outcomes[log] = WriteResult(released=True)
                continue
            self._make_room(log, outcomes)
            self._do(log, log.writer.write, outcomes)
            self._unsynced[log] = None
        while self._wanted:
            log = self._wanted.popleft()
            if log in self._unsynced:
                self._do(log, log.writer.sync, outcomes)
                del self._unsynced[log]
        if sync:
            for log in self._unsynced:
                self._do(log, log.writer.sync, outcomes)
            self._unsynced.clear()
            self._synced_ns = self._clock.monotonic_ns()
        if outcomes:
            took = self._clock.monotonic_ns() - began
            self._deliver(list(outcomes.items()))
            self.on_round.emit(took)
            self._copied.update((log, None) for log in outcomes if log.writer.has_unsynced_copy)
        self._sync_copies()

    def _sync_copies(self) -> None:
        """From time to time, when those who wait have their answers; a copy does not come before its log."""
        now_ns = self._clock.monotonic_ns()
        if self._copied and now_ns - self._copies_synced_ns >= _COPIES_NS:
            for log in [log for log in self._copied if log not in self._unsynced]:
                log.writer.sync_copy()
                del self._copied[log]
            self._copies_synced_ns = now_ns

    def _do(self, log: Flushable, step: Callable[[WriteResult], None], outcomes: dict[Flushable, WriteResult]) -> None:
        """Run a step; a bug that one log triggers must not cost the others their answers."""
        outcome = outcomes.setdefault(log, WriteResult())
        try:
            step(outcome)
        except Exception as error:
            log.writer.give_up(outcome, error)

    def _forget(self, log: Flushable) -> None:
        log.writer.close()
        self._open.pop(log, None)
        self._unsynced.pop(log, None)
        self._copied.pop(log, None)

    def _make_room(self, log: Flushable, outcomes: dict[Flushable, WriteResult]) -> None:
        """Have at most so many logs with open files: the one unused for longest is synced and closed."""
        self._open[log] = None
        self._open.move_to_end(log)
        while len(self._open) > self._logs_open_max:
            oldest, _ = self._open.popitem(last=False)
            self._do(oldest, oldest.writer.sync, outcomes)
            self._unsynced.pop(oldest, None)
            oldest.writer.close()
