"""Charges of requests in the world of a tenant, before their handlers run.

`CHARGES` has the endpoints that cost something. Each charge wraps the work of the handler: it raises before anything is
changed, delays polls and reads, and gives back what was charged for work that failed. Without tenants none is called.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NoReturn

from msgspec import UNSET

from goqueue.api import polling, reading
from goqueue.api.endpoint import ApiCall
from goqueue.api.publishing import PublishQuery, PublishResponse
from goqueue.api.quota_checks import (
    admit_delay,
    admit_group,
    admit_partitions,
    admit_retention,
    admit_topic,
    admit_transaction,
    check_messages,
    count_frames,
    walk_frames,
)
from goqueue.api.transactions import TransactionPublishResponse
from goqueue.broker.tenants import quotas as kinds
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.errors import GoQueueError, QuotaExceeded
from goqueue.limits import OFFSET_MAX, POLL_MESSAGES, POLL_SECONDS

Work = Awaitable[Any]
"""A coroutine of a handler that has not begun."""
Charge = Callable[[ApiCall, TenantMeter, Work], Awaitable[Any]]

DELAY_SECONDS_MAX: Final = 1.0
"""Longer, a delayed request would look like a broker that hangs."""


async def _refuse(call: ApiCall, meter: TenantMeter, work: Work, error: GoQueueError) -> NoReturn:
    """Raise the error of a request whose work has not begun; late if the tenant gets very many."""
    _discard(work)
    if isinstance(error, QuotaExceeded):
        size, wait = call.request.size, error.details["retry_after"]
        seconds = meter.refusal_delay(size)
        if seconds:
            meter.delayed_bytes += size
            try:
                await asyncio.sleep(seconds)
            finally:
                meter.delayed_bytes -= size
            error.details["retry_after"] = round(max(wait - seconds, 0.001), 3)
    raise error


def _discard(work: Work) -> None:
    """Drop work that has not begun."""
    if isinstance(work, Coroutine):
        work.close()


# --- publish ---


def _publish(call: ApiCall, meter: TenantMeter, work: Work) -> Awaitable[Any]:
    """Charge a publish; most tenants have no quota that it counts for.

    A single message is stored, or the request fails and the pipeline gives back what it was charged.
    """
    body, grant, size = call.body, meter.grant, call.request.weight or call.request.size
    is_single = body is not None and len(body.messages) == 1 and not call.query.begin
    if is_single:
        if (not grant.messages or size > grant.size) and meter.begin_grant(size):
            call.runtime.turn.follow(meter.end_grant)
        if grant.messages and size <= grant.size:
            grant.messages -= 1
            grant.size -= size
            call.charged_bytes = size
            return work
    if not meter.limits_publish:
        return work
    if not is_single or meter.bounds_in_flight:
        return _charged_publish(call, meter, work)
    try:
        if size > meter.message_bytes_unchecked or meter.bounds_delays:
            check_messages(call, meter)
        meter.charge_publish(1, size)
    except GoQueueError as error:
        return _refuse(call, meter, work, error)
    call.charged_bytes = size
    return work


async def _charged_publish(call: ApiCall, meter: TenantMeter, work: Work) -> PublishResponse:
    query: PublishQuery = call.query
    size, stored, body = call.request.weight or call.request.size, 0.0, call.body
    is_large = size > meter.message_bytes_unchecked or meter.bounds_delays
    if body is None and (is_large or meter.counts_publishes):
        await walk_frames(call)
    try:
        if is_large:
            check_messages(call, meter)
        messages = len(body.messages) if body is not None else count_frames(call)
        if query.begin:
            admit_transaction(call, meter)
        meter.charge_publish(messages, size)
    except GoQueueError as error:
        await _refuse(call, meter, work, error)
    try:
        answer: PublishResponse = await work
        results = answer.results
        failed = sum([one.error is not UNSET or one.duplicate is True for one in results])
        stored = 1 - failed / len(results) if failed else 1.0
        return answer
    finally:
        if stored != 1.0 or meter.bounds_in_flight:
            meter.finish_publish(messages, size, stored)


async def _publish_in_transaction(call: ApiCall, meter: TenantMeter, work: Work) -> TransactionPublishResponse:
    size, stored = call.request.size, 0.0
    try:
        if meter.checks_messages:
            check_messages(call, meter)
        meter.charge_publish(1, size)
    except GoQueueError as error:
        await _refuse(call, meter, work, error)
    try:
        answer: TransactionPublishResponse = await work
        stored = 0.0 if answer.duplicate else 1.0
        return answer
    finally:
        meter.finish_publish(1, size, stored)


# --- consume ---


async def _delayed(meter: TenantMeter, seconds_max: float, work: Work) -> float:
    """Wait until messages may be handed out, or until it is too long; return how long it would still take."""
    seconds = meter.consume_wait_seconds()
    if not seconds:
        return 0.0
    meter.count_delay()
    loop = asyncio.get_running_loop()
    until = loop.time() + min(seconds_max, DELAY_SECONDS_MAX)
    try:
        while seconds and (left := until - loop.time()) > 0:  # another request may take what came meanwhile
            await asyncio.sleep(min(seconds, left))
            seconds = meter.consume_wait_seconds()
    except (asyncio.CancelledError, GeneratorExit):  # the client has left
        _discard(work)
        raise
    return seconds


async def _poll(call: ApiCall, meter: TenantMeter, work: Work) -> Any:
    """Delay a poll while its tenant is over a quota. After a second it is answered without messages."""
    query: polling.PollQuery = call.query
    timeout = POLL_SECONDS if query.timeout is None else float(query.timeout)
    try:
        if timeout:
            meter.admit_waiting()
        left = await _delayed(meter, timeout, work)
    except GoQueueError as error:
        await _refuse(call, meter, work, error)
    if left:
        _discard(work)
        return polling.nothing_yet(call, query, left)
    wanted = query.max_messages or query.limit or POLL_MESSAGES
    if meter.limits_consume:
        query.max_messages, query.limit = wanted, None
    meter.waiting += 1
    try:
        return await work
    finally:
        meter.waiting -= 1


async def _read(call: ApiCall, meter: TenantMeter, work: Work) -> Any:
    """Delay a read while its tenant is over a quota. A reader would take an empty answer for the end of the topic."""
    query: reading.ReadQuery = call.query
    wait = 0.0 if query.wait is None else float(query.wait)
    try:
        if query.filter:
            meter.charge(kinds.QUERY_RATE)
        if wait:
            meter.admit_waiting()
        if left := await _delayed(meter, DELAY_SECONDS_MAX, work):
            raise meter.refuse_read(left)
    except GoQueueError as error:
        await _refuse(call, meter, work, error)
    _bound(call, meter, query)
    query.max_bytes = meter.consumable(1, query.max_bytes)[1]
    meter.waiting += 1 if wait else 0
    try:
        return await work
    finally:
        meter.waiting -= 1 if wait else 0


async def _read_topic(call: ApiCall, meter: TenantMeter, work: Work) -> Any:
    query: reading.TopicReadQuery = call.query
    try:
        if query.filter:
            meter.charge(kinds.QUERY_RATE)
        if left := await _delayed(meter, DELAY_SECONDS_MAX, work):
            raise meter.refuse_read(left)
    except GoQueueError as error:
        await _refuse(call, meter, work, error)
    _bound(call, meter, query)
    return await work


def _bound(call: ApiCall, meter: TenantMeter, query: reading.TopicReadQuery) -> None:
    """Let a read look for no more messages than it may hand out."""
    if meter.limits_consume:
        query.limit = meter.consumable(query.limit, 1)[0]
        call.messages_max = meter.consumable(OFFSET_MAX, 1)[0]


# --- everything else ---


def _charge(*checks: Callable[[ApiCall, TenantMeter], object]) -> Charge:
    """Return a charge that only checks before the work."""

    async def charge(call: ApiCall, meter: TenantMeter, work: Work) -> Any:
        try:
            for check in checks:
                check(call, meter)
        except GoQueueError as error:
            await _refuse(call, meter, work, error)
        return await work

    return charge


def _metadata(_: ApiCall, meter: TenantMeter) -> None:
    meter.charge(kinds.METADATA_RATE)


def _query(_: ApiCall, meter: TenantMeter) -> None:
    meter.charge(kinds.QUERY_RATE)


_JOIN, _SCHEMA, _QUERY = _charge(admit_group), _charge(_metadata), _charge(_query)
CHARGES: Final[dict[str, Charge]] = {
    "POST /topics/{topic}/messages": _publish,
    "POST /transactions/publish": _publish_in_transaction,
    "GET /groups/{group}/poll": _poll,
    "GET /topics/{topic}/partitions/{partition}/messages": _read,
    "GET /topics/{topic}/messages": _read_topic,
    "POST /topics": _charge(_metadata, admit_topic),
    "DELETE /topics/{topic}": _charge(_metadata),
    "PATCH /admin/topics/{topic}": _charge(_metadata, admit_retention),
    "POST /admin/topics/{topic}/partitions": _charge(_metadata, admit_partitions),
    "PATCH /topics/{topic}/delayed/{partition}/{offset}": _charge(admit_delay),
    "POST /topics/{topic}/delayed/reschedule": _charge(_query, admit_delay),
    "POST /topics/{topic}/delayed/cancel": _QUERY,
    "POST /topics/{topic}/delayed/deliver": _QUERY,
    "POST /groups/{group}/join": _JOIN,
    "POST /groups/{group}/join/cooperative": _JOIN,
    "PATCH /groups/{group}": _JOIN,
    "POST /groups/{group}/offsets": _JOIN,
    "POST /groups/{group}/offsets/reset": _JOIN,
    "POST /transactions/offsets": _JOIN,
    "POST /transactions/begin": _charge(admit_transaction),
    "POST /subjects/{subject}/versions": _SCHEMA,
    "DELETE /subjects/{subject}": _SCHEMA,
    "DELETE /subjects/{subject}/versions/{version}": _SCHEMA,
    "PUT /config/{subject}": _SCHEMA,
    "DELETE /config/{subject}": _SCHEMA,
    "PUT /mode/{subject}": _SCHEMA,
    "DELETE /mode/{subject}": _SCHEMA,
    "GET /traces": _QUERY,
    "GET /traces/search": _QUERY,
    "GET /traces/{trace}": _QUERY,
    "GET /topics/{topic}/partitions/{partition}/messages/{offset}/trace": _QUERY,
    "GET /topics/{topic}/dead-letters": _QUERY,
    "GET /topics/{topic}/dead-letters/errors": _QUERY,
}
"""By method and path."""
