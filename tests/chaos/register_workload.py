"""Clients that change one setting of a topic by compare and set, at any node: the catalog is a linearizable register.

A client reads the setting and its etag at one node, and changes it with `If-Match` at another one. A node may not have
followed the last change when it is read, so the changes are judged, and the value that all nodes agree on at the end.
"""

import asyncio
import time
from math import inf

import msgspec

from goqueue.testing.history.events import Event
from tests.chaos.http_client import HttpClient, Unanswered
from tests.chaos.linearizability import Operation, Outcome, find_order
from tests.chaos.watch import Gaps
from tests.chaos.workload import JSON, PAUSE_SECONDS, SETTLE_SECONDS, Surroundings, Workload

TOPIC = "register"
_CLIENTS = 4
_ANSWER_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_FIRST = 1


class RegisterWorkload(Workload):
    """Compare-and-set operations on the retention of a topic, each with a value of its own."""

    name = "register"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._operations: list[Operation] = []
        self._value = _FIRST

    async def prepare(self) -> None:
        await self.create_topic(TOPIC, 1, retention_hours=_FIRST)
        self.progress = {"changes": Gaps()}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(_CLIENTS):
                group.create_task(self._change_all())

    def _node(self) -> str:
        return self.chance.choice([*self.surroundings.addresses.values()])

    async def _change_all(self) -> None:
        with HttpClient() as client:
            while not self.is_over:
                known = await self._read(client, self._node())
                if known is not None:
                    await self._change(client, *known)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _read(self, client: HttpClient, url: str) -> tuple[int, str] | None:
        """Return the value and its etag, as a node knows them."""
        try:
            answer = await client.ask(url, "GET", f"/topics/{TOPIC}", seconds=_ANSWER_SECONDS)
        except Unanswered:
            return None
        return (answer.json["config"]["retention_hours"], answer.json["etag"]) if answer.status == 200 else None

    async def _change(self, client: HttpClient, expected: int, etag: str) -> None:
        self._value += 1
        value, called = self._value, time.monotonic()
        body, headers = msgspec.json.encode({"retention_hours": value}), (*JSON, ("if-match", f'"{etag}"'))
        outcome: Outcome = "unknown"
        try:
            answer = await client.ask(
                self._node(), "PATCH", f"/admin/topics/{TOPIC}", body, headers, seconds=_ANSWER_SECONDS
            )
        except Unanswered:
            self.answers["unanswered"] += 1
        else:
            outcome = {200: "done", 412: "refused"}.get(answer.status, "unknown")  # type: ignore[assignment]
            self.answers["changed" if outcome == "done" else answer.code] += 1
        if outcome == "done":
            self.progress["changes"].works()
        returned = inf if outcome == "unknown" else time.monotonic()
        self._operations.append(Operation(called, returned, expected, value, outcome))

    async def settle(self) -> None:
        """Read what all nodes agree on."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            called = time.monotonic()
            with HttpClient() as client:
                found = [await self._read(client, url) for url in self.surroundings.addresses.values()]
            values = {one[0] for one in found if one is not None}
            if None not in found and len(values) == 1:
                self._operations.append(Operation(called, time.monotonic(), values.pop(), None))
                return
            assert time.monotonic() < deadline, f"the nodes do not agree on the topic: {found}"
            await asyncio.sleep(PAUSE_SECONDS)

    def judge(self) -> list[str]:
        if find_order(self._operations, _FIRST) is not None:
            return self.problems
        rows = sorted(self._operations, key=lambda one: one.called)
        return [*self.problems, "the changes are not linearizable:", *map(str, rows)]

    def events(self) -> list[Event]:
        return []

    @property
    def counts(self) -> str:
        return f"{self.answers['changed']:,} changes of a register, {self.answers['settings_changed']:,} refused"
