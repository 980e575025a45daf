"""The client's methods for quotas and usage of tenants."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from goqueue.client.address import quote
from goqueue.client.api_request import ApiRequest, json_request, operation, with_query

QuotaValue = int | Literal["unlimited"] | None
"""A limit; None for the default of the broker."""


class TenantQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas that count for a tenant. None is unlimited."""

    tenant_id: str
    publish_rate_limit: float | None = None
    publish_bytes_rate_limit: float | None = None
    consume_rate_limit: float | None = None
    consume_bytes_rate_limit: float | None = None
    metadata_rate_limit: float | None = None
    query_rate_limit: float | None = None
    max_storage_bytes: float | None = None
    max_in_flight_bytes: float | None = None
    max_topics: float | None = None
    max_total_partitions: float | None = None
    max_connections: float | None = None
    max_consumer_groups: float | None = None
    max_open_transactions: float | None = None
    max_long_polls: float | None = None
    max_partitions_per_topic: float | None = None
    max_consumers_per_group: float | None = None
    max_message_size_bytes: float | None = None
    max_retention_hours: float | None = None
    max_delay_hours: float | None = None
    overrides: dict[str, int | str] = {}
    """Values of the tenant itself; the others are defaults of the broker."""
    soft_limits: dict[str, float] = {}
    """Limits that only warn."""
    defaults: dict[str, float] = {}


class QuotaUse(msgspec.Struct, frozen=True, kw_only=True):
    """A quota, and what a tenant uses of it."""

    quota: str
    limit: float | None = None
    soft_limit: float | None = None
    used: float | None = None
    """None for bounds of single things, such as the size of a message."""
    percent: float | None = None
    violations: int = 0
    """Refused requests and delayed polls since the broker started."""
    warnings: int = 0
    throttled_seconds: float = 0.0


class UsagePeriod(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a tenant in an hour, a day, a month, or in total."""

    tenant_id: str
    period: str
    """When it began."""
    hours: int = 0
    published_messages: int = 0
    published_bytes: int = 0
    consumed_messages: int = 0
    consumed_bytes: int = 0
    storage_bytes: int = 0
    storage_peak_bytes: int = 0
    storage_byte_hours: int = 0
    topics: int = 0
    partitions: int = 0
    connections_peak: int = 0
    violations: dict[str, int] = {}
    warnings: dict[str, int] = {}


class TenantUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a tenant, what it uses of each quota, and its usage by periods."""

    tenant_id: str
    published_messages: int = 0
    published_bytes: int = 0
    consumed_messages: int = 0
    consumed_bytes: int = 0
    storage_bytes: int = 0
    topics: int = 0
    partitions: int = 0
    connections: int = 0
    percentages: dict[str, float] = {}
    violations: dict[str, int] = {}
    quotas: list[QuotaUse] = []
    periods: list[UsagePeriod] = []


class QuotaTestResult(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant that would have been over a limit."""

    tenant: str
    quota: str
    limit: float
    hours: int
    """Hours in which it was over the limit."""
    peak: float
    first_at: str
    last_at: str


class QuotaAdmin:
    """Quotas and usage of tenants, while the broker has `tenants.enabled`."""

    @operation
    def tenant_quotas(self, tenant: str) -> ApiRequest[TenantQuotas]:
        """Return the quotas of a tenant. A key of the tenant may ask for its own."""
        return json_request("GET", _path(tenant, "quotas"), TenantQuotas)

    @operation
    def change_tenant_quotas(
        self, tenant: str, quotas: Mapping[str, QuotaValue], *, soft_limits: Mapping[str, int | None] | None = None
    ) -> ApiRequest[TenantQuotas]:
        """Change quotas of a tenant; those left out stay. `soft_limits` replaces all soft limits."""
        body: dict[str, object] = dict(quotas)
        if soft_limits is not None:
            body["soft_limits"] = dict(soft_limits)
        return json_request("PUT", _path(tenant, "quotas"), TenantQuotas, body)

    @operation
    def reset_tenant_quotas(self, tenant: str) -> ApiRequest[TenantQuotas]:
        """Reset all quotas and soft limits of a tenant to the defaults of the broker."""
        return json_request("DELETE", _path(tenant, "quotas"), TenantQuotas)

    @operation
    def test_quotas(
        self, limits: Mapping[str, int], *, tenant: str | None = None, days: int = 7
    ) -> ApiRequest[list[QuotaTestResult]]:
        """Return the tenants that would have been over these limits in the last days."""
        body = {"limits": dict(limits), "tenant": tenant, "days": days}
        return json_request("POST", "/admin/quotas/test", list[QuotaTestResult], body, field="results")

    @operation
    def tenant_usage(
        self,
        tenant: str,
        *,
        from_time: str | None = None,
        to_time: str | None = None,
        by: Literal["hour", "day", "month", "total"] = "day",
    ) -> ApiRequest[TenantUsage]:
        """Return the usage of a tenant; times are RFC 3339. Default: the last 30 days."""
        path = with_query(_path(tenant, "usage"), from_time=from_time, to_time=to_time, by=by)
        return json_request("GET", path, TenantUsage)

    @operation
    def usage_report(
        self,
        *,
        from_time: str | None = None,
        to_time: str | None = None,
        by: Literal["hour", "day", "month", "total"] = "day",
    ) -> ApiRequest[list[UsagePeriod]]:
        """Return the usage of all tenants by periods, deleted tenants included."""
        path = with_query("/admin/usage", from_time=from_time, to_time=to_time, by=by)
        return json_request("GET", path, list[UsagePeriod], field="periods")


def _path(tenant: str, what: str) -> str:
    return f"/admin/tenants/{quote(tenant)}/{what}"
