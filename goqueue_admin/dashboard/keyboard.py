"""Keys one after the other: the next is given out when all that the one before began is over.

A key goes through a queue of every widget between the one with the focus and the application, and is lost with the
queue of a screen that goes. What is typed fast, or while the machine is busy, would then meet the screen, or the
focus, from before the key in front of it. What must stay true: one key at a time is on its way.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.events import Key, Paste
from textual.message_pump import MessagePump

if TYPE_CHECKING:
    from textual.app import App

_SECONDS_MAX = 1.0
"""That a queue is waited for: one that is closed meanwhile never says so."""
_ROUNDS = 2
"""Through all queues after a key: what it does may send one message that does something."""


class Keyboard:
    """Lies between the terminal and the application, which asks it whether a key's turn has come."""

    def __init__(self, app: "App[None]") -> None:
        self._app = app
        self._typed: asyncio.Queue[Key | Paste] = asyncio.Queue()
        self._current: Key | Paste | None = None
        self._way: Sequence[MessagePump] = ()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="dashboard-keyboard")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether all that was typed has been done."""
        return self._current is None and self._typed.empty()

    def passes(self, event: Key | Paste) -> bool:
        """False of one that has to wait; it comes again when its turn is there."""
        if self._task is None:
            return True
        if event is self._current:
            self._way = self._widgets()
            return True
        self._typed.put_nowait(event)
        return False

    async def _run(self) -> None:
        while True:
            self._current = await self._typed.get()
            self._way = ()
            self._app.post_message(self._current)
            await _emptied([self._app])
            await _emptied(self._way)
            for _ in range(_ROUNDS):
                await _emptied(self._widgets())
            self._current = None

    def _widgets(self) -> Sequence[MessagePump]:
        """From the one with the focus up to the application."""
        screens = self._app.screen_stack
        return (screens[-1].focused or screens[-1]).ancestors_with_self if screens else ()


async def _emptied(queues: Sequence[MessagePump]) -> None:
    """Wait until each has handled what lies in it now."""
    for queue in queues:
        handled = asyncio.Event()
        if queue.call_later(handled.set):
            try:
                await asyncio.wait_for(handled.wait(), _SECONDS_MAX)
            except TimeoutError:
                continue
