"""The waterfall of one trace."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens import windows
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.windows import DetailWindow
from goqueue_admin.dashboard.views import traces as views
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.table import RowTable

_POSITION = re.compile(r"(delayed:)?([^/]+)/(\d{1,9})@(\d{1,19})", re.ASCII)
_BAR_CELLS, _BAR_CELLS_WIDE = 20, 36
_WIDE_COLUMNS = 120


def trace_location(topic: str, partition: int, offset: int, *, delayed: bool = False) -> Location:
    """Return the screen with the trace of a message."""
    return Location("trace", (f"{'delayed:' if delayed else ''}{topic}/{partition}@{offset}",))


class TraceScreen(DashboardScreen):
    """The events of a message and its copies. Enter shows one in full."""

    AUTO_FOCUS = "RowTable"

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._about = place.about[0]
        found = _POSITION.fullmatch(self._about)
        if found is None:
            self._asked = broker_call("trace", self._about.lower())
        else:
            delayed, topic, partition, offset = found.groups()
            position = (topic, int(partition), int(offset))
            self._asked = broker_call("message_trace", *position, delayed=delayed is not None)
        self._drawn: Any = None

    def calls(self) -> Sequence[BrokerCall]:
        return (self._asked,)

    @property
    def _bar_cells(self) -> int:
        return _BAR_CELLS_WIDE if self.app.size.width >= _WIDE_COLUMNS else _BAR_CELLS

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield Static(id="facts")
        yield RowTable(views.event_columns(self._bar_cells), lambda row: row.key, empty="Nothing is recorded of it.")

    def show(self, known: CallResults) -> None:
        told = known.facts(self._asked)
        self.query_one(NumbersBar).show(views.trace_numbers(told))
        facts = self.query_one("#facts", Static)
        facts.display = bool(told)
        if told and told is not self._drawn:
            self._drawn = told
            facts.update(Content("\n").join(windows.fact_lines(list(views.trace_facts(told)))))
            self.query_one(RowTable).fill(views.event_rows(told, self._bar_cells))

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        row = next((one for one in self.query_one(RowTable).records if one.key == event.key), None)
        if row is not None:
            lines = windows.fact_lines(views.event_facts(row))
            self.app.push_screen(DetailWindow(row.event, Content("\n").join(lines), row.details))

    def copied(self) -> str:
        """Return the trace id."""
        return str(self.dashboard.service.known.facts(self._asked).get("trace_id", ""))

    def command(self) -> str:
        position = self._about.removeprefix("delayed:")
        words = () if position == self._about else ("--delayed",)
        return self.dashboard.shell_command("goqueue-cli", "trace", "get", position, *words)
