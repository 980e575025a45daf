"""Findings about quotas of tenants."""

from goqueue.observe.facts import BrokerFacts
from goqueue.observe.finding import Finding, FindingStream, finding_rule
from goqueue.quantities import format_duration, format_size

NEAR_PERCENT, FULL_PERCENT = 80, 100
THROTTLED_SECONDS = 300
"""A burst is over by then."""


@finding_rule("warning", "note")
def quota_near(facts: BrokerFacts) -> FindingStream:
    for one in facts.quotas:
        is_beyond_soft = one.soft_limit is not None and one.used > one.soft_limit
        if one.is_rate or one.limit is None or one.percent < NEAR_PERCENT:
            if is_beyond_soft:
                yield Finding(
                    one.tenant,
                    f"it is over the soft limit of {one.quota}: {_amount(one.quota, one.used)} of "
                    f"{_amount(one.quota, one.soft_limit)}",
                    f"`goqueue-admin quota get {one.tenant}` shows all; a soft limit refuses nothing",
                    {"quota": one.quota, "used": one.used, "soft_limit": one.soft_limit},
                    severity="note",
                )
            continue
        yield Finding(
            one.tenant,
            f"it uses {one.percent:.0f} % of its quota {one.quota}: {_amount(one.quota, one.used)} of "
            f"{_amount(one.quota, one.limit)}",
            "let its team delete something, or raise the quota: "
            f"`goqueue-admin quota set {one.tenant} {one.quota}=VALUE`",
            {"quota": one.quota, "used": one.used, "limit": one.limit, "percent": one.percent},
            severity="warning" if one.percent >= FULL_PERCENT else "note",
        )


@finding_rule("warning")
def quota_throttled(facts: BrokerFacts) -> FindingStream:
    for one in facts.quotas:
        if one.throttled_seconds >= THROTTLED_SECONDS:
            yield Finding(
                one.tenant,
                f"its requests have been refused or delayed for {format_duration(round(one.throttled_seconds))}, "
                f"because of its quota {one.quota}",
                f"let its team send less, or raise the quota: `goqueue-admin quota set {one.tenant} {one.quota}=VALUE`",
                {"quota": one.quota, "seconds": one.throttled_seconds, "violations": one.violations},
            )


def _amount(quota: str, value: float | None) -> str:
    """Return an amount with the unit of its quota."""
    return format_size(int(value or 0)) if "bytes" in quota else f"{value or 0:,.0f}"
