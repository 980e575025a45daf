"""Clients of one replicated topic: writers with and without sequence numbers, and readers of any replica.

They know what the broker tells them and nothing else: each node may be asked, 421 names the leader, everything that is
not answered may have happened. What they see goes into the history that the checker judges.
"""

import asyncio
import time
from typing import Any

from crc32c import crc32c

from goqueue.client.section_encoding import encode_section, with_producer_header
from goqueue.storage.frame import NO_HEADERS, encode
from goqueue.testing.history.check import check
from goqueue.testing.history.events import Event, PublishedEvent, PublishSentEvent, SeenEvent, StoredEvent
from goqueue.wire.headers import CHECKSUM, FRAMES
from tests.chaos.http_client import HttpClient, NotConnected, Unanswered
from tests.chaos.routes import Routes
from tests.chaos.watch import Gaps
from tests.chaos.workload import SETTLE_SECONDS, Surroundings, Workload, value_of

TOPIC = "t"
ANSWER_SECONDS = 3.0
_PAUSE_SECONDS = 0.02
_WAIT_SECONDS = 0.5
_BATCH_MAX = 5
_PADDING = (0, 0, 0, 20, 400, 4000)
_WRONG = frozenset({"sequence_out_of_order", "producer_fenced", "unknown_producer", "frame_invalid", "request_invalid"})
"""Answers that no fault explains."""


class LogWorkload(Workload):
    """Each partition has a writer that repeats, one that does not, a reader of its leader and one of any replica."""

    name = "log"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self.routes = Routes(surroundings.addresses, self.chance)
        self.readers: list[_Reader] = []
        self._counts = ""

    async def prepare(self) -> None:
        await self.create_topic(TOPIC, self.surroundings.partitions)
        self.progress = {f"{number}": Gaps() for number in range(self.surroundings.partitions)}

    async def run(self) -> None:
        """Publish and read until `is_over`; then readers go on to the end of what was stored."""
        partitions = range(self.surroundings.partitions)
        writers = [
            *(_Writer(self, f"marked-{number}", number, is_marked=True) for number in partitions),
            *(_Writer(self, f"plain-{number}", number, is_marked=False) for number in partitions),
        ]
        self.readers = [
            _Reader(self, f"{kind}-{number}", number, takes_any=kind == "any")
            for number in partitions
            for kind in (("leader", "any") if len(self.surroundings.addresses) > 1 else ("leader",))
        ]
        async with asyncio.TaskGroup() as group:
            for writer in writers:
                group.create_task(writer.run())
            for reader in self.readers:
                group.create_task(reader.run())

    async def settle(self) -> None:
        ends = await self.read_topic(TOPIC)
        for reader in self.readers:
            await reader.read_to(ends[reader.partition], SETTLE_SECONDS)

    def judge(self) -> list[str]:
        events = self.events()
        report = check(events)
        self._counts = f"{report.counts.published:,} messages acknowledged"
        return [*self.problems, *_disorder(events), *([] if report.ok else [str(report)])]

    def leader(self) -> str | None:
        return self.routes.leader(self.chance.randrange(self.surroundings.partitions))

    @property
    def counts(self) -> str:
        return self._counts


