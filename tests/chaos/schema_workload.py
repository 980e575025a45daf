"""Clients of the schema registry at any node: each schema has one id, each id one schema, for ever and at all nodes."""

import asyncio
import time
from urllib.parse import quote

import msgspec

from goqueue.testing.history.events import Event
from tests.chaos.http_client import HttpClient, Unanswered
from tests.chaos.watch import Gaps
from tests.chaos.workload import JSON, SETTLE_SECONDS, Surroundings, Workload

_CLIENTS = 3
_SUBJECTS = 3
_ANSWER_SECONDS = 5.0
_PAUSE_SECONDS = 0.03
_NEW = 0.5
"""The part of registrations that are of a new schema; the others repeat one."""


class SchemaWorkload(Workload):
    """Registers new and known schemas at any node, and reads ids at others."""

    name = "schemas"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._texts: list[str] = []
        """Schemas that were sent, answered or not."""
        self._ids: dict[str, int] = {}
        self._owners: dict[int, str] = {}
        """The schemas of ids, as they were first seen."""
        self._versions: dict[tuple[str, int], int] = {}
        """Acknowledged versions, with their ids."""

    async def prepare(self) -> None:
        await self.ask_anyone("PUT", "/config", b'{"compatibility": "NONE"}')
        self.progress = {"registrations": Gaps()}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(_CLIENTS):
                group.create_task(self._register_all())
                group.create_task(self._read_all())

    def _node(self) -> str:
        return self.chance.choice([*self.surroundings.addresses.values()])

    async def _register_all(self) -> None:
        with HttpClient() as client:
            while not self.is_over:
                if not self._texts or self.chance.random() < _NEW:
                    self._texts.append(_schema(len(self._texts)))
                await self._register(client, self.chance.choice(self._texts[-20:]))
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _register(self, client: HttpClient, text: str) -> None:
        subject = f"s{self.chance.randrange(_SUBJECTS)}"
        body = msgspec.json.encode({"schema": text})
        try:
            answer = await client.ask(
                self._node(), "POST", f"/subjects/{subject}/versions", body, JSON, seconds=_ANSWER_SECONDS
            )
        except Unanswered:
            self.answers["unanswered"] += 1
            return
        if answer.status == 200:
            self.progress["registrations"].works()
            self.answers["registered"] += 1
            self._note(subject, text, answer.json["id"], answer.json["version"])
            return
        self.answers[answer.code] += 1
        if answer.status < 500:
            self.complain(f"registering was refused: {answer.status} {answer.body[:200]!r}")

    def _note(self, subject: str, text: str, number: int, version: int) -> None:
        if self._ids.setdefault(text, number) != number:
            self.complain(f"{text} has the ids {self._ids[text]} and {number}")
        if self._owners.setdefault(number, text) != text:
            self.complain(f"id {number} was given to {self._owners[number]} and {text}")
        if self._versions.setdefault((subject, version), number) != number:
            self.complain(f"version {version} of {subject} has the ids {self._versions[subject, version]} and {number}")

    async def _read_all(self) -> None:
        with HttpClient() as client:
            while not self.is_over:
                await asyncio.sleep(_PAUSE_SECONDS)
                if self._owners:
                    number = self.chance.choice([*self._owners][-20:])
                    await self._read(client, self._node(), number)

    async def _read(self, client: HttpClient, url: str, number: int) -> bool:
        """Read a schema by an id that was acknowledged; return whether there was an answer."""
        try:
            answer = await client.ask(url, "GET", f"/schemas/ids/{number}", seconds=_ANSWER_SECONDS)
        except Unanswered:
            return False
        self.answers["read" if answer.status == 200 else answer.code] += 1
        if answer.status == 200 and answer.json["schema"] != self._owners[number]:
            self.complain(f"id {number} is read as {answer.json['schema']}, and was given to {self._owners[number]}")
        if answer.status in range(400, 500):
            self.complain(f"id {number} was acknowledged, and is not there: {answer.status} {answer.body[:200]!r}")
        return answer.status == 200

    async def settle(self) -> None:
        """Read all ids and versions at each node."""
        for name, url in self.surroundings.addresses.items():
            with HttpClient() as client:
                for number in self._owners:
                    deadline = time.monotonic() + SETTLE_SECONDS
                    while not await self._read(client, url, number):
                        assert time.monotonic() < deadline, f"id {number} cannot be read at {name}"
                        await asyncio.sleep(_PAUSE_SECONDS)
                for (subject, version), number in self._versions.items():
                    path = f"/subjects/{quote(subject)}/versions/{version}"
                    answer = await client.ask(url, "GET", path, seconds=_ANSWER_SECONDS)
                    if answer.status != 200 or answer.json["id"] != number:
                        self.complain(
                            f"version {version} of {subject} at {name}: {answer.status} {answer.body[:200]!r}"
                        )

    def judge(self) -> list[str]:
        return self.problems

    def events(self) -> list[Event]:
        return []

    @property
    def counts(self) -> str:
        return f"{len(self._owners):,} ids for {self.answers['registered']:,} registrations"


def _schema(number: int) -> str:
    return f'{{"type":"record","name":"R","fields":[{{"name":"f{number}","type":"long"}}]}}'
