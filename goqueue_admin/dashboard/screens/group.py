"""One group: its members, how far behind it is, and what a rebalance waits for."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from goqueue_admin.dashboard import commands, questions
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question, question
from goqueue_admin.dashboard.screens import document
from goqueue_admin.dashboard.screens.delete import DeleteScreen
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.screens.reset import ResetScreen
from goqueue_admin.dashboard.screens.window import Window
from goqueue_admin.dashboard.views import groups as views
from goqueue_admin.dashboard.views import numbers
from goqueue_admin.dashboard.views.chart import Series
from goqueue_admin.dashboard.views.groups import MemberLine, PlaceLine
from goqueue_admin.dashboard.views.table import Sorting
from goqueue_admin.dashboard.views.trend import Trend
from goqueue_admin.dashboard.widgets.figures import Figures
from goqueue_admin.dashboard.widgets.lanes import Lanes
from goqueue_admin.dashboard.widgets.plot import Plot
from goqueue_admin.dashboard.widgets.spark import Spark
from goqueue_admin.dashboard.widgets.table import Table

_TOPICS_MAX = 20
"""Of a group that reads very many, the priorities of the first ones are counted."""


class GroupPage(Page):
    """Enter opens the messages of a partition, or shows a member; tab goes from the one table to the other."""

    AUTO_FOCUS = "#places"
    BINDINGS: ClassVar = [
        Binding("o", "change('reset')", "Reset offsets", id="group.reset"),
        Binding("x", "change('delete')", "Delete", id="group.delete"),
        Binding("tab", "app.focus_next", "Other table", show=False, id="group.other"),
    ]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._group = place.about[0]
        self._asked = question("group", self._group)
        self._cooperative = question("cooperative_group", self._group)
        self._lag = Trend()
        self._drawn: Any = None

    def questions(self) -> Sequence[Question]:
        return (self._asked, self._cooperative, *self._lanes())

    def needed(self) -> Sequence[Question]:
        return (self._asked, self._cooperative)

    def _lanes(self) -> Sequence[Question]:
        """Of each topic that it reads: all that there are would be many."""
        topics = self.dashboard.service.known.facts(self._asked).get("lag", ())
        return [question("priority_stats", topic, self._group) for topic in list(topics)[:_TOPICS_MAX]]

    def body(self) -> Iterator[Widget]:
        yield Figures()
        yield Figures()
        yield Static(id="rebalance")
        yield Spark("lag", numbers.short, id="spark")
        yield Plot("Lag", numbers.short, id="trend")
        yield Vertical(
            Table(
                views.member_columns(is_rebalancing=False),
                lambda line: line.id,
                Sorting("MEMBER"),
                empty="nobody is in it",
                id="members",
            ),
            Table(
                views.place_columns(),
                views.place_key,
                Sorting("PARTITION"),
                empty="it has read nothing yet",
                id="places",
            ),
            Lanes(),
            id="tables",
        )

    def show(self, known: Known) -> None:
        group, cooperative = known.facts(self._asked), known.facts(self._cooperative)
        facts, distance = self.query(Figures)
        facts.show(views.facts(group))
        distance.show(views.distance(group))
        self._show_rebalance(views.revocations(group, cooperative))
        self._show_lag(known)
        now_ns = self.dashboard.service.clock.now_ns()
        self.query_one(Lanes).show(known, self._lanes(), now_ns)
        members = self.query_one("#members", Table)
        members.columns = views.member_columns(is_rebalancing=bool(cooperative.get("partitions_to_revoke")))
        members.fill(views.members(group, cooperative.get("partitions_to_revoke") or {}, now_ns))
        members.styles.height = max(2, min(len(members.records) + 1, 4 if self.size.height < 32 else 9))
        if group is not self._drawn:  # there may be thousands of partitions, and a round brings many answers
            self._drawn = group
            before = known.before(self._asked)
            self.query_one("#places", Table).fill(views.places(group), views.places(before or {}))

    def _show_rebalance(self, lines: Sequence[str]) -> None:
        shown = self.query_one("#rebalance", Static)
        shown.display = bool(lines)
        shown.update(Content("\n").join(Content(line) for line in lines))

    def _show_lag(self, known: Known) -> None:
        group = known.facts(self._asked)
        if group:
            self._lag.add(group["total_lag"], known.at_ns(self._asked))
        self.query_one(Spark).show(self._lag.points)
        self.query_one(Plot).show([Series("messages", self._lag.points, "first")] if group else [])

    def command(self) -> str:
        return commands.line("goqueue-cli", "group", "describe", self._group, server=self.dashboard.service.address)

    def open(self, key: str) -> Place | None:
        line = self._place(key)
        if line is not None:
            partition = () if line.name.partition < 0 else (str(line.name.partition),)
            return Place("messages", (line.name.topic, *partition))
        member = next((one for one in self.query_one("#members", Table).records if one.id == key), None)
        if member is not None:
            self.app.push_screen(Window(member.id, _told(member), member.id))
        return None

    def _place(self, key: str) -> PlaceLine | None:
        return next((one for one in self.query_one("#places", Table).records if views.place_key(one) == key), None)

    def suggestions(self) -> Sequence[str]:
        return [one.group_id for one in self.dashboard.service.known.get(questions.GROUPS) or ()]

    def action_change(self, what: str) -> None:
        if what == "delete":
            self.app.push_screen(DeleteScreen([self._group]))
            return
        table = self.query_one("#places", Table)
        marked = [line.name for line in table.records if views.place_key(line) in table.marked]
        topics = {name.topic for name in marked}
        partitions = sorted(name.partition for name in marked if name.partition >= 0)
        chosen = ",".join(map(str, partitions)) if len(topics) == 1 else ""
        self.app.push_screen(ResetScreen(self._group, topics.pop() if len(topics) == 1 else "", chosen))


def _told(member: MemberLine) -> Content:
    facts = (
        ("client", member.client),
        ("topics", " ".join(member.topics)),
        ("partitions", member.has or "none"),
        ("gives up", member.gives_up or "nothing"),
        ("heard", f"{numbers.seconds(member.heartbeat_seconds)} ago"),
        ("session", numbers.seconds(member.session_seconds)),
        ("joined", f"{numbers.seconds(member.joined_seconds)} ago"),
        ("in flight", f"{member.in_flight:,} of at most {member.in_flight_max:,}"),
    )
    return Content("\n").join(document.facts([(*fact, "") for fact in facts]))
