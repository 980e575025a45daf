"""Maintenance in the background: retention, compaction, checkpoints and deletion, one partition at a time.

A requested compaction runs in the same task between two partitions, so no two jobs use one log.

Invariant: a job that was started is applied before anything else happens to its log. So this task is not cancelled
during one: it is told to stop, and awaited.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from goqueue.broker.broker import Broker
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.upkeep import CompactionResult, compact_partition, is_usable, maintain_partition, may_expire
from goqueue.broker.core.work import Work
from goqueue.broker.delay.cleanup import clean_delayed_log
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import BrokerStopping, GoQueueError
from goqueue.limits import DELAY_SNAPSHOT_BYTES, DISK_RETRY_SECONDS
from goqueue.quantities import format_duration
from goqueue.runtime.event_loop import TimeSlices
from goqueue.storage.compaction import Compaction
from goqueue.storage.disk import Disk
from goqueue.storage.store import Store

_log = logging.getLogger("goqueue.upkeep")

_LOOKED_AT_ONCE = 200  # partitions: some tenths of a millisecond
_LOOKS_AT_REST = 20
"""A partition to which nothing happens is maintained at one of so many looks, and when messages are too old."""
_NOTED_AT_ONCE = 32  # topics per append: some ten milliseconds with a thousand partitions each

T = TypeVar("T")
Perform = Callable[[Work[Any]], Awaitable[Any]]


class UpkeepRunner:
    """Runs maintenance of all partitions at intervals."""

    def __init__(self, broker: Broker, store: Store, disk: Disk, clock: Clock, perform: Perform) -> None:
        self._broker = broker
        self._store = store
        self._disk = disk
        self._clock = clock
        self._perform = perform
        self._asked: dict[Partition, asyncio.Future[CompactionResult]] = {}
        self._between: list[tuple[Work[Any], asyncio.Future[Any]]] = []
        """Work that needs all logs for itself."""
        self._wanted = asyncio.Event()
        self._rests: dict[Partition, tuple[object, ...]] = {}
        """The partitions as they were at the last look."""
        self._looks = 0
        self._is_stopping = False
        self._was_in_doubt = False
        self._is_gone = False
        self._current: Partition | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, seconds: float) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(seconds))

    async def stop(self) -> None:
        """Let the current job stop at its next safe point, and start no other."""
        self._is_stopping = True
        self._wanted.set()
        if self._current is not None and isinstance(job := self._current.log.job, Compaction):
            job.interrupted = True
        if self._task is not None:
            await self._task

    def compact(self, partition: Partition) -> "asyncio.Future[CompactionResult]":
        """Compact a partition next. Requests before it starts get the same result."""
        answer = self._asked.get(partition)
        if answer is None:
            answer = self._asked[partition] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(_take_note)
            self._wanted.set()
        return answer

    def run_alone(self, work: Work[T]) -> "asyncio.Future[T]":
        """Run work while no job runs on any log."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_take_note)
        self._between.append((work, answer))
        self._wanted.set()
        return answer

    def empty_trash(self) -> None:
        self._wanted.set()

    async def _run(self, seconds: float) -> None:
        await self._keep_room()
        while not self._is_stopping:
            await self._wait_for_next_look(seconds)
            self._wanted.clear()
            await self._look_at_all()
        await self._run_asked()

    async def _wait_for_next_look(self, seconds: float) -> None:
        """Wait for a request or the interval; meanwhile check whether the directory is there and takes writes."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0 and not self._wanted.is_set():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), min(left, DISK_RETRY_SECONDS))
            with suppress(GoQueueError):  # a directory that cannot be looked at may still be there
                await self._perform(self._check_directory())
            if self._store.refused:
                await self._keep_room()

    def _check_directory(self) -> Work[None]:
        """Stop all writing once the directory is gone."""
        if not self._is_gone:
            self._is_gone = not (yield self._store.is_in_place)
            if self._is_gone:
                self._store.fence_off()
                _log.critical(
                    "the data directory %s was removed, moved or replaced: the broker stores nothing any more; "
                    "stop it, put the directory back or restore a backup, and start it again",
                    self._store.path,
                )

    async def _keep_room(self) -> None:
        """Create the reserved space if it is missing. If that works, writes are accepted again."""
        if self._store.refused or not self._store.reserve.is_made:
            with suppress(GoQueueError):  # retried in the next round
                await self._perform(self._make_reserve())

    def _make_reserve(self) -> Work[None]:
        yield self._store.probe_disk_space
        self._store.refused.clear()

    async def _run_asked(self) -> None:
        """Run requested compactions, and work that runs alone; when stopping, refuse them."""
        while self._between:
            work, alone = self._between.pop(0)
            if not alone.done():  # the caller has not given up
                await self._run_one(work, alone)
        while self._asked:
            partition, answer = next(iter(self._asked.items()))
            del self._asked[partition]
            try:
                answer.set_result(await self._compacted(partition))
            except Exception as error:
                answer.set_exception(error)

    async def _run_one(self, work: Work[Any], answer: "asyncio.Future[Any]") -> None:
        """Run work that needs all logs, and answer unless the caller has given up meanwhile."""
        try:
            if self._is_stopping:
                raise _stopping()
            result = await self._perform(work)
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(result)

    async def _compacted(self, partition: Partition) -> CompactionResult:
        if self._is_stopping:
            raise _stopping()
        self._current = partition
        try:
            work = compact_partition(partition, self._disk, self._clock.now_ns())
            done: CompactionResult | None = await self._perform(self._stoppable(work))
        finally:
            self._current = None
        if done is None:
            raise _stopping()
        return done

    async def _look_at_all(self) -> None:
        await self._run_asked()
        if self._is_gone:  # what has its path now is not ours
            return
        await self._attempt("the clock", self._watch_clock())
        await self._attempt("the trash", self._trash())
        await self._keep_room()
        await self._attempt("the records of groups", self._broker.groups.rewrite_logs())
        await self._attempt("transactional ids", self._forget_unused())
        at_rest, slices = await self._note_ends(), TimeSlices()
        for number, (topic, partition) in enumerate(list(self._broker.partitions())):
            if self._between or self._asked:
                await self._run_asked()
            if self._is_stopping:
                return
            if partition.log.is_closed:  # deleted since
                continue
            if partition in at_rest and not may_expire(partition.log, topic.settings, self._clock.now_ns()):
                if number % _LOOKED_AT_ONCE == 0:
                    await slices.rest()
                continue
            self._current = partition
            clock = self._broker.retention
            size = topic.size if clock.is_in_doubt else 0
            work = maintain_partition(partition, topic.settings, self._disk, self._clock.now_ns(), clock, size)
            await self._attempt(partition.log.name, self._stoppable(work))
            self._current = None
            await self._sweep(partition)

    async def _note_ends(self) -> set[Partition]:
        """Record the ends of logs; return the partitions to which nothing has happened since the last look."""
        self._broker.scaler.record_splits()
        former, self._rests, self._looks = self._rests, {}, self._looks + 1
        delays, slices = self._broker.delay_scheduler.delays, TimeSlices()
        at_rest, changed = set[Partition](), dict[str, None]()
        for number, (topic, partition) in enumerate(list(self._broker.partitions())):
            rest = self._rests[partition] = _rest_of(topic, partition)
            if former.get(partition) == rest and (self._looks + number) % _LOOKS_AT_REST and delays(partition) is None:
                at_rest.add(partition)
            else:
                changed[topic.name] = None
            if number % _LOOKED_AT_ONCE == 0:
                await slices.rest()
        names = list(changed)
        for start in range(0, len(names), _NOTED_AT_ONCE):
            self._broker.note_ends(names[start : start + _NOTED_AT_ONCE])
            await slices.rest()
        return at_rest

    async def _sweep(self, partition: Partition) -> None:
        """Maintain the delayed log of a partition."""
        delays = self._broker.delay_scheduler.delays(partition)
        if delays is None or self._is_stopping or delays.delayed_log.log.is_closed:
            return
        self._current = delays.delayed_log
        if is_usable(delays.delayed_log.log):
            await self._attempt(delays.name, self._stoppable(delays.search_from_here()))
        await self._attempt(delays.name, self._stoppable(clean_delayed_log(delays, self._disk)))
        await self._attempt(delays.name, self._stoppable(delays.save(self._disk, at_least_bytes=DELAY_SNAPSHOT_BYTES)))
        self._current = None

    def _watch_clock(self) -> Work[None]:
        clock = self._broker.retention
        yield from clock.save(self._disk, self._store.path)
        if clock.is_in_doubt and not self._was_in_doubt:
            _log.warning(
                "the clock is %s ahead of what was known, after a jump or a long downtime: for %s retention removes "
                "at most %d %% of each topic for its age; where the clock is right, "
                "storage.retention_jump_percent=100 and a restart end that",
                format_duration(clock.ahead_ns // NANOSECONDS),
                format_duration(round(clock.seconds_left)),
                clock.percent,
            )
        self._was_in_doubt = clock.is_in_doubt

    def _trash(self) -> Work[None]:
        self._store.finish_deletions()
        self._broker.forget_deleted()
        yield self._store.empty_trash

    def _forget_unused(self) -> Work[None]:
        self._broker.transactions.forget_unused()
        yield from ()  # this need not be durable

    def _stoppable(self, work: Work[T]) -> Work[T | None]:
        """Run work, and end it after the current job when stopping."""
        try:
            job = next(work)
            while True:
                try:
                    result = yield job
                except Exception as error:
                    job = work.throw(error)
                else:
                    if self._is_stopping:
                        work.close()
                        return None
                    job = work.send(result)
        except StopIteration as end:
            value: T = end.value
            return value

    async def _attempt(self, what: str, work: Work[Any]) -> None:
        """Run work; log its failure. It is retried in the next round."""
        try:
            await self._perform(work)
            return
        except GoQueueError as error:
            _log.warning("upkeep of %s failed: %s", what, error)
        except Exception:
            _log.exception("upkeep of %s failed", what)
        if self._current is not None:
            self._rests.pop(self._current, None)


def _rest_of(topic: Topic, partition: Partition) -> tuple[object, ...]:
    """Return what stays the same while nothing happens to a partition."""
    log = partition.log
    return log.next_offset, log.durable_end, log.first_offset, len(log.segments), log.fence, topic.settings


def _stopping() -> BrokerStopping:
    return BrokerStopping("the broker is stopping", hint="try again after the restart", retry_after=1)


def _take_note(answer: "asyncio.Future[Any]") -> None:
    """Mark the error as seen, in case the caller has gone."""
    if not answer.cancelled():
        answer.exception()
