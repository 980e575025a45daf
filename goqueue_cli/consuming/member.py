"""Consuming as a member of a group: what was written is acknowledged, and everything else is given back."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer

from goqueue.client import Client, Consumer, Delivered
from goqueue.console import exits, terminal
from goqueue.errors import GroupNotFound
from goqueue.quantities import format_count
from goqueue_cli.consuming.outlet import Outlet

_AT_ONCE = 5_000
"""Messages of an answer: a program that reads a pipe waits for nobody."""

_AT_ONCE_SHOWN = 100
"""The same for a person, who may well stop before the end."""


class _Member:
    """One consumer, until it is told to stop."""

    def __init__(self, consumer: Consumer, outlet: Outlet, limit: int | None) -> None:
        self._consumer = consumer
        self._outlet = outlet
        self._left = limit
        self.interrupted = False

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """^C ends it when what is being written is out. Pressed again, it ends at once."""

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
        """A message is acknowledged once it is out. A terminal gets them one by one, and so they are settled."""
        for batch in self._consumer.batches():
            messages = batch.messages[: self._left]
            if terminal.is_terminal() or len(messages) < len(batch):
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


def _goes_on(client: Client, topic: str, group: str) -> bool:
    """Whether it has a place in the topic, or members, the first of which has said where it begins."""
    try:
        found = client.group(group)
    except GroupNotFound:
        return False
    return topic in found["lag"] or bool(found["members"])


def show_as_member(
    client: Client, topic: str, group: str, options: dict[str, Any], limit: int | None, outlet: Outlet
) -> None:
    """Until there is enough, nothing comes any more, or somebody interrupts it."""
    if limit == 0:
        return
    most = _AT_ONCE_SHOWN if terminal.is_terminal() else _AT_ONCE
    options = options | {"max_messages": most if limit is None else min(limit, most)}
    if limit is not None and limit <= most:
        options["prefetch"] = False  # what is fetched and given back counts as delivered once more
    if "start" in options and _goes_on(client, topic, group):
        start = options["start"]
        terminal.say(
            f"group {group} goes on where it is, and --from {start} is for a new one: "
            f"`goqueue-cli group reset {group} --topic {topic} --to {start}` moves it"
        )
    consumer = client.consumer(group, [topic], **options)
    member = _Member(consumer, outlet, limit)
    with member.interruptible():
        with consumer:
            member.show()
        if consumer.stats.refused:
            terminal.say(
                f"{format_count(consumer.stats.refused, 'message')} could not be acknowledged, and will come again"
            )
        if member.interrupted:
            outlet.finish()
            given_back = consumer.stats.released
            rest = f", {format_count(given_back)} given back" if given_back else ""
            terminal.say(f"interrupted: {format_count(outlet.count, 'message')}{rest}")
            raise typer.Exit(exits.INTERRUPTED)
