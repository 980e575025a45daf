"""The base of all screens: header, breadcrumbs, a body, status line, prompt and key bar."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from shlex import quote

from textual.app import App, ComposeResult
from textual.containers import Container
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

from goqueue.errors import BackupTargetInvalid, ClusterOff, TenantsOff
from goqueue_admin.dashboard.broker.service import (
    DOCTOR,
    HISTORY,
    STATS,
    VERSION,
    BrokerCall,
    CallResults,
    Service,
    broker_call,
)
from goqueue_admin.dashboard.screens import routes
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.widgets import frame
from goqueue_admin.dashboard.widgets.frame import Breadcrumbs, HeaderBar, KeyBar, ScreenBar, StatusLine
from goqueue_admin.dashboard.widgets.plots import RANGES, PlotRange
from goqueue_admin.dashboard.widgets.prompt import Prompt
from goqueue_admin.dashboard.widgets.table import RowTable

MUTED = "$foreground 62%"
_HISTORY_SECONDS = 10


class DashboardApp(App[None]):
    """The application as its screens use it; `app` implements it."""

    service: Service
    context: str
    protected: bool
    read_only: bool
    is_paused: bool
    range_index: int = 0
    """The time that the plots of all screens show, as an index of `RANGES`."""

    def shell_command(self, *words: str) -> str:
        """Return a command line for this broker, quoted for a shell."""
        return " ".join(quote(word) for word in (*words, "--server", self.service.address))

    @abstractmethod
    def go(self, place: Location, *, row: str = "", reason: str = "") -> None:
        """Show another screen, with the cursor on a row; `reason` stays on its status line."""

    @abstractmethod
    def go_to(self, text: str) -> None:
        """Show the screen that was typed."""

    @abstractmethod
    def switch_context(self, name: str) -> None:
        """Connect to the broker of a context, and show it."""

    @abstractmethod
    def look(self, *, fresh: bool = False) -> None:
        """Start a round of calls; `fresh` cancels the current one."""

    @abstractmethod
    async def copy(self, text: str) -> None:
        """Copy a text and report how it was copied."""

    @abstractmethod
    def recall(self, page: Screen[None]) -> None:
        """Restore filter, order, marks and cursor of a screen that was left."""


def app_of(node: DOMNode) -> DashboardApp:
    """Return the application of a screen or window."""
    assert isinstance(node.app, DashboardApp)
    return node.app


class DashboardScreen(Screen[None]):
    """A screen of the dashboard. Its own are `calls`, `body` and `show`, and often `command` and `open`.

    It never asks the broker itself: it says what it wants to know, and is shown what is known, whenever there is an
    answer. So it can be drawn at any time, from nothing as well.
    """

    AUTO_FOCUS = "#body *"
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as the class it is from declares it
        (0, "-narrow"),
        (120, "-wide"),
        (180, "-vast"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (32, "-high")]  # noqa: RUF012

    def __init__(self, place: Location) -> None:
        super().__init__()
        self.place = place
        self.reason = ""
        """Why it was opened, such as the finding that is about its subject."""

    # --- what a screen says of itself ---

    def calls(self) -> Sequence[BrokerCall]:
        """Return the calls that it needs, the most visible first."""
        return ()

    def needed(self) -> Sequence[BrokerCall]:
        """Return the calls without which it shows nothing."""
        return self.calls()

    def body(self) -> Iterator[Widget]:
        """Yield the widgets between breadcrumbs and status line."""
        yield from ()

    def show(self, known: CallResults) -> None:
        """Draw the known results."""

    def command(self) -> str:
        """Return the equivalent shell command."""
        return "goqueue-cli version"

    def open(self, key: str) -> Location | None:
        """Return the location that a row opens."""
        del key
        return None

    def note(self) -> str:
        """Return the text at the right of the breadcrumbs."""
        return self.table.summary if self.table is not None else ""

    def changed(self) -> None:
        """Called after a dialog changed something."""

    # --- what all have ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the action `change`, which all changing keys have, in read-only mode."""
        if action == "change" and self.dashboard.read_only:
            return False
        return super().check_action(action, parameters)

    @property
    def dashboard(self) -> DashboardApp:
        return app_of(self)

    def compose(self) -> ComposeResult:
        yield HeaderBar()
        screens = [(digit, row.name) for digit, row in routes.keyed_routes()]
        yield ScreenBar(screens, [place.page for place in routes.trail(self.place)][:2][-1])
        yield Breadcrumbs()
        with Container(id="body"):
            yield from self.body()
        yield StatusLine()
        yield Prompt()
        yield KeyBar()

    def on_mount(self) -> None:
        app = self.dashboard
        self.query_one(HeaderBar).place(app.service.address, app.context, is_protected=app.protected)
        self.query_one(Breadcrumbs).show([routes.location_title(place) for place in routes.trail(self.place)])
        app.recall(self)
        self.draw()

    def draw(self) -> None:
        """Draw the screen from the known results."""
        with suppress(NoMatches):  # an answer may come before the widgets are there, or after they have gone
            self._draw()

    def _draw(self) -> None:
        service = self.dashboard.service
        known, link = service.known, service.link
        stats, doctor = known.facts(STATS), known.facts(DOCTOR)
        self.query_one(HeaderBar).show(
            frame.health_badge(link, doctor),
            frame.broker_summary(stats, known.facts(VERSION)),
            frame.header_rates(stats, known.facts(HISTORY)),
        )
        self.set_class(link.state == "away", "-away")
        self.tell_link()
        waiting = f"asking {service.address} …" if link.state == "asking" else f"{service.address} does not answer"
        for table in self.query(RowTable):
            if link.state != "here":
                table.excuse(waiting)
        self.show(known)
        if self.trouble():
            for table in self.query(RowTable):
                table.refuse(self.trouble())

    def trouble(self) -> str:
        """Return the error of the first needed call, if any."""
        error = next((self.dashboard.service.known.error(asked) for asked in self.needed()), None)
        if isinstance(error, TenantsOff | ClusterOff | BackupTargetInvalid):
            return f"{error.sentence}: {error.hint}"
        return error.sentence if error else ""

    def tell_link(self) -> None:
        """Show the connection state or the lasting error."""
        app = self.dashboard
        service = app.service
        with suppress(NoMatches):
            flash = self.query_one(StatusLine)
            if service.link.state == "here":
                trouble = self.trouble()
                told = trouble or ("paused: p goes on" if app.is_paused else self.reason)
                flash.last(told, "bad" if trouble else "warn")
            else:
                text = frame.connection_trouble(service.link, service.address, service.clock.now_ns())
                flash.last(text, "bad" if service.link.state == "away" else "muted")

    def say(self, text: str, tone: str = "") -> None:
        with suppress(NoMatches):
            self.query_one(StatusLine).say(text, tone)

    @property
    def table(self) -> RowTable[object] | None:
        """The focused table, or the first."""
        if isinstance(self.focused, RowTable):
            return self.focused
        return next(iter(self.query(RowTable)), None)

    def copied(self) -> str:
        """Return the text that `c` copies."""
        table = self.table
        return "\n".join(table.picked) if table else ""

    # --- the time that plots show ---

    @property
    def plot_range(self) -> PlotRange:
        return RANGES[self.dashboard.range_index]

    def history_call(self, group: str | None = None) -> BrokerCall:
        """Return the call for the plots of the chosen time. Groups have points of ten seconds and more."""
        time = self.plot_range
        return broker_call("history", time.seconds, max(time.step, 10 if group else 1), group)

    def history_calls(self, group: str | None = None) -> Sequence[BrokerCall]:
        """Return that call when there is something new: long plots change every ten seconds."""
        if not group and not self.dashboard.range_index:
            return []
        return self.dashboard.service.due([self.history_call(group)], _HISTORY_SECONDS)

    def action_show_range(self) -> None:
        app = self.dashboard
        app.range_index = (app.range_index + 1) % len(RANGES)
        self.say(f"plots show the last {self.plot_range.name}")
        self.draw()
        app.look(fresh=True)

    # --- messages of the widgets ---

    def on_row_table_rearranged(self) -> None:
        self.query_one(Breadcrumbs).note(self.note())

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        place = self.open(event.key)
        if place is not None:
            self.dashboard.go(place)

    def on_breadcrumbs_chosen(self, event: Breadcrumbs.Chosen) -> None:
        place = routes.trail(self.place)[event.index]
        if place != self.place:
            self.dashboard.go(place)

    def on_screen_bar_chosen(self, event: ScreenBar.Chosen) -> None:
        self.dashboard.go(Location(event.name))

    def action_prompt_filter(self) -> None:
        table = self.table
        if table is not None:
            self.query_one(Prompt).ask("filter", "/", table.chosen.text, "part of a name; !part leaves those out")

    def on_prompt_edited(self, event: Prompt.Edited) -> None:
        if event.kind == "filter" and self.table is not None:
            self.table.filter(event.text)

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        self.refocus()
        if event.kind == "filter" and self.table is not None:
            self.table.filter(event.text)
        elif event.kind == "go":
            self.dashboard.go_to(event.text)
        else:
            self.given(event.kind, event.text)

    def on_prompt_closed(self, event: Prompt.Closed) -> None:
        self.refocus()
        if event.kind == "filter" and self.table is not None:
            self.table.filter(event.text)

    def given(self, kind: str, text: str) -> None:
        """Handle text from a prompt of the screen itself."""

    def refocus(self) -> None:
        first = next((widget for widget in self.query("#body *") if widget.focusable), None)
        self.set_focus(first)


def make_screen(place: Location) -> DashboardScreen:
    """Create the screen of a location."""
    module, _, name = routes.route_of(place).target.partition(":")
    page: DashboardScreen = getattr(import_module(f".{module}", __package__), name)(place)
    return page
