"""Sends what is exported to targets, to each in a thread of its own: a slow, dead or hostile one delays nothing else.

Spans and snapshots of metrics wait in a bounded queue. When it is full, the oldest are dropped and counted. Nothing
waits for an export: the end of the broker gives it a moment, then leaves the thread alone, which ends with the process.
"""

import logging
import random
from collections import deque
from collections.abc import Sequence
from threading import Condition, Thread
from time import monotonic
from typing import Any, Generic, Literal, Protocol, TypeVar

from goqueue.limits import (
    EXPORT_ATTEMPTS_MAX,
    EXPORT_RETRY_SECONDS,
    EXPORT_RETRY_SECONDS_MAX,
    EXPORT_STOP_SECONDS,
)
from goqueue.observe.export_counts import ExportCounts
from goqueue.runtime.otlp_sender import ExportFailed

_REASONS_LOGGED = 10
"""Different reasons that are logged until the target takes something again."""
_REASON_CHARACTERS = 200
_chance = random.SystemRandom()
Item = TypeVar("Item")
Taken_contra = TypeVar("Taken_contra", contravariant=True)


class Destination(Protocol[Taken_contra]):
    """Takes batches of spans, or snapshots of metrics. Used by the one thread of its exporter, and may block that."""

    def send(self, batch: Sequence[Taken_contra]) -> tuple[int, str]:
        """Send a batch; return the number of items that were refused, and why. Raises ExportFailed and OSError."""

    def close(self) -> None: ...


class Exporter(Generic[Item]):
    """The queue and the thread of one target."""

    def __init__(
        self,
        name: str,
        target: Destination[Item],
        *,
        subject: Literal["traces", "metrics"],
        queue_max: int,
        batch_max: int,
        interval: float,
        sends_newest: bool = False,
    ) -> None:
        """With `sends_newest`, a batch is given up as soon as a newer one waits, instead of being sent again."""
        self.name = name
        self.counts = ExportCounts()
        self._target = target
        self._subject = subject
        self._items = "spans" if subject == "traces" else "snapshots"
        self._log = logging.getLogger("goqueue.tracing" if subject == "traces" else "goqueue.metrics")
        self._queue: deque[Item] = deque()
        self._queue_max = queue_max
        self._batch_max = batch_max
        self._interval = interval
        self._sends_newest = sends_newest
        self._changed = Condition()
        self._is_stopping = False
        self._reasons: set[str] = set()
        """Why the target has failed since the last success, as far as it was logged."""
        self._thread = Thread(target=self._run, name=f"goqueue-export-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, items: Sequence[Item]) -> None:
        """Take items to be sent. Never waits: the oldest make room."""
        with self._changed:
            queue = self._queue
            was = len(queue)
            queue.extend(items)
            excess = len(queue) - self._queue_max
            for _ in range(excess):
                queue.popleft()
            self.counts.dropped += max(0, excess)
            if was < self._batch_max <= len(queue) or not was:
                self._changed.notify()

    def end(self) -> None:
        """Have the thread send what waits, without retries, and end."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended. What it has not sent by then is lost."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._log.warning("the %s of the last moments did not reach %s in time", self._subject, self.name)

    def _run(self) -> None:
        while batch := self._next_batch():
            try:
                self._deliver(batch)
            except Exception:
                self.counts.failed += len(batch)
                self._log.exception("%d %s could not be exported to %s", len(batch), self._items, self.name)
        self._target.close()

    def _next_batch(self) -> list[Item]:
        """Wait for a full batch, or for the interval after the first span; nothing ends the thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_stopping)
            self._changed.wait_for(lambda: self._is_full or self._is_stopping, self._interval)
            return [self._queue.popleft() for _ in range(min(len(self._queue), self._batch_max))]

    @property
    def _is_full(self) -> bool:
        return len(self._queue) >= self._batch_max

    def _deliver(self, batch: list[Item]) -> None:
        for attempt in range(1, EXPORT_ATTEMPTS_MAX + 1):
            try:
                refused, reason = self._target.send(batch)
            except (ExportFailed, OSError) as error:
                is_last = attempt == EXPORT_ATTEMPTS_MAX or not getattr(error, "is_retryable", True)
                self._note_failure(error)
                if is_last or self._paused(_delay(attempt, getattr(error, "retry_after", None))):
                    self.counts.failed += len(batch)
                    return
                if self._sends_newest and self._queue:
                    self.counts.dropped += len(batch)
                    return
            else:
                self._note_success(len(batch) - refused, refused, reason)
                return

    def _paused(self, seconds: float) -> bool:
        """Wait before the next attempt; return whether the broker stops."""
        until = monotonic() + seconds
        with self._changed:
            while not self._is_stopping and (left := until - monotonic()) > 0:
                self._changed.wait(left)
            return self._is_stopping

    def _note_failure(self, error: Exception) -> None:
        reason = str(error)[:_REASON_CHARACTERS]
        if reason not in self._reasons and len(self._reasons) < _REASONS_LOGGED:
            self._log.warning("%s do not reach %s: %s", self._subject, self.name, reason)
            self._reasons.add(reason)

    def _note_success(self, taken: int, refused: int, reason: str) -> None:
        self.counts.exported += taken
        self.counts.failed += refused
        if self._reasons:
            counts = self.counts
            lost = counts.failed + counts.dropped
            self._log.info("%s reach %s again; lost were %d %s", self._subject, self.name, lost, self._items)
        self._reasons.clear()
        if refused or reason:
            self._log.warning(
                "%s refused %d of %d %s: %s",
                self.name,
                refused,
                taken + refused,
                self._items,
                reason[:_REASON_CHARACTERS],
            )


def stop_exporters(exporters: Sequence[Exporter[Any]], seconds: float = EXPORT_STOP_SECONDS) -> None:
    """End all threads, within `seconds` together."""
    for one in exporters:
        one.end()
    until = monotonic() + seconds
    for one in exporters:
        one.join(max(0.0, until - monotonic()))


def _delay(attempt: int, wanted: float | None) -> float:
    """Return the seconds before the next attempt: what the target asks for, or a random part of a doubling time."""
    if wanted is not None:
        return min(wanted, EXPORT_RETRY_SECONDS_MAX)
    most: float = min(EXPORT_RETRY_SECONDS * 2 ** (attempt - 1), EXPORT_RETRY_SECONDS_MAX)
    return _chance.uniform(most / 2, most)
