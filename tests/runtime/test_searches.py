"""Reads with filters beside everything else: they take turns, wait well, and end with whoever asked."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from goqueue.broker.filters.batch import Batch, Place
from goqueue.broker.filters.grammar import parse_filters
from goqueue.broker.filters.search import Search, Wish
from goqueue.broker.filters.sieve import Sieve
from goqueue.broker.partition import Partition
from goqueue.broker.topic import TopicSpec
from goqueue.broker.view import View
from goqueue.limits import FILTER_PIECE_BYTES, FILTER_REST_SECONDS, FILTER_SCAN_SECONDS, MIB
from goqueue.observe.metrics import Metrics
from goqueue.runtime.runtime import Runtime
from goqueue.storage import frame
from goqueue.storage.store import StoreSettings
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk

MANY = 20  # searches: more than a runtime has threads


class Watched(Sieve):
    """Lets through what is urgent, and calls somebody each time that it is asked."""

    def __init__(self, asked: Callable[[], object]) -> None:
        super().__init__(parse_filters(["value=urgent"]))
        self._asked = asked

    def sift(self, batch: Batch) -> list[Place]:
        self._asked()
        return super().sift(batch)


class Scene:
    """A runtime with a topic whose newest messages are not in memory."""

    def __init__(self, runtime: Runtime, partition: Partition, clock: ManualClock) -> None:
        self.runtime = runtime
        self.partition = partition
        self.clock = clock

    async def publish(self, *values: bytes) -> None:
        content = bytearray(b"".join(frame.encode(value) for value in values))
        await (await self.runtime.publish(self.partition, content, MIB))

    def search(self, asked: Callable[[], object], offset: int = 0, *, wait: float = 0) -> "asyncio.Task[Search]":
        wish = Wish(sieve=Watched(asked), max_bytes=MIB)
        search = Search(self.partition, offset, wish, self.clock)
        return asyncio.get_running_loop().create_task(self.runtime.search(search, wait=wait))


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    clock = ManualClock()
    runtime = Runtime(FaultyDisk(), clock, Metrics("1"))
    runtime.start("/data", "a test", StoreSettings(tail_bytes=1))
    try:
        topic = await runtime.create_topic(TopicSpec(name="orders", partitions=1))
        yield Scene(runtime, topic.partition(0), clock)
    finally:
        await runtime.stop()


def play(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with scene() as found, asyncio.timeout(60):
            await story(found)

    asyncio.run(main())


def test_searches_that_take_long_do_not_keep_other_reads_waiting() -> None:
    async def story(scene: Scene) -> None:
        await scene.publish(b"calm")
        may_go_on = threading.Event()
        searches = [scene.search(may_go_on.wait) for _ in range(MANY)]
        try:
            read = await scene.runtime.read(View(scene.partition), 0, MIB)
        finally:
            may_go_on.set()
        assert read.next_offset == 1
        assert [search.scanned for search in await asyncio.gather(*searches)] == [1] * MANY

    play(story)


def test_a_search_ends_with_whoever_asked_for_it() -> None:
    async def story(scene: Scene) -> None:
        for _ in range(4):
            await scene.publish(bytes(FILTER_PIECE_BYTES))
        began, may_go_on = threading.Event(), threading.Event()
        looks = 0

        def asked() -> None:
            nonlocal looks
            looks += 1
            began.set()
            may_go_on.wait()

        search = scene.search(asked)
        await asyncio.to_thread(began.wait)
        search.cancel()
        await asyncio.wait([search])
        may_go_on.set()
        assert search.cancelled()
        later = await scene.search(lambda: None)  # its turn comes when the other one is gone
        assert (looks, later.scanned) == (1, 4)

    play(story)


def test_who_waits_goes_on_although_a_look_takes_long() -> None:
    """Others may have their turns in between, and a look has an end: neither is a reason to send anybody home."""

    async def story(scene: Scene) -> None:
        for _ in range(4):
            await scene.publish(bytes(FILTER_PIECE_BYTES))
        search = scene.search(lambda: scene.clock.advance(2 * FILTER_SCAN_SECONDS), wait=30)
        await scene.publish(b"urgent")
        assert ((await search).matched, (await search).next_offset) == (1, 5)
        at_once = await scene.search(lambda: scene.clock.advance(2 * FILTER_SCAN_SECONDS))
        assert (at_once.matched, at_once.next_offset) == (0, 1)

    play(story)


def test_what_does_not_fit_is_looked_at_together_by_who_waits() -> None:
    async def story(scene: Scene) -> None:
        looks = 0

        def asked() -> None:
            nonlocal looks
            looks += 1

        loop = asyncio.get_running_loop()
        search, began = scene.search(asked, wait=30), loop.time()
        for _ in range(300):
            await scene.publish(b"calm")
        took = loop.time() - began
        await scene.publish(b"urgent")
        assert (await search).scanned == 301
        assert looks <= took / FILTER_REST_SECONDS + 3

    play(story)


def test_who_waits_hears_of_a_refusal_behind_what_was_looked_at() -> None:
    async def story(scene: Scene) -> None:
        await scene.publish(b"calm")
        looked = threading.Event()
        search = scene.search(looked.set, wait=30)
        await asyncio.to_thread(looked.wait)
        await scene.runtime.delete_topic("orders")
        found = await search
        assert (found.scanned, found.next_offset, found.is_refused) == (1, 1, True)

    play(story)
