"""ASGI applications behind our connections: everything that is not answered by the pipeline."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.api.http.server_state import STATE_KEY, HttpLimits, ServerState
from goqueue.clock import SystemClock

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
AsgiApp = Callable[[Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
_BRIDGE_KEY = "goqueue.bridge"


class Unobserved:
    """The observer of a server whose application counts its requests itself."""

    def connection_opened(self, peer: str) -> None: ...

    def connection_closed(self, peer: str) -> None: ...

    def answered(self, request: HttpRequest, response: HttpResponse, seconds: float) -> None: ...

    def refused(self, reason: str) -> None: ...


def state_of(app: AsgiApp, app_state: dict[str, Any]) -> ServerState:
    """Return the state of the connections of an application, which answers requests by the least that it allows.

    An application that contains a broker, as a mount or behind a middleware, gets a state with the default limits.
    """
    while type(app).__module__.startswith("uvicorn."):  # it looks at headers of proxies, which nothing here needs
        app = app.app  # type: ignore[attr-defined]
    own: ServerState | None = app_state.get(STATE_KEY)
    if own is not None and own.app is app:
        return own
    if _BRIDGE_KEY not in app_state:
        bridge = ServerState(AppBridge(app), limits=HttpLimits(), observer=Unobserved(), clock=SystemClock())
        if own is not None:
            bridge.on_stop = own.begin_stop
        app_state[_BRIDGE_KEY] = bridge
    found: ServerState = app_state[_BRIDGE_KEY]
    return found


class AppBridge:
    """Answers requests of our connections by an ASGI application.

    An answer is sent when it is complete.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        messages: list[Message] = []
        given = [{"type": "http.request", "body": bytes(request.body), "more_body": False}]

        async def receive() -> Message:
            if not given:
                await asyncio.Event().wait()  # a client that leaves cancels this
            return given.pop()

        async def send(message: Message) -> None:
            messages.append(message)

        await self._app(_scope_of(request), receive, send)
        return _response_of(messages)


def _scope_of(request: HttpRequest) -> Scope:
    host, _, port = request.peer.rpartition(":")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(request.path),
        "raw_path": request.path.encode("latin-1"),
        "query_string": request.query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()],
        "client": (host, int(port)) if port else None,
        "server": None,
        "state": {},
    }


_OWN_HEADERS = {"content-length", "content-type", "connection", "date", "transfer-encoding", "x-request-id"}


def _response_of(messages: list[Message]) -> HttpResponse:
    start = next(message for message in messages if message["type"] == "http.response.start")
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in start["headers"]]
    body = b"".join(message.get("body", b"") for message in messages if message["type"] == "http.response.body")
    return HttpResponse(
        start["status"],
        body,
        dict(headers).get("content-type", ""),
        tuple(one for one in headers if one[0] not in _OWN_HEADERS),
    )
