"""The endpoints as tenants see them: short names outside, full names inside.

The table's rows get handlers that replace the names of a request before the actual handler sees them, and those of its
answer afterwards. A broker without tenants has the table as it is, so this costs nothing there.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import msgspec

from goqueue.api.endpoint import ApiCall, Endpoint
from goqueue.api.http.message import HttpResponse
from goqueue.api.message_json import run_on_thread
from goqueue.api.tenant_access import TenantAccess
from goqueue.api.tenant_names import ANSWERS, OWN_NAMES, NamePlan, plan_of, rename
from goqueue.limits import KIB
from goqueue.wire.headers import JSON

_AT_ONCE_BYTES = 32 * KIB
"""A larger answer that is JSON already is decoded and encoded again on a thread."""


def in_worlds(rows: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """Return the rows with handlers that replace the names of tenants."""
    return tuple(_in_world(row) if is_translated(row) else row for row in rows)


def is_translated(row: Endpoint) -> bool:
    """Return whether a row is about topics, groups, ids or subjects, not about the broker as a whole."""
    return not row.permission.is_open and row.permission.kind != "cluster"


def _in_world(row: Endpoint) -> Endpoint:
    query, body, name = plan_of(row.query), plan_of(row.body), f"{row.method} {row.path}"
    answer = None if name in OWN_NAMES else plan_of(row.answer)
    if (kind := ANSWERS.get(name)) is not None:
        answer = NamePlan(kind)
    if query is None and body is None and answer is None:
        return row
    inner, arguments = row.handler, row.arguments

    @wraps(inner)
    def handle(call: ApiCall, *given: Any) -> Awaitable[Any]:
        """Replace the names at once, since records name what a request is about, and call the actual handler."""
        access = call.access
        if not isinstance(access, TenantAccess):
            return inner(call, *given)
        if query is not None and call.query is not None:
            call.query = rename(query, call.query, access.world.full)
        if body is not None and call.body is not None:
            call.body = rename(body, call.body, access.world.full)
        work = partial(inner, call, *arguments(call))
        return work() if answer is None else _answered(access, work, answer)

    return replace(row, handler=handle)


async def _answered(access: TenantAccess, work: Callable[[], Awaitable[Any]], answer: NamePlan) -> Any:
    """Run the handler. It is called only now, since the work may be refused before it has begun."""
    found = await work()
    if not isinstance(found, HttpResponse):
        return rename(answer, found, access.world.short)
    if found.content_type != JSON:
        return found
    body = found.body if isinstance(found.body, bytes) else b"".join(found.body)
    if len(body) <= _AT_ONCE_BYTES:
        return replace(found, body=_renamed(body, answer, access))
    return replace(found, body=await run_on_thread(_renamed, body, answer, access))


def _renamed(body: bytes, answer: NamePlan, access: TenantAccess) -> bytes:
    return msgspec.json.encode(rename(answer, msgspec.json.decode(body), access.world.short))
