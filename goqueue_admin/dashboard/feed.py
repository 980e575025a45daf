"""Messages on their way to the screen: all are counted, the newest are shown, the others are passed over.

A topic may bring a hundred thousand in a second; nobody reads more than a screen of them. What must stay true: the
loop is given back between small answers, and what is handed to the screen at once is bounded.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from goqueue.clock import Clock
from goqueue.errors import GoQueueError
from goqueue_admin.dashboard.views.tail import Pace, Seen, seen

if TYPE_CHECKING:
    from goqueue.client import AsyncReader, Message

FRAME_SECONDS = 0.1
FRAME_LINES = 120


class Feed:
    """One reader, drained in a task. `take` gives what is new for the screen."""

    def __init__(
        self, open_reader: Callable[[], Awaitable["AsyncReader"]], clock: Clock, most: int | None = None
    ) -> None:
        self.received = Pace()
        self.shown = Pace()
        self.error: GoQueueError | None = None
        self.is_done = False
        self.more = asyncio.Event()
        """Cleared while nobody wants more: the reader then waits, and so does the broker."""
        self.more.set()
        self._open = open_reader
        self._clock = clock
        self._wanted = most
        self._fresh: deque[Message] = deque(maxlen=None if most else FRAME_LINES)
        self._reader: AsyncReader | None = None
        self._task = asyncio.create_task(self._run(), name="dashboard-feed")

    async def _run(self) -> None:
        try:
            self._reader = await self._open()
            async with self._reader as reader:
                async for batch in reader.batches():
                    self.received.add(len(batch))
                    self._fresh.extend(batch if self._wanted else batch[-FRAME_LINES:])
                    if self._wanted is not None and self.received.total >= self._wanted:
                        self.more.clear()
                    await self.more.wait()
                    await asyncio.sleep(0)
        except GoQueueError as error:
            self.error = error
        finally:
            self.is_done = True

    def take(self) -> list[Seen]:
        """What came since the last time, or the newest of it, in the order of time over all partitions."""
        fresh = sorted(map(seen, self._fresh), key=lambda line: line.time_ns)
        self._fresh.clear()
        self.shown.add(len(fresh))
        now = self._clock.monotonic_ns()
        self.received.mark(now)
        self.shown.mark(now)
        return fresh

    @property
    def is_reading(self) -> bool:
        """Whether the broker has said from where on."""
        return self._reader is not None

    def want(self, count: int) -> None:
        """Let a feed with an end of its own go on for so many more."""
        if self._wanted is not None:
            self._wanted = self.received.total + count
            self.more.set()

    @property
    def scanned(self) -> int | None:
        """How many messages the broker has looked at, where it looks for some."""
        return getattr(self._reader, "scanned", None) if self._reader is not None else None

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
