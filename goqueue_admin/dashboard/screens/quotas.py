"""Quotas of a tenant with bars, and the dialog that changes one."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget

from goqueue.console.quotas import BYTES, DEFAULT, UNLIMITED, format_quota, parse_quota
from goqueue.drawing.bars import bar
from goqueue.quantities import format_count, format_duration, format_size
from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import MUTED, DashboardScreen
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogField, DialogPlan
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.table import SortOrder, TableColumn
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client import TenantQuotas, TenantUsage
    from goqueue.client.quota_requests import QuotaUse

_REFRESH_SECONDS = 5
_BAR_CELLS = 12


def quota_columns() -> "tuple[TableColumn[QuotaUse], ...]":
    return (
        TableColumn("QUOTA", lambda one: one.quota, width=24),
        TableColumn("LIMIT", lambda one: format_quota(one.quota, one.limit), width=10, right=True),
        TableColumn("USED", _used, width=10, right=True),
        TableColumn("", lambda one: one.percent, _bar, _BAR_CELLS + 5, tone=_tone),
        TableColumn("VIOLATIONS", lambda one: one.violations, formats.count, 10, right=True, rank=1, moves=True),
        TableColumn("SOFT", lambda one: _limit(one.quota, one.soft_limit), width=10, right=True, rank=2),
        TableColumn("THROTTLED", lambda one: one.throttled_seconds or None, _duration, 9, right=True, rank=3),
    )


def _used(one: "QuotaUse") -> str | None:
    return _limit(one.quota, one.used)


def _limit(quota: str, value: float | None) -> str | None:
    return None if value is None else format_quota(quota, value)


def _bar(percent: float) -> str:
    return f"{bar(percent, 100.0, _BAR_CELLS):<{_BAR_CELLS}} {percent:>3.0f}%"


def _duration(seconds: float) -> str:
    return format_duration(round(seconds))


def _tone(one: "QuotaUse") -> str:
    return "muted" if one.percent is None else formats.share_tone(one.percent / 100)


class TenantQuotasScreen(DashboardScreen):
    """The quotas of a tenant, and what it uses of them. `e` changes the one under the cursor."""

    BINDINGS: ClassVar = [Binding("e", "edit", "Change", id="quotas.edit")]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._tenant = place.about[0]
        self._asked = broker_call("tenant_usage", self._tenant, by="total")

    def calls(self) -> Sequence[BrokerCall]:
        return self.dashboard.service.due([self._asked], _REFRESH_SECONDS)

    def needed(self) -> Sequence[BrokerCall]:
        return (self._asked,)

    def changed(self) -> None:
        self.dashboard.service.known.age(self._asked)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield RowTable(quota_columns(), lambda one: one.quota, SortOrder("QUOTA"), empty="there are no quotas")

    def show(self, known: CallResults) -> None:
        usage: TenantUsage | None = known.get(self._asked)
        if usage is not None:
            self.query_one(NumbersBar).show(
                [
                    LabeledNumber(format_count(usage.published_messages), "published"),
                    LabeledNumber(format_count(usage.consumed_messages), "consumed"),
                    LabeledNumber(format_size(usage.storage_bytes), "stored"),
                    LabeledNumber(format_count(usage.topics), "topic" if usage.topics == 1 else "topics"),
                    LabeledNumber(
                        format_count(usage.connections), "connection" if usage.connections == 1 else "connections"
                    ),
                ]
            )
        self.query_one(RowTable).fill(None if usage is None else usage.quotas)

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "quota", "get", self._tenant)

    def open(self, key: str) -> None:
        del key

    def action_edit(self) -> None:
        quota = self.query_one(RowTable).current
        if quota is not None and not self.dashboard.read_only:
            self.app.push_screen(QuotaDialog(self._tenant, quota))


class QuotaDialog(ActionDialog):
    """Changes a quota and its soft limit."""

    def __init__(self, tenant: str, use: "QuotaUse") -> None:
        hint = f"a number{' or a size' if BYTES in use.quota else ''}, {UNLIMITED} or {DEFAULT}"
        limit = UNLIMITED if use.limit is None else str(int(use.limit))
        soft = "" if use.soft_limit is None else str(int(use.soft_limit))
        fields = [DialogField("limit", "limit", limit, hint), DialogField("soft", "soft limit", soft, "empty: none")]
        super().__init__(f"Change {use.quota}", tenant, fields)
        self._tenant = tenant
        self._use = use

    @property
    def _limit(self) -> int | str | None:
        return parse_quota(self._use.quota, self.values["limit"])

    @property
    def _soft(self) -> int | None:
        found = parse_quota(self._use.quota, self.values["soft"] or DEFAULT)
        return found if isinstance(found, int) else None

    async def plan(self) -> DialogPlan:
        limit, soft, use = self._limit, self._soft, self._use
        quotas: TenantQuotas = await self.dashboard.service.do(broker_call("tenant_quotas", self._tenant))
        default = quotas.defaults.get(use.quota)
        after = default if limit is None else None if isinstance(limit, str) else float(limit)
        shown = f"{format_quota(use.quota, after)}{', the default' if limit is None else ''}"
        before = format_quota(use.quota, use.limit)
        lines = [Content.assemble(f"{self._tenant}  {use.quota}", (f"  {before} → ", MUTED), shown)]
        if soft != use.soft_limit:
            old, new = (format_quota(use.quota, one) if one is not None else "none" for one in (use.soft_limit, soft))
            lines.append(Content.assemble("soft limit", (f"  {old} → ", MUTED), new))
        if after is not None and use.used is not None and use.used >= after:
            told = f"It uses {format_quota(use.quota, use.used)}: requests are refused at once. Nothing is deleted."
            lines.append(Content.styled(told, "$warning"))
        return DialogPlan(lines, f"set {use.quota} of {self._tenant}")

    async def carry_out(self) -> Sequence[Content]:
        quotas: TenantQuotas = await self.dashboard.service.do(broker_call("tenant_quotas", self._tenant))
        soft: dict[str, int | None] = {name: int(value) for name, value in quotas.soft_limits.items()}
        soft[self._use.quota] = self._soft
        change = broker_call("change_tenant_quotas", self._tenant, {self._use.quota: self._limit}, soft_limits=soft)
        changed: TenantQuotas = await self.dashboard.service.do(change)
        limit = getattr(changed, self._use.quota)
        return [Content.styled(f"{self._use.quota} is {format_quota(self._use.quota, limit)}", "$success")]

    def command(self) -> str:
        value = self.values["limit"] or DEFAULT
        return self.dashboard.shell_command(
            "goqueue-admin", "quota", "set", self._tenant, f"{self._use.quota}={value}", "--dry-run"
        )
