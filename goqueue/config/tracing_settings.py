"""Settings of traces."""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue import limits
from goqueue.config.export_targets import ExportTarget, parse_trace_target
from goqueue.config.value_types import BOOLEAN, DURATION, INTEGER, PATH, SHARE, SIZE, TRACE_TARGETS, list_items, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingConfig:
    """Traces of messages, and where they are exported to."""

    enabled: bool = setting(True, BOOLEAN, "Record what happens to messages.")
    sampling: float = setting(
        1.0,
        SHARE,
        "Share of messages that are traced, unless the topic sets it; what fails or is slow is traced all the same.",
        (0.0, 1.0),
    )
    records: int = setting(
        limits.TRACE_RECORDS,
        INTEGER,
        "Number of trace records in memory; each is about a range of messages and takes about 400 bytes.",
        (100, limits.TRACE_RECORDS_MAX),
    )
    files: bool = setting(True, BOOLEAN, "Keep trace records in files, in `traces` in the data directory.")
    file_bytes: int = setting(
        limits.TRACE_FILE_BYTES,
        SIZE,
        "Size at which a new trace file begins, at most half of `files_bytes`.",
        (64 * limits.KIB, limits.TRACE_FILES_BYTES_MAX),
    )
    files_bytes: int = setting(
        limits.TRACE_FILES_BYTES,
        SIZE,
        "Size of all trace files together; beyond it, the oldest is removed.",
        (limits.TRACE_FILES_BYTES_MIN, limits.TRACE_FILES_BYTES_MAX),
    )

    export: str = setting(
        "none",
        TRACE_TARGETS,
        "Targets that get the spans of traces, separated by commas: `stdout`, `file:PATH`, `otlp:URL` for a collector"
        " of OpenTelemetry, and `jaeger:URL` for Jaeger, whose agent has an address such as `udp://127.0.0.1:6832`.",
    )
    export_headers_file: str = setting(
        "none",
        PATH,
        "File with headers for collectors, one `name: value` per line, such as `authorization`; `none` sends none.",
    )
    export_interval: float = setting(
        1.0, DURATION, "Maximum time that a span waits for others before it is exported.", (0.01, 60)
    )
    export_queue: int = setting(
        limits.EXPORT_QUEUE_SPANS,
        INTEGER,
        "Maximum number of spans that wait for a target; beyond it, the oldest are dropped and counted.",
        (limits.EXPORT_BATCH_SPANS, 1_000_000),
    )
    export_timeout: float = setting(
        10.0, DURATION, "Maximum time for a collector to accept a connection, and to answer.", (0.1, 120)
    )

    @property
    def export_targets(self) -> Sequence[ExportTarget]:
        return [parse_trace_target(text) for text in list_items(self.export)]
