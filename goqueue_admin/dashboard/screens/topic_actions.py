"""Dialogs that create, edit, scale and delete topics, with the checks of `goqueue-cli topic`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from textual.content import Content

from goqueue.console.failure import UsageInvalid
from goqueue.console.topic_settings import (
    FIXED,
    changed_settings,
    expires_sooner,
    lossy_settings,
    parse_setting,
    refuse_unknown,
    setting_text,
    settings_of,
)
from goqueue.errors import TopicNotFound
from goqueue.limits import PARTITIONS_MAX
from goqueue.quantities import format_count, format_size, quoted
from goqueue_admin.dashboard.broker.service import Service, broker_call
from goqueue_admin.dashboard.screens.base import MUTED
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogField, DialogPlan, first_lines

if TYPE_CHECKING:
    from goqueue.client.admin_requests import TopicInfo

_LINES = 10
_KNOWING = "__metadata"  # every broker has this topic, and every topic has all settings


def parse_field(name: str, text: str) -> Any:
    """Parse the value of one setting. Raises ValueError."""
    try:
        return parse_setting(f"{name}={text}", FIXED)[1]
    except UsageInvalid as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise ValueError(f"{error}{hint}".replace("--set ", "")) from None


def parse_settings(text: str) -> dict[str, Any]:
    """Parse `retention_hours=24 cleanup=compact`. Raises ValueError."""
    found = {}
    for word in text.split():
        name, separator, value = word.partition("=")
        if not name or not separator:
            raise ValueError(f"{quoted(word)} is not a setting: write it as in retention_hours=24")
        found[name] = parse_field(name, value)
    return found


def parse_partition_count(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= PARTITIONS_MAX):
        raise ValueError(f"the number of partitions is {quoted(text)}, and must be from 1 to {PARTITIONS_MAX:,}")
    return int(text)


async def pending_count(service: Service, topic: str) -> int:
    """Return how many delayed messages of a topic are pending."""
    count: int = (await service.do(broker_call("delayed", topic, limit=1)))["total"]
    return count


class CreateTopicDialog(ActionDialog):
    """Creates a topic that does not exist."""

    def __init__(self) -> None:
        fields = (
            DialogField("name", "name", "", "letters, digits and . _ -"),
            DialogField("partitions", "partitions", "", "the broker's default; 6"),
            DialogField("settings", "settings", "", "the broker's defaults; retention_hours=24 cleanup=compact"),
        )
        super().__init__("Create a topic", "", fields)

    async def plan(self) -> DialogPlan:
        name, service = self.values["name"], self.dashboard.service
        if not name:
            raise ValueError("say how the topic is to be called")
        count, given = parse_partition_count(self.values["partitions"]), parse_settings(self.values["settings"])
        with suppress(TopicNotFound):
            await service.do(broker_call("topic", name))
            raise ValueError(f"topic {name} exists already")
        refuse_unknown(given, (await service.do(broker_call("topic", _KNOWING))).config if given else {})
        partitions = "as many partitions as the broker's default" if count is None else format_count(count, "partition")
        lines = [Content(f"{name}, with {partitions}"), *(Content(f"  {one}") for one in settings_of(given))]
        return DialogPlan(lines, f"create topic {name}", name)

    async def carry_out(self) -> Sequence[Content]:
        count, given = parse_partition_count(self.values["partitions"]), parse_settings(self.values["settings"])
        call = broker_call("create_topic", self.values["name"], count, **given)
        made: TopicInfo = await self.dashboard.service.do(call)
        return [Content.styled(f"{made.name} is created with {format_count(made.partitions, 'partition')}", "$success")]

    def command(self) -> str:
        words = ["goqueue-cli", "topic", "create", self.values["name"]]
        if self.values["partitions"]:
            words += ["--partitions", self.values["partitions"]]
        for one in self.values["settings"].split():
            words += ["--set", one]
        return self.dashboard.shell_command(*words)


class EditTopicDialog(ActionDialog):
    """Changes settings of a topic: a field for each, with its current value."""

    def __init__(self, topic: str, config: Mapping[str, Any]) -> None:
        self._shown = {name: setting_text(value, name) for name, value in config.items()}
        fields = [DialogField(name, name, text, "null") for name, text in self._shown.items()]
        super().__init__(f"Settings of {topic}", topic, fields)
        self.add_class("-settings")
        self._topic = topic
        self._planned: dict[str, dict[str, Any]] = {}

    def _given(self) -> dict[str, Any]:
        """Return the settings whose text was changed."""
        return {name: parse_field(name, text) for name, text in self.values.items() if text != self._shown[name]}

    async def plan(self) -> DialogPlan:
        info, given = await self._look(), self._given()
        self._planned = changed_settings(info.config, {**info.config, **given})
        if not self._planned:
            return DialogPlan([Content.styled("no setting is different", "$warning")])
        service = self.dashboard.service
        delayed = await pending_count(service, self._topic) if expires_sooner(info.config, given) else 0
        losses = lossy_settings(info.config, given, messages=info.total_messages, delayed=delayed)
        question = f"change topic {self._topic}"
        if losses:
            question = f"{question} and lose messages to {', '.join(losses)}"
        return DialogPlan(
            [_change_line(name, change, name in losses) for name, change in self._planned.items()], question
        )

    async def _look(self) -> "TopicInfo":
        info: TopicInfo = await self.dashboard.service.do(broker_call("topic", self._topic))
        return info

    async def carry_out(self) -> Sequence[Content]:
        before = (await self._look()).config
        moved = [name for name, change in self._planned.items() if before[name] != change["before"]]
        if moved:
            raise ValueError(
                f"nothing is changed: {', '.join(moved)} was changed elsewhere meanwhile; close and look again"
            )
        given = {name: change["after"] for name, change in self._planned.items()}
        after: TopicInfo = await self.dashboard.service.do(broker_call("alter_topic", self._topic, **given))
        done = changed_settings(before, after.config)
        told = [f"{name} is {setting_text(change['after'], name)}" for name, change in done.items()]
        return [Content.styled(f"{self._topic} is changed: {', '.join(told)}", "$success")]

    def command(self) -> str:
        words = ["goqueue-cli", "topic", "edit", self._topic]
        for name, text in self.values.items():
            if text != self._shown[name]:
                words += ["--set", f"{name}={text}"]
        return self.dashboard.shell_command(*words, "--dry-run")


def _change_line(name: str, change: Mapping[str, Any], is_lossy: bool) -> Content:
    before, after = setting_text(change["before"], name), setting_text(change["after"], name)
    return Content.assemble(f"{name:<22} {before} → {after}", ("  loses messages" if is_lossy else "", "$warning"))


class ScaleTopicDialog(ActionDialog):
    """Adds partitions to a topic, if that keeps the order of keys."""

    def __init__(self, topic: str) -> None:
        field = DialogField(
            "partitions", "partitions", "", "how many it is to have; a multiple keeps the order of keys"
        )
        super().__init__(f"Add partitions to {topic}", topic, (field,))
        self._topic = topic

    async def plan(self) -> DialogPlan:
        count = parse_partition_count(self.values["partitions"])
        if count is None:
            raise ValueError("say how many partitions the topic is to have")
        scaled = await self.dashboard.service.do(broker_call("scale_topic", self._topic, count, dry_run=True))
        lines = [
            Content(f"{self._topic}: {scaled.old_partition_count} → {format_count(count, 'partition')}"),
            Content.styled(
                "Groups finish the older messages of a key first. Partitions cannot be removed.", "$warning"
            ),
        ]
        return DialogPlan(lines, f"give topic {self._topic} {format_count(count, 'partition')}")

    async def carry_out(self) -> Sequence[Content]:
        count = parse_partition_count(self.values["partitions"])
        scaled = await self.dashboard.service.do(broker_call("scale_topic", self._topic, count))
        added = format_count(scaled.partitions_added, "partition")
        return [Content.styled(f"{self._topic} has {added} more", "$success")]

    def command(self) -> str:
        words = ("goqueue-cli", "topic", "scale", self._topic, "--partitions", self.values["partitions"] or "N")
        return self.dashboard.shell_command(*words, "--dry-run")


class DeleteTopicsDialog(ActionDialog):
    """Deletes topics with all of their messages."""

    def __init__(self, topics: Sequence[str]) -> None:
        super().__init__("Delete a topic" if len(topics) == 1 else "Delete topics", " ".join(topics))
        self._topics = topics

    async def plan(self) -> DialogPlan:
        service = self.dashboard.service
        lines = []
        for name in self._topics:
            info: TopicInfo = await service.do(broker_call("topic", name))
            delayed = await pending_count(service, name)
            pending = f", {format_count(delayed)} delayed" if delayed else ""
            size = f"{format_count(info.total_messages, 'message')}{pending}, {format_size(info.total_size_bytes)}"
            lines.append(Content.assemble(name, (f"  {size}", MUTED)))
        what = f"topic {self._topics[0]}" if len(self._topics) == 1 else format_count(len(self._topics), "topic")
        lines = list(first_lines(lines, _LINES, "topics"))
        lines.append(Content.styled("Nothing brings the messages back.", "$warning"))
        return DialogPlan(lines, f"delete {what} with all messages")

    async def carry_out(self) -> Sequence[Content]:
        done, problems = await self.change_each(
            self._topics,
            lambda name: self.dashboard.service.do(broker_call("delete_topic", name)),
            lambda name, error: f"{name}: {error.sentence}",
            "deleted",
        )
        lines = [*(Content.styled(f"{name} is deleted", "$success") for name in done), *problems]
        return list(first_lines(lines, _LINES, "topics"))

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-cli", "topic", "delete", *self._topics, "--dry-run")
