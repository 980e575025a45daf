"""Alerts that the broker sends itself, and the dialog that silences one."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget

from goqueue.console.terminal import escape_unprintable
from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogPlan
from goqueue_admin.dashboard.screens.findings import finding_route
from goqueue_admin.dashboard.views.table import SortOrder, TableColumn
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client import AlertInfo

_ALERTS = broker_call("alerts")
_SILENCE = "1h"
_OFF = "the broker sends no alerts: alerts.webhook_file names no file"
_STATUS_TONES = {"firing": "bad", "pending": "warn", "resolved": "good"}


def alert_columns() -> "tuple[TableColumn[AlertInfo], ...]":
    return (
        TableColumn("STATUS", lambda one: one.status, width=8, tone=_tone),
        TableColumn("SEVERITY", lambda one: one.severity, width=8),
        TableColumn("CODE", lambda one: one.code, width=16, grows=True, most=30),
        TableColumn("SUBJECT", lambda one: one.subject, width=12, grows=True, most=40),
        TableColumn("SINCE", lambda one: one.since, _short_time, 14, rank=1),
        TableColumn("SENT", lambda one: one.sent_at or "", _short_time, 14, rank=2, tone="muted"),
        TableColumn("SILENCED UNTIL", lambda one: one.silenced_until or "", _short_time, 14, rank=1, tone="muted"),
    )


def _tone(one: "AlertInfo") -> str:
    return "muted" if one.silenced_until is not None else _STATUS_TONES.get(one.status, "")


def _short_time(time: str) -> str:
    return time[5:19].replace("T", " ") or "-"


class AlertsScreen(DashboardScreen):
    """All alerts, the worst first. `m` silences the one under the cursor, enter opens its subject."""

    BINDINGS: ClassVar = [Binding("m", "silence", "Silence", id="alerts.silence")]

    def calls(self) -> Sequence[BrokerCall]:
        return (_ALERTS,)

    def body(self) -> Iterator[Widget]:
        yield RowTable(
            alert_columns(), lambda one: f"{one.code} {one.subject}", SortOrder("STATUS"), empty="there are no alerts"
        )

    def show(self, known: CallResults) -> None:
        found = known.get(_ALERTS)
        table = self.query_one(RowTable)
        if found is not None and not found.enabled:
            table.empty = _OFF
        table.fill(None if found is None else found.alerts)

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "alert", "list")

    def open(self, key: str) -> None:
        code, _, subject = key.partition(" ")
        route = finding_route({"code": code, "subject": subject})
        if route is not None:
            self.dashboard.go(route.place, row=route.row)

    def action_silence(self) -> None:
        alert = self.query_one(RowTable).current
        if alert is not None and not self.dashboard.read_only:
            self.app.push_screen(SilenceAlertDialog(alert))


class SilenceAlertDialog(ActionDialog):
    """Silences one alert for an hour."""

    def __init__(self, alert: "AlertInfo") -> None:
        super().__init__("Silence an alert", alert.subject)
        self._alert = alert

    async def plan(self) -> DialogPlan:
        lines = [Content(escape_unprintable(f"{self._alert.code}: {self._alert.sentence}"))]
        lines.append(Content("Nothing is sent about it for an hour, but its end if it was sent."))
        return DialogPlan(lines, f"silence {self._alert.code} of {self._alert.subject} for {_SILENCE}")

    async def carry_out(self) -> Sequence[Content]:
        silence = broker_call("silence_alerts", self._alert.code, _SILENCE, self._alert.subject)
        await self.dashboard.service.do(silence)
        return [Content.styled(f"{self._alert.code} is silenced for {_SILENCE}", "$success")]

    def command(self) -> str:
        subject = self._alert.subject
        return self.dashboard.shell_command("goqueue-admin", "alert", "silence", self._alert.code, "--subject", subject)
