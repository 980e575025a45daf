"""API keys: who has one, what it may do, and the dialog that revokes them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget

from goqueue.quantities import format_count
from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogPlan, first_lines
from goqueue_admin.dashboard.views.table import SortOrder, TableColumn
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client import ApiKeyInfo

_LINES = 10
_KEYS = broker_call("api_keys")


def key_columns() -> "tuple[TableColumn[ApiKeyInfo], ...]":
    return (
        TableColumn("NAME", lambda one: one.name, width=16, grows=True, most=40),
        TableColumn("ROLES", lambda one: " ".join(one.roles) or "-", width=16, grows=True, most=40),
        TableColumn("STATE", _state, width=8, tone=lambda one: "muted" if one.expired else "good"),
        TableColumn("USED", lambda one: one.last_used_at or "", _short_time, 14),
        TableColumn("EXPIRES", lambda one: one.expires_at or "", _short_time, 14, rank=1),
        TableColumn("CREATED", lambda one: one.created_at, _short_time, 14, rank=2, tone="muted"),
        TableColumn("BY", lambda one: one.created_by or "-", width=14, grows=True, most=40, rank=3, tone="muted"),
    )


def _state(one: "ApiKeyInfo") -> str:
    return "expired" if one.expired else "rotated" if one.former_valid_until else "valid"


def _short_time(time: str) -> str:
    return time[5:19].replace("T", " ") or "-"


class KeysScreen(DashboardScreen):
    """All API keys, without their secrets. `x` revokes the one under the cursor."""

    BINDINGS: ClassVar = [Binding("x", "revoke", "Revoke", id="keys.revoke")]

    def calls(self) -> Sequence[BrokerCall]:
        return (_KEYS,)

    def body(self) -> Iterator[Widget]:
        yield RowTable(key_columns(), lambda one: one.name, SortOrder("NAME"), empty="there are no API keys")

    def show(self, known: CallResults) -> None:
        self.query_one(RowTable).fill(known.get(_KEYS))

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "key", "list")

    def open(self, key: str) -> None:
        del key

    def action_revoke(self) -> None:
        key = self.query_one(RowTable).current
        if key is not None and not self.dashboard.read_only:
            self.app.push_screen(RevokeKeyDialog(key))


class RevokeKeyDialog(ActionDialog):
    """Revokes an API key; its requests that wait end at once."""

    def __init__(self, key: "ApiKeyInfo") -> None:
        super().__init__("Revoke an API key", key.name)
        self._key = key

    async def plan(self) -> DialogPlan:
        rules = [
            one
            for one in await self.dashboard.service.do(broker_call("access_rules"))
            if one.principal == f"key:{self._key.name}"
        ]
        lines = [Content(f"{self._key.name}  {' '.join(self._key.roles) or 'no roles'}")]
        lines += first_lines(
            [Content(f"{one.effect} {','.join(one.actions)} on {one.kind} {one.pattern}") for one in rules],
            _LINES,
            "rules",
        )
        if rules:
            lines.append(Content.styled(f"{format_count(len(rules), 'rule')} of it will be deleted.", "$warning"))
        return DialogPlan(lines, f"revoke the API key {self._key.name}")

    async def carry_out(self) -> Sequence[Content]:
        await self.dashboard.service.do(broker_call("revoke_api_key", self._key.name))
        return [Content.styled(f"{self._key.name} is revoked", "$success")]

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "key", "revoke", self._key.name, "--dry-run")
