"""The messages of a topic or of one partition: live, from a time on, or those that fit a filter."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from textual.widget import Widget

from goqueue.client import Nanoseconds
from goqueue.console.terminal import visible
from goqueue.errors import GoQueueError
from goqueue.quantities import format_time
from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.feed import FRAME_SECONDS, Feed
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import question
from goqueue_admin.dashboard.screens import document
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.screens.window import Window
from goqueue_admin.dashboard.views import tail as views
from goqueue_admin.dashboard.views import times
from goqueue_admin.dashboard.widgets.crumbs import Crumbs
from goqueue_admin.dashboard.widgets.prompt import Prompt
from goqueue_admin.dashboard.widgets.tail import Tail

if TYPE_CHECKING:
    from goqueue.client import AsyncReader

PARTITIONS_MAX = 32
"""That are read at once: each has a connection of its own."""
_DIGITS_MAX = 10
_BACK_LINES = 120
_BACK_TO_SEARCH = 10_000
_PAGE_LINES = 500
_PATIENCE_FRAMES = 4
"""That the first lines wait for those of slower partitions, so that all are in one order."""


class MessagesPage(Page):
    """It follows the end, until a time is chosen: then it shows what came from there on, a page at a time."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._topic = place.about[0]
        self._partition = _partition(place.about[1]) if len(place.about) > 1 else None
        self._filter = ""
        self._since_ns: int | None = None
        self._partitions = 0
        self.feed: Feed | None = None
        self._refusal = ""
        self._is_held = False
        self._expected = 0
        self._frames = 0

    def body(self) -> Iterator[Widget]:
        yield Tail()

    def on_mount(self) -> None:
        self.set_interval(FRAME_SECONDS, self._frame, name="frame")
        self._begin()

    async def on_unmount(self) -> None:
        if self.feed is not None:
            await self.feed.close()

    # --- reading ---

    def _begin(self) -> None:
        """Read from where it is wanted now, and forget what was read before."""
        self._is_held = False
        self._expected = 0
        self._refusal = ""
        tail = self.query_one(Tail)
        tail.excuse(f"asking {self.dashboard.service.address} …")
        tail.clear()
        tail.follows = self._since_ns is None
        self.run_worker(self._replace(), group="feed", exclusive=True, exit_on_error=False)

    async def _replace(self) -> None:
        if self.feed is not None:
            await self.feed.close()
        service = self.dashboard.service
        self.feed = Feed(self._open, service.clock, None if self._since_ns is None else _PAGE_LINES)

    async def _open(self) -> "AsyncReader":
        service = self.dashboard.service
        info = await service.do(question("topic", self._topic))
        self._partitions = info.partitions
        every = range(min(info.partitions, PARTITIONS_MAX)) if self._partition is None else (self._partition,)
        options: dict[str, Any] = {"partitions": tuple(every), "follow": True}
        if self._filter:
            options["filters"] = times.filters(self._filter)
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
        """Ten times a second: what came, and how much of it."""
        feed, tail = self.feed, self.query_one(Tail)
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
        self.query_one(Crumbs).note(self._note(feed))

    def _note(self, feed: Feed) -> str:
        parts = []
        if self._partition is not None:
            parts.append(f"partition {self._partition}")
        elif self._partitions > PARTITIONS_MAX:
            parts.append(f"{PARTITIONS_MAX} of {self._partitions:,} partitions")
        if self._filter:
            parts.append(f"/{self._filter}")
        if self._since_ns is not None:
            parts.append(f"from {format_time(self._since_ns)[:19]}")
        parts.append(views.told(feed.received, feed.shown, feed.scanned if self._filter else None))
        parts.append("held" if self._is_held else "live" if self.query_one(Tail).follows else "scrolled")
        return " · ".join(parts)

    def _failed(self, error: GoQueueError) -> None:
        """Say why, and begin again when the broker is there."""
        self.query_one(Tail).excuse(error.sentence)
        self.query_one(Crumbs).note("stopped")
        link = self.dashboard.service.link
        if error.code in {"broker_unreachable", "request_timed_out", "broker_stopping"}:
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
        """Hold the lines where they are; the broker is not asked for more meanwhile."""
        self._is_held = not self._is_held
        if self.feed is not None:
            if self._is_held:
                self.feed.more.clear()
            else:
                self.feed.more.set()
        self.query_one(Tail).follows = not self._is_held and self._since_ns is None

    def action_prompt_filter(self) -> None:
        hint = "json.total>40   key=a   header.source=shop   or plain text"
        self.query_one(Prompt).ask("messages", "/", self._filter, hint)

    def action_prompt_time(self) -> None:
        self.query_one(Prompt).ask("time", "from: ", "", "-10m   14:05   2026-03-01   2026-03-01T12:00:00Z   (UTC)")

    def action_partition(self) -> None:
        """All, the first, the second, and so on."""
        if self._partitions:
            following = 0 if self._partition is None else self._partition + 1
            self._partition = following if following < self._partitions else None
            self._begin()

    def action_live(self) -> None:
        self._since_ns = None
        self._begin()

    def given(self, kind: str, text: str) -> None:
        if kind == "messages":
            self._filter = text
            self._begin()
        elif kind == "time" and text:
            try:
                self._since_ns = times.parse_moment(text, self.dashboard.service.clock.now_ns())
            except ValueError as error:
                self.say(str(error), "bad")
            else:
                self._begin()

    def on_tail_at_end(self) -> None:
        if self.feed is not None and self._since_ns is not None:
            self.feed.want(_PAGE_LINES)

    def on_tail_chosen(self, event: Tail.Chosen) -> None:
        self.run_worker(self._read(event.line), group="message", exclusive=True, exit_on_error=False)

    async def _read(self, line: views.Seen) -> None:
        try:
            message = await self.dashboard.service.message(self._topic, line.partition, line.offset)
        except GoQueueError as error:
            self.say(error.sentence, "bad")
            return
        if message is None:
            self.say(f"{self._topic}/{line.partition}@{line.offset} is not there any more", "warn")
            return
        content, plain = document.of_message(message, is_narrow=self.has_class("-narrow"))
        title = f"{self._topic}/{line.partition}@{line.offset}"
        self.app.push_screen(Window(title, content, plain))

    # --- what is copied ---

    def copied(self) -> str:
        line = self.query_one(Tail).current
        return "" if line is None else visible(views.text(line.value))

    def command(self) -> str:
        words = ["goqueue-cli", "consume", self._topic]
        if self._partition is not None:
            words += ["--partition", str(self._partition)]
        if self._since_ns is not None:
            words += ["--from", format_time(self._since_ns)]
        for one in times.filters(self._filter):
            words += ["--filter", one]
        if self._since_ns is None:
            words.append("--follow")
        return commands.line(*words, server=self.dashboard.service.address)


def _partition(text: str) -> int | None:
    """All of them, where it is no number."""
    return int(text) if text.isdecimal() and len(text) < _DIGITS_MAX else None
