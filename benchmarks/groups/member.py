"""A member of a group over plain HTTP, which does what it is asked for and looks at no message."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from benchmarks.broker.load import Connection
from benchmarks.groups import wire
from goqueue.limits import READ_BYTES
from goqueue.wire.leases import LeaseDescription

MESSAGES = 10_000
IN_FLIGHT_MAX = 1_000_000
SESSION = "30s"
WAIT = "5s"


class Talk(Connection):
    """A connection whose answers are kept whole."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    @classmethod
    async def open(cls, port: int) -> "Talk":
        talk = await super().open(port)
        assert isinstance(talk, Talk)
        return talk

    def on_body(self, part: bytes) -> None:
        super().on_body(part)
        self._parts.append(part)

    async def answer(self, request: bytes) -> bytes:
        self._parts.clear()
        await self.ask(request)
        return b"".join(self._parts)


class Member:
    """One thing after the other: whatever is asked meanwhile waits."""

    def __init__(self, talk: Talk, group: str, topic: str) -> None:
        self.talk = talk
        self.id = ""
        self.generation = 0
        self.partitions: set[int] = set()
        self.is_asked = False
        """Whether there is something about its partitions that it should look at."""
        self.on_told: Callable[[], None] = lambda: None
        """Called when it was told what its partitions are."""
        self._group = group
        self._topic = topic

    async def join(self, name: str, *, session: str = SESSION, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        request = wire.join(self._group, self._topic, name, session, in_flight_max)
        found = wire.joined(await self.talk.answer(request))
        self.id, self.generation = found.member_id, found.generation
        self._tell({place.partition for place in found.partitions})

    async def poll(
        self, messages: int = MESSAGES, *, size: int = READ_BYTES, wait: str = WAIT
    ) -> Sequence[LeaseDescription]:
        request = wire.poll(self._group, self.id, self.generation, messages, size, wait)
        head = wire.polled(await self.talk.answer(request))
        self.is_asked = head.rebalance_required
        return head.leases

    async def ack(self, leases: Sequence[LeaseDescription]) -> None:
        """All of their messages; returns when that is durable."""
        answer = await self.talk.answer(wire.ack_leases(self._group, self.id, leases))
        if b'"error"' in answer:
            raise RuntimeError(f"an acknowledgement was refused: {answer[:300].decode()}")

    async def look(self) -> None:
        """Give up what was asked for, until that is nothing, and see what there is."""
        while True:
            found = wire.assigned(await self.talk.answer(wire.assignment(self._group, self.id)))
            self.generation = found.generation
            self._tell({place.partition for place in found.partitions})
            if not found.partitions_to_revoke:
                self.is_asked = False
                return
            await self.talk.answer(wire.revoke(self._group, self.id, found))

    def _tell(self, partitions: set[int]) -> None:
        self.partitions = partitions
        self.on_told()

    async def leave(self) -> None:
        await self.talk.answer(wire.leave(self._group, self.id))

    def close(self) -> None:
        self.talk.close()


async def together(port: int, group: str, topic: str, count: int, partitions: int) -> list[Member]:
    """So many members of a new group, when each partition is one's."""
    members = [Member(await Talk.open(port), group, topic) for _ in range(count)]
    await asyncio.gather(*(member.join(f"member-{number}") for number, member in enumerate(members)))
    while sum(len(member.partitions) for member in members) < partitions:
        await asyncio.gather(*(member.look() for member in members))
    return members


async def asked(port: int, path: str) -> Any:
    """Return the broker's answer at a path."""
    talk = await Talk.open(port)
    try:
        return msgspec.json.decode(await talk.answer(wire.get(path)))
    finally:
        talk.close()
