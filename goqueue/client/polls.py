"""The calls of a group's member, as values, and what comes back, as types."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from goqueue.client import refusals
from goqueue.client.address import quote
from goqueue.client.calls import Answer, Call
from goqueue.client.endpoints import JSON, decoded
from goqueue.client.message import check

T = TypeVar("T")

LEASES = "application/vnd.goqueue.leases"
JOIN_PATIENCE_SECONDS = 60.0
"""How long an eager group may wait for its other members to join again."""

_LENGTH = struct.Struct(">I")


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    """One partition of a topic: what the members of a group share out among them."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Joined(msgspec.Struct, frozen=True):
    """What a member is told when it has joined."""

    member_id: str
    generation: int
    partitions: list[TopicPartition]
    heartbeat_interval: float
    session_timeout: float = 30.0


class Beat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""

    rebalance_required: bool
    generation: int = 0


class Assignment(msgspec.Struct, frozen=True):
    """What a member has; what it has to give up stands among the first, or only in the second."""

    generation: int
    partitions: list[TopicPartition]
    partitions_to_revoke: list[TopicPartition] = []


class Leased(msgspec.Struct, frozen=True):
    """A lease as the broker describes it: offsets from `first` up to `end`."""

    topic: str
    partition: int
    lease: str
    first: int
    end: int
    attempt: int
    visibility: float
    bytes: int
    failures: int = 0


class Head(msgspec.Struct, frozen=True):
    generation: int
    rebalance_required: bool
    leases: list[Leased]


class Polled(msgspec.Struct, frozen=True):
    """An answer to a poll: the frames of all its leases stand back to back from `position`."""

    head: Head
    content: bytes
    position: int


Results = dict[str, list[dict[str, Any]]]
"""For each kind of settlement one result for each entry, in their order."""


def _post(group: str, action: str, body: object, kind: type[T], patience: float = 0.0) -> Call[T]:
    path = f"/groups/{quote(group)}/{action}"
    return Call(
        "POST",
        path,
        lambda answer: decoded(answer, kind),
        (msgspec.json.encode(body),),
        JSON,
        patience=patience,
    )


def join(group: str, wishes: dict[str, Any], member_id: str | None, *, cooperative: bool) -> Call[Joined]:
    known = {} if member_id is None else {"member_id": member_id}
    action = "join/cooperative" if cooperative else "join"
    return _post(group, action, wishes | known, Joined, JOIN_PATIENCE_SECONDS)


def heartbeat(group: str, member_id: str, generation: int, *, cooperative: bool) -> Call[Beat]:
    action = "heartbeat/cooperative" if cooperative else "heartbeat"
    return _post(group, action, {"member_id": member_id, "generation": generation}, Beat)


def assignment(group: str, member_id: str) -> Call[Assignment]:
    path = f"/groups/{quote(group)}/assignment?member_id={quote(member_id)}"
    return Call("GET", path, lambda answer: decoded(answer, Assignment), headers=JSON)


def revoke(group: str, member_id: str, generation: int, places: Iterable[TopicPartition]) -> Call[dict[str, Any]]:
    body = {"member_id": member_id, "generation": generation, "revoked_partitions": sorted(places)}
    return _post(group, "revoke", body, dict[str, Any])


def leave(group: str, member_id: str, *, cooperative: bool) -> Call[dict[str, Any]]:
    action = "leave/cooperative" if cooperative else "leave"
    return _post(group, action, {"member_id": member_id}, dict[str, Any])


def settle(group: str, member_id: str, entries: Mapping[str, Sequence[Mapping[str, Any]]]) -> Call[Results]:
    """Without a generation: a lease says itself whether it still holds."""
    return _post(group, "settle", {"member_id": member_id, **entries}, Results)


def poll(  # noqa: PLR0913 - the query of one request
    group: str,
    member_id: str,
    generation: int,
    *,
    max_messages: int,
    max_bytes: int,
    wait: float,
    visibility: float | None,
    skip_damage: bool,
) -> Call[Polled]:
    query = f"member_id={quote(member_id)}&generation={generation}&max_messages={max_messages}&max_bytes={max_bytes}"
    query += f"&timeout={wait:.9f}s"
    if visibility is not None:
        query += f"&visibility_timeout={visibility:.9f}s"
    if skip_damage:
        query += "&skip_damage=true"
    return Call("GET", f"/groups/{quote(group)}/poll?{query}", _polled, headers=(("accept", LEASES),), patience=wait)


def _polled(answer: Answer) -> Polled:
    if answer.status >= 300:
        raise refusals.of_answer(answer)
    content = bytes(answer.body)  # slices of it are bytes, which a message gives away
    if len(content) < _LENGTH.size:
        raise refusals.unreadable(answer, f"{len(content)} bytes are too few for leases")
    check(content, answer.header(b"x-goqueue-checksum"))
    position = _LENGTH.size + _LENGTH.unpack_from(content)[0]
    try:
        head = msgspec.json.decode(content[_LENGTH.size : position], type=Head)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise refusals.unreadable(answer, error) from None
    told, left = sum(lease.bytes for lease in head.leases), len(content) - position
    if left != told or any(lease.bytes < 0 or lease.first >= lease.end for lease in head.leases):
        raise refusals.unreadable(answer, f"it has {left} bytes of frames, and its leases {told}")
    return Polled(head, content, position)
