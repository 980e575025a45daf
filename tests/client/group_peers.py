"""A group with one member or a few, as the wire has it: what a consumer's test needs of a broker, and no more."""

import itertools
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from crc32c import crc32c

from goqueue.quantities import parse_duration
from goqueue.storage import frame
from tests.client.peers import Asked, Peer, Reply, peer, refusal, reply

Place = tuple[str, int]
LATE = {"error": {"error": "too late", "code": "lease_expired"}}
RESULTS: dict[str, dict[str, Any]] = {
    "acks": {},
    "nacks": {"requeued": 1, "dead_letters": 0},
    "rejects": {"dlq_topic": "t.dlq"},
    "releases": {},
    "extensions": {"new_deadline": "2026-01-01T00:00:00Z"},
}


@dataclass
class Given:
    """A lease, with what of it is not settled."""

    place: Place
    first: int
    end: int
    attempt: int
    open: set[int]


@dataclass(frozen=True)
class Wanted:
    """A request, taken apart."""

    member: str
    body: dict[str, Any]
    query: dict[str, str]


@dataclass
class Group:
    """Answers like a broker. `before` may answer instead, and `expired` are leases that are refused."""

    logs: dict[Place, list[tuple[int, bytes]]] = field(default_factory=dict)
    before: Callable[[Asked], Reply | bool] = lambda _: False
    visibility: float = 30.0
    heartbeat_interval: float = 30.0
    wakes: bool = True
    """Whether a poll ends when the assignment changes."""
    generation: int = 1
    members: dict[str, set[Place]] = field(default_factory=dict)
    to_revoke: set[Place] = field(default_factory=set)
    changed: bool = False
    leases: dict[str, Given] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    settled: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Action, topic, partition and offset, in their order."""
    settlements: list[dict[str, Any]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.news = threading.Condition()
        self._numbers = itertools.count(1)
        self._next: dict[Place, int] = {}
        self._back: dict[Place, list[tuple[int, int]]] = {}

    # --- what a test does ---

    def publish(self, *values: bytes, topic: str = "t", partition: int = 0, step: int = 1) -> None:
        with self.news:
            log = self.logs.setdefault((topic, partition), [])
            for value in values:
                log.append((log[-1][0] + step if log else 0, value))
            for places in self.members.values():
                places.add((topic, partition))
            self.news.notify_all()

    def wait_for(self, reached: Callable[[], bool]) -> None:
        with self.news:
            assert self.news.wait_for(reached, 10)

    def change(self, *, lose: Iterable[Place] = (), revoke: Iterable[Place] = (), gain: Iterable[Place] = ()) -> None:
        """Another assignment for the only member."""
        with self.news:
            (places,) = self.members.values()
            places -= set(lose)
            places |= set(gain)
            self.to_revoke |= set(revoke)
            self.generation += 1
            self.changed = True
            self.news.notify_all()

    def forget_members(self) -> None:
        with self.news:
            self.members.clear()
            self.leases.clear()
            self._next.clear()
            self.news.notify_all()

    def offsets(self, action: str, partition: int = 0) -> list[int]:
        with self.news:
            return [offset for done, _, place, offset in self.settled if done == action and place == partition]

    # --- what it answers ---

    def answer(self, asked: Asked) -> Reply:
        instead = self.before(asked)
        if instead is not False:
            assert not isinstance(instead, bool)
            return instead
        url = urlsplit(asked.target)
        _, _, _, action = url.path.split("/", 3)
        body = msgspec.json.decode(asked.body) if asked.body else {}
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        with self.news:
            known = query.get("member_id") or body.get("member_id")
            if not action.startswith("join") and known not in self.members:
                self._happened(f"{action} refused")
                return refusal("member_unknown", 409)
            result = getattr(self, "_" + action.removesuffix("/cooperative"))(Wanted(str(known), body, query))
            self._happened(action)
            return result  # type: ignore[no-any-return]

    def _happened(self, event: str) -> None:
        self.events.append(event)
        self.news.notify_all()

    def _join(self, wanted: Wanted) -> Reply:
        member = wanted.member if wanted.member in self.members else f"m{next(self._numbers)}"
        self.members[member] = set(self.logs)
        self.to_revoke, self.changed = set(), False
        return reply(
            {
                "member_id": member,
                "generation": self.generation,
                "partitions": _places(self.members[member]),
                "heartbeat_interval": self.heartbeat_interval,
                "session_timeout": 30.0,
            },
            201,
        )

    def _heartbeat(self, wanted: Wanted) -> Reply:
        return reply({"rebalance_required": self._is_behind(wanted.body["generation"]), "generation": self.generation})

    def _is_behind(self, generation: int) -> bool:
        return bool(self.to_revoke) or (self.changed and generation < self.generation)

    def _assignment(self, wanted: Wanted) -> Reply:
        return reply(
            {
                "member_id": wanted.member,
                "generation": self.generation,
                "partitions": _places(self.members[wanted.member] - self.to_revoke),
                "partitions_to_revoke": _places(self.to_revoke),
            }
        )

    def _revoke(self, wanted: Wanted) -> Reply:
        for place in wanted.body["revoked_partitions"]:
            gone = (place["topic"], place["partition"])
            self.to_revoke.discard(gone)
            self.members[wanted.member].discard(gone)
            for lease in [name for name, given in self.leases.items() if given.place == gone]:
                del self.leases[lease]
        self.generation += 1
        return reply({"status": "ok", "pending_count": 0, "rebalance_state": "stable", "generation": self.generation})

    def _leave(self, wanted: Wanted) -> Reply:
        del self.members[wanted.member]
        return reply({"left": True})

    def _poll(self, wanted: Wanted) -> Reply:
        generation = int(wanted.query["generation"])

        def ready() -> bool:
            return (
                wanted.member not in self.members
                or (self.wakes and self._is_behind(generation))
                or self._has_some(wanted.member)
            )

        self.news.wait_for(ready, parse_duration(wanted.query["timeout"].rstrip("0s").rstrip(".") or "0"))
        if wanted.member not in self.members:
            return refusal("member_unknown", 409)
        leases, frames = [], []
        if not self._is_behind(generation):
            for place in sorted(self.members[wanted.member]):
                leased, content = self._lease(place, int(wanted.query["max_messages"]))
                leases += leased
                frames += content
        head = {"generation": self.generation, "rebalance_required": self._is_behind(generation), "leases": leases}
        return leases_reply(head, frames)

    def _has_some(self, member: str) -> bool:
        return any(
            self._back.get(place) or self._next.get(place, 0) < len(self.logs[place])
            for place in self.members[member] - self.to_revoke
        )

    def _lease(self, place: Place, most: int) -> tuple[list[dict[str, Any]], list[bytes]]:
        log, at = self.logs[place], self._next.get(place, 0)
        back = self._back.get(place)
        if back:
            offset, attempt = back.pop(0)
            found = [pair for pair in log if pair[0] == offset]
        else:
            found, attempt = log[at : at + most], 1
            self._next[place] = at + len(found)
        if not found:
            return [], []
        first, end = found[0][0], found[-1][0] + 1
        name = f"lease{next(self._numbers)}"
        self.leases[name] = Given(place, first, end, attempt, {offset for offset, _ in found})
        content = b"".join(frame.encode(value, offset=offset, timestamp_ns=10**18) for offset, value in found)
        fields = {"topic": place[0], "partition": place[1], "lease": name, "first": first, "end": end}
        return [fields | {"attempt": attempt, "failures": 0, "visibility": self.visibility, "bytes": len(content)}], [
            content
        ]

    def _settle(self, wanted: Wanted) -> Reply:
        body = {name: entries for name, entries in wanted.body.items() if name != "member_id"}
        self.settlements.append(body)
        return reply({action: [self._settled(action, entry) for entry in entries] for action, entries in body.items()})

    def _settled(self, action: str, entry: dict[str, Any]) -> dict[str, Any]:
        name = entry["lease"]
        given = self.leases.get(name)
        if given is None or name in self.expired:
            return LATE
        for first, end in entry.get("ranges", ()):
            for offset in sorted(given.open & set(range(first, end))):
                given.open.discard(offset)
                self.settled.append((action, *given.place, offset))
                if action in {"nacks", "releases"}:
                    attempt = given.attempt + (action == "nacks")
                    self._back.setdefault(given.place, []).append((offset, attempt))
        return RESULTS[action]


def _places(places: set[Place]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition} for topic, partition in sorted(places)]


def leases_reply(head: dict[str, Any], frames: list[bytes]) -> bytes:
    encoded = msgspec.json.encode(head)
    body = b"".join((struct.pack(">I", len(encoded)), encoded, *frames))
    return reply(body, 200, x_goqueue_checksum=f"{crc32c(body):08x}")


@contextmanager
def group_of(group: Group) -> Iterator[Peer]:
    with peer(group.answer) as made:
        try:
            yield made
        finally:
            with group.news:
                group.members.clear()  # polls end
                group.news.notify_all()
