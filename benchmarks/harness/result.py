"""Measured figures, and their JSON form."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from benchmarks.harness.suite import Figure, Measurement

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure of a measurement: the samples and what to hold them against."""

    suite: str
    name: str
    unit: str
    samples: tuple[float, ...]
    less_is_better: bool = False
    budget: float | None = None
    is_met: bool | None = None
    machine_best: float | None = None
    ours: str = ""
    """The name of GoQueue's own figure, where this is another broker's."""

    @property
    def key(self) -> tuple[str, str]:
        return self.suite, self.name

    @property
    def value(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """From the least to the greatest sample, as a part of the median."""
        return (max(self.samples) - min(self.samples)) / self.value if self.value else 0.0

    def ratio_to(self, before: float) -> float:
        """Above 1 is better than before."""
        now, before = (before, self.value) if self.less_is_better else (self.value, before)
        return now / before if before else 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """A measurement that was made, or what went wrong."""

    suite: str
    name: str
    readings: tuple[Reading, ...] = ()
    others_cores: float = 0.0
    """How many cores other processes kept busy meanwhile."""
    failure: str | None = None
    absent: str | None = None
    """What is not on this machine, so that nothing could be measured."""


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the program."""

    started: str
    is_quick: bool
    facts: Mapping[str, str]
    results: list[Result] = field(default_factory=list)

    @property
    def readings(self) -> Iterable[Reading]:
        return (reading for result in self.results for reading in result.readings)

    def as_json(self) -> dict[str, Any]:
        readings = [{**asdict(reading), "median": reading.value} for reading in self.readings]
        results = [{**asdict(result), "readings": None} for result in self.results]
        for result in results:
            del result["readings"]
        return {
            "format": FORMAT,
            "started": self.started,
            "quick": self.is_quick,
            "machine": dict(self.facts),
            "measurements": results,
            "readings": readings,
        }


@dataclass(frozen=True, slots=True)
class Reference:
    """Medians of earlier runs."""

    medians: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @classmethod
    def of_json(cls, *documents: Mapping[str, Any]) -> Self:
        """Later documents win."""
        found = {}
        for document in documents:
            if document.get("format") != FORMAT:
                raise ValueError(f"format {document.get('format')!r} is not {FORMAT}")
            found.update({(one["suite"], one["name"]): float(one["median"]) for one in document["readings"]})
        return cls(found)


def readings(
    suite: str, measured: Measurement, samples: list[tuple[float, ...]], *, is_quick: bool, parts: Mapping[str, float]
) -> tuple[Reading, ...]:
    """The figures of a measurement, judged."""
    return tuple(
        _reading(suite, measured, figure, column, is_quick=is_quick, parts=parts)
        for figure, column in zip(measured.figures, zip(*samples, strict=True), strict=True)
    )


def _reading(
    suite: str,
    measured: Measurement,
    figure: Figure,
    samples: tuple[float, ...],
    *,
    is_quick: bool,
    parts: Mapping[str, float],
) -> Reading:
    budget = None if figure.is_total and is_quick else figure.budget
    best = figure.best
    return Reading(
        suite,
        _named(measured.name, figure),
        figure.unit,
        samples,
        figure.less_is_better,
        budget.bound if budget else None,
        budget.is_met(statistics.median(samples)) if budget else None,
        best.of(*(parts[part] for part in best.parts)) if best and parts.keys() >= set(best.parts) else None,
        _named(measured.ours, figure) if measured.ours else "",
    )


def _named(name: str, figure: Figure) -> str:
    return f"{name}: {figure.label}" if figure.label else name
