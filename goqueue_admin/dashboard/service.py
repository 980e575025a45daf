"""The one place where the dashboard speaks to a broker.

What must stay true: one round of questions is under way at a time; wishes that come meanwhile make one more round
and not many; and an answer to what a screen wanted that is not there any more is dropped. A broker that went away is
asked again and again, less and less often, until it answers.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from goqueue.clock import NANOSECONDS, Clock, SystemClock
from goqueue.errors import BrokerStopping, BrokerUnreachable, GoQueueError, RequestTimedOut
from goqueue_admin.dashboard.questions import Known, Link, Question

if TYPE_CHECKING:
    from goqueue.client import AsyncReader, Message

ANSWER_SECONDS = 5.0
PROBE_SECONDS = 0.4
BACKOFF_SECONDS = (1, 2, 3, 5)
TAIL_BYTES = 64 * 1024
"""Of an answer with messages: to take one apart holds the screen up for less than a frame."""


class Talks(Protocol):
    """What is needed of a broker's client, besides the calls that questions name."""

    @property
    def reader(self) -> Callable[..., Awaitable["AsyncReader"]]: ...
    async def close(self) -> None: ...


class Service:
    """Rounds of questions; `told` is called after every answer, and whenever the link changed."""

    def __init__(
        self,
        client: Talks,
        address: str,
        clock: Clock,
        probe: Callable[[], Awaitable[str | None]] | None = None,
    ) -> None:
        self.address = address
        self.clock = clock
        self.known = Known()
        self.link = Link("asking", clock.now_ns())
        self.told: Callable[[Question | None], None] = lambda _: None
        self.generation = 0
        self._client = client
        self._probe = probe
        self._failures = 0
        self._round: asyncio.Task[None] | None = None
        self._next: Sequence[Question] = ()

    # --- rounds ---

    def look(self, questions: Sequence[Question], *, fresh: bool = False) -> None:
        """Ask these, in their order. A `fresh` look is of another screen: what is under way is not waited for."""
        if fresh:
            self.generation += 1
            self._next = ()
            if self._round is not None:
                self._round.cancel()
                self._round = None
        if self._round is not None and not self._round.done():
            self._next = questions
        else:
            self._round = asyncio.create_task(self._rounds(questions, self.generation), name="dashboard-round")

    async def _rounds(self, questions: Sequence[Question], generation: int) -> None:
        while questions and generation == self.generation:
            for asked in dict.fromkeys(questions):
                if not await self._answer(asked, generation):
                    break
            questions, self._next = self._next, ()

    async def _answer(self, asked: Question, generation: int) -> bool:
        """Ask one; False when the broker is away, so that the others need not be asked."""
        try:
            value = await self._watched(asked)
        except (BrokerUnreachable, BrokerStopping, RequestTimedOut) as error:
            if generation == self.generation:
                self._away(error)
            return False
        except GoQueueError as error:
            if generation == self.generation:
                self._here()
                self.known.refuse(asked, error, self.clock.now_ns())
                self.told(asked)
            return True
        if generation == self.generation:
            self._here()
            self.known.take(asked, value, self.clock.now_ns())
            self.known.keep()
            self.told(asked)
        return generation == self.generation

    async def _watched(self, asked: Question) -> Any:
        """The answer; where it is slow to come, whether anybody is there at all is found out in another way.

        The client tries again for as long as its timeout allows. A screen wants to know at once.
        """
        task = asyncio.ensure_future(self._call(asked))
        try:
            while True:
                done, _ = await asyncio.wait({task}, timeout=PROBE_SECONDS)
                if done:
                    return task.result()
                reason = await self._probe() if self._probe else None
                if reason:
                    raise BrokerUnreachable(f"nobody answers at {self.address}: {reason}")
        finally:
            task.cancel()

    async def _call(self, asked: Question) -> Any:
        call: Callable[..., Awaitable[Any]] = getattr(self._client, asked.method)
        return await call(*asked.arguments, **dict(asked.options))

    # --- being here and away ---

    def _here(self) -> None:
        self._failures = 0
        if self.link.state != "here":
            self.link = Link("here", self.clock.now_ns())
            self.told(None)

    def _away(self, error: GoQueueError) -> None:
        now = self.clock.now_ns()
        pause = BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        since = self.link.since_ns if self.link.state == "away" else now
        self._failures += 1
        self.link = Link("away", since, now + pause * NANOSECONDS, error.sentence)
        self.told(None)

    @property
    def is_due(self) -> bool:
        """Whether a round makes sense now: a broker that is away is left in peace until its time has come."""
        return self.link.state != "away" or self.clock.now_ns() >= self.link.retry_ns

    # --- single calls ---

    async def do(self, asked: Question) -> Any:
        """Ask once, for an action or a detail; what is refused is raised."""
        return await self._watched(asked)

    async def tail(self, topic: str, **options: Any) -> "AsyncReader":
        """A reader in small answers, so that none holds the screen up."""
        return await self._client.reader(topic, max_bytes=TAIL_BYTES, on_missing="earliest", **options)

    async def message(self, topic: str, partition: int, offset: int) -> "Message | None":
        """One message; None where it is not there any more."""
        reader = await self._client.reader(
            topic, partitions=partition, start=offset, until=offset + 1, max_bytes=TAIL_BYTES, on_missing="earliest"
        )
        async with reader:
            async for message in reader:
                if message.offset == offset:
                    return message
        return None

    async def close(self) -> None:
        self.generation += 1
        if self._round is not None:
            self._round.cancel()
            with suppress(asyncio.CancelledError):
                await self._round
        await self._client.close()

    def __repr__(self) -> str:
        return f"<Service {self.address} {self.link.state}>"


def connect(server: str | None, timeout: float, api_key: str | None = None) -> Service:
    """A service for the broker at an address, on the loop that runs when it is first asked."""
    from goqueue.client import AsyncClient, address  # noqa: PLC0415 - tests of the service itself need neither

    place = address.parse(server)
    seconds = min(timeout, ANSWER_SECONDS)

    async def probe() -> str | None:
        try:
            async with asyncio.timeout(seconds):
                _, writer = await asyncio.open_connection(place.host, place.port)
        except TimeoutError:
            return "it took too long"
        except OSError as error:
            return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        writer.close()
        return None

    return Service(AsyncClient(server, seconds, api_key=api_key), str(place), SystemClock(), probe)
