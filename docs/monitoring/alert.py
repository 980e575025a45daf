"""An alert of `configs/prometheus/`, with a case in which it fires and one in which it must not.

In expressions, `BY` keeps the labels that every series has; in series of tests, `@` stands for their values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alerting rule."""

    name: str
    when: str
    """The condition in words, for docs/monitoring.md."""
    expr: str
    hold: str
    """How long the condition must last."""
    severity: Literal["critical", "warning"]
    summary: str
    """With the value, in the templates of Prometheus."""
    finding: str | None = None
    """The code of the doctor that explains it; None if a broker cannot find it itself."""
    advice: str = ""
    """What to do, without a finding."""
    fires: Mapping[str, str]
    """Series of the test, in the notation of promtool, one value a minute."""
    quiet: Mapping[str, str]
    at: str = "30m"
    """When both cases are evaluated."""
    says: str
    """The summary in the test."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the alert in the test, beside job and instance."""


BY = "by (job, instance)"


def p99(name: str) -> str:
    return f"histogram_quantile(0.99, sum by (job, instance, le) (rate({name}_bucket[5m])))"


def slow(name: str, bound: str, following: str) -> dict[str, str]:
    """Return a histogram whose values all lie between two bounds."""
    return {
        f'{name}_bucket{{@, le="{bound}"}}': "0x60",
        f'{name}_bucket{{@, le="{following}"}}': "0+600x60",
        f'{name}_bucket{{@, le="+Inf"}}': "0+600x60",
    }


def fast(name: str) -> dict[str, str]:
    return {f'{name}_bucket{{@, le="{bound}"}}': "0+600x60" for bound in ("0.005", "0.01", "+Inf")}
