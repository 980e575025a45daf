"""The requests of a group's member as bytes, and what is read of the answers."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from benchmarks.broker.server import LOOPBACK
from goqueue.client.member_requests import AssignmentResult, JoinResult
from goqueue.wire.headers import LEASES
from goqueue.wire.leases import LENGTH, LeaseDescription, PollHead

T = TypeVar("T")


def post(path: str, body: object) -> bytes:
    content = msgspec.json.encode(body)
    head = f"POST {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def get(path: str, accept: str = "application/json") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nAccept: {accept}\r\n\r\n".encode()


def join(group: str, topic: str, name: str, session: str, in_flight_max: int) -> bytes:
    """Join as a cooperative member."""
    options = {"topics": [topic], "client_id": name, "session_timeout": session, "max_in_flight": in_flight_max}
    return post(f"/groups/{group}/join/cooperative", options)


def heartbeat(group: str, member: str, generation: int) -> bytes:
    return post(f"/groups/{group}/heartbeat/cooperative", {"member_id": member, "generation": generation})


def assignment(group: str, member: str) -> bytes:
    return get(f"/groups/{group}/assignment?member_id={member}")


def revoke(group: str, member: str, found: AssignmentResult) -> bytes:
    said = {"member_id": member, "generation": found.generation, "revoked_partitions": found.partitions_to_revoke}
    return post(f"/groups/{group}/revoke", said)


def leave(group: str, member: str) -> bytes:
    return post(f"/groups/{group}/leave/cooperative", {"member_id": member})


def poll(group: str, member: str, generation: int, messages: int, size: int, wait: str) -> bytes:
    """Messages that stay leased for longer than anything here takes."""
    query = f"member_id={member}&generation={generation}&max_messages={messages}&max_bytes={size}"
    return get(f"/groups/{group}/poll?{query}&timeout={wait}&visibility_timeout=1h", LEASES)


def ack_leases(group: str, member: str, leases: Iterable[LeaseDescription]) -> bytes:
    acks = [
        {"topic": one.topic, "partition": one.partition, "lease": one.lease, "ranges": [[one.first, one.end]]}
        for one in leases
    ]
    return post(f"/groups/{group}/settle", {"member_id": member, "acks": acks})


def ack_message(lease: LeaseDescription, offset: int) -> bytes:
    """By its receipt."""
    receipt = f"{lease.topic}:{lease.partition}:{offset}:{lease.attempt}:{lease.lease}"
    return post("/messages/ack", {"receipt_handle": receipt})


def joined(body: bytes) -> JoinResult:
    return msgspec.json.decode(body, type=JoinResult)


def assigned(body: bytes) -> AssignmentResult:
    return msgspec.json.decode(body, type=AssignmentResult)


def polled(body: bytes) -> PollHead:
    """Without its frames."""
    (length,) = LENGTH.unpack_from(body)
    return msgspec.json.decode(memoryview(body)[LENGTH.size : LENGTH.size + length], type=PollHead)
