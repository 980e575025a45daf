"""How numbers are spread, in a few thousand counters however many there are.

Each power of two has 1,024 steps, so a percentile is off by a twentieth of a percent at most; count, sum, least and
greatest are exact.
"""

from collections import Counter
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DROPPED_BITS = 42  # of the 52 of a float's mantissa: the ten that stay are the steps


@dataclass(slots=True)
class Histogram:
    """Of whole numbers, negative ones too."""

    steps: Counter[int] = field(default_factory=Counter)
    count: int = 0
    sum: int = 0
    least: int = 0
    most: int = 0

    def add(self, numbers: NDArray[np.int64], times: int = 1) -> None:
        """Each of them so many times."""
        if not len(numbers) or not times:
            return
        found, counts = np.unique(_step(numbers), return_counts=True)
        self._note(int(numbers.min()), int(numbers.max()), len(numbers) * times, _sum(numbers) * times)
        for step, count in zip(found.tolist(), counts.tolist(), strict=True):
            self.steps[step] += count * times

    def join(self, other: "Histogram") -> None:
        if other.count:
            self._note(other.least, other.most, other.count, other.sum)
            self.steps.update(other.steps)

    def _note(self, least: int, most: int, count: int, total: int) -> None:
        self.least = min(self.least, least) if self.count else least
        self.most = max(self.most, most) if self.count else most
        self.count += count
        self.sum += total

    @property
    def mean(self) -> float | None:
        return self.sum / self.count if self.count else None

    def percentile(self, share: float) -> int | None:
        """So great is a share of them, at most."""
        rank, seen = max(1, ceil(share * self.count)), 0
        for step in sorted(self.steps):
            seen += self.steps[step]
            if seen >= rank:
                return min(max(_middle(step), self.least), self.most)
        return None


def _step(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    steps = np.abs(numbers).astype(np.float64).view(np.int64) >> _DROPPED_BITS
    found: NDArray[Any] = np.where(numbers < 0, -steps, steps)
    return found


def _sum(numbers: NDArray[np.int64]) -> int:
    """In two halves, of which none can overflow."""
    return (int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum())


def _middle(step: int) -> int:
    bits = np.array([abs(step), abs(step) + 1], np.int64) << _DROPPED_BITS
    low, high = bits.view(np.float64).tolist()
    size: float = low if high - low <= 1 else (low + high) / 2
    return -round(size) if step < 0 else round(size)
