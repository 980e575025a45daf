"""Delayed messages of a replicated topic: not early, each once, none lost; what was cancelled is never delivered.

Schedulers publish messages that are due within seconds, some of them with sequence numbers, which they repeat. Others
cancel and reschedule what was acknowledged. A delivery is compared with the append time of the message, which is that
of the clock that delivered it.
"""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from crc32c import crc32c

from goqueue.client.section_encoding import encode_section, with_producer_header
from goqueue.delay import deliver_at_header
from goqueue.storage.frame import encode, encode_headers
from goqueue.wire.headers import CHECKSUM, FRAMES
from tests.chaos.http_client import Answer, HttpClient, NotConnected, Unanswered
from tests.chaos.routes import Routes
from tests.chaos.watch import Gaps
from tests.chaos.workload import JSON, PAUSE_SECONDS, SETTLE_SECONDS, Surroundings, Workload, value_of

TOPIC = "reminders"
ANSWER_SECONDS = 3.0
_PAUSE_SECONDS = 0.03
_DELAYS = (0.05, 0.3, 1.0, 3.0)
_CHANGES = 0.2
"""The part of the messages that is cancelled or rescheduled."""
_SECOND_NS = 1_000_000_000
_GONE = frozenset({"delayed_not_pending", "delayed_not_found"})


@dataclass
class _Scheduled:
    """One message, as its scheduler knows it."""

    due_ns: list[int]
    """The delivery times that it may have."""
    is_stored: bool = False
    is_cancelled: bool = False
    may_be_cancelled: bool = False
    deliveries: list[int] = field(default_factory=list)
    """Append times in the topic."""


class DelaysWorkload(Workload):
    name = "delays"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self.routes = Routes(surroundings.addresses, self.chance)
        self.messages: dict[str, _Scheduled] = {}
        self._counts = ""

    async def prepare(self) -> None:
        await self.create_topic(TOPIC, self.surroundings.partitions)
        self.progress = {f"{number}": Gaps() for number in range(self.surroundings.partitions)}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self.surroundings.partitions):
                for is_marked in (True, False):
                    group.create_task(_Scheduler(self, number, is_marked=is_marked).run())

    async def settle(self) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        with HttpClient() as client:
            for number in range(self.surroundings.partitions):
                while await self._pending(client, number) != 0:
                    assert time.monotonic() < deadline, f"{TOPIC}/{number} still has pending messages: {self.answers}"
                    await asyncio.sleep(PAUSE_SECONDS)
        await self.read_topic(TOPIC)

    async def _pending(self, client: HttpClient, partition: int) -> int | None:
        answer = await self.ask_leader(
            client, partition, "GET", f"/topics/{TOPIC}/delayed?limit=1&partition={partition}"
        )
        return int(answer.json["total"]) if answer is not None and answer.status == 200 else None

    async def ask_leader(
        self, client: HttpClient, partition: int, method: str, path: str, body: bytes = b"", headers: Any = ()
    ) -> Answer | None:
        """Ask the leader of a partition once; None if the request may have been carried out."""
        url = self.routes.leader(partition)
        try:
            answer = await client.ask(url, method, path, body, headers, seconds=ANSWER_SECONDS)
        except Unanswered as error:
            self.routes.forget(partition, url)
            self.answers["refused" if isinstance(error, NotConnected) else "unanswered"] += 1
            if isinstance(error, NotConnected):
                return Answer(503, b"{}")
            return None
        if answer.status == 421:
            self.routes.learn(partition, answer)
        elif answer.status >= 500:
            self.routes.forget(partition, url)
        else:
            self.routes.keep(partition, url)
        self.answers[answer.code or str(answer.status)] += 1
        return answer

    async def _read_some(
        self, client: HttpClient, routes: Routes, topic: str, partition: int, offset: int
    ) -> dict[str, Any] | None:
        body = await super()._read_some(client, routes, topic, partition, offset)
        for one in () if body is None else body["messages"]:
            known = self.messages.get(value_of(one))
            if known is None:
                self.complain(f"{TOPIC}/{partition} has {value_of(one)!r}, which was never scheduled")
            else:
                known.deliveries.append(_ns(one["timestamp"]))
        return body

    def judge(self) -> list[str]:
        problems = list(self.problems)
        for value, one in self.messages.items():
            count = len(one.deliveries)
            if count > 1:
                problems.append(f"{value} was delivered {count} times")
            if count and one.is_cancelled:
                problems.append(f"{value} was delivered although its cancellation was acknowledged")
            if not count and one.is_stored and not one.may_be_cancelled:
                problems.append(f"{value} was acknowledged and never delivered")
            if count and one.deliveries[0] < min(one.due_ns):
                early = (min(one.due_ns) - one.deliveries[0]) / _SECOND_NS
                problems.append(f"{value} was delivered {early:.3f} s early")
        delivered = sum(bool(one.deliveries) for one in self.messages.values())
        cancelled = sum(one.is_cancelled for one in self.messages.values())
        stored = sum(one.is_stored for one in self.messages.values())
        self._counts = f"{stored:,} delayed messages acknowledged, {delivered:,} delivered, {cancelled:,} cancelled"
        return problems

    def leader(self) -> str | None:
        return self.routes.leader(self.chance.randrange(self.surroundings.partitions))

    @property
    def counts(self) -> str:
        return self._counts


