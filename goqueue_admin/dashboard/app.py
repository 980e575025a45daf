"""The dashboard application: navigation, history, refresh rounds, the palette and copying."""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from shutil import which
from typing import Any, ClassVar, NamedTuple

from textual.app import SystemCommand
from textual.binding import Binding
from textual.events import Event, Key, Paste
from textual.screen import Screen

from goqueue.console.command_tree import Program
from goqueue.console.failure import UsageInvalid, command_hint
from goqueue.errors import GoQueueError
from goqueue_admin.dashboard.broker import names
from goqueue_admin.dashboard.broker.service import DOCTOR, HISTORY, STATS, VERSION, BrokerCall, Service
from goqueue_admin.dashboard.key_queue import KeyQueue
from goqueue_admin.dashboard.screens import routes
from goqueue_admin.dashboard.screens.base import DashboardApp, DashboardScreen, make_screen
from goqueue_admin.dashboard.screens.contexts import open_context
from goqueue_admin.dashboard.screens.routes import EVERYWHERE_KEYS, HOME, ROUTES, Location
from goqueue_admin.dashboard.screens.windows import HelpDialog
from goqueue_admin.dashboard.themes import DARK, THEMES
from goqueue_admin.dashboard.views.table import RowFilter, SortOrder
from goqueue_admin.dashboard.widgets.prompt import Prompt

REGISTRIES = ("goqueue_cli.registry", "goqueue_admin.registry")
"""Named, not imported: each program can be installed alone."""


class PaletteCommand(NamedTuple):
    """A command of a program and its help."""

    text: str
    help: str
    effect: str


@cache
def _programs() -> tuple[Program, ...]:
    return tuple(import_module(name).PROGRAM for name in REGISTRIES)


def palette_commands(*, read_only: bool) -> Iterator[PaletteCommand]:
    """Return all commands, or only reading ones."""
    for program in _programs():
        for command in program.commands:
            if command.path != "dashboard" and (command.effect == "read" or not read_only):
                words = command.help if command.effect == "read" else f"{command.help} ({command.effect})"
                yield PaletteCommand(f"{program.name} {command.path}", f"Copy: {words}", command.effect)


def _sentence(error: GoQueueError | UsageInvalid) -> str:
    return error.sentence if isinstance(error, GoQueueError) else str(error)


_SECONDS_MAX = 2.0


def clipboard_commands(environment: Mapping[str, str], platform: str) -> list[list[str]]:
    """Return the clipboard commands of this platform, the best first."""
    if platform == "darwin":
        return [["pbcopy"]]
    found = []
    if environment.get("WAYLAND_DISPLAY"):
        found.append(["wl-copy"])
    if environment.get("DISPLAY"):
        found += [["xclip", "-selection", "clipboard", "-in"], ["xsel", "--clipboard", "--input"]]
    return found


def copy_to_clipboard_command(text: str) -> str | None:
    """Copy with the first command that works; return its name."""
    for command in clipboard_commands(os.environ, sys.platform):
        if which(command[0]) and _run_clipboard_command(command, text):
            return command[0]
    return None


