"""Clients of transactions: writers over several partitions, and workers that process each message of a topic once.

A writer commits, aborts, or is replaced in the middle by another one with its transactional id. A worker consumes a
topic in a group, and acknowledges what it has read in the transaction that writes the results. Readers of committed
messages read leaders and followers meanwhile. All of them use the SDK, which may not raise through any fault that ends
in time; what it leaves open is unknown, and the logs must have all of it or nothing.
"""

import asyncio
import time
from collections import Counter
from contextlib import suppress

from goqueue.client import AsyncClient
from goqueue.errors import BrokerUnreachable, GoQueueError, ProducerFenced, RequestTimedOut, TransactionAborted
from goqueue.testing.history.check import check
from goqueue.testing.history.events import (
    AbortedEvent,
    BegunEvent,
    CommitSentEvent,
    CommittedEvent,
    PublishSentEvent,
    SeenEvent,
    StoredEvent,
)
from tests.chaos.http_client import HttpClient, Unanswered
from tests.chaos.routes import Routes
from tests.chaos.watch import Gaps
from tests.chaos.workload import SETTLE_SECONDS, Surroundings, Workload, value_of

WRITTEN, SOURCE, RESULTS = "written", "source", "results"
_GROUP = "workers"
_WRITERS, _WORKERS = 3, 2
_PAUSE_SECONDS = 0.02
_ABORTS, _REPLACEMENTS = 0.15, 0.05
_EXPECTED = (TransactionAborted, ProducerFenced)


