"""The partitions of one topic, and where it has more than one priority, how it goes with each."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question, question
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.views.table import Sorting
from goqueue_admin.dashboard.views.topics import partition_columns, partition_key
from goqueue_admin.dashboard.widgets.lanes import Lanes
from goqueue_admin.dashboard.widgets.table import Table


class PartitionsPage(Page):
    """Enter opens the messages of a partition, `m` those of all."""

    AUTO_FOCUS = "Table"
    BINDINGS: ClassVar = [
        Binding("m", "messages", "Messages of all", id="topic.messages"),
        Binding("d", "delayed", "Delayed", id="topic.delayed"),
        Binding("tab", "app.focus_next", "Other table", show=False, id="topic.other"),
    ]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._topic = place.about[0]
        self._asked = question("partitions", self._topic)
        self._lanes = question("priority_stats", self._topic)

    def questions(self) -> Sequence[Question]:
        return (self._asked, self._lanes)

    def needed(self) -> Sequence[Question]:
        return (self._asked,)

    def body(self) -> Iterator[Widget]:
        yield Table(partition_columns(), partition_key, Sorting("PARTITION"), empty="there are no partitions")
        yield Lanes()

    def show(self, known: Known) -> None:
        self.query_one(Table).fill(known.get(self._asked), known.before(self._asked))
        self.query_one(Lanes).show(known, [self._lanes], self.dashboard.service.clock.now_ns())

    def command(self) -> str:
        return commands.line("goqueue-cli", "topic", "describe", self._topic, server=self.dashboard.service.address)

    def open(self, key: str) -> Place | None:
        return None if self.table is self.query_one(Lanes) else Place("messages", (self._topic, key))

    def action_delayed(self) -> None:
        self.dashboard.go(Place("schedule", (self._topic,)))

    def action_messages(self) -> None:
        self.dashboard.go(Place("messages", (self._topic,)))
