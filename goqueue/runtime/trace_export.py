"""Exports traces: gathers trace records, reads the senders of their messages, and hands spans to the exporters.

Records are gathered on the event loop at the cost of an `append`. What takes longer runs on threads, a batch after the
other. Records that come faster than that are dropped, the oldest first, and counted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.work import Work
from goqueue.broker.tracing.message_search import MessageSearch
from goqueue.broker.tracing.records import TraceRecord
from goqueue.config.tracing_settings import TracingConfig
from goqueue.errors import GoQueueError
from goqueue.limits import (
    EXPORT_BATCH_SPANS,
    EXPORT_GATHER_SECONDS,
    EXPORT_MESSAGES_EXAMINED,
    EXPORT_READ_BYTES,
    EXPORT_RECORDS_MAX,
    EXPORT_STOP_SECONDS,
)
from goqueue.observe.export_counts import ExportCounts
from goqueue.runtime.exporter import Exporter, stop_exporters
from goqueue.runtime.otlp_sender import read_headers, service_resource
from goqueue.runtime.record_spans import NO_SENDERS, Senders, SentMessage, is_exported, span_of
from goqueue.runtime.span_targets import open_target
from goqueue.storage import frame
from goqueue.storage.frame import StoredMessage
from goqueue.wire.trace_context import LINKS_MAX, TraceContext, read_trace_context

if TYPE_CHECKING:
    from goqueue.runtime.runtime import Runtime

_log = logging.getLogger("goqueue.tracing")
_PUBLISHES_KNOWN = 100
"""The latest publishes of a log of which is known whether they have headers."""


class TraceExport:
    """The exporters of a running broker."""

    def __init__(self, runtime: "Runtime", settings: TracingConfig, instance: str) -> None:
        """`instance` names this broker among others."""
        resource = service_resource(instance)
        headers = read_headers(settings.export_headers_file)
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._search = MessageSearch(runtime.broker)
        self._records: deque[TraceRecord] = deque()
        self._published: dict[LogRef, deque[TraceRecord]] = {}
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._exporters = [
            Exporter(
                str(target),
                open_target(target, resource, timeout=settings.export_timeout, headers=headers),
                subject="traces",
                queue_max=settings.export_queue,
                batch_max=EXPORT_BATCH_SPANS,
                interval=settings.export_interval,
            )
            for target in settings.export_targets
        ]
        self.counts: Mapping[str, ExportCounts] = {one.name: one.counts for one in self._exporters}
        """By target."""
        for one in self._exporters:
            one.start()
        self._unsubscribe = runtime.tracer.ring.on_kept.subscribe(self._note)

    async def stop(self) -> None:
        """Export what is gathered, within a moment."""
        self._unsubscribe()
        if self._timer is not None:
            self._timer.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(EXPORT_STOP_SECONDS):
                if self._task is not None:
                    await self._task
                await self._export()
        await self._loop.run_in_executor(None, stop_exporters, self._exporters)

    def _note(self, record: TraceRecord) -> None:
        if not is_exported(record):
            return
        if len(self._records) >= EXPORT_RECORDS_MAX:
            self._records.popleft()
            self._drop(1)
        self._records.append(record)
        if self._timer is None and self._task is None:
            self._timer = self._loop.call_later(EXPORT_GATHER_SECONDS, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._task = self._loop.create_task(self._export())
        self._task.add_done_callback(self._ended)

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._task = None

    async def _export(self) -> None:
        while self._records:
            batch = [self._records.popleft() for _ in range(min(len(self._records), EXPORT_BATCH_SPANS))]
            try:
                senders = [await self._runtime.perform(self._senders(one)) for one in batch]
                await self._loop.run_in_executor(None, self._offer, batch, senders)
            except Exception:  # an error here must stop neither the exports nor the end of the broker
                self._drop(len(batch))
                _log.exception("%d trace records could not be exported", len(batch))

    def _drop(self, records: int) -> None:
        for one in self._exporters:
            one.counts.dropped += records

    def _offer(self, batch: list[TraceRecord], senders: list[Senders]) -> None:
        spans = list(map(span_of, batch, senders))
        for one in self._exporters:
            one.offer(spans)

    # --- senders ---

    def _senders(self, record: TraceRecord) -> Work[Senders]:
        """Return the spans that sent the first messages of a record."""
        partition = self._search.partition(record.ref)
        if partition is None or not self._may_have_headers(record):
            return NO_SENDERS
        offset = max(record.first, partition.earliest)
        if offset >= min(record.end, partition.high_watermark):
            return NO_SENDERS
        try:
            read = yield from partition.read_uncommitted(offset, EXPORT_READ_BYTES, skip_damage=True)
            found: Senders = yield partial(_find_senders, list(read.buffers), record)
        except GoQueueError:  # its messages were removed, or are damaged
            return NO_SENDERS
        return found

    def _may_have_headers(self, record: TraceRecord) -> bool:
        known = self._published.setdefault(record.ref, deque(maxlen=_PUBLISHES_KNOWN))
        if record.event in ("publish.persisted", "delay.scheduled"):
            known.append(record)
            return record.headers
        at = record.first  # the publishes that cover the whole record
        for one in known:
            if one.first <= at < one.end:
                if one.headers:
                    return True
                at = one.end
                if at >= record.end:
                    return False
        return True


def _find_senders(buffers: list[memoryview], record: TraceRecord) -> Senders:
    found: dict[TraceContext, SentMessage] = {}
    examined = with_context = 0
    for message in _messages(buffers, record):
        examined += 1
        context = read_trace_context(message.headers) if message.headers else None
        if context is not None:
            with_context += 1
            found.setdefault(context, SentMessage(message.offset, context))
        if examined == EXPORT_MESSAGES_EXAMINED or len(found) == LINKS_MAX:
            break
    return Senders(tuple(found.values()), is_common=len(found) == 1 and with_context == examined)


def _messages(buffers: list[memoryview], record: TraceRecord) -> Iterator[StoredMessage]:
    for buffer in buffers:
        for at in frame.walk(buffer):
            message = frame.decode(buffer, at)
            if message.offset >= record.end:
                return
            if not message.flags & frame.CONTROL and record.covers(message.offset):
                yield message
