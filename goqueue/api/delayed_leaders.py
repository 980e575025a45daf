"""Lists and changes of the delayed messages of a topic, for which the leaders of its partitions are asked."""

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec

from goqueue.api.endpoint import ApiCall
from goqueue.api.http.message import HttpRequest
from goqueue.api.message_json import Encoding
from goqueue.api.operations import OperationId
from goqueue.broker.core.leadership import Leadership
from goqueue.cluster.refusals import Refusal, error_of
from goqueue.errors import BrokerUnreachable, GoQueueError, LeadershipLost, RequestTimedOut
from goqueue.limits import DELAY_SECONDS_FOR_REQUEST, READ_MESSAGES_MAX

T = TypeVar("T")

_LIST_SECONDS = 5.0


DelayedState = Literal["pending", "delivered", "cancelled", "expired"]


class DelayedSummaryJson(msgspec.Struct, omit_defaults=True):
    """A delayed message without its content."""

    topic: str
    partition: int
    offset: int
    deliver_at: str
    priority: int
    state: DelayedState
    key: str | None
    size: Annotated[int, msgspec.Meta(description="Bytes of its frame in the delayed log.")]
    scheduled_at: str | None
    key_encoding: Encoding | msgspec.UnsetType = msgspec.UNSET


class DelayedListResponse(msgspec.Struct, omit_defaults=True):
    messages: list[DelayedSummaryJson]
    count: int
    total: Annotated[int, msgspec.Meta(description="Pending messages of the topic, or of the partition.")]
    complete: Annotated[
        bool, msgspec.Meta(description="False if filters had no time for all messages; otherwise omitted.")
    ] = True


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
        try:
            answer = await here(part) if is_here or role is None else await _asked(call, role, chosen)
        except GoQueueError:
            if not found.changed:
                raise
            found.complete = False  # what was changed is told; an error would say that nothing was
            break
        found.matched += answer.matched
        found.scanned += answer.scanned
        found.changed += answer.changed
        found.complete &= answer.complete
        operations.add(answer.operation)
    if len(operations) == 1:
        found.operation = operations.pop()
    return found


async def list_everywhere(
    call: ApiCall, query: Any, here: Callable[[Any], Awaitable[DelayedListResponse]]
) -> DelayedListResponse:
    """List the delayed messages of a topic: `here`, or at the leaders if some partitions have no replica here."""
    partitions = call.runtime.broker.topic(call.parameters["topic"]).partitions
    roles = [one.leadership for one in partitions if one.leadership is not None]
    is_here = all(role.has_replica or not role.replicas for role in roles)
    limit = query.skip + query.limit
    if query.partition is not None or is_here or call.app.led is None or limit > READ_MESSAGES_MAX:
        return await here(query)
    pages: list[DelayedListResponse] = []
    for role in roles:
        chosen = {"partition": role.partition, "limit": limit, "skip": 0}
        if role.leader in ("", role.node):
            pages.append(await here(msgspec.structs.replace(query, **chosen)))
        else:
            request, given = copy(call.request), parse_qsl(call.request.query, keep_blank_values=True)
            request.query = urlencode([*((name, text) for name, text in given if name not in chosen), *chosen.items()])
            pages.append(await _answer_of(call, role, request, _LIST_SECONDS, DelayedListResponse))
    rows = sorted((row for page in pages for row in page.messages), key=lambda row: row.deliver_at)
    first = pages[0]
    first.messages = rows[query.skip : limit]
    first.count, first.total = len(first.messages), sum(page.total for page in pages)
    first.complete = all(page.complete for page in pages)
    return first


async def _asked(call: ApiCall, role: Leadership, chosen: dict[str, int | None]) -> DelayedChangesResponse:
    """Have the leader of a partition make the change there, with the rights of the client."""
    request = copy(call.request)
    fields = msgspec.json.decode(request.body) if request.body else {}
    request.body = bytearray(msgspec.json.encode({**fields, **chosen}))
    request.headers = {**request.headers, "content-type": "application/json"}
    try:
        return await _answer_of(call, role, request, DELAY_SECONDS_FOR_REQUEST, DelayedChangesResponse)
    except (BrokerUnreachable, RequestTimedOut) as error:
        raise LeadershipLost(
            f"{error.sentence}: whether delayed messages of partition {chosen['partition']} were changed is unknown",
            hint="look at them before it is tried again",
            retry_after=1,
        ) from None


async def _answer_of(call: ApiCall, role: Leadership, request: HttpRequest, seconds: float, kind: type[T]) -> T:
    """Return the answer of the leader of a partition. Raises its error, BrokerUnreachable and RequestTimedOut."""
    assert call.app.led is not None, "only nodes of a cluster ask each other"
    response = await call.app.led.ask_node(role.leader, request, seconds)
    content = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    if response.status != 200:
        problem = msgspec.json.decode(content)
        raise error_of(Refusal(problem["code"], problem["error"], problem.get("hint"), problem.get("details") or {}))
    return msgspec.json.decode(content, type=kind)
