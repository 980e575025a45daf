"""Quotas of a tenant: read, change, reset, and test against what was used."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.problems import invalid
from goqueue.api.tenants import own_tenant, tenants_of
from goqueue.api.usage import UsageMeasures, hours_between
from goqueue.broker.tenants.quotas import KINDS, SOFT, UNLIMITED, VALUE_MAX, Quotas, check_quota, check_recorded
from goqueue.broker.tenants.records import TenantRecord
from goqueue.broker.tenants.usage_history import TESTABLE, find_beyond
from goqueue.broker.tenants.usage_records import HOUR_NS
from goqueue.quantities import format_time

_TEST_DAYS_MAX = 396
_Number = Annotated[int, Meta(ge=0, le=VALUE_MAX)]
_Value = _Number | Literal["unlimited"] | None
_SoftLimits = Annotated[
    dict[str, _Number | None],
    Meta(description="Limits that refuse nothing: what goes beyond them is counted and reported. Replaces all."),
]
_FIELDS = [
    (
        kind.name,
        Annotated[_Value, Meta(description=f"Maximum {kind.noun}: a number, `{UNLIMITED}`, or null for the default.")]
        | msgspec.UnsetType,
        msgspec.UNSET,
    )
    for kind in KINDS.values()
]
ChangeQuotasRequest = msgspec.defstruct(
    "ChangeQuotasRequest",
    [*_FIELDS, (SOFT, _SoftLimits | msgspec.UnsetType, msgspec.UNSET)],
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
)
ChangeQuotasRequest.__doc__ = "The quotas to change; the others stay as they are."
_LIMITS = [
    (kind.name, Annotated[float | None, Meta(description=f"Maximum {kind.noun}; null: unlimited.")])
    for kind in KINDS.values()
]
QuotasResponse = msgspec.defstruct(
    "QuotasResponse",
    [
        ("tenant_id", str),
        *_LIMITS,
        ("overrides", Annotated[dict[str, int | str], Meta(description="Values of the tenant itself.")]),
        (SOFT, Annotated[dict[str, float], Meta(description="Limits that only warn.")]),
        ("defaults", Annotated[dict[str, float], Meta(description="Of the broker; what is missing is unlimited.")]),
    ],
    kw_only=True,
)
QuotasResponse.__doc__ = "The quotas that count for a tenant, and where they come from."


class QuotaTestRequest(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Limits to compare with the usage of the past."""

    limits: Annotated[dict[str, _Number], Meta(min_length=1, description=f"Of {', '.join(TESTABLE)}.")]
    tenant: Annotated[str | None, Meta(description="Only this one. Default: all tenants.")] = None
    days: Annotated[int, Meta(ge=1, le=_TEST_DAYS_MAX)] = 7


class QuotaTestJson(Struct, kw_only=True):
    """A tenant that would have been over a limit."""

    tenant: str
    quota: str
    limit: float
    hours: Annotated[int, Meta(description="Hours in which it was over the limit.")]
    peak: Annotated[float, Meta(description="Its highest use; a rate is an average over some seconds.")]
    first_at: str
    last_at: str


class QuotaTestResponse(Struct):
    results: list[QuotaTestJson]
    hours: Annotated[int, Meta(description="Recorded hours of tenants that were compared.")]


async def describe(call: ApiCall) -> Any:
    return _described(call, own_tenant(call))


async def change(call: ApiCall) -> Any:
    tenants = tenants_of(call)
    tenant = tenants.tenant(call.parameters["tenant"])
    given = {name: value for name, value in msgspec.structs.asdict(call.body).items() if value is not msgspec.UNSET}
    check_recorded(given)
    recorded = check_recorded({**tenant.quotas, **given})
    return _described(call, await call.runtime.decide(tenants.update(tenant.id, {"quotas": recorded})))


async def reset(call: ApiCall) -> Any:
    work = tenants_of(call).update(call.parameters["tenant"], {"quotas": {}})
    return _described(call, await call.runtime.decide(work))


def _described(call: ApiCall, tenant: TenantRecord) -> Any:
    measures = UsageMeasures.of(call)
    found = Quotas.of(measures.meters.defaults, tenant.quotas)
    return QuotasResponse(
        tenant_id=tenant.id,
        **{name: found.limits.get(name) for name in KINDS},
        overrides={name: value for name, value in tenant.quotas.items() if name != SOFT},
        soft_limits=dict(found.soft),
        defaults=measures.meters.defaults,
    )


async def test(call: ApiCall, body: QuotaTestRequest) -> QuotaTestResponse:
    for name in body.limits:
        if name not in TESTABLE:
            hint = f"there are {', '.join(TESTABLE)}"
            raise invalid(f"limits.{name}"[:100], "is not a quota of which usage is recorded", hint)
        check_quota(name, body.limits[name])
    if body.tenant is not None:
        tenants_of(call).tenant(body.tenant)
    await UsageMeasures.now(call)
    now_ns = call.runtime.clock.now_ns()
    hours = await hours_between(call, now_ns - body.days * 24 * HOUR_NS, now_ns, body.tenant)
    results = [
        QuotaTestJson(
            tenant=one.tenant,
            quota=one.quota,
            limit=one.limit,
            hours=one.hours,
            peak=one.peak,
            first_at=format_time(one.first_ns),
            last_at=format_time(one.last_ns),
        )
        for one in find_beyond(hours, body.limits)
    ]
    return QuotaTestResponse(results, len(hours))
