"""The last lines of the broker's log, newest first, from a level on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget

from goqueue.console.formatting import format_fields
from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens import windows
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.windows import DetailWindow
from goqueue_admin.dashboard.views.table import SortOrder, TableColumn
from goqueue_admin.dashboard.widgets.frame import Breadcrumbs
from goqueue_admin.dashboard.widgets.table import RowTable

LogLineJson = Mapping[str, Any]

_LINES_MAX = 500
_LEVELS = ("info", "warning", "error", "debug")
_TONES = {"warning": "warn", "error": "bad", "critical": "bad", "debug": "muted"}
_MARKS = {"warning": "▲", "error": "◆", "critical": "◆"}


def line_key(one: LogLineJson) -> str:
    """Return the number of a line, and its text for the filter."""
    return f"{one['number']} {one['level']} {line_text(one)}"


def line_text(one: LogLineJson) -> str:
    return " ".join(filter(None, (one["event"], format_fields(one["fields"]))))


def line_columns() -> tuple[TableColumn[LogLineJson], ...]:
    return (
        TableColumn("TIME", lambda one: one["time"], lambda time: time[11:23], 12),
        TableColumn("", lambda one: _MARKS.get(one["level"], "·"), width=1, tone=_tone),
        TableColumn("LEVEL", lambda one: one["level"], width=7, rank=1, tone=_tone),
        TableColumn("EVENT", line_text, width=24, grows=True, most=400),
        TableColumn("LOGGER", lambda one: one["logger"].removeprefix("goqueue."), width=16, rank=2, tone="muted"),
    )


def _tone(one: LogLineJson) -> str:
    return _TONES.get(one["level"], "")


class LogsScreen(DashboardScreen):
    """The log. Enter shows a line in full, `v` changes the lowest level, `a` adds requests."""

    BINDINGS: ClassVar = [
        Binding("v", "level", "Level", id="logs.level"),
        Binding("a", "requests", "Requests", id="logs.requests"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._level = _LEVELS[0]
        self._has_requests = False

    @property
    def _asked(self) -> BrokerCall:
        return broker_call("logs", self._level, _LINES_MAX, requests=self._has_requests)

    def calls(self) -> Sequence[BrokerCall]:
        return (self._asked,)

    def body(self) -> Iterator[Widget]:
        yield RowTable(line_columns(), line_key, SortOrder("TIME", falling=True), empty="there are no lines")

    def show(self, known: CallResults) -> None:
        table = self.query_one(RowTable)
        answer, is_at_top = known.get(self._asked), table.is_at_top
        table.fill(None if answer is None else answer["lines"])
        if is_at_top:
            table.action_first()

    def note(self) -> str:
        requests = " with requests" if self._has_requests else ""
        return f"{self._level} and above{requests} · {self.query_one(RowTable).summary}"

    def command(self) -> str:
        requests = () if self._has_requests else ("--no-requests",)
        return self.dashboard.shell_command("goqueue-admin", "broker", "logs", "--level", self._level, *requests)

    def open(self, key: str) -> Location | None:
        del key
        line = self.query_one(RowTable).current
        if line is not None:
            facts = {"level": line["level"], "logger": line["logger"], **line["fields"]}
            shown = windows.fact_lines([(name, str(value), "") for name, value in facts.items()])
            content = Content("\n").join([Content.styled(line["event"], "bold"), Content(""), *shown])
            self.app.push_screen(DetailWindow(line["time"], content, f"{line['time']} {line_text(line)}"))
        return None

    def action_level(self) -> None:
        """Show from the next level on."""
        self._level = _LEVELS[(_LEVELS.index(self._level) + 1) % len(_LEVELS)]
        self._again()

    def action_requests(self) -> None:
        """Include requests that did not fail, or leave them out again."""
        self._has_requests = not self._has_requests
        self._again()

    def _again(self) -> None:
        self.query_one(RowTable).refuse("asking …")
        self.query_one(Breadcrumbs).note(self.note())
        self.draw()
        self.dashboard.look(fresh=True)
