"""Finds the endpoint of a request, calls its handler and makes the response; reports requests to metrics and logs."""

from collections.abc import Awaitable, Sequence
from types import CoroutineType
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from goqueue.api.endpoint import ApiCall, ApiContext, Endpoint
from goqueue.api.fields import encode_scalar
from goqueue.api.http.error_responses import error_response
from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.api.validation import BodyDecoder, decode_query, too_large
from goqueue.errors import EndpointNotFound, GoQueueError, MediaTypeUnsupported, MethodNotAllowed, RequestInvalid
from goqueue.observe.logs import AccessLog, AnsweredRequest
from goqueue.observe.metrics import EndpointCounts, Metrics
from goqueue.quantities import quoted
from goqueue.wire.headers import FRAMES, JSON

Node = dict[str, Any]
_PARAMETER, _ROWS = "{}", "/"
_CACHED_PATHS_MAX = 4096  # the paths that clients use often; others are looked up
_CACHED_CHARACTERS_MAX = 256  # of one of them, so that long paths do not fill the memory
_encode = msgspec.json.Encoder(enc_hook=encode_scalar).encode

Route = tuple[dict[str, Endpoint], tuple[str, ...]]
"""The endpoints of a path by method, and the values of its parameters."""


class RequestRouter:
    """Answers requests according to the table of endpoints."""

    def __init__(self, endpoints: Sequence[Endpoint], app: ApiContext) -> None:
        self._app = app
        self._root: Node = {}
        self._cache: dict[str, Route] = {}
        for row in endpoints:
            node = self._root
            for part in row.path.strip("/").split("/"):
                node = node.setdefault(_PARAMETER if part.startswith("{") else part, {})
            node.setdefault(_ROWS, {})[row.method] = row
        self._bodies = BodyDecoder()
        self._names = {row.path: tuple(_parameters(row.path)) for row in endpoints}

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """Return the response to any request."""
        try:
            row, parameters = self.find(request.method, request.path)
        except GoQueueError as error:
            return error_response(error)
        return self._answer(row, parameters, request)

    def find(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
        """Return the endpoint and the path parameters."""
        rows, values = self._cache.get(path) or self._match(path)
        row = rows.get("GET" if method == "HEAD" else method)
        if row is None:
            allowed = sorted({*rows, *(("HEAD",) if "GET" in rows else ())})
            raise MethodNotAllowed(
                f"{path[:200]} does not know the method {method}",
                hint=f"it knows {', '.join(allowed)}",
                allowed=allowed,
            )
        return row, dict(zip(self._names[row.path], values, strict=True))

    def _match(self, path: str) -> Route:
        parts = path.removeprefix("/").removesuffix("/").split("/")
        if parts[0] == "v1":
            del parts[0]
        node, values = self._root, []
        for part in parts:
            if part in node and part not in (_PARAMETER, _ROWS):
                node = node[part]
            elif _PARAMETER in node and part:
                node = node[_PARAMETER]
                values.append(_decoded(part))
            else:
                raise _unknown(path)
        if _ROWS not in node:
            raise _unknown(path)
        route = node[_ROWS], tuple(values)
        if len(self._cache) < _CACHED_PATHS_MAX and len(path) <= _CACHED_CHARACTERS_MAX:
            self._cache[path] = route
        return route

    async def _answer(self, row: Endpoint, parameters: dict[str, str], request: HttpRequest) -> HttpResponse:
        try:
            if row.may_be_large:
                self._app.check_answers()
            call = ApiCall(self._app, request, parameters)
            body = request.body
            if row.body_bytes is not None and len(body) > row.body_bytes:
                raise too_large(row, body)
            if row.query is not None:
                call.query = decode_query(row.query, request.query)
            elif request.query:
                raise RequestInvalid(f"{row.path} takes no parameters, {quoted(request.query)} was sent", problems=[])
            if not (row.frames and is_frames(request)):
                if body and request.headers.get("content-type") != JSON:
                    _check_content_type(row, request)
                if row.body is not None:
                    value = self._bodies.decode(row, body)
                    call.body = await value if isinstance(value, CoroutineType) else value
            result = await row.handler(call, *[getattr(call, name) for name in row.takes])
        except GoQueueError as error:
            return error_response(error.without_tracebacks())
        return result if isinstance(result, HttpResponse) else HttpResponse(row.status, _encode(result))


def is_frames(request: HttpRequest) -> bool:
    kind = request.headers.get("content-type")
    return kind == FRAMES or (kind is not None and _media_type(kind) == FRAMES)


def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _check_content_type(row: Endpoint, request: HttpRequest) -> None:
    """Refuse a body that is not declared as JSON: a web page may send other types without a preflight."""
    kind = _media_type(request.headers.get("content-type", ""))
    if kind != JSON:
        told = f"the content type {quoted(kind)}" if kind else "a body without a content type"
        takes = f"{JSON} or {FRAMES}" if row.frames else JSON
        raise MediaTypeUnsupported(
            f"{told} is not accepted here",
            hint=f"send the header `content-type: {takes}`; curl does so with --json instead of -d",
        )


def _parameters(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _decoded(part: str) -> str:
    """Percent-decode a part of the path. Nothing has a name that is not UTF-8."""
    return unquote_to_bytes(part).decode("utf-8", "replace") if "%" in part else part


def _unknown(path: str) -> EndpointNotFound:
    return EndpointNotFound(f"there is nothing at {quoted(path[:200])}", hint="GET /openapi.json lists all endpoints")


_NOWHERE = "none"
"""The label of requests to unknown paths, which must not become labels."""


class HttpObserver:
    """Reports requests to metrics and the access log."""

    def __init__(self, metrics: Metrics, router: RequestRouter, access_log: AccessLog | None) -> None:
        self._metrics = metrics
        self._router = router
        self._access_log = access_log
        self._counts: dict[Endpoint | None, EndpointCounts] = {}

    def connection_opened(self) -> None:
        self._metrics.connections += 1
        self._metrics.connections_open += 1

    def connection_closed(self) -> None:
        self._metrics.connections_open -= 1

    def refused(self, reason: str) -> None:
        self._metrics.refuse_connection(reason)

    def answered(self, request: HttpRequest, response: HttpResponse, seconds: float) -> None:
        try:
            row: Endpoint | None = self._router.find(request.method, request.path)[0]
        except GoQueueError:
            row = None
        template = row.path if row is not None else _NOWHERE
        counts = self._counts.get(row)
        if counts is None:
            counts = self._counts[row] = self._metrics.endpoint(row.method if row else "any", template)
        counts.observe(response.status, seconds)
        if self._access_log is not None:
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
