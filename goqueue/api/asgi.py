"""Requests that another server brings: from ASGI to the pipeline, and back."""

import asyncio
from collections.abc import Awaitable, Sequence
from urllib.parse import quote

from starlette.types import Receive, Scope, Send

from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import INTERNAL_ERROR, error_response
from goqueue.api.http.message import ENDS_WITH_ITS_CLIENT, HttpRequest, HttpResponse, response_headers
from goqueue.api.http.request_reader import is_sane_id
from goqueue.api.http.server_state import ServerState
from goqueue.api.pipeline import RequestPipeline
from goqueue.clock import NANOSECONDS
from goqueue.errors import BrokerOverloaded, GoQueueError, RequestInvalid

Route = tuple[Endpoint, dict[str, str]]
ROUTE = "goqueue.route"
"""Where the scope of a request has the endpoint and the path parameters that were found for it."""


class ClientLeft(Exception):
    pass


class PipelineApp:
    """The ASGI application of every endpoint: calls the pipeline, within the limits of the server's state."""

    def __init__(self, pipeline: RequestPipeline, server: ServerState) -> None:
        self._pipeline = pipeline
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        server, request = self._server, self._request(scope)
        try:
            try:
                await self._read_body(request, receive)
                answer = self._pipeline(request, scope.get(ROUTE))
                response = answer if isinstance(answer, HttpResponse) else await _awaited(answer, request, receive)
            except GoQueueError as error:
                response = error_response(error.without_tracebacks())
            except ClientLeft:
                server.observer.refused("client_gone")
                return
            except Exception as error:
                response = _internal_error(request, error)
            await self._send(request, response, send)
        finally:
            server.held_bytes -= request.weight

    def _request(self, scope: Scope) -> HttpRequest:
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        given = headers.get("x-request-id")
        client = scope.get("client")
        return HttpRequest(
            scope["method"],
            path_of(scope),
            scope["query_string"].decode("latin-1"),
            headers,
            bytearray(),
            given if given is not None and is_sane_id(given) else self._server.new_id(),
            f"{client[0]}:{client[1]}" if client else "",
            self._server.monotonic_ns(),
        )

    async def _read_body(self, request: HttpRequest, receive: Receive) -> None:
        """Read the whole body; refuse one that is too large, or that exceeds the memory of all bodies."""
        server = self._server
        length = request.headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()):
            raise RequestInvalid(f"the content-length {length[:40]!r} is not a number", hint="send the body's length")
        server.check_body(int(length[:20]))
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            piece = message.get("body", b"")
            request.body += piece
            request.weight += len(piece)
            server.held_bytes += len(piece)
            server.check_body(len(request.body), held=0)
            if not message.get("more_body"):
                return

    async def _send(self, request: HttpRequest, response: HttpResponse, send: Send) -> None:
        server = self._server
        size = _size(response.body)
        try:
            server.check_answer(size, is_essential=response.is_essential)
        except BrokerOverloaded as error:
            response = error_response(error.without_tracebacks())
            size = _size(response.body)
        server.answer_bytes += size
        try:
            headers = [
                (name.encode(), value.encode("latin-1")) for name, value in response_headers(response, request.id)
            ]
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            body = b"" if request.method == "HEAD" else _joined(response.body)
            await send({"type": "http.response.body", "body": body})
        finally:
            server.answer_bytes -= size
        server.observer.answered(request, response, (server.monotonic_ns() - request.began_ns) / NANOSECONDS)


async def _awaited(answer: Awaitable[HttpResponse], request: HttpRequest, receive: Receive) -> HttpResponse:
    """Wait for an answer; cancel a request that changes nothing when its client leaves."""
    pending = asyncio.ensure_future(_result(answer))
    if request.method not in ENDS_WITH_ITS_CLIENT:
        return await asyncio.shield(pending)
    leaving = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({pending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not pending.done():
            raise ClientLeft
        return pending.result()
    finally:
        leaving.cancel()
        pending.cancel()


async def _result(answer: Awaitable[HttpResponse]) -> HttpResponse:
    return await answer


def _internal_error(request: HttpRequest, error: Exception) -> HttpResponse:
    message = f"the handler of {request.method} {request.path} failed, request {request.id}"
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
    return INTERNAL_ERROR


def _size(body: bytes | Sequence[memoryview | bytes]) -> int:
    return len(body) if isinstance(body, bytes) else sum(map(len, body))


def _joined(body: bytes | Sequence[memoryview | bytes]) -> bytes:
    return body if isinstance(body, bytes) else b"".join(body)


def path_of(scope: Scope) -> str:
    """Return the path below the application's mount, as it was sent: not percent-decoded."""
    root, raw = scope.get("root_path", ""), scope.get("raw_path")
    path: str = raw.decode("latin-1") if raw else quote(scope["path"])
    return path.removeprefix(root).removeprefix(quote(root)) if root else path
