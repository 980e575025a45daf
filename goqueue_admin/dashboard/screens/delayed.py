"""Delayed messages: all topics, and the messages of one topic, a page at a time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.quantities import format_time
from goqueue_admin.dashboard.broker.service import DELAYS, BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.delayed_actions import (
    DELAYED_ACTIONS,
    DUE_FROM_EXAMPLES,
    MatchingDelayedDialog,
    SelectedDelayedDialog,
)
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.traces import trace_location
from goqueue_admin.dashboard.screens.windows import delayed_message_window
from goqueue_admin.dashboard.views import delayed as views
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.delayed import AT_ONCE, STATES, DelayedPage
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.table import SortOrder
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.plots import TimelineChart
from goqueue_admin.dashboard.widgets.prompt import Prompt
from goqueue_admin.dashboard.widgets.table import RowTable


class DelayedTopicsScreen(DashboardScreen):
    """The topics with delayed messages. The timeline covers the topics with most."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar = [
        Binding("x", "change('cancel')", "Cancel", id="delayed.cancel"),
        Binding("e", "change('reschedule')", "Reschedule", id="delayed.reschedule"),
        Binding("d", "change('deliver')", "Deliver now", id="delayed.deliver"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._asked: set[str] = set()

    @staticmethod
    def _timeline(topic: str) -> BrokerCall:
        return broker_call("delayed_timeline", topic)

    def calls(self) -> Sequence[BrokerCall]:
        service = self.dashboard.service
        stats, now_ns = service.known.facts(DELAYS), service.clock.now_ns()
        due = [
            asked
            for name in views.asked_topics(stats)
            if views.is_due(stats["topics"][name], service.known.at_ns(asked := self._timeline(name)), now_ns)
        ]
        return (DELAYS, *due)

    def needed(self) -> Sequence[BrokerCall]:
        """A topic may be deleted meanwhile, so its calls are not needed."""
        return (DELAYS,)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield NumbersBar(id="wheel")
        yield TimelineChart()
        yield RowTable(
            views.topic_columns(),
            lambda line: line.name,
            SortOrder("PENDING", falling=True),
            empty="no message waits to be delivered",
        )

    def show(self, known: CallResults) -> None:
        stats = known.facts(DELAYS)
        now_ns = self.dashboard.service.clock.now_ns()
        shown = views.asked_topics(stats)
        whole = views.joined_timeline(known.facts(self._timeline(name)) for name in shown)
        broker_ns = max((self._now_ns(known, name) for name in shown), default=now_ns)
        figures, wheel = self.query(NumbersBar)
        figures.show(views.all_topics_numbers(stats, broker_ns))
        wheel.show(views.wheel_numbers(stats))
        self.query_one(TimelineChart).show(views.timeline_bars(whole))
        lines = views.topic_rows(
            stats, lambda name: known.facts(self._timeline(name)), lambda name: self._now_ns(known, name)
        )
        before = known.before(DELAYS)
        self.query_one(RowTable).fill(lines, views.topic_rows(before, lambda _: {}, lambda _: now_ns))
        if new := set(shown) - self._asked:
            self._asked |= new
            self.call_next(self.dashboard.look)

    def _now_ns(self, known: CallResults, topic: str) -> int:
        asked = self._timeline(topic)
        return views.broker_now(known.facts(asked), known.at_ns(asked), self.dashboard.service.clock.now_ns())

    def note(self) -> str:
        summary = super().note()
        return (
            f"{summary} · bars of the first {views.TIMELINES_MAX}"
            if len(self._asked) > views.TIMELINES_MAX
            else summary
        )

    def command(self) -> str:
        names = self.query_one(RowTable).picked
        return self.dashboard.shell_command("goqueue-cli", "delayed", *(["timeline", *names] if names else ["stats"]))

    def open(self, key: str) -> Location:
        return Location("schedule", (key,))

    def action_change(self, what: str) -> None:
        topic = self.query_one(RowTable).current_key
        if topic:
            self.app.push_screen(MatchingDelayedDialog(topic, DELAYED_ACTIONS[what]))


_SEARCH_SECONDS = 10
_SEARCH_REST = 10
"""Pause between searches, as a multiple of the duration of the last one."""


class TopicDelayedScreen(DashboardScreen):
    """The delayed messages of a topic. Keys act on selected rows, their capitals on all matching messages.

    A search with a filter can take long, so it runs beside the rounds and less often.
    """

    AUTO_FOCUS = "RowTable"
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
        Binding("T", "trace", "Trace", show=False, id="schedule.trace"),
        Binding("r", "again", "Refresh", show=False, id="schedule.refresh"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self.topic = place.about[0]
        self._timeline = broker_call("delayed_timeline", self.topic)
        self._filter = ""
        self._state = STATES[0]
        self._cuts = [DelayedPage()]
        self._found: Mapping[str, Any] = {}
        """The result of the last search."""
        self._shown: Sequence[Mapping[str, Any]] = ()
        self._refusal = ""
        self._search_due_ns: int | None = None
        """When the search is repeated; None without a filter or while it runs."""

    # --- asking ---

    @property
    def _listing(self) -> BrokerCall:
        cut = self._cuts[-1]
        options = {
            "filters": tuple(formats.parse_filters(self._filter)),
            "due_from": cut.due_from,
            "state": self._state,
        }
        given = {name: value for name, value in options.items() if value and value != STATES[0]}
        return broker_call("delayed", self.topic, AT_ONCE, cut.skip, **given)

    def calls(self) -> Sequence[BrokerCall]:
        return (*self.needed(), DELAYS)

    def needed(self) -> Sequence[BrokerCall]:
        return (self._timeline,) if self._filter else (self._timeline, self._listing)

    def on_mount(self) -> None:
        self.set_interval(1.0, self._search_again, name="search")

    def _begin(self) -> None:
        """Show other messages: clear the table and read again."""
        self._found, self._shown, self._refusal = {}, (), ""
        self.query_one(RowTable).refuse("looking …")
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

    async def _look_for(self, asked: BrokerCall) -> None:
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
        yield NumbersBar()
        yield TimelineChart()
        yield RowTable(views.delayed_columns(), views.delayed_key, empty="no such message is delayed")

    def show(self, known: CallResults) -> None:
        found = known.facts(self._timeline)
        now_ns = self._now_ns
        self.query_one(TimelineChart).show(views.timeline_bars(found))
        answer = self._found if self._filter else known.facts(self._listing)
        if answer:
            self._shown = answer["messages"]
            self.query_one(RowTable).fill(views.delayed_rows(self._shown, now_ns))
        late = views.lateness(known.facts(DELAYS))
        self.query_one(NumbersBar).show([*views.topic_numbers(found, now_ns), *self._paging(), *late])

    @property
    def _now_ns(self) -> int:
        """The broker's time, which decides what is due."""
        service = self.dashboard.service
        known = service.known
        return views.broker_now(known.facts(self._timeline), known.at_ns(self._timeline), service.clock.now_ns())

    def _paging(self) -> Iterator[LabeledNumber]:
        is_last = len(self._shown) < AT_ONCE
        if len(self._cuts) > 1 or not is_last:
            yield LabeledNumber(f"{len(self._cuts):,}", "page" if is_last else "page; n shows the next")

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
        self.query_one(Prompt).ask("due", "due from: ", "", f"{DUE_FROM_EXAMPLES}   (UTC); nothing: from the first on")

    def given(self, kind: str, text: str) -> None:
        if kind == "delayed":
            self._filter, self._cuts = text, self._cuts[:1]
            self._begin()
        elif kind == "due":
            try:
                first = format_time(formats.parse_due_moment(text, self._now_ns)) if text else None
            except ValueError as error:
                self.say(str(error), "bad")
                return
            self._cuts = [DelayedPage(first)]
            self._begin()

    def action_state(self) -> None:
        """Show the next state; settled messages are remembered for a while."""
        self._state = STATES[(STATES.index(self._state) + 1) % len(STATES)]
        self._cuts = self._cuts[:1]
        self._begin()

    def action_leaf(self, pages: int) -> None:
        if pages < 0 and len(self._cuts) > 1:
            self._cuts.pop()
        elif pages > 0 and len(self._shown) == AT_ONCE:
            self._cuts.append(views.next_page(self._cuts[-1], self._shown))
        else:
            return
        self._begin()

    def action_again(self) -> None:
        self._search()
        self.dashboard.look(fresh=True)
        self.say("asked again", "muted")

    def action_trace(self) -> None:
        """Show what happened to the message under the cursor."""
        line = self.query_one(RowTable).current
        if line is not None:
            self.dashboard.go(trace_location(self.topic, *line.place, delayed=True))

    def action_messages(self) -> None:
        self.dashboard.go(Location("messages", (self.topic,)))

    def command(self) -> str:
        words = [word for one in formats.parse_filters(self._filter) for word in ("--where", one)]
        if self._cuts[0].due_from:
            words += ["--from", self._cuts[0].due_from]
        if self._state != STATES[0]:
            words += ["--state", self._state]
        return self.dashboard.shell_command("goqueue-cli", "delayed", "list", self.topic, *words)

    def open(self, key: str) -> Location | None:
        self.run_worker(self._read(key), group="message", exclusive=True)
        return None

    async def _read(self, key: str) -> None:
        try:
            told = await self.dashboard.service.do(broker_call("delayed_message", self.topic, *views.place_of(key)))
        except GoQueueError as error:
            self.say(error.sentence, "bad")
            return
        self.app.push_screen(delayed_message_window(self.topic, told, self._now_ns))

    # --- deciding ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action("change" if action == "change_all" else action, parameters)

    def action_change(self, what: str) -> None:
        table = self.query_one(RowTable)
        if self._state != STATES[0]:
            self.say(f"what is {self._state} stays so: v goes back to what is pending", "warn")
        elif table.picked:
            self.app.push_screen(SelectedDelayedDialog(self.topic, DELAYED_ACTIONS[what], table.picked))

    def action_change_all(self, what: str) -> None:
        values = {"filter": self._filter, "from": self._cuts[0].due_from or ""}
        self.app.push_screen(MatchingDelayedDialog(self.topic, DELAYED_ACTIONS[what], values))