class TransactionsWorkload(Workload):
    name = "transactions"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self.progress = {"writers": Gaps(), "workers": Gaps()}
        self._sourced = 0
        self._given: set[str] = set()
        self._done: Counter[str] = Counter()
        self._counts = ""

    async def prepare(self) -> None:
        for topic in (WRITTEN, SOURCE, RESULTS):
            await self.create_topic(topic, self.surroundings.partitions)

    def client(self) -> AsyncClient:
        return AsyncClient(list(self.surroundings.addresses.values()), timeout="90s")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(_WRITERS):
                group.create_task(self._write(f"writer-{number}"))
            for number in range(_WORKERS):
                group.create_task(self._work(f"worker-{number}"))
            group.create_task(self._feed())
            for number in range(self.surroundings.partitions):
                for takes_any in (False, True):
                    group.create_task(self._read(number, takes_any=takes_any))

    # --- writers ---

    async def _write(self, writer: str) -> None:
        count = 0
        while not self.is_over:
            with suppress(GoQueueError):  # of the end: what it says was noted where it was raised first
                async with self.client() as client, client.producer(transactional_id=writer) as producer:
                    is_whole = True
                    while is_whole and not self.is_over:
                        count += 1
                        is_whole = await self._write_one(client, producer, writer, f"{writer}-{count}")
                        await asyncio.sleep(_PAUSE_SECONDS)

    async def _write_one(self, client: AsyncClient, producer: object, writer: str, name: str) -> bool:
        """Write one transaction; return whether the producer can go on."""
        chance, seen = self.chance, self.seen
        seen.record(BegunEvent(name, writer))
        try:
            transaction = producer.transaction()  # type: ignore[attr-defined]
            async with transaction:
                for number in range(chance.randint(2, 6)):
                    value, partition = f"{name}-{number}", chance.randrange(self.surroundings.partitions)
                    seen.record(PublishSentEvent(writer, WRITTEN, f"{partition}", value, name))
                    delivery = await transaction.send(WRITTEN, value, partition=partition)
                    if chance.random() < 0.3:
                        await delivery.result()
                if chance.random() < _ABORTS:
                    await transaction.abort("by choice")
                    seen.record(AbortedEvent(name))
                    self.answers["aborted"] += 1
                    return True
                if chance.random() < _REPLACEMENTS:
                    await self._replace(client, writer)
                seen.record(CommitSentEvent(name))
                await transaction.commit()
            seen.record(CommittedEvent(name))
            self.answers["committed"] += 1
            self.progress["writers"].works()
        except _EXPECTED as error:
            self.answers[f"{error.code} {error.details.get('reason', '')}".strip()] += 1
            return not isinstance(error, ProducerFenced)
        except GoQueueError as error:
            self._note(error, name)
            return False
        return True

    async def _replace(self, client: AsyncClient, writer: str) -> None:
        """Take the transactional id away from the writer that has it."""
        async with client.producer(transactional_id=writer) as other, other.transaction():
            self.answers["replaced"] += 1

    def _note(self, error: GoQueueError, what: str) -> None:
        self.answers[error.code] += 1
        if not isinstance(error, BrokerUnreachable | RequestTimedOut) and not self.is_over:
            self.complain(f"{what}: {error!r}")

    # --- workers ---

    async def _feed(self) -> None:
        while not self.is_over:
            with suppress(GoQueueError):
                async with self.client() as client, client.producer() as producer:
                    while not self.is_over:
                        delivery = await producer.send(
                            SOURCE, f"{self._sourced}", partition=self._sourced % self.surroundings.partitions
                        )
                        self._sourced += 1
                        await delivery.result()
                        await asyncio.sleep(_PAUSE_SECONDS)

    async def _work(self, worker: str) -> None:
        while not self.is_over:
            with suppress(GoQueueError):
                async with (
                    self.client() as client,
                    client.producer(transactional_id=worker) as producer,
                    client.consumer(_GROUP, [SOURCE], max_messages=10) as consumer,
                ):
                    await self._process(producer, consumer)

    async def _process(self, producer: object, consumer: object) -> None:
        async for batch in consumer.batches():  # type: ignore[attr-defined]
            try:
                async with producer.transaction() as transaction:  # type: ignore[attr-defined]
                    for message in batch:
                        await transaction.send(RESULTS, message.value, partition=message.partition)
                    transaction.ack(batch)
                self.progress["workers"].works()
                self.answers["processed"] += len(batch)
            except GoQueueError as error:
                self.answers[f"worker {error.code} {error.details.get('reason', '')}".strip()] += 1
                return
            if self.is_over:
                return

    # --- readers ---

    async def _read(self, partition: int, *, takes_any: bool) -> None:
        """Read a partition from its beginning on: at its leader, or at any replica in turn."""
        routes, offset = Routes(self.surroundings.addresses, self.chance), 0
        reader, query = f"reader-{partition}-{takes_any}", "&replica=any" if takes_any else ""
        with HttpClient() as client:
            while not self.is_over:
                url = routes.any() if takes_any else routes.leader(partition)
                path = f"/topics/{WRITTEN}/partitions/{partition}/messages?offset={offset}&limit=500&wait=0.5s{query}"
                try:
                    answer = await client.ask(url, "GET", path, seconds=3)
                except Unanswered:
                    routes.forget(partition, url)
                    continue
                if answer.status == 421:
                    routes.learn(partition, answer)
                elif answer.status == 200:
                    body = answer.json
                    self.seen.record(
                        *(
                            SeenEvent(reader, WRITTEN, partition, one["offset"], value_of(one))
                            for one in body["messages"]
                        )
                    )
                    offset = body["next_offset"]
                await asyncio.sleep(_PAUSE_SECONDS)

    # --- the end ---

    async def settle(self) -> None:
        """Process what is left, wait until no transaction is open, and read everything."""
        deadline = time.monotonic() + SETTLE_SECONDS
        self.is_over = False
        drain = asyncio.create_task(self._work("worker-0"))
        try:
            while await self._is_open() or await self._lag():
                assert time.monotonic() < deadline, f"transactions stay open, or messages stay: {self.answers}"
                await asyncio.sleep(_PAUSE_SECONDS * 10)
        finally:
            self.is_over = True
            drain.cancel()
            with suppress(asyncio.CancelledError, GoQueueError):
                await drain
        await self.read_topic(WRITTEN)
        self._given, self._done = set(await self._values(SOURCE)), Counter(await self._values(RESULTS))

    async def _values(self, topic: str) -> list[str]:
        async with self.client() as client:
            reader = client.reader(topic, list(range(self.surroundings.partitions)), until="now")
            return [(message.value or b"").decode() async for message in reader]

    async def _is_open(self) -> bool:
        answer = (await self.ask_anyone("GET", "/transactions")).json
        return bool(answer["transactions"] or answer.get("missing"))

    async def _lag(self) -> int:
        async with self.client() as client:
            try:
                found = await client.group(_GROUP)
            except GoQueueError:
                return 1
            return int(found.total_lag)

    def judge(self) -> list[str]:
        events = self.events()
        report = check(events)
        written = sum(isinstance(one, StoredEvent) for one in events)
        self._counts = (
            f"{self.answers['committed']:,} transactions committed, {self.answers['aborted']:,} aborted,"
            f" {written:,} messages of them read, {len(self._done):,} messages of {len(self._given):,} processed"
        )
        return [*self.problems, *self._processed_wrong(), *([] if report.ok else [str(report)])]

    def _processed_wrong(self) -> list[str]:
        twice = [f"message {value} was processed {count} times" for value, count in self._done.items() if count > 1]
        never = [f"message {value} was not processed" for value in self._given - self._done.keys()]
        return [*twice[:5], *never[:5]]

    @property
    def counts(self) -> str:
        return self._counts
