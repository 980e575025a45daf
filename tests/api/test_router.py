"""Paths, methods and media types: what is found, what is not, and what is said then."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from goqueue.api.endpoint import Endpoint
from goqueue.api.table import ENDPOINTS
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import FRAMES
from goqueue.wire.trace_context import derived_trace_id
from tests.api.members import Member
from tests.api.wire import fetch, raw, until
from tests.brokers import ask, create, publish
from tests.cluster.processes import SECRET, free_ports

_OF_KEYS = {"/admin/keys/{key}", "/admin/acls/test"}  # a broker without authentication has no keys
_OF_SEVERAL_NODES = {"/admin/reassignment/{reassignment}"}  # one node has nothing to move
READABLE = [row for row in ENDPOINTS if row.method == "GET" and row.path not in _OF_KEYS | _OF_SEVERAL_NODES]
_TRACE = derived_trace_id("t", 0, 1).hex()  # offset 0 has the first frame of the leader, as it has in the delayed log
_GUID = "86510f91-11b0-8975-b187-0bdca6dab1ea"
"""Of the schema "string"."""


@dataclass(frozen=True)
class Furnished:
    """A broker that has something at every path."""

    url: str
    member: str
    """Of the group `g`."""
    backup: str

    def path(self, row: Endpoint) -> str:
        """A path that the endpoint answers."""
        needed = {
            "offset": "?time=2026-01-01T00:00:00Z",
            "assignment": f"?member_id={self.member}",
            "poll": f"?member_id={self.member}&timeout=0",
        }
        path = row.path.format(
            topic="t", partition=0, group="g", segment=0, offset=1,
            transactional_id="app", operation=1, trace=_TRACE, subject="s", version="latest", id=1,
            guid=_GUID, tenant="acme", backup=self.backup,
        )  # fmt: skip
        return path + needed.get(row.path.rpartition("/")[2], "")


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Furnished]:
    path = tmp_path_factory.mktemp("furnished")
    settings = {
        "tenants__enabled": "true",
        "backup__target": str(path / "backups"),
        "cluster__node_id": "n1",
        "cluster__peers": f"n1=127.0.0.1:{free_ports(1)[0]}",
        "cluster__secret_file": str(path / "secret"),
    }
    (path / "secret").write_text(SECRET)
    with LocalBroker(str(path / "data"), **settings) as broker:
        url = broker.url
        create(url, "t")
        publish(url, "t", "x")
        publish(url, "t", "later", delay="1h")
        assert ask(url, "POST", "/producers/init", {"transactional_id": "app"}).status == 200
        assert ask(url, "POST", "/subjects/s/versions", {"schema": '"string"'}).status == 200
        assert ask(url, "PUT", "/config/s", {"compatibility": "FULL"}).status == 200
        assert ask(url, "PUT", "/mode/s", {"mode": "READWRITE"}).status == 200
        assert ask(url, "POST", "/admin/tenants", {"name": "acme"}).status == 201
        member = Member(url, "g", topics=["t"], session_timeout="30m").join()
        backup = ask(url, "POST", "/admin/backup", {}).json["id"]
        until(url, lambda: ask(url, "GET", f"/admin/backup/{backup}").json["state"] == "complete")
        yield Furnished(url, member.id, backup)


@pytest.mark.parametrize("row", READABLE, ids=lambda row: row.path)
def test_path_is_also_below_v1_and_answers_head(furnished: Furnished, row: Endpoint) -> None:
    url, path = furnished.url, furnished.path(row)
    plain, versioned = (ask(url, "GET", prefix + path) for prefix in ("", "/v1"))
    assert (plain.status, versioned.status) == (200, 200)
    for alias in row.aliases:
        assert ask(url, "GET", alias.format(subject="s", version="latest", id=1, guid=_GUID)).status == 200
    assert plain.headers["content-type"] == versioned.headers["content-type"]
    head = ask(url, "HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == plain.headers["content-type"]
    assert int(head.headers["content-length"]) > 0


def test_changes_are_also_below_v1(broker: LocalBroker) -> None:
    assert ask(broker.url, "POST", "/v1/topics", {"name": "t"}).status == 201
    assert ask(broker.url, "POST", "/v1/topics/t/messages", {"messages": [{"value": "x"}]}).status == 200
    assert ask(broker.url, "PATCH", "/v1/admin/topics/t", {"retention_hours": 1}).status == 200
    assert ask(broker.url, "POST", "/v1/producers/init", {}).status == 200
    assert ask(broker.url, "DELETE", "/v1/topics/t").status == 200


@pytest.mark.parametrize("path", ["/healthz", "/nowhere", "/topics/absent"])
def test_request_id_is_returned(shared_broker: LocalBroker, path: str) -> None:
    assert ask(shared_broker.url, "GET", path, headers={"x-request-id": "mine-17"}).headers["x-request-id"] == "mine-17"


def test_request_without_an_id_gets_a_unique_one(shared_broker: LocalBroker) -> None:
    first, second = (ask(shared_broker.url, "GET", "/healthz").headers["x-request-id"] for _ in range(2))
    assert first
    assert first != second


def test_head_answers_for_frames_as_well(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", "x")
    got = fetch(topic_broker.url)
    head = ask(topic_broker.url, "HEAD", "/topics/t/partitions/0/messages", headers={"accept": FRAMES})
    told = ("content-type", "content-length", "x-goqueue-next-offset", "x-goqueue-checksum")
    assert [head.headers[name] for name in told] == [got.headers[name] for name in told]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/topics", "GET, HEAD, POST"),
        ("POST", "/topics/t", "DELETE, GET, HEAD"),
        ("GET", "/producers/init", "POST"),
        ("HEAD", "/admin/topics/t", "PATCH"),
        ("OPTIONS", "/healthz", "GET, HEAD"),
        ("BREW", "/healthz", None),
    ],
)
def test_unknown_method_is_refused_with_the_known_ones(
    shared_broker: LocalBroker, method: str, path: str, allowed: str | None
) -> None:
    answer = ask(shared_broker.url, method, path)
    if allowed is None:  # no method at all: the request itself is malformed
        assert (answer.status, answer.code) == (400, "request_invalid")
        return
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    if method != "HEAD":
        assert answer.code == "method_not_allowed"
        assert answer.json["hint"] == f"it knows {allowed}"
        assert answer.json["details"] == {"allowed": allowed.split(", ")}


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v1", "/v2/topics", "/Topics", "/topics/t/partitions/0", "/topics//messages", "/topics/t/messages/more",
        "/{}", "/%2Ftopics", "/v1/v1/topics",
    ],
)  # fmt: skip
def test_unknown_path_is_not_found(shared_broker: LocalBroker, path: str) -> None:
    answer = ask(shared_broker.url, "GET", path)
    assert (answer.status, answer.code) == (404, "endpoint_not_found")
    assert "GET /openapi.json" in answer.json["hint"]


def test_parameters_that_an_endpoint_does_not_take_are_named(topic_broker: LocalBroker) -> None:
    answer = ask(topic_broker.url, "GET", "/topics/t/partitions/0/messages?ofset=3&limit=1&limit=2")
    assert (answer.status, answer.code) == (400, "request_invalid")
    problems = {problem["place"]: problem for problem in answer.json["details"]["problems"]}
    assert problems["ofset"]["hint"] == "did you mean offset?"
    assert problems["limit"]["problem"] == "is given twice"
    assert ask(topic_broker.url, "GET", "/topics/t?verbose=true").code == "request_invalid"


@pytest.mark.parametrize(
    "kind",
    [
        "application/octet-stream", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded",
        "text/plain", "text/plain;charset=UTF-8", "application/json-patch+json", "text/plain, application/json", "",
    ],
)  # fmt: skip
def test_body_of_another_content_type_is_refused(shared_broker: LocalBroker, kind: str) -> None:
    answer = ask(shared_broker.url, "POST", "/topics", {"name": "refused"}, {"content-type": kind})
    assert (answer.status, answer.code) == (415, "media_type_unsupported")
    assert (kind.partition(";")[0] or "without a content type") in answer.json["error"]
    assert "--json" in answer.json["hint"]
    assert ask(shared_broker.url, "GET", "/topics/refused").status == 404


def test_body_without_a_content_type_is_refused(broker: LocalBroker) -> None:
    request = (
        b"POST /topics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 12\r\n\r\n" + b'{"name":"t"}'
    )
    assert raw(broker.url, request).startswith(b"HTTP/1.1 415 ")


@pytest.mark.parametrize("path", ["/admin/topics/t/compact", "/topics/t/delayed/0/0/deliver"])
def test_body_that_an_endpoint_does_not_need_has_to_be_json_too(topic_broker: LocalBroker, path: str) -> None:
    assert ask(topic_broker.url, "POST", path, b"x", {"content-type": "text/plain"}).status == 415


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_is_understood_however_it_is_announced(broker: LocalBroker, kind: str) -> None:
    assert ask(broker.url, "POST", "/topics", {"name": "t"}, {"content-type": kind}).status == 201


@pytest.mark.parametrize("kind", [FRAMES, FRAMES.upper(), f"{FRAMES}; version=1"])
def test_frames_are_understood_however_they_are_announced(topic_broker: LocalBroker, kind: str) -> None:
    answer = ask(topic_broker.url, "POST", "/topics/t/messages", b"GQ", {"content-type": kind})
    assert (answer.status, answer.code) == (400, "frame_invalid")
