"""All groups, and how far behind each is."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue_admin.dashboard import commands, questions
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question
from goqueue_admin.dashboard.screens.delete import DeleteScreen
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.screens.reset import ResetScreen
from goqueue_admin.dashboard.views.groups import group_columns
from goqueue_admin.dashboard.views.table import Sorting
from goqueue_admin.dashboard.widgets.table import Table


class GroupsPage(Page):
    """Enter opens a group."""

    BINDINGS: ClassVar = [
        Binding("o", "change('reset')", "Reset offsets", id="groups.reset"),
        Binding("x", "change('delete')", "Delete", id="groups.delete"),
    ]

    def questions(self) -> Sequence[Question]:
        return questions.all_groups(self.dashboard.service.known)

    def body(self) -> Iterator[Widget]:
        yield Table(group_columns(), lambda one: one.group_id, Sorting("GROUP"), empty="there are no groups")

    def show(self, known: Known) -> None:
        self.query_one(Table).fill(questions.groups_of(known), questions.groups_before(known))

    def command(self) -> str:
        server = self.dashboard.service.address
        return commands.line("goqueue-cli", "group", "describe", *self.query_one(Table).picked, server=server)

    def open(self, key: str) -> Place:
        return Place("group", (key,))

    def suggestions(self) -> Sequence[str]:
        return [one.group_id for one in self.query_one(Table).records]

    def action_change(self, what: str) -> None:
        table = self.query_one(Table)
        if table.picked:
            self.app.push_screen(ResetScreen(table.current_key) if what == "reset" else DeleteScreen(table.picked))
