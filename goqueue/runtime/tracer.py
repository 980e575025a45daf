"""Message tracing of a running broker: the recorder, its memory and its files."""

from collections.abc import Callable
from dataclasses import dataclass

from goqueue.broker.broker import Broker
from goqueue.broker.tracing.assembly import JourneyAssembler
from goqueue.broker.tracing.recorder import TraceRecorder
from goqueue.broker.tracing.ring import TraceRing
from goqueue.broker.tracing.sampling import Sampling
from goqueue.broker.tracing.selection import TraceStore
from goqueue.limits import TRACE_FILE_BYTES, TRACE_FILES_BYTES, TRACE_RECORDS


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

    def __init__(self, broker: Broker, settings: TracingSettings, now_ns: Callable[[], int]) -> None:
        self.settings = settings
        self._broker = broker
        self.sampling = Sampling(self._rate_of)
        self.ring = TraceRing(settings.records, self.sampling, now_ns)
        self.store = TraceStore(self.ring)
        self.assembler = JourneyAssembler(broker, self.store)
        if settings.is_on:
            TraceRecorder(broker, self.ring, now_ns)

    def _rate_of(self, _: str) -> float:
        return self.settings.sampling
