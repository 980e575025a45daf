"""Passes on one key at a time: the next one when everything that the previous one started is done.

A key goes through a queue of every widget from the focused one to the application, and is lost with the queue of a
screen that is closed. Without this, keys typed fast would reach the screen or focus of an earlier key.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.events import Key, Paste
from textual.message_pump import MessagePump
from textual.worker import Worker

if TYPE_CHECKING:
    from textual.app import App

_SECONDS_MAX = 1.0
"""Maximum wait for a queue: a closed one never reports."""
_ROUNDS = 2
"""Passes through all queues after a key: its action may post another message."""
_LOOK_SECONDS = 0.005


class KeyQueue:
    """Holds keys back until the application has processed the previous one."""

    def __init__(self, app: "App[None]") -> None:
        self._app = app
        self._typed: asyncio.Queue[Key | Paste] = asyncio.Queue()
        self._current: Key | Paste | None = None
        self._way: Sequence[MessagePump] = ()
        self._task: asyncio.Task[None] | None = None
        self._worker: Worker[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="dashboard-keyboard")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def is_idle(self) -> bool:
        """True if all typed keys have been processed."""
        return self._current is None and self._typed.empty()

    def hold_for(self, worker: Worker[None]) -> None:
        """Hold keys back until a worker that opens another screen is done."""
        self._worker = worker

    def passes(self, event: Key | Paste) -> bool:
        """Return False for a key that must wait; it is posted again later."""
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
            await _drain([self._app])
            await _drain(self._way)
            for _ in range(_ROUNDS):
                await _drain(self._widgets())
            if self._worker is not None:
                await self._finish(self._worker)
            self._current = None

    async def _finish(self, worker: Worker[None]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SECONDS_MAX
        while not worker.is_finished and loop.time() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
        self._worker = None
        await _drain(self._widgets())

    def _widgets(self) -> Sequence[MessagePump]:
        """Return the widgets from the focused one up to the application."""
        screens = self._app.screen_stack
        return (screens[-1].focused or screens[-1]).ancestors_with_self if screens else ()


async def _drain(queues: Sequence[MessagePump]) -> None:
    """Wait until each queue has handled its current messages."""
    for queue in queues:
        handled = asyncio.Event()
        if queue.call_later(handled.set):
            try:
                await asyncio.wait_for(handled.wait(), _SECONDS_MAX)
            except TimeoutError:
                continue
