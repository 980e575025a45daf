"""The dashboard as an application: where one is, where one was, and when the broker is asked again."""

import asyncio
import gc
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

from textual.app import SystemCommand
from textual.binding import Binding
from textual.events import Event, Key, Paste
from textual.screen import Screen

from goqueue_admin.dashboard import clipboard, commands, keys, pages, questions
from goqueue_admin.dashboard.host import Host
from goqueue_admin.dashboard.keyboard import Keyboard
from goqueue_admin.dashboard.pages import HOME, PAGES, Place
from goqueue_admin.dashboard.questions import Question
from goqueue_admin.dashboard.screens.help import HelpScreen
from goqueue_admin.dashboard.screens.page import Page, make
from goqueue_admin.dashboard.service import Service
from goqueue_admin.dashboard.themes import DARK, THEMES
from goqueue_admin.dashboard.views.table import Filter, Sorting
from goqueue_admin.dashboard.widgets.prompt import Prompt

HISTORY_MAX = 100


class _Left(NamedTuple):
    """What a table looked like when its screen was left."""

    key: str
    chosen: Filter
    sorting: Sorting
    marked: set[str]


class Dashboard(Host):
    """The screens of `pages`, over one service."""

    CSS_PATH = "dashboard.tcss"
    TITLE = "GoQueue"
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar = [
        *keys.EVERYWHERE,
        *(
            Binding(row.key, f"open({row.name!r})", row.help, show=False, id=f"page.{row.name}")
            for row in PAGES
            if row.key
        ),
    ]

    def __init__(
        self,
        service: Service,
        *,
        context: str = "",
        protected: bool = False,
        read_only: bool = False,
        theme: str = DARK.name,
        every: float = 2.0,
        start: Place = HOME,
    ) -> None:
        super().__init__()
        self.service = service
        self.context = context
        self.protected = protected
        self.read_only = read_only
        self.is_paused = False
        self.keyboard = Keyboard(self)
        self._every = every
        self._trail = [start]
        self._at = 0
        self._left: dict[Place, _Left] = {}
        for one in THEMES:
            self.register_theme(one)
        self.theme = theme
        service.told = self._told

    async def on_mount(self) -> None:
        self.keyboard.start()
        await self.push_screen(make(self._trail[0]))
        self.set_interval(self._every, self._again, name="look")
        self.set_interval(1.0, self._tick, name="tick")
        self.look(fresh=True)

    def on_ready(self) -> None:
        """The first picture is there. What was made for it stays: to collect it would hold the screen for 25 ms."""
        if not self.is_headless:
            gc.freeze()

    async def on_unmount(self) -> None:
        self.keyboard.stop()
        await self.service.close()

    async def on_event(self, event: Event) -> None:
        if not isinstance(event, Key | Paste) or event.is_forwarded or self.keyboard.passes(event):
            await super().on_event(event)

    # --- asking ---

    @property
    def page(self) -> Page | None:
        """The screen of ours that is on top, maybe under a window."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, Page)), None)

    def look(self, *, fresh: bool = False) -> None:
        """Ask what the screen wants to know, and then what its head shows."""
        page = self.page
        if page is None:
            return
        once = [] if self.service.known.get(questions.VERSION) else [questions.VERSION]
        head = [questions.STATS, questions.HISTORY, *once, questions.DOCTOR]
        self.service.look([*page.questions(), *head], fresh=fresh)

    def _again(self) -> None:
        if not self.is_paused and self.service.link.state != "away":
            self.look()

    def _tick(self) -> None:
        if self.service.link.state == "away":
            if self.service.is_due:
                self.look()
            if self.page is not None:
                self.page.tell_link()

    def _told(self, asked: Question | None) -> None:
        """Something is known that was not. Answers of one turn of the loop are drawn together."""
        del asked
        page = self.page
        if page is not None and page.is_mounted:
            page.call_next(page.draw)

    # --- going ---

    def go(self, place: Place) -> None:
        """To another screen; what lay ahead in the history is no more."""
        if place != self._trail[self._at]:
            self._trail = [*self._trail[: self._at + 1], place][-HISTORY_MAX:]
            self._enter(len(self._trail) - 1)

    def go_to(self, text: str) -> None:
        """To what was typed."""
        place = pages.parse(text)
        if place is not None:
            self.go(place)
        elif text and self.page is not None:
            self.page.say(pages.usage(text), "bad")

    def _enter(self, index: int) -> None:
        page = self.page
        if page is not None:
            self._remember(page)
        self._at = index
        while self.screen is not page:
            self.pop_screen()  # windows over it
        self.switch_screen(make(self._trail[index]))
        self.call_next(self.look, fresh=True)

    def _remember(self, page: Page) -> None:
        table = page.table
        if table is not None:
            self._left[page.place] = _Left(table.current_key, table.chosen, table.sorting, set(table.marked))

    def recall(self, page: Screen[None]) -> None:
        """Make a screen look as it did when it was left."""
        if not isinstance(page, Page):
            return
        table, left = page.table, self._left.get(page.place)
        if table is not None and left is not None:
            table.chosen, table.sorting, table.marked = left.chosen, left.sorting, left.marked
            page.draw()
            table.seek(left.key)

    def action_open(self, name: str) -> None:
        self.go(Place(name))

    def action_up(self) -> None:
        place = pages.above(self._trail[self._at])
        if place is not None:
            self.go(place)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """At the top nothing is above."""
        if action == "up" and pages.above(self._trail[self._at]) is None:
            return False
        return super().check_action(action, parameters)

    def action_history(self, steps: int) -> None:
        """Back, or forward again."""
        if 0 <= self._at + steps < len(self._trail):
            self._enter(self._at + steps)

    def action_prompt_go(self) -> None:
        page = self.page
        if page is not None and self.screen is page:
            page.query_one(Prompt).ask("go", ":", "", "a screen, as in: topics, topic orders", self._places(page))

    def _places(self, page: Page) -> list[str]:
        topics = self.service.known.get(questions.TOPICS) or ()
        names = [*page.suggestions(), *(topic.name for topic in topics)]
        words = [name for row in PAGES for name in (row.name, *row.aliases)]
        naming = [word for word in words if (row := pages.row_of(Place(word))).about or row.one]
        return [*words, *(f"{word} {name}" for word in naming for name in names)]

    # --- everything else that a key does ---

    def action_look(self) -> None:
        self.look(fresh=True)
        if self.page is not None:
            self.page.say("asked again", "muted")

    def action_pause(self) -> None:
        self.is_paused = not self.is_paused
        if self.page is not None:
            self.page.tell_link()
        if not self.is_paused:
            self.look()

    def action_help(self) -> None:
        page = self.page
        if page is not None and not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(page.focused, page))

    async def action_copy(self) -> None:
        page = self.page
        if page is not None:
            await self.copy(page.copied())

    async def action_copy_command(self) -> None:
        page = self.page
        if page is not None:
            await self.copy(page.command())

    async def copy(self, text: str) -> None:
        """Copy, and say what and which way."""
        page = self.page
        if page is None:
            return
        if not text:
            page.say("there is nothing to copy here", "warn")
            return
        self.copy_to_clipboard(text)
        way = (None if self.is_headless else await asyncio.to_thread(clipboard.copy, text)) or "the terminal (OSC 52)"
        first, *more = text.splitlines()
        page.say(f"copied by {way}: {first}{f' and {len(more)} more' if more else ''}", "good")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: screens, what can be done here, themes, and the commands of the programs."""
        del screen
        for row in PAGES:
            if not row.about:
                yield SystemCommand(f"Go to {row.name}", row.help, lambda name=row.name: self.go(Place(name)))
        yield SystemCommand("Theme", "Change the colours.", self.action_change_theme)
        yield SystemCommand("Keys", "What every key does here.", self.action_help)
        yield SystemCommand("Refresh", "Ask the broker now.", self.action_look)
        yield SystemCommand("Pause", "Stop or go on asking.", self.action_pause)
        yield SystemCommand("Screenshot", "Save this screen as an SVG.", lambda: self.set_timer(0.1, self._picture))
        for entry in commands.entries(read_only=self.read_only):
            yield SystemCommand(entry.text, entry.help, lambda text=entry.text: self.call_next(self.copy, text))
        yield SystemCommand("Quit", "Leave the dashboard.", self.action_quit)

    def _picture(self) -> None:
        with suppress(OSError):
            self.deliver_screenshot()
