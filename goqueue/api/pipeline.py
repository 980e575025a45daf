"""The way of a request to its answer, the same for every server: guard, route, authorize, decode, handle, encode."""

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from types import CoroutineType
from typing import Any

import msgspec

from goqueue.api.dialect import OWN
from goqueue.api.endpoint import ApiCall, ApiContext, Endpoint
from goqueue.api.fields import encode_scalar
from goqueue.api.gate import RequestGate
from goqueue.api.http.error_responses import status_of
from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.api.http.origin_guard import OriginGuard
from goqueue.api.led_requests import LedRequests
from goqueue.api.routes import Routes
from goqueue.api.validation import BodyDecoder, decode_query, too_large
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.errors import GoQueueError, MediaTypeUnsupported, RequestInvalid
from goqueue.observe.logs import AccessLog, AnsweredRequest
from goqueue.observe.metrics import EndpointCounts, Metrics
from goqueue.quantities import quoted
from goqueue.runtime.deferred import HandlerRun, HandlerTurn
from goqueue.wire.headers import FRAMES, JSON

_NOT_FOUND = 404
_encode = msgspec.json.Encoder(enc_hook=encode_scalar).encode


class RequestPipeline:
    """Answers requests according to the table of endpoints."""

    def __init__(self, endpoints: Sequence[Endpoint], context: ApiContext, guard: OriginGuard) -> None:
        self.routes = Routes(endpoints)
        self._context = context
        self._guard = guard
        self._bodies = BodyDecoder()

    def __call__(
        self, request: HttpRequest, route: tuple[Endpoint, dict[str, str]] | None = None
    ) -> HttpResponse | Awaitable[HttpResponse]:
        """Return the response to any request; `route` has what was found for it already."""
        try:
            preflight = self._guard.admit(request)
            if preflight is not None:
                return preflight
            row, parameters = route or self.routes.find(request.method, request.path)
            request.endpoint = row
            call = ApiCall(self._context, request, parameters)
            turn: HandlerTurn = self._context.runtime.turn
            gate = self._context.gate
            if gate is not None:  # after the route is known, before the body is decoded
                call.access = gate.admit(row.permission, parameters, request, is_guarded=row.is_guarded)
                if request.world is not None:
                    turn = self._enter(row, call)
            if row.is_led_change:
                self._context.refuse_while_joining()
        except GoQueueError as error:
            return self._refusal(request, error)
        led = self._context.led
        if row.is_led_change and led is not None and row.led in led.logs:
            return self._answer_led(led, turn, row, call)
        if not row.is_hot:
            return self._answer(row, call) if call.meter is None else self._answer_in_turn(turn, row, call)
        run = HandlerRun(self._answer(row, call), turn)
        if gate is not None and row.waits:
            call.access.cancel = run.cancel
        return run

    async def _answer_in_turn(self, turn: HandlerTurn, row: Endpoint, call: ApiCall) -> HttpResponse:
        """Answer a request when it is the turn of its tenant."""
        await turn.wait()
        return await self._answer(row, call)

    async def _answer_led(self, led: LedRequests, turn: HandlerTurn, row: Endpoint, call: ApiCall) -> HttpResponse:
        """Answer a change that the leader of a log makes."""

        def answer_here() -> Awaitable[HttpResponse]:
            return self._answer(row, call) if call.meter is None else self._answer_in_turn(turn, row, call)

        try:
            response = await led.change(row, call.request, answer_here)
        except GoQueueError as error:
            return self._refusal(call.request, error)
        return response

    def _enter(self, row: Endpoint, call: ApiCall) -> HandlerTurn:  # noqa: ARG002 - that of tenants looks at them
        """Count a request in the world of a tenant, and return what runs its handler."""
        raise AssertionError("only a broker with tenants has worlds")

    async def _answer(self, row: Endpoint, call: ApiCall) -> HttpResponse:
        request, gate, dialect = call.request, self._context.gate, row.dialect
        try:
            if row.may_be_large:
                self._context.check_answers()
            body = request.body
            if row.body_bytes is not None and len(body) > row.body_bytes:
                raise too_large(row, body)
            query = dialect.query_text(row.query, request.query) if request.query else ""
            if row.query is not None:
                call.query = decode_query(row.query, query)
            elif query:
                raise RequestInvalid(f"{row.path} takes no parameters, {quoted(request.query)} was sent", problems=[])
            if request.decoded is not None:
                call.body = request.decoded
            elif not (row.frames and is_frames(request)):
                value = self._decode(row, request)
                call.body = await value if isinstance(value, CoroutineType) else value
            work = row.handler(call, *row.arguments(call))
            if (meter := call.meter) is not None and row.charge is not None:
                work = row.charge(call, meter, work)
            if row.is_guarded and gate is not None:
                work = _guarded(row, call, gate, work)
            result = await work
        except BaseException as error:
            newer = await self._newer(row, call, error) if row.led and not row.is_led_change else None
            return self._failed(call, error) if newer is None else newer
        response = (
            result
            if isinstance(result, HttpResponse)
            else HttpResponse(row.status, _encode(result), JSON if dialect is OWN else dialect.answer_type(request))
        )
        return _granted(response, request) if request.grants else response

    async def _newer(self, row: Endpoint, call: ApiCall, error: BaseException) -> HttpResponse | None:
        """Return the answer of a log's leader to a question about something that is not known here."""
        led = self._context.led
        if not isinstance(error, GoQueueError) or status_of(type(error)) != _NOT_FOUND:
            return None
        try:
            self._context.refuse_while_joining()
            return await led.look_up(row, call.request) if led is not None and row.led in led.logs else None
        except GoQueueError as unknown:
            return self._refusal(call.request, unknown)

    def _failed(self, call: ApiCall, error: BaseException) -> HttpResponse:
        """Return the refusal of a request, and give back what it was charged. Raises what is no refusal."""
        if call.charged_bytes is not None and call.meter is not None:
            call.meter.give_back(1, call.charged_bytes)
        if not isinstance(error, GoQueueError):
            raise error
        return self._refusal(call.request, error)

    def _decode(self, row: Endpoint, request: HttpRequest) -> Any:
        """Return the body of a request, or a coroutine that decodes it."""
        if request.body and request.headers.get("content-type") != JSON:
            _check_content_type(row, request)
        if row.body is not None and row.is_body_optional and not request.body:
            return row.body()
        return None if row.body is None else self._bodies.decode(row, request.body)

    def _refusal(self, request: HttpRequest, error: GoQueueError) -> HttpResponse:
        error = self._context.as_known(error)
        if self._context.gate is not None:
            error = self._context.gate.shown(error, request)
        dialect = OWN if request.endpoint is None else request.endpoint.dialect
        refusal = dialect.refusal(error.without_tracebacks(), request)
        return _granted(refusal, request) if request.grants else refusal


