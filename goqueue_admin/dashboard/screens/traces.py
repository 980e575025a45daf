"""The latest traces, searches for others, and the waterfall of one."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
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
from goqueue_admin.dashboard.widgets.prompt import Prompt
from goqueue_admin.dashboard.widgets.table import RowTable

_POSITION = re.compile(r"(delayed:)?([^/]+)/(\d{1,9})@(\d{1,19})", re.ASCII)
_BAR_CELLS, _BAR_CELLS_WIDE = 20, 36
_WIDE_COLUMNS = 120
_AT_ONCE = 100
_REFRESH_SECONDS = 4
_PLACE = ("topic", "partition", "offset")
_STATS = broker_call("trace_stats")


def trace_location(topic: str, partition: int, offset: int, *, delayed: bool = False) -> Location:
    """Return the screen with the trace of a message."""
    return Location("trace", (f"{'delayed:' if delayed else ''}{topic}/{partition}@{offset}",))


class TracesScreen(DashboardScreen):
    """The newest traces, or those that meet the conditions of a search."""

    BINDINGS: ClassVar = [Binding("v", "state", "Status", id="traces.status")]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._search = ""
        self._status = views.STATUSES[0]
        self._conditions: dict[str, Any] = {}
        self._drawn: Any = None

    @property
    def _asked(self) -> BrokerCall:
        chosen = {} if self._status == views.STATUSES[0] else {"status": self._status}
        options = {**self._conditions, **chosen}
        return broker_call("search_traces", limit=_AT_ONCE, **options) if options else broker_call("traces", _AT_ONCE)

    def calls(self) -> Sequence[BrokerCall]:
        asked = self._asked
        return (asked, _STATS) if self.dashboard.service.due([asked], _REFRESH_SECONDS) else ()

    def needed(self) -> Sequence[BrokerCall]:
        return (self._asked,)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        columns = views.list_columns(self.dashboard.service.clock.now_ns)
        yield RowTable(columns, views.list_key, empty="There are no such traces.")

    def show(self, known: CallResults) -> None:
        self.query_one(NumbersBar).show(views.list_numbers(known.facts(_STATS)))
        found = known.get(self._asked)
        if found is not self._drawn:
            self._drawn = found
            self.query_one(RowTable).fill(found)

    def note(self) -> str:
        status = "" if self._status == views.STATUSES[0] else self._status
        return " · ".join(part for part in (f"/{self._search}" if self._search else "", status, super().note()) if part)

    def open(self, key: str) -> Location | None:
        one = next((one for one in self.query_one(RowTable).records if views.list_key(one) == key), None)
        return None if one is None else trace_location(*(one[n] for n in _PLACE), delayed=one["delayed"])

    def copied(self) -> str:
        table = self.query_one(RowTable)
        picked = set(table.picked)
        return "\n".join(one["trace_id"] for one in table.records if views.list_key(one) in picked)

    def command(self) -> str:
        flags = views.search_flags(dict(self._asked.options)) if self._asked.method == "search_traces" else []
        return self.dashboard.shell_command("goqueue-cli", "trace", "search" if flags else "list", *flags)

    def action_prompt_filter(self) -> None:
        self.query_one(Prompt).ask("traces", "/", self._search, views.SEARCH_HINT)

    def given(self, kind: str, text: str) -> None:
        if kind != "traces":
            return
        try:
            self._conditions = views.parse_search(text, self.dashboard.service.clock.now_ns())
        except ValueError as error:
            self.say(str(error), "bad")
            return
        self._search, self._status = text, self._conditions.pop("status", views.STATUSES[0])
        self._ask_again()

    def action_state(self) -> None:
        """Show the traces of the next status, then all."""
        following = views.STATUSES.index(self._status) + 1
        self._status = views.STATUSES[following % len(views.STATUSES)]
        self._ask_again()

    def _ask_again(self) -> None:
        self._drawn = None
        self.query_one(RowTable).refuse("searching …")
        self.draw()
        self.dashboard.look(fresh=True)


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
