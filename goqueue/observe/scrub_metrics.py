"""Metrics of the scrub, which reads all logs to find damage."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from goqueue.observe.state_metrics import Samples

SCRUB_METRICS: Final[tuple[tuple[str, Literal["counter", "gauge"], str], ...]] = (
    ("passes", "counter", "Times that the scrub has read all logs."),
    ("read_bytes", "counter", "Bytes that the scrub has read."),
    ("pass_timestamp_seconds", "gauge", "When the last pass of the scrub ended, as Unix time; 0 before the first one."),
    ("pass_ratio", "gauge", "The part of the logs that the present pass has read, 0 to 1."),
    ("damaged_ranges", "gauge", "Damaged ranges that the last pass found and that are not repaired."),
)
"""Name, kind and description of each metric."""


class ScrubMetricValues(NamedTuple):
    """The numbers of a broker, in the order of the metrics."""

    passes: int = 0
    read_bytes: int = 0
    ended_seconds: float = 0.0
    ratio: float = 0.0
    damaged_ranges: int = 0


def collect_scrub(values: ScrubMetricValues) -> Iterator[tuple[str, Samples]]:
    for (name, _, _), value in zip(SCRUB_METRICS, values, strict=True):
        yield f"goqueue_scrub_{name}", [((), float(value))]
