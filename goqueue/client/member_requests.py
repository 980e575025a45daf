"""Requests of a group's member, and the types of their answers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from goqueue.client.address import quote
from goqueue.client.api_request import ApiRequest, ApiResponse, error_of_response, json_request, unreadable_response
from goqueue.client.message import check
from goqueue.wire.headers import CHECKSUM, LEASES
from goqueue.wire.leases import LENGTH, PollHead

T = TypeVar("T")

JOIN_PATIENCE_SECONDS = 60.0
"""The time for which an eager group may wait for its other members to rejoin."""


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class JoinResult(msgspec.Struct, frozen=True):
    """The answer to a join."""

    member_id: str
    generation: int
    partitions: list[TopicPartition]
    heartbeat_interval: float
    session_timeout: float = 30.0


class HeartbeatResult(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""

    rebalance_required: bool
    generation: int = 0


class AssignmentResult(msgspec.Struct, frozen=True):
    """The partitions of a member. Those to revoke may be in both lists, or only in the second."""

    generation: int
    partitions: list[TopicPartition]
    partitions_to_revoke: list[TopicPartition] = []


class ReceivedPoll(msgspec.Struct, frozen=True):
    """An answer to a poll: the frames of all its leases follow each other from `position`."""

    head: PollHead
    content: bytes
    position: int


SettleResults = dict[str, list[dict[str, Any]]]
"""The results by action, one for each entry in its order."""


def _post(group: str, action: str, body: object, kind: type[T], patience: float = 0.0) -> ApiRequest[T]:
    return json_request("POST", f"/groups/{quote(group)}/{action}", kind, body, patience=patience)


def join(group: str, fields: dict[str, Any], member_id: str | None, *, cooperative: bool) -> ApiRequest[JoinResult]:
    known = {} if member_id is None else {"member_id": member_id}
    action = "join/cooperative" if cooperative else "join"
    return _post(group, action, fields | known, JoinResult, JOIN_PATIENCE_SECONDS)


def heartbeat(group: str, member_id: str, generation: int, *, cooperative: bool) -> ApiRequest[HeartbeatResult]:
    action = "heartbeat/cooperative" if cooperative else "heartbeat"
    return _post(group, action, {"member_id": member_id, "generation": generation}, HeartbeatResult)


def assignment(group: str, member_id: str) -> ApiRequest[AssignmentResult]:
    return json_request("GET", f"/groups/{quote(group)}/assignment?member_id={quote(member_id)}", AssignmentResult)


def revoke(group: str, member_id: str, generation: int, places: Iterable[TopicPartition]) -> ApiRequest[dict[str, Any]]:
    body = {"member_id": member_id, "generation": generation, "revoked_partitions": sorted(places)}
    return _post(group, "revoke", body, dict[str, Any])


def leave(group: str, member_id: str, *, cooperative: bool) -> ApiRequest[dict[str, Any]]:
    action = "leave/cooperative" if cooperative else "leave"
    return _post(group, action, {"member_id": member_id}, dict[str, Any])


def settle(group: str, member_id: str, entries: Mapping[str, Sequence[Mapping[str, Any]]]) -> ApiRequest[SettleResults]:
    """Return the request. It names no generation: the broker checks each lease."""
    return _post(group, "settle", {"member_id": member_id, **entries}, SettleResults)


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
) -> ApiRequest[ReceivedPoll]:
    query = f"member_id={quote(member_id)}&generation={generation}&max_messages={max_messages}&max_bytes={max_bytes}"
    query += f"&timeout={wait:.9f}s"
    if visibility is not None:
        query += f"&visibility_timeout={visibility:.9f}s"
    if skip_damage:
        query += "&skip_damage=true"
    return ApiRequest(
        "GET", f"/groups/{quote(group)}/poll?{query}", _polled, headers=(("accept", LEASES),), patience=wait
    )


def _polled(answer: ApiResponse) -> ReceivedPoll:
    if answer.status >= 300:
        raise error_of_response(answer)
    content = bytes(answer.body)  # slices of it, which messages return, must be bytes
    if len(content) < LENGTH.size:
        raise unreadable_response(answer, f"{len(content)} bytes are too few for leases")
    check(content, answer.header(CHECKSUM))
    position = LENGTH.size + LENGTH.unpack_from(content)[0]
    try:
        head = msgspec.json.decode(content[LENGTH.size : position], type=PollHead)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise unreadable_response(answer, error) from None
    told, left = sum(lease.bytes for lease in head.leases), len(content) - position
    if left != told or any(lease.bytes < 0 or lease.first >= lease.end for lease in head.leases):
        raise unreadable_response(answer, f"it has {left} bytes of frames, and its leases {told}")
    return ReceivedPoll(head, content, position)
