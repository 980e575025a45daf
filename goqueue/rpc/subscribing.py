"""Streams of messages for members of groups: joined with the call, left with its end.

What must stay true: a member whose client has left gives its messages in flight back at once, so the end of a call, for
whatever reason, is a leave. A client that takes no responses stays a member until the limit of a slow reader ends it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from time import monotonic
from typing import Any

import msgspec

from goqueue.errors import GenerationStale
from goqueue.limits import HEARTBEAT_SECONDS, RPC_EMPTY_POLL_SECONDS, WAIT_SECONDS_MAX
from goqueue.rpc.consuming import batches, bytes_of
from goqueue.rpc.session import CallSession, path_of
from goqueue.rpc.status import CallFailed, invalid_request
from goqueue.rpc.stored_messages import MessageReader
from goqueue.rpc.transcoding import seconds_of
from goqueue.rpc.v1 import consume_pb2, types_pb2
from goqueue.wire.headers import LEASES
from goqueue.wire.leases import LENGTH, LeaseDescription, PollHead

_AS_LEASES = (("accept", LEASES),)
_read_head = msgspec.json.Decoder(PollHead).decode

Place = tuple[str, int]


class Subscription:
    """One call of Subscribe."""

    def __init__(
        self,
        session: CallSession,
        request: Any,
        reader: MessageReader,
        leave_later: Callable[[Any], None],
    ) -> None:
        self._session = session
        self._request = request
        self._reader = reader
        self._leave_later = leave_later
        self._member = ""
        self._generation = 0
        self._is_current = True
        """False when the group may have given the member something else to process."""
        self._places: set[Place] = set()
        self._failure: CallFailed | None = None

    async def run(self) -> AsyncGenerator[Any, None]:
        if not self._request.group_id:
            raise invalid_request("group_id", "is missing")
        joined = await self._join()
        beating = asyncio.create_task(self._beat(min(HEARTBEAT_SECONDS, joined["session_timeout"] / 3)))
        try:
            yield self._assignment()
            while True:
                async with aclosing(self._poll()) as responses:
                    async for response in responses:
                        yield response
                    if not self._is_current:
                        for response in await self._reassigned():
                            yield response
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(beating, return_exceptions=True)
            self._leave_later(self._leave())

    # --- membership ---

    def _path(self, action: str) -> str:
        return path_of("/groups/{group}/" + action, group=self._request.group_id)

    async def _join(self) -> dict[str, Any]:
        request = self._request
        body: dict[str, Any] = {"topics": list(request.topics), "start": _start(request.start_position)}
        if request.consumer_id:
            body["client_id"] = request.consumer_id
        if request.member_id:
            body["member_id"] = request.member_id
        if request.HasField("session_timeout"):
            body["session_timeout"] = seconds_of(request.session_timeout)
        if request.max_in_flight:
            body["max_in_flight"] = request.max_in_flight
        if request.read_uncommitted:
            body["isolation"] = "read_uncommitted"
        joining = asyncio.ensure_future(self._session.ask("POST", self._path("join"), body=body))
        try:
            joined: dict[str, Any] = (await asyncio.shield(joining)).json
        except asyncio.CancelledError:  # the client has left, and its member must not stay
            self._leave_later(self._leave_after(joining))
            raise
        self._member, self._generation = joined["member_id"], joined["generation"]
        self._places = _places(joined["partitions"])
        return joined

    async def _leave_after(self, joining: "asyncio.Future[Any]") -> None:
        self._member = (await joining).json["member_id"]
        await self._leave()

    async def _leave(self) -> None:
        with suppress(CallFailed):  # its session has ended, or the broker stops
            await self._session.ask("POST", self._path("leave"), body={"member_id": self._member})

    async def _beat(self, seconds: float) -> None:
        """Send heartbeats: polls stop while the client does not take their messages."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self._session.ask("POST", self._path("heartbeat"), body={"member_id": self._member})
            except CallFailed as failed:
                self._failure = failed  # the next poll fails as well, and says why
                return

    # --- messages ---

    async def _poll(self) -> AsyncGenerator[Any, None]:
        began = monotonic()
        try:
            async with self._session.open("GET", self._path("poll"), self._poll_query(), headers=_AS_LEASES) as answer:
                body = memoryview(answer.body)
                (length,) = LENGTH.unpack_from(body)
                start = LENGTH.size + length
                head = _read_head(body[LENGTH.size : start])
                if head.leases and head.generation != self._generation:  # partitions came while the poll waited
                    for response in await self._reassigned():
                        yield response
                for lease in head.leases:
                    frames = body[start : start + lease.bytes]
                    start += lease.bytes
                    for response in self._batches(lease, frames):
                        yield response
        except CallFailed as failed:
            if failed.failure.reason != GenerationStale.code:
                raise
            self._is_current = False
            return
        self._is_current = not head.rebalance_required and head.generation == self._generation
        if not head.leases and monotonic() - began < RPC_EMPTY_POLL_SECONDS:
            await asyncio.sleep(RPC_EMPTY_POLL_SECONDS)

    def _poll_query(self) -> list[tuple[str, str]]:
        request = self._request
        query = [
            ("member_id", self._member),
            ("generation", str(self._generation)),
            ("max_bytes", str(bytes_of(request))),
            ("timeout", str(WAIT_SECONDS_MAX)),
        ]
        if request.max_messages:
            query.append(("max_messages", str(request.max_messages)))
        if request.HasField("visibility_timeout"):
            query.append(("visibility_timeout", str(seconds_of(request.visibility_timeout))))
        if request.skip_damage:
            query.append(("skip_damage", "true"))
        return query

    def _batches(self, lease: LeaseDescription, frames: memoryview) -> Any:
        batch = consume_pb2.MessageBatch(topic=lease.topic, partition=lease.partition, next_offset=lease.end)
        if self._request.frames:
            batch.lease.id, batch.lease.first, batch.lease.end = lease.lease, lease.first, lease.end
            batch.lease.attempt, batch.lease.failures = lease.attempt, lease.failures
            batch.lease.visibility_timeout.FromNanoseconds(round(lease.visibility * 1e9))
        return batches(
            self._reader, batch, frames, self._request.max_messages, as_frames=self._request.frames, lease=lease
        )

    # --- rebalances ---

    async def _reassigned(self) -> list[Any]:
        """Return what has changed: partitions that were taken, those that are new, and all of them."""
        answer = await self._session.ask("GET", self._path("assignment"), [("member_id", self._member)])
        found = answer.json
        before, self._places = self._places, _places(found["partitions"])
        revoked = (before - self._places) | _places(found["partitions_to_revoke"])
        was, self._generation = self._generation, found["generation"]
        if was == self._generation and before == self._places and not revoked:
            return []
        kinds = (
            (consume_pb2.REBALANCE_TYPE_REVOKE, revoked),
            (consume_pb2.REBALANCE_TYPE_ASSIGN, self._places - before),
        )
        responses = [
            consume_pb2.ConsumeResponse(
                rebalance=consume_pb2.RebalanceNotification(
                    type=kind, partitions=_references(places), generation=self._generation
                )
            )
            for kind, places in kinds
            if places
        ]
        return [*responses, self._assignment()]

    def _assignment(self) -> Any:
        return consume_pb2.ConsumeResponse(
            assignment=consume_pb2.Assignment(
                generation=self._generation, partitions=_references(self._places), member_id=self._member
            )
        )


def _start(position: int) -> str:
    if position == consume_pb2.CONSUME_START_POSITION_EARLIEST:
        return "earliest"
    if position == consume_pb2.CONSUME_START_POSITION_LATEST:
        return "latest"
    raise invalid_request(
        "start_position", "is not EARLIEST or LATEST", "reset the offsets of the group with OffsetService.ResetOffsets"
    )


def _places(rows: Any) -> set[Place]:
    return {(row["topic"], row["partition"]) for row in rows}


def _references(places: set[Place]) -> list[types_pb2.TopicPartition]:
    return [types_pb2.TopicPartition(topic=topic, partition=partition) for topic, partition in sorted(places)]
