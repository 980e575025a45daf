"""Dead letters: their topics, the errors of a topic, and the messages, a page at a time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from goqueue.console.dead_letters import SUFFIX, dead_letter_topic
from goqueue_admin.dashboard.broker.service import TOPICS, BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.redrive import RedriveDialog
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.traces import trace_location
from goqueue_admin.dashboard.screens.windows import dead_letter_window
from goqueue_admin.dashboard.views import dead_letters as views
from goqueue_admin.dashboard.views.dead_letters import (
    DeadLetterJson,
    DeadLetterTopicRow,
    PageOffsets,
    RecountSchedule,
)
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.table import SortOrder
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.table import RowTable


class CountedScreen(DashboardScreen):
    """A screen with counts of dead letters, which are expensive and refreshed rarely."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "recount", "Refresh", show=False, id="letters.refresh")]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self.recount = RecountSchedule()

    @staticmethod
    def counting(topic: str) -> BrokerCall:
        return broker_call("dead_letter_errors", topic)

    def changed(self) -> None:
        self.recount.expire()

    def action_recount(self) -> None:
        self.recount.expire()
        self.dashboard.look(fresh=True)


class CountedTopicScreen(CountedScreen):
    """A counted screen of one topic."""

    @property
    def topic(self) -> str:
        """The dead-letter topic, by its own name or by that of a topic; the list of topics knows which it is."""
        return dead_letter_topic(self.place.about[0], self.dashboard.service.known.get(TOPICS) or ())

    @property
    def about(self) -> BrokerCall:
        return broker_call("topic", self.topic)

    @property
    def count(self) -> BrokerCall:
        return self.counting(self.topic)

    def asked(self) -> Sequence[BrokerCall]:
        """Return the calls for the topic, and for its error counts if they are due."""
        service = self.dashboard.service
        if service.known.get(TOPICS) is None:
            return (TOPICS,)
        info = service.known.get(self.about)
        is_due = info is None or self.recount.is_due(self.topic, info.total_messages, service.clock.now_ns())
        return (self.about, self.count) if is_due else (self.about,)


class DeadLetterTopicsScreen(CountedScreen):
    """The dead-letter topics. Counting reads every message, so counts are refreshed rarely."""

    BINDINGS: ClassVar = [Binding("d", "change", "Send back", id="dlq.redrive")]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._asked: set[str] = set()
        self._first: str | None = None
        """The row under the cursor before anything was counted."""

    def calls(self) -> Sequence[BrokerCall]:
        return (TOPICS, *(self.counting(name) for name in self._due()))

    def _due(self) -> list[str]:
        tables, now_ns = self.query(RowTable), self.dashboard.service.clock.now_ns()
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
        yield RowTable(
            views.topic_columns(),
            lambda line: line.name,
            SortOrder("LETTERS", falling=True),
            empty="there are no dead letters",
        )

    def show(self, known: CallResults) -> None:
        topics = known.get(TOPICS)
        lines = views.topic_rows(topics, lambda name: known.facts(self.counting(name)))
        before = views.topic_rows(topics, lambda name: known.before(self.counting(name)) or {})
        table = self.query_one(RowTable)
        table.fill(lines, before)
        self._begin_at_the_top(table)
        for line in lines or ():
            self.recount.note(line.name, line.messages, known.at_ns(self.counting(line.name)))
        new = set(self._due()) - self._asked
        if new:
            self._asked |= new
            self.call_next(self.dashboard.look)

    def _begin_at_the_top(self, table: "RowTable[DeadLetterTopicRow]") -> None:
        """Move an untouched cursor to the top once the counts have decided the order."""
        if self._first is None and table.records:
            self._first = table.current_key
        if self._first and all(line.letters is not None for line in table.records):
            if table.current_key == self._first:
                table.action_first()
            self._first = ""

    def command(self) -> str:
        names = [name.removesuffix(SUFFIX) for name in self.query_one(RowTable).picked]
        return self.dashboard.shell_command("goqueue-cli", "dlq", "list", *names)

    def open(self, key: str) -> Location:
        return Location("errors", (key,))

    def action_change(self) -> None:
        table = self.query_one(RowTable)
        if table.current_key:
            self.app.push_screen(RedriveDialog(table.current_key))


_SAMPLE = 100
"""Newest dead letters that are read for the latest time of each error."""


