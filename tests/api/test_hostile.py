"""Hostile requests: each is refused with a code, changes nothing, and the broker keeps working."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import FRAMES
from tests.api.members import Member, of
from tests.api.wire import frames, raw, section, send
from tests.brokers import Answer, ask, create, publish, read
from tests.processes import Served

MIB = 1024 * 1024
INTERNAL = {"__metadata", "__consumer_offsets", "__operations", "__schemas", "__security", "__audit", "__transactions"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A broker with one topic and one message, and the directory of its logs."""
    path = tmp_path_factory.mktemp("hostile")
    with LocalBroker(str(path / "data")) as broker:
        create(broker.url, "t")
        publish(broker.url, "t", "kept")
        yield broker.url, path / "data" / "logs"


@pytest.fixture
def url(served: tuple[str, Path]) -> Iterator[str]:
    """The broker, in which the test changes nothing."""
    url, logs = served
    before = sorted(map(str, logs.rglob("*")))
    yield url
    assert ask(url, "GET", "/health").json["status"] == "ok"
    assert ask(url, "GET", "/topics").json == {"topics": ["t"]}
    assert [message["value"] for message in read(url, "t")] == ["kept"]
    assert sorted(map(str, logs.rglob("*"))) == before


def refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code)
    told = answer.json["error"]
    assert told.isprintable()
    assert len(answer.body) < 100_000


# --- names ---

PATHS = {
    "dots": "%2e%2e", "one dot": "%2E", "slash": "a%2Fb", "parent": "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "twice": "%252e%252e%252f", "nul": "%00", "backslash": "a%5Cb", "newline": "a%0d%0ax-evil:%201",
    "no utf-8": "%ff%fe", "no escape": "a%zz", "a rest": "a%", "overlong": "%c0%ae%c0%ae", "plus": "a+b",
    "umlaut": "%C3%A4", "right to left": "a%E2%80%AEb", "semicolon": "t;v=1", "escape": "%1b%5b2J", "colon": "a:b",
    "long": "n" * 300, "longest": "n" * 256,
}  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
@pytest.mark.parametrize("name", PATHS.values(), ids=PATHS)
def test_paths_that_could_lead_elsewhere_lead_nowhere(url: str, name: str, method: str) -> None:
    body = {"messages": [{"value": "x"}]} if method == "POST" else None
    tail = "/messages" if method == "POST" else ""
    refused(ask(url, method, f"/topics/{name}{tail}", body), 400, "topic_name_invalid")


