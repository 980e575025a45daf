"""Forecast how topics grow, how large they will be, and when the disk will be full.

What came in is counted by the hour. With four days of it or more, whole days are looked at, so that the hours of a day
do not pass for a trend; with two weeks the days of the week have their own share. A trend that cannot be told from
none is none. What goes is what retention says: the future size of a topic is what it holds, and what comes, and less
what is too old or too much by then.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from shutil import disk_usage
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from goqueue.broker.core.topic import TopicSettings
from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_duration, format_size
from goqueue.spark.inspections.inspection import InspectionContext, Report, Row
from goqueue.spark.inspections.internal_logs import TopicConfiguration, read_topics
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.plan import ReadPlan

if TYPE_CHECKING:
    pass

DAY_HOURS = 24
WEEK_DAYS = 7
HORIZON_HOURS = 365 * DAY_HOURS
HOURS_LEAST = 2
"""Whole hours: with fewer, nothing can be said."""
DAYS_LEAST = 4
"""Whole days: with fewer, hours are looked at, and no trend is made of them."""
_PATTERN_DAYS = 2 * WEEK_DAYS
DAYS_AHEAD = 30
_HOUR_SECONDS = 3600
_HOUR_NS = 3600 * NANOSECONDS
_THURSDAY = 3  # the first day of 1970, where Monday is 0
_SURE = 1.96  # standard errors to either side: the truth lies between in 19 of 20 cases

Hourly = NDArray[np.float64]


@dataclass(slots=True)
class HourlyCounts:
    """Published messages and bytes, by the number of the hour since 1970."""

    messages: Counter[int] = field(default_factory=Counter)
    bytes: Counter[int] = field(default_factory=Counter)

    def join(self, other: "HourlyCounts") -> None:
        self.messages.update(other.messages)
        self.bytes.update(other.bytes)


@dataclass(frozen=True, slots=True)
class HourScan:
    """The work of a task."""

    logs: LogSource

    def __call__(self, split: Split) -> HourlyCounts:
        found = HourlyCounts()
        for piece in read_messages(self.logs, split):
            if not isinstance(piece, FrameRun):
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
class GrowthTrend:
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
        """Return the volume of each of the next hours: expected for side 0, at least for -1, at most for 1."""
        ahead = np.arange(1, hours + 1, dtype=np.float64)
        middle = self.level + (0.0 if self.is_rising is None else self.slope) * (self.behind_hours + ahead)
        from_centre = (self.behind_hours + ahead) / self.step_hours + (self.steps - 1) / 2
        across = self.steps * (self.steps**2 - 1) / 12
        doubt = 1 / self.steps + (0 if self.is_rising is None else from_centre**2 / max(across, 1.0))
        days = ((first_hour + ahead.astype(np.int64)) // DAY_HOURS + _THURSDAY) % WEEK_DAYS
        rates = (middle + side * _SURE * self.spread * np.sqrt(doubt)) * np.array(self.shares)[days]
        coming: Hourly = np.maximum(rates, 0.0)
        return coming


def fit_trend(series: Hourly, last_hour: int) -> GrowthTrend | None:
    """Fit a trend to whole hours, the last of which is named; None where there are too few."""
    if len(series) < HOURS_LEAST:
        return None
    today = (last_hour + 1) % DAY_HOURS
    days = (len(series) - today) // DAY_HOURS
    if days < DAYS_LEAST:
        return GrowthTrend(float(series.mean()), 0.0, 0.0, _deviation(series, 1), len(series), 1)
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
    return GrowthTrend(
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
class TopicHistory:
    """The size of a topic, and when its messages were published."""

    bytes: int
    partitions: int
    is_whole: bool
    """Whether nothing of it has gone yet, so that its first hour is whole as well."""
    hours: HourlyCounts = field(default_factory=HourlyCounts)

    def series(self, counts: Mapping[int, int], now_hour: int) -> Hourly:
        """Return every whole hour up to this one; a part of the first one may be gone."""
        first = min(counts, default=now_hour) + (not self.is_whole)
        return np.array([counts.get(hour, 0) for hour in range(first, now_hour)], np.float64)


@dataclass(frozen=True, slots=True)
class TopicForecast:
    """The forecast for one topic, or for all."""

    topic: str
    messages: int
    bytes: int
    whole_hours: int
    """So much of the past was looked at."""
    settings: TopicSettings | None = None
    trend: GrowthTrend | None = None
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
class DiskFullForecast:
    """When nothing is free any more, in hours from now; None: not within the horizon."""

    likely: int | None
    earliest: int | None
    latest: int | None


def forecast_topics(
    plan: ReadPlan, found: Iterable[tuple[Split, HourlyCounts]], topics: Mapping[str, TopicConfiguration], now_ns: int
) -> list[TopicForecast]:
    sizes: Counter[str] = Counter()
    partitions: Counter[str] = Counter()
    is_whole = dict.fromkeys((one.ref[0] for one in plan.ranges), True)
    for one in plan.ranges:
        sizes[one.ref[0]] += one.view.size
        partitions[one.ref[0]] += 1
        is_whole[one.ref[0]] &= one.first == 0
    pasts = {topic: TopicHistory(sizes[topic], partitions[topic], is_whole[topic]) for topic in sizes}
    for split, part in found:
        pasts[split.topic].hours.join(part)
    return [_forecast_topic(topic, past, topics.get(topic), now_ns // _HOUR_NS) for topic, past in pasts.items()]


def _forecast_topic(topic: str, past: TopicHistory, facts: TopicConfiguration | None, now_hour: int) -> TopicForecast:
    settings = facts.settings if facts is not None else None
    series, counts = past.series(past.hours.bytes, now_hour), past.series(past.hours.messages, now_hour)
    messages = past.hours.messages.total()
    trend = fit_trend(series, now_hour - 1)
    if trend is None:
        return TopicForecast(topic, messages, past.bytes, len(series), settings)
    least, likely, most = (
        _sizes(past, settings, trend.ahead(HORIZON_HOURS, now_hour, side), now_hour) for side in (-1, 0, 1)
    )
    return TopicForecast(
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
    """Return the retention in hours, and in bytes of all partitions together."""
    if settings is None or "delete" not in settings.cleanup:
        return None, None
    most = settings.retention_bytes
    return settings.retention_hours, None if most is None else most * partitions


def _sizes(past: TopicHistory, settings: TopicSettings | None, coming: Hourly, now_hour: int) -> Hourly:
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


def _balance(partitions: int, settings: TopicSettings | None, trend: GrowthTrend) -> float | None:
    kept_hours, kept_bytes = _limits(partitions, settings)
    found = [] if kept_hours is None or trend.is_rising is not None else [trend.level * kept_hours]
    if kept_bytes is not None and (kept_hours is None or found):
        found.append(float(kept_bytes))
    return min(found, default=None)


def sum_forecasts(parts: Iterable[TopicForecast]) -> TopicForecast:
    """Sum all forecasts; topics without a forecast keep their size."""
    outlook = list(parts)
    known = [one for one in outlook if one.sizes is not None]
    still = sum(one.bytes for one in outlook if one.sizes is None)
    balances = [one.balance for one in outlook]
    total: tuple[Hourly, Hourly, Hourly] | None = None
    if known:
        sums = [still + sum(one.sizes[side] for one in known if one.sizes) for side in range(3)]
        total = (np.asarray(sums[0]), np.asarray(sums[1]), np.asarray(sums[2]))
    return TopicForecast(
        "(all)",
        sum(one.messages for one in outlook),
        sum(one.bytes for one in outlook),
        max((one.whole_hours for one in outlook), default=0),
        messages_a_day=sum(one.messages_a_day or 0 for one in known) if known else None,
        bytes_a_day=sum(one.bytes_a_day or 0 for one in known) if known else None,
        sizes=total,
        balance=sum(one for one in balances if one is not None) if None not in balances and balances else None,
    )


def forecast_disk_full(outlook: TopicForecast, free: int) -> DiskFullForecast | None:
    """Forecast when a disk with so much free space is full, if nothing else grows on it."""
    if outlook.sizes is None:
        return None
    least, likely, most = (_first_above(sizes, outlook.bytes + free) for sizes in outlook.sizes)
    return DiskFullForecast(likely, most, least)


def _first_above(sizes: Hourly, room: int) -> int | None:
    over = np.flatnonzero(sizes > room)
    return int(over[0]) + 1 if len(over) else None


def free_bytes(logs: LogSource, disk: int | None, used: int) -> int | None:
    """Return the free space; None for a broker whose disk size was not given."""
    if disk is not None:
        return max(0, disk - used)
    return disk_usage(logs.name).free if isinstance(logs, DirectoryLogs) else None


def rows(found: Iterable[TopicForecast], whole: TopicForecast, free: int | None) -> list[Row]:
    """Make a row for each topic, and at the end one for all together."""
    return [*map(_row, found), _row(whole) | _full(None if free is None else forecast_disk_full(whole, free), free)]


def _row(one: TopicForecast) -> Row:
    trend, later = one.trend, one.size_in(DAYS_AHEAD)
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
        f"bytes_in_{DAYS_AHEAD}_days": likely,
        f"bytes_in_{DAYS_AHEAD}_days_least": least,
        f"bytes_in_{DAYS_AHEAD}_days_most": most,
        "hours": one.whole_hours,
    }


def _trend(trend: GrowthTrend | None) -> str | None:
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


def _full(full: DiskFullForecast | None, free: int | None) -> Row:
    hours = (None, None, None) if full is None else (full.likely, full.earliest, full.latest)
    names = ("full_seconds", "full_seconds_earliest", "full_seconds_latest")
    times = (None if one is None else one * _HOUR_SECONDS for one in hours)
    return {"free_bytes": free, **dict(zip(names, times, strict=True))}


def inspect(context: InspectionContext, disk: int | None, at: int | None) -> Report:
    logs, plan = context.logs, context.plan
    found = forecast_topics(
        plan, context.scan(plan, HourScan(logs)), read_topics(logs), context.now_ns if at is None else at
    )
    whole = sum_forecasts(found)
    free = free_bytes(logs, disk, whole.bytes)
    return Report(rows(found, whole, free), notes=_notes(found, whole, free))


def _notes(found: Sequence[TopicForecast], whole: TopicForecast, free: int | None) -> list[str]:
    notes = []
    little = [one.topic for one in found if one.trend is None]
    if little:
        names = ", ".join(little[:5]) + (", …" if len(little) > 5 else "")
        notes.append(f"too little data for a forecast of {names}: it takes {HOURS_LEAST} whole hours")
    full = None if free is None else forecast_disk_full(whole, free)
    if free is None:
        notes.append("--disk SIZE gives the space for all topics; only the broker knows its disk")
    elif full is not None:
        notes.append(_verdict(full, free))
    return notes


def _verdict(full: DiskFullForecast, free: int) -> str:
    beginning = f"{format_size(free)} free"
    if full.likely is None:
        early = "" if full.earliest is None else f"; at the earliest in {_duration(full.earliest)}"
        return f"{beginning}: not full within a year if the trend continues{early}"
    latest = "not within a year" if full.latest is None else f"in {_duration(full.latest)}"
    earliest = full.likely if full.earliest is None else full.earliest
    return (
        f"{beginning}: full in {_duration(full.likely)} if the trend continues; "
        f"at the earliest in {_duration(earliest)}, at the latest {latest}"
    )


def _duration(hours: int) -> str:
    return format_duration(hours * _HOUR_SECONDS)
