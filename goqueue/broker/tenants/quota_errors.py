"""Errors of requests that are over a quota for now."""

from typing import Final

from goqueue.broker.tenants.quotas import QuotaKind
from goqueue.errors import QuotaExceeded
from goqueue.quantities import quoted

_STORAGE_RETRY_SECONDS: Final = 10
"""Retention frees storage at intervals; asking more often finds the same."""
_AMOUNT_RETRY_SECONDS: Final = 1


def rate_exceeded(tenant: str, kind: QuotaKind, rate: float, wait: float) -> QuotaExceeded:
    shown = kind.format(rate) if kind.unit == "bytes" else f"{rate:,.0f} {kind.unit}/s"
    return QuotaExceeded(
        f"tenant {quoted(tenant)} is over its quota {kind.name}: {shown}",
        hint=f"retry after {wait:g} s, or ask an operator to raise it: "
        f"goqueue-admin quota set {tenant} {kind.name}=VALUE",
        quota=kind.name,
        limit=rate,
        remaining=0,
        retry_after=wait,
    )


def storage_full(tenant: str, kind: QuotaKind, limit: float, stored: int, size: int, room: float) -> QuotaExceeded:
    """Return the error of a request that cannot be stored; it would be below `room` of stored bytes."""
    return QuotaExceeded(
        f"{kind.format(size)} cannot be stored: tenant {quoted(tenant)} uses {kind.format(stored)}"
        f" of its quota {kind.name}, {kind.format(limit)}",
        hint=f"it is accepted below {kind.format(room)}: wait for retention, delete "
        f"topics, or ask an operator: goqueue-admin quota set {tenant} {kind.name}=VALUE",
        quota=kind.name,
        limit=limit,
        remaining=max(0, int(limit) - stored),
        retry_after=_STORAGE_RETRY_SECONDS,
    )


def too_many(tenant: str, kind: QuotaKind, limit: float, used: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"tenant {quoted(tenant)} has {kind.format(used)} of at most {kind.format(limit)} {kind.noun}: "
        f"quota {kind.name}",
        hint=f"retry after {_AMOUNT_RETRY_SECONDS} s, or ask an operator to raise it: "
        f"goqueue-admin quota set {tenant} {kind.name}=VALUE",
        quota=kind.name,
        limit=limit,
        remaining=max(0, limit - used),
        retry_after=_AMOUNT_RETRY_SECONDS,
    )
