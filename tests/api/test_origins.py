"""Web pages and foreign names: a browser on the broker's machine must not be a way in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.wire import raw
from tests.brokers import Answer, ask, create, publish

PAGE = "http://app.example:3000"
EVIL = "https://evil.example"
MESSAGE = {"messages": [{"value": "x"}]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that allows one more name and one origin."""
    path = tmp_path_factory.mktemp("origins")
    allowed = {"server__allowed_hosts": "queue.example, other.example", "server__allowed_origins": PAGE}
    with LocalBroker(str(path / "data"), **allowed) as broker:
        create(broker.url, "t")
        yield broker.url


def asks(url: str, method: str = "GET", path: str = "/topics", body: Any = None, **headers: str) -> Answer:
    return ask(url, method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})


def port(url: str) -> str:
    return url.rpartition(":")[2]


# --- host ---


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.0.0.1:{port}", "localhost:{port}", "LocalHost", "localhost.", "192.0.2.7:80", "[::1]:{port}",
        "[fe80::1%25eth0]", "queue.example", "QUEUE.example.:{port}", "other.example", "",
    ],
)  # fmt: skip
def test_known_names_and_addresses_are_served(url: str, host: str) -> None:
    assert asks(url, host=host.format(port=port(url))).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example", "evil-queue.example",
        "a.queue.example", "queue", "localhost:80:80", "evil.example@localhost", "[evil.example]",
        "localhost/evil.example", "127.0.0.1, evil.example",
    ],
)  # fmt: skip
def test_foreign_names_are_refused_with_the_setting_to_change(url: str, host: str) -> None:
    for _ in range(2):
        answer = asks(url, host=host.format(port=port(url)))
        assert (answer.status, answer.code) == (403, "host_not_allowed")
        assert "server.allowed_hosts" in answer.json["hint"]


def test_foreign_name_cannot_publish(url: str) -> None:
    before = asks(url, path="/topics/t").json["total_messages"]
    assert asks(url, "POST", "/topics/t/messages", MESSAGE, host="evil.example").status == 403
    assert asks(url, path="/topics/t").json["total_messages"] == before


def test_request_of_http_1_0_without_a_host_is_served(url: str) -> None:
    assert raw(url, b"GET /topics HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_host_names_of_a_flood_are_not_all_remembered(url: str) -> None:
    for number in range(70):
        assert asks(url, host=f"127.0.0.1:{number}").status == 200
    assert asks(url, host="evil.example").status == 403


def test_the_machines_own_name_and_the_host_setting_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Machine")
    with LocalBroker(str(tmp_path / "data"), server__host="localhost") as broker:
        assert asks(broker.url, host="machine:8080").status == 200
        assert asks(broker.url, host="machine.example").status == 403


def test_any_name_and_any_origin_can_be_allowed(tmp_path: Path) -> None:
    allowed = {"server__allowed_hosts": "*", "server__allowed_origins": "*"}
    with LocalBroker(str(tmp_path / "data"), **allowed) as broker:
        assert asks(broker.url, host="evil.example").status == 200
        assert asks(broker.url, sec_fetch_site="cross-site").status == 200
        answer = asks(broker.url, origin=EVIL)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, EVIL)


# --- origin ---


@pytest.mark.parametrize("origin", [EVIL, "null", "http://localhost", "http://127.0.0.1:1", "http://app.example", ""])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_foreign_origin_is_refused_with_the_setting_to_change(url: str, origin: str, method: str) -> None:
    answer = asks(url, method, "/topics/t", origin=origin)
    assert (answer.status, answer.code) == (403, "origin_not_allowed")
    assert "server.allowed_origins" in answer.json["hint"]
    assert "access-control-allow-origin" not in answer.headers


def test_foreign_page_cannot_publish(url: str) -> None:
    before = asks(url, path="/topics/t").json["total_messages"]
    for kind in ("text/plain", "application/json"):
        assert asks(url, "POST", "/topics/t/messages", MESSAGE, origin=EVIL, content_type=kind).status == 403
    assert asks(url, path="/topics/t").json["total_messages"] == before


def test_request_for_another_site_without_an_origin_is_refused(url: str) -> None:
    answer = asks(url, sec_fetch_site="cross-site", sec_fetch_mode="no-cors")
    assert (answer.status, answer.code) == (403, "origin_not_allowed")


@pytest.mark.parametrize("site", ["same-origin", "same-site", "none"])
def test_request_of_the_same_site_without_an_origin_is_served(url: str, site: str) -> None:
    assert asks(url, sec_fetch_site=site).status == 200


@pytest.mark.parametrize("origin", ["http://queue.example", "https://QUEUE.example"])
def test_page_of_the_brokers_own_origin_is_served(url: str, origin: str) -> None:
    headers = {"host": "queue.example", "origin": origin, "sec_fetch_site": "same-origin"}
    assert asks(url, "POST", "/topics/t/messages", MESSAGE, **headers).status == 200


def test_page_of_an_allowed_origin_may_read_answers_and_refusals(url: str) -> None:
    publish(url, "t", "x")
    for path, status in (("/topics/t/messages", 200), ("/topics/none", 404), ("/nowhere", 404)):
        answer = asks(url, path=path, origin=PAGE, sec_fetch_site="cross-site")
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, PAGE)
        assert answer.headers["vary"] == "origin"


def test_preflight_of_an_allowed_origin_is_answered(url: str) -> None:
    asked = {"access_control_request_method": "POST", "access_control_request_headers": "content-type,x-request-id"}
    answer = asks(url, "OPTIONS", "/topics/t/messages", origin=PAGE, **asked)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "content-type,x-request-id"
    assert int(answer.headers["access-control-max-age"]) > 0


def test_client_that_is_no_browser_gets_no_headers_for_browsers(url: str) -> None:
    assert not [name for name in asks(url).headers if name.startswith("access-control")]
