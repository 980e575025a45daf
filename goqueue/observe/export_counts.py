"""Counts of what is exported, for the metrics."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class ExportCounts:
    """Counts of spans, or of snapshots of metrics, for one target. Its thread alone changes the first two."""

    exported: int = 0
    failed: int = 0
    """Refused by the target, or not delivered after all attempts."""
    dropped: int = 0
    """Pushed out of the full queue."""


def collect_export_counts(
    prefix: str,
    counts: Mapping[str, ExportCounts],
) -> Iterator[tuple[str, list[tuple[tuple[str, ...], float]]]]:
    """Yield the metrics of exports, with a sample for each target."""
    for name in ("exported", "failed", "dropped"):
        yield f"{prefix}_{name}", [((target,), getattr(one, name)) for target, one in counts.items()]
