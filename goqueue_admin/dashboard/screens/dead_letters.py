"""The topics that have dead letters, and how many."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue_admin.dashboard import commands, questions
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question
from goqueue_admin.dashboard.screens.counted import CountedPage
from goqueue_admin.dashboard.screens.redrive import RedriveScreen
from goqueue_admin.dashboard.views import letters as views
from goqueue_admin.dashboard.views.letters import TopicLine
from goqueue_admin.dashboard.views.table import Sorting
from goqueue_admin.dashboard.widgets.table import Table


class DeadLettersPage(CountedPage):
    """Enter opens the reasons. To count, the broker looks at every letter, so it is asked to now and then."""

    BINDINGS: ClassVar = [Binding("d", "change", "Send back", id="dlq.redrive")]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._asked: set[str] = set()
        self._first: str | None = None
        """Where the cursor stood before anything was counted."""

    def questions(self) -> Sequence[Question]:
        return (questions.TOPICS, *(self.counting(name) for name in self._due()))

    def _due(self) -> list[str]:
        tables, now_ns = self.query(Table), self.dashboard.service.clock.now_ns()
        if not tables:  # not there yet, or not any more
            return []
        table = tables.first()
        seen = set(table.seen_keys)
        return [
            line.name
            for line in table.records
            if line.name in seen and self.recount.is_due(line.name, line.messages, now_ns)
        ]

    def body(self) -> Iterator[Widget]:
        yield Table(
            views.topic_columns(), views.topic_key, Sorting("LETTERS", falling=True), empty="there are no dead letters"
        )

    def show(self, known: Known) -> None:
        topics = known.get(questions.TOPICS)
        lines = views.topic_lines(topics, lambda name: known.facts(self.counting(name)))
        before = views.topic_lines(topics, lambda name: known.before(self.counting(name)) or {})
        table = self.query_one(Table)
        table.fill(lines, before)
        self._begin_at_the_top(table)
        for line in lines or ():
            self.recount.note(line.name, line.messages, known.at_ns(self.counting(line.name)))
        new = set(self._due()) - self._asked
        if new:
            self._asked |= new
            self.call_next(self.dashboard.look)

    def _begin_at_the_top(self, table: "Table[TopicLine]") -> None:
        """The counts decide the order: whoever has not moved the cursor meanwhile sees the worst first."""
        if self._first is None and table.records:
            self._first = table.current_key
        if self._first and all(line.letters is not None for line in table.records):
            if table.current_key == self._first:
                table.action_first()
            self._first = ""

    def command(self) -> str:
        names = [name.removesuffix(views.SUFFIX) for name in self.query_one(Table).picked]
        return commands.line("goqueue-cli", "dlq", "list", *names, server=self.dashboard.service.address)

    def open(self, key: str) -> Place:
        return Place("errors", (key,))

    def suggestions(self) -> Sequence[str]:
        return [line.name for line in self.query_one(Table).records]

    def action_change(self) -> None:
        table = self.query_one(Table)
        if table.current_key:
            self.app.push_screen(RedriveScreen(table.current_key))
