"""Facts about quotas of tenants, for the doctor."""

from collections.abc import Iterator

from goqueue.observe.facts import QuotaFacts
from goqueue.observe.quota_findings import NEAR_PERCENT
from goqueue.runtime.usage_runner import UsageRunner

_RATE = "_rate_limit"


def quota_facts(usage: UsageRunner) -> Iterator[QuotaFacts]:
    """Yield the quotas that are nearly used up, over their soft limit, or have refused requests lately."""
    for tenant in usage.uses():
        for one in tenant.quotas:
            used, percent = one.used or 0.0, one.percent or 0.0
            is_beyond_soft = one.soft_limit is not None and used > one.soft_limit
            if percent >= NEAR_PERCENT or is_beyond_soft or one.throttled_seconds:
                yield QuotaFacts(
                    tenant=tenant.tenant,
                    quota=one.quota,
                    used=used,
                    limit=one.limit,
                    soft_limit=one.soft_limit,
                    percent=percent,
                    is_rate=one.quota.endswith(_RATE),
                    violations=one.violations,
                    throttled_seconds=one.throttled_seconds,
                )
