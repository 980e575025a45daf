"""Committed offsets: lists of partitions here, objects by topic over HTTP."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from goqueue.errors import GroupNotFound, OffsetOutOfRange, PartitionNotFound, PartitionNotOwned, TopicNotFound
from goqueue.rpc.session import CallSession, path_of
from goqueue.rpc.status import CallFailed, invalid_request
from goqueue.rpc.transcoding import time_of
from goqueue.rpc.v1 import offset_pb2

_NONE = -1
_OF_OFFSETS = {kind.code for kind in (OffsetOutOfRange, PartitionNotFound, PartitionNotOwned, TopicNotFound)}


def _path(request: Any, action: str = "offsets") -> str:
    if not request.group_id:
        raise invalid_request("group_id", "is missing")
    return path_of("/groups/{group}/" + action, group=request.group_id)


def by_topic(offsets: Iterable[Any]) -> dict[str, dict[str, int]]:
    """Return offsets as JSON has them."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for one in offsets:
        found[one.topic][str(one.partition)] = one.offset
    return dict(found)


async def commit(session: CallSession, request: Any) -> Any:
    body: dict[str, Any] = {"offsets": by_topic(request.offsets)}
    if request.member_id:
        body["member_id"] = request.member_id
    if request.generation:
        body["generation"] = request.generation
    error = None
    try:
        await session.ask("POST", _path(request), body=body)  # all of them, or none
    except CallFailed as failed:
        if failed.failure.reason not in _OF_OFFSETS:
            raise
        error = failed.failure.error
    response = offset_pb2.CommitOffsetsResponse()
    for one in request.offsets:
        response.results.add(topic=one.topic, partition=one.partition, success=error is None, error=error)
    return response


async def fetch(session: CallSession, request: Any) -> Any:
    found, error = {}, None
    try:
        found = (await session.ask("GET", _path(request))).json["offsets"]
    except CallFailed as failed:
        if not request.partitions or failed.failure.reason != GroupNotFound.code:
            raise
        error = failed.failure.error
    chosen = [(one.topic, one.partition) for one in request.partitions] or [
        (topic, int(number)) for topic, numbers in found.items() for number in numbers
    ]
    results = [
        offset_pb2.OffsetFetchResult(
            topic=topic, partition=partition, offset=found.get(topic, {}).get(str(partition), _NONE), error=error
        )
        for topic, partition in chosen
    ]
    return offset_pb2.FetchOffsetsResponse(offsets=results)


async def reset(session: CallSession, request: Any) -> Any:
    path, response = _path(request, "offsets/reset"), offset_pb2.ResetOffsetsResponse()
    is_single = sum(1 for _ in _resets(request)) == 1
    for topic, body in _resets(request):
        try:
            found = (await session.ask("POST", path, body={"topic": topic, "dry_run": request.dry_run, **body})).json
        except CallFailed as failed:
            if is_single:
                raise
            partitions = body.get("partitions", [0])  # those of other topics are reset
            for number in partitions:
                response.results.add(topic=topic, partition=number, error=failed.failure.error)
            continue
        for row in found["partitions"]:
            before = _NONE if row["before"] is None else row["before"]
            response.results.add(topic=topic, partition=row["partition"], old_offset=before, new_offset=row["after"])
    return response


def _resets(request: Any) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the topics, each with what its request says: one for each offset, else one for each topic."""
    if request.strategy == offset_pb2.OFFSET_RESET_STRATEGY_OFFSET:
        for one in request.offsets:
            yield one.topic, {"to": "offset", "offset": one.offset, "partitions": [one.partition]}
        if not request.offsets:
            raise invalid_request("offsets", "are missing: the strategy is OFFSET")
        return
    target: dict[str, Any]
    if request.strategy == offset_pb2.OFFSET_RESET_STRATEGY_EARLIEST:
        target = {"to": "earliest"}
    elif request.strategy == offset_pb2.OFFSET_RESET_STRATEGY_LATEST:
        target = {"to": "latest"}
    elif request.strategy == offset_pb2.OFFSET_RESET_STRATEGY_TIMESTAMP:
        target = {"to": "time", "time": time_of(request.timestamp)}
    else:
        raise invalid_request("strategy", "is missing")
    topics: dict[str, list[int]] = {request.topic: []} if request.topic else {}
    for one in request.partitions:
        topics.setdefault(one.topic, []).append(one.partition)
    if not topics:
        raise invalid_request("topic", "is missing", "give a topic, or partitions")
    for topic, partitions in topics.items():
        yield topic, {**target, **({"partitions": partitions} if partitions else {})}
