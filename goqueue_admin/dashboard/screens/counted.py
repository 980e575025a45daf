"""A screen of dead letters, which are counted seldom: after something has changed, and when somebody asks for it."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Question, question
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.views.letters import Recount, own_name


class CountedPage(Page):
    """`recount` says which topics are due."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "recount", "Refresh", show=False, id="letters.refresh")]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.recount = Recount()

    @staticmethod
    def counting(topic: str) -> Question:
        return question("dead_letter_errors", topic)

    def changed(self) -> None:
        self.recount.expire()

    def action_recount(self) -> None:
        self.recount.expire()
        self.dashboard.look(fresh=True)


class CountedTopicPage(CountedPage):
    """The same for the dead letters of one topic."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.topic = own_name(place.about[0])
        self.about = question("topic", self.topic)
        self.count = self.counting(self.topic)

    def asked(self) -> Sequence[Question]:
        """What the topic holds, and where that is due, how many there are of each reason."""
        service = self.dashboard.service
        info = service.known.get(self.about)
        is_due = info is None or self.recount.is_due(self.topic, info.total_messages, service.clock.now_ns())
        return (self.about, self.count) if is_due else (self.about,)
