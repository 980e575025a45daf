"""All topics, and how much goes through each."""

from collections.abc import Iterator, Sequence

from textual.widget import Widget

from goqueue_admin.dashboard import commands, questions
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.views.table import Sorting
from goqueue_admin.dashboard.views.topics import topic_columns
from goqueue_admin.dashboard.widgets.table import Table


class TopicsPage(Page):
    """Enter opens the partitions of a topic."""

    def questions(self) -> Sequence[Question]:
        return (questions.TOPICS,)

    def body(self) -> Iterator[Widget]:
        yield Table(topic_columns(), lambda topic: topic.name, Sorting("NAME"), empty="there are no topics")

    def show(self, known: Known) -> None:
        self.query_one(Table).fill(known.get(questions.TOPICS), known.before(questions.TOPICS))

    def command(self) -> str:
        marked = self.query_one(Table).picked
        server = self.dashboard.service.address
        return commands.line("goqueue-cli", "topic", "describe", *marked, server=server)

    def open(self, key: str) -> Place:
        return Place("topic", (key,))
