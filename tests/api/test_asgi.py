"""The broker as an ASGI application: the same answers as from its own server, with any server."""

import asyncio
import re
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from goqueue.api.app import EndpointRoute, create_app
from goqueue.api.http.connection import HttpConnection
from goqueue.api.table import ENDPOINTS
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import FRAMES
from tests.api.test_contract import FIELDS, Recorder, ask_everything
from tests.api.wire import fetch, frames, messages, raw, section, send, until
from tests.brokers import TRANSPORTS, Answer, ask, create, publish, read

with warnings.catch_warnings():  # it prefers a fork of httpx, and works with both
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

SETTINGS = {"log__level": "error", "server__allowed_origins": "http://app.example", "server__request_bytes": "64KiB"}


def answer_of(response: httpx.Response) -> Answer:
    return Answer(
        response.status_code, {name.lower(): text for name, text in response.headers.items()}, response.content
    )


@contextmanager
def transport(name: str, ask: Callable[..., httpx.Response]) -> Iterator[str]:
    """A URL for `ask` of the tests."""

    def sent(method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        return answer_of(ask(method, path, content=body, headers=headers))

    TRANSPORTS[name] = sent
    try:
        yield name
    finally:
        del TRANSPORTS[name]


@contextmanager
def by_test_client(app: Starlette, base: str = "http://localhost:8080") -> Iterator[str]:
    with TestClient(app, base_url=base) as client, transport("asgi:test-client", client.request) as url:
        yield url


@contextmanager
def by_httpx(app: Starlette) -> Iterator[str]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        lifespan = app.router.lifespan_context(app)
        runner.run(lifespan.__aenter__())
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8080")

        def send_request(*given: Any, **more: Any) -> httpx.Response:
            return runner.run(client.request(*given, **more))

        try:
            with transport("asgi:httpx", send_request) as url:
                yield url
        finally:
            runner.run(client.aclose())
            runner.run(lifespan.__aexit__(None, None, None))


@contextmanager
def by_uvicorn(app: ASGIApp, **options: Any) -> Iterator[str]:
    """A server of uvicorn in a thread."""
    config = uvicorn.Config(app, port=0, loop="uvloop", lifespan="on", log_config=None, **options)
    started = threading.Event()

    class Started(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Started(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def app_in(path: Path, *routes: BaseRoute) -> Starlette:
    return create_app(routes=routes, data_dir=str(path / "app"), **SETTINGS)  # type: ignore[arg-type]


SERVED: dict[str, Callable[[Starlette], Any]] = {
    "TestClient": by_test_client,
    "httpx": by_httpx,
    "uvicorn": by_uvicorn,
    "uvicorn with our connections": lambda app: by_uvicorn(app, http=HttpConnection),
}


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The application with the topic `t`, served in one of these ways."""
    with SERVED[request.param](app_in(tmp_path)) as url:
        create(url, "t")
        yield url


def test_every_answer_has_the_fields_that_clients_know(url: str) -> None:
    create(url, "orders")
    publish(url, "orders", *"abcd", key="k")
    recorder = Recorder(url, "/v1")
    ask_everything(recorder)
    assert {
        what: names - recorder.fields[what] for what, names in FIELDS.items() if names - recorder.fields[what]
    } == {}


REQUESTS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("GET", "/topics", None, {}),
    ("GET", "/v1/topics/t/", None, {}),
    ("HEAD", "/topics/t", None, {}),
    ("GET", "/topics/t?verbose=true", None, {}),
    ("GET", "/nowhere", None, {}),
    ("GET", "/v1/v1/topics", None, {}),
    ("GET", "/topics//messages", None, {}),
    ("GET", "/topics/a%2Fb", None, {}),
    ("GET", "/topics/%2e%2e", None, {}),
    ("GET", "/topics/%00", None, {}),
    ("GET", "/topics/%C3%A4", None, {}),
    ("GET", "/topics/%ff", None, {}),
    ("PUT", "/topics", None, {}),
    ("OPTIONS", "/topics", None, {}),
    ("HEAD", "/producers/init", None, {}),
    ("POST", "/topics", {"name": "t"}, {}),
    ("POST", "/topics", {"nome": "u"}, {}),
    ("POST", "/topics", b"{", {}),
    ("POST", "/topics", b'{"name":"x"}', {"content-type": "text/plain"}),
    ("POST", "/topics", b" " * 70_000, {}),
    ("POST", "/topics/t/messages", {"messages": [{"value": "x", "key": "k"}]}, {}),
    ("POST", "/topics/t/messages", {"messages": [{"value": "x"}]}, {"origin": "http://app.example"}),
    ("POST", "/topics/t/messages", {"messages": [{"value": "x"}]}, {"origin": "https://evil.example"}),
    ("POST", "/topics/t/messages", b"GQ", {"content-type": FRAMES}),
    ("GET", "/topics/t/partitions/0/messages?offset=99", None, {}),
    ("GET", "/topics/t/partitions/x/messages", None, {}),
    ("GET", "/topics", None, {"host": "evil.example"}),
    ("GET", "/topics", None, {"sec-fetch-site": "cross-site"}),
    ("GET", "/nowhere", None, {"origin": "http://app.example"}),
    ("GET", "/topics", None, {"x-request-id": "mine-17"}),
    (
        "OPTIONS", "/topics", None,
        {"origin": "http://app.example", "access-control-request-method": "POST"},
    ),
    ("POST", "/topics/t/messages?acks=none", {"messages": [{"value": "x"}]}, {}),  # the last: it may be stored later
]  # fmt: skip
_VOLATILE = re.compile(rb'"(?:created_at|operation|timestamp|etag)":[^,}]+')
_OF_THE_SERVER = {"date", "server", "connection", "x-request-id"}


def told(url: str, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
    answer = ask(url, method, path, body, headers)
    assert answer.headers["x-request-id"]
    assert answer.headers["x-request-id"] == headers.get("x-request-id", answer.headers["x-request-id"])
    kept = {name: text for name, text in answer.headers.items() if name not in _OF_THE_SERVER}
    return answer.status, kept, _VOLATILE.sub(b"", answer.body)


def test_answers_are_those_of_the_brokers_own_server(url: str, tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), **SETTINGS) as broker:
        create(broker.url, "t")
        for request in REQUESTS:
            assert told(url, *request) == told(broker.url, *request), request


def test_frames_are_published_and_read(url: str) -> None:
    assert send(url, section(0, frames([b"a", b"b"]))).status == 200
    assert [message.value for message in messages(fetch(url).body)] == [b"a", b"b"]


def test_metrics_count_requests_by_endpoint(url: str) -> None:
    ask(url, "GET", "/topics/t")
    ask(url, "GET", "/nowhere")
    text = ask(url, "GET", "/metrics").body.decode()
    assert re.search(r'goqueue_http_requests_total\{.*endpoint="/topics/\{topic\}".*\} 1', text)
    assert 'endpoint="none"' in text


def test_reader_that_waits_is_answered_when_a_message_comes(tmp_path: Path) -> None:
    with by_uvicorn(app_in(tmp_path), http=HttpConnection) as url:
        create(url, "t")
        found: list[str] = []
        waiting = threading.Thread(
            target=lambda: found.extend(one["value"] for one in read(url, "t", query="wait=30s&offset=0"))
        )
        waiting.start()
        publish(url, "t", "x")
        waiting.join(30)
        assert found == ["x"]


@pytest.mark.parametrize(
    ("options", "wait"), [({}, 1), ({"http": HttpConnection}, 60)], ids=["its own connections", "our connections"]
)
def test_stop_of_uvicorn_answers_readers_that_wait(tmp_path: Path, options: dict[str, Any], wait: int) -> None:
    found: list[Answer] = []
    app = app_in(tmp_path)
    with by_uvicorn(app, **options, timeout_graceful_shutdown=20) as url:
        create(url, "t")
        publish(url, "t", "x")
        path = f"/topics/t/partitions/0/messages?offset=1&wait={wait}"
        waiting = threading.Thread(target=lambda: found.append(ask(url, "GET", path)))
        waiting.start()
        until(url, lambda: app.state.service.runtime.broker.topic("t").partition(0)._watchers)
    waiting.join(30)
    assert [answer.json["messages"] for answer in found] == [[]]


def test_messages_are_there_after_a_restart(tmp_path: Path) -> None:
    for number in range(2):
        with by_test_client(app_in(tmp_path)) as url:
            if number == 0:
                create(url, "t")
            publish(url, "t", str(number))
            assert [one["value"] for one in read(url, "t")] == ["0", "1"][: number + 1]


def test_application_is_started_once(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    with by_test_client(app):
        pass
    with pytest.raises(RuntimeError, match="create another"), by_test_client(app):
        pass


def test_there_is_a_route_for_each_endpoint(tmp_path: Path) -> None:
    routes = [route for route in app_in(tmp_path).routes if isinstance(route, EndpointRoute)]
    assert [(route.path, min(route.methods or {""})) for route in routes] == [
        (row.path, row.method) for row in ENDPOINTS
    ]


# --- in other applications ---


def hello(request: Request) -> Response:
    return PlainTextResponse(f"hello {request.path_params['name']}", headers={"x-hello": "yes"})


def host_of(app: Starlette) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        async with app.router.lifespan_context(app) as state:
            yield dict(state or {})

    return Starlette(routes=[Route("/hello/{name}", hello), Mount("/queue", app)], lifespan=lifespan)


@pytest.mark.parametrize("served", SERVED)
def test_application_can_be_mounted(tmp_path: Path, served: str) -> None:
    with SERVED[served](host_of(app_in(tmp_path))) as url:
        assert ask(url, "POST", "/queue/topics", {"name": "a.b"}).status == 201
        assert ask(url, "POST", "/queue/v1/topics/a%2Eb/messages", {"messages": [{"value": "x"}]}).status == 200
        assert ask(url, "GET", "/queue/nowhere").code == "endpoint_not_found"
        assert ask(url, "GET", "/queue/topics", headers={"host": "evil.example"}).code == "host_not_allowed"
        assert ask(url, "GET", "/topics").status == 404
        answer = ask(url, "GET", "/hello/w%C3%B6rld")
        assert (answer.status, answer.body.decode(), answer.headers["x-hello"]) == (200, "hello wörld", "yes")


@pytest.mark.parametrize("served", SERVED)
def test_further_routes_are_beside_the_endpoints(tmp_path: Path, served: str) -> None:
    with SERVED[served](app_in(tmp_path, Route("/hello/{name}", hello))) as url:
        assert ask(url, "GET", "/hello/you").body == b"hello you"
        assert ask(url, "GET", "/topics").status == 200
        assert ask(url, "GET", "/nowhere").code == "endpoint_not_found"


class Stamp:
    """A middleware that every answer shows."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def stamped(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-stamp", b"1"))
            await send(message)

        await self._app(scope, receive, stamped if scope["type"] == "http" else send)


@pytest.mark.parametrize("served", SERVED)
def test_middleware_sees_requests_of_every_endpoint(tmp_path: Path, served: str) -> None:
    app = app_in(tmp_path)
    app.add_middleware(Stamp)
    with SERVED[served](app) as url:
        create(url, "t")
        answer = ask(url, "POST", "/topics/t/messages", {"messages": [{"value": "x"}]})
        assert (answer.status, answer.headers["x-stamp"]) == (200, "1")


def test_limits_of_connections_hold_on_uvicorn(tmp_path: Path) -> None:
    with by_uvicorn(app_in(tmp_path), http=HttpConnection) as url:
        smuggled = (
            b"POST /topics HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
        )
        assert raw(url, smuggled).startswith(b"HTTP/1.1 400 ")
        assert raw(url, b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n").startswith(b"HTTP/1.1 413 ")


def test_application_needs_keys_if_authentication_is_on(tmp_path: Path) -> None:
    app = create_app(data_dir=str(tmp_path / "data"), security__authentication="keys", log__level="error")
    with by_test_client(app) as url:
        assert ask(url, "GET", "/topics").status == 401
        assert ask(url, "GET", "/health").status == 200
