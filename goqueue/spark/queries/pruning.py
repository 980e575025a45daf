"""Find the columns and the ranges of offsets, times and partitions that a query needs, without reading.

Python sources of Spark are told neither which columns a query uses nor what it asks of them. Files are. So the query
is planned over files of the same columns, of which there are none, and what Spark would have read of them is
read of the topics.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from goqueue.spark.logs.port import LogSource
from goqueue.spark.reading.plan import PartitionRange, ReadBound, ReadPlan, ReadPoint, TimePoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ADAPTIVE = "spark.sql.adaptive.enabled"  # an adaptive plan shows what it scans only when it runs
_MICROSECOND = 1000


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole numbers from `low` to `high`, both included; None is no limit."""

    low: int | None = None
    high: int | None = None

    def meet(self, other: "Interval") -> "Interval":
        lows = [one for one in (self.low, other.low) if one is not None]
        highs = [one for one in (self.high, other.high) if one is not None]
        return Interval(max(lows, default=None), min(highs, default=None))

    def join(self, other: "Interval") -> "Interval":
        return Interval(
            None if self.low is None or other.low is None else min(self.low, other.low),
            None if self.high is None or other.high is None else max(self.high, other.high),
        )


_ANY = Interval()


@dataclass(frozen=True, slots=True)
class ScanRequirement:
    """The part of a topic that a query reads."""

    columns: frozenset[str]
    offsets: Interval = _ANY
    microseconds: Interval = _ANY
    partitions: Interval = _ANY

    def join(self, other: "ScanRequirement") -> "ScanRequirement":
        """Join the requirements of a topic that a query names twice."""
        return ScanRequirement(
            self.columns | other.columns,
            self.offsets.join(other.offsets),
            self.microseconds.join(other.microseconds),
            self.partitions.join(other.partitions),
        )

    @property
    def bounds(self) -> list[tuple[ReadPoint, ReadPoint]]:
        """Ends between which messages are, as offsets and as times; all of them hold."""
        offsets, times = self.offsets, self.microseconds
        return [
            ("earliest" if offsets.low is None else max(0, offsets.low), _after(offsets.high)),
            (
                "earliest" if times.low is None else TimePoint(max(0, times.low) * _MICROSECOND),
                "latest" if times.high is None else TimePoint(max(0, times.high + 1) * _MICROSECOND),
            ),
        ]


def narrowed(logs: LogSource, plan: ReadPlan, need: ScanRequirement) -> ReadPlan:
    """Narrow a plan to the offsets, times and partitions that a query needs. It keeps at least one range."""
    low, high = need.partitions.low or 0, need.partitions.high
    kept = [one for one in plan.ranges if low <= one.ref[1] and (high is None or one.ref[1] <= high)]
    ranges = []
    for one in kept or plan.ranges[:1]:
        first, end = one.first, one.end
        for start, stop in need.bounds:
            first = max(first, ReadBound(start).offset(logs, one.ref, one.view))
            end = min(end, ReadBound(stop).offset(logs, one.ref, one.view))
        first = min(first, one.end)
        ranges.append(PartitionRange(one.ref, first, max(first, end), one.view))
    return ReadPlan(tuple(ranges))


def _after(high: int | None) -> ReadPoint:
    return "latest" if high is None else max(0, high + 1)


@dataclass(slots=True)
class QuerySketch:
    """Views over files that are not there. Use it with `with`; a Connect server shows no plans, and has none."""

    spark: "SparkSession"
    _place: TemporaryDirectory[str] | None = None
    _names: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._place = TemporaryDirectory(prefix="goqueue-sketch-")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._place is not None
        self._place.cleanup()

    def frame(self, schema: "StructType") -> tuple[str, "DataFrame"]:
        """Return a frame of these columns, and its name in `needs`."""
        assert self._place is not None
        path = Path(self._place.name, str(len(self._names)))
        path.mkdir()
        self._names.append(path.name)
        return path.name, self.spark.read.schema(schema).parquet(path.as_uri())

    def needs(self, query: str) -> Mapping[str, ScanRequirement]:
        """Return what a query reads, by the names that `frame` gave."""
        adaptive = self.spark.conf.get(_ADAPTIVE)
        self.spark.conf.set(_ADAPTIVE, "false")
        try:
            frame: Any = self.spark.sql(query)
            plan = frame._jdf.queryExecution().executedPlan()
            found: dict[str, ScanRequirement] = {}
            for scan in _scans(plan):
                name = scan.relation().location().rootPaths().apply(0).getName()
                need = _need(scan)
                found[name] = found[name].join(need) if name in found else need
            return found
        finally:
            self.spark.conf.set(_ADAPTIVE, str(adaptive))


def _scans(plan: Any) -> Iterator[Any]:
    subqueries = plan.subqueriesAll()
    for one in (plan, *(subqueries.apply(number) for number in range(subqueries.size()))):
        leaves = one.collectLeaves()
        for number in range(leaves.size()):
            if leaves.apply(number).getClass().getSimpleName() == "FileSourceScanExec":
                yield leaves.apply(number)


def _need(scan: Any) -> ScanRequirement:
    need = ScanRequirement(frozenset(scan.requiredSchema().fieldNames()))
    filters = scan.dataFilters()
    for number in range(filters.size()):
        need = _narrowed(need, filters.apply(number))
    return need


def _narrowed(need: ScanRequirement, condition: Any) -> ScanRequirement:
    """Narrow a requirement by a condition that every row must meet; an unknown condition changes nothing."""
    kind = condition.getClass().getSimpleName()
    if kind == "And":
        return _narrowed(_narrowed(need, condition.left()), condition.right())
    if kind == "In":
        return _among(need, condition)
    if kind not in _LIMITS:
        return need
    left, right = condition.left(), condition.right()
    if left.getClass().getSimpleName() == "Literal":
        kind, left, right = _MIRRORED[kind], right, left
    if [left.getClass().getSimpleName(), right.getClass().getSimpleName()] != ["AttributeReference", "Literal"]:
        return need
    value = right.value()
    return _met(need, left.name(), _LIMITS[kind](value)) if isinstance(value, int) else need


def _among(need: ScanRequirement, condition: Any) -> ScanRequirement:
    """Narrow by `partition IN (1, 2)`: from the smallest to the largest."""
    values = [condition.list().apply(number) for number in range(condition.list().size())]
    if condition.value().getClass().getSimpleName() != "AttributeReference":
        return need
    if any(one.getClass().getSimpleName() != "Literal" for one in values):
        return need
    numbers = [one.value() for one in values]
    if not numbers or not all(isinstance(one, int) for one in numbers):
        return need
    return _met(need, condition.value().name(), Interval(min(numbers), max(numbers)))


def _met(need: ScanRequirement, column: str, limit: Interval) -> ScanRequirement:
    part = _PARTS.get(column)
    if part is None:
        return need
    changed: Any = {part: getattr(need, part).meet(limit)}
    return replace(need, **changed)


_PARTS = {"offset": "offsets", "timestamp": "microseconds", "partition": "partitions"}
_LIMITS = {
    "EqualTo": lambda value: Interval(value, value),
    "GreaterThan": lambda value: Interval(value + 1, None),
    "GreaterThanOrEqual": lambda value: Interval(value, None),
    "LessThan": lambda value: Interval(None, value - 1),
    "LessThanOrEqual": lambda value: Interval(None, value),
}
_MIRRORED = {
    "EqualTo": "EqualTo",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
}