@pytest.mark.parametrize(
    "path", ["/topics/../topics/t", "/topics/t/../../etc", "//topics/t", "/topics/t//", "/./topics", "/groups//"]
)
def test_paths_are_not_simplified(url: str, path: str) -> None:
    answer = raw(url, f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    assert answer.split()[1] in {b"404", b"400"}


def test_names_that_only_look_dangerous_are_names(tmp_path: Path) -> None:
    names = [".x", "...", ".lock", "FORMAT", "trash", "0", "-", "--help", "a.log", ".tmp", "NUL", "snapshot", "_"]
    with LocalBroker(str(tmp_path / "data")) as broker:
        for name in names:
            create(broker.url, name)
            publish(broker.url, name, name)
    assert {path.name for path in (tmp_path / "data/logs").iterdir()} == {*names, *INTERNAL}
    with LocalBroker(str(tmp_path / "data")) as broker:
        assert ask(broker.url, "GET", "/topics").json["topics"] == sorted(names)
        assert [read(broker.url, name)[0]["value"] for name in names] == names
        for name in names:
            assert ask(broker.url, "DELETE", f"/topics/{name}").status == 200
        assert {path.name for path in (tmp_path / "data/logs").iterdir()} == INTERNAL


# --- JSON ---

BODIES: dict[str, bytes] = {
    "cut": b'{"messages":[{"value":"x"}',
    "nan": b'{"messages":[{"value":"x","priority":NaN}]}',
    "fraction": b'{"messages":[{"value":"x","partition":0.0}]}',
    "million digits": b'{"messages":[{"value":"x","partition":%s}]}' % (b"9" * 1_000_000),
    "deep value": b'{"messages":[{"value":%s}]}' % (b"[" * 5000 + b"]" * 5000),
    "lone surrogate in a name": b'{"messages":[{"value":"x","headers":{"\\udc00":"v"}}]}',
    "header twice": b'{"messages":[{"value":"x","headers":{"a":"1","\\u0061":"2"}}]}',
    "utf-16": '{"messages":[{"value":"x"}]}'.encode("utf-16"),
    "nul": b'{"messages":[{"value":"x"}]}\x00',
    "compressed": zlib.compress(b'{"messages":[{"value":"x"}]}'),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_invalid_json_is_refused(url: str, body: bytes) -> None:
    refused(ask(url, "POST", "/topics/t/messages", body), 400, "request_invalid")


def test_very_many_problems_make_no_large_answer(url: str) -> None:
    names = {f"unknown-{number}": number for number in range(50_000)}
    refused(ask(url, "POST", "/topics", {"name": "new", **names}), 400, "request_invalid")
    refused(ask(url, "POST", "/topics", {"name": "new", "x" * 1_000_000: 1}), 400, "request_invalid")


# --- numbers and times in queries ---


@pytest.mark.parametrize(
    "query",
    [
        "offset=-1", "offset=1.5", f"offset={2**63}", f"offset={10**400}", "offset=", "offset=1&offset=1", "limit=0",
        "limit=10001", "max_bytes=0", f"max_bytes={16 * MIB + 1}", "wait=-1s", "from_time=2026-02-30T00:00:00Z",
        "from_time=2026-01-01", "from_time=9999-12-31T23:59:59Z", "from_time=0001-01-01T00:00:00Z", "from_time=1",
        "to_time=2026-01-01T00:00:00", "skip_damage=1", "isolation=none", "%ff=1", "a=%",
        "&".join(f"p{number}=1" for number in range(800)),
    ],
    ids=lambda query: query[:40],
)  # fmt: skip
def test_invalid_query_parameters_are_refused(url: str, query: str) -> None:
    refused(ask(url, "GET", f"/topics/t/partitions/0/messages?{query}"), 400, "request_invalid")


def test_frames_in_json_and_json_in_frames_are_refused(url: str) -> None:
    refused(ask(url, "POST", "/topics/t/messages", section(0, frames([b"x"]))), 400, "request_invalid")
    body = json.dumps({"messages": [{"value": "x"}]}).encode()
    refused(ask(url, "POST", "/topics/t/messages", body, {"content-type": FRAMES}), 400, "frame_invalid")
    answer = ask(url, "POST", "/topics", section(0, frames([b"x"])), {"content-type": FRAMES})
    refused(answer, 415, "media_type_unsupported")


# --- compressed values that hold more than they may ---


def bomb(size: int, *, says_so: bool) -> bytes:
    """A small value that unpacks to very much."""
    if says_so:
        return zstandard.ZstdCompressor(level=1).compress(bytes(size))
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join(stream.compress(bytes(MIB)) for _ in range(size // MIB)) + stream.flush()


@pytest.mark.parametrize("says_so", [True, False])
def test_a_bomb_is_stored_and_never_unpacked_beyond_the_limit(tmp_path: Path, says_so: bool) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t")
        content = bomb(64 * MIB, says_so=says_so)
        send(broker.url, section(0, frames([b"a"]) + frame.encode(content, flags=frame.COMPRESSED) + frames([b"b"])))
        first, found, last = read(broker.url, "t")
        assert (first["value"], found["encoding"], last["value"]) == ("a", "zstd", "b")
        assert len(found["value"]) < 2 * len(content)


# --- answers that are not read ---


def test_reads_and_polls_are_refused_while_answers_hold_too_much(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t")
        publish(broker.url, "t", "x")
        member = ask(broker.url, "POST", "/groups/g/join", {"topics": ["t"]}).json["member_id"]
        whole, single = "/topics/t/messages", "/topics/t/partitions/0/messages"
        segment, poll = "/topics/t/partitions/0/segments/0/log", f"/groups/g/poll?member_id={member}"
        broker.daemon.server.answer_bytes += 200 * MIB
        for path in (whole, single, segment, poll):
            refused(ask(broker.url, "GET", path), 503, "broker_overloaded")
        for path in ("/healthz", "/health", "/metrics", "/topics/t", "/groups/g"):
            assert ask(broker.url, "GET", path).status == 200
        publish(broker.url, "t", "y")
        broker.daemon.server.answer_bytes -= 200 * MIB
        assert len(read(broker.url, "t")) == 2
        found = ask(broker.url, "GET", poll).json["messages"]
        assert [message["attempt"] for message in found] == [1, 1], "nothing was handed out before"


# --- what reaches the log of the broker ---


def test_control_characters_do_not_reach_the_log(tmp_path: Path) -> None:
    message = {"value": "v\x1b[2J\r\n", "key": "k\x1b]0;x\x07", "headers": {"h\x1b[1m": "\x9b31m"}}
    evil = "\x1b[2J\r\nERROR forged\x07 \x9b31m"
    with Served("--data-dir", str(tmp_path / "data"), "--log-level", "debug", "--log-requests", "1000") as served:
        url = served.url
        create(url, "t")
        assert ask(url, "POST", "/topics/t/messages", {"messages": [message]}).status == 200
        ask(url, "GET", "/topics/%1b%5b2J%0d%0aERROR%20forged/messages", headers={"x-request-id": "\x9b31mred"})
        ask(url, "GET", "/nowhere%0aforged")
        ask(url, "POST", "/topics", {"name": "\x1b[2J\nforged"})
        assert read(url, "t")[0]["value"] == message["value"]
        member = Member(url, topics=["t"], client_id="<b>\u00e4</b>").join()
        refused(ask(url, "POST", "/groups/g/join", {"topics": ["t"], "client_id": evil}), 400, "request_invalid")
        refused(ask(url, "POST", "/groups/billing/heartbeat", {"member_id": evil}), 409, "member_unknown")
        refused(ask(url, "POST", "/messages/ack", {"receipt_handle": evil}), 400, "receipt_invalid")
        refused(ask(url, "GET", "/groups/%1b%5b2J%0d%0aERROR%20forged"), 400, "group_name_invalid")
        (lease,) = member.lease()
        member.settle(rejects=[of(lease, reason=evil)])
        _, said = served.stop()
    assert "/nowhere" in said
    lines = said.splitlines()
    assert all(line.isprintable() for line in lines), lines
    assert not [line for line in lines if line.startswith(("forged", "ERROR forged"))]
