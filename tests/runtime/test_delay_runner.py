"""Delayed messages on an event loop: they come by themselves, whatever happens to the clock and the disk."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from goqueue import delay
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import TopicSpec
from goqueue.broker.core.view import PartitionView
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.delay.cleanup import clean_delayed_log
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.clock import NANOSECONDS, Clock, SystemClock
from goqueue.limits import MIB
from goqueue.observe.metrics import Metrics
from goqueue.runtime.metrics_scraper import collect_overdue_seconds
from goqueue.runtime.runtime import Runtime
from goqueue.storage import frame
from goqueue.storage.flusher import FlushMode
from goqueue.storage.store import StoreSettings
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import values


class WallClock(SystemClock):
    """The machine's clock, which is set now and then."""

    def __init__(self) -> None:
        self._ahead_ns = 0

    def now_ns(self) -> int:
        return super().now_ns() + self._ahead_ns

    def jump(self, seconds: float) -> None:
        self._ahead_ns += round(seconds * NANOSECONDS)


class Scene:
    """A runtime, the only partition of its only topic, and what was scheduled there."""

    def __init__(self, runtime: Runtime, partition: Partition, disk: FaultyDisk) -> None:
        self.runtime = runtime
        self.partition = partition
        self.disk = disk

    @property
    def delays(self) -> DelayedMessages:
        return self.runtime.broker.scheduling(self.partition).delays

    async def schedule(self, value: bytes, seconds: float) -> None:
        due_ns = self.runtime.clock.now_ns() + round(seconds * NANOSECONDS)
        content = frame.encode(value, None, frame.encode_headers([delay.deliver_at_header(due_ns)]))
        await (await self.runtime.publish(self.delays.delayed_log, bytearray(content), MIB))

    async def arrived(self, count: int) -> list[bytes]:
        """As soon as so many are there."""
        while self.partition.high_watermark < count:
            await self.runtime.reader.read(PartitionView(self.partition), self.partition.high_watermark, 1, wait=30)
        return values(self.partition)

    async def told(self) -> None:
        """As soon as it is recorded that they are there."""
        while self.delays.delivering:
            await self.runtime.perform(_kept(self.delays.settled()))


def _kept(promise: Promise[None]) -> Work[None]:
    yield promise


@asynccontextmanager
async def scene(clock: Clock, disk: FaultyDisk, flush: FlushMode) -> AsyncIterator[Scene]:
    runtime = Runtime(disk, clock, Metrics("1"))
    runtime.start("/data", "a test", StoreSettings(flush=flush))
    try:
        if "orders" not in runtime.broker.topics:
            await runtime.create_topic(TopicSpec(name="orders", partitions=1))
        yield Scene(runtime, runtime.broker.topics["orders"].partition(0), disk)
    finally:
        await runtime.stop()


def play(
    story: Callable[[Scene], Coroutine[Any, Any, None]],
    clock: Clock | None = None,
    disk: FaultyDisk | None = None,
    flush: FlushMode = "always",
) -> None:
    async def main() -> None:
        async with scene(clock or SystemClock(), disk or FaultyDisk(), flush) as found, asyncio.timeout(60):
            await story(found)

    asyncio.run(main())


def test_runner_delivers_due_messages_in_order() -> None:
    async def story(scene: Scene) -> None:
        await scene.schedule(b"second", 0.2)
        await scene.schedule(b"first", 0.1)
        assert await scene.arrived(2) == [b"first", b"second"]
        await scene.told()
        assert scene.runtime.metrics.delayed_late_seconds.count == 2

    play(story)


def test_deliveries_are_synced_in_interval_mode() -> None:
    async def story(scene: Scene) -> None:
        await scene.schedule(b"a", 0.05)
        assert await scene.arrived(1) == [b"a"]
        await scene.told()
        assert (scene.partition.durable_end, scene.delays.schedule.pending) == (1, 0)

    play(story, flush="interval")


def test_runner_notices_a_clock_set_forward() -> None:
    clock = WallClock()

    async def story(scene: Scene) -> None:
        await scene.schedule(b"a", 3600)
        clock.jump(3601)
        assert await scene.arrived(1) == [b"a"]

    play(story, clock)


def test_runner_delivers_on_time_after_clock_is_set_back() -> None:
    clock = WallClock()

    async def story(scene: Scene) -> None:
        await scene.schedule(b"first", 5)
        clock.jump(-3600)
        await scene.schedule(b"second", 10)
        clock.jump(11)
        assert await scene.arrived(1) == [b"second"]
        clock.jump(3600)
        assert await scene.arrived(2) == [b"second", b"first"]

    play(story, clock)


def test_runner_retries_a_refused_delivery() -> None:
    async def story(scene: Scene) -> None:
        await scene.schedule(b"a", 0.3)
        scene.disk.fail("write", errno.ENOSPC, times=1)
        assert await scene.arrived(1) == [b"a"]

    play(story)


def test_message_that_cannot_be_delivered_is_overdue() -> None:
    clock = WallClock()

    async def story(scene: Scene) -> None:
        await scene.schedule(b"a", 5)
        assert await collect_overdue_seconds(scene.runtime) == 0
        scene.disk.fail("write", errno.ENOSPC, times="forever")
        clock.jump(100)
        assert 90 < await collect_overdue_seconds(scene.runtime) < 200
        scene.disk.end_faults()
        await scene.arrived(1)
        await scene.told()
        assert await collect_overdue_seconds(scene.runtime) == 0

    play(story, clock)


def test_message_due_during_downtime_is_delivered_at_start() -> None:
    clock, disk = WallClock(), FaultyDisk()

    async def before(scene: Scene) -> None:
        await scene.schedule(b"a", 5)

    async def after(scene: Scene) -> None:
        assert await scene.arrived(1) == [b"a"]

    play(before, clock, disk)
    clock.jump(100)
    play(after, clock, disk.crash("everything"))


def test_delayed_log_is_cleaned_before_any_delivery() -> None:
    """Waiting for the device lets other tasks run, the one that reports it first."""

    async def story(scene: Scene) -> None:
        for number in range(3):
            await scene.schedule(b"%d" % number, 3600)
            await scene.runtime.perform(scene.delays.cancel(2 * number))
        await scene.schedule(b"kept", 3600)
        await scene.runtime.perform(scene.delays.reschedule(6, scene.runtime.clock.now_ns() + 7200 * NANOSECONDS))
        durable: Promise[None] = Promise()
        scene.delays.delayed_log.log.roll(durable)
        await scene.runtime.perform(_kept(durable))
        await scene.runtime.perform(clean_delayed_log(scene.delays, scene.disk))
        assert scene.delays.schedule.pending == 1

    play(story, flush="interval")
