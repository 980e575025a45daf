"""All inspections by name: for whoever is told which one to make, as a pipeline is."""

from goqueue.spark.inspections import (
    compaction,
    dead_letters,
    forecast,
    gaps,
    keys,
    lag,
    latency,
    sizes,
    skew,
    summary,
    timeline,
    usage,
    verify,
)
from goqueue.spark.inspections.inspection import Inspection

INSPECTIONS: dict[str, Inspection] = {
    "compaction": compaction.INSPECTION,
    "dlq": dead_letters.INSPECTION,
    "forecast": forecast.INSPECTION,
    "gaps": gaps.INSPECTION,
    "keys": keys.INSPECTION,
    "lag": lag.INSPECTION,
    "latency": latency.INSPECTION,
    "sizes": sizes.INSPECTION,
    "skew": skew.INSPECTION,
    "summary": summary.INSPECTION,
    "timeline": timeline.INSPECTION,
    "usage": usage.INSPECTION,
    "verify": verify.INSPECTION,
}
