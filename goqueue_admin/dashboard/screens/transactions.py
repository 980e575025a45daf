"""The open transactions of all producers, the oldest first: how long, and what waits for them."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue_admin.dashboard import commands, questions
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question, question
from goqueue_admin.dashboard.screens.abort import AbortScreen
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.views import transactions as views
from goqueue_admin.dashboard.views.transactions import AT_ONCE
from goqueue_admin.dashboard.widgets.figures import Figures
from goqueue_admin.dashboard.widgets.table import Table

_STATES = ("open", "all")
_EMPTY = {"open": "No transaction is open.", "all": "No producer has a transactional id."}


class TransactionsPage(Page):
    """Enter opens one. Of very many the oldest are shown: any other is opened by its name."""

    BINDINGS: ClassVar = [
        Binding("x", "change('abort')", "Abort", id="transactions.abort"),
        Binding("v", "state", "Open, all ids", show=False, id="transactions.state"),
    ]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._state = _STATES[0]
        self._drawn: Any = None

    @property
    def _asked(self) -> Question:
        return question("transactions", self._state, None, AT_ONCE)

    def questions(self) -> Sequence[Question]:
        return (self._asked, questions.TRANSACTIONS)

    def needed(self) -> Sequence[Question]:
        return (self._asked,)

    def body(self) -> Iterator[Widget]:
        yield Figures()
        yield Figures(id="ended")
        yield Table(views.columns(), views.line_key, empty=_EMPTY[self._state])

    def show(self, known: Known) -> None:
        found, stats = known.get(self._asked), known.facts(questions.TRANSACTIONS)
        now, ended = self.query(Figures)
        now.show(views.open_figures(stats, any(views.tone(one) == "bad" for one in found or ())))
        ended.show(views.ended_figures(stats))
        if found is not self._drawn:  # a round brings many answers, and this one has many lines
            self._drawn = found
            self.query_one(Table).fill(views.lines(found))

    def note(self) -> str:
        summary, table = super().note(), self.query_one(Table)
        stats = self.dashboard.service.known.facts(questions.TRANSACTIONS)
        total = stats.get("active_transactions" if self._state == "open" else "transactional_ids", 0)
        is_cut = len(table.records) == AT_ONCE and total > AT_ONCE
        cut = f"first of {total:,}; :transaction ID opens any" if is_cut else ""
        return " · ".join(part for part in ("" if self._state == "open" else "all ids", summary, cut) if part)

    def command(self) -> str:
        names, server = self.query_one(Table).marked, self.dashboard.service.address
        if names:
            return commands.line("goqueue-cli", "transaction", "describe", *sorted(names), server=server)
        words = ("--all",) if self._state == "all" else ()
        return commands.line("goqueue-cli", "transaction", "list", *words, server=server)

    def open(self, key: str) -> Place:
        return Place("transaction", (key,))

    def suggestions(self) -> Sequence[str]:
        return [line.name for line in self.query_one(Table).records]

    def action_state(self) -> None:
        """Also the ids of which nothing is open, or not any more."""
        self._state = _STATES[1 - _STATES.index(self._state)]
        table = self.query_one(Table)
        table.empty = _EMPTY[self._state]
        table.refuse("asking …")
        self._drawn = None
        self.draw()
        self.dashboard.look(fresh=True)

    def action_change(self, what: str) -> None:
        """Of those that are marked, or of the line under the cursor: as they are shown."""
        del what
        table = self.query_one(Table)
        picked = set(table.picked)
        if picked:
            self.app.push_screen(AbortScreen([line.told for line in table.records if line.name in picked]))
