"""Message tracing of a running broker: the recorder, its memory and its files."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from goqueue.broker.broker import Broker
from goqueue.broker.tracing.assembly import JourneyAssembler
from goqueue.broker.tracing.recorder import TraceRecorder
from goqueue.broker.tracing.ring import TraceRing
from goqueue.broker.tracing.sampling import Sampling
from goqueue.broker.tracing.selection import TraceStore
from goqueue.limits import TRACE_FILE_BYTES, TRACE_FILES_BYTES, TRACE_RECORDS, TRACE_WRITE_SECONDS
from goqueue.runtime.trace_files import TraceFiles
from goqueue.storage.disk import Disk


@dataclass(frozen=True, slots=True)
class TracingSettings:
    is_on: bool = True
    sampling: float = 1.0
    """The rate of topics that set none."""
    records: int = TRACE_RECORDS
    """The number of records in memory."""
    has_files: bool = True
    file_bytes: int = TRACE_FILE_BYTES
    files_bytes: int = TRACE_FILES_BYTES


class Tracer:
    """Records what happens to messages, and answers questions about it."""

    def __init__(
        self, broker: Broker, disk: Disk, directory: str, settings: TracingSettings, now_ns: Callable[[], int]
    ) -> None:
        self.settings = settings
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, "goqueue-traces")
        self.sampling = Sampling(self._rate_of)
        self.files = TraceFiles(disk, directory, settings.file_bytes, settings.files_bytes)
        has_files = settings.is_on and settings.has_files
        self.ring = TraceRing(settings.records, self.sampling, now_ns, has_outbox=has_files)
        self.store = TraceStore(self.ring, self._created_ns, self.files if has_files else None)
        if has_files:
            self.files.open()
            self.ring.on_waiting.subscribe(self._write_soon)
        if settings.is_on:
            TraceRecorder(broker, self.ring, now_ns)

    def assembler(self) -> JourneyAssembler:
        """Return an assembler for one question."""
        return JourneyAssembler(self._broker, self.store)

    def _rate_of(self, name: str) -> float:
        if not self.settings.is_on:
            return 0.0
        topic = self._broker.topics.get(name)
        rate = None if topic is None else topic.settings.trace_sampling
        return self.settings.sampling if rate is None else rate

    def _created_ns(self, name: str) -> int | None:
        topic = self._broker.topics.get(name)
        return None if topic is None else topic.created_ns

    # --- files ---

    @property
    def dropped(self) -> int:
        """The number of records that the disk refused or was too slow for."""
        return self.ring.dropped + self.files.dropped

    def _write_soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(TRACE_WRITE_SECONDS, self._write)

    def _write(self) -> None:
        self._timer = None
        if self._writing is not None and not self._writing.done():
            self._write_soon()  # the disk is slow: the outbox is bounded
        elif records := self.ring.take():
            self._writing = self._loop.run_in_executor(self._thread, self.files.write, records)

    async def stop(self) -> None:
        """Write what waits. Nothing more is recorded."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if records := self.ring.take():
            self._thread.submit(self.files.write, records)
        await self._loop.run_in_executor(self._thread, self.files.close)
        self._thread.shutdown()
