"""The delayed messages of a topic: when they are due, and each of them, a page at a time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.quantities import format_time
from goqueue_admin.dashboard import commands, questions
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question, question
from goqueue_admin.dashboard.screens.decide import FittingScreen, PlacesScreen
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.screens.scheduled import ScheduledWindow
from goqueue_admin.dashboard.views import delayed as views
from goqueue_admin.dashboard.views import timeline, times
from goqueue_admin.dashboard.views.decisions import DEEDS, DUES
from goqueue_admin.dashboard.views.delayed import AT_ONCE, STATES, Cut
from goqueue_admin.dashboard.views.figure import Figure
from goqueue_admin.dashboard.widgets.figures import Figures
from goqueue_admin.dashboard.widgets.prompt import Prompt
from goqueue_admin.dashboard.widgets.table import Table
from goqueue_admin.dashboard.widgets.timeline import Timeline

_SEARCH_SECONDS = 10
_SEARCH_REST = 10
"""So many times as long as the last search took, the broker has rest of the next one."""


class SchedulePage(Page):
    """Enter shows a message. Keys that decide are about the marked lines or the one under the cursor, and their
    capitals about all that fit.

    With a filter the broker may look at messages for long, so that is asked beside the rounds, and now and then.
    """

    AUTO_FOCUS = "Table"
    BINDINGS: ClassVar = [
        Binding("x", "change('cancel')", "Cancel", id="schedule.cancel"),
        Binding("e", "change('reschedule')", "Reschedule", id="schedule.reschedule"),
        Binding("d", "change('deliver')", "Deliver now", id="schedule.deliver"),
        Binding("X", "change_all('cancel')", "Cancel all that fit", show=False, id="schedule.cancel_all"),
        Binding("E", "change_all('reschedule')", "Reschedule all that fit", show=False, id="schedule.reschedule_all"),
        Binding("D", "change_all('deliver')", "Deliver all that fit", show=False, id="schedule.deliver_all"),
        Binding("n", "leaf(1)", "Next", id="schedule.next"),
        Binding("b", "leaf(-1)", "Page before", show=False, id="schedule.before"),
        Binding("t", "prompt_time", "Due from a time on", show=False, id="schedule.time"),
        Binding("v", "state", "Pending, delivered, cancelled, expired", show=False, id="schedule.state"),
        Binding("m", "messages", "Messages of the topic", show=False, id="schedule.messages"),
        Binding("r", "again", "Refresh", show=False, id="schedule.refresh"),
    ]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.topic = place.about[0]
        self._timeline = question("delayed_timeline", self.topic)
        self._filter = ""
        self._state = STATES[0]
        self._cuts = [Cut()]
        self._found: Mapping[str, Any] = {}
        """What a search has found."""
        self._shown: Sequence[Mapping[str, Any]] = ()
        self._refusal = ""
        self._search_due_ns: int | None = None
        """When it is to be done again; None where nothing is looked for, or that is under way."""

    # --- asking ---

    @property
    def _listing(self) -> Question:
        cut = self._cuts[-1]
        wishes = {"filters": tuple(times.filters(self._filter)), "due_from": cut.due_from, "state": self._state}
        given = {name: wish for name, wish in wishes.items() if wish and wish != STATES[0]}
        return question("delayed", self.topic, AT_ONCE, cut.skip, **given)

    def questions(self) -> Sequence[Question]:
        return (*self.needed(), questions.DELAYS)

    def needed(self) -> Sequence[Question]:
        return (self._timeline,) if self._filter else (self._timeline, self._listing)

    def on_mount(self) -> None:
        self.set_interval(1.0, self._search_again, name="search")

    def _begin(self) -> None:
        """Others are wanted now: those that are shown go."""
        self._found, self._shown, self._refusal = {}, (), ""
        self.query_one(Table).refuse("looking …")
        self.tell_link()
        self._search()
        self.dashboard.look(fresh=True)

    def _search_again(self) -> None:
        service, due_ns = self.dashboard.service, self._search_due_ns
        if due_ns is None or self.dashboard.is_paused or service.link.state != "here":
            return
        if service.clock.monotonic_ns() >= due_ns:
            self._search()

    def _search(self) -> None:
        self._search_due_ns = None
        if self._filter:
            self.run_worker(self._look_for(self._listing), group="search", exclusive=True)
        else:
            self.workers.cancel_group(self, "search")

    async def _look_for(self, asked: Question) -> None:
        clock = self.dashboard.service.clock
        began_ns = clock.monotonic_ns()
        try:
            found, refusal = await self.dashboard.service.do(asked), ""
        except GoQueueError as error:
            found, refusal = {}, error.sentence
        now_ns = clock.monotonic_ns()
        self._search_due_ns = now_ns + max(_SEARCH_SECONDS * NANOSECONDS, _SEARCH_REST * (now_ns - began_ns))
        self._found, self._refusal = found, refusal
        self.draw()

    def trouble(self) -> str:
        return super().trouble() or self._refusal

    def changed(self) -> None:
        self._search()

    # --- drawn ---

    def body(self) -> Iterator[Widget]:
        yield Figures()
        yield Timeline()
        yield Table(views.columns(), views.delayed_key, empty="no such message is delayed")

    def show(self, known: Known) -> None:
        found = known.facts(self._timeline)
        now_ns = self._now_ns
        self.query_one(Timeline).show(timeline.bars(found))
        answer = self._found if self._filter else known.facts(self._listing)
        if answer:
            self._shown = answer["messages"]
            self.query_one(Table).fill(views.lines(self._shown, now_ns))
        late = views.lateness(known.facts(questions.DELAYS))
        self.query_one(Figures).show([*views.figures(found, now_ns), *self._paging(), *late])

    @property
    def _now_ns(self) -> int:
        """Of the broker, as it decides what is due."""
        service = self.dashboard.service
        known = service.known
        return timeline.broker_now(known.facts(self._timeline), known.at_ns(self._timeline), service.clock.now_ns())

    def _paging(self) -> Iterator[Figure]:
        is_last = len(self._shown) < AT_ONCE
        if len(self._cuts) > 1 or not is_last:
            yield Figure(f"{len(self._cuts):,}", "page" if is_last else "page; n shows the next")

    def note(self) -> str:
        first = self._cuts[0].due_from
        parts = [
            "" if self._state == STATES[0] else self._state,
            f"/{self._filter}" if self._filter else "",
            f"due from {first[:19]}" if first else "",
            super().note(),
        ]
        return " · ".join(part for part in parts if part)

    # --- keys ---

    def action_prompt_filter(self) -> None:
        hint = "json.total>40   key=a   header.source=shop   or plain text"
        self.query_one(Prompt).ask("delayed", "/", self._filter, hint)

    def action_prompt_time(self) -> None:
        self.query_one(Prompt).ask("due", "due from: ", "", f"{DUES}   (UTC); nothing: from the first on")

    def given(self, kind: str, text: str) -> None:
        if kind == "delayed":
            self._filter, self._cuts = text, self._cuts[:1]
            self._begin()
        elif kind == "due":
            try:
                first = format_time(times.parse_due(text, self._now_ns)) if text else None
            except ValueError as error:
                self.say(str(error), "bad")
                return
            self._cuts = [Cut(first)]
            self._begin()

    def action_state(self) -> None:
        """The next of the four; what is not pending any more is known for a while."""
        self._state = STATES[(STATES.index(self._state) + 1) % len(STATES)]
        self._cuts = self._cuts[:1]
        self._begin()

    def action_leaf(self, pages: int) -> None:
        if pages < 0 and len(self._cuts) > 1:
            self._cuts.pop()
        elif pages > 0 and len(self._shown) == AT_ONCE:
            self._cuts.append(views.following(self._cuts[-1], self._shown))
        else:
            return
        self._begin()

    def action_again(self) -> None:
        self._search()
        self.dashboard.look(fresh=True)
        self.say("asked again", "muted")

    def action_messages(self) -> None:
        self.dashboard.go(Place("messages", (self.topic,)))

    def command(self) -> str:
        words = [word for one in times.filters(self._filter) for word in ("--where", one)]
        if self._cuts[0].due_from:
            words += ["--from", self._cuts[0].due_from]
        if self._state != STATES[0]:
            words += ["--state", self._state]
        return commands.line(
            "goqueue-cli", "delayed", "list", self.topic, *words, server=self.dashboard.service.address
        )

    def suggestions(self) -> Sequence[str]:
        return list(self.dashboard.service.known.facts(questions.DELAYS).get("topics", ()))

    def open(self, key: str) -> Place | None:
        self.run_worker(self._read(key), group="message", exclusive=True)
        return None

    async def _read(self, key: str) -> None:
        try:
            told = await self.dashboard.service.do(question("delayed_message", self.topic, *views.place_of(key)))
        except GoQueueError as error:
            self.say(error.sentence, "bad")
            return
        self.app.push_screen(ScheduledWindow(self.topic, told, self._now_ns))

    # --- deciding ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action("change" if action == "change_all" else action, parameters)

    def action_change(self, what: str) -> None:
        table = self.query_one(Table)
        if self._state != STATES[0]:
            self.say(f"what is {self._state} stays so: v goes back to what is pending", "warn")
        elif table.picked:
            self.app.push_screen(PlacesScreen(self.topic, DEEDS[what], table.picked))

    def action_change_all(self, what: str) -> None:
        values = {"filter": self._filter, "from": self._cuts[0].due_from or ""}
        self.app.push_screen(FittingScreen(self.topic, DEEDS[what], values))
