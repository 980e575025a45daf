"""The tasks and the timers of one part of a node. A defect in one of them ends the process.

A node that went on without the part would look alive to the others, and would not do what they rely on.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

_log = logging.getLogger("goqueue.cluster")


class OwnedTasks:
    """The tasks of one owner. Everything is called on the loop."""

    def __init__(self, what: str, failed: Callable[[], None]) -> None:
        """`what` is what a task does, for the log; `failed` is called after a defect."""
        self._what, self._failed = what, failed
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._tell(failure)

    def call_later(self, seconds: float, callback: Callable[..., None], *args: Any) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self._call, callback, *args)

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        asyncio.get_running_loop().call_soon(self._call, callback, *args)

    def _call(self, callback: Callable[..., None], *args: Any) -> None:
        try:
            callback(*args)
        except Exception as failure:
            self._tell(failure)

    def _tell(self, failure: BaseException) -> None:
        _log.critical("%s failed by a defect: the broker stops", self._what, exc_info=failure)
        self._failed()

    async def stop(self) -> None:
        """Cancel all tasks, and wait for their ends."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
