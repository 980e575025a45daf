"""The requests of a group's member as bytes, and what is read of the answers."""

import struct
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from benchmarks.broker.server import LOOPBACK
from goqueue.client.polls import LEASES, Assignment, Head, Joined, Leased

T = TypeVar("T")
_LENGTH = struct.Struct(">I")


def post(path: str, body: object) -> bytes:
    content = msgspec.json.encode(body)
    head = f"POST {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def get(path: str, accept: str = "application/json") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nAccept: {accept}\r\n\r\n".encode()


def join(group: str, topic: str, name: str, session: str, in_flight_max: int) -> bytes:
    """Of a member that gives partitions up by itself, and lets the others go on meanwhile."""
    wishes = {"topics": [topic], "client_id": name, "session_timeout": session, "max_in_flight": in_flight_max}
    return post(f"/groups/{group}/join/cooperative", wishes)


def heartbeat(group: str, member: str, generation: int) -> bytes:
    return post(f"/groups/{group}/heartbeat/cooperative", {"member_id": member, "generation": generation})


def assignment(group: str, member: str) -> bytes:
    return get(f"/groups/{group}/assignment?member_id={member}")


def revoke(group: str, member: str, found: Assignment) -> bytes:
    said = {"member_id": member, "generation": found.generation, "revoked_partitions": found.partitions_to_revoke}
    return post(f"/groups/{group}/revoke", said)


def leave(group: str, member: str) -> bytes:
    return post(f"/groups/{group}/leave/cooperative", {"member_id": member})


def poll(group: str, member: str, generation: int, messages: int, size: int, wait: str) -> bytes:
    """Messages that stay leased for longer than anything here takes."""
    query = f"member_id={member}&generation={generation}&max_messages={messages}&max_bytes={size}"
    return get(f"/groups/{group}/poll?{query}&timeout={wait}&visibility_timeout=1h", LEASES)


def ack_leases(group: str, member: str, leases: Iterable[Leased]) -> bytes:
    acks = [
        {"topic": one.topic, "partition": one.partition, "lease": one.lease, "ranges": [[one.first, one.end]]}
        for one in leases
    ]
    return post(f"/groups/{group}/settle", {"member_id": member, "acks": acks})


def ack_message(lease: Leased, offset: int) -> bytes:
    """By its receipt."""
    receipt = f"{lease.topic}:{lease.partition}:{offset}:{lease.attempt}:{lease.lease}"
    return post("/messages/ack", {"receipt_handle": receipt})


def joined(body: bytes) -> Joined:
    return msgspec.json.decode(body, type=Joined)


def assigned(body: bytes) -> Assignment:
    return msgspec.json.decode(body, type=Assignment)


def polled(body: bytes) -> Head:
    """Without its frames."""
    (length,) = _LENGTH.unpack_from(body)
    return msgspec.json.decode(memoryview(body)[_LENGTH.size : _LENGTH.size + length], type=Head)
