"""The clients of a cluster that is harmed, and the judgment on all that they saw.

A workload is one kind of clients with topics of their own. Several may run at once. They know what the cluster tells
them and nothing else: what is not answered may have happened.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import msgspec

from goqueue.testing.history.events import EndEvent, Recorder, StoredEvent, read
from goqueue.testing.history.events import Event as HistoryEvent
from tests.chaos.http_client import Answer, HttpClient, Unanswered
from tests.chaos.routes import Routes
from tests.chaos.watch import Gaps

CREATE_SECONDS = 30.0
SETTLE_SECONDS = 60.0
JSON = (("content-type", "application/json"),)
PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The cluster as clients see it."""

    addresses: dict[str, str]
    """Where clients reach each node."""
    path: Path
    """The directory of the round."""
    seed: str
    partitions: int = 3

    @property
    def replicas(self) -> int:
        return min(3, len(self.addresses))


class Workload(ABC):
    """One kind of clients, in one event loop: `prepare`, `run` until `is_over` is set, `settle`, `judge`."""

    name: ClassVar[str]

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.chance = Random(f"{surroundings.seed} {self.name}")
        self.seen = Recorder(self.history, "clients")
        self.progress: dict[str, Gaps] = {}
        """What must go on after each fault: call `works()` at each success."""
        self.topics: dict[str, int] = {}
        """Those that it made, and how many partitions they have."""
        self.ends: dict[str, int] = {}
        """The ends of logs that were read, such as `t/0`: below them all replicas must have the same bytes."""
        self.answers: Counter[str] = Counter()
        """How often which code came, and how often no answer."""
        self.problems: list[str] = []
        self.is_over = False

    @property
    def history(self) -> Path:
        return self.surroundings.path / f"history-{self.name}.jsonl"

    def events(self) -> list[HistoryEvent]:
        return read([self.history])

    @abstractmethod
    async def prepare(self) -> None:
        """Make what the clients need; nothing is harmed yet."""

    @abstractmethod
    async def run(self) -> None:
        """Work until `is_over` is set, and end soon after that."""

    @abstractmethod
    async def settle(self) -> None:
        """Bring everything to its end: no faults any more."""

    @abstractmethod
    def judge(self) -> list[str]:
        """Return what is wrong with all that was seen."""

    @property
    def counts(self) -> str:
        """Return how much was done, for people."""
        return ""

    def complain(self, problem: str) -> None:
        self.problems.append(problem)

    def leader(self) -> str | None:
        """Return the address of a node that is worth harming, as its clients know it."""
        return None

    def gap(self, since: float, until: float) -> float:
        """Return the longest time in which something did not go on."""
        return max((one.longest(since, until) for one in self.progress.values()), default=0.0)

    def has_gone_on(self, since: float) -> bool:
        return all(one.at[-1:] > [since] for one in self.progress.values())

    # --- what many clients need ---

    async def create_topic(self, topic: str, partitions: int, **settings: Any) -> None:
        settings = {"replication_factor": self.surroundings.replicas, **settings}
        body = msgspec.json.encode({"name": topic, "num_partitions": partitions, **settings})
        await self.ask_anyone("POST", "/topics", body, {"topic_exists"})
        self.topics[topic] = partitions

    async def ask_anyone(
        self, method: str, path: str, body: bytes = b"", fine: frozenset[str] | set[str] = frozenset()
    ) -> Answer:
        """Ask one node after the other until one answers with success, or with one of these codes."""
        urls, deadline = [*self.surroundings.addresses.values()], time.monotonic() + CREATE_SECONDS
        said = "no answer"
        with HttpClient() as client:
            while True:
                for url in self.chance.sample(urls, len(urls)):
                    with suppress(Unanswered):
                        answer = await client.ask(url, method, path, body, JSON if body else (), seconds=5)
                        if answer.status < 300 or answer.code in fine:
                            return answer
                        said = f"{answer.status} {answer.body[:300]!r}"
                assert time.monotonic() < deadline, f"{method} {path}: {said}"
                await asyncio.sleep(PAUSE_SECONDS)

    async def read_topic(self, topic: str) -> dict[int, int]:
        """Record all committed messages of a topic; return the end of each partition."""
        with HttpClient() as client:
            return {number: await self._read_log(client, topic, number) for number in range(self.topics[topic])}

    async def _read_log(self, client: HttpClient, topic: str, partition: int) -> int:
        routes, offset, deadline = (
            Routes(self.surroundings.addresses, self.chance),
            0,
            time.monotonic() + SETTLE_SECONDS,
        )
        while True:
            assert time.monotonic() < deadline, f"{topic}/{partition} cannot be read to its end"
            body = await self._read_some(client, routes, topic, partition, offset)
            if body is None:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self.seen.record(*(StoredEvent(topic, partition, one["offset"], value_of(one)) for one in body["messages"]))
            if body["next_offset"] == offset:
                self.seen.record(EndEvent(topic, partition, offset))
                self.ends[f"{topic}/{partition}"] = offset
                return offset
            offset = body["next_offset"]

    async def _read_some(
        self, client: HttpClient, routes: Routes, topic: str, partition: int, offset: int
    ) -> dict[str, Any] | None:
        url = routes.leader(partition)
        path = f"/topics/{topic}/partitions/{partition}/messages?offset={offset}&limit=1000"
        try:
            answer = await client.ask(url, "GET", path, seconds=5)
        except Unanswered:
            routes.forget(partition, url)
            return None
        if answer.status == 421:
            routes.learn(partition, answer)
            return None
        if answer.status != 200:
            routes.forget(partition, url)
            return None
        body: dict[str, Any] = answer.json
        return body


def value_of(message: dict[str, Any]) -> str:
    """Return the value without its padding."""
    return str(message["value"]).partition(" ")[0]
