"""Runs consumer groups on the event loop: waiting polls, deadlines, and moves to the dead-letter queue."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.coordinator import GroupCoordinator
from goqueue.broker.groups.poll import PollOptions, PollResult
from goqueue.broker.groups.sessions import MemberSession
from goqueue.broker.groups.shards import GroupShards
from goqueue.clock import NANOSECONDS
from goqueue.errors import BrokerStopping, GenerationStale
from goqueue.observe.histogram import Histogram
from goqueue.runtime.deferred import Deferred
from goqueue.runtime.runner import Runner, ShardRunners, Shell, completed_within, resolve

_log = logging.getLogger("goqueue.groups")

_MOVE_RETRY_SECONDS = 1.0
_ARRIVAL_SECONDS = 20.0  # an answer waits for moves to finish; they go on after that


class GroupShardRunner(Runner):
    """Runs the group coordinator of one shard: its commits, deadlines, and moves to the dead-letter queue."""

    def __init__(self, coordinator: GroupCoordinator, shell: Shell) -> None:
        super().__init__(shell)
        self._coordinator = coordinator
        self._moves_queued = asyncio.Event()

    def start(self) -> None:
        coordinator = self._coordinator
        coordinator.store.on_gathered.subscribe(lambda: self._loop.call_soon(coordinator.commit))
        coordinator.dead_letter_mover.on_move_queued.subscribe(self._moves_queued.set)
        if not coordinator.dead_letter_mover.is_idle:
            self._moves_queued.set()
        self._run(self._move_dead_letters())
        self._watch(coordinator.deadlines, coordinator.clock)

    async def stop(self) -> None:
        """Finish the moves to the dead-letter queue; nothing is decided after that."""
        self._moves_queued.set()
        await super().stop()
        self._coordinator.commit()

    async def _move_dead_letters(self) -> None:
        while True:
            await self._moves_queued.wait()
            self._moves_queued.clear()
            try:
                await self._shell.perform(self._coordinator.dead_letter_mover.move_all())
            except Exception:
                _log.exception("some messages could not be moved to the dead-letter queue; the next start retries")
                self._loop.call_later(_MOVE_RETRY_SECONDS, self._moves_queued.set)  # other moves may be queued
            if self._is_stopping:
                return


class GroupRunner:
    """Runs groups: their shards, and waiting polls."""

    def __init__(self, groups: GroupShards, shell: Shell, fetch_seconds: Histogram) -> None:
        self._groups = groups
        self._shell = shell
        self._fetch_seconds = fetch_seconds
        self._loop = asyncio.get_running_loop()
        self._runners = ShardRunners(groups, lambda coordinator: GroupShardRunner(coordinator, shell))

    def start(self) -> None:
        self._runners.start()

    async def stop(self) -> None:
        await self._runners.stop()

    def wake_all(self) -> None:
        """Answer all waiting polls with what there is, and refuse joins that wait for other members."""
        stopping = BrokerStopping("the broker is stopping", hint="try again after the restart", retry_after=1)
        for coordinator in self._groups:
            for group in coordinator.store.groups():
                group_session = coordinator.rebalancer.group_session(group.group)
                group_session.wake()
                waiting, group_session.waiting_for_rejoin = group_session.waiting_for_rejoin, []
                for _, callback in waiting:
                    callback(stopping)

    # --- dead letters ---

    async def arrived(self, moved: list[tuple[str, PartitionRef, int]]) -> None:
        """Wait, within a limit, until these messages have been moved."""
        there: list[asyncio.Future[None]] = []
        for group, place, offset in moved:
            arrival: asyncio.Future[None] = self._loop.create_future()
            there.append(arrival)
            mover = self._groups.of(group).dead_letter_mover
            mover.call_when_moved(group, place, offset, partial(resolve, arrival, None))
        await asyncio.wait(there, timeout=_ARRIVAL_SECONDS)

    # --- polls ---

    async def poll(
        self, name: str, member: str, generation: int | None, options: PollOptions, wait: float
    ) -> PollResult:
        """Poll for a member; if there is nothing, wait up to `wait` seconds."""
        coordinator, until = self._groups.of(name), self._loop.time() + wait
        _, presence = coordinator.membership.check(name, member, generation)
        presence.polls += 1
        has_waited = False
        try:
            while True:
                more: Deferred[None] = Deferred()
                forgets = _watch_messages(coordinator, name, member, presence, more)
                try:
                    began_ns = coordinator.clock.monotonic_ns()
                    handed: PollResult = await self._shell.perform(
                        coordinator.polling.poll(name, member, generation, options.allowed())
                    )
                    if handed.batches:
                        self._fetch_seconds.observe((coordinator.clock.monotonic_ns() - began_ns) / NANOSECONDS)
                    left = until - self._loop.time()
                    if handed.batches or handed.is_alert or left <= 0 or self._shell.is_stopping:
                        return handed
                    has_waited = True
                    await completed_within(more, left)
                except GenerationStale:
                    if not has_waited:
                        raise
                    # the generation ended while it waited
                    return PollResult(coordinator.membership.group(name), [], is_changed=True)
                finally:
                    for forget in forgets:
                        forget()
        finally:
            presence.polls -= 1
            presence.seen_ns = coordinator.clock.now_ns()


def _watch_messages(
    coordinator: GroupCoordinator, name: str, member: str, presence: MemberSession, more: Deferred[None]
) -> list[Callable[[], object]]:
    """Complete `more` when there may be messages or news; return functions that stop watching."""
    wake = partial(more.resolve, None)
    presence.waiting[wake] = None
    watched = coordinator.partitions_of(name, member)
    return [lambda: presence.waiting.pop(wake, None), *(partition.watch(wake) for partition in watched)]
