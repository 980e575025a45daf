"""Tenants: their status, what belongs to each, and the dialogs that suspend and activate them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget

from goqueue.quantities import format_count, format_size
from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogPlan
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.views.table import SortOrder, TableColumn
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client import TenantContents, TenantInfo

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
    """All tenants. Enter opens the quotas of one, `x` suspends or activates the one under the cursor."""

    BINDINGS: ClassVar = [Binding("x", "switch", "Suspend/activate", id="tenants.switch")]

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


class TenantStatusDialog(ActionDialog):
    """Suspends an active tenant, and activates another one."""

    def __init__(self, tenant: "TenantInfo") -> None:
        self._tenant = tenant
        self._action = "suspend" if tenant.status == "active" else "activate"
        super().__init__(f"{self._action.capitalize()} a tenant", tenant.id)

    async def plan(self) -> DialogPlan:
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
        if self._action == "suspend":
            lines.append(
                Content.styled("Nothing is published, consumed or changed any more; waiting requests end.", "$warning")
            )
        return DialogPlan(lines, f"{self._action} the tenant {self._tenant.id}")

    async def carry_out(self) -> Sequence[Content]:
        changed = await self.dashboard.service.do(broker_call("set_tenant_status", self._tenant.id, self._action))
        return [Content.styled(f"{changed.id} is {changed.status}", "$success")]

    def command(self) -> str:
        consent = ("--dry-run",) if self._action == "suspend" else ()
        return self.dashboard.shell_command("goqueue-admin", "tenant", self._action, self._tenant.id, *consent)
