"""Usage of tenants: totals, what is left of each quota, and reports of the past as JSON or CSV."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import Time
from goqueue.api.http.message import HttpResponse
from goqueue.api.other_nodes import ask_others
from goqueue.api.problems import invalid
from goqueue.api.tenants import own_tenant, tenants_of
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.broker.tenants.quotas import IN_FLIGHT_BYTES, KINDS
from goqueue.broker.tenants.usage import UsageRecorder
from goqueue.broker.tenants.usage_history import UsagePeriod, UsageStep, add_up, period_start_ns, read_hours
from goqueue.broker.tenants.usage_records import HOUR_NS, UsageHour
from goqueue.quantities import format_time

_CSV = "text/csv"
_DAYS = 30
_PERIODS_MAX = 50_000
_TOTALS = (
    *("published_messages", "published_bytes", "consumed_messages", "consumed_bytes"),
    *("storage_bytes", "topics", "partitions", "connections"),
)
_OF_NODES = tuple(name for name in _TOTALS if name not in ("topics", "partitions"))
"""Totals of which each node has a part; all nodes know all topics."""
_ADDED = (
    *("published_messages", "published_bytes", "consumed_messages", "consumed_bytes"),
    *("storage_bytes", "storage_peak_bytes", "storage_byte_hours", "connections_peak"),
)


_MISSING = Meta(description="Nodes of a cluster that did not answer: what they have counted is not in the numbers.")


@dataclass(frozen=True, slots=True)
class UsageMeasures:
    """The meters and the recorder of a broker that has tenants."""

    meters: TenantMeters
    recorder: UsageRecorder

    @classmethod
    def of(cls, call: ApiCall) -> "UsageMeasures":
        tenants_of(call)
        usage = call.app.usage
        assert usage is not None, "a broker with tenants records their usage"
        return cls(usage.meters, usage.recorder)

    @classmethod
    async def now(cls, call: ApiCall) -> "UsageMeasures":
        """Return them when all tenants have been measured."""
        measures, usage = cls.of(call), call.app.usage
        assert usage is not None, "as above"
        await usage.sample()
        return measures


class UsageQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    from_time: Annotated[
        Time | None,
        Meta(
            description="Begin of the report; the hour of it counts. "
            "Default: the begin of the hour, day or month that was 30 days ago."
        ),
    ] = None
    to_time: Annotated[Time | None, Meta(description="End of the report. Default: now.")] = None
    by: Annotated[UsageStep, Meta(description="Length of the periods; days and months are those of UTC.")] = "day"


class UsagePeriodJson(Struct, kw_only=True):
    """Usage of a tenant in a period."""

    tenant_id: str
    period: Annotated[str, Meta(description="When it began.")]
    hours: Annotated[int, Meta(description="Recorded hours in it.")]
    published_messages: int
    published_bytes: Annotated[int, Meta(description="As they are stored, with headers and keys.")]
    consumed_messages: int
    consumed_bytes: int
    storage_bytes: Annotated[int, Meta(description="At its end.")]
    storage_peak_bytes: int
    storage_byte_hours: Annotated[int, Meta(description="The sum of the stored bytes at the end of each hour.")]
    topics: int
    partitions: int
    connections_peak: int
    violations: Annotated[dict[str, int], Meta(description="Refused requests and delayed polls by quota.")]
    warnings: Annotated[dict[str, int], Meta(description="Requests beyond soft limits by quota.")]


class QuotaUseJson(Struct, kw_only=True):
    """A quota, and what is used of it."""

    quota: str
    limit: Annotated[float | None, Meta(description="Null: unlimited.")]
    soft_limit: float | None
    used: Annotated[float | None, Meta(description="Null for bounds of single things, such as a message.")]
    percent: float | None
    violations: Annotated[int, Meta(description="Refused requests and delayed polls since the broker started.")]
    warnings: int
    throttled_seconds: Annotated[
        float, Meta(description="From the first violation to the last one; 0 after a minute without any.")
    ]


class TenantUsageResponse(Struct, kw_only=True):
    """Totals of a tenant, and its usage by periods."""

    tenant_id: str
    published_messages: Annotated[int, Meta(description="Ever stored in its topics, also in deleted ones.")]
    published_bytes: int
    consumed_messages: int
    consumed_bytes: int
    storage_bytes: int
    topics: int
    partitions: int
    connections: int
    percentages: Annotated[dict[str, float], Meta(description="Of each limited quota that is in use.")]
    violations: Annotated[dict[str, int], Meta(description="By quota, since the broker started.")]
    quotas: list[QuotaUseJson]
    periods: list[UsagePeriodJson]
    missing: Annotated[list[str], _MISSING] = []


class UsageReportResponse(Struct):
    periods: list[UsagePeriodJson]
    missing: Annotated[list[str], _MISSING] = []


async def of_tenant(call: ApiCall, query: UsageQuery) -> TenantUsageResponse | HttpResponse:
    tenant = own_tenant(call).id
    measures = await UsageMeasures.now(call)
    own = await _periods(call, query, tenant)
    others, missing = await ask_others(call, TenantUsageResponse)
    periods = merge_periods([own, *(one.periods for one in others)])
    if _wants_csv(call):
        return _as_csv(periods)
    meter, usage = measures.meters.of(tenant), call.app.usage
    assert meter is not None, "a tenant has a meter"
    assert usage is not None, "it was measured by it"
    use = usage.use_of(meter)
    quotas = merge_quotas([[QuotaUseJson(**asdict(one)) for one in use.quotas], *(one.quotas for one in others)])
    totals = {name: getattr(use, name) for name in _TOTALS}
    totals |= {name: totals[name] + sum(getattr(one, name) for one in others) for name in _OF_NODES}
    return TenantUsageResponse(
        tenant_id=tenant,
        **totals,
        percentages={one.quota: one.percent for one in quotas if one.percent is not None},
        violations={one.quota: one.violations for one in quotas if one.violations},
        quotas=quotas,
        periods=periods,
        missing=missing,
    )


async def report(call: ApiCall, query: UsageQuery) -> UsageReportResponse | HttpResponse:
    """Report the usage of all tenants, also of deleted ones."""
    await UsageMeasures.now(call)
    own = await _periods(call, query, None)
    others, missing = await ask_others(call, UsageReportResponse)
    periods = merge_periods([own, *(one.periods for one in others)])
    return _as_csv(periods) if _wants_csv(call) else UsageReportResponse(periods, missing)


def merge_periods(nodes: Sequence[Sequence[UsagePeriodJson]]) -> list[UsagePeriodJson]:
    """Add up what the nodes of a cluster have counted, in the order of periods."""
    found: dict[tuple[str, str], UsagePeriodJson] = {}
    for one in (period for periods in nodes for period in periods):
        key = one.period, one.tenant_id
        found[key] = _merged(found[key], one) if key in found else one
    return [found[key] for key in sorted(found)]


def _merged(one: UsagePeriodJson, other: UsagePeriodJson) -> UsagePeriodJson:
    counted: dict[str, Any] = {name: getattr(one, name) + getattr(other, name) for name in _ADDED}
    counted |= {name: max(getattr(one, name), getattr(other, name)) for name in ("hours", "topics", "partitions")}
    for name in ("violations", "warnings"):
        counted[name] = dict(sorted((Counter(getattr(one, name)) + Counter(getattr(other, name))).items()))
    return msgspec.structs.replace(one, **counted)


def merge_quotas(nodes: Sequence[Sequence[QuotaUseJson]]) -> list[QuotaUseJson]:
    """Add up the rates and refusals of nodes; what is used of amounts each node knows of all."""
    merged = []
    for own, *others in zip(*nodes, strict=True):
        used = own.used
        if used is not None and (KINDS[own.quota].is_rate or own.quota == IN_FLIGHT_BYTES):
            used = round(used + sum(one.used or 0 for one in others), 1)
        percent = own.percent if own.limit is None or used is None else 100.0
        if own.limit and used is not None:
            percent = round(100 * used / own.limit, 1)
        merged.append(
            msgspec.structs.replace(
                own,
                used=used,
                percent=percent,
                violations=own.violations + sum(one.violations for one in others),
                warnings=own.warnings + sum(one.warnings for one in others),
                throttled_seconds=max(one.throttled_seconds for one in (own, *others)),
            )
        )
    return merged


async def hours_between(call: ApiCall, start_ns: int, end_ns: int, tenant: str | None) -> list[UsageHour]:
    """Return the recorded hours of one tenant or all; the hours of both times included."""
    recorder = UsageMeasures.of(call).recorder
    first, end = max(start_ns // HOUR_NS, recorder.first_hour), end_ns // HOUR_NS + 1
    work = read_hours(recorder.journal.partition, recorder.hours, first, end, tenant)
    return await call.runtime.perform(work)


async def _periods(call: ApiCall, query: UsageQuery, tenant: str | None) -> list[UsagePeriodJson]:
    now_ns = call.runtime.clock.now_ns()
    end_ns = now_ns if query.to_time is None else int(query.to_time)
    if query.from_time is None:
        start_ns = period_start_ns(max(0, end_ns // HOUR_NS - _DAYS * 24), query.by)  # the first period is whole
    else:
        start_ns = int(query.from_time)
    if start_ns > end_ns:
        raise invalid("from_time", "is later than to_time", "swap them")
    hours = await hours_between(call, start_ns, end_ns, tenant)
    found = add_up(hours, query.by, start_ns // HOUR_NS * HOUR_NS)
    if len(found) > _PERIODS_MAX:
        raise invalid("by", f"is {query.by}, which makes {len(found):,} periods", "ask for longer or fewer ones")
    return [_period(one) for one in found]


def _period(one: UsagePeriod) -> UsagePeriodJson:
    return UsagePeriodJson(
        tenant_id=one.tenant,
        period=format_time(one.begin_ns),
        hours=one.hours,
        published_messages=one.published_messages,
        published_bytes=one.published_bytes,
        consumed_messages=one.consumed_messages,
        consumed_bytes=one.consumed_bytes,
        storage_bytes=one.storage_bytes,
        storage_peak_bytes=one.storage_peak,
        storage_byte_hours=one.storage_byte_hours,
        topics=one.topics,
        partitions=one.partitions,
        connections_peak=one.connections_peak,
        violations=one.refused,
        warnings=one.warned,
    )


def _wants_csv(call: ApiCall) -> bool:
    return _CSV in call.request.headers.get("accept", "")


def _as_csv(periods: list[UsagePeriodJson]) -> HttpResponse:
    """Return a line for each period; violations and warnings are sums over all quotas."""
    text, names = io.StringIO(), [one.name for one in msgspec.structs.fields(UsagePeriodJson)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for one in periods:
        values = (getattr(one, name) for name in names)
        writer.writerow([sum(value.values()) if isinstance(value, dict) else value for value in values])
    return HttpResponse(200, text.getvalue().encode(), _CSV)
