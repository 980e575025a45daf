"""Tenants: their status, what belongs to each, and the dialog that changes the status of one."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget

from goqueue.console.terminal import escape_unprintable
from goqueue.quantities import format_count, format_size, quoted
from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogField, DialogPlan
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.views.table import SortOrder, TableColumn
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client import TenantContents, TenantInfo

TenantAction = Literal["suspend", "activate", "disable"]

_TENANTS = broker_call("tenants")
_TONES = {"active": "good", "suspended": "warn", "disabled": "muted", "deleting": "bad"}


def tenant_columns() -> "tuple[TableColumn[TenantInfo], ...]":
    return (
        TableColumn("ID", lambda one: one.id, width=12, grows=True, most=40),
        TableColumn("NAME", lambda one: one.display_name or one.name, width=14, grows=True, most=40),
        TableColumn("STATUS", lambda one: one.status, width=9, tone=lambda one: _TONES.get(one.status, "")),
        TableColumn("SINCE", lambda one: one.status_since, _short_time, 14),
        TableColumn("REASON", lambda one: one.reason or "-", width=10, grows=True, most=60, rank=1, tone="muted"),
        TableColumn("CREATED", lambda one: one.created_at, _short_time, 14, rank=2, tone="muted"),
    )


def _short_time(time: str) -> str:
    return time[5:19].replace("T", " ") or "-"


class TenantsScreen(DashboardScreen):
    """All tenants. Enter opens the quotas of one, `x` changes the status of the one under the cursor."""

    BINDINGS: ClassVar = [Binding("x", "switch", "Change status", id="tenants.switch")]

    def calls(self) -> Sequence[BrokerCall]:
        return (_TENANTS,)

    def body(self) -> Iterator[Widget]:
        yield RowTable(tenant_columns(), lambda one: one.id, SortOrder("ID"), empty="there are no tenants")

    def show(self, known: CallResults) -> None:
        self.query_one(RowTable).fill(known.get(_TENANTS))

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "tenant", "list")

    def open(self, key: str) -> Location:
        return Location("tenant", (key,))

    def action_switch(self) -> None:
        tenant = self.query_one(RowTable).current
        if tenant is not None and not self.dashboard.read_only:
            self.app.push_screen(TenantStatusDialog(tenant))


_ACTIONS: dict[str, TenantAction] = {"active": "activate", "suspended": "suspend", "disabled": "disable"}
_EFFECTS = {
    "suspended": "Nothing is published, consumed or changed any more; waiting requests end.",
    "disabled": "Nothing is answered any more, not even lists; waiting requests end.",
}


class TenantStatusDialog(ActionDialog):
    """Suspends or disables a tenant, with a reason for those who are refused, and activates it."""

    def __init__(self, tenant: "TenantInfo") -> None:
        self._tenant = tenant
        status = "suspended" if tenant.status == "active" else "active"
        fields = [
            DialogField("status", "status", status, "active, suspended or disabled"),
            DialogField("reason", "reason", hint="told to those who are refused"),
        ]
        super().__init__("Change the status of a tenant", tenant.id, fields)

    @property
    def _action(self) -> TenantAction:
        status = self.values["status"]
        if status not in _ACTIONS:
            raise ValueError(f"status is {quoted(status)}, and must be active, suspended or disabled")
        return _ACTIONS[status]

    async def plan(self) -> DialogPlan:
        action, reason = self._action, self.values["reason"]
        contents: TenantContents = await self.dashboard.service.do(broker_call("tenant_contents", self._tenant.id))
        counts = ", ".join(
            (
                format_count(contents.topic_count, "topic"),
                format_count(contents.group_count, "group"),
                format_count(contents.members, "member"),
                format_count(contents.key_count, "key"),
                format_size(contents.size_bytes),
            )
        )
        lines = [Content(f"{self._tenant.id}  {counts}")]
        if (effect := _EFFECTS.get(self.values["status"])) is not None:
            lines.append(Content.styled(effect, "$warning"))
            told = (
                f"Those who are refused are told: {reason}" if reason else "Those who are refused are told no reason."
            )
            lines.append(Content(escape_unprintable(told)))
        return DialogPlan(lines, f"{action} the tenant {self._tenant.id}")

    async def carry_out(self) -> Sequence[Content]:
        reason = "" if self._action == "activate" else self.values["reason"]
        change = broker_call("set_tenant_status", self._tenant.id, self._action, reason=reason)
        changed = await self.dashboard.service.do(change)
        return [Content.styled(f"{changed.id} is {changed.status}", "$success")]

    def command(self) -> str:
        action, reason = _ACTIONS.get(self.values["status"], "suspend"), self.values["reason"]
        options = () if action == "activate" else (*(("--reason", reason) if reason else ()), "--dry-run")
        return self.dashboard.shell_command("goqueue-admin", "tenant", action, self._tenant.id, *options)
