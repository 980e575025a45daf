"""Sends spans to targets, to each in a thread of its own: a slow, dead or hostile one delays nothing else.

Spans wait in a bounded queue. When it is full, the oldest are dropped and counted. Nothing waits for an export: the end
of the broker gives it a moment, then leaves the thread alone, which ends with the process.
"""

import logging
import random
from collections import deque
from collections.abc import Sequence
from threading import Condition, Thread
from time import monotonic

from goqueue.limits import (
    EXPORT_ATTEMPTS_MAX,
    EXPORT_BATCH_SPANS,
    EXPORT_RETRY_SECONDS,
    EXPORT_RETRY_SECONDS_MAX,
    EXPORT_STOP_SECONDS,
)
from goqueue.observe.tracing.export_counts import SpanExportCounts
from goqueue.observe.tracing.span import Span
from goqueue.runtime.span_targets import ExportFailed, SpanTarget

_log = logging.getLogger("goqueue.tracing")
_chance = random.SystemRandom()


class SpanExporter:
    """The queue and the thread of one target."""

    def __init__(self, name: str, target: SpanTarget, *, queue_spans: int, interval: float) -> None:
        self.name = name
        self.counts = SpanExportCounts()
        self._target = target
        self._interval = interval
        self._queue: deque[Span] = deque()
        self._queue_spans = queue_spans
        self._changed = Condition()
        self._is_stopping = False
        self._is_failing = False
        self._thread = Thread(target=self._run, name=f"goqueue-export-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, spans: Sequence[Span]) -> None:
        """Take spans to be sent. Never waits: the oldest make room."""
        with self._changed:
            queue = self._queue
            was = len(queue)
            queue.extend(spans)
            excess = len(queue) - self._queue_spans
            for _ in range(excess):
                queue.popleft()
            self.counts.dropped += max(0, excess)
            if was < EXPORT_BATCH_SPANS <= len(queue) or not was:
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
            _log.warning("the traces of the last moments did not reach %s in time", self.name)

    def _run(self) -> None:
        while batch := self._next_batch():
            try:
                self._deliver(batch)
            except Exception:
                self.counts.failed += len(batch)
                _log.exception("%d spans could not be exported to %s", len(batch), self.name)
        self._target.close()

    def _next_batch(self) -> list[Span]:
        """Wait for a full batch, or for the interval after the first span; nothing ends the thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_stopping)
            self._changed.wait_for(lambda: self._is_full or self._is_stopping, self._interval)
            return [self._queue.popleft() for _ in range(min(len(self._queue), EXPORT_BATCH_SPANS))]

    @property
    def _is_full(self) -> bool:
        return len(self._queue) >= EXPORT_BATCH_SPANS

    def _deliver(self, batch: list[Span]) -> None:
        for attempt in range(1, EXPORT_ATTEMPTS_MAX + 1):
            try:
                refused, reason = self._target.send(batch)
            except (ExportFailed, OSError) as error:
                is_last = attempt == EXPORT_ATTEMPTS_MAX or not getattr(error, "is_retryable", True)
                self._note_failure(error)
                if is_last or self._paused(_delay(attempt, getattr(error, "retry_after", None))):
                    self.counts.failed += len(batch)
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
        if not self._is_failing:
            _log.warning("traces do not reach %s: %s", self.name, error)
        self._is_failing = True

    def _note_success(self, taken: int, refused: int, reason: str) -> None:
        self.counts.exported += taken
        self.counts.failed += refused
        if self._is_failing:
            counts = self.counts
            _log.info("traces reach %s again; lost were %d spans", self.name, counts.failed + counts.dropped)
        self._is_failing = False
        if refused or reason:
            _log.warning("%s refused %d spans: %s", self.name, refused, reason[:200])


def stop_exporters(exporters: Sequence[SpanExporter], seconds: float = EXPORT_STOP_SECONDS) -> None:
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
