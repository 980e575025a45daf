"""Filtered reads take turns with other work, wait for messages, and end with their caller."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import TopicSpec
from goqueue.broker.core.view import PartitionView
from goqueue.broker.filters.filter_batch import FilterBatch, FrameNumber
from goqueue.broker.filters.filter_set import FilterSet
from goqueue.broker.filters.grammar import parse_filters
from goqueue.broker.filters.search import Search, SearchOptions
from goqueue.broker.operations.records import Author
from goqueue.limits import FILTER_PAUSE_SECONDS, FILTER_PIECE_BYTES, FILTER_SCAN_SECONDS, MIB
from goqueue.observe.metrics import Metrics
from goqueue.runtime.runtime import Runtime
from goqueue.storage import frame
from goqueue.storage.store import StoreSettings
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk

MANY = 20  # searches: more than a runtime has threads


class Watched(FilterSet):
    """Matches urgent messages, and calls back each time that it is asked."""

    def __init__(self, asked: Callable[[], object]) -> None:
        super().__init__(parse_filters(["value=urgent"]))
        self._asked = asked

    def sift(self, batch: FilterBatch) -> list[FrameNumber]:
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
        options = SearchOptions(sieve=Watched(asked), max_bytes=MIB)
        search = Search(self.partition, offset, options, self.clock)
        return asyncio.get_running_loop().create_task(self.runtime.reader.search(search, wait=wait))


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


def test_long_searches_do_not_block_other_reads() -> None:
    async def story(scene: Scene) -> None:
        await scene.publish(b"calm")
        may_go_on = threading.Event()
        searches = [scene.search(may_go_on.wait) for _ in range(MANY)]
        try:
            read = await scene.runtime.reader.read(PartitionView(scene.partition), 0, MIB)
        finally:
            may_go_on.set()
        assert read.next_offset == 1
        assert [search.scanned for search in await asyncio.gather(*searches)] == [1] * MANY

    play(story)


def test_cancelled_search_ends() -> None:
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


def test_waiting_search_continues_after_its_time_slice() -> None:
    """Others may have their turns in between, and a look has an end: neither ends a waiting read."""

    async def story(scene: Scene) -> None:
        for _ in range(4):
            await scene.publish(bytes(FILTER_PIECE_BYTES))
        search = scene.search(lambda: scene.clock.advance(2 * FILTER_SCAN_SECONDS), wait=30)
        await scene.publish(b"urgent")
        assert ((await search).matched, (await search).next_offset) == (1, 5)
        at_once = await scene.search(lambda: scene.clock.advance(2 * FILTER_SCAN_SECONDS))
        assert (at_once.matched, at_once.next_offset) == (0, 1)

    play(story)


def test_waiting_search_scans_new_messages_in_batches() -> None:
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
        assert looks <= took / FILTER_PAUSE_SECONDS + 3

    play(story)


def test_waiting_search_reports_topic_deletion() -> None:
    async def story(scene: Scene) -> None:
        await scene.publish(b"calm")
        looked = threading.Event()
        search = scene.search(looked.set, wait=30)
        await asyncio.to_thread(looked.wait)
        await scene.runtime.delete_topic(Author("", ""), "orders")
        found = await search
        assert (found.scanned, found.next_offset, found.is_refused) == (1, 1, True)

    play(story)
