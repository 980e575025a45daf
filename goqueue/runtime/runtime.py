"""The broker on an event loop: the rules are asked here, and here their answers are waited for.

The loop's thread owns the store. The flusher and the readers of cold segments have threads of their own, and hand
what they did back to the loop. Everything that has been accepted and is not yet durable is counted, and
beyond a bound nothing more is accepted.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from goqueue.broker.admission import admit, header_bytes, understand
from goqueue.broker.broker import Broker
from goqueue.broker.filters.search import Search
from goqueue.broker.groups.coordinator import GroupSettings
from goqueue.broker.partition import Done, Partition, Placement
from goqueue.broker.producers import Mark
from goqueue.broker.topic import Topic, TopicSpec
from goqueue.broker.upkeep import Compacted
from goqueue.broker.view import View
from goqueue.broker.work import Job, Promise, Told, Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import BrokerOverloaded, BrokerStopping, GoQueueError
from goqueue.limits import (
    END_NOTE_SECONDS,
    FILTER_REST_SECONDS,
    IN_FLIGHT_BYTES,
    KIB,
    MIB,
    RETENTION_JUMP_PERCENT,
    UPKEEP_SECONDS,
)
from goqueue.observe.metrics import Metrics
from goqueue.quantities import format_size
from goqueue.runtime import group_journal, transaction_journal
from goqueue.runtime.attendant import Attendant
from goqueue.runtime.courier import Courier
from goqueue.runtime.notary import Notary
from goqueue.runtime.stall_watch import StallWatch
from goqueue.runtime.upkeep import Upkeep
from goqueue.storage import scan
from goqueue.storage.disk import Disk
from goqueue.storage.extent import Read
from goqueue.storage.scan import Frames
from goqueue.storage.store import Store, StoreSettings

_log = logging.getLogger("goqueue.runtime")

_LEAVING_SECONDS = 1.0  # that a deletion waits for its files to be out of the way: mostly one round of the flusher
_UNDERSTOOD_AT_ONCE = 2 * MIB  # of frames; verifying more would keep the loop from others for longer than 10 ms
_HEADERS_AT_ONCE = 128 * KIB  # of headers, the same: they are looked at one by one
_READERS = 4  # threads for cold reads and background work: they wait for the disk, not for a core
_SEARCHERS = 1  # threads for reads with filters: they need a core, and must leave the other ones to everybody else

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    in_flight_bytes: int = IN_FLIGHT_BYTES
    upkeep_seconds: float = UPKEEP_SECONDS
    groups: GroupSettings = field(default_factory=GroupSettings)
    retention_jump_percent: int = RETENTION_JUMP_PERCENT


class Runtime:
    """One broker at work. `start` it on the loop that is to own it, and `stop` it there."""

    def __init__(self, disk: Disk, clock: Clock, metrics: Metrics, settings: RuntimeSettings | None = None) -> None:
        self.disk = disk
        self.clock = clock
        self.metrics = metrics
        self.settings = settings or RuntimeSettings()
        self.in_flight_bytes = 0
        self.began_ns = clock.monotonic_ns()
        self.on_failure: Callable[[], None] = lambda: None
        """Called when nothing can be made durable any more because of a mistake of ours: the process should end."""
        self.searchers = ThreadPoolExecutor(_SEARCHERS, "goqueue-searcher")
        """For `perform`, where a rule looks through messages for some that fit."""
        self.store: Store
        self.broker: Broker
        self.groups: Attendant
        self.notary: Notary
        self.stall_watch: StallWatch
        self._courier: Courier
        self._loop: asyncio.AbstractEventLoop
        self._threads = ThreadPoolExecutor(_READERS, "goqueue-reader")
        self._upkeep: Upkeep
        self._reported = asyncio.Event()
        self._stopping = asyncio.Event()
        self._to_commit: list[Partition] = []
        self._loading: dict[Partition, asyncio.Task[None]] = {}
        self._rolled: set[str] = set()
        """Topics with a log that has begun a new segment, and whose ends are noted in a moment."""

    # --- start and stop ---

    def start(self, path: str, owner: str, settings: StoreSettings) -> None:
        """Take the data directory and recover what is in it; returns when that is done."""
        self._loop = asyncio.get_running_loop()
        self.store = Store.open(
            self.disk,
            path,
            self.clock,
            owner=owner,
            settings=settings,
            deliver=self._deliver,
        )
        try:
            self.store.resources.flusher.on_round = self._observe_round
            self.store.resources.on_roll = self._note_ends_soon
            self.broker = Broker(
                self.store,
                self.disk,
                self.clock,
                settings.log,
                secrets.randbits,
                self.settings.groups,
                self.settings.retention_jump_percent,
            )
            self.stall_watch = StallWatch(self.broker.stall_free, self.clock)
            self.broker.open()
            self.broker.coordinator.rebalancer.on_complete = self._observe_rebalance
            group_journal.listen(self.broker.coordinator)
            transaction_journal.listen(self.broker, self.metrics.transaction_seconds)
        except BaseException:
            self.store.close()
            raise
        self.stall_watch.start()
        self._upkeep = Upkeep(self.broker, self.store, self.disk, self.clock, self.perform)
        self._upkeep.start(self.settings.upkeep_seconds)
        self.groups = Attendant(self.broker.coordinator, self)
        self.groups.start()
        self.broker.office.on_delivery = self._observe_delivery
        self._courier = Courier(self.broker.office, self.clock, self)
        self._courier.start()
        self.notary = Notary(self.broker.transactions, self.broker.ending, self)
        self.notary.start()
        self.broker.producer_ids.on_wait = self.notary.wait_for_sync

    def refuse_new_work(self) -> None:
        """From now on nothing is published or changed; who waits for messages goes home with what there is."""
        self._stopping.set()
        for _, partition in self.broker.partitions():
            partition.wake()
        self.groups.wake_all()

    async def stop(self) -> None:
        """Write what is left, and leave the marker of a clean stop."""
        self.refuse_new_work()
        self._commit()
        await self._courier.stop()
        await self.notary.stop()
        await self.groups.stop()
        await self._upkeep.stop()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)
        self.stall_watch.stop()
        try:
            await self._save_notes()
        finally:
            self.searchers.shutdown()
            self._threads.shutdown()
            self.store.close()

    async def _save_notes(self) -> None:
        try:
            inboxes = [postman.delays.inbox for postman in self.broker.office.postmen()]
            for partition in [*(partition for _, partition in self.broker.partitions()), *inboxes]:
                await self.perform(partition.save_producers(self.disk))
            self.broker.close()
        except GoQueueError as error:  # what is noted here spares the next start some reading, and no more
            _log.warning("the notes for the next start could not be written: %s", error)

    def _note_ends_soon(self, log: str) -> None:
        """By then what was in the segment is on the device, and others that roll meanwhile are noted with it."""
        if not self._rolled:
            self._loop.call_later(END_NOTE_SECONDS, self._note_ends)
        self._rolled.add(log.partition("/")[0])

    def _note_ends(self) -> None:
        topics, self._rolled = self._rolled, set()
        self.broker.note_ends(topics)

    def _deliver(self, job: Callable[[], None]) -> None:
        """From the flusher's thread. Nobody listens any more once the loop has been closed."""
        self._loop.call_soon_threadsafe(self._hear, job)

    def _hear(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:
            _log.critical("what the disk reports cannot be taken in: the broker stops", exc_info=True)
            self.on_failure()
            raise
        self._reported.set()  # wakes those who wait for a report, and nobody who comes later
        self._reported.clear()

    def _observe_round(self, nanoseconds: int) -> None:
        self.metrics.flush_seconds.observe(nanoseconds / NANOSECONDS)

    def _observe_delivery(self, late_ns: "NDArray[np.int64]") -> None:
        late, seconds = self.metrics.delayed_late_seconds, late_ns / NANOSECONDS
        places = np.searchsorted(late.bounds, seconds)
        late.observe_many(np.bincount(places, minlength=len(late.counts)).tolist(), float(seconds.sum()))

    def _observe_rebalance(self, nanoseconds: int) -> None:
        self.metrics.rebalance_seconds.observe(nanoseconds / NANOSECONDS)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    async def pause(self, seconds: float) -> None:
        """For so long, or until the broker stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def refuse_while_stopping(self) -> None:
        if self.is_stopping:
            raise BrokerStopping("the broker is stopping", hint="try again after the restart", retry_after=1)

    # --- topics and producers ---

    async def create_topic(self, spec: TopicSpec) -> Topic:
        return await self.ask(partial(self.broker.create_topic, spec))

    async def alter_topic(self, name: str, changes: dict[str, Any]) -> Topic:
        return await self.ask(partial(self.broker.alter_topic, name, changes))

    async def delete_topic(self, name: str) -> int:
        """Told when it is durable and, unless a job still works on its logs, when the name is free again.

        How many delayed messages went with it that were pending.
        """
        pending: int = await self.ask(partial(self.broker.delete_topic, name))
        self.metrics.forget_topic(name)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_SECONDS):
                while self.store.is_leaving(name):
                    await self._reported.wait()
        self._upkeep.empty_trash()
        return pending

    async def compact_topic(self, name: str) -> list[Compacted]:
        """Compact each of its partitions now; a failure of one is told when the others are done."""
        self.refuse_while_stopping()
        partitions = self.broker.for_compaction(name).partitions
        asked = [asyncio.shield(self._upkeep.compact(partition)) for partition in partitions]
        done = await asyncio.gather(*asked, return_exceptions=True)
        for failure in done:
            if isinstance(failure, BaseException):
                raise failure
        return [one for one in done if isinstance(one, Compacted)]

    async def new_producer(self) -> int:
        return await self.ask(self.broker.producer_ids.give)

    async def decide(self, work: Work[T]) -> T:
        """Have a rule carried out that changes something."""
        self.refuse_while_stopping()
        return await self.perform(work)

    async def ask(self, rule: "Callable[[Told[T]], None]") -> T:
        """Ask a rule whose answer comes when it is durable."""
        self.refuse_while_stopping()
        answer: asyncio.Future[T] = self._loop.create_future()
        rule(lambda result: resolve(answer, result))
        return await answer

    # --- publish ---

    def offer(self, partition: Partition, frames: list[bytes], size: int) -> "asyncio.Future[Placement]":
        """Publish small frames, together with what others publish in the same turn of the loop."""
        answer, done = self.accept(partition.topic, len(frames), size)
        if partition.offer(frames, done):
            if not self._to_commit:
                self._loop.call_soon(self._commit)
            self._to_commit.append(partition)
        return answer

    def _commit(self) -> None:
        partitions, self._to_commit = self._to_commit, []
        for partition in partitions:
            partition.commit()

    async def publish(
        self, partition: Partition, content: bytearray | memoryview, message_bytes_max: int
    ) -> "asyncio.Future[Placement]":
        """Publish a batch of frames; what is returned is done when they are durable."""
        answer, done = self.accept(partition.topic, 0, len(content))
        try:
            now_ns = self.clock.now_ns() if partition.is_delayed else None
            frames, mark = await self.admitted(content, message_bytes_max, now_ns)
            await self.load_producers(partition)
            if mark is not None:
                self.broker.producer_ids.refuse_unless_given(mark.producer)
                self.broker.transactions.refuse_outside(mark)
            partition.take(frames, mark, done)
        except GoQueueError as error:
            done(error)
        return answer

    async def admitted(
        self,
        content: bytearray | memoryview,
        message_bytes_max: int,
        now_ns: int | None,
        *,
        is_transactional: bool = False,
    ) -> tuple[Frames, Mark | None]:
        """A client's frames and their mark. What takes long is done on a thread: many bytes, or many headers."""
        if len(content) > _UNDERSTOOD_AT_ONCE:
            job = partial(understand, content, message_bytes_max, now_ns, is_transactional=is_transactional)
            return await self._loop.run_in_executor(self._threads, job)
        frames = scan.batch(content)
        check = partial(admit, frames, message_bytes_max, now_ns, is_transactional=is_transactional)
        if len(content) > _HEADERS_AT_ONCE < header_bytes(frames):
            return frames, await self._loop.run_in_executor(self._threads, check)
        return frames, check()

    def accept(self, topic: str, count: int, size: int) -> "tuple[asyncio.Future[Placement], Done]":
        """Count what comes in, until it is known what became of it."""
        self.refuse_while_stopping()
        if self.in_flight_bytes + size > self.settings.in_flight_bytes and self.in_flight_bytes:
            raise BrokerOverloaded(
                f"{format_size(self.in_flight_bytes)} are on their way to the disk, which is as much as may be",
                hint="send again in a moment",
                retry_after=1,
            )
        self.in_flight_bytes += size
        answer: asyncio.Future[Placement] = self._loop.create_future()
        counts, began = self.metrics.topic(topic), self.clock.monotonic_ns()

        def done(result: Placement | GoQueueError) -> None:
            self.in_flight_bytes -= size
            if isinstance(result, Placement):
                counts.messages_published += count or result.next_offset - result.first_offset
                counts.bytes_published += size
                self.metrics.publish_seconds.observe((self.clock.monotonic_ns() - began) / NANOSECONDS)
            resolve(answer, result)

        return answer, done

    async def load_producers(self, partition: Partition) -> None:
        """Once after a start, however many wait for it."""
        if partition.producers is not None:
            return
        loading = self._loading.get(partition)
        if loading is None:
            loading = self._loading[partition] = self._loop.create_task(
                self.perform(partition.load_producers(self.disk))
            )
            loading.add_done_callback(lambda _: self._loading.pop(partition))
        await asyncio.shield(loading)

    # --- read ---

    async def read(
        self, view: View, offset: int, max_bytes: int, *, wait: float = 0, skip_damage: bool = False
    ) -> Read:
        """Whole frames from this offset on. With `wait` an empty answer is held back that long.

        What comes meanwhile need not be for these readers: it may be of a transaction that is open, or be aborted.
        """
        until = self._loop.time() + wait
        while True:
            read = await self.perform(view.read(offset, max_bytes, skip_damage=skip_damage))
            left = until - self._loop.time()
            if read.buffers or left <= 0 or self.is_stopping:
                return read
            offset = read.next_offset
            await self._wait_for_more(view.partition, left)

    async def search(self, search: Search, *, wait: float = 0) -> Search:
        """Look for what fits. With `wait`, what comes within that time is looked at before the answer says: none.

        What comes while much does not fit is looked at together: otherwise every commit would cost every search.
        """
        until = self._loop.time() + wait
        while True:
            began = search.next_offset
            await self.perform(search.look(), self.searchers)
            left = until - self._loop.time()
            if search.matched or search.is_over or left <= 0 or self.is_stopping:
                return search
            if search.is_at_end and search.next_offset > began:
                await self.pause(min(left, FILTER_REST_SECONDS))
            elif search.is_at_end:
                await self._wait_for_more(search.partition, left)

    async def _wait_for_more(self, partition: Partition, seconds: float) -> None:
        more = self._loop.create_future()
        forget = partition.watch(lambda: resolve(more, None))
        timer = self._loop.call_later(seconds, resolve, more, None)
        try:
            await more
        finally:
            timer.cancel()
            forget()

    async def perform(self, work: Work[T], threads: ThreadPoolExecutor | None = None) -> T:
        """Do the jobs of a rule on threads, and everything between them here."""
        try:
            job = next(work)
            while True:
                try:
                    result = await self._done(job, threads or self._threads)
                except Exception as error:  # whatever it is, it belongs to whoever yielded the job
                    job = work.throw(error)
                else:
                    job = work.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            work.close()  # should nobody wait for it any more

    def _done(self, job: Job | Promise[Any], threads: ThreadPoolExecutor) -> "asyncio.Future[Any]":
        """What comes of a job on a thread, or what is promised."""
        if not isinstance(job, Promise):
            return self._loop.run_in_executor(threads, job)
        answer: asyncio.Future[Any] = self._loop.create_future()
        job.then(partial(resolve, answer))
        return answer

    def __repr__(self) -> str:
        return f"<Runtime {self.in_flight_bytes} bytes in flight>"


def resolve(answer: "asyncio.Future[Any]", result: Any) -> None:
    """Whoever waited may have gone."""
    if answer.done():
        return
    if isinstance(result, GoQueueError):
        answer.set_exception(result)
    else:
        answer.set_result(result)
