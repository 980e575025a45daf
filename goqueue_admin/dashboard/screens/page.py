"""What every screen is: a head, crumbs, a body of its own, a line of news, a prompt, and its keys."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module

from textual.app import ComposeResult
from textual.containers import Container
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widget import Widget

from goqueue_admin.dashboard import pages, questions
from goqueue_admin.dashboard.host import Host, host_of
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question
from goqueue_admin.dashboard.views import status
from goqueue_admin.dashboard.widgets.crumbs import Crumbs
from goqueue_admin.dashboard.widgets.flash import Flash
from goqueue_admin.dashboard.widgets.foot import Foot
from goqueue_admin.dashboard.widgets.head import Head
from goqueue_admin.dashboard.widgets.prompt import Prompt
from goqueue_admin.dashboard.widgets.table import Table


class Page(Screen[None]):
    """A screen of the dashboard. Its own are `questions`, `body` and `show`, and often `command` and `open`.

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

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place

    # --- what a screen says of itself ---

    def questions(self) -> Sequence[Question]:
        """What it needs to know, the most visible first."""
        return ()

    def needed(self) -> Sequence[Question]:
        """Those without which there is nothing to show."""
        return self.questions()

    def body(self) -> Iterator[Widget]:
        """The widgets between the crumbs and the line of news."""
        yield from ()

    def show(self, known: Known) -> None:
        """Draw what is known by now."""

    def command(self) -> str:
        """The command that tells the same in a shell."""
        return "goqueue-cli version"

    def open(self, key: str) -> Place | None:
        """Where a line leads."""
        del key
        return None

    def note(self) -> str:
        """What stands at the right of the crumbs."""
        return self.table.summary if self.table is not None else ""

    def suggestions(self) -> Sequence[str]:
        """Names that may be typed behind the name of a screen here."""
        return ()

    def changed(self) -> None:
        """Something was changed from here: what was known of it may not be so any more."""

    # --- what all have ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that change something have the action `change`, and are absent where nothing may be changed."""
        if action == "change" and self.dashboard.read_only:
            return False
        return super().check_action(action, parameters)

    @property
    def dashboard(self) -> Host:
        return host_of(self)

    def compose(self) -> ComposeResult:
        yield Head()
        yield Crumbs()
        with Container(id="body"):
            yield from self.body()
        yield Flash()
        yield Prompt()
        yield Foot()

    def on_mount(self) -> None:
        app = self.dashboard
        self.query_one(Head).place(app.service.address, app.context)
        self.query_one(Crumbs).show([pages.title(place) for place in pages.trail(self.place)])
        app.recall(self)
        self.draw()

    def draw(self) -> None:
        """Everything, from what is known now."""
        with suppress(NoMatches):  # an answer may come before the widgets are there, or after they have gone
            self._draw()

    def _draw(self) -> None:
        service = self.dashboard.service
        known, link = service.known, service.link
        stats, doctor = known.facts(questions.STATS), known.facts(questions.DOCTOR)
        self.query_one(Head).show(
            status.health(link, doctor),
            status.about(stats, known.facts(questions.VERSION)),
            status.meters(stats, known.facts(questions.HISTORY)),
        )
        self.set_class(link.state == "away", "-away")
        self.tell_link()
        waiting = f"asking {service.address} …" if link.state == "asking" else f"{service.address} does not answer"
        for table in self.query(Table):
            if link.state != "here":
                table.excuse(waiting)
        self.show(known)
        if self.trouble():
            for table in self.query(Table):
                table.refuse(self.trouble())

    def trouble(self) -> str:
        """What keeps on being wrong here: the broker would not tell the most important."""
        error = next((self.dashboard.service.known.error(asked) for asked in self.needed()), None)
        return error.sentence if error else ""

    def tell_link(self) -> None:
        """What lasts: that the broker is away, until when, or that it refuses."""
        app = self.dashboard
        service = app.service
        with suppress(NoMatches):
            flash = self.query_one(Flash)
            if service.link.state == "here":
                trouble = self.trouble()
                flash.last(trouble or ("paused: p goes on" if app.is_paused else ""), "bad" if trouble else "warn")
            else:
                text = status.trouble(service.link, service.address, service.clock.now_ns())
                flash.last(text, "bad" if service.link.state == "away" else "muted")

    def say(self, text: str, tone: str = "") -> None:
        with suppress(NoMatches):
            self.query_one(Flash).say(text, tone)

    @property
    def table(self) -> Table[object] | None:
        """The table that keys go to: the one with the focus, or the first."""
        if isinstance(self.focused, Table):
            return self.focused
        return next(iter(self.query(Table)), None)

    def copied(self) -> str:
        """What `c` copies."""
        table = self.table
        return "\n".join(table.picked) if table else ""

    # --- messages of the widgets ---

    def on_table_changed(self) -> None:
        self.query_one(Crumbs).note(self.note())

    def on_table_chosen(self, event: Table.Chosen) -> None:
        place = self.open(event.key)
        if place is not None:
            self.dashboard.go(place)

    def on_crumbs_chosen(self, event: Crumbs.Chosen) -> None:
        place = pages.trail(self.place)[event.index]
        if place != self.place:
            self.dashboard.go(place)

    def action_prompt_filter(self) -> None:
        table = self.table
        if table is not None:
            self.query_one(Prompt).ask("filter", "/", table.chosen.text, "part of a name; !part leaves those out")

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        if event.kind == "filter" and self.table is not None:
            self.table.filter(event.text)

    def on_prompt_given(self, event: Prompt.Given) -> None:
        self.refocus()
        if event.kind == "filter" and self.table is not None:
            self.table.filter(event.text)
        elif event.kind == "go":
            self.dashboard.go_to(event.text)
        else:
            self.given(event.kind, event.text)

    def on_prompt_left(self, event: Prompt.Left) -> None:
        self.refocus()
        if event.kind == "filter" and self.table is not None:
            self.table.filter(event.text)

    def given(self, kind: str, text: str) -> None:
        """What was typed into a prompt of the screen's own."""

    def refocus(self) -> None:
        first = next((widget for widget in self.query("#body *") if widget.focusable), None)
        self.set_focus(first)


def make(place: Place) -> Page:
    """The screen of a place."""
    module, _, name = pages.row_of(place).target.partition(":")
    page: Page = getattr(import_module(module), name)(place)
    return page