class DeadLetterErrorsScreen(CountedTopicScreen):
    """The errors of a dead-letter topic. Enter opens the messages of an error, `m` all of them."""

    BINDINGS: ClassVar = [
        Binding("d", "change", "Send back", id="errors.redrive"),
        Binding("m", "letters", "All letters", id="errors.letters"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._newest: BrokerCall | None = None
        self._newest_ns = 0

    def calls(self) -> Sequence[BrokerCall]:
        newest = self._newest
        is_missing = newest is not None and not self.dashboard.service.known.at_ns(newest)
        return [*self.asked(), *([newest] if newest and is_missing else [])]

    def body(self) -> Iterator[Widget]:
        yield RowTable(
            views.error_columns(),
            lambda line: line.error,
            SortOrder("COUNT", falling=True),
            empty="there are no dead letters",
        )

    def show(self, known: CallResults) -> None:
        info, counted_ns = known.get(self.about), known.at_ns(self.count)
        if info is not None and counted_ns:
            self.recount.note(self.topic, info.total_messages, counted_ns)
            if counted_ns != self._newest_ns:
                count = views.page_size(info.total_messages, info.total_size_bytes, _SAMPLE)
                self._newest = broker_call("dead_letters", self.topic, count, start=views.newest_offsets(info, count))
                self._newest_ns = counted_ns
                self.call_next(self.dashboard.look)
        newest = known.facts(self._newest).get("messages", ()) if self._newest else ()
        before = views.error_rows(known.before(self.count) or {}, ())
        self.query_one(RowTable).fill(views.error_rows(known.facts(self.count), newest), before)

    def command(self) -> str:
        topic = self.topic.removesuffix(SUFFIX)
        return self.dashboard.shell_command("goqueue-cli", "dlq", "errors", topic)

    def open(self, key: str) -> Location:
        return Location("letters", (self.topic, key))

    def action_letters(self) -> None:
        self.dashboard.go(Location("letters", (self.topic,)))

    def action_change(self) -> None:
        self.app.push_screen(RedriveDialog(self.topic, error=self.query_one(RowTable).current_key))


class TopicDeadLettersScreen(CountedTopicScreen):
    """The dead letters of a topic or error. Read again only when the counts change."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar = [
        Binding("d", "change", "Send back", id="letters.redrive"),
        Binding("n", "leaf(1)", "Next", id="letters.next"),
        Binding("b", "leaf(-1)", "Page before", show=False, id="letters.before"),
        Binding("T", "trace", "Trace", show=False, id="letters.trace"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._error = place.about[1] if len(place.about) > 1 else None
        self._starts = [PageOffsets()]
        self._page: BrokerCall | None = None
        self._answer: Any = None
        self._counts: Any = None

    def calls(self) -> Sequence[BrokerCall]:
        counts = self.dashboard.service.known.facts(self.count)
        is_new = self._answer is None or self._counts != counts.get("errors")
        return [*self.asked(), *([self._page] if is_new and self._page else [])]

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield RowTable(views.dead_letter_columns(), views.dead_letter_key, empty="there are no such dead letters")

    def show(self, known: CallResults) -> None:
        info = known.get(self.about)
        counts = known.facts(self.count)
        if info is not None:
            self.recount.note(self.topic, info.total_messages, known.at_ns(self.count))
            if self._page is None:
                count = views.page_size(info.total_messages, info.total_size_bytes)
                options = {"error": self._error or None, "start": self._starts[-1] or None}
                self._page = broker_call("dead_letters", self.topic, count, **options)
                self.call_next(self.dashboard.look)
        answer = known.facts(self._page) if self._page else {}
        if not answer:
            return
        if answer is not self._answer:
            self._answer, self._counts = answer, counts.get("errors")
        letters = [one for one in answer["messages"] if self._error is None or one.get("error", "") == self._error]
        self.query_one(NumbersBar).show(self._figures(counts, letters))
        self.query_one(RowTable).fill(letters)

    def _figures(self, counts: Mapping[str, Any], letters: Sequence[DeadLetterJson]) -> list[LabeledNumber]:
        errors: Mapping[str, int] = counts.get("errors") or {}
        total = sum(errors.values()) if self._error is None else errors.get(self._error, 0)
        found = [
            LabeledNumber(f"{total:,}", "letter" if total == 1 else "letters"),
            LabeledNumber(f"{len(letters):,}", "here"),
        ]
        is_last = self._answer["complete"]
        if len(self._starts) > 1 or not is_last:
            found.append(LabeledNumber(f"{len(self._starts):,}", "page" if is_last else "page; n shows the next"))
        return found

    def action_leaf(self, pages: int) -> None:
        answer = self._answer
        if pages < 0 and len(self._starts) > 1:
            self._starts.pop()
        elif pages > 0 and answer is not None and not answer["complete"]:
            self._starts.append(PageOffsets((int(number), offset) for number, offset in answer["next"].items()))
        else:
            return
        self._page, self._answer = None, None
        self.dashboard.look(fresh=True)

    def command(self) -> str:
        topic = self.topic.removesuffix(SUFFIX)
        error = ["--error", self._error] if self._error else []
        return self.dashboard.shell_command("goqueue-cli", "dlq", "browse", topic, *error)

    def copied(self) -> str:
        return "\n".join(key.partition(" ")[0] for key in self.query_one(RowTable).picked)

    def _letter(self, key: str) -> DeadLetterJson | None:
        return next((one for one in self.query_one(RowTable).records if views.dead_letter_key(one) == key), None)

    def open(self, key: str) -> Location | None:
        letter = self._letter(key)
        if letter is not None:
            self.app.push_screen(dead_letter_window(self.topic, letter))
        return None

    def action_trace(self) -> None:
        """Show what happened to the message under the cursor."""
        letter = self._letter(self.query_one(RowTable).current_key)
        if letter is not None:
            self.dashboard.go(trace_location(self.topic, letter["partition"], letter["offset"]))

    def action_change(self) -> None:
        letter = self._letter(self.query_one(RowTable).current_key)
        error = self._error if letter is None else letter.get("error")
        group, key = ("", "") if letter is None else (letter.get("group"), letter.get("key"))
        is_text = letter is not None and letter.get("key_encoding") is None
        self.app.push_screen(
            RedriveDialog(self.topic, error=error or "", group=group or "", key=(key or "") if is_text else "")
        )
