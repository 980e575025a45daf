"""How topics grow, how large they will be, and when the disk will be full.

What came in is counted by the hour. With four days of it or more, whole days are looked at, so that the hours of a day
do not pass for a trend; with two weeks the days of the week have their own share. A trend that cannot be told from
none is none. What goes is what retention says: the future size of a topic is what it holds, and what comes, and less
what is too old or too much by then.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from shutil import disk_usage
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goqueue.broker.topic import TopicSettings
from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_duration, format_size
from goqueue.spark.inspections import parameters
from goqueue.spark.inspections.inspection import Inspection, Row, schema
from goqueue.spark.inspections.ledger import TopicFacts, read_topics
from goqueue.spark.jobs import on_each
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import Logs
from goqueue.spark.outcomes import read_messages
from goqueue.spark.plan import Plan
from goqueue.spark.reading import Run, Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_HOURS = 24
WEEK_DAYS = 7
HORIZON_HOURS = 365 * DAY_HOURS
HOURS_LEAST = 2
"""Whole hours: with fewer, nothing can be said."""
DAYS_LEAST = 4
"""Whole days: with fewer, hours are looked at, and no trend is made of them."""
_PATTERN_DAYS = 2 * WEEK_DAYS
DAYS_TOLD = 30
_HOUR_SECONDS = 3600
_HOUR_NS = 3600 * NANOSECONDS
_THURSDAY = 3  # the first day of 1970, where Monday is 0
_SURE = 1.96  # standard errors to either side: the truth lies between in 19 of 20 cases

Hourly = NDArray[np.float64]


@dataclass(slots=True)
class Hours:
    """What came in, by the number of the hour since 1970."""

    messages: Counter[int] = field(default_factory=Counter)
    bytes: Counter[int] = field(default_factory=Counter)

    def join(self, other: "Hours") -> None:
        self.messages.update(other.messages)
        self.bytes.update(other.bytes)


@dataclass(frozen=True, slots=True)
class Look:
    """The work of a task."""

    logs: Logs

    def __call__(self, split: Split) -> Hours:
        found = Hours()
        for piece in read_messages(self.logs, split):
            if not isinstance(piece, Run):
                continue
            frames = piece.frames
            hours, starts = np.unique(frames.timestamps // _HOUR_NS, return_index=True)
            messages = np.add.reduceat(piece.real.astype(np.int64), starts)
            sizes = np.add.reduceat(frames.lengths, starts)
            for hour, count, size in zip(hours.tolist(), messages.tolist(), sizes.tolist(), strict=True):
                found.messages[hour] += count
                found.bytes[hour] += size
        return found


@dataclass(frozen=True, slots=True)
class Trend:
    """A line through what came in, in so much an hour; `level` is where its last step is."""

    level: float
    slope: float
    """By so much an hour more in each hour."""
    slope_error: float
    spread: float
    """Of single steps around the line."""
    steps: int
    step_hours: int
    behind_hours: float = 0.0
    """From the middle of the last step until now."""
    shares: tuple[float, ...] = (1.0,) * WEEK_DAYS
    """Of the days of the week, Monday first, where 1 is the mean."""

    @property
    def is_rising(self) -> bool | None:
        """None: neither that nor falling, for all that can be told."""
        if self.steps < DAYS_LEAST or self.step_hours < DAY_HOURS or abs(self.slope) <= _SURE * self.slope_error:
            return None
        return self.slope > 0

    def ahead(self, hours: int, first_hour: int, side: int) -> Hourly:
        """What comes in each of the next hours: likely with side 0, at least with -1, at most with 1."""
        ahead = np.arange(1, hours + 1, dtype=np.float64)
        middle = self.level + (0.0 if self.is_rising is None else self.slope) * (self.behind_hours + ahead)
        from_centre = (self.behind_hours + ahead) / self.step_hours + (self.steps - 1) / 2
        across = self.steps * (self.steps**2 - 1) / 12
        doubt = 1 / self.steps + (0 if self.is_rising is None else from_centre**2 / max(across, 1.0))
        days = ((first_hour + ahead.astype(np.int64)) // DAY_HOURS + _THURSDAY) % WEEK_DAYS
        rates = (middle + side * _SURE * self.spread * np.sqrt(doubt)) * np.array(self.shares)[days]
        coming: Hourly = np.maximum(rates, 0.0)
        return coming


def trend_of(series: Hourly, last_hour: int) -> Trend | None:
    """Of what came in each of these whole hours, of which the last one is named; None where there are too few."""
    if len(series) < HOURS_LEAST:
        return None
    today = (last_hour + 1) % DAY_HOURS
    days = (len(series) - today) // DAY_HOURS
    if days < DAYS_LEAST:
        return Trend(float(series.mean()), 0.0, 0.0, _deviation(series, 1), len(series), 1)
    end = len(series) - today
    steps = series[end - days * DAY_HOURS : end].reshape(days, DAY_HOURS).mean(axis=1)
    numbers = ((last_hour + 1) // DAY_HOURS - 1 - np.arange(days)[::-1] + _THURSDAY) % WEEK_DAYS
    shares = _shares(steps, numbers) if days >= _PATTERN_DAYS else np.ones(WEEK_DAYS)
    steps = np.divide(steps, shares[numbers], out=np.full(days, steps.mean()), where=shares[numbers] > 0)
    places = np.arange(days) - (days - 1) / 2
    across = float((places**2).sum())
    slope = float((places * steps).sum() / across)
    spread = _deviation(steps - steps.mean() - slope * places, 2)
    error = spread / sqrt(across)
    is_flat = abs(slope) <= _SURE * error
    level = float(steps.mean()) + (0.0 if is_flat else slope * (days - 1) / 2)
    if is_flat:
        spread = _deviation(steps, 1)
    return Trend(
        max(0.0, level),
        slope / DAY_HOURS,
        error / DAY_HOURS,
        spread,
        days,
        DAY_HOURS,
        today + DAY_HOURS / 2,
        tuple(shares.tolist()),
    )


def _deviation(rest: Hourly, known: int) -> float:
    return sqrt(float(((rest - (rest.mean() if known == 1 else 0)) ** 2).sum()) / max(1, len(rest) - known))


def _shares(steps: Hourly, numbers: NDArray[np.int64]) -> Hourly:
    mean = float(steps.mean()) or 1.0
    return np.array([float(steps[numbers == day].mean()) / mean for day in range(WEEK_DAYS)])


@dataclass(slots=True)
class Past:
    """What is there of a topic, and when it came."""

    bytes: int
    partitions: int
    is_whole: bool
    """Whether nothing of it has gone yet, so that its first hour is whole as well."""
    hours: Hours = field(default_factory=Hours)

    def series(self, counts: Mapping[int, int], now_hour: int) -> Hourly:
        """Every whole hour up to this one; of the first, a part may be gone."""
        first = min(counts, default=now_hour) + (not self.is_whole)
        return np.array([counts.get(hour, 0) for hour in range(first, now_hour)], np.float64)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to be expected of a topic, or of all."""

    topic: str
    messages: int
    bytes: int
    whole_hours: int
    """So much of the past was looked at."""
    settings: TopicSettings | None = None
    trend: Trend | None = None
    messages_a_day: float | None = None
    bytes_a_day: float | None = None
    sizes: tuple[Hourly, Hourly, Hourly] | None = None
    """At the end of each hour to come: at least, likely, at most."""
    balance: float | None = None
    """So large it is once as much goes as comes; None where that is never, or not known."""

    def size_in(self, days: int) -> tuple[int, int, int] | None:
        if self.sizes is None:
            return None
        least, likely, most = (round(float(size[days * DAY_HOURS - 1])) for size in self.sizes)
        return least, likely, most


