"""Settings of metrics."""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.config.export_targets import ExportTarget, parse_metrics_target
from goqueue.config.value_types import DURATION, METRICS_TARGETS, PATH, list_items, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """Where metrics are exported to; `/metrics` has them in any case."""

    export: str = setting(
        "none",
        METRICS_TARGETS,
        "Targets that get the metrics, separated by commas: `otlp:URL` for a collector of OpenTelemetry, such as"
        " `otlp:http://127.0.0.1:4318`.",
    )
    export_headers_file: str = setting(
        "none",
        PATH,
        "File with headers for collectors, one `name: value` per line, such as `authorization`; `none` sends none.",
    )
    export_interval: float = setting(60.0, DURATION, "How often the metrics are exported.", (0.1, 3600))
    export_timeout: float = setting(
        10.0, DURATION, "Maximum time for a collector to accept a connection, and to answer.", (0.1, 120)
    )

    @property
    def export_targets(self) -> Sequence[ExportTarget]:
        return [parse_metrics_target(text) for text in list_items(self.export)]
