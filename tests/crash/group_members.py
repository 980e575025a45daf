"""A process with many consumers of a group on one event loop, which settle what they get until it is told to end.

Some leave after a while, whatever they have in hand, and others come in their place.
"""

import asyncio
from contextlib import suppress
from random import Random

from goqueue.errors import GroupNotFound, LeaseExpired, MemberUnknown
from goqueue.testing.history.events import Recorder
from tests.crash.group_watched import WatchedAsyncClient, WatchedAsyncConsumer
from tests.crash.group_worker import Job, Watch, say, tell, when_told_to_end

STAY_SECONDS = 0.5, 4.0
WORK_SECONDS = 0.05
"""What a batch takes, so that a leaving member mostly has one in hand."""
MESSAGES_MAX = 40


class Crowd:
    """The members of one process."""

    def __init__(self, job: Job, client: WatchedAsyncClient, seen: Recorder) -> None:
        self._job = job
        self._client = client
        self._seen = seen
        self._present: set[WatchedAsyncConsumer] = set()
        self._over = asyncio.Event()

    def end(self) -> None:
        self._over.set()
        for consumer in self._present:
            consumer.stop()

    async def attend(self, number: int) -> None:
        """One place in the crowd, which one member takes after the other."""
        chance = Random(f"{self._job.seed} {number}")
        while not self._over.is_set():
            await self._be_member(f"{self._job.name}-{number}", chance)

    async def _be_member(self, name: str, chance: Random) -> None:
        job, watch = self._job, Watch(self._seen, self._job.group)
        consumer: WatchedAsyncConsumer = self._client.watched(
            watch, job.group, [job.topic], client_id=name, max_messages=MESSAGES_MAX, **job.consumer_options
        )
        self._present.add(consumer)
        try:
            async with consumer:
                if job.quits:
                    asyncio.get_running_loop().call_later(chance.uniform(*STAY_SECONDS), consumer.stop)
                await self._consume(consumer, chance)
            watch.left()
        finally:
            self._present.discard(consumer)

    async def _consume(self, consumer: WatchedAsyncConsumer, chance: Random) -> None:
        async for batch in consumer.batches():
            consumer.watch.received(consumer, batch)
            await self._work(chance.uniform(0, WORK_SECONDS))
            if self._job.quits and chance.random() < 0.05:
                return  # without a word
            try:
                await say(batch, self._job, chance, consumer.watch)
                consumer.watch.answered()
            except (LeaseExpired, MemberUnknown, GroupNotFound):
                if not self._job.forgives:
                    raise
                consumer.watch.refused()
            tell()

    async def _work(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()


async def run(job: Job) -> None:
    with Recorder(job.history, job.name) as seen:
        async with WatchedAsyncClient(job.url, timeout=job.patience) as client:
            crowd, loop = Crowd(job, client, seen), asyncio.get_running_loop()
            when_told_to_end(lambda: loop.call_soon_threadsafe(crowd.end))
            async with asyncio.TaskGroup() as group:
                for number in range(job.members):
                    group.create_task(crowd.attend(number))


if __name__ == "__main__":
    asyncio.run(run(Job.from_argument()))