def _run_clipboard_command(command: list[str], text: str) -> bool:
    try:
        done = subprocess.run(
            command,
            input=text.encode(errors="surrogateescape"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


HISTORY_MAX = 100


class _SavedTable(NamedTuple):
    """The state of a table when its screen was left."""

    key: str
    chosen: RowFilter
    sorting: SortOrder
    marked: set[str]


class Dashboard(DashboardApp):
    """The application: the screens of `routes` over one service."""

    CSS_PATH = "dashboard.tcss"
    TITLE = "GoQueue"
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar = [
        *EVERYWHERE_KEYS,
        *(
            Binding(f"{row.key},{digit}", f"open({row.name!r})", row.help, show=False, id=f"page.{row.name}")
            for digit, row in routes.keyed_routes()
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
        start: Location = HOME,
    ) -> None:
        super().__init__()
        self.service = service
        self.context = context
        self.protected = protected
        self.read_only = read_only
        self.is_paused = False
        self.keyboard = KeyQueue(self)
        self._every = every
        self._trail = [start]
        self._at = 0
        self._left: dict[Location, _SavedTable] = {}
        self._arrival = ("", "")
        """The row at which the next screen begins, and why it is opened."""
        for one in THEMES:
            self.register_theme(one)
        self.theme = theme
        service.told = self._told

    async def on_mount(self) -> None:
        self.keyboard.start()
        await self.push_screen(make_screen(self._trail[0]))
        self.set_interval(self._every, self._again, name="look")
        self.set_interval(1.0, self._tick, name="tick")
        self.look(fresh=True)

    def on_ready(self) -> None:
        """Freeze the objects of the first screen: collecting them would block it for 25 ms."""
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
    def page(self) -> DashboardScreen | None:
        """The topmost dashboard screen, possibly under a window."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, DashboardScreen)), None)

    def look(self, *, fresh: bool = False) -> None:
        """Run the calls of the screen, then those of the header."""
        page = self.page
        if page is None:
            return
        once = [] if self.service.known.get(VERSION) else [VERSION]
        head = [STATS, HISTORY, *once, DOCTOR]
        self.service.look([*page.calls(), *head], fresh=fresh)

    def _again(self) -> None:
        if not self.is_paused and self.service.link.state != "away":
            self.look()

    def _tick(self) -> None:
        if self.service.link.state == "away":
            if self.service.is_due:
                self.look()
            if self.page is not None:
                self.page.tell_link()

    def _told(self, asked: BrokerCall | None) -> None:
        """Redraw the screen; results of one turn of the loop are drawn together."""
        del asked
        page = self.page
        if page is not None and page.is_mounted:
            page.call_next(page.draw)

    # --- going ---

    def go(self, place: Location, *, row: str = "", reason: str = "") -> None:
        """Show another screen; drops the forward history."""
        if place != self._trail[self._at]:
            self._arrival = (row, reason)
            self._trail = [*self._trail[: self._at + 1], place][-HISTORY_MAX:]
            self._enter(len(self._trail) - 1)

    def go_to(self, text: str) -> None:
        """Show the screen that was typed, possibly in short."""
        if text:
            self.keyboard.hold_for(self.run_worker(self._go_to(text), group="typed", exclusive=True))

    async def _go_to(self, text: str) -> None:
        await names.learn_names(self.service, routes.named_kind(text))
        found = routes.resolve_location(text, self._names)
        if found.place is None:
            self._say(found.told, "bad")
        elif found.place.page == "context":
            self.switch_context(found.place.about[0])
        else:
            self.go(found.place, reason=found.told)

    def _say(self, text: str, tone: str) -> None:
        if self.page is not None:
            self.page.say(text, tone)

    def _names(self, kind: str) -> Sequence[str]:
        return names.known_names(self.service, kind)

    def _enter(self, index: int) -> None:
        page = self.page
        if page is not None:
            self._remember(page)
        self._at = index
        while self.screen is not page:
            self.pop_screen()  # windows over it
        self.switch_screen(make_screen(self._trail[index]))
        self.call_next(self.look, fresh=True)

    def _remember(self, page: DashboardScreen) -> None:
        table = page.table
        if table is not None:
            self._left[page.place] = _SavedTable(table.current_key, table.chosen, table.sorting, set(table.marked))

    def recall(self, page: Screen[None]) -> None:
        """Restore filter, order, marks and cursor of a screen that was left; begin at the row it was opened for."""
        if not isinstance(page, DashboardScreen):
            return
        (row, page.reason), self._arrival = self._arrival, ("", "")
        table, left = page.table, self._left.get(page.place)
        if table is not None and left is not None:
            table.chosen, table.sorting, table.marked = left.chosen, left.sorting, left.marked
            page.draw()
            table.seek(left.key)
        if table is not None and row:
            table.seek(row)

    def action_open(self, name: str) -> None:
        self.go(Location(name))

    def action_up(self) -> None:
        place = routes.location_above(self._trail[self._at])
        if place is not None:
            self.go(place)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable "up" on the top screen."""
        if action == "up" and routes.location_above(self._trail[self._at]) is None:
            return False
        return super().check_action(action, parameters)

    def action_history(self, steps: int) -> None:
        """Go back or forward."""
        if 0 <= self._at + steps < len(self._trail):
            self._enter(self._at + steps)

    def action_prompt_go(self) -> None:
        page = self.page
        if page is not None and self.screen is page:
            hint = "a screen, in short or in full, as in: groups, gr billing"
            prompt = page.query_one(Prompt)
            self.run_worker(self._learn_names(prompt), group="names", exclusive=True)
            prompt.ask("go", ":", "", hint, lambda text: routes.suggest_location(text, self._names))

    async def _learn_names(self, prompt: Prompt) -> None:
        """Learn the names that can be typed, and complete what was typed meanwhile."""
        await names.learn_all_names(self.service)
        prompt.suggest_again()

    # --- another broker ---

    def switch_context(self, name: str) -> None:
        """Connect to the broker of a context, and show it. If that fails, everything stays as it is."""
        self._say(f"connecting to context {name} …", "muted")
        self.run_worker(self._switch_context(name), group="context", exclusive=True)

    async def _switch_context(self, name: str) -> None:
        try:
            opened = await open_context(name)
        except (GoQueueError, UsageInvalid) as error:
            text = command_hint(error) if isinstance(error, GoQueueError) else error.hint
            hint = f"; {text}" if text else ""
            self._say(f"still connected to {self.context or self.service.address}: {_sentence(error)}{hint}", "bad")
            return
        page = self.page
        if page is None or self.screen is not page:  # its window would change the other broker
            await opened.service.close()
            self._say(f"still connected to {self.context or self.service.address}: a window was open", "warn")
            return
        former, self.service = self.service, opened.service
        former.told, self.service.told = (lambda _: None), self._told
        self.context, self.protected = opened.name, opened.is_protected
        self._left.clear()
        place = HOME if page.place.page == "contexts" else routes.trail(page.place)[:2][-1]
        self._trail, self._at = [place], 0
        self._arrival = ("", "")
        self.switch_screen(make_screen(place))
        self.call_next(self.look, fresh=True)
        await former.close()

    # --- everything else that a key does ---

    def action_look(self) -> None:
        self.service.known.forget_refusals()
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
        if page is not None and not isinstance(self.screen, HelpDialog):
            self.push_screen(HelpDialog(page.focused, page))

    async def action_copy(self) -> None:
        page = self.page
        if page is not None:
            await self.copy(page.copied())

    async def action_copy_command(self) -> None:
        page = self.page
        if page is not None:
            await self.copy(page.command())

    async def copy(self, text: str) -> None:
        """Copy a text and report how it was copied."""
        page = self.page
        if page is None:
            return
        if not text:
            page.say("there is nothing to copy here", "warn")
            return
        self.copy_to_clipboard(text)
        way = (
            None if self.is_headless else await asyncio.to_thread(copy_to_clipboard_command, text)
        ) or "the terminal (OSC 52)"
        first, *more = text.splitlines()
        page.say(f"copied by {way}: {first}{f' and {len(more)} more' if more else ''}", "good")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Fill the palette: screens, actions, themes, and commands to copy."""
        del screen
        for row in ROUTES:
            if not row.about:
                yield SystemCommand(f"Go to {row.name}", row.help, lambda name=row.name: self.go(Location(name)))
        yield SystemCommand("Theme", "Change the colours.", self.action_change_theme)
        yield SystemCommand("Keys", "What every key does here.", self.action_help)
        yield SystemCommand("Refresh", "Ask the broker now.", self.action_look)
        yield SystemCommand("Pause", "Stop or go on asking.", self.action_pause)
        yield SystemCommand("Screenshot", "Save this screen as an SVG.", lambda: self.set_timer(0.1, self._picture))
        for entry in palette_commands(read_only=self.read_only):
            yield SystemCommand(entry.text, entry.help, lambda text=entry.text: self.call_next(self.copy, text))
        yield SystemCommand("Quit", "Leave the dashboard.", self.action_quit)

    def _picture(self) -> None:
        with suppress(OSError):
            self.deliver_screenshot()
