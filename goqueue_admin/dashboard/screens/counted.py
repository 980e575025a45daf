"""A screen of dead letters, which are counted seldom: after something has changed, and when somebody asks for it."""

from typing import ClassVar

from textual.binding import Binding, BindingType

from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Question, question
from goqueue_admin.dashboard.screens.changing import Changing
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.views.letters import Recount


class CountedPage(Changing, Page):
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
