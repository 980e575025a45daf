"""Groups on an event loop: polls that wait, deadlines that come, messages that are carried to the dead letters."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from goqueue.broker.delivery.changes import Place
from goqueue.broker.delivery.taking import Handed, PollWish
from goqueue.broker.groups.coordinator import Coordinator
from goqueue.broker.groups.presence import Presence
from goqueue.broker.work import Work
from goqueue.clock import NANOSECONDS
from goqueue.errors import BrokerStopping, GenerationStale, GoQueueError

_log = logging.getLogger("goqueue.groups")

_CARRY_AGAIN_SECONDS = 1.0
_ARRIVAL_SECONDS = 20.0  # that an answer waits for a dead letter to arrive; it goes there all the same


class Shell(Protocol):
    """What carries rules out."""

    @property
    def is_stopping(self) -> bool: ...

    async def perform(self, work: Work[Any]) -> Any: ...


class Attendant:
    """Does for the coordinator what waits."""

    def __init__(self, coordinator: Coordinator, shell: Shell) -> None:
        self._coordinator = coordinator
        self._shell = shell
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._to_carry = asyncio.Event()
        self._carrier: asyncio.Task[None] | None = None
        self._is_stopping: bool = False

    def start(self) -> None:
        coordinator = self._coordinator
        coordinator.ledger.on_gathered = lambda: self._loop.call_soon(coordinator.commit)
        coordinator.deadlines.on_earlier = self._arm
        coordinator.undertaker.on_call = self._to_carry.set
        if not coordinator.undertaker.is_idle:
            self._to_carry.set()
        self._carrier = self._loop.create_task(self._carry())
        self._arm_next()

    async def stop(self) -> None:
        """What is on its way to the dead letters arrives; then nothing is decided any more."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        self._to_carry.set()
        if self._carrier is not None:
            await self._carrier
        self._coordinator.commit()

    def wake_all(self) -> None:
        """Whoever waits goes home with what there is; who waits for others to join as well is sent home."""
        for group in self._coordinator.ledger.groups():
            attendance = self._coordinator.rebalancer.attendance(group.group)
            attendance.wake()
            parked, attendance.parked = attendance.parked, []
            for _, joined in parked:
                joined(BrokerStopping("the broker is stopping", hint="try again after the restart", retry_after=1))

    # --- deadlines ---

    def _arm(self, when_ns: int) -> None:
        if self._is_stopping:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0, when_ns - self._coordinator.clock.now_ns()) / NANOSECONDS
        self._timer = self._loop.call_later(delay, self._call_due)

    def _call_due(self) -> None:
        deadlines = self._coordinator.deadlines
        self._timer = None
        try:
            deadlines.call_due(self._coordinator.clock.now_ns())
        except GoQueueError as error:  # a log that takes nothing: its groups are refused, the others go on
            _log.warning("what was due could not be recorded: %s", error)
        finally:
            self._arm_next()

    def _arm_next(self) -> None:
        following = self._coordinator.deadlines.next_ns
        if self._timer is None and following is not None:
            self._arm(following)

    # --- dead letters ---

    async def _carry(self) -> None:
        while True:
            await self._to_carry.wait()
            self._to_carry.clear()
            try:
                await self._shell.perform(self._coordinator.undertaker.carry())
            except Exception:
                _log.exception("some messages could not be carried to the dead letters; the next start tries again")
                self._loop.call_later(_CARRY_AGAIN_SECONDS, self._to_carry.set)  # others may be on their way too
            if self._is_stopping:
                return

    async def arrived(self, moved: list[tuple[str, Place, int]]) -> None:
        """Wait, within bounds, until these messages are where they go."""
        there: list[asyncio.Future[None]] = []
        for group, place, offset in moved:
            arrival: asyncio.Future[None] = self._loop.create_future()
            there.append(arrival)
            self._coordinator.undertaker.when_arrived(group, place, offset, partial(_resolve, arrival))
        await asyncio.wait(there, timeout=_ARRIVAL_SECONDS)

    # --- polls ---

    async def poll(self, name: str, member: str, generation: int | None, wish: PollWish, wait: float) -> Handed:
        """What there is for a member; when there is nothing, whatever comes within `wait` seconds."""
        coordinator, until = self._coordinator, self._loop.time() + wait
        _, presence = coordinator.membership.check(name, member, generation)
        presence.polls += 1
        has_waited = False
        try:
            while True:
                more: asyncio.Future[None] = self._loop.create_future()
                forgets = self._watch(name, member, presence, more)
                try:
                    handed: Handed = await self._shell.perform(coordinator.polls.poll(name, member, generation, wish))
                    left = until - self._loop.time()
                    if handed.portions or handed.is_urgent or left <= 0 or self._shell.is_stopping:
                        return handed
                    has_waited = True
                    await self._first(more, left)
                except GenerationStale:
                    if not has_waited:
                        raise
                    return Handed(coordinator.membership.group(name), [], is_news=True)  # lost while it waited
                finally:
                    for forget in forgets:
                        forget()
        finally:
            presence.polls -= 1
            presence.seen_ns = coordinator.clock.now_ns()

    def _watch(
        self, name: str, member: str, presence: Presence, more: "asyncio.Future[None]"
    ) -> list[Callable[[], object]]:
        """Have it done when there may be something new; returns how nobody watches any more."""

        def wake() -> None:
            if not more.done():
                more.set_result(None)

        presence.waiting[wake] = None
        watched = self._coordinator.partitions_of(name, member)
        return [lambda: presence.waiting.pop(wake, None), *(partition.watch(wake) for partition in watched)]

    async def _first(self, more: "asyncio.Future[None]", seconds: float) -> None:
        timer = self._loop.call_later(seconds, _resolve, more)
        try:
            await more
        finally:
            timer.cancel()


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
