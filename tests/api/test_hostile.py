"""What nobody sends by accident: each is refused with a code, changes nothing, and the broker goes on."""

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import FRAMES, frames, raw, section, send, until
from tests.brokers import Answer, ask, create, publish, read
from tests.processes import Served

MIB = 1024 * 1024
INTERNAL = {"__metadata", "__consumer_offsets", "__transactions"}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A broker with one topic and one message, which are all that there is at the end as well."""
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t")
        publish(broker.url, "t", "kept")
        until(broker.url, lambda: broker.daemon.runtime.store.reserve.is_made)
        before = sorted(str(path) for path in (tmp_path / "data").rglob("*"))
        yield broker.url
        assert ask(broker.url, "GET", "/health").json["status"] == "ok"
        assert ask(broker.url, "GET", "/topics").json == {"topics": ["t"]}
        assert [message["value"] for message in read(broker.url, "t")] == ["kept"]
        assert sorted(str(path) for path in (tmp_path / "data").rglob("*")) == before


def refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code)
    told = answer.json["error"]
    assert told.isprintable()
    assert len(answer.body) < 100_000


# --- names ---

NAMES = {
    "..": "..",
    ".": ".",
    "parent": "../etc",
    "deep parent": "a/../../etc/passwd",
    "absolute": "/etc/passwd",
    "slash": "a/b",
    "backslash": "a\\b",
    "nul": "a\0b",
    "newline": "a\nb",
    "escape": "\x1b[2J",
    "right to left": "a\u202eb",
    "space": "a b",
    "umlaut": "ä",
    "percent": "a%2Fb",
    "long": "n" * 256,
    "longer": "n" * 300,
    "colon": "a:b",
    "star": "*",
    "tilde": "~root",
    "dollar": "$HOME",
    "internal": "__metadata2",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_that_could_mean_something_else_make_no_topic(url: str, name: str) -> None:
    refused(ask(url, "POST", "/topics", {"name": name}), 400, "topic_name_invalid")


PATHS = {
    "dots": "%2e%2e",
    "one dot": "%2E",
    "slash": "a%2Fb",
    "parent": "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "twice": "%252e%252e%252f",
    "nul": "%00",
    "backslash": "a%5Cb",
    "newline": "a%0d%0ax-evil:%201",
    "no utf-8": "%ff%fe",
    "no escape": "a%zz",
    "a rest": "a%",
    "overlong": "%c0%ae%c0%ae",
    "plus": "a+b",
    "semicolon": "t;v=1",
    "long": "n" * 300,
}


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
@pytest.mark.parametrize("name", PATHS.values(), ids=PATHS)
def test_paths_that_could_lead_elsewhere_lead_nowhere(url: str, name: str, method: str) -> None:
    body = {"messages": [{"value": "x"}]} if method == "POST" else None
    tail = "/messages" if method == "POST" else ""
    refused(ask(url, method, f"/topics/{name}{tail}", body), 400, "topic_name_invalid")


@pytest.mark.parametrize(
    "path", ["/topics/../topics/t", "/topics/t/../../etc", "//topics/t", "/topics/t//", "/./topics"]
)
def test_paths_are_not_simplified(url: str, path: str) -> None:
    answer = raw(url, f"GET {path} HTTP/1.1\r\nhost: b\r\nconnection: close\r\n\r\n".encode())
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
    "nothing": b"",
    "space": b" \n",
    "no json": b"value=1",
    "cut": b'{"messages":[{"value":"x"}',
    "a rest": b'{"messages":[{"value":"x"}]}{}',
    "single quotes": b"{'messages':[]}",
    "nan": b'{"messages":[{"value":"x","priority":NaN}]}',
    "infinity": b'{"messages":[{"value":"x","priority":Infinity}]}',
    "fraction": b'{"messages":[{"value":"x","partition":0.5}]}',
    "fraction of nothing": b'{"messages":[{"value":"x","partition":0.0}]}',
    "million digits": b'{"messages":[{"value":"x","partition":%s}]}' % (b"9" * 1_000_000),
    "huge exponent": b'{"messages":[{"value":"x","partition":1e999999999}]}',
    "2^63": b'{"messages":[{"value":"x","partition":9223372036854775808}]}',
    "negative": b'{"messages":[{"value":"x","partition":-1}]}',
    "true": b'{"messages":[{"value":"x","partition":true}]}',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"messages":' * 50_000,
    "deep value": b'{"messages":[{"value":%s}]}' % (b"[" * 5000 + b"]" * 5000),
    "lone surrogate": b'{"messages":[{"value":"\\ud800"}]}',
    "lone surrogate in a name": b'{"messages":[{"value":"x","headers":{"\\udc00":"v"}}]}',
    "given twice": b'{"messages":[{"value":"x","value":"y"}]}',
    "header twice": b'{"messages":[{"value":"x","headers":{"a":"1","\\u0061":"2"}}]}',
    "no utf-8": b'{"messages":[{"value":"\xff"}]}',
    "utf-16": '{"messages":[{"value":"x"}]}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"messages":[{"value":"x"}]}',
    "raw control": b'{"messages":[{"value":"\x01"}]}',
    "nul": b'{"messages":[{"value":"x"}]}\x00',
    "gzip": zlib.compress(b'{"messages":[{"value":"x"}]}'),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_json_that_is_none_or_says_too_much_is_refused(url: str, body: bytes) -> None:
    refused(ask(url, "POST", "/topics/t/messages", body), 400, "request_invalid")


def test_very_many_problems_make_no_large_answer(url: str) -> None:
    names = {f"unknown-{number}": number for number in range(50_000)}
    refused(ask(url, "POST", "/topics", {"name": "new", **names}), 400, "request_invalid")
    refused(ask(url, "POST", "/topics", {"name": "new", "x" * 1_000_000: 1}), 400, "request_invalid")


# --- numbers and times in queries ---


@pytest.mark.parametrize(
    "query",
    [
        "offset=-1",
        "offset=1.5",
        "offset=1e3",
        f"offset={2**63}",
        f"offset={10**400}",
        "offset=" + "9" * 5000,
        "offset=0x10",
        "offset=+1",
        "offset=%D9%A1",
        "offset=1_0",
        "offset=",
        "offset",
        "offset=null",
        "offset=1&offset=1",
        "limit=0",
        "limit=-1",
        "limit=10001",
        f"limit={2**63}",
        "max_bytes=0",
        f"max_bytes={16 * MIB + 1}",
        f"max_bytes={2**63}",
        "wait=-1s",
        "wait=Infinity",
        "wait=" + "9" * 400,
        "from_time=yesterday",
        "from_time=2026-02-30T00:00:00Z",
        "from_time=2026-01-01",
        "from_time=9999-12-31T23:59:59Z",
        "from_time=0001-01-01T00:00:00Z",
        "from_time=1",
        "to_time=2026-01-01T00:00:00",
        "skip_damage=1",
        "skip_damage=True",
        "isolation=none",
        "%ff=1",
        "a=%",
        "offset=%00",
        "&".join(f"p{number}=1" for number in range(800)),
    ],
)
def test_queries_that_mean_nothing_are_refused(url: str, query: str) -> None:
    refused(ask(url, "GET", f"/topics/t/partitions/0/messages?{query}"), 400, "request_invalid")


@pytest.mark.parametrize("target", ["/" + "a" * 10_000, "/topics/t?" + "a" * 10_000])
def test_a_target_without_end_is_refused(url: str, target: str) -> None:
    refused(ask(url, "GET", target), 413, "request_too_large")


def test_headers_without_end_are_refused(url: str) -> None:
    refused(ask(url, "GET", "/healthz", headers={"x-large": "a" * 100_000}), 413, "request_too_large")
    refused(ask(url, "GET", "/healthz", headers={f"x-{one}": "a" for one in range(200)}), 413, "request_too_large")


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(url: str) -> None:
    request = b"POST /topics/t/messages HTTP/1.1\r\nhost: b\r\ncontent-length: 99999999999\r\n\r\n"
    assert b"413 " in raw(url, request).partition(b"\r\n")[0]


# --- frames ---


@pytest.mark.parametrize("partition", [1, 2**31 - 1, 2**31 + 1, 2**32 - 1])
def test_sections_of_partitions_far_away_are_refused(url: str, partition: int) -> None:
    refused(send(url, section(partition, frames([b"x"]))), 404, "partition_not_found")


@pytest.mark.parametrize("length", [0, 1, 2**31 - 1, 2**31, 2**32 - 1])
def test_sections_that_lie_about_their_length_are_refused(url: str, length: int) -> None:
    refused(send(url, section(0, frames([b"x"]), length)), 400, "frame_invalid")


@pytest.mark.parametrize("cut", range(0, 44, 3))
def test_a_frame_that_was_cut_anywhere_is_refused(url: str, cut: int) -> None:
    refused(send(url, section(0, frames([b"longer than a header"])[:cut])), 400, "frame_invalid")


def test_checksums_that_cancel_each_other_are_seen(url: str) -> None:
    content = bytearray(frames([b"a" * 50] * 200))
    size = len(content) // 200
    for number in (10, 20):
        at = number * size + frame.AT_CRC
        content[at : at + 4] = struct.pack(">I", struct.unpack_from(">I", content, at)[0] ^ 0x5A5A5A5A)
    refused(send(url, section(0, bytes(content))), 400, "frame_invalid")


def test_frames_in_json_and_json_in_frames_are_refused(url: str) -> None:
    refused(ask(url, "POST", "/topics/t/messages", section(0, frames([b"x"]))), 400, "request_invalid")
    body = json.dumps({"messages": [{"value": "x"}]}).encode()
    refused(ask(url, "POST", "/topics/t/messages", body, {"content-type": FRAMES}), 400, "frame_invalid")
    refused(ask(url, "POST", "/topics", section(0, frames([b"x"])), {"content-type": FRAMES}), 400, "request_invalid")


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


def test_many_bombs_do_not_fill_one_answer(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t")
        content = frame.encode(bomb(15 * MIB, says_so=True), flags=frame.COMPRESSED)
        send(broker.url, section(0, content * 100))
        answer = ask(broker.url, "GET", "/topics/t/partitions/0/messages?limit=10000")
        assert (len(answer.json["messages"]), answer.json["next_offset"]) == (1, 1)
        whole = ask(broker.url, "GET", "/topics/t/messages?limit=10000")
        assert len(whole.json["messages"]) == 1


# --- what reaches the log of the broker ---


def test_nothing_that_a_terminal_obeys_reaches_the_log(tmp_path: Path) -> None:
    evil: dict[str, Any] = {"value": "v\x1b[2J\r\n", "key": "k\x1b]0;x\x07", "headers": {"h\x1b[1m": "\x9b31m"}}
    with Served("--data-dir", str(tmp_path / "data"), "--log-level", "debug", "--log-requests", "1000") as served:
        create(served.url, "t")
        assert ask(served.url, "POST", "/topics/t/messages", {"messages": [evil]}).status == 200
        ask(served.url, "GET", "/topics/%1b%5b2J%0d%0aERROR%20forged/messages", headers={"x-request-id": "\x9b31mred"})
        ask(served.url, "GET", "/nowhere%0aforged")
        ask(served.url, "POST", "/topics", {"name": "\x1b[2J\nforged"})
        assert read(served.url, "t")[0]["value"] == evil["value"]
        _, said = served.stop()
    assert "/nowhere" in said
    lines = said.splitlines()
    assert all(line.isprintable() for line in lines), lines
    assert not [line for line in lines if line.startswith(("forged", "ERROR forged"))]
