"""The delayed messages of all topics: what is due when, and in which topics they wait."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue_admin.dashboard import commands, questions
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question, question
from goqueue_admin.dashboard.screens.decide import FittingScreen
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.views import delayed as views
from goqueue_admin.dashboard.views import timeline
from goqueue_admin.dashboard.views.decisions import DEEDS
from goqueue_admin.dashboard.views.table import Sorting
from goqueue_admin.dashboard.widgets.figures import Figures
from goqueue_admin.dashboard.widgets.table import Table
from goqueue_admin.dashboard.widgets.timeline import Timeline


class DelayedPage(Page):
    """Enter opens what waits in a topic. The bars are of the topics that have most."""

    AUTO_FOCUS = "Table"
    BINDINGS: ClassVar = [
        Binding("x", "change('cancel')", "Cancel", id="delayed.cancel"),
        Binding("e", "change('reschedule')", "Reschedule", id="delayed.reschedule"),
        Binding("d", "change('deliver')", "Deliver now", id="delayed.deliver"),
    ]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._asked: set[str] = set()

    @staticmethod
    def _timeline(topic: str) -> Question:
        return question("delayed_timeline", topic)

    def questions(self) -> Sequence[Question]:
        service = self.dashboard.service
        stats, now_ns = service.known.facts(questions.DELAYS), service.clock.now_ns()
        due = [
            asked
            for name in views.asked_topics(stats)
            if views.is_due(stats["topics"][name], service.known.at_ns(asked := self._timeline(name)), now_ns)
        ]
        return (questions.DELAYS, *due)

    def needed(self) -> Sequence[Question]:
        """A topic that is deleted while it is on the screen goes from it."""
        return (questions.DELAYS,)

    def body(self) -> Iterator[Widget]:
        yield Figures()
        yield Figures(id="wheel")
        yield Timeline()
        yield Table(
            views.topic_columns(),
            views.topic_key,
            Sorting("PENDING", falling=True),
            empty="no message waits to be delivered",
        )

    def show(self, known: Known) -> None:
        stats = known.facts(questions.DELAYS)
        now_ns = self.dashboard.service.clock.now_ns()
        shown = views.asked_topics(stats)
        whole = timeline.joined(known.facts(self._timeline(name)) for name in shown)
        broker_ns = max((self._now_ns(known, name) for name in shown), default=now_ns)
        figures, wheel = self.query(Figures)
        figures.show(views.all_figures(stats, broker_ns))
        wheel.show(views.wheel_figures(stats))
        self.query_one(Timeline).show(timeline.bars(whole))
        lines = views.topic_lines(
            stats, lambda name: known.facts(self._timeline(name)), lambda name: self._now_ns(known, name)
        )
        before = known.before(questions.DELAYS)
        self.query_one(Table).fill(lines, views.topic_lines(before, lambda _: {}, lambda _: now_ns))
        if new := set(shown) - self._asked:
            self._asked |= new
            self.call_next(self.dashboard.look)

    def _now_ns(self, known: Known, topic: str) -> int:
        asked = self._timeline(topic)
        return timeline.broker_now(known.facts(asked), known.at_ns(asked), self.dashboard.service.clock.now_ns())

    def note(self) -> str:
        summary = super().note()
        return (
            f"{summary} · bars of the first {views.TIMELINES_MAX}"
            if len(self._asked) > views.TIMELINES_MAX
            else summary
        )

    def command(self) -> str:
        names, server = self.query_one(Table).picked, self.dashboard.service.address
        return commands.line("goqueue-cli", "delayed", *(["timeline", *names] if names else ["stats"]), server=server)

    def open(self, key: str) -> Place:
        return Place("schedule", (key,))

    def suggestions(self) -> Sequence[str]:
        return [line.name for line in self.query_one(Table).records]

    def action_change(self, what: str) -> None:
        topic = self.query_one(Table).current_key
        if topic:
            self.app.push_screen(FittingScreen(topic, DEEDS[what]))
