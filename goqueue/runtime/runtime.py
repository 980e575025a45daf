"""The broker on an event loop: calls its rules and waits for their results.

The loop's thread owns the store. The flusher and the readers of cold segments have their own threads and report to
the loop. Bytes that are accepted and not yet durable are counted, and above a limit new publishes are refused.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from goqueue.broker.broker import Broker
from goqueue.broker.core.admission import decode_batch, header_bytes, validate_batch
from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.partition import Partition, Placement, PublishCallback
from goqueue.broker.core.producer_checkpoint import load_producers, save_producers
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.routing import Routing
from goqueue.broker.core.topic import Topic, TopicSpec
from goqueue.broker.core.upkeep import CompactionResult
from goqueue.broker.core.work import Callback, Job, Promise, Work
from goqueue.broker.groups.coordinator import GroupCoordinator
from goqueue.broker.operations.records import Author
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import BrokerOverloaded, BrokerStopping, GoQueueError
from goqueue.events import Signal
from goqueue.limits import END_RECORD_SECONDS, KIB, MIB
from goqueue.observe.metrics import Metrics
from goqueue.quantities import format_size
from goqueue.runtime.deferred import Deferred, Turn
from goqueue.runtime.delay_runner import DelayRunner
from goqueue.runtime.event_logs import log_group_events, log_transaction_events
from goqueue.runtime.event_loop import StallDetector
from goqueue.runtime.fair_turn import FairTurn
from goqueue.runtime.group_runner import GroupRunner
from goqueue.runtime.partition_reader import PartitionReader
from goqueue.runtime.runtime_settings import RuntimeSettings
from goqueue.runtime.scrub_runner import ScrubRunner
from goqueue.runtime.tracer import Tracer
from goqueue.runtime.transaction_runner import TransactionRunner
from goqueue.runtime.upkeep_runner import UpkeepRunner
from goqueue.storage import scan
from goqueue.storage.disk import Disk
from goqueue.storage.scan import Frames
from goqueue.storage.store import Store, StoreSettings

_log = logging.getLogger("goqueue.runtime")

_LEAVING_SECONDS = 1.0  # a deletion waits for its files to be released: usually one flush
_UNDERSTOOD_AT_ONCE = 2 * MIB  # of frames; checking more would block the loop for more than 10 ms
_HEADERS_AT_ONCE = 128 * KIB  # of headers, which are checked one by one
_READERS = 4  # threads for cold reads and background work, which mostly wait for the disk
_SEARCHERS = 1  # threads for filtered reads: they need a core, so there is one

T = TypeVar("T")


class Runtime:
    """One running broker. Call `start` and `stop` on the loop that owns it."""

    def __init__(self, disk: Disk, clock: Clock, metrics: Metrics, settings: RuntimeSettings | None = None) -> None:
        self.disk, self.clock, self.metrics = disk, clock, metrics
        self.settings = settings or RuntimeSettings()
        self.in_flight_bytes = 0
        self.began_ns = clock.monotonic_ns()
        self.on_failure: Signal[[]] = Signal()
        self.before_anew: dict[str, Callable[[Partition], None]] = {}
        """What keeps the records of a followed topic of a cluster before its log begins anew here, by topic."""
        """Emitted when a defect stops all writes: the process should end."""
        self.searchers = ThreadPoolExecutor(_SEARCHERS, "goqueue-searcher")
        """The thread of filtered reads."""
        self.store: Store
        self.broker: Broker
        self.groups: GroupRunner
        self.transaction_runner: TransactionRunner
        self.stall_detector: StallDetector
        self.tracer: Tracer
        self.reader = PartitionReader(self)
        self._delay_runner: DelayRunner
        self._loop: asyncio.AbstractEventLoop
        self.threads = ThreadPoolExecutor(_READERS, "goqueue-reader")
        """The threads of cold reads and background work."""
        self.upkeep: UpkeepRunner
        self.scrub: ScrubRunner
        self._reported, self._stopping = asyncio.Event(), asyncio.Event()
        self.is_stopping = False
        self._to_commit: list[Partition] = []
        self._loading: dict[Partition, asyncio.Task[None]] = {}
        self._rolled: set[str] = set()
        """Topics whose logs have rolled and whose ends are recorded in a moment."""

    # --- start and stop ---

    def start(self, path: str, owner: str, settings: StoreSettings) -> None:
        """Open the data directory and recover it."""
        self._loop = asyncio.get_running_loop()
        self.turn: Turn = FairTurn(self._loop) if self.settings.has_tenants else Turn(self._loop)
        self.store = Store.open(self.disk, path, self.clock, owner=owner, settings=settings, deliver=self._deliver)
        try:
            self.store.resources.flusher.defer = self._loop.call_soon
            self.store.resources.flusher.on_round.subscribe(self._observe_round)
            self.store.resources.on_roll.subscribe(self._note_ends_soon)
            self.broker = Broker(
                self.store,
                self.disk,
                self.clock,
                settings.log,
                secrets.randbits,
                self.settings.groups,
                self.settings.retention_jump_percent,
                has_tenants=self.settings.has_tenants,
            )
            self.stall_detector = StallDetector(self.broker.stall_free, self.clock)
            self.broker.open()
            if self.broker.tenants is not None and isinstance(self.turn, FairTurn):
                tenants, turn = self.broker.tenants, self.turn
                tenants.on_change.subscribe(lambda: turn.keep(tenants.state.tenants))
            for coordinator in self.broker.groups:
                self._observe_groups(coordinator)
            self.broker.groups.on_opened.subscribe(self._observe_groups)
            log_transaction_events(self.broker, self.metrics.transaction_seconds)
            self.tracer = Tracer(self.broker, self.disk, path, self.settings.tracing, self.clock.now_ns)
        except BaseException:
            self.store.close()
            raise
        self.stall_detector.start()
        self.upkeep = UpkeepRunner(self.broker, self.store, self.disk, self.clock, self.perform)
        self.upkeep.start(self.settings.upkeep_seconds)
        rate, seconds = self.settings.scrub_rate, self.settings.scrub_seconds
        self.scrub = ScrubRunner(self.store, self.disk, self.clock, self.threads, rate, seconds)
        self.scrub.start()
        self.groups = GroupRunner(self.broker.groups, self, self.metrics.fetch_seconds)
        self.groups.start()
        self.broker.delay_scheduler.on_delivery.subscribe(self._observe_delivery)
        self._delay_runner = DelayRunner(self.broker.delay_scheduler, self.clock, self)
        self._delay_runner.start()
        self.transaction_runner = TransactionRunner(self.broker.transactions, self.broker.groups, self)
        self.transaction_runner.start()

    def refuse_new_work(self) -> None:
        """Refuse publishes and changes from now on, and answer waiting reads and polls."""
        self.is_stopping = True
        self._stopping.set()
        for _, partition in self.broker.partitions():
            partition.wake()
        self.groups.wake_all()

    async def stop(self) -> None:
        """Write everything and leave the clean-stop marker."""
        self.refuse_new_work()
        self._commit()
        await self._delay_runner.stop()
        await self.transaction_runner.stop()
        await self.groups.stop()
        await self.scrub.stop()
        await self.upkeep.stop()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)
        self.stall_detector.stop()
        try:
            await self._save_notes()
        finally:
            await self.tracer.stop()
            self.searchers.shutdown()
            self.threads.shutdown()
            self.store.close()

    async def _save_notes(self) -> None:
        """Close the shards, and write checkpoints."""
        try:
            self.broker.close()
            inboxes = [delivery.delays.delayed_log for delivery in self.broker.delay_scheduler.deliveries()]
            for partition in [*(partition for _, partition in self.broker.partitions()), *inboxes]:
                await self.perform(save_producers(partition, self.disk))
        except GoQueueError as error:  # they only save the next start some reading
            _log.warning("the checkpoints for the next start could not be written: %s", error)

    def _note_ends_soon(self, log: str) -> None:
        """Record the ends of rolled logs in a moment, when they are durable, for several logs at once."""
        if not self._rolled:
            self._loop.call_later(END_RECORD_SECONDS, self._note_ends)
        self._rolled.add(log.partition("/")[0])

    def _note_ends(self) -> None:
        topics, self._rolled = self._rolled, set()
        self.broker.note_ends(topics)

    def _deliver(self, job: Callable[[], None]) -> None:
        """Pass a report from the flusher's thread to the loop."""
        self._loop.call_soon_threadsafe(self._hear, job)

    def _hear(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:
            _log.critical("a report of the flusher failed: the broker stops", exc_info=True)
            self.on_failure.emit()
            raise
        self._reported.set()  # wakes current waiters only
        self._reported.clear()

    def _observe_round(self, nanoseconds: int) -> None:
        self.metrics.flush_seconds.observe(nanoseconds / NANOSECONDS)

    def _observe_delivery(self, late_ns: "NDArray[np.int64]") -> None:
        late, seconds = self.metrics.delayed_late_seconds, late_ns / NANOSECONDS
        places = np.searchsorted(late.bounds, seconds)
        late.observe_many(np.bincount(places, minlength=len(late.counts)).tolist(), float(seconds.sum()))

    def _observe_groups(self, coordinator: GroupCoordinator) -> None:
        coordinator.rebalancer.on_complete.subscribe(self._observe_rebalance)
        log_group_events(coordinator)

    def _observe_rebalance(self, nanoseconds: int) -> None:
        self.metrics.rebalance_seconds.observe(nanoseconds / NANOSECONDS)

    async def pause(self, seconds: float) -> None:
        """Sleep, or return when the broker stops."""
        stopping = self._loop.create_task(self._stopping.wait())
        await asyncio.wait([stopping], timeout=seconds)
        stopping.cancel()

    def refuse_while_stopping(self) -> None:
        if self.is_stopping:
            raise BrokerStopping("the broker is stopping", hint="try again after the restart", retry_after=1)

    # --- topics and producers ---

    async def create_topic(self, spec: TopicSpec) -> Topic:
        return await self.ask(partial(self.broker.create_topic, spec))

    async def delete_topic(self, author: Author, name: str) -> tuple[int, int]:
        """Delete a topic durably and, unless a job still uses its logs, free its name.

        Returns the id of the operation, and the number of pending delayed messages that were deleted with it.
        """
        deleted = await self.decide(self.broker.changes.delete_topic(author, name))
        self.metrics.forget_topic(name)
        await self.wait_until_left(name)
        self.upkeep.empty_trash()
        return deleted

    async def wait_until_left(self, name: str) -> None:
        """Wait a while until no job uses the files of a deleted topic."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_SECONDS):
                while self.store.is_leaving(name):
                    await self._reported.wait()

    async def compact_topic(self, name: str) -> list[CompactionResult]:
        """Compact all partitions now; raise a failure when the others are done."""
        self.refuse_while_stopping()
        partitions = self.broker.compactable_topic(name).partitions
        asked = [asyncio.shield(self.upkeep.compact(partition)) for partition in partitions]
        done = await asyncio.gather(*asked, return_exceptions=True)
        for failure in done:
            if isinstance(failure, BaseException):
                raise failure
        return [one for one in done if isinstance(one, CompactionResult)]

    async def new_producer(self) -> int:
        return await self.ask(self.broker.producer_ids.give)

    async def decide(self, work: Work[T]) -> T:
        """Run work that changes something."""
        self.refuse_while_stopping()
        return await self.perform(work)

    async def ask(self, rule: "Callable[[Callback[T]], None]") -> T:
        """Call a rule that answers through a callback; wait for the durable answer."""
        self.refuse_while_stopping()
        answer: Deferred[T] = Deferred()
        rule(answer.resolve)
        return await answer

    # --- publish ---

    def offer(
        self, partition: Partition, frames: list[bytes], size: int, level: CommitLevel = CommitLevel.COMMITTED
    ) -> Deferred[Placement]:
        """Publish small frames, in one append with others of the same turn of the loop."""
        answer, done = self.accept(partition, len(frames), size, level)
        if partition.offer(frames, done, level):
            if not self._to_commit:
                self.turn.follow(self._commit)
            self._to_commit.append(partition)
        return answer

    def _commit(self) -> None:
        partitions, self._to_commit = self._to_commit, []
        for partition in partitions:
            partition.commit()

    async def publish(
        self,
        partition: Partition,
        content: bytearray | memoryview,
        message_bytes_max: int,
        routing: Routing | None = None,
        level: CommitLevel = CommitLevel.COMMITTED,
        walked: Frames | None = None,
    ) -> Deferred[Placement]:
        """Publish a batch of frames; the returned deferred is done when they have reached the level."""
        answer, done = self.accept(partition, 0, len(content), level)
        try:
            now_ns = self.clock.now_ns() if partition.is_delayed else None
            frames, mark = await self.admitted(content, message_bytes_max, now_ns, walked=walked)
            await self.load_producers(partition)
            if mark is not None:
                if partition.leadership is None:  # in a cluster, any node may have given it
                    self.broker.producer_ids.refuse_unless_given(mark.producer)
                self.broker.transactions.refuse_outside(mark)
            if routing is not None:
                routing.check(partition, mark)
            partition.take(frames, mark, done, level)
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
        walked: Frames | None = None,
    ) -> tuple[Frames, ProducerMark | None]:
        """Check a client's frames, on a thread if they are large or have many headers."""
        if len(content) > _UNDERSTOOD_AT_ONCE:
            job = partial(
                decode_batch, content, message_bytes_max, now_ns, is_transactional=is_transactional, walked=walked
            )
            return await self._loop.run_in_executor(self.threads, job)
        frames = scan.check_batch(content, walked)
        check = partial(validate_batch, frames, message_bytes_max, now_ns, is_transactional=is_transactional)
        if len(content) > _HEADERS_AT_ONCE < header_bytes(frames):
            return frames, await self._loop.run_in_executor(self.threads, check)
        return frames, check()

    def accept(
        self, partition: Partition, count: int, size: int, level: CommitLevel = CommitLevel.COMMITTED
    ) -> tuple[Deferred[Placement], PublishCallback]:
        """Count bytes in flight until their result; refuse more than the limit, and all if this node does not lead."""
        if self.is_stopping:
            self.refuse_while_stopping()
        leadership = partition.leadership
        if leadership is not None:
            if level is CommitLevel.COMMITTED:
                leadership.refuse_unless_leading()
                leadership.refuse_unless_enough()
            else:
                leadership.refuse_unless_leader()
        if self.in_flight_bytes + size > self.settings.in_flight_bytes and self.in_flight_bytes:
            raise BrokerOverloaded(
                f"{format_size(self.in_flight_bytes)} are being written, which is the limit of bytes in flight",
                hint="retry after 1 s",
                retry_after=1,
            )
        self.in_flight_bytes += size
        answer: Deferred[Placement] = Deferred()
        counts, began = self.metrics.topic(partition.topic), self.clock.monotonic_ns()

        def done(result: Placement | GoQueueError) -> None:
            self.in_flight_bytes -= size
            if leadership is not None and level is CommitLevel.STORED and not leadership.may_answer:
                result = leadership.lost()  # others may have elected a leader that does not have it
            if isinstance(result, Placement):
                counts.messages_published += count or result.next_offset - result.first_offset
                counts.bytes_published += size
                seconds = (self.clock.monotonic_ns() - began) / NANOSECONDS
                first = (partition.topic, partition.number, result.pieces[0][0], result.time_ns)
                self.metrics.publish_seconds.observe_batch(seconds, None if partition.is_delayed else first)
            answer.resolve(result)

        return answer, done

    async def load_producers(self, partition: Partition) -> None:
        """Load the producers of a partition once, for all waiting publishes. Another leader has those of its own."""
        if partition.producers is not None or (partition.leadership is not None and partition.leadership.is_elsewhere):
            return
        loading = self._loading.get(partition)
        if loading is None:
            loading = self._loading[partition] = self._loop.create_task(
                self.perform(load_producers(partition, self.disk))
            )
            loading.add_done_callback(lambda _: self._loading.pop(partition))
        await asyncio.shield(loading)

    # --- work ---

    async def perform(self, work: Work[T], threads: ThreadPoolExecutor | None = None) -> T:
        """Run the jobs of a generator on threads, and its own code here."""
        try:
            job = next(work)
            while True:
                try:
                    result = await self._done(job, threads or self.threads)
                except Exception as error:  # any error goes to the code that yielded the job
                    job = work.throw(error)
                else:
                    job = work.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            work.close()  # in case the caller was cancelled

    def _done(self, job: Job | Promise[Any], threads: ThreadPoolExecutor) -> Awaitable[Any]:
        if not isinstance(job, Promise):
            return self._loop.run_in_executor(threads, job)
        answer: Deferred[Any] = Deferred()
        job.then(answer.resolve)
        return answer
