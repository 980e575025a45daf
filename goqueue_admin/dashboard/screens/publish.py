"""The dialog that publishes a message, with the checks of `goqueue-cli publish`."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.content import Content

from goqueue.console.consumer_groups import may_be_done
from goqueue.console.due_changes import DueChange
from goqueue.console.failure import UsageInvalid
from goqueue.console.message_fields import parse_header, parse_priority
from goqueue.console.terminal import escape_unprintable
from goqueue.errors import GoQueueError
from goqueue.quantities import format_size, format_time, quoted
from goqueue_admin.dashboard.broker.service import broker_call
from goqueue_admin.dashboard.screens.base import MUTED
from goqueue_admin.dashboard.screens.delayed_actions import parse_due_time
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogField, DialogPlan

if TYPE_CHECKING:
    from goqueue.client.admin_requests import TopicInfo
    from goqueue.client.delivery import Stored

_VALUE_SHOWN = 300


class MessageForm(NamedTuple):
    """The parsed fields of a message."""

    value: str
    key: str | None
    headers: list[tuple[str, bytes]]
    priority: int | str
    due: DueChange

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of the client's `publish`."""
        given: dict[str, Any] = {"key": self.key, "headers": self.headers, "priority": self.priority}
        return given | (self.due.of_many() if self.due != DueChange() else {})

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        texts = (self.value, self.key or "", *(name for name, _ in self.headers))
        return sum(len(text.encode()) for text in texts) + sum(len(value) for _, value in self.headers)


def parse_headers(text: str) -> list[tuple[str, bytes]]:
    """Parse `source=shop note="two words"`. Raises ValueError."""
    try:
        return [parse_header(word) for word in shlex.split(text)]
    except UsageInvalid as error:
        raise ValueError(f"{error}".replace("--header ", "") + ": write it as in source=shop") from None
    except ValueError:
        raise ValueError(f"the headers are {quoted(text)}: a quotation mark is not closed") from None


def parse_due(text: str, now_ns: int) -> DueChange:
    if not text:
        return DueChange()
    due = parse_due_time(text, now_ns)
    if due.shift is not None:
        raise ValueError(f"{quoted(text)} is no time: write a delay as 5m, or a time as 14:05")
    return due


class PublishDialog(ActionDialog):
    """Publishes one message. It stays open, so that the next one can be changed and published."""

    def __init__(self, topic: str) -> None:
        fields = (
            DialogField("value", "value", "", '{"id": 17}'),
            DialogField("key", "key", "", "none"),
            DialogField("headers", "headers", "", 'none; source=shop note="two words"'),
            DialogField("priority", "priority", "", "normal; critical high low background"),
            DialogField("due", "deliver", "", "at once; 5m   14:05   2026-03-01T12:00:00Z"),
        )
        super().__init__(f"Publish to {topic}", topic, fields)
        self._topic = topic
        self._form = MessageForm("", None, [], "normal", DueChange())

    async def plan(self) -> DialogPlan:
        from goqueue.client import publish_requests  # noqa: PLC0415 - with the encoding of messages

        form = self._form = self._parsed()
        publish_requests.publish(self._topic, form.value, partition=None, **form.options)  # checks what it refuses
        info: TopicInfo = await self.dashboard.service.do(broker_call("topic", self._topic))
        if form.size > info.message_bytes_max:
            most = format_size(info.message_bytes_max)
            raise ValueError(f"the message has {format_size(form.size)}, and {self._topic} takes {most} at most")
        return DialogPlan(list(self._lines(form)), f"publish to {self._topic}")

    def _parsed(self) -> MessageForm:
        values = self.values
        now_ns = self.dashboard.service.clock.now_ns()
        return MessageForm(
            values["value"],
            values["key"] or None,
            parse_headers(values["headers"]),
            parse_priority(values["priority"]) or "normal",
            parse_due(values["due"], now_ns),
        )

    def _lines(self, form: MessageForm) -> Iterator[Content]:
        shown = escape_unprintable(form.value[:_VALUE_SHOWN]) + ("…" if len(form.value) > _VALUE_SHOWN else "")
        yield Content(shown or "(an empty value)")
        key = f"key {escape_unprintable(form.key)}" if form.key else "no key"
        yield Content.styled(f"{format_size(form.size)}, {key}, priority {form.priority}", MUTED)
        if form.headers:
            texts = (f"{name}={value.decode(errors='replace')}" for name, value in form.headers)
            yield Content.styled(escape_unprintable(f"headers {' '.join(texts)}"), MUTED)
        if form.due != DueChange():
            due_ns = form.due.due_ns(0, self.dashboard.service.clock.now_ns())
            yield Content.styled(f"delivered from {format_time(due_ns)[:19]}Z on", "$warning")

    async def carry_out(self) -> Sequence[Content]:
        form = self._form
        call = broker_call("publish", self._topic, form.value, **form.options)
        try:
            stored: Stored = await self.dashboard.service.do(call)
        except GoQueueError as error:
            if may_be_done(error):
                self.tell("it may have been published: look at the newest messages first", place="plan")
            raise
        if stored.delayed:
            due = "" if stored.deliver_at_ns is None else f", due at {format_time(stored.deliver_at_ns)[:19]}Z"
            return [Content.styled(f"scheduled as {stored.partition}@{stored.offset}{due}", "$success")]
        return [Content.styled(f"published as {self._topic}/{stored.partition}@{stored.offset}", "$success")]

    def command(self) -> str:
        values = self.values
        words = ["goqueue-cli", "publish", self._topic, values["value"]]
        if values["key"]:
            words += ["--key", values["key"]]
        with suppress(ValueError):
            for name, value in parse_headers(values["headers"]):
                words += ["--header", f"{name}={value.decode(errors='replace')}"]
        if values["priority"]:
            words += ["--priority", values["priority"]]
        with suppress(ValueError):
            due = parse_due(values["due"], self.dashboard.service.clock.now_ns())
            words += due.words if due != DueChange() else ()
        return self.dashboard.shell_command(*words, "--dry-run")
