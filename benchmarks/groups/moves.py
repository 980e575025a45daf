"""A group whose last member comes and goes, seen by its members: how long until each of them knows what it has, and
how long those who keep their partitions go without a message.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from benchmarks.groups.member import Member, Talk, asked, together
from goqueue.clock import NANOSECONDS
from goqueue.quantities import parse_time
from goqueue.wire.leases import LeaseDescription

GROUP = "moving"
VISITOR_SESSION = "1s"
"""Of the member that comes and goes: the shortest that there is, so that its end is noticed soon."""
PAUSE_SECONDS = 0.1
"""Before each change: all members wait in their polls again."""
STAY_SECONDS = 0.25
WARM_SECONDS = 1.0
ROUND_SECONDS_MAX = 30
Taken = Callable[[Member, Sequence[LeaseDescription]], None]


class Assembly:
    """All members at their work, and when each partition is known by one of them to be its own."""

    def __init__(self, port: int, topic: str, partitions: int, taken: Taken) -> None:
        self._port = port
        self._topic = topic
        self._partitions = partitions
        self._taken = taken
        self._control: Talk | None = None
        self._tasks: dict[Member, asyncio.Task[None]] = {}
        self._settled: asyncio.Future[tuple[float, int]] = asyncio.get_running_loop().create_future()
        self.on_told: Callable[[Member], None] = lambda _: None

    async def begin(self, count: int) -> None:
        self._control = await Talk.open(self._port)
        for member in await together(self._port, GROUP, self._topic, count, self._partitions):
            self._set_to_work(member)

    def _set_to_work(self, member: Member) -> None:
        member.on_told = lambda: self._told(member)
        task = self._tasks[member] = asyncio.create_task(self._work(member))
        task.add_done_callback(self._ended)

    async def _work(self, member: Member) -> None:
        if not member.id:
            await member.join("visitor", session=VISITOR_SESSION)
        while True:
            leases = await member.poll()
            if leases:
                self._taken(member, leases)
                await member.ack(leases)
            if member.is_asked:
                await member.look()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self._settled.done():
            self._settled.set_exception(error)

    def _told(self, member: Member) -> None:
        self.on_told(member)
        shares = [one.partitions for one in self._tasks]
        fair = self._partitions // len(shares)
        is_complete = sum(map(len, shares)) == len(set().union(*shares)) == self._partitions
        if is_complete and min(map(len, shares)) >= fair and not self._settled.done():
            self._settled.set_result((time.perf_counter(), time.time_ns()))

    async def _all_told(self) -> tuple[float, int]:
        """When all members knew, by the clock that measures and by that of the wall."""
        async with asyncio.timeout(ROUND_SECONDS_MAX):
            return await self._settled

    async def pause(self, seconds: float = PAUSE_SECONDS) -> None:
        """Let them work; afterwards the next change is waited for."""
        await asyncio.sleep(seconds)
        if self._settled.done():
            self._settled.result()
        self._settled = asyncio.get_running_loop().create_future()

    # --- changes, and the seconds until all members knew ---

    async def join(self) -> tuple[Member, float]:
        visitor = Member(await Talk.open(self._port), GROUP, self._topic)
        begin = time.perf_counter()
        self._set_to_work(visitor)
        known, _ = await self._all_told()
        return visitor, known - begin

    async def leave(self, visitor: Member) -> float:
        assert self._control is not None, "it has begun"
        await self._vanish(visitor)
        visitor.talk = self._control
        begin = time.perf_counter()
        await visitor.leave()
        known, _ = await self._all_told()
        return known - begin

    async def crash(self, visitor: Member) -> float:
        """From the moment when the broker saw that its session had ended."""
        await self._vanish(visitor)
        _, known_ns = await self._all_told()
        stats = await asked(self._port, f"/groups/{GROUP}/rebalance/stats")
        assert stats["rebalances_by_reason"].get("session_expired"), "it was missed, and did not leave"
        recorded_ns = parse_time(stats["last_rebalance_at"])
        recorded = float(stats["last_rebalance_duration_ms"]) / 1000
        return recorded + (known_ns - recorded_ns) / NANOSECONDS

    async def _vanish(self, visitor: Member) -> None:
        task = self._tasks.pop(visitor)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        visitor.close()

    async def end(self) -> None:
        for member in list(self._tasks):
            await self._vanish(member)
        if self._control is not None:
            self._control.close()


async def rounds(port: int, topic: str, partitions: int, members: int, count: int) -> dict[str, list[float]]:
    """The seconds that each join, leave and crash took until all members knew."""
    found: dict[str, list[float]] = {"join": [], "leave": [], "crash": []}
    assembly = Assembly(port, topic, partitions, lambda _member, _leases: None)
    try:
        await assembly.begin(members - 1)
        for _ in range(count):
            for end, change in (("leave", assembly.leave), ("crash", assembly.crash)):
                await assembly.pause()
                visitor, seconds = await assembly.join()
                found["join"].append(seconds)
                await assembly.pause()
                found[end].append(await change(visitor))
    finally:
        await assembly.end()
    return found


class Deliveries:
    """The times between two deliveries of a partition."""

    def __init__(self) -> None:
        self.kept: list[float] = []
        """To the same member, which had it all the time."""
        self.moved: list[float] = []
        """To one member, and then to another."""
        self.messages = 0
        self._last: dict[int, tuple[Member | None, float]] = {}

    def take(self, member: Member, leases: Iterable[LeaseDescription]) -> None:
        now = time.perf_counter()
        for lease in leases:
            self.messages += lease.end - lease.first
        for partition in {lease.partition for lease in leases}:
            before, at = self._last.get(partition, (member, now))
            (self.kept if before is member else self.moved).append(now - at)
            self._last[partition] = (member, now)

    def told(self, member: Member) -> None:
        """Take over the current assignment; earlier partitions are not its own, even if they return."""
        for partition, (owner, at) in self._last.items():
            if owner is member and partition not in member.partitions:
                self._last[partition] = (None, at)

    def found(self, seconds: float) -> dict[str, float]:
        found = {"longest": max(self.kept), "most": _within(self.kept), "rate": self.messages / seconds}
        if self.moved:
            found["moved"] = max(self.moved)
        self.kept, self.moved, self.messages = [], [], 0
        return found


def _within(gaps: Sequence[float]) -> float:
    return statistics.quantiles(gaps, n=1000)[-1]


async def gaps(port: int, topic: str, partitions: int, members: int, seconds: int) -> dict[str, dict[str, float]]:
    """Deliveries without members that come and go, and with them."""
    deliveries = Deliveries()
    assembly = Assembly(port, topic, partitions, deliveries.take)
    assembly.on_told = deliveries.told
    try:
        await assembly.begin(members - 1)
        await assembly.pause()
        visitor, _ = await assembly.join()
        await assembly.pause(WARM_SECONDS)
        deliveries.found(WARM_SECONDS)
        await assembly.pause(seconds)
        without = deliveries.found(seconds)
        times, begin = [], time.perf_counter()
        while time.perf_counter() - begin < seconds:
            times.append(await assembly.leave(visitor))
            await assembly.pause(STAY_SECONDS)
            visitor, joined = await assembly.join()
            times.append(joined)
            await assembly.pause(STAY_SECONDS)
        during = deliveries.found(time.perf_counter() - begin)
    finally:
        await assembly.end()
    return {"without": without, "with": during | {"rebalances": len(times), "slowest": max(times)}}
