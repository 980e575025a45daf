"""`goqueue-admin quota` and `goqueue-admin usage`: limits of tenants, and what they use."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent, DryRunFlag
from goqueue.console.names import reject_empty_names
from goqueue.console.positions import parse_time_flag
from goqueue.console.quotas import RATE, UNLIMITED, format_quota, parse_limits
from goqueue.console.rows import Column, Row, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.quantities import format_count, format_duration, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.client import TenantQuotas

_NEAR_PERCENT = 80
_Id = Annotated[str, typer.Argument(metavar="TENANT", help="Id of a tenant.")]
_Step = Literal["hour", "day", "month", "total"]
_Values = Annotated[list[str], typer.Argument(metavar="QUOTA=VALUE...", help="Quotas, and their limits.")]


def _percent_style(row: Row) -> str:
    percent = row["percent"]
    if percent is None or percent < _NEAR_PERCENT:
        return ""
    return "bad" if percent >= 100 else "moving"


def _amount(row: dict[str, Any], field: str) -> str | None:
    return None if row[field] is None and field != "limit" else format_quota(str(row["quota"]), row[field])


def _percent(value: float) -> str:
    return f"{value:.0f} %"


def _period(begin: str) -> str:
    """Return when a period began: its day, or the hour of it."""
    day, _, time = begin.partition("T")
    return day if time.startswith("00:00") else f"{day}T{time[:5]}Z"


def _throttled(seconds: float) -> str:
    return format_duration(round(seconds)) if seconds else "-"


_QUOTAS = (
    Column("QUOTA", "quota"),
    Column("LIMIT", "limit_text"),
    Column("SOURCE", "source"),
    Column("SOFT", "soft_text"),
    Column("USED", "used_text"),
    Column("PERCENT", "percent", _percent, style=_percent_style),
    Column("VIOLATIONS", "violations", format_count),
    Column("WARNINGS", "warnings", format_count, wide=True),
    Column("THROTTLED", "throttled_seconds", _throttled, wide=True),
)
_CHANGES = (
    Column("QUOTA", "quota"),
    Column("BEFORE", "before_text"),
    Column("AFTER", "after_text"),
    Column("RESULT", "result"),
)
_TESTS = (
    Column("TENANT", "tenant"),
    Column("QUOTA", "quota"),
    Column("LIMIT", "limit_text"),
    Column("PEAK", "peak_text"),
    Column("HOURS", "hours", format_count),
    Column("FIRST", "first_at"),
    Column("LAST", "last_at"),
)
_PERIODS = (
    Column("TENANT", "tenant_id"),
    Column("PERIOD", "period", _period),
    Column("PUBLISHED", "published_messages", format_count),
    Column("PUBLISHED-BYTES", "published_bytes", format_size),
    Column("CONSUMED", "consumed_messages", format_count),
    Column("CONSUMED-BYTES", "consumed_bytes", format_size),
    Column("STORAGE", "storage_bytes", format_size),
    Column("TOPICS", "topics", format_count),
    Column("VIOLATIONS", "violations", lambda found: format_count(sum(found.values()))),
    Column("PEAK-STORAGE", "storage_peak_bytes", format_size, wide=True),
    Column("BYTE-HOURS", "storage_byte_hours", format_size, wide=True),
    Column("PARTITIONS", "partitions", format_count, wide=True),
    Column("CONNECTIONS", "connections_peak", format_count, wide=True),
    Column("WARNINGS", "warnings", lambda found: format_count(sum(found.values())), wide=True),
    Column("HOURS", "hours", format_count, wide=True),
)


@session_flags
def get(tenant_id: _Id, *, session: Session) -> None:
    """Show the quotas of a tenant and what it uses of them.

    \b
      goqueue-admin quota get team-a
      goqueue-admin quota get team-a -o wide
      goqueue-admin quota get team-a -o json

    SOURCE is `tenant` for a value of its own, and `default` for that of the broker. VIOLATIONS are refused requests and
    delayed polls since the broker started.
    """
    reject_empty_names(tenant_id, noun="tenant")
    with doing(f"get quotas of tenant {tenant_id}"), session.client() as client:
        quotas, usage = client.tenant_quotas(tenant_id), client.tenant_usage(tenant_id, by="total")
    rows = [struct_to_row(one) for one in usage.quotas]
    for row in rows:
        row["source"] = "tenant" if row["quota"] in quotas.overrides else "default"
        if session.for_people:
            row |= {
                "limit_text": _amount(row, "limit"),
                "soft_text": _amount(row, "soft_limit"),
                "used_text": _amount(row, "used"),
            }
    session.write(rows, _QUOTAS if session.for_people else (), name="quota")


@session_flags
def set_quotas(
    tenant_id: _Id,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="QUOTA=VALUE...", help="Quotas, and their limits.")
    ] = None,
    soft: Annotated[
        list[str] | None,
        typer.Option("--soft", metavar="QUOTA=VALUE", help="A limit that only warns, or `none`; may be repeated."),
    ] = None,
    *,
    dry_run: DryRunFlag = False,
    session: Session,
) -> None:
    """Set quotas of a tenant; the others stay as they are.

    \b
      goqueue-admin quota set team-a publish_rate_limit=1000 max_topics=50
      goqueue-admin quota set team-a max_topics=unlimited max_connections=default
      goqueue-admin quota set team-a --soft max_storage_bytes=8GiB

    A value is a number, a size for quotas of bytes, `unlimited`, or `default` for the value of the broker. They count
    at once. `goqueue-admin quota test` shows which tenants would have been over a limit.
    """
    reject_empty_names(tenant_id, noun="tenant")
    wanted = parse_limits(values or [])
    if not wanted and not soft:
        raise UsageInvalid("there is nothing to set", hint="give QUOTA=VALUE or --soft QUOTA=VALUE")
    with doing(f"set quotas of tenant {tenant_id}"), session.client() as client:
        before = client.tenant_quotas(tenant_id)
        _refuse_unknown(wanted, before)
        limits: dict[str, int | None] | None = None
        if soft:
            changed = {name: value if isinstance(value, int) else None for name, value in parse_limits(soft).items()}
            limits = {**{name: int(value) for name, value in before.soft_limits.items()}, **changed}
        after = before if dry_run else client.change_tenant_quotas(tenant_id, wanted, soft_limits=limits)
    planned = _Plan(wanted, limits or {}) if dry_run else None
    names = [*wanted, *(f"soft {name}" for name in parse_limits(soft or []))]
    _write_changes(session, [_change_row(name, before, after, planned) for name in names])


@session_flags
def reset(tenant_id: _Id, *, consent: Consent, session: Session) -> None:
    """Reset all quotas of a tenant to the defaults of the broker.

    \b
      goqueue-admin quota reset team-a --dry-run
      goqueue-admin quota reset team-a --yes
    """
    reject_empty_names(tenant_id, noun="tenant")
    with doing(f"reset quotas of tenant {tenant_id}"), session.client() as client:
        before = client.tenant_quotas(tenant_id)
        if not consent.dry_run:
            require_confirmation(session, f"reset the quotas of tenant {tenant_id}", name=tenant_id, consent=consent)
        after = before if consent.dry_run else client.reset_tenant_quotas(tenant_id)
    planned = _Plan(dict.fromkeys(before.overrides), {}) if consent.dry_run else None
    names = [*before.overrides, *(f"soft {name}" for name in before.soft_limits)]
    _write_changes(session, [_change_row(name, before, after, planned) for name in names])
    if not names:
        session.note(f"tenant {tenant_id} has no quotas of its own")


@session_flags
def compare(
    values: _Values,
    days: Annotated[int, typer.Option("--days", min=1, max=396, help="How far to look back.")] = 7,
    *,
    session: Session,
) -> None:
    """Show which tenants would have been over a limit in the last days. Nothing changes.

    \b
      goqueue-admin quota test publish_rate_limit=500
      goqueue-admin quota test max_storage_bytes=10GiB max_topics=50 --days 30

    A rate is compared with the highest average of up to ten seconds in each hour: a burst within them was faster.
    """
    limits = {name: value for name, value in parse_limits(values).items() if isinstance(value, int)}
    if len(limits) < len(values):
        raise UsageInvalid("a limit to test is a number or a size", hint="as in publish_rate_limit=500")
    with doing("test quotas"), session.client() as client:
        found = client.test_quotas(limits, tenant=session.tenant or None, days=days)
    rows = [struct_to_row(one) for one in found]
    for row in rows if session.for_people else ():
        row |= {"limit_text": _amount(row, "limit"), "peak_text": _amount(row, "peak")}
    session.write(rows, _TESTS if session.for_people else (), name="tenant")
    if not rows:
        session.note(f"no tenant was over these limits in the recorded hours of the last {days} days")


@session_flags
def usage(
    tenant_id: Annotated[str | None, typer.Argument(metavar="[TENANT]", help="Id of a tenant. Default: all.")] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Begin, as in -7d. Default: the period of 30 days ago.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="End, as in 2026-03-01. Default: now.")
    ] = None,
    by: Annotated[_Step, typer.Option("--by", help="Length of the periods, in UTC.")] = "day",
    *,
    session: Session,
) -> None:
    """Report what tenants have published, consumed and stored.

    \b
      goqueue-admin usage
      goqueue-admin usage team-a --by hour --from -1d
      goqueue-admin usage --by month -o csv > bill.csv

    Sizes are those of stored messages. BYTE-HOURS (with -o wide) is the sum of the stored bytes at the end of each
    hour. `--by total` adds up all from --from on, by default 30 days. By default the first day or month is a whole one;
    with --from it begins there, and the last one ends now. Without a tenant, deleted tenants are reported as well.
    """
    begins = None if start is None else format_time(parse_time_flag("--from", start))
    ends = None if end is None else format_time(parse_time_flag("--to", end))
    with doing("report usage"), session.client() as client:
        if tenant_id is None:
            found = client.usage_report(from_time=begins, to_time=ends, by=by)
        else:
            reject_empty_names(tenant_id, noun="tenant")
            found = client.tenant_usage(tenant_id, from_time=begins, to_time=ends, by=by).periods
    rows = [struct_to_row(one) for one in found]
    session.write(rows, _PERIODS, name="tenant_id")
    if not rows:
        session.note("there is no usage in that time")


def _refuse_unknown(wanted: "Mapping[str, Any]", quotas: "TenantQuotas") -> None:
    """Refuse a name that is no quota before anything is asked for, with the nearest one."""
    from goqueue.nearest import nearest  # noqa: PLC0415 - only after a mistake

    known = [name for name in quotas.__struct_fields__ if name.startswith("max_") or name.endswith(RATE)]
    for name in wanted:
        if name not in known:
            meant = nearest(name, known)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(known)}"
            raise UsageInvalid(f"there is no quota {name!r}", hint=hint)


class _Plan(NamedTuple):
    """The values that a dry run would set."""

    wanted: "Mapping[str, Any]"
    soft: "Mapping[str, int | None]"


def _change_row(name: str, before: "TenantQuotas", after: "TenantQuotas", planned: _Plan | None) -> dict[str, Any]:
    """Return the value of a quota before and after a change, or a dry run; `soft NAME` is a soft limit."""
    quota = name.removeprefix("soft ")
    is_soft = quota != name

    def value(quotas: "TenantQuotas") -> int | None:
        found = quotas.soft_limits.get(quota) if is_soft else getattr(quotas, quota)
        return None if found is None else int(found)

    old, new = value(before), value(after)
    if planned is not None and is_soft:
        new = planned.soft.get(quota)
    elif planned is not None:
        given = planned.wanted.get(quota)
        chosen = before.defaults.get(quota) if given is None else None if given == UNLIMITED else given
        new = None if chosen is None else int(chosen)
    result = "unchanged" if old == new else "changed" if planned is None else "would change"
    return {"quota": name, "before": old, "after": new, "result": result}


def _write_changes(session: Session, rows: list[dict[str, Any]]) -> None:
    for row in rows if session.for_people else ():
        quota = row["quota"].removeprefix("soft ")
        for field in ("before", "after"):
            row[f"{field}_text"] = _amount({"quota": quota, "limit": row[field]}, "limit")
    session.write(rows, _CHANGES if session.for_people else (), name="quota")
