"""Delayed messages on an event loop: the timer, and a task for each partition that has something to deliver."""

import asyncio
import logging
from functools import partial
from typing import Any, Protocol

from goqueue.broker.delay.office import Office
from goqueue.broker.delay.postman import Postman
from goqueue.broker.work import Promise, Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import DELAY_CLOCK_BACK_NS, DELAY_RETRY_SECONDS, DELAY_TIMER_SECONDS

_log = logging.getLogger("goqueue.delay")

_AT_ONCE = 16  # partitions that deliver at the same time: each has a batch in memory
_SYNC_SECONDS = 0.01  # between two looks whether what was written has been synced


class Shell(Protocol):
    """What carries rules out."""

    async def perform(self, work: Work[Any]) -> Any: ...


class Courier:
    """Does for the office what waits."""

    def __init__(self, office: Office, clock: Clock, shell: Shell) -> None:
        self._office = office
        self._clock = clock
        self._shell = shell
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._rounds: dict[Postman, asyncio.Task[None]] = {}
        self._again: set[Postman] = set()
        """Those that were called while they were on their round."""
        self._resting: dict[Postman, float] = {}
        """Until when, in the loop's time, those stay at home that were refused."""
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._seen_ns = clock.now_ns()
        self._is_stopping = False

    def start(self) -> None:
        self._office.on_earlier = self._arm
        self._office.on_wait = self._wait_for_sync
        self._look()

    async def stop(self) -> None:
        """What is on its way arrives; then nothing is delivered any more."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        while self._rounds:
            await asyncio.wait(self._rounds.values())

    # --- the timer ---

    def _arm(self) -> None:
        """The wall clock may be set while it is waited: so it is looked at again after a second at most."""
        if self._is_stopping:
            return
        if self._timer is not None:
            self._timer.cancel()
        when_ns = self._office.next_ns
        left = DELAY_TIMER_SECONDS if when_ns is None else (when_ns - self._clock.now_ns()) / NANOSECONDS
        self._timer = self._loop.call_later(min(DELAY_TIMER_SECONDS, max(0.0, left)), self._look)

    def _look(self) -> None:
        now_ns = self._clock.now_ns()
        if now_ns < self._seen_ns - DELAY_CLOCK_BACK_NS:
            self._office.clock_was_set()
            self._seen_ns = now_ns
        self._seen_ns = max(self._seen_ns, now_ns)
        for postman in self._office.due():
            self._send(postman)
        self._arm()

    def _send(self, postman: Postman) -> None:
        if postman in self._rounds:
            self._again.add(postman)
            return
        rest = self._resting.pop(postman, 0.0) - self._loop.time()
        if rest > 0:
            self._rest(postman, rest)
            return
        task = self._rounds[postman] = self._loop.create_task(self._round(postman))
        task.add_done_callback(partial(self._returned, postman))

    def _wait_for_sync(self, moment: Promise[None]) -> None:
        self._loop.call_later(_SYNC_SECONDS, moment, None)

    # --- the rounds ---

    async def _round(self, postman: Postman) -> None:
        try:
            async with self._turn:
                await self._shell.perform(postman.deliver(lambda: self._is_stopping))
        except GoQueueError as error:
            if not postman.delays.partition.log.is_closed:
                _log.warning("delayed messages of %s are late: %s", postman.delays.partition.log.name, error)
                self._rest(postman, DELAY_RETRY_SECONDS)
        except Exception:
            _log.exception("delayed messages of %s are late", postman.delays.partition.log.name)
            self._rest(postman, DELAY_RETRY_SECONDS)
        else:
            self._office.done(postman)

    def _rest(self, postman: Postman, seconds: float) -> None:
        """It goes again, and not before, however much comes meanwhile."""
        self._again.discard(postman)
        self._resting[postman] = self._loop.time() + seconds
        self._office.try_again(postman, self._clock.now_ns() + round(seconds * NANOSECONDS))

    def _returned(self, postman: Postman, _: object) -> None:
        del self._rounds[postman]
        if postman in self._again and not self._is_stopping:
            self._again.discard(postman)
            self._send(postman)
        else:
            self._arm()

    def __repr__(self) -> str:
        return f"<Courier {len(self._rounds)} on their round>"
