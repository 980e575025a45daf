"""From a request to the row of the table that answers it, and from what that gives to a response."""

from collections.abc import Awaitable, Sequence
from types import CoroutineType
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from goqueue.api.call import App, Call
from goqueue.api.check import decode_query
from goqueue.api.decoding import BodyDecoder, too_large
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.message import Request, Response
from goqueue.api.openapi import FRAMES, JSON
from goqueue.api.scalars import encode_scalar
from goqueue.api.status import refusal
from goqueue.errors import EndpointNotFound, GoQueueError, MediaTypeUnsupported, MethodNotAllowed, RequestInvalid
from goqueue.quantities import quoted

Node = dict[str, Any]
_PARAMETER, _ROWS = "{}", "/"
_CACHED_PATHS_MAX = 4096  # the paths that clients use again and again; what comes on top is looked up
_CACHED_CHARACTERS_MAX = 256  # of one of them, so that nobody fills the memory with inventions
_encode = msgspec.json.Encoder(enc_hook=encode_scalar).encode

Route = tuple[dict[str, Endpoint], tuple[str, ...]]
"""The rows of a path by their methods, and the values of its parameters."""


class Router:
    """Answers requests by the table of endpoints."""

    def __init__(self, endpoints: Sequence[Endpoint], app: App) -> None:
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

    def __call__(self, request: Request) -> Response | Awaitable[Response]:
        """A response for whatever was sent."""
        try:
            row, parameters = self.find(request.method, request.path)
        except GoQueueError as error:
            return refusal(error)
        return self._answer(row, parameters, request)

    def find(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
        """The row, and what stands in the path for its parameters."""
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

    async def _answer(self, row: Endpoint, parameters: dict[str, str], request: Request) -> Response:
        try:
            if row.may_be_large:
                self._app.check_answers()
            call = Call(self._app, request, parameters)
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
            result = await row.handler(call)
        except GoQueueError as error:
            return refusal(error.without_frames())
        return result if isinstance(result, Response) else Response(row.status, _encode(result))


def is_frames(request: Request) -> bool:
    kind = request.headers.get("content-type")
    return kind == FRAMES or (kind is not None and _media_type(kind) == FRAMES)


def _media_type(header: str) -> str:
    """Without its parameters."""
    return header.partition(";")[0].strip().lower()


def _check_content_type(row: Endpoint, request: Request) -> None:
    """Refuse a body that is not announced as JSON: a page of any site may send other types, or none, unasked."""
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
    """Percent-decoded; what is not UTF-8 will not be the name of anything."""
    return unquote_to_bytes(part).decode("utf-8", "replace") if "%" in part else part


def _unknown(path: str) -> EndpointNotFound:
    return EndpointNotFound(f"there is nothing at {quoted(path[:200])}", hint="GET /openapi.json lists all endpoints")
