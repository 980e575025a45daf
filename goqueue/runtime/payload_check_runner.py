"""Checks batches against the schemas of their topic, before they are stored.

A check runs on the event loop, in slices of a millisecond, and one long check at a time has slices. Threads would gain
nothing: the libraries of all formats hold the GIL, so two threads check as much as one. They would cost latency,
because the loop then waits for the GIL up to 5 ms each time. With 4,000 messages of 1 KiB at once, 99 % of the turns
were late by up to 1.1 ms with slices, by 6.8 ms with a thread, and by 34 ms without either.

Only compiling runs on a thread, once for each schema. Requests of one connection are handled one after the other and a
producer has one request under way, so no check changes the order of messages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producers import ProducerMark, mark_of
from goqueue.broker.core.topic import Topic
from goqueue.broker.schemas.compiled_schemas import CompiledSchema
from goqueue.broker.schemas.payload_checks import BatchCheck
from goqueue.broker.schemas.records import VersionRecord
from goqueue.broker.tenants.naming import prefix_of
from goqueue.errors import FrameInvalid, GoQueueError, SchemaViolation
from goqueue.runtime.runtime import Runtime
from goqueue.storage import frame
from goqueue.storage.frame import FrameContent

_SLICE_NS = 1_000_000


class PayloadCheckRunner:
    """Runs the checks of one broker."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turn = asyncio.Lock()
        """Held by the check that has slices. The first slice of a check needs none."""
        self._loading: dict[int, asyncio.Task[CompiledSchema]] = {}
        self.catch_up: Callable[[], Awaitable[bool]] | None = None
        """Asks the other nodes of a cluster for newer schemas; returns whether there were some."""

    async def check(self, topic: Topic, frames: Sequence[bytes], place: str = "messages[{}]") -> None:
        """Check messages that were encoded here. Raises SchemaViolation."""
        await self._check(topic, lambda: (frame.content_at(one)[0] for one in frames), place)

    async def check_section(self, topic: Topic, partition: Partition, content: memoryview) -> None:
        """Check a batch of frames from a client. Raises SchemaViolation.

        A batch that was accepted before is not refused now: its answer was lost, or a part of it in a crash. Malformed
        frames end the check, as admission refuses the batch.
        """
        try:
            await self._check(topic, lambda: _messages(content), "messages[{}]", partition=partition.number)
        except SchemaViolation:
            mark = next((mark_of(frame.decode_headers(message.headers)) for message in _messages(content)), None)
            if mark is None or not await self.was_accepted(partition, mark):
                raise

    async def was_accepted(self, partition: Partition, mark: ProducerMark) -> bool:
        """Return whether a batch was accepted before, or is refused for another reason than its schema."""
        await self._runtime.load_producers(partition)
        if partition.producers is None:  # another node leads it, and has them
            return False
        try:
            return bool(partition.producers.look_up(mark).batches)
        except GoQueueError:  # which the append is about to raise, and says more
            return True

    async def _check(
        self, topic: Topic, messages: Callable[[], Iterable[FrameContent]], place: str, **details: int
    ) -> None:
        batch = await self._checked(topic, messages())
        if batch.lacks_schema and self.catch_up is not None and await self.catch_up():
            batch = await self._checked(topic, messages())
        refusal = batch.refusal(place, **details)
        if refusal is not None:
            raise refusal

    async def _checked(self, topic: Topic, messages: Iterable[FrameContent]) -> BatchCheck:
        batch = self._runtime.broker.schemas.checker.begin(topic.name, topic.validation, self._prefix(topic.name))
        now, has_turn = self._runtime.clock.monotonic_ns, False
        until = now() + _SLICE_NS
        try:
            for index, message in enumerate(messages):
                while (needed := batch.check(index, message)) is not None:
                    await self._load(needed)
                if now() < until:
                    continue
                if not has_turn:
                    has_turn = await self._turn.acquire()
                await asyncio.sleep(0)
                until = now() + _SLICE_NS
        finally:
            if has_turn:
                self._turn.release()
        return batch

    def _prefix(self, topic: str) -> str:
        """Return what names of the topic's tenant begin with: its messages have no subjects of others."""
        owner = self._runtime.broker.schemas.tenant_of(topic)
        return prefix_of(owner) if owner else ""

    async def _load(self, needed: VersionRecord) -> None:
        """Compile a schema once for all checks that wait for it."""
        loading = self._loading.get(needed.id)
        if loading is None:
            work = self._runtime.broker.schemas.checker.load(needed)
            loading = self._loading[needed.id] = asyncio.ensure_future(self._runtime.perform(work))
            loading.add_done_callback(lambda _: self._loading.pop(needed.id))
        await asyncio.shield(loading)


def _messages(content: memoryview) -> Iterator[FrameContent]:
    position = 0
    try:
        while position < len(content):
            message, position = frame.content_at(content, position)
            yield message
    except FrameInvalid:
        return
