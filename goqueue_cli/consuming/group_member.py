"""Consuming as a member of a group: written messages are acked, and all others released."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer

from goqueue.client import Client, Consumer, Delivered
from goqueue.console import exit_codes, terminal
from goqueue.errors import GroupNotFound
from goqueue.quantities import format_count
from goqueue_cli.consuming.output import MessageOutput

_AT_ONCE = 5_000
"""Messages in one answer, for a pipe."""

_AT_ONCE_SHOWN = 100
"""Messages in one answer, for a terminal, where ^C may come before the end."""


class _Member:
    """The consumer of one command."""

    def __init__(self, consumer: Consumer, outlet: MessageOutput, limit: int | None) -> None:
        self._consumer = consumer
        self._outlet = outlet
        self._left = limit
        self.interrupted = False

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Have ^C stop the consumer after the current output; a second ^C stops at once."""

        def press(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                signal.default_int_handler(number, frame)
            self.interrupted = True
            self._consumer.stop()

        before = signal.signal(signal.SIGINT, press)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def show(self) -> None:
        """Write messages and ack each after it was written; a terminal gets them one by one."""
        for batch in self._consumer.batches():
            messages = batch.messages[: self._left]
            if terminal.is_terminal() or self._outlet.decodes or len(messages) < len(batch):
                self._show_each(messages)
            else:
                self._outlet.put(messages)
                batch.ack()
            if self._left is not None:
                self._left -= len(messages)
                if self._left <= 0:
                    return

    def _show_each(self, messages: Sequence[Delivered]) -> None:
        for message in messages:
            if self.interrupted:
                return
            self._outlet.put([message])
            message.ack()


def _has_offsets(client: Client, topic: str, group: str) -> bool:
    """Return True if the group has offsets in the topic, or members."""
    try:
        found = client.group(group)
    except GroupNotFound:
        return False
    return topic in found["lag"] or bool(found["members"])


def show_as_member(
    client: Client, topic: str, group: str, options: dict[str, Any], limit: int | None, outlet: MessageOutput
) -> None:
    """Consume until there are enough messages, none has arrived for a while, or ^C."""
    if limit == 0:
        return
    most = _AT_ONCE_SHOWN if terminal.is_terminal() else _AT_ONCE
    options = options | {"max_messages": most if limit is None else min(limit, most)}
    if limit is not None and limit <= most:
        options["prefetch"] = False  # a message that is fetched and released counts as one more delivery
    if "start" in options and _has_offsets(client, topic, group):
        start = options["start"]
        terminal.say(
            f"group {group} continues at its offsets, and --from {start} applies to new groups only: "
            f"`goqueue-cli group reset {group} --topic {topic} --to {start}` moves it"
        )
    consumer = client.consumer(group, [topic], **options)
    member = _Member(consumer, outlet, limit)
    with member.interruptible():
        with consumer:
            member.show()
        if consumer.stats.refused:
            terminal.say(
                f"{format_count(consumer.stats.refused, 'message')} could not be acked, and will be delivered again"
            )
        if member.interrupted:
            outlet.finish()
            released = consumer.stats.released
            rest = f", {format_count(released)} released" if released else ""
            terminal.say(f"interrupted: {format_count(outlet.count, 'message')}{rest}")
            raise typer.Exit(exit_codes.INTERRUPTED)
