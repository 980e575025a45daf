"""A suite: measurements, their figures, and their budgets.

A measurement is a generator: what it does before its first `yield` is preparation, each `yield` is one
sample, and it is closed when enough have been taken. It times itself, so that only what matters counts.
"""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from types import ModuleType
from typing import Self

REPEATS = 5
REPEATS_QUICK = 3
SECONDS_MAX = 300


class Absent(Exception):
    """A program or library that a measurement needs is missing; the message names it."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A promise: no less, or no more, than this."""

    bound: float
    is_floor: bool

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.is_floor else value <= self.bound


def at_least(bound: float) -> Budget:
    return Budget(bound, is_floor=True)


def at_most(bound: float) -> Budget:
    return Budget(bound, is_floor=False)


@dataclass(frozen=True, slots=True)
class Best:
    """The figure if only these parts of the machine took time."""

    parts: tuple[str, ...]
    """Names of measurements in the suite `machine`."""
    of: Callable[..., float]
    """From what these parts can do."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a measurement yields."""

    unit: str
    label: str = ""
    budget: Budget | None = None
    best: Best | None = None
    less_is_better: bool = False
    is_total: bool = False
    """Whether it grows with the amount of work: then the budget holds for the whole amount only."""


@dataclass(slots=True)
class Bench:
    """The context of a measurement."""

    directory: str
    is_quick: bool
    is_long: bool = False
    random: Random = field(default_factory=lambda: Random(1))
    _rooms: "itertools.count[int]" = field(default_factory=itertools.count)

    def size(self, full: int, quick: int, long: int | None = None) -> int:
        if self.is_long and long is not None:
            return long
        return quick if self.is_quick else full

    def room(self) -> str:
        """A path in the scratch directory that nothing has used yet."""
        return os.path.join(self.directory, str(next(self._rooms)))

    def clear(self, path: str) -> None:
        """Remove what a sample has left, so that the disk holds one sample at a time."""
        shutil.rmtree(path, ignore_errors=True)


Sample = float | tuple[float, ...]
Function = Callable[[Bench], Iterator[Sample]]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Something to measure."""

    name: str
    figures: tuple[Figure, ...]
    run: Function
    repeats: int
    repeats_quick: int
    ours: str = ""
    """The name of the measurement that does the same with GoQueue, where this one measures another broker."""

    @property
    def parts(self) -> set[str]:
        """Facts of the machine that are needed to judge it."""
        return {part for figure in self.figures if figure.best for part in figure.best.parts}


def measurement(
    name: str, *figures: Figure, repeats: int = REPEATS, repeats_quick: int = REPEATS_QUICK, ours: str = ""
) -> Callable[[Function], Measurement]:
    """Make a measurement of a generator function."""
    return lambda run: Measurement(name, figures, run, repeats, min(repeats, repeats_quick), ours)


@dataclass(frozen=True, slots=True)
class Suite:
    """Measurements that are run together."""

    name: str
    measurements: tuple[Measurement, ...]

    @classmethod
    def of(cls, name: str, *modules: ModuleType) -> Self:
        """All measurements of these modules, in the order in which they are written."""
        found = (value for module in modules for value in vars(module).values() if isinstance(value, Measurement))
        return cls(name, tuple(found))