class _Writer:
    """Publishes to one partition, one request after the other.

    A marked one repeats a batch until it is answered. Another one never repeats what may be stored.
    """

    def __init__(self, load: LogWorkload, name: str, partition: int, *, is_marked: bool) -> None:
        self._load, self._name, self._partition, self._is_marked = load, name, partition, is_marked
        self._client = HttpClient()
        self._identity = (1 << 62) + load.chance.getrandbits(61), 0
        self._sequence = self._count = 0

    async def run(self) -> None:
        with self._client:
            while not self._load.is_over:
                await self._publish_batch()
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _publish_batch(self) -> None:
        load = self._load
        values = [self._value() for _ in range(load.chance.randint(1, _BATCH_MAX))]
        load.seen.record(*(PublishSentEvent(self._name, TOPIC, f"{self._partition}", value) for value in values))
        section = self._section(values)
        while await self._publish(section, values):
            await asyncio.sleep(_PAUSE_SECONDS)
        self._sequence += len(values)

    def _value(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _section(self, values: list[str]) -> bytes:
        padding = self._load.chance.choice(_PADDING)
        frames = [encode(f"{value} {'.' * padding}".encode()) for value in values]
        if self._is_marked:
            origin = f"{values[0]} {'.' * padding}".encode(), b"", NO_HEADERS, 2, 0
            frames[0] = with_producer_header(origin, self._identity, self._sequence, len(values))
        return encode_section(self._partition, frames)

    async def _publish(self, section: bytes, values: list[str]) -> bool:
        """Try once; return whether to try again."""
        load, routes = self._load, self._load.routes
        url = routes.leader(self._partition)
        headers = (("content-type", FRAMES), (CHECKSUM, f"{crc32c(section):08x}"))
        path = f"/topics/{TOPIC}/messages?acks=all"
        try:
            answer = await self._client.ask(url, "POST", path, section, headers, seconds=ANSWER_SECONDS)
        except NotConnected:
            load.answers["refused"] += 1
            routes.forget(self._partition, url)
            return True
        except Unanswered:
            load.answers["unanswered"] += 1
            routes.forget(self._partition, url)
            return self._is_marked
        if answer.status == 200:
            (result,) = answer.json["results"]
            if result.get("error") is None:
                self._stored(url, values, result)
                return False
            code = result["error"]["code"]
        else:
            code = answer.code
        load.answers[code] += 1
        if answer.status == 421:
            routes.learn(self._partition, answer)
            return True
        routes.forget(self._partition, url)
        if code in _WRONG:
            load.complain(f"{self._name} is refused by {url}: {answer.status} {answer.body[:300]!r}")
        return self._is_marked

    def _stored(self, url: str, values: list[str], result: dict[str, Any]) -> None:
        load = self._load
        load.answers["stored"] += 1
        load.routes.keep(self._partition, url)
        pieces = result.get("pieces") or [(result["first_offset"], result["next_offset"])]
        offsets = [offset for first, end in pieces for offset in range(first, end)]
        if len(offsets) != len(values):
            load.complain(f"{self._name}: {len(values)} messages were stored at {pieces}")
            return
        load.seen.record(
            *(
                PublishedEvent(value, TOPIC, self._partition, offset)
                for value, offset in zip(values, offsets, strict=True)
            )
        )
        load.progress[f"{self._partition}"].works()


class _Reader:
    """Reads one partition from its beginning: of its leader, or of any replica in turn."""

    def __init__(self, load: LogWorkload, name: str, partition: int, *, takes_any: bool) -> None:
        self._load, self._name, self.partition, self._takes_any = load, name, partition, takes_any
        self._client = HttpClient()
        self.offset = 0

    async def run(self) -> None:
        routes = self._load.routes
        with self._client:
            while not self._load.is_over:
                await self.read_on(routes.any() if self._takes_any else routes.leader(self.partition))
                await asyncio.sleep(_PAUSE_SECONDS)

    async def read_to(self, end: int, seconds: float) -> None:
        """Read from the leader until this offset."""
        deadline, routes = time.monotonic() + seconds, self._load.routes
        with self._client:
            while self.offset < end:
                assert time.monotonic() < deadline, f"{self} does not come to {end}: {self._load.answers}"
                await self.read_on(routes.leader(self.partition))

    async def read_on(self, url: str) -> None:
        """Read what follows."""
        load, query = self._load, "&replica=any" if self._takes_any else ""
        path = f"/topics/{TOPIC}/partitions/{self.partition}/messages?offset={self.offset}&limit=500"
        try:
            answer = await self._client.ask(
                url, "GET", f"{path}&wait={_WAIT_SECONDS}s{query}", seconds=ANSWER_SECONDS + _WAIT_SECONDS
            )
        except Unanswered:
            load.routes.forget(self.partition, url)
            return
        if answer.status == 200:
            self._saw(answer.json)
        elif answer.status == 421:
            load.routes.learn(self.partition, answer)
        elif answer.code == "offset_out_of_range":
            load.complain(f"{self._name} has read up to {self.offset}, and {url} says: {answer.body!r}")
        else:
            load.answers[f"read {answer.code}"] += 1

    def __repr__(self) -> str:
        return f"<{self._name} at {self.offset}>"

    def _saw(self, body: dict[str, Any]) -> None:
        self._load.seen.record(
            *(
                SeenEvent(self._name, TOPIC, self.partition, message["offset"], value_of(message))
                for message in body["messages"]
            )
        )
        self.offset = body["next_offset"]


def _disorder(events: list[Event]) -> list[str]:
    """A writer that repeats batches has all its messages in order."""
    last: dict[tuple[str, int], int] = {}
    problems = []
    stored = (one for one in events if isinstance(one, StoredEvent))
    for event in sorted(stored, key=lambda one: (one.partition, one.offset)):
        writer, _, number = event.value_id.rpartition("-")
        if not writer.startswith("marked"):
            continue
        key = writer, event.partition
        if int(number) <= last.get(key, 0):
            problems.append(f"{event.value_id} stands behind {writer}-{last[key]} in partition {event.partition}")
        last[key] = int(number)
    return problems
