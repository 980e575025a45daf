"""Any endpoint of the table by its path, and health."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from goqueue.api.table import ENDPOINTS
from goqueue.limits import RPC_HEALTH_SECONDS
from goqueue.rpc.session import CallSession
from goqueue.rpc.status import CallFailed, invalid_request
from goqueue.rpc.v1 import admin_pb2, health_pb2

_METHODS = {row.method for row in ENDPOINTS}


async def call(session: CallSession, request: Any) -> Any:
    if request.method not in _METHODS:
        raise invalid_request("method", f"is {request.method!r}, and must be one of {', '.join(sorted(_METHODS))}")
    path, _, query = request.path.partition("?")
    if not path.startswith("/"):
        raise invalid_request("path", f"is {request.path[:200]!r}, and must begin with /")
    body = msgspec.Raw(request.body.encode()) if request.body else None
    answer = await session.ask(request.method, path, parse_qsl(query, keep_blank_values=True), body=body)
    return admin_pb2.CallResponse(status=answer.http.status, content_type=answer.http.content_type, body=answer.body)


async def list_endpoints(session: CallSession, request: Any) -> Any:  # noqa: ARG001
    rows = [admin_pb2.Endpoint(method=row.method, path=row.path, summary=row.summary, tag=row.tag) for row in ENDPOINTS]
    return admin_pb2.ListEndpointsResponse(endpoints=rows)


async def check(session: CallSession, request: Any) -> Any:
    if request.service:
        return health_pb2.HealthCheckResponse(status=health_pb2.SERVING_STATUS_SERVICE_UNKNOWN)
    try:
        found = (await session.ask("GET", "/health")).json
    except CallFailed:
        return health_pb2.HealthCheckResponse(status=health_pb2.SERVING_STATUS_NOT_SERVING)
    is_well = found["status"] != "fail"
    return health_pb2.HealthCheckResponse(
        status=health_pb2.SERVING_STATUS_SERVING if is_well else health_pb2.SERVING_STATUS_NOT_SERVING
    )


async def watch(session: CallSession, request: Any) -> AsyncGenerator[Any, None]:
    before = None
    while True:
        found = await check(session, request)
        if found != before:
            yield found
            before = found
        await asyncio.sleep(RPC_HEALTH_SECONDS)
