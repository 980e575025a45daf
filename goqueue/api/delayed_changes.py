"""Changes of many delayed messages of a topic, which the leaders of its partitions make."""

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Annotated, Any

import msgspec

from goqueue.api.endpoint import ApiCall
from goqueue.api.operations import OperationId
from goqueue.broker.core.leadership import Leadership
from goqueue.cluster.refusals import Refusal, error_of
from goqueue.limits import DELAY_SECONDS_FOR_REQUEST


class DelayedChangesResponse(msgspec.Struct):
    matched: int
    scanned: int
    changed: int
    complete: Annotated[bool, msgspec.Meta(description="Whether all were examined in the time of a request.")]
    operation: OperationId = None


async def change_everywhere(
    call: ApiCall, body: Any, here: Callable[[Any], Awaitable[DelayedChangesResponse]]
) -> DelayedChangesResponse:
    """Change the messages of a topic: `here`, or one partition after the other where several nodes lead them."""
    partitions = call.runtime.broker.topic(call.parameters["topic"]).partitions
    others = [one.leadership for one in partitions if one.leadership is not None and not one.leadership.is_leading]
    if body.partition is not None or not others or call.app.led is None or call.request.decoded is not None:
        return await here(body)
    found, operations = DelayedChangesResponse(0, 0, 0, True), set[Any]()
    for partition in partitions:
        left = None if body.limit is None else body.limit - found.matched
        if left == 0:
            break
        chosen, role = {"partition": partition.number, "limit": left}, partition.leadership
        part = msgspec.structs.replace(body, **chosen)
        is_here = role is None or role.leader in ("", role.node)
        answer = await here(part) if is_here or role is None else await _asked(call, role, chosen)
        found.matched += answer.matched
        found.scanned += answer.scanned
        found.changed += answer.changed
        found.complete &= answer.complete
        operations.add(answer.operation)
    if len(operations) == 1:
        found.operation = operations.pop()
    return found


async def _asked(call: ApiCall, role: Leadership, chosen: dict[str, int | None]) -> DelayedChangesResponse:
    """Have the leader of a partition make the change there, with the rights of the client."""
    assert call.app.led is not None, "only nodes of a cluster ask each other"
    request = copy(call.request)
    fields = msgspec.json.decode(request.body) if request.body else {}
    request.body = bytearray(msgspec.json.encode({**fields, **chosen}))
    request.headers = {**request.headers, "content-type": "application/json"}
    response = await call.app.led.ask_node(role.leader, request, DELAY_SECONDS_FOR_REQUEST)
    content = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    if response.status != 200:
        problem = msgspec.json.decode(content)
        raise error_of(Refusal(problem["code"], problem["error"], problem.get("hint"), problem.get("details") or {}))
    return msgspec.json.decode(content, type=DelayedChangesResponse)
