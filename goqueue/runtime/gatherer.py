"""Gathers what the doctor is told of the running broker.

It runs on the loop's thread, in slices between which everybody else is served; files are asked on other threads. So
what it tells is of one moment for each part and not for all of it.
"""

import asyncio
import os
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from goqueue.broker.broker import CATALOG, GROUPS, TRANSACTIONS
from goqueue.broker.closed_log import ClosedLog
from goqueue.broker.delay.delays import Delays
from goqueue.broker.delay.queries import standing
from goqueue.broker.delivery.letters import redrive_cursor
from goqueue.broker.delivery.rules import DEAD_LETTER_SUFFIX
from goqueue.broker.name import is_internal
from goqueue.broker.partition import Partition
from goqueue.broker.topic import Topic
from goqueue.broker.work import Job, Work
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import HTTP_CONNECTIONS
from goqueue.observe.facts import (
    ClockDoubt,
    CutEnd,
    DamagedRange,
    DeadLetterFacts,
    DelayedFacts,
    DiskFacts,
    Facts,
    HealedLog,
    ProcessFacts,
    RecordLoss,
    Role,
    ShutLog,
    StartFacts,
)
from goqueue.observe.history import History
from goqueue.runtime.group_facts import group_facts
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.slices import Slices
from goqueue.runtime.speeds import Speeds, speeds
from goqueue.runtime.transaction_facts import transaction_facts
from goqueue.storage.survey import Damage

_DESCRIPTORS = "/proc/self/fd"
_ROLES: Mapping[str, Role] = {CATALOG: "topics", GROUPS: "groups", TRANSACTIONS: "transactions"}


class Gatherer:
    """Asked by many at once it gathers once for all of them, though never before they have asked."""

    def __init__(
        self,
        runtime: Runtime,
        history: History,
        *,
        connections_max: int = HTTP_CONNECTIONS,
        connections_wanted: int = HTTP_CONNECTIONS,
    ) -> None:
        self._runtime = runtime
        self._history = history
        self._connections_max = connections_max
        self._connections_wanted = connections_wanted
        self._lock = asyncio.Lock()
        self._begun = 0
        self._facts: tuple[int, Facts] | None = None
        """And the number of the gathering that they come from."""

    async def facts(self) -> Facts:
        """Of a moment after this."""
        begun = self._begun  # a loop's own time is one of milliseconds, in which much may happen
        async with self._lock:
            if self._facts is None or self._facts[0] <= begun:
                self._begun += 1
                self._facts = (self._begun, await self._gather())
            return self._facts[1]

    async def _gather(self) -> Facts:
        runtime, slices = self._runtime, Slices()
        lately = speeds(self._history)
        disk = await self._perform(partial(self._disk_facts, lately.disk_growth))
        open_files = await self._perform(_open_files)
        logs, late = _Logs(runtime), list[DelayedFacts]()
        for topic, partition in runtime.broker.partitions():
            await slices.rest()
            logs.look(topic, partition)
            if (delays := runtime.broker.office.delays(partition)) is not None:
                logs.look(topic, delays.inbox)
                late += await self._late(delays)
        return Facts(
            uptime_seconds=(runtime.clock.monotonic_ns() - runtime.began_ns) / NANOSECONDS,
            partitions=logs.count,
            disk=disk,
            process=self._process(lately, open_files, logs.newest_ns),
            refused=tuple(runtime.store.refused),
            refusal=runtime.store.refusal,
            shut=tuple(logs.shut),
            damages=tuple(_damages(runtime)),
            start=_start(runtime),
            clock_doubt=_clock_doubt(runtime),
            groups=await group_facts(runtime, slices),
            dead_letters=tuple(DeadLetterFacts(topic=name, messages=count) for name, count in logs.letters.items()),
            delayed=tuple(late),
            transactions_open=len(runtime.broker.transactions.register.opened),
            transactions=await transaction_facts(runtime.broker, slices),
        )

    async def _perform(self, job: Callable[[], Any]) -> Any:
        """On a thread that may wait for the disk."""
        return await self._runtime.perform(_alone(job))

    def _disk_facts(self, growth: float) -> DiskFacts | None:
        path = self._runtime.store.path
        with suppress(GoQueueError):
            space = self._runtime.disk.space(path)
            return DiskFacts(path=path, total_bytes=space.total_bytes, free_bytes=space.free_bytes, growth=growth)
        return None

    def _process(self, lately: Speeds, open_files: int | None, newest_ns: int) -> ProcessFacts:
        runtime = self._runtime
        behind = (newest_ns - runtime.clock.now_ns()) / NANOSECONDS
        return ProcessFacts(
            loop_seconds=lately.loop_seconds,
            stall_seconds=runtime.stall_watch.longest_seconds,
            flush_seconds=lately.flush_seconds,
            sync_failures=runtime.store.failures,
            in_flight_bytes=runtime.in_flight_bytes,
            in_flight_bytes_max=runtime.settings.in_flight_bytes,
            open_files=open_files,
            open_files_max=open_files_max(),
            connections=runtime.metrics.connections_open,
            connections_max=self._connections_max,
            connections_wanted=self._connections_wanted,
            clock_behind_seconds=max(0.0, behind),
        )

    async def _late(self, delays: Delays) -> list[DelayedFacts]:
        now_ns, place = delays.clock.now_ns(), delays.partition
        found = await self._runtime.perform(standing([delays], now_ns))
        if found.next_due_ns is None or not found.overdue:
            return []
        seconds = (now_ns - found.next_due_ns) / NANOSECONDS
        return [DelayedFacts(topic=place.topic, partition=place.number, messages=found.overdue, seconds=seconds)]

    def __repr__(self) -> str:
        return f"<Gatherer of {self._runtime!r}>"


