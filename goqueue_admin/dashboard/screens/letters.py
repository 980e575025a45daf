"""The dead letters of a topic, or those that failed for one reason, a page at a time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question, question
from goqueue_admin.dashboard.screens.counted import CountedTopicPage
from goqueue_admin.dashboard.screens.letter import LetterWindow
from goqueue_admin.dashboard.screens.redrive import RedriveScreen
from goqueue_admin.dashboard.views import letters as views
from goqueue_admin.dashboard.views.figure import Figure
from goqueue_admin.dashboard.views.letters import Letter, Start
from goqueue_admin.dashboard.widgets.figures import Figures
from goqueue_admin.dashboard.widgets.table import Table


class LettersPage(CountedTopicPage):
    """Enter shows a letter. What lies there does not change, so it is asked for again only when the counts do."""

    AUTO_FOCUS = "Table"
    BINDINGS: ClassVar = [
        Binding("d", "change", "Send back", id="letters.redrive"),
        Binding("n", "leaf(1)", "Next", id="letters.next"),
        Binding("b", "leaf(-1)", "Page before", show=False, id="letters.before"),
    ]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._error = place.about[1] if len(place.about) > 1 else None
        self._starts = [Start()]
        self._page: Question | None = None
        self._answer: Any = None
        self._counts: Any = None

    def questions(self) -> Sequence[Question]:
        counts = self.dashboard.service.known.facts(self.count)
        is_new = self._answer is None or self._counts != counts.get("errors")
        return [*self.asked(), *([self._page] if is_new and self._page else [])]

    def body(self) -> Iterator[Widget]:
        yield Figures()
        yield Table(views.letter_columns(), views.letter_key, empty="there are no such dead letters")

    def show(self, known: Known) -> None:
        info = known.get(self.about)
        counts = known.facts(self.count)
        if info is not None:
            self.recount.note(self.topic, info.total_messages, known.at_ns(self.count))
            if self._page is None:
                count = views.at_once(info.total_messages, info.total_size_bytes)
                options = {"error": self._error or None, "start": self._starts[-1] or None}
                self._page = question("dead_letters", self.topic, count, **options)
                self.call_next(self.dashboard.look)
        answer = known.facts(self._page) if self._page else {}
        if not answer:
            return
        if answer is not self._answer:
            self._answer, self._counts = answer, counts.get("errors")
        letters = [one for one in answer["messages"] if self._error is None or one.get("error", "") == self._error]
        self.query_one(Figures).show(self._figures(counts, letters))
        self.query_one(Table).fill(letters)

    def _figures(self, counts: Mapping[str, Any], letters: Sequence[Letter]) -> list[Figure]:
        errors: Mapping[str, int] = counts.get("errors") or {}
        total = sum(errors.values()) if self._error is None else errors.get(self._error, 0)
        found = [Figure(f"{total:,}", "letter" if total == 1 else "letters"), Figure(f"{len(letters):,}", "here")]
        is_last = self._answer["complete"]
        if len(self._starts) > 1 or not is_last:
            found.append(Figure(f"{len(self._starts):,}", "page" if is_last else "page; n shows the next"))
        return found

    def action_leaf(self, pages: int) -> None:
        answer = self._answer
        if pages < 0 and len(self._starts) > 1:
            self._starts.pop()
        elif pages > 0 and answer is not None and not answer["complete"]:
            self._starts.append(Start((int(number), offset) for number, offset in answer["next"].items()))
        else:
            return
        self._page, self._answer = None, None
        self.dashboard.look(fresh=True)

    def command(self) -> str:
        topic, server = self.topic.removesuffix(views.SUFFIX), self.dashboard.service.address
        error = ["--error", self._error] if self._error else []
        return commands.line("goqueue-cli", "dlq", "browse", topic, *error, server=server)

    def copied(self) -> str:
        return "\n".join(key.partition(" ")[0] for key in self.query_one(Table).picked)

    def _letter(self, key: str) -> Letter | None:
        return next((one for one in self.query_one(Table).records if views.letter_key(one) == key), None)

    def open(self, key: str) -> Place | None:
        letter = self._letter(key)
        if letter is not None:
            self.app.push_screen(LetterWindow(self.topic, letter))
        return None

    def action_change(self) -> None:
        letter = self._letter(self.query_one(Table).current_key)
        error = self._error if letter is None else letter.get("error")
        group, key = ("", "") if letter is None else (letter.get("group"), letter.get("key"))
        is_text = letter is not None and letter.get("key_encoding") is None
        self.app.push_screen(
            RedriveScreen(self.topic, error=error or "", group=group or "", key=(key or "") if is_text else "")
        )
