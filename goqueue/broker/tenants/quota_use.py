"""The use that a tenant makes of its quotas at a moment."""

from dataclasses import dataclass

from goqueue.broker.tenants import quotas as kinds
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.quotas import KINDS
from goqueue.broker.tenants.usage import UsageRecorder
from goqueue.broker.tenants.usage_records import UsageHour


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """A quota, and what is used of it."""

    quota: str
    limit: float | None
    """None: unlimited."""
    soft_limit: float | None
    used: float | None
    """None for bounds of single things, such as a message."""
    percent: float | None
    violations: int
    """Refused requests and delayed polls since the broker started."""
    warnings: int
    throttled_seconds: float
    """The time from the first to the last violation; 0 if the last one was more than a minute ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUse:
    """Totals of a tenant, and its quotas."""

    tenant: str
    published_messages: int
    published_bytes: int
    consumed_messages: int
    consumed_bytes: int
    storage_bytes: int
    topics: int
    partitions: int
    connections: int
    quotas: list[QuotaUse]


def tenant_use(
    recorder: UsageRecorder, meter: TenantMeter, groups: int, open_transactions: int, now_ns: int
) -> TenantUse:
    """Return the use of a tenant with so many groups and open transactions; `now_ns` is monotonic."""
    hour = recorder.hours.get(meter.tenant) or UsageHour(tenant=meter.tenant, hour=0)
    used: dict[str, float] = {
        **recorder.rates.get(meter.tenant, {}),
        kinds.STORAGE_BYTES: meter.stored_bytes,
        kinds.IN_FLIGHT_BYTES: meter.in_flight_bytes,
        kinds.TOPICS: hour.topics,
        kinds.TOTAL_PARTITIONS: hour.partitions,
        kinds.CONNECTIONS: meter.connections,
        kinds.LONG_POLLS: meter.waiting,
        kinds.GROUPS: groups,
        kinds.OPEN_TRANSACTIONS: open_transactions,
    }
    for kind in (kinds.CONNECTIONS, kinds.LONG_POLLS, kinds.GROUPS, kinds.OPEN_TRANSACTIONS):
        used[kind] += round(meter.elsewhere(kind))
    messages, size = recorder.published(meter.tenant)
    return TenantUse(
        tenant=meter.tenant,
        published_messages=messages,
        published_bytes=size,
        consumed_messages=hour.consumed_messages_before + hour.consumed_messages,
        consumed_bytes=hour.consumed_bytes_before + hour.consumed_bytes,
        storage_bytes=hour.storage_bytes,
        topics=hour.topics,
        partitions=hour.partitions,
        connections=meter.connections,
        quotas=[_quota_use(meter, name, used.get(name), now_ns) for name in KINDS],
    )


def _quota_use(meter: TenantMeter, name: str, used: float | None, now_ns: int) -> QuotaUse:
    limit, percent = meter.quotas.limits.get(name), None
    if limit is not None and used is not None:
        percent = round(100 * used / limit, 1) if limit else 100.0
    return QuotaUse(
        quota=name,
        limit=limit,
        soft_limit=meter.quotas.soft.get(name),
        used=used,
        percent=percent,
        violations=meter.violations.refused[name],
        warnings=meter.violations.warned[name],
        throttled_seconds=round(meter.violations.throttled_seconds(name, now_ns), 1),
    )
