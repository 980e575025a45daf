"""Why the dead letters of a topic have failed."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question, question
from goqueue_admin.dashboard.screens.counted import CountedTopicPage
from goqueue_admin.dashboard.screens.redrive import RedriveScreen
from goqueue_admin.dashboard.views import letters as views
from goqueue_admin.dashboard.views.table import Sorting
from goqueue_admin.dashboard.widgets.table import Table

_SAMPLE = 100
"""Of the newest letters: when a reason was met last is seen from them."""


class ErrorsPage(CountedTopicPage):
    """Enter opens the letters of a reason, `m` all of them."""

    BINDINGS: ClassVar = [
        Binding("d", "change", "Send back", id="errors.redrive"),
        Binding("m", "letters", "All letters", id="errors.letters"),
    ]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._newest: Question | None = None
        self._newest_ns = 0

    def questions(self) -> Sequence[Question]:
        newest = self._newest
        is_missing = newest is not None and not self.dashboard.service.known.at_ns(newest)
        return [*self.asked(), *([newest] if newest and is_missing else [])]

    def body(self) -> Iterator[Widget]:
        yield Table(
            views.error_columns(), views.error_key, Sorting("COUNT", falling=True), empty="there are no dead letters"
        )

    def show(self, known: Known) -> None:
        info, counted_ns = known.get(self.about), known.at_ns(self.count)
        if info is not None and counted_ns:
            self.recount.note(self.topic, info.total_messages, counted_ns)
            if counted_ns != self._newest_ns:
                count = views.at_once(info.total_messages, info.total_size_bytes, _SAMPLE)
                self._newest = question("dead_letters", self.topic, count, start=views.newest_start(info, count))
                self._newest_ns = counted_ns
                self.call_next(self.dashboard.look)
        newest = known.facts(self._newest).get("messages", ()) if self._newest else ()
        before = views.error_lines(known.before(self.count) or {}, ())
        self.query_one(Table).fill(views.error_lines(known.facts(self.count), newest), before)

    def command(self) -> str:
        topic = self.topic.removesuffix(views.SUFFIX)
        return commands.line("goqueue-cli", "dlq", "errors", topic, server=self.dashboard.service.address)

    def open(self, key: str) -> Place:
        return Place("letters", (self.topic, key))

    def action_letters(self) -> None:
        self.dashboard.go(Place("letters", (self.topic,)))

    def action_change(self) -> None:
        self.app.push_screen(RedriveScreen(self.topic, error=self.query_one(Table).current_key))