def _guarded(row: Endpoint, call: ApiCall, gate: RequestGate, work: Awaitable[Any]) -> Awaitable[Any]:
    """Return the work of a handler that is ended when its sender loses a right, or that is recorded."""
    return gate.guarded(call.access, work, _action(row, call) if row.is_change else None, _subject(call))


def _action(row: Endpoint, call: ApiCall) -> str:
    """Return the name of a change for records: one that was only planned is told apart from one that was made."""
    is_dry = any(getattr(found, "dry_run", False) is True for found in (call.query, call.body))
    return f"{row.method} {row.path}{' (dry run)' if is_dry else ''}"


def _granted(response: HttpResponse, request: HttpRequest) -> HttpResponse:
    """Return the response with the headers that let an allowed page read it."""
    return replace(response, headers=response.headers + request.grants)


def _subject(call: ApiCall) -> str:
    """Return the name of what a request is about, for records."""
    for name in ("name", "principal"):
        if isinstance(found := getattr(call.body, name, None), str):
            return found
    return "/".join(call.parameters.values())


def is_frames(request: HttpRequest) -> bool:
    kind = request.headers.get("content-type")
    if kind == JSON or kind is None:
        return False
    return kind == FRAMES or _media_type(kind) == FRAMES


def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _check_content_type(row: Endpoint, request: HttpRequest) -> None:
    """Refuse a body that is not declared as JSON: a web page may send other types without a preflight."""
    kind = _media_type(request.headers.get("content-type", ""))
    if kind not in row.dialect.media_types:
        told = f"the content type {quoted(kind)}" if kind else "a body without a content type"
        takes = f"{JSON} or {FRAMES}" if row.frames else JSON
        raise MediaTypeUnsupported(
            f"{told} is not accepted here",
            hint=f"send the header `content-type: {takes}`; curl does so with --json instead of -d",
        )


_NOWHERE = "none"
"""The label of requests to unknown paths, which must not become labels."""


class HttpObserver:
    """Reports requests to metrics and the access log."""

    def __init__(self, metrics: Metrics, access_log: AccessLog | None) -> None:
        self._metrics = metrics
        self._access_log = access_log
        self._counts: dict[Endpoint | None, EndpointCounts] = {}
        self.meters: TenantMeters | None = None
        """Of tenants, whose connections are counted."""

    def connection_opened(self, peer: str) -> None:
        self._metrics.connections += 1
        self._metrics.connections_open += 1
        if self.meters is not None:
            self.meters.open_connection(peer)

    def connection_closed(self, peer: str) -> None:
        self._metrics.connections_open -= 1
        if self.meters is not None:
            self.meters.close_connection(peer)

    def refused(self, reason: str) -> None:
        self._metrics.refuse_connection(reason)

    def answered(self, request: HttpRequest, response: HttpResponse, seconds: float) -> None:
        row: Endpoint | None = request.endpoint
        template = row.path if row is not None else _NOWHERE
        counts = self._counts.get(row)
        if counts is None:
            counts = self._counts[row] = self._metrics.endpoint(row.method if row else "any", template)
        counts.observe(response.status, seconds)
        if self._access_log is not None and self._access_log.has_room(response.status):
            body = response.body
            size = len(body) if isinstance(body, bytes) else sum(map(len, body))
            self._access_log.log(
                AnsweredRequest(
                    request.method,
                    template,
                    request.path,
                    response.status,
                    seconds,
                    len(request.body),
                    size,
                    request.peer,
                    request.id,
                )
            )
