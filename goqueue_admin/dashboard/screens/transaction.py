"""One transactional id: its transaction, what that has touched and holds back, and how the one before has ended."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from goqueue.console.transactions import is_open, outlook
from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question, question
from goqueue_admin.dashboard.screens import document
from goqueue_admin.dashboard.screens.abort import AbortScreen
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.views import transactions as views
from goqueue_admin.dashboard.widgets.figures import Figures
from goqueue_admin.dashboard.widgets.table import Table

_PAGES = {"partition": "messages", "delayed": "schedule", "group": "group"}


class TransactionPage(Page):
    """Enter opens the messages of a partition, what is delayed in a topic, or a group."""

    AUTO_FOCUS = "Table"
    BINDINGS: ClassVar = [Binding("x", "change('abort')", "Abort", id="transaction.abort")]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._about = place.about[0]
        self._asked = question("transaction", self._about)
        self._drawn: Any = None

    def questions(self) -> Sequence[Question]:
        return (self._asked,)

    def body(self) -> Iterator[Widget]:
        yield Figures()
        yield Figures(id="weight")
        yield Static(id="facts")
        yield Table(views.place_columns(), views.place_key, empty="It has touched nothing yet.")

    def show(self, known: Known) -> None:
        told = known.facts(self._asked)
        now, weight = self.query(Figures)
        now.show(views.figures(told))
        weight.show(views.weight(told))
        weight.display = bool(told) and is_open(told)
        self._show_facts(told)
        if told is not self._drawn:
            self._drawn = told
            table = self.query_one(Table)
            table.empty = "It has touched nothing yet." if told and is_open(told) else "Nothing is open."
            table.fill(views.places(told))

    def _show_facts(self, told: views.Told) -> None:
        shown = self.query_one("#facts", Static)
        shown.display = bool(told)
        if told:
            lines = list(views.facts(told, outlook(told), self.dashboard.service.clock.now_ns()))
            shown.update(Content("\n").join(document.facts(lines)))

    def command(self) -> str:
        server = self.dashboard.service.address
        return commands.line("goqueue-cli", "transaction", "describe", self._about, server=server)

    def open(self, key: str) -> Place | None:
        line = next((one for one in self.query_one(Table).records if views.place_key(one) == key), None)
        return None if line is None else Place(_PAGES[line.kind], line.target)

    def action_change(self, what: str) -> None:
        del what
        told = self.dashboard.service.known.facts(self._asked)
        if told and is_open(told):
            self.app.push_screen(AbortScreen([told]))
        elif told:
            self.say(f"nothing is open under {self._about}: there is nothing to abort", "warn")
