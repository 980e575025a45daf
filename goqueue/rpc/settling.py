"""Acks, nacks, rejects and extensions, by receipt handle or by ranges of leases."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from goqueue.quantities import parse_time
from goqueue.rpc.session import CallSession, path_of
from goqueue.rpc.status import CallFailed, described_failure, invalid_request
from goqueue.rpc.transcoding import seconds_of, timestamp
from goqueue.rpc.v1 import ack_pb2

_PARTS = ("acks", "nacks", "rejects", "releases", "extensions")


async def ack(session: CallSession, request: Any) -> Any:
    await session.ask("POST", "/messages/ack", body=_named(request))
    return ack_pb2.AckResponse(success=True)


async def nack(session: CallSession, request: Any) -> Any:
    body = _named(request)
    if request.HasField("visibility_timeout"):
        body["delay"] = seconds_of(request.visibility_timeout)
    if request.reason:
        body["reason"] = request.reason
    found = (await session.ask("POST", "/messages/nack", body=body)).json
    (result,) = found["results"]
    return ack_pb2.NackResponse(success=found["requeued"], dlq_topic=result.get("dlq_topic") or "")


async def reject(session: CallSession, request: Any) -> Any:
    body = _named(request)
    if request.reason:
        body["reason"] = request.reason
    found = (await session.ask("POST", "/messages/reject", body=body)).json
    return ack_pb2.RejectResponse(success=found["rejected"], dlq_topic=found["dlq_topic"] or "")


async def extend(session: CallSession, request: Any) -> Any:
    if not request.HasField("visibility_timeout"):
        raise invalid_request("visibility_timeout", "is missing")
    body = {**_named(request), "timeout": seconds_of(request.visibility_timeout)}
    found = (await session.ask("POST", "/messages/visibility", body=body)).json
    response = ack_pb2.ExtendVisibilityResponse(success=found["extended"])
    if text := found["new_deadline"]:
        response.new_deadline.CopyFrom(timestamp(parse_time(text)))
    return response


def _named(request: Any) -> dict[str, Any]:
    if not request.receipt_handle:
        raise invalid_request(
            "receipt_handle", "is missing", "send that of the message; offsets are committed with OffsetService"
        )
    return {"receipt_handle": request.receipt_handle}


async def ack_batch(session: CallSession, request: Any) -> Any:
    if request.offsets or not request.receipt_handles:
        raise invalid_request("receipt_handles", "are needed", "offsets are committed with OffsetService.CommitOffsets")
    response = ack_pb2.BatchAckResponse()
    try:
        answer = await session.ask("POST", "/messages/ack", body={"receipt_handles": list(request.receipt_handles)})
    except CallFailed as failed:
        if failed.failure.reason not in {"lease_expired", "receipt_invalid"}:
            raise
        for handle in request.receipt_handles:  # none of them counts any more
            response.failures.add(receipt_handle=handle, error=failed.failure.error)
        return response
    for result in answer.json["results"]:
        if "error" in result:
            error = described_failure(result["error"]).error
            response.failures.add(receipt_handle=result["receipt_handle"], error=error)
        else:
            response.success_count += 1
    return response


# --- leases ---


async def settle(session: CallSession, request: Any) -> Any:
    if not request.group:
        raise invalid_request("group", "is missing")
    body: dict[str, Any] = {"member_id": request.member_id}
    if request.HasField("generation"):
        body["generation"] = request.generation
    for part in _PARTS[:-1]:
        if entries := getattr(request, part):
            body[part] = [_ranges(entry) for entry in entries]
    if request.extensions:
        body["extensions"] = [
            {"topic": one.topic, "partition": one.partition, "lease": one.lease, "timeout": seconds_of(one.timeout)}
            for one in request.extensions
        ]
    answer = (await session.ask("POST", path_of("/groups/{group}/settle", group=request.group), body=body)).json
    response = ack_pb2.SettleResponse(correlation_id=request.correlation_id)
    for part in _PARTS:
        for result in answer[part]:
            _fill(getattr(response, part).add(), result)
    return response


def _ranges(entry: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "topic": entry.topic,
        "partition": entry.partition,
        "lease": entry.lease,
        "ranges": [(one.first, one.end) for one in entry.ranges],
    }
    if entry.HasField("delay"):
        body["delay"] = seconds_of(entry.delay)
    if entry.reason:
        body["reason"] = entry.reason
    return body


def _fill(message: Any, result: dict[str, Any]) -> None:
    if "error" in result:
        message.error.CopyFrom(described_failure(result["error"]).error)
    message.requeued = result.get("requeued", False)
    message.dead_letters = result.get("dead_letters", 0)
    message.dropped = result.get("dropped", 0)
    message.dlq_topic = result.get("dlq_topic") or ""
    if text := result.get("new_deadline"):
        message.new_deadline.CopyFrom(timestamp(parse_time(text)))


async def settle_stream(session: CallSession, requests: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    async for request in requests:
        try:
            yield await settle(session, request)
        except CallFailed as failed:
            yield ack_pb2.SettleResponse(correlation_id=request.correlation_id, error=failed.failure.error)
