"""The parts of which dashboards are described."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["timeseries", "stat", "bargauge", "heatmap"]


@dataclass(frozen=True)
class Panel:
    """A plot, or a number."""

    title: str
    queries: dict[str, str]
    """Expressions by their legends."""
    unit: str = "short"
    kind: Kind = "timeseries"
    help: str = ""
    width: int = 8
    """Of 24 columns."""
    has_exemplars: bool = False


@dataclass(frozen=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    name: str
    title: str
    rows: tuple[Row, ...]
    variables: tuple[tuple[str, str], ...] = ()
    """Names of further choices, and the metric of whose label of that name the values are."""


def rate(metric: str, by: str = "", labels: str = "@") -> str:
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{labels}}}[$rate]))"


def quantiles(metric: str) -> dict[str, str]:
    """Return the median and two high quantiles of a histogram."""
    return {
        f"p{str(share)[2:].ljust(2, '0')}": f"histogram_quantile({share}, {rate(f'{metric}_bucket', 'le')})"
        for share in (0.5, 0.99, 0.999)
    }


def top(expr: str, count: int = 10) -> str:
    return f"topk({count}, {expr})"