class _Scheduler:
    """Schedules messages of one partition, and changes some of them, one request after the other."""

    def __init__(self, load: DelaysWorkload, partition: int, *, is_marked: bool) -> None:
        self._load, self._partition, self._is_marked = load, partition, is_marked
        self._name = f"{'marked' if is_marked else 'plain'}-{partition}"
        self._identity = (1 << 62) + load.chance.getrandbits(61), 0
        self._count = 0

    async def run(self) -> None:
        load = self._load
        with HttpClient() as client:
            while not load.is_over:
                value, offset = await self._schedule(client)
                if offset is not None and load.chance.random() < _CHANGES:
                    await asyncio.sleep(load.chance.random() / 2)
                    await self._change(client, value, offset)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _schedule(self, client: HttpClient) -> tuple[str, int | None]:
        """Schedule a message; return its offset if it was acknowledged."""
        load = self._load
        value = f"{self._name}-{self._count}"
        due_ns = time.time_ns() + round(load.chance.choice(_DELAYS) * _SECOND_NS)
        known = load.messages[value] = _Scheduled([due_ns])
        section = self._section(value, due_ns)
        self._count += 1
        headers = (("content-type", FRAMES), (CHECKSUM, f"{crc32c(section):08x}"))
        path = f"/topics/{TOPIC}/messages?acks=all"
        while True:
            answer = await load.ask_leader(client, self._partition, "POST", path, section, headers)
            result = answer.json["results"][0] if answer is not None and answer.status == 200 else {}
            if result.get("first_offset") is not None:
                known.is_stored = True
                load.progress[f"{self._partition}"].works()
                return value, int(result["first_offset"])
            is_refused = answer is not None and answer.status in (421, 503) and answer.code != "leadership_lost"
            if load.is_over or not (self._is_marked or is_refused):
                return value, None
            await asyncio.sleep(_PAUSE_SECONDS)

    def _section(self, value: str, due_ns: int) -> bytes:
        headers = encode_headers([deliver_at_header(due_ns)])
        content = encode(value.encode(), None, headers)
        if self._is_marked:
            content = with_producer_header((value.encode(), b"", headers, 2, 0), self._identity, self._count, 1)
        return encode_section(self._partition, [content], delayed=True)

    async def _change(self, client: HttpClient, value: str, offset: int) -> None:
        load, path = self._load, f"/topics/{TOPIC}/delayed/{self._partition}/{offset}"
        known = load.messages[value]
        if load.chance.random() < 0.6:
            known.may_be_cancelled = True
            answer = await load.ask_leader(client, self._partition, "DELETE", path)
            known.is_cancelled = answer is not None and answer.status == 200
            is_refused = answer is not None and (answer.code in _GONE or answer.status == 421)
            known.may_be_cancelled = not is_refused
            return
        due_ns = time.time_ns() + 2 * _SECOND_NS
        text = datetime.fromtimestamp(due_ns / _SECOND_NS, UTC).isoformat()
        body = msgspec.json.encode({"deliver_at": text})
        answer = await load.ask_leader(client, self._partition, "PATCH", path, body, JSON)
        if answer is not None and answer.status == 200:
            known.due_ns = [_ns(text)]
        elif answer is None or (answer.code not in _GONE and answer.status != 421):
            known.due_ns.append(_ns(text))


def _ns(text: str) -> int:
    """Return a time in RFC 3339 as nanoseconds, rounded down to microseconds."""
    whole, _, fraction = text.replace("Z", "").partition("+")[0].partition(".")
    seconds = int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp())
    return seconds * _SECOND_NS + int((fraction[:6] or "0").ljust(6, "0")) * 1000
