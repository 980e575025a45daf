"""Counts of exported spans, for the metrics."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class SpanExportCounts:
    """Counts of spans for one target. Its thread alone changes the first two."""

    exported: int = 0
    failed: int = 0
    """Refused by the target, or not delivered after all attempts."""
    dropped: int = 0
    """Pushed out of the full queue."""


def collect_export_counts(
    counts: Mapping[str, SpanExportCounts],
) -> Iterator[tuple[str, list[tuple[tuple[str, ...], float]]]]:
    """Yield the metrics of exports, with a sample for each target."""
    for name in ("exported", "failed", "dropped"):
        yield f"goqueue_trace_spans_{name}", [((target,), getattr(one, name)) for target, one in counts.items()]
