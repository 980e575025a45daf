"""A consumer group over a replicated topic: members that come, go, nack and are late, and writers that feed them.

Members speak HTTP to the coordinator, whom 421 names. What they are told is recorded, and the checker knows the rules:
a message that was acknowledged never comes back, a partition has one owner in a generation, attempts and committed
offsets never fall, and in the end every message was received and settled.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any

import msgspec

from goqueue.storage import frame
from goqueue.testing.history.check import check
from goqueue.testing.history.events import (
    AckedEvent,
    AckSentEvent,
    JoinedEvent,
    LeftEvent,
    NackedEvent,
    PublishedEvent,
    PublishSentEvent,
    ReceivedEvent,
    SettledEvent,
)
from goqueue.wire.headers import LEASES
from tests.chaos.http_client import Answer, HttpClient, NotConnected, Unanswered
from tests.chaos.routes import Routes
from tests.chaos.watch import Gaps
from tests.chaos.workload import JSON, PAUSE_SECONDS, SETTLE_SECONDS, Surroundings, Workload

TOPIC, GROUP = "jobs", "workers-of-jobs"
MEMBERS = 4
ANSWER_SECONDS = 3.0
_PAUSE_SECONDS = 0.02
_POLL_SECONDS = 0.5
_NACKS, _LEAVES, _FORGETS = 0.05, 0.01, 0.02
"""Parts of batches that are nacked, after which a member leaves, and that are never settled."""
_GONE = frozenset({"member_unknown", "group_not_found", "generation_stale"})


class GroupsWorkload(Workload):
    name = "groups"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self.progress = {"acks": Gaps()}
        self.coordinator = Routes(surroundings.addresses, self.chance)
        self.is_draining = False
        self._counts = ""

    async def prepare(self) -> None:
        await self.create_topic(TOPIC, self.surroundings.partitions)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self.surroundings.partitions):
                group.create_task(self._feed(number))
            for number in range(MEMBERS):
                group.create_task(_Member(self, f"member-{number}").run(lambda: self.is_over))

    async def _feed(self, partition: int) -> None:
        """Publish to a partition; what is not answered is not sent again."""
        routes, count = Routes(self.surroundings.addresses, self.chance), 0
        with HttpClient() as client:
            while not self.is_over:
                count += 1
                values = [f"{TOPIC}-{partition}-{count}-{number}" for number in range(self.chance.randint(1, 4))]
                self.seen.record(*(PublishSentEvent(f"feeder-{partition}", TOPIC, "", value) for value in values))
                body = msgspec.json.encode({"messages": [{"value": one, "partition": partition} for one in values]})
                url = routes.leader(partition)
                try:
                    answer = await client.ask(
                        url, "POST", f"/topics/{TOPIC}/messages", body, JSON, seconds=ANSWER_SECONDS
                    )
                except Unanswered:
                    routes.forget(partition, url)
                else:
                    self._published(routes, partition, url, values, answer)
                await asyncio.sleep(_PAUSE_SECONDS)

    def _published(self, routes: Routes, partition: int, url: str, values: list[str], answer: Answer) -> None:
        if answer.status == 421:
            routes.learn(partition, answer)
        elif answer.status != 200:
            routes.forget(partition, url)
        else:
            routes.keep(partition, url)
            rows = zip(values, answer.json["results"], strict=True)
            stored = [(value, row["offset"]) for value, row in rows if row.get("error") is None]
            self.seen.record(*(PublishedEvent(value, TOPIC, partition, offset) for value, offset in stored))

    async def settle(self) -> None:
        """Read all, and have members settle all."""
        await self.read_topic(TOPIC)
        is_done = asyncio.Event()
        async with asyncio.TaskGroup() as group, asyncio.timeout(SETTLE_SECONDS):
            for number in range(MEMBERS):
                group.create_task(_Member(self, f"drainer-{number}").run(is_done.is_set))
            while (await self.ask_anyone("GET", f"/groups/{GROUP}")).json["total_lag"]:
                await asyncio.sleep(PAUSE_SECONDS)
            is_done.set()
        answer = await self.ask_anyone("GET", f"/groups/{GROUP}/offsets?topic={TOPIC}")
        for partition, floor in answer.json["offsets"][TOPIC].items():
            self.seen.record(SettledEvent(GROUP, TOPIC, int(partition), floor))

    def judge(self) -> list[str]:
        report = check(self.events())
        self._counts = f"{report.counts.acked:,} acknowledged by groups, {report.counts.redelivered:,} received again"
        return [*self.problems, *([] if report.ok else [str(report)])]

    @property
    def counts(self) -> str:
        return self._counts

    def leader(self) -> str | None:
        return self.coordinator.leader(GROUP)


class _Gone(Exception):
    """The member is none any more."""


class _Member:
    """A client that joins, polls and settles, again and again."""

    def __init__(self, load: GroupsWorkload, name: str) -> None:
        self._load, self._name, self._client = load, name, HttpClient()
        self._id, self._generation = "", 0

    async def run(self, is_over: Any) -> None:
        with self._client:
            while not is_over():
                with suppress(_Gone):
                    await self._join(is_over)
                    while not is_over():
                        await self._work()
            with suppress(_Gone, Unanswered):
                await self._ask("POST", "leave", {"member_id": self._id})

    async def _join(self, is_over: Any) -> None:
        """Join as a new member. One whose answer is lost ends with its session."""
        while not is_over():
            body = {
                "topics": [TOPIC], "client_id": self._name, "session_timeout": "3s", "visibility_timeout": "3s",
                "max_retries": 1000, "start": "earliest",
            }  # fmt: skip
            with suppress(Unanswered, _Gone):
                answer = await self._ask("POST", "join", body)
                if answer.status == 200:
                    self._id = answer.json["member_id"]
                    self._assigned(answer.json)
                    return
            await asyncio.sleep(PAUSE_SECONDS)

    def _assigned(self, body: dict[str, Any]) -> None:
        self._generation = body["generation"]
        places = tuple((one["topic"], one["partition"]) for one in body["partitions"])
        self._load.seen.record(JoinedEvent(GROUP, self._id, self._generation, places))

    async def _work(self) -> None:
        """Poll once, and settle what comes."""
        asked = time.monotonic_ns()
        query = f"poll?member_id={self._id}&generation={self._generation}&max_messages=40&timeout={_POLL_SECONDS}s"
        try:
            answer = await self._ask("GET", query)
        except Unanswered:
            return
        if answer.status != 200:
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        head, content = _parts(answer.body)
        for lease in head["leases"]:
            size = lease["bytes"]
            await self._take(lease, content[:size], head["generation"], asked)
            content = content[size:]
        if head["rebalance_required"]:
            await self._learn()
        if head["leases"] and self._load.chance.random() < _LEAVES:
            with suppress(Unanswered):
                if (await self._ask("POST", "leave", {"member_id": self._id})).status == 200:
                    self._load.seen.record(LeftEvent(GROUP, self._id))
            raise _Gone

    async def _learn(self) -> None:
        with suppress(Unanswered):
            answer = await self._ask("GET", f"assignment?member_id={self._id}")
            if answer.status == 200:
                self._assigned(answer.json)

    async def _take(self, lease: dict[str, Any], content: bytes, generation: int, asked: int) -> None:
        load, place = self._load, (lease["topic"], lease["partition"])
        frames = [frame.decode(content, at) for at in frame.walk(content)]
        messages = [one for one in frames if not one.flags & frame.CONTROL]
        load.seen.record(
            *(
                ReceivedEvent(
                    GROUP, self._id, generation, *place, one.offset, lease["attempt"], one.value.decode(), asked
                )
                for one in messages
            )
        )
        if not messages or load.chance.random() < _FORGETS:
            return
        offsets = [one.offset for one in messages]
        ranges = [[one, one + 1] for one in offsets]
        entry = {"topic": place[0], "partition": place[1], "lease": lease["lease"], "ranges": ranges}
        if load.chance.random() < _NACKS:
            if await self._settle({"nacks": [entry | {"delay": "100ms"}]}, "nacks"):
                load.seen.record(*(NackedEvent(GROUP, self._id, *place, one, one + 1) for one in offsets))
            return
        load.seen.record(*(AckSentEvent(GROUP, self._id, *place, one, one + 1) for one in offsets))
        if await self._settle({"acks": [entry]}, "acks"):
            load.seen.record(*(AckedEvent(GROUP, self._id, *place, one, one + 1) for one in offsets))
            load.progress["acks"].works()

    async def _settle(self, said: dict[str, Any], what: str) -> bool:
        """Say it until it is answered, or too late; a nack only once. Return whether it was accepted."""
        body = {"member_id": self._id, "generation": self._generation, **said}
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            with suppress(Unanswered):
                answer = await self._ask("POST", "settle", body)
                if answer.status == 200:
                    (result,) = answer.json[what]
                    return result.get("error") is None
            if what == "nacks":
                return False
            await asyncio.sleep(_PAUSE_SECONDS)
        return False

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        """Ask the coordinator. Raises Unanswered, or _Gone if the group does not know the member."""
        load, routes = self._load, self._load.coordinator
        url = routes.leader(GROUP)
        headers = JSON if body is not None else (("accept", LEASES),) if path.startswith("poll") else ()
        content = b"" if body is None else msgspec.json.encode(body)
        try:
            answer = await self._client.ask(
                url, method, f"/groups/{GROUP}/{path}", content, headers, seconds=ANSWER_SECONDS
            )
        except Unanswered as error:
            load.answers["refused" if isinstance(error, NotConnected) else "unanswered"] += 1
            routes.forget(GROUP, url)
            await asyncio.sleep(_PAUSE_SECONDS)
            raise
        if answer.status == 421:
            routes.learn(GROUP, answer)
        elif answer.status >= 500:
            routes.forget(GROUP, url)
        if answer.status >= 300:
            load.answers[answer.code] += 1
            if answer.code in _GONE:
                raise _Gone
        return answer


def _parts(body: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the head of a poll's answer, and its frames."""
    size = int.from_bytes(body[:4], "big")
    head: dict[str, Any] = msgspec.json.decode(body[4 : 4 + size])
    return head, body[4 + size :]
