"""The broker as a Starlette application: a route for each endpoint, which any ASGI server can serve.

The routes and the server of the daemon call the same pipeline. Here another server reads the requests, with limits of
its own; deadlines for slow clients are its affair, unless it is uvicorn with `http=HttpConnection`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from goqueue.api.asgi import ROUTE, PipelineApp, path_of
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.bridge import AppBridge
from goqueue.api.http.message import HttpRequest, RequestHandler
from goqueue.api.http.server_state import STATE_KEY
from goqueue.api.pipeline import RequestPipeline
from goqueue.api.routes import Routes
from goqueue.api.service import BrokerService
from goqueue.clock import SystemClock
from goqueue.config import Config, load
from goqueue.errors import EndpointNotFound, MethodNotAllowed
from goqueue.storage.disk import SystemDisk


class EndpointRoute(Route):
    """The route of a row of the table. All of them share one lookup of the path, which also knows `/v1`."""

    def __init__(self, row: Endpoint, routes: Routes, app: PipelineApp) -> None:
        super().__init__(row.path, row.handler, methods=[row.method], name=f"{row.method} {row.path}")
        self.app = app
        self._row = row
        self._routes = routes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        path = path_of(scope)
        try:
            if self._row not in self._routes.rows_at(path)[0].values():
                return Match.NONE, {}
            row, parameters = self._routes.find(scope["method"], path)
        except MethodNotAllowed:  # which the pipeline says
            return Match.PARTIAL, {}
        except EndpointNotFound:
            return Match.NONE, {}
        if row is not self._row:
            return Match.NONE, {}
        return Match.FULL, {"endpoint": self.endpoint, "path_params": parameters, ROUTE: (row, parameters)}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


def create_app(*, config: Config | None = None, routes: Sequence[BaseRoute] = (), **settings: str) -> Starlette:
    """Return a broker as an application; `settings` are those of `goqueue serve`, as `data_dir` or `storage__flush`.

    Its lifespan starts and stops the broker, once. Further `routes` are tried when no endpoint has the path.
    """
    flags = {name.replace("__", "."): text for name, text in settings.items()}
    service = BrokerService(config or load(None, None, flags), SystemDisk(), SystemClock())
    answer = PipelineApp(service.pipeline, service.server)
    endpoints = [EndpointRoute(row, service.pipeline.routes, answer) for row in service.endpoints]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        if service.server.app is not None:
            raise RuntimeError("this application has been started before: create another with create_app")
        service.server.app, service.server.handle = app, _handler(app, service.pipeline)
        service.start()
        try:
            yield {STATE_KEY: service.server}
        finally:
            service.server.begin_stop()
            service.server.end()
            await service.stop()

    app = Starlette(routes=[*endpoints, *routes], lifespan=lifespan)
    app.state.service = service
    app.router.redirect_slashes = False
    app.router.default = answer
    return app


def _handler(app: Starlette, pipeline: RequestPipeline) -> RequestHandler:
    """Return what answers requests that our own connections have read: as little as the application allows."""
    bridge = AppBridge(app)
    if app.user_middleware:
        return bridge
    if all(isinstance(route, EndpointRoute) for route in app.routes):
        return pipeline

    def answer(request: HttpRequest) -> Any:
        try:
            pipeline.routes.rows_at(request.path)
        except EndpointNotFound:
            return bridge(request)
        return pipeline(request)

    return answer
