"""Values of labels: few, whatever clients do, since each is a time series that the scraper keeps."""

from collections.abc import Mapping
from typing import TypeVar

VALUES_MAX = 1_000  # of one label
OTHERS = "…others"
"""Where what is beyond the bound is counted. No topic and no group can be named so."""

K = TypeVar("K")


def bounded(numbers: Mapping[K, int], others: K, most: int = VALUES_MAX) -> dict[K, int]:
    """The largest by name, and the sum of the others."""
    if len(numbers) <= most:
        return dict(numbers)
    largest = sorted(numbers, key=lambda name: (-numbers[name], name))
    kept = {name: numbers[name] for name in largest[:most]}
    kept[others] = kept.get(others, 0) + sum(numbers[name] for name in largest[most:])
    return kept
