"""Usage of the past: reads recorded hours, adds them up, and tests quotas against them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Work
from goqueue.broker.tenants import quotas as kinds
from goqueue.broker.tenants.usage_records import (
    HOUR_NS,
    HoursExpired,
    UsageExpired,
    UsageHour,
    UsageRecord,
    UsageState,
    decode_usage_record,
)
from goqueue.limits import READ_BYTES
from goqueue.storage import frame
from goqueue.storage.reads import ReadResult

DAY_HOURS: Final = 24
_LATE_HOURS = 48  # the disk may have been full when an hour was over
_EXPIRE_BYTES = 256 * 1024  # in one turn of the loop: a few milliseconds

UsageStep = Literal["hour", "day", "month", "total"]
_PEAKS: Final = {
    kinds.STORAGE_BYTES: "storage_peak",
    kinds.TOPICS: "topics",
    kinds.TOTAL_PARTITIONS: "partitions",
    kinds.CONNECTIONS: "connections_peak",
}
"""Quotas of amounts that hours tell about, and the field that does."""
TESTABLE: Final = (
    kinds.PUBLISH_RATE,
    kinds.PUBLISH_BYTES_RATE,
    kinds.CONSUME_RATE,
    kinds.CONSUME_BYTES_RATE,
    *_PEAKS,
)


class UsagePeriod(msgspec.Struct, kw_only=True):
    """Usage of a tenant in a period."""

    tenant: str
    begin_ns: int
    hours: int = 0
    """Hours with a record."""
    published_messages: int = 0
    published_bytes: int = 0
    consumed_messages: int = 0
    consumed_bytes: int = 0
    storage_bytes: int = 0
    """At the end; `storage_peak` is the most."""
    storage_peak: int = 0
    storage_byte_hours: int = 0
    topics: int = 0
    partitions: int = 0
    connections_peak: int = 0
    refused: dict[str, int] = {}
    warned: dict[str, int] = {}

    def add(self, hour: UsageHour) -> None:
        """Add the next hour."""
        self.hours += 1
        for name in ("published_messages", "published_bytes", "consumed_messages", "consumed_bytes"):
            setattr(self, name, getattr(self, name) + getattr(hour, name))
        for name in ("storage_bytes", "topics", "partitions"):
            setattr(self, name, getattr(hour, name))
        for name in ("storage_peak", "connections_peak"):
            setattr(self, name, max(getattr(self, name), getattr(hour, name)))
        self.storage_byte_hours += hour.storage_bytes
        for name in ("refused", "warned"):
            known, added = getattr(self, name), getattr(hour, name)
            setattr(self, name, {kind: known.get(kind, 0) + added.get(kind, 0) for kind in sorted({*known, *added})})


def read_hours(
    partition: Partition, open_hours: Mapping[str, UsageHour], first: int, end: int, tenant: str | None = None
) -> Work[list[UsageHour]]:
    """Return the hours from `first` up to, not including, `end`, in order; those of one tenant, or all."""
    found: dict[tuple[int, str], UsageHour] = {}
    prefix = b"hour:" if tenant is None else f"hour:{tenant}:".encode()
    offset = max(partition.earliest, (yield from partition.offset_for_time(max(0, first) * HOUR_NS)))
    while offset < partition.high_watermark:
        read = yield from partition.read_uncommitted(offset, READ_BYTES, skip_damage=True)
        for message in _messages(read):
            if (message.key or b"").startswith(prefix):
                record = decode_usage_record(message)
                if isinstance(record, UsageHour):
                    found[record.hour, record.tenant] = record
        if read.next_offset == offset:
            break
        offset = read.next_offset
    found |= {(one.hour, one.tenant): one for one in open_hours.values() if tenant in (None, one.tenant)}
    return [found[key] for key in sorted(found) if first <= key[0] < end]


def expire_hours(journal: Journal[UsageRecord], state: UsageState, below: int) -> Work[None]:
    """Remove the hours before this one.

    The last one of a deleted tenant stays: it says how much was used before it. Reports do not show it.
    """
    partition, since, is_over = journal.partition, state.hours_below, False
    last_hours = {name: one.hour for name, one in state.hours.items()}
    offset, end = partition.earliest, partition.high_watermark
    while offset < end and not is_over:
        read = yield from partition.read_uncommitted(offset, _EXPIRE_BYTES, skip_damage=True)
        found: dict[tuple[str, int], UsageExpired] = {}
        for message in _messages(read):
            kind, _, name = (message.key or b"").decode().partition(":")
            tenant, _, hour = name.rpartition(":")
            if kind == "hour" and since <= int(hour) < min(below, last_hours.get(tenant, below)):
                found[tenant, int(hour)] = UsageExpired(tenant, int(hour))
            is_over |= kind == "hour" and int(hour) > below + _LATE_HOURS  # hours are recorded in their order
        if found:
            yield from journal.recorded(list(found.values()), lambda: None)
        if read.next_offset == offset:
            break
        offset = read.next_offset
    yield from journal.recorded([HoursExpired(below)], lambda: None)


def _messages(read: ReadResult) -> Iterator[frame.StoredMessage]:
    """Yield the records of a read that are not deletions."""
    for buffer in read.buffers:
        for position in frame.walk(buffer):
            message = frame.decode(buffer, position)
            if not message.flags & (frame.CONTROL | frame.TOMBSTONE):
                yield message


def add_up(hours: Iterable[UsageHour], step: UsageStep, begin_ns: int) -> list[UsagePeriod]:
    """Return the usage of each tenant by hours, days or months of UTC, or in total, in order."""
    periods: dict[tuple[int, str], UsagePeriod] = {}
    for hour in hours:
        start_ns = begin_ns if step == "total" else period_start_ns(hour.hour, step)
        key = start_ns, hour.tenant
        if key not in periods:
            periods[key] = UsagePeriod(tenant=hour.tenant, begin_ns=start_ns)
        periods[key].add(hour)
    return [periods[key] for key in sorted(periods)]


def period_start_ns(hour: int, step: UsageStep) -> int:
    """Return when the period of this hour began; that of a total begins with it."""
    if step in ("hour", "total"):
        return hour * HOUR_NS
    day = hour // 24
    if step == "month":
        day -= _day_of_month(day) - 1
    return day * 24 * HOUR_NS


def _day_of_month(day: int) -> int:
    """Return the day of the month of a day since the epoch, by the rule for years that begin in March."""
    shifted = day + 719_468
    of_era = shifted % 146_097
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    return of_year - (153 * ((5 * of_year + 2) // 153) + 2) // 5 + 1


class QuotaTest(msgspec.Struct, kw_only=True):
    """The hours in which a tenant was beyond a limit."""

    tenant: str
    quota: str
    limit: float
    hours: int
    peak: float
    first_ns: int
    last_ns: int


def find_beyond(hours: Iterable[UsageHour], limits: Mapping[str, float]) -> Iterator[QuotaTest]:
    """Yield which tenants would have been over these limits. Rates are averages over some seconds."""
    found: dict[tuple[str, str], QuotaTest] = {}
    for hour in hours:
        for kind, limit in limits.items():
            used = getattr(hour, _PEAKS[kind]) if kind in _PEAKS else hour.peaks.get(kind, 0.0)
            if used <= limit:
                continue
            one = found.get((hour.tenant, kind))
            if one is None:
                one = found[hour.tenant, kind] = QuotaTest(
                    tenant=hour.tenant,
                    quota=kind,
                    limit=limit,
                    hours=0,
                    peak=0,
                    first_ns=hour.hour * HOUR_NS,
                    last_ns=0,
                )
            one.hours += 1
            one.peak, one.last_ns = max(one.peak, used), hour.hour * HOUR_NS
    yield from (found[key] for key in sorted(found))