@dataclass(frozen=True, slots=True)
class Fullness:
    """When nothing is free any more, in hours from now; None: not within the horizon."""

    likely: int | None
    earliest: int | None
    latest: int | None


def outlooks(
    plan: Plan, found: Iterable[tuple[Split, Hours]], topics: Mapping[str, TopicFacts], now_ns: int
) -> list[Outlook]:
    """One for each topic."""
    sizes: Counter[str] = Counter()
    partitions: Counter[str] = Counter()
    is_whole = dict.fromkeys((one.place[0] for one in plan.ranges), True)
    for one in plan.ranges:
        sizes[one.place[0]] += one.view.size
        partitions[one.place[0]] += 1
        is_whole[one.place[0]] &= one.first == 0
    pasts = {topic: Past(sizes[topic], partitions[topic], is_whole[topic]) for topic in sizes}
    for split, part in found:
        pasts[split.topic].hours.join(part)
    return [_outlook(topic, past, topics.get(topic), now_ns // _HOUR_NS) for topic, past in pasts.items()]


def _outlook(topic: str, past: Past, facts: TopicFacts | None, now_hour: int) -> Outlook:
    settings = facts.settings if facts is not None else None
    series, counts = past.series(past.hours.bytes, now_hour), past.series(past.hours.messages, now_hour)
    messages = past.hours.messages.total()
    trend = trend_of(series, now_hour - 1)
    if trend is None:
        return Outlook(topic, messages, past.bytes, len(series), settings)
    least, likely, most = (
        _sizes(past, settings, trend.ahead(HORIZON_HOURS, now_hour, side), now_hour) for side in (-1, 0, 1)
    )
    return Outlook(
        topic,
        messages,
        past.bytes,
        len(series),
        settings,
        trend,
        float(counts[-trend.steps * trend.step_hours :].mean()) * DAY_HOURS,
        trend.level * DAY_HOURS,
        (least, likely, most),
        _balance(past.partitions, settings, trend),
    )


def _limits(partitions: int, settings: TopicSettings | None) -> tuple[float | None, int | None]:
    """Hours, and bytes of all partitions together."""
    if settings is None or "delete" not in settings.cleanup:
        return None, None
    most = settings.retention_bytes
    return settings.retention_hours, None if most is None else most * partitions


def _sizes(past: Past, settings: TopicSettings | None, coming: Hourly, now_hour: int) -> Hourly:
    kept_hours, kept_bytes = _limits(past.partitions, settings)
    come = np.cumsum(coming)
    sizes = past.bytes + come
    if kept_hours is not None:
        kept = max(1, round(kept_hours))
        gone = np.zeros(len(coming) + 1)
        for hour, count in past.hours.bytes.items():
            gone[min(max(hour + kept - now_hour, 0), len(coming))] += count
        sizes = sizes - np.cumsum(gone[:-1])
        if kept < len(come):
            sizes[kept:] -= come[:-kept]
    sizes = np.maximum(sizes, 0.0)
    return sizes if kept_bytes is None else np.minimum(sizes, kept_bytes)


def _balance(partitions: int, settings: TopicSettings | None, trend: Trend) -> float | None:
    kept_hours, kept_bytes = _limits(partitions, settings)
    found = [] if kept_hours is None or trend.is_rising is not None else [trend.level * kept_hours]
    if kept_bytes is not None and (kept_hours is None or found):
        found.append(float(kept_bytes))
    return min(found, default=None)


def all_together(parts: Iterable[Outlook]) -> Outlook:
    """The sum of all; those of which nothing is known stay as they are."""
    outlook = list(parts)
    known = [one for one in outlook if one.sizes is not None]
    still = sum(one.bytes for one in outlook if one.sizes is None)
    balances = [one.balance for one in outlook]
    total: tuple[Hourly, Hourly, Hourly] | None = None
    if known:
        sums = [still + sum(one.sizes[side] for one in known if one.sizes) for side in range(3)]
        total = (np.asarray(sums[0]), np.asarray(sums[1]), np.asarray(sums[2]))
    return Outlook(
        "(all)",
        sum(one.messages for one in outlook),
        sum(one.bytes for one in outlook),
        max((one.whole_hours for one in outlook), default=0),
        messages_a_day=sum(one.messages_a_day or 0 for one in known) if known else None,
        bytes_a_day=sum(one.bytes_a_day or 0 for one in known) if known else None,
        sizes=total,
        balance=sum(one for one in balances if one is not None) if None not in balances and balances else None,
    )


def fullness(outlook: Outlook, free: int) -> Fullness | None:
    """Of a disk on which so much is free, if nothing but this grows there."""
    if outlook.sizes is None:
        return None
    least, likely, most = (_first_above(sizes, outlook.bytes + free) for sizes in outlook.sizes)
    return Fullness(likely, most, least)


def _first_above(sizes: Hourly, room: int) -> int | None:
    over = np.flatnonzero(sizes > room)
    return int(over[0]) + 1 if len(over) else None


def free_bytes(logs: Logs, disk: int | None, used: int) -> int | None:
    """What may yet be filled; None where a broker has the disk and nobody has told its size."""
    if disk is not None:
        return max(0, disk - used)
    return disk_usage(logs.name).free if isinstance(logs, DirectoryLogs) else None


def rows(found: Iterable[Outlook], whole: Outlook, free: int | None) -> list[Row]:
    """Of each topic, and of all together at the end."""
    return [*map(_row, found), _row(whole) | _full(None if free is None else fullness(whole, free), free)]


def _row(one: Outlook) -> Row:
    trend, later = one.trend, one.size_in(DAYS_TOLD)
    least, likely, most = later or (None, None, None)
    return {
        "topic": one.topic,
        "messages": one.messages,
        "bytes": one.bytes,
        "bytes_per_day": None if one.bytes_a_day is None else round(one.bytes_a_day),
        "messages_per_day": None if one.messages_a_day is None else round(one.messages_a_day),
        "trend": _trend(trend),
        "trend_bytes_per_day": None if trend is None else round(trend.slope * DAY_HOURS**2),
        "trend_error_bytes_per_day": None if trend is None else round(trend.slope_error * DAY_HOURS**2),
        "kept": _kept(one.settings),
        "balance_bytes": None if one.balance is None else round(one.balance),
        f"bytes_in_{DAYS_TOLD}_days": likely,
        f"bytes_in_{DAYS_TOLD}_days_least": least,
        f"bytes_in_{DAYS_TOLD}_days_most": most,
        "hours": one.whole_hours,
    }


def _trend(trend: Trend | None) -> str | None:
    if trend is None:
        return None
    if trend.is_rising is None:
        return "steady" if trend.step_hours > 1 else None
    change = round(trend.slope * DAY_HOURS**2)
    return f"+{format_size(change)}" if change > 0 else format_size(change)


def _kept(settings: TopicSettings | None) -> str | None:
    if settings is None:
        return None
    parts = []
    if "delete" in settings.cleanup:
        parts += [] if settings.retention_hours is None else [format_duration(settings.retention_hours * _HOUR_SECONDS)]
        parts += [] if settings.retention_bytes is None else [f"{format_size(settings.retention_bytes)} a partition"]
    if "compact" in settings.cleanup:
        parts.append("compacted")
    return ", ".join(parts) or "for ever"


def _full(full: Fullness | None, free: int | None) -> Row:
    hours = (None, None, None) if full is None else (full.likely, full.earliest, full.latest)
    names = ("full_seconds", "full_seconds_earliest", "full_seconds_latest")
    times = (None if one is None else one * _HOUR_SECONDS for one in hours)
    return {"free_bytes": free, **dict(zip(names, times, strict=True))}


def inspect(spark: "SparkSession", logs: Logs, plan: Plan, disk: int | None = None, at: int | None = None) -> list[Row]:
    splits = plan.splits(logs)
    hours = zip(splits, on_each(spark, splits, Look(logs)), strict=True)
    found = outlooks(plan, hours, read_topics(logs), time.time_ns() if at is None else at)
    whole = all_together(found)
    return rows(found, whole, free_bytes(logs, disk, whole.bytes))


_TEXTS = ("topic", "trend", "kept")
INSPECTION = Inspection(
    inspect,
    schema(**{name: pa.string() if name in _TEXTS else pa.int64() for name in rows((), Outlook("", 0, 0, 0), None)[0]}),
    {"disk": parameters.size(), "at": parameters.moment()},
)