def _alone(job: Job) -> Work[Any]:
    return (yield job)


def _open_files() -> int | None:
    """None where the system does not say."""
    with suppress(OSError):
        return len(os.listdir(_DESCRIPTORS)) - 1  # one is the list's own
    return None


def open_files_max() -> int | None:
    """How many files and connections the process may have open; None for no limit."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if most == resource.RLIM_INFINITY else most


class _Logs:
    """What is seen of one partition after the other."""

    def __init__(self, runtime: Runtime) -> None:
        self.count = 0
        self.newest_ns = 0
        self.shut: list[ShutLog] = []
        self.letters: dict[str, int] = {}
        """Dead letters by their topic."""
        self._ledger = runtime.broker.coordinator.ledger

    def look(self, topic: Topic, partition: Partition) -> None:
        log = partition.log
        if log.is_closed:  # deleted since
            return
        self.count += 1
        self.newest_ns = max(self.newest_ns, log.last_time)
        if log.fence is not None:
            self.shut.append(
                ShutLog(
                    log=log.name,
                    reason=log.fence.sentence,
                    hint=log.fence.hint,
                    is_open=not isinstance(log, ClosedLog),
                    role=_ROLES.get(topic.name, "topic"),
                )
            )
        is_letters = topic.name.endswith(DEAD_LETTER_SUFFIX) and not is_internal(topic.name)
        if is_letters and not partition.is_delayed:
            self.letters[topic.name] = self.letters.get(topic.name, 0) + self._letters_in(topic, partition)

    def _letters_in(self, topic: Topic, partition: Partition) -> int:
        """That lie there and are not on their way back."""
        first, end = partition.earliest, partition.last_stable
        cursor = redrive_cursor(self._ledger, topic, partition.number)
        hidden = partition.aborted.roughly(first if cursor is None else max(first, cursor.position), end)
        if cursor is None:
            return max(0, end - first - hidden)
        first = max(first, cursor.floor)
        gone = sum(behind - start for start, behind, _ in cursor.acked.within(first, end))
        moving = sum(stop - start for start, stop, _ in cursor.moving.within(first, end))
        return max(0, end - first - gone - moving - hidden)


def _damages(runtime: Runtime) -> Iterator[DamagedRange]:
    """What the start came upon and what readers have since, unless it was removed meanwhile."""
    store, told = runtime.store, set[tuple[str, int]]()
    root = f"{store.path}/logs/"
    known: list[tuple[str, str, Damage]] = [
        (name, found.segments[-1].path, damage) for name, found in store.recovered.items() for damage in found.damages
    ]
    known += [
        (segment.directory.removeprefix(root), segment.path, damage)
        for segment, damage in store.resources.readers.damages()
    ]
    for name, path, damage in known:
        log = store.logs.get(name)
        if log is None or damage.next_offset <= log.first_offset or (name, damage.first_offset) in told:
            continue
        told.add((name, damage.first_offset))
        yield DamagedRange(
            log=name,
            path=path,
            position=damage.position,
            end=damage.end,
            first_offset=damage.first_offset,
            next_offset=damage.next_offset,
            reason=damage.reason,
        )


def _clock_doubt(runtime: Runtime) -> ClockDoubt | None:
    clock = runtime.broker.retention
    if not clock.ahead_ns:
        return None
    return ClockDoubt(
        ahead_seconds=clock.ahead_ns / NANOSECONDS,
        seconds_left=clock.seconds_left,
        percent=clock.percent,
        held_back=tuple(clock.held_back()),
    )


def _start(runtime: Runtime) -> StartFacts:
    found = runtime.store.recovered
    cuts = (
        CutEnd(log=name, size=one.cut.end - one.cut.position, kept_in=one.cut.kept_in)
        for name, one in found.items()
        if one.cut is not None
    )
    return StartFacts(
        surveyed=sum(not one.was_clean for one in found.values()),
        cuts=tuple(cuts),
        unclaimed=tuple(runtime.broker.unclaimed),
        healed=tuple(
            HealedLog(log=name, ranges=len(one.healed), size=sum(each.end - each.position for each in one.healed))
            for name, one in found.items()
            if one.healed
        ),
        lost=tuple(
            RecordLoss(log=one.log, count=one.count, names=one.names, role=_ROLES[one.log.partition("/")[0]])
            for one in runtime.broker.lost_records()
        ),
    )
