"""The contexts of `goqueue-cli config`, and the connection to the broker of another one."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from textual.widget import Widget

from goqueue.console import contexts
from goqueue.console.contexts import Context
from goqueue.console.options import resolve_options
from goqueue.errors import ConfigInvalid
from goqueue.quantities import parse_duration
from goqueue_admin.dashboard.broker.service import VERSION, CallResults, Service, connect
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.views.table import SortOrder, TableColumn
from goqueue_admin.dashboard.widgets.table import RowTable


class OpenedContext(NamedTuple):
    """A context whose broker answers."""

    name: str
    service: Service
    is_protected: bool


async def open_context(name: str) -> OpenedContext:
    """Connect to the broker of a context. Raises a GoQueueError, or UsageInvalid for a wrong setting."""
    chosen = resolve_options({"context": name}, os.environ)
    service = connect(
        chosen.server.value,
        parse_duration(chosen.timeout.value),
        chosen.api_key.value.read(),
        chosen.tls,
        chosen.tenant.value,
    )
    try:
        await service.fetch(VERSION)
    except BaseException:
        await service.close()
        raise
    return OpenedContext(name, service, chosen.guard is not None)


class ContextRow(NamedTuple):
    """A context, and whether it is the one on the screen."""

    name: str
    context: Context
    is_shown: bool


def context_columns() -> tuple[TableColumn[ContextRow], ...]:
    return (
        TableColumn("", lambda one: "●" if one.is_shown else " ", width=1, tone="good"),
        TableColumn("CONTEXT", lambda one: one.name, width=16, grows=True),
        TableColumn("SERVER", lambda one: one.context.server, width=24, grows=True),
        TableColumn(
            "PROTECTED", lambda one: one.context.protected, lambda is_so: "◆ yes" if is_so else "no", 9, tone=_tone
        ),
    )


def _tone(one: ContextRow) -> str:
    return "warn" if one.context.protected else "muted"


class ContextsScreen(DashboardScreen):
    """The contexts. Enter connects to the broker of one."""

    def body(self) -> Iterator[Widget]:
        empty = "there are no contexts: `goqueue-cli config create NAME --server URL` creates one"
        yield RowTable(context_columns(), lambda one: one.name, SortOrder("CONTEXT"), empty=empty)

    def show(self, known: CallResults) -> None:
        del known
        table = self.query_one(RowTable)
        try:
            found = contexts.load(os.environ).contexts
        except ConfigInvalid as error:
            table.refuse(error.sentence)
        else:
            table.fill([ContextRow(name, one, name == self.dashboard.context) for name, one in found.items()])

    def command(self) -> str:
        return "goqueue-cli config list"

    def open(self, key: str) -> Location | None:
        self.dashboard.switch_context(key)
        return None
