"""The topics, the partitions and priorities of one topic, and the keys that change topics."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue.errors import GoQueueError
from goqueue_admin.dashboard.broker.service import TOPICS, BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.publish import PublishDialog
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.topic_actions import (
    CreateTopicDialog,
    DeleteTopicsDialog,
    EditTopicDialog,
    ScaleTopicDialog,
)
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.table import SortOrder, TableColumn
from goqueue_admin.dashboard.widgets.priorities import PriorityTable
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client.admin_requests import TopicDetails


def topic_columns() -> tuple["TableColumn[TopicDetails]", ...]:
    return (
        TableColumn("NAME", lambda one: one.name, width=16, grows=True, tone=_topic_tone),
        TableColumn("PARTS", lambda one: one.partitions, formats.count, 5, right=True, rank=4),
        TableColumn("MESSAGES", lambda one: one.total_messages, formats.count, 13, right=True, moves=True, rank=1),
        TableColumn("SIZE", lambda one: one.total_size_bytes, formats.size, 8, right=True, rank=3),
        TableColumn("IN", lambda one: one.published_per_second, formats.rate, 7, right=True, moves=True),
        TableColumn("OUT", lambda one: one.read_per_second, formats.rate, 7, right=True, moves=True, rank=2),
        TableColumn("WRITTEN", lambda one: one.bytes_per_second, formats.size_rate, 10, right=True, rank=6),
        TableColumn("FAULTS", lambda one: one.faults or None, formats.count, 6, right=True, rank=5, tone="bad"),
        TableColumn("CLEANUP", lambda one: _topic_setting(one, "cleanup"), width=8, rank=7),
        TableColumn("KEPT", lambda one: _topic_setting(one, "retention_hours"), "{:g}h".format, 7, rank=8, right=True),
        TableColumn("CREATED", lambda one: one.created_at[:10] or None, width=10, rank=9),
    )


def _topic_tone(topic: "TopicDetails") -> str:
    return "bad" if topic.faults else ""


def _topic_setting(topic: "TopicDetails", name: str) -> Any:
    return topic.config.get(name)


PartitionJson = Mapping[str, Any]


def partition_key(one: PartitionJson) -> str:
    return str(one["partition"])


def partition_columns() -> tuple[TableColumn[PartitionJson], ...]:
    return (
        TableColumn("PARTITION", lambda one: one["partition"], width=9, right=True),
        TableColumn("EARLIEST", lambda one: one.get("earliest"), formats.count, 13, right=True, rank=2),
        TableColumn("LATEST", lambda one: one.get("latest"), formats.count, 13, right=True, moves=True),
        TableColumn("SIZE", lambda one: one.get("size_bytes"), formats.size, 8, right=True, rank=3),
        TableColumn("SEGMENTS", lambda one: one.get("segments"), formats.count, 8, right=True, rank=6),
        TableColumn("UNSYNCED", _unsynced_count, formats.count, 8, right=True, rank=5, tone="muted"),
        TableColumn("LEADER", lambda one: one.get("leader"), width=6, right=True, rank=7),
        TableColumn("STATE", _partition_state, width=6, rank=4, grows=True, tone=_partition_tone),
    )


def _unsynced_count(one: PartitionJson) -> int | None:
    """Return the number of messages that are not synced yet."""
    end, durable = one.get("log_end"), one.get("durable_end")
    return end - durable if isinstance(end, int) and isinstance(durable, int) else None


def _partition_state(one: PartitionJson) -> str:
    if one.get("fault"):
        return f"◆ {one['fault']}"
    held = held_back_count(one)
    return f"◐ {formats.count(held)} held back" if held else "● ok"


def _partition_tone(one: PartitionJson) -> str:
    return "bad" if one.get("fault") else "accent" if held_back_count(one) else "good"


def held_back_count(one: PartitionJson) -> int:
    """Return the number of messages behind open transactions."""
    end, stable = one.get("high_watermark"), one.get("last_stable")
    return max(0, end - stable) if isinstance(end, int) and isinstance(stable, int) else 0


class TopicActionsScreen(DashboardScreen):
    """A screen with keys that change topics, or publish to one."""

    @property
    def topics(self) -> Sequence[str]:
        """The chosen topics; a change of one is that of the first."""
        return ()

    def action_change(self, what: str) -> None:
        """Open the dialog of an action: create, edit, publish, scale or delete."""
        if what == "create":
            self.app.push_screen(CreateTopicDialog())
        elif self.topics and what == "delete":
            self.app.push_screen(DeleteTopicsDialog(self.topics))
        elif self.topics and what == "scale":
            self.app.push_screen(ScaleTopicDialog(self.topics[0]))
        elif self.topics and what == "publish":
            self.app.push_screen(PublishDialog(self.topics[0]))
        elif self.topics:
            self.run_worker(self._edit(self.topics[0]), group="edit", exclusive=True)

    async def _edit(self, topic: str) -> None:
        """Open the dialog with the current settings."""
        try:
            info = await self.dashboard.service.do(broker_call("topic", topic))
        except GoQueueError as error:
            self.say(error.sentence, "bad")
            return
        if self.app.screen is self:
            self.app.push_screen(EditTopicDialog(topic, info.config))


class TopicsScreen(TopicActionsScreen):
    """The list of topics. Enter opens one."""

    BINDINGS: ClassVar = [
        Binding("n", "change('create')", "New", id="topics.create"),
        Binding("e", "change('edit')", "Edit", id="topics.edit"),
        Binding("w", "change('publish')", "Publish", id="topics.publish"),
        Binding("x", "change('delete')", "Delete", id="topics.delete"),
    ]

    @property
    def topics(self) -> Sequence[str]:
        return self.query_one(RowTable).picked

    def calls(self) -> Sequence[BrokerCall]:
        return (TOPICS,)

    def body(self) -> Iterator[Widget]:
        yield RowTable(topic_columns(), lambda topic: topic.name, SortOrder("NAME"), empty="there are no topics")

    def show(self, known: CallResults) -> None:
        self.query_one(RowTable).fill(known.get(TOPICS), known.before(TOPICS))

    def command(self) -> str:
        marked = self.query_one(RowTable).picked
        return self.dashboard.shell_command("goqueue-cli", "topic", "describe", *marked)

    def open(self, key: str) -> Location:
        return Location("topic", (key,))


class PartitionsScreen(TopicActionsScreen):
    """The partitions of a topic. Enter opens the messages of one, `m` of all."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar = [
        Binding("m", "messages", "Messages of all", id="topic.messages"),
        Binding("d", "delayed", "Delayed", id="topic.delayed"),
        Binding("e", "change('edit')", "Edit", id="topic.edit"),
        Binding("w", "change('publish')", "Publish", id="topic.publish"),
        Binding("a", "change('scale')", "Add partitions", show=False, id="topic.scale"),
        Binding("tab", "app.focus_next", "Other table", show=False, id="topic.other"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._topic = place.about[0]
        self._asked = broker_call("partitions", self._topic)
        self._lanes = broker_call("priority_stats", self._topic)

    @property
    def topics(self) -> Sequence[str]:
        return (self._topic,)

    def calls(self) -> Sequence[BrokerCall]:
        return (self._asked, self._lanes)

    def needed(self) -> Sequence[BrokerCall]:
        return (self._asked,)

    def body(self) -> Iterator[Widget]:
        yield RowTable(partition_columns(), partition_key, SortOrder("PARTITION"), empty="there are no partitions")
        yield PriorityTable()

    def show(self, known: CallResults) -> None:
        self.query_one(RowTable).fill(known.get(self._asked), known.before(self._asked))
        self.query_one(PriorityTable).show(known, [self._lanes], self.dashboard.service.clock.now_ns())

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-cli", "topic", "describe", self._topic)

    def open(self, key: str) -> Location | None:
        return None if self.table is self.query_one(PriorityTable) else Location("messages", (self._topic, key))

    def action_delayed(self) -> None:
        self.dashboard.go(Location("schedule", (self._topic,)))

    def action_messages(self) -> None:
        self.dashboard.go(Location("messages", (self._topic,)))
