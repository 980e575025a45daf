"""The base of the runners, which do for the broker's coordinators what needs the event loop: timers and tasks."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from goqueue.broker.core.deadlines import Deadlines
from goqueue.broker.core.shards import Shard, Shards
from goqueue.broker.core.work import Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.runtime.deferred import Deferred

_log = logging.getLogger("goqueue.runtime")

S = TypeVar("S", bound=Shard)


def resolve(answer: "asyncio.Future[Any]", result: Any) -> None:
    """Complete a future with a result or an error, unless its caller has gone."""
    if answer.done():
        return
    if isinstance(result, GoQueueError):
        answer.set_exception(result)
    else:
        answer.set_result(result)


async def completed_within(deferred: Deferred[None], seconds: float) -> None:
    """Wait until a deferred is done; complete it when the time is up."""
    timer = asyncio.get_running_loop().call_later(seconds, deferred.resolve, None)
    try:
        await deferred
    finally:
        timer.cancel()


class Shell(Protocol):
    """The part of the runtime that runners need."""

    @property
    def is_stopping(self) -> bool: ...

    async def perform(self, work: Work[Any]) -> Any: ...


class Runner(ABC):
    """A timer, and tasks that `stop` waits for. Created on the event loop."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    @abstractmethod
    def start(self) -> None: ...

    def cancel(self) -> None:
        """Cancel the timer and the tasks at once."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        """Cancel the timer and wait for the tasks."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _call_in(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._is_stopping:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, seconds), callback)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- deadlines ---

    def _watch(self, deadlines: Deadlines, clock: Clock, most: int | None = None) -> None:
        """Run due deadlines from now on, at most `most` of them in one turn of the loop."""

        def arm(when_ns: int) -> None:
            self._call_in((when_ns - clock.now_ns()) / NANOSECONDS, call_due)

        def call_due() -> None:
            self._timer = None
            try:
                deadlines.call_due(clock.now_ns(), most)
            except GoQueueError as error:  # one log refuses writes; the others continue
                _log.warning("a deadline could not be recorded: %s", error)
            finally:
                arm_next()

        def arm_next() -> None:
            following = deadlines.next_ns
            if self._timer is None and following is not None:
                arm(following)

        deadlines.on_earlier.subscribe(arm)
        arm_next()


class ShardRunners(Generic[S]):
    """A runner for each open shard. `make` returns that of a shard; it ends when the shard is closed."""

    def __init__(self, shards: Shards[S], make: Callable[[S], Runner]) -> None:
        self._shards = shards
        self._make = make
        self._runners: dict[S, Runner] = {}

    def start(self) -> None:
        for shard in self._shards:
            self._opened(shard)
        self._shards.on_opened.subscribe(self._opened)
        self._shards.on_closed.subscribe(self._closed)

    async def stop(self) -> None:
        await asyncio.gather(*(runner.stop() for runner in self._runners.values()))

    def _opened(self, shard: S) -> None:
        runner = self._runners[shard] = self._make(shard)
        runner.start()

    def _closed(self, shard: S) -> None:
        self._runners.pop(shard).cancel()
