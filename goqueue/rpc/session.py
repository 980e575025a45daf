"""One call: who sent it, the requests that it makes of the pipeline, and its end."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import lru_cache, partial
from itertools import count
from time import monotonic
from typing import Any
from urllib.parse import quote, urlencode

import grpc.aio
import msgspec
from google.protobuf.message import DecodeError

from goqueue.api.fields import encode_scalar
from goqueue.api.http.message import ENDS_WITH_ITS_CLIENT, HttpRequest, HttpResponse
from goqueue.api.http.request_reader import is_sane_id
from goqueue.limits import RPC_SLOW_STEP_SECONDS, RPC_STOP_STEP_SECONDS
from goqueue.observe.metrics import Metrics
from goqueue.rpc.bridge import Exchange, LoopBridge
from goqueue.rpc.disconnection import disconnect
from goqueue.rpc.status import CallFailed, CallFailure, Code, failure_of, invalid_request
from goqueue.security.client_certificates import ClientCertificate
from goqueue.wire.headers import FRAMES, JSON

_log = logging.getLogger("goqueue.rpc")

RpcContext = Any
"""A `grpc.aio.ServicerContext`, which has no types."""
Query = Sequence[tuple[str, str]]

_TAKEN_OVER = ("authorization", "x-api-key", "user-agent", "traceparent", "tracestate", "x-tenant")
"""Metadata that counts like the headers of the same names."""
STOPPING = CallFailure(Code.UNAVAILABLE, "the broker is stopping", "broker_stopping", {"hint": "try again"}, 1.0)
_UNREADABLE = CallFailure(
    Code.INVALID_ARGUMENT,
    "a request is not a message of the type of its method",
    "request_invalid",
    {"hint": "generate the client from the .proto files of the broker"},
)
_REQUEST_ID = "x-request-id"
_encode = msgspec.json.Encoder(enc_hook=encode_scalar).encode


class Response:
    """An answer of an endpoint that is not an error."""

    __slots__ = ("http",)

    def __init__(self, http: HttpResponse) -> None:
        self.http = http

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.http.headers)

    @property
    def body(self) -> bytes:
        body = self.http.body
        return body if isinstance(body, bytes) else b"".join(body)

    @property
    def parts(self) -> Sequence[bytes | memoryview]:
        body = self.http.body
        return (body,) if isinstance(body, bytes) else body

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class CallSession:
    """One call of a client, on the listener's loop."""

    def __init__(self, bridge: LoopBridge, context: RpcContext) -> None:
        self.context = context
        self._bridge = bridge
        metadata = context.invocation_metadata() or ()
        self._headers = {name: value for name, value in metadata if name in _TAKEN_OVER and isinstance(value, str)}
        given = next((value for name, value in metadata if name == _REQUEST_ID), None)
        self.id = given if isinstance(given, str) and is_sane_id(given) else bridge.state.new_id()
        """The id of all requests of the call."""
        if self.id == given:
            context.set_trailing_metadata(((_REQUEST_ID, self.id),))
        self.peer = _peer(context.peer())
        self._certificate = _certificate(context.auth_context()) if bridge.has_certificates else None
        self.number = 0
        """The number of the call among those of its listener."""
        self.changes = 0
        """Requests under way that change something."""
        self.ending: CallFailure | None = None
        """Set when the broker stops: no further request is made."""

    def refuse_if_ending(self) -> None:
        if self.ending is not None:
            raise CallFailed(self.ending)

    # --- requests ---

    async def ask(
        self,
        method: str,
        path: str,
        query: Query = (),
        *,
        body: Any = None,
        frames: bytes | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Response:
        """Return the answer of an endpoint; raise CallFailed for an error.

        The body is a value for JSON, or frames.
        """
        request = self._request(method, path, query, headers)
        if frames is not None:
            request.headers["content-type"] = FRAMES
            request.body = bytearray(frames)
        elif body is not None:
            request.headers["content-type"] = JSON
            request.body = bytearray(_encode(body))
        return await self._ask(request)

    async def ask_typed(self, path: str, query: Query, body: Any, weight: int) -> Response:
        """Return the answer to a POST whose body has the type of the endpoint already, and so many bytes."""
        request = self._request("POST", path, query, ())
        request.decoded, request.weight = body, weight
        return await self._ask(request)

    @asynccontextmanager
    async def open(
        self, method: str, path: str, query: Query = (), *, headers: tuple[tuple[str, str], ...] = ()
    ) -> AsyncIterator[Response]:
        """Yield the answer of an endpoint; its memory counts until the client has taken it."""
        response, exchange = await self._send(self._request(method, path, query, headers))
        try:
            yield _checked(response)
        finally:
            self._bridge.release(exchange)

    async def _ask(self, request: HttpRequest) -> Response:
        response, exchange = await self._send(request)
        self._bridge.release(exchange)
        return _checked(response)

    async def _send(self, request: HttpRequest) -> tuple[HttpResponse, Exchange]:
        self.refuse_if_ending()
        is_change = request.method not in ENDS_WITH_ITS_CLIENT
        self.changes += is_change
        try:
            return await self._bridge.ask(request)
        finally:
            self.changes -= is_change

    def _request(self, method: str, path: str, query: Query, headers: tuple[tuple[str, str], ...]) -> HttpRequest:
        state = self._bridge.state
        return HttpRequest(
            method,
            path,
            urlencode(query, quote_via=quote) if query else "",
            self._headers | dict(headers),
            bytearray(),
            self.id,
            self.peer,
            state.monotonic_ns(),
            certificate=self._certificate,
        )


def _checked(response: HttpResponse) -> Response:
    """Return an answer; raise CallFailed for an error."""
    if response.status >= 400:
        raise CallFailed(failure_of(response))
    return Response(response)


def path_of(template: str, **values: object) -> str:
    """Return a path with its parameters."""
    return template.format(**{name: quote(str(value), safe="") for name, value in values.items()})


@lru_cache(maxsize=1024)
def _peer(peer: str) -> str:
    """Return host and port, as of an HTTP connection: gRPC writes ipv4:127.0.0.1:4711 and ipv6:%5B::1%5D:4711."""
    kind, _, address = peer.partition(":")
    return address.replace("%5B", "[").replace("%5D", "]") if kind in {"ipv4", "ipv6"} else ""


def _certificate(found: dict[str, Any]) -> ClientCertificate | None:
    pem = found.get("x509_pem_cert")
    return _read_certificate(bytes(pem[0])) if pem else None


@lru_cache(maxsize=256)
def _read_certificate(pem: bytes) -> ClientCertificate:
    from goqueue.api.http.certificates import read_client_certificate  # noqa: PLC0415 - only clients with one need it

    return read_client_certificate(pem)


# --- calls ---

Unary = Callable[[CallSession, Any], Awaitable[Any]]
Streaming = Callable[[CallSession, Any], AsyncGenerator[Any, None]]


class SessionRegistry:
    """The calls under way. It makes handlers of methods: errors become the status, and a stop ends what waits."""

    def __init__(self, bridge: LoopBridge, metrics: Metrics, *, read_seconds: float, write_seconds: float) -> None:
        self.bridge = bridge
        self._metrics = metrics
        self._read_seconds = read_seconds
        """For a client to send the request of a call that has one."""
        self._write_seconds = write_seconds
        """For a client to take a response of a stream."""
        self._sessions: dict[CallSession, asyncio.Task[Any]] = {}
        self._numbers = count()
        self._unsent: dict[CallSession, float] = {}
        """Calls whose request has not arrived, and since when they wait for it."""
        self._untaken: dict[int, tuple[float, str]] = {}
        """By the number of a call: since when its client has to take the end of it, and who that is."""
        self._finishing: set[asyncio.Task[None]] = set()

    def unary(self, method: Unary, *, has_requests: bool) -> Callable[[Any, RpcContext], Coroutine[Any, Any, Any]]:
        """Return the handler of a method with one response, for one request or a stream of them."""

        async def handle(requests: Any, context: RpcContext) -> Any:
            session = self._begin(context)
            try:
                return await method(session, requests if has_requests else await self._only_request(session))
            except CallFailed as failed:
                await abort(session, failed.failure)
            except DecodeError:
                await abort(session, _UNREADABLE)
            except asyncio.CancelledError:
                await self._ended(session)
            finally:
                self._forget(session)

        return handle

    def streaming(
        self, method: Streaming, *, has_requests: bool
    ) -> Callable[[Any, RpcContext], Coroutine[Any, Any, None]]:
        """Return the handler of a method with a stream of responses, for one request or a stream of them."""

        async def handle(requests: Any, context: RpcContext) -> None:
            session = self._begin(context)
            try:
                request = requests if has_requests else await self._only_request(session)
                # Sent with the first response, it could not be followed by a status while that is not taken.
                await context.send_initial_metadata(())
                async with aclosing(method(session, request)) as responses:
                    async for response in responses:
                        async with asyncio.timeout(self._write_seconds):
                            await context.write(response)
                        session.refuse_if_ending()
            except CallFailed as failed:
                await abort(session, failed.failure)
            except DecodeError:
                await abort(session, _UNREADABLE)
            except TimeoutError:
                self._await_end(session)
                await abort(session, _too_slow(self._write_seconds))
            except asyncio.CancelledError:
                await self._ended(session)
            finally:
                self._forget(session)

        return handle

    async def _only_request(self, session: CallSession) -> Any:
        """Return the request of a call that has one. All handlers take streams: others have no limit for this time."""
        self._unsent[session] = monotonic()  # a timer for each call would cost more than the read
        try:
            request = await session.context.read()
        finally:
            del self._unsent[session]
        if request is grpc.aio.EOF:
            raise invalid_request("the request", "is missing")
        return request

    def _begin(self, context: RpcContext) -> CallSession:
        session, task = CallSession(self.bridge, context), asyncio.current_task()
        assert task is not None, "a handler is a task"
        session.number = next(self._numbers)
        context.add_done_callback(partial(self._end_taken, session.number))
        self._sessions[session] = task
        self.bridge.begin_call(session.peer)
        self._metrics.grpc_calls_open = len(self._sessions)
        return session

    def _await_end(self, session: CallSession) -> None:
        self._untaken[session.number] = monotonic(), session.peer

    def _end_taken(self, number: int, _: object) -> None:
        self._untaken.pop(number, None)

    async def end_slow_clients(self, port: int) -> None:
        """End calls whose request does not arrive, and close connections whose clients do not take ends of calls."""
        while True:
            await asyncio.sleep(RPC_SLOW_STEP_SECONDS)
            late = monotonic() - self._read_seconds
            for session in [session for session, since in self._unsent.items() if since < late]:
                session.ending = session.ending or _late_request(self._read_seconds)
                self._sessions[session].cancel()
            late = monotonic() - self._write_seconds
            for peer in {peer for since, peer in self._untaken.values() if since < late}:
                self._untaken = {number: one for number, one in self._untaken.items() if one[1] != peer}
                if disconnect(peer, port):
                    _log.warning("closed the connection of %s: it does not take the ends of its calls", peer)

    def _forget(self, session: CallSession) -> None:
        self._await_end(session)
        del self._sessions[session]
        self.bridge.end_call(session.peer)
        self._metrics.grpc_calls_open = len(self._sessions)

    @staticmethod
    async def _ended(session: CallSession) -> None:
        """End a call that was cancelled: by a stop with its status, else by its client."""
        if session.ending is None:
            raise asyncio.CancelledError
        await abort(session, session.ending)

    def finish_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something after the end of a call. A stop waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def end(self, seconds: float) -> None:
        """End calls as soon as they change nothing, and wait for them at most so long."""
        try:
            async with asyncio.timeout(seconds):
                while self._sessions or self._finishing:
                    for session, task in list(self._sessions.items()):
                        if session.ending is None or not session.changes:
                            session.ending = STOPPING
                            if not session.changes:
                                task.cancel()
                    await asyncio.sleep(RPC_STOP_STEP_SECONDS)
        except TimeoutError:
            return


def _late_request(seconds: float) -> CallFailure:
    sentence = f"the request has not arrived within {seconds:g} s"
    return CallFailure(Code.DEADLINE_EXCEEDED, sentence, "request_timed_out", {"hint": "send it again"}, 1.0)


def _too_slow(seconds: float) -> CallFailure:
    sentence = f"the client has not taken a response for {seconds:g} s"
    return CallFailure(Code.RESOURCE_EXHAUSTED, sentence, "reader_too_slow", {"hint": "read responses, or cancel"})


async def abort(session: CallSession, failure: CallFailure) -> None:
    metadata = (*failure.metadata, (_REQUEST_ID, session.id))
    await session.context.abort(failure.code, failure.sentence, metadata)
