"""Transactions on an event loop: publishing in them, their deadlines, and carrying out how they end."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol, TypeVar

from goqueue.broker.admission import marked
from goqueue.broker.partition import Done, Partition, Placement
from goqueue.broker.producers import Mark
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.ending import Ending
from goqueue.broker.transactions.whose import Whose
from goqueue.broker.work import Promise, Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError, TransactionPending
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames

_log = logging.getLogger("goqueue.transactions")

_SYNC_SECONDS = 0.01  # between two looks whether what was written has been synced
_PATIENCE_SECONDS = 10.0  # that an answer waits for the end of a transaction; mostly it is milliseconds
_TOGETHER = 50  # that are given up or ended before others are served: some ten milliseconds
_AGAIN_SECONDS = 1.0  # before what the disk has refused at the start is tried again

T = TypeVar("T")


class Shell(Protocol):
    """What carries rules out, and takes in what is published."""

    clock: Clock

    def accept(self, topic: str, count: int, size: int) -> "tuple[asyncio.Future[Placement], Done]": ...

    async def admitted(
        self,
        content: bytearray | memoryview,
        message_bytes_max: int,
        now_ns: int | None,
        *,
        is_transactional: bool = False,
    ) -> tuple[Frames, Mark | None]: ...

    async def load_producers(self, partition: Partition) -> None: ...

    async def perform(self, work: Work[Any]) -> Any: ...


class Notary:
    """Does for the coordinator what waits."""

    def __init__(self, coordinator: TransactionCoordinator, ending: Ending, shell: Shell) -> None:
        self._coordinator = coordinator
        self._ending = ending
        self._shell = shell
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._at_work: set[asyncio.Task[None]] = set()
        self._decided: list[str] = []
        """Those whose end nobody has begun to carry out."""
        self._is_stopping = False

    def start(self) -> None:
        coordinator = self._coordinator
        coordinator.on_gathered = lambda: self._loop.call_soon(coordinator.commit)
        coordinator.on_wait = self.wait_for_sync
        coordinator.on_decided = self._carry_out
        coordinator.deadlines.on_earlier = self._arm
        self._recovery = self._loop.create_task(self._recover())

    async def stop(self) -> None:
        """What is decided is carried out; what is open stays so, and the next start aborts it."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        self._coordinator.commit()
        if self._recovery is not None:
            await self._recovery
        while self._at_work:
            await asyncio.wait(self._at_work)
        self._coordinator.commit()

    def wait_for_sync(self, moment: Promise[None]) -> None:
        """Keep the promise a moment later."""
        self._loop.call_later(_SYNC_SECONDS, moment, None)

    # --- ends ---

    async def _recover(self) -> None:
        while True:
            try:
                await self._shell.perform(self._ending.recover())
                return
            except GoQueueError as error:
                _log.warning("transactions that were open cannot be ended yet: %s", error)
            except Exception:
                _log.exception("transactions that were open cannot be ended; the next start tries again")
                return
            if self._is_stopping:
                return
            await asyncio.sleep(_AGAIN_SECONDS)

    def _carry_out(self, name: str) -> None:
        self._decided.append(name)
        if len(self._decided) == 1:
            self._set_to_work(self._end_decided())

    def _set_to_work(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def _end_decided(self) -> None:
        """Thousands may run into their timeout together: some begin to end, then everybody else is served."""
        while self._decided:
            for name in self._decided[:_TOGETHER]:
                self._set_to_work(self._end(name))
            del self._decided[:_TOGETHER]
            await asyncio.sleep(0)

    async def _end(self, name: str) -> None:
        try:
            if self._recovery is not None and not self._recovery.done():
                await asyncio.shield(self._recovery)
            await self._shell.perform(self._ending.carry_out(name))
        except Exception:
            _log.exception("the transaction of %s cannot be ended; the next start tries again", name)

    async def in_time(self, answer: Awaitable[T], name: str) -> T:
        """What comes of an end; whoever waits for too long hears that it takes long, and asks again."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await answer
        except TimeoutError:
            raise TransactionPending(
                f"the transaction of {name} has not come to its end after {_PATIENCE_SECONDS:g} seconds",
                hint="ask again in a moment",
                retry_after=1,
            ) from None

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
        deadlines.call_due(self._coordinator.clock.now_ns(), _TOGETHER)
        self._arm_next()

    def _arm_next(self) -> None:
        following = self._coordinator.deadlines.next_ns
        if self._timer is None and following is not None:
            self._arm(following)

    # --- publish ---

    async def publish(
        self, whose: Whose, partition: Partition, content: bytearray | memoryview, message_bytes_max: int
    ) -> "asyncio.Future[Placement]":
        """A batch of frames, once it is durable that the transaction touches this partition."""
        answer, done = self._shell.accept(partition.topic, 0, len(content))
        now_ns = self._shell.clock.now_ns() if partition.is_delayed else None
        try:
            frames, mark = await self._shell.admitted(content, message_bytes_max, now_ns, is_transactional=True)
            await self._shell.load_producers(partition)
            assert mark is not None, "without one a batch of a transaction is refused"
            self._coordinator.check_mark(whose, mark)
            partition.take(frames, mark, done, is_transactional=True)
        except GoQueueError as error:
            done(error)
        return answer

    async def offer(
        self, whose: Whose, partition: Partition, frames: list[bytes], sequence: int | None = None
    ) -> "asyncio.Future[Placement]":
        """Sound frames without a mark: they get one, with this sequence or with the next."""
        answer, done = self._shell.accept(partition.topic, len(frames), sum(map(len, frames)))
        try:
            await self._shell.load_producers(partition)
            self._coordinator.ongoing(whose)
            assert partition.producers is not None, "they have just been loaded"
            following = partition.producers.next_sequence(*whose)
            mark = Mark(*whose, following if sequence is None else sequence, len(frames))
            first = marked(frame.decode(frames[0]), mark)
            batch = scan.batch(bytearray(b"".join((first, *frames[1:]))))
            partition.take(batch, mark, done, is_transactional=True)
        except GoQueueError as error:
            done(error)
        return answer

    def __repr__(self) -> str:
        return f"<Notary {len(self._at_work)} at work>"
