"""The messages of a topic or partition: live, from a time on, or matching a filter.

A topic can receive 100,000 messages a second: all are counted and the newest are shown. What must stay true: the
event loop runs between small answers, and the number of lines per frame is bounded.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue.client import Nanoseconds
from goqueue.clock import Clock
from goqueue.console.terminal import escape_unprintable
from goqueue.errors import GoQueueError
from goqueue.quantities import format_time
from goqueue_admin.dashboard.broker.service import broker_call
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.dialog import UNREACHABLE_CODES
from goqueue_admin.dashboard.screens.publish import PublishDialog
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.traces import trace_location
from goqueue_admin.dashboard.screens.windows import DetailWindow, value_content
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.message import message_facts, one_line_text, render_value
from goqueue_admin.dashboard.widgets import message_tail as views
from goqueue_admin.dashboard.widgets.frame import Breadcrumbs
from goqueue_admin.dashboard.widgets.message_tail import MessageTail, RateCounter, TailMessage, tail_message
from goqueue_admin.dashboard.widgets.prompt import Prompt

if TYPE_CHECKING:
    from goqueue.client import AsyncReader, Message


FRAME_SECONDS = 0.1
FRAME_LINES = 120


class MessageFeed:
    """Reads messages in a task. `take` returns the new ones for the screen."""

    def __init__(
        self, open_reader: Callable[[], Awaitable["AsyncReader"]], clock: Clock, most: int | None = None
    ) -> None:
        self.received = RateCounter()
        self.shown = RateCounter()
        self.error: GoQueueError | None = None
        self.is_done = False
        self.more = asyncio.Event()
        """Cleared while no more messages are wanted: the reader waits."""
        self.more.set()
        self._open = open_reader
        self._clock = clock
        self._wanted = most
        self._fresh: deque[Message] = deque(maxlen=None if most else FRAME_LINES)
        self._reader: AsyncReader | None = None
        self._task = asyncio.create_task(self._run(), name="dashboard-feed")

    async def _run(self) -> None:
        try:
            self._reader = await self._open()
            async with self._reader as reader:
                async for batch in reader.batches():
                    self.received.add(len(batch))
                    self._fresh.extend(batch if self._wanted else batch[-FRAME_LINES:])
                    if self._wanted is not None and self.received.total >= self._wanted:
                        self.more.clear()
                    await self.more.wait()
                    await asyncio.sleep(0)
        except GoQueueError as error:
            self.error = error
        finally:
            self.is_done = True

    def take(self) -> list[TailMessage]:
        """Return the messages since the last call, or the newest of them, sorted by time."""
        fresh = sorted(map(tail_message, self._fresh), key=lambda line: line.time_ns)
        self._fresh.clear()
        self.shown.add(len(fresh))
        now = self._clock.monotonic_ns()
        self.received.mark(now)
        self.shown.mark(now)
        return fresh

    @property
    def is_reading(self) -> bool:
        """True once the reader has been opened."""
        return self._reader is not None

    def want(self, count: int) -> None:
        """Read more messages in a feed with a limit."""
        if self._wanted is not None:
            self._wanted = self.received.total + count
            self.more.set()

    @property
    def scanned(self) -> int | None:
        """Number of messages scanned for a filter."""
        return getattr(self._reader, "scanned", None) if self._reader is not None else None

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


PARTITIONS_MAX = 32
"""Partitions read at once; each has a connection."""
_DIGITS_MAX = 10
_BACK_LINES = 120
_BACK_TO_SEARCH = 10_000
_PAGE_LINES = 500
_PATIENCE_FRAMES = 4
"""Frames that the first lines wait for slower partitions, so that they are sorted."""


class MessagesScreen(DashboardScreen):
    """Follows the end of the topic, or pages forward from a chosen time."""

    BINDINGS: ClassVar = [
        Binding("w", "change('publish')", "Publish", id="messages.publish"),
        Binding("T", "trace", "Trace", show=False, id="messages.trace"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._topic = place.about[0]
        self._partition = _parse_partition(place.about[1]) if len(place.about) > 1 else None
        self._filter = ""
        self._since_ns: int | None = None
        self._partitions = 0
        self.feed: MessageFeed | None = None
        self._refusal = ""
        self._is_held = False
        self._expected = 0
        self._frames = 0

    def body(self) -> Iterator[Widget]:
        yield MessageTail()

    def on_mount(self) -> None:
        self.set_interval(FRAME_SECONDS, self._frame, name="frame")
        self._begin()

    async def on_unmount(self) -> None:
        if self.feed is not None:
            await self.feed.close()

    # --- reading ---

    def _begin(self) -> None:
        """Start reading again from the chosen position."""
        self._is_held = False
        self._expected = 0
        self._refusal = ""
        tail = self.query_one(MessageTail)
        tail.excuse(f"asking {self.dashboard.service.address} …")
        tail.clear()
        tail.follows = self._since_ns is None
        self.run_worker(self._replace(), group="feed", exclusive=True, exit_on_error=False)

    async def _replace(self) -> None:
        if self.feed is not None:
            await self.feed.close()
        service = self.dashboard.service
        self.feed = MessageFeed(self._open, service.clock, None if self._since_ns is None else _PAGE_LINES)

    async def _open(self) -> "AsyncReader":
        service = self.dashboard.service
        info = await service.do(broker_call("topic", self._topic))
        self._partitions = info.partitions
        every = range(min(info.partitions, PARTITIONS_MAX)) if self._partition is None else (self._partition,)
        options: dict[str, Any] = {"partitions": tuple(every), "follow": True}
        if self._filter:
            options["filters"] = formats.parse_filters(self._filter)
        if self._since_ns is not None:
            options["start"] = Nanoseconds(self._since_ns)
        else:
            back = _BACK_TO_SEARCH if self._filter else max(5, _BACK_LINES // len(every))
            held = info.partition_offsets
            starts = {
                number: max(held[str(number)].earliest, held[str(number)].latest - back)
                for number in every
                if str(number) in held
            }
            options["start"] = starts
            if not self._filter:
                self._expected = sum(held[str(number)].latest - start for number, start in starts.items())
        self._frames = 0
        return await service.tail(self._topic, **options)

    def _frame(self) -> None:
        """Show new messages and rates, ten times a second."""
        feed, tail = self.feed, self.query_one(MessageTail)
        if feed is None:
            return
        if feed.error is not None:
            self._failed(feed.error)
            return
        self._frames += 1
        if not self._is_held and (feed.received.total >= self._expected or self._frames > _PATIENCE_FRAMES):
            fresh = feed.take()
            if fresh:
                tail.add(fresh)
        if feed.is_reading:
            tail.excuse("no message fits yet" if self._filter else "no message yet")
        self.query_one(Breadcrumbs).note(self._note(feed))

    def _note(self, feed: MessageFeed) -> str:
        parts = []
        if self._partition is not None:
            parts.append(f"partition {self._partition}")
        elif self._partitions > PARTITIONS_MAX:
            parts.append(f"{PARTITIONS_MAX} of {self._partitions:,} partitions")
        if self._filter:
            parts.append(f"/{self._filter}")
        if self._since_ns is not None:
            parts.append(f"from {format_time(self._since_ns)[:19]}")
        parts.append(views.rate_summary(feed.received, feed.shown, feed.scanned if self._filter else None))
        parts.append("held" if self._is_held else "live" if self.query_one(MessageTail).follows else "scrolled")
        return " · ".join(parts)

    def _failed(self, error: GoQueueError) -> None:
        """Show the error; restart when the broker is reachable again."""
        self.query_one(MessageTail).excuse(error.sentence)
        self.query_one(Breadcrumbs).note("stopped")
        link = self.dashboard.service.link
        if error.code in UNREACHABLE_CODES:
            if link.state == "here" and self.feed is not None and self.feed.is_done:
                self._begin()
        else:
            self.feed = None
            self._refusal = f"{error.sentence}; l tries again"
            self.tell_link()

    def trouble(self) -> str:
        return self._refusal

    # --- keys ---

    def action_pause(self) -> None:
        """Pause: keep the lines and stop reading."""
        self._is_held = not self._is_held
        if self.feed is not None:
            if self._is_held:
                self.feed.more.clear()
            else:
                self.feed.more.set()
        self.query_one(MessageTail).follows = not self._is_held and self._since_ns is None

    def action_prompt_filter(self) -> None:
        hint = "json.total>40   key=a   header.source=shop   or plain text"
        self.query_one(Prompt).ask("messages", "/", self._filter, hint)

    def action_prompt_time(self) -> None:
        self.query_one(Prompt).ask("time", "from: ", "", "-10m   14:05   2026-03-01   2026-03-01T12:00:00Z   (UTC)")

    def action_partition(self) -> None:
        """Show the next partition, or all."""
        if self._partitions:
            following = 0 if self._partition is None else self._partition + 1
            self._partition = following if following < self._partitions else None
            self._begin()

    def action_change(self, what: str) -> None:
        """Publish a message."""
        del what
        self.app.push_screen(PublishDialog(self._topic))

    def action_trace(self) -> None:
        """Show what happened to the message under the cursor."""
        line = self.query_one(MessageTail).current
        if line is not None:
            self.dashboard.go(trace_location(self._topic, line.partition, line.offset))

    def action_live(self) -> None:
        self._since_ns = None
        self._begin()

    def given(self, kind: str, text: str) -> None:
        if kind == "messages":
            self._filter = text
            self._begin()
        elif kind == "time" and text:
            try:
                self._since_ns = formats.parse_moment(text, self.dashboard.service.clock.now_ns())
            except ValueError as error:
                self.say(str(error), "bad")
            else:
                self._begin()

    def on_message_tail_at_end(self) -> None:
        if self.feed is not None and self._since_ns is not None:
            self.feed.want(_PAGE_LINES)

    def on_message_tail_chosen(self, event: MessageTail.Chosen) -> None:
        self.run_worker(self._read(event.line), group="message", exclusive=True, exit_on_error=False)

    async def _read(self, line: views.TailMessage) -> None:
        try:
            message = await self.dashboard.service.message(self._topic, line.partition, line.offset)
        except GoQueueError as error:
            self.say(error.sentence, "bad")
            return
        if message is None:
            self.say(f"{self._topic}/{line.partition}@{line.offset} is not there any more", "warn")
            return
        value = render_value(message.value, 8 if self.has_class("-narrow") else 16)
        facts = [(*fact, "") for fact in message_facts(message)]
        content = value_content(facts, value, "goqueue-cli consume")
        title = f"{self._topic}/{line.partition}@{line.offset}"
        self.app.push_screen(DetailWindow(title, content, value.plain))

    # --- what is copied ---

    def copied(self) -> str:
        line = self.query_one(MessageTail).current
        return "" if line is None else escape_unprintable(one_line_text(line.value))

    def command(self) -> str:
        words = ["goqueue-cli", "consume", self._topic]
        if self._partition is not None:
            words += ["--partition", str(self._partition)]
        if self._since_ns is not None:
            words += ["--from", format_time(self._since_ns)]
        for one in formats.parse_filters(self._filter):
            words += ["--where", one]
        if self._since_ns is None:
            words.append("--follow")
        return self.dashboard.shell_command(*words)


def _parse_partition(text: str) -> int | None:
    """Parse a partition; None means all."""
    return int(text) if text.isdecimal() and len(text) < _DIGITS_MAX else None
