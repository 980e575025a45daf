"""A broker's log fetched as the bytes on its disk, while it is written to, shortened and compacted."""

import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from goqueue.testing.broker import LocalBroker
from tests.api.wire import frames, messages, section, send, until
from tests.brokers import Answer, ask, create, publish, read

AT = "/topics/t/partitions/0/segments"


def get(url: str, rest: str = "", at: str = AT) -> Answer:
    return ask(url, "GET", at + rest)


def listed(url: str) -> dict[str, Any]:
    answer = get(url)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


def content(url: str, segment: dict[str, Any], max_bytes: int = 3000) -> bytes:
    """All of a segment as it was listed, in pieces, each with its checksum."""
    found = b""
    while True:
        query = f"?version={segment['version']}&position={len(found)}&max_bytes={max_bytes}"
        answer = get(url, f"/{segment['base_offset']}/log{query}")
        assert answer.status == 200, answer.body
        assert answer.headers["x-goqueue-checksum"] == f"{crc32c(answer.body):08x}"
        if not answer.body:
            return found
        assert answer.headers["content-type"] == "application/octet-stream"
        found += answer.body


def fill(url: str, count: int = 40, **settings: Any) -> None:
    """A topic of several segments."""
    create(url, "t", segment_bytes=4096, **settings)
    for number in range(count):
        publish(url, "t", f"{number:03d}" + "x" * 400, key=f"k{number % 2}")


def test_an_empty_partition_is_one_segment_without_bytes(topic_broker: LocalBroker) -> None:
    found = listed(topic_broker.url)
    (only,) = found.pop("segments")
    assert found == {"topic": "t", "partition": 0, "earliest": 0, "high_watermark": 0, "last_stable": 0}
    assert only | {"version": ""} == {
        "base_offset": 0, "next_offset": 0, "size_bytes": 0, "first_time_ns": None, "last_time_ns": None,
        "is_active": True, "version": "",
    }  # fmt: skip
    assert content(topic_broker.url, only) == get(topic_broker.url, "/0/index").body == b""


def test_the_bytes_are_those_of_the_files(broker: LocalBroker, tmp_path: Path) -> None:
    fill(broker.url)
    found = listed(broker.url)
    segments = found["segments"]
    assert len(segments) > 3
    for one in segments:
        path = tmp_path / f"data/logs/t/0/{one['base_offset']:020d}.log"
        assert content(broker.url, one) == path.read_bytes()
        assert one["size_bytes"] == path.stat().st_size
    assert [one["next_offset"] for one in segments[:-1]] == [one["base_offset"] for one in segments[1:]]
    assert (segments[0]["base_offset"], segments[-1]["next_offset"]) == (found["earliest"], found["high_watermark"])
    assert [one["is_active"] for one in segments] == [False] * (len(segments) - 1) + [True]


def test_the_index_has_an_entry_for_each_block_of_what_is_listed(topic_broker: LocalBroker) -> None:
    for number in range(5):
        publish(topic_broker.url, "t", *(f"{number}" + "x" * 900 for _ in range(10)))
    (one,) = listed(topic_broker.url)["segments"]
    answer = get(topic_broker.url, f"/0/index?version={one['version']}")
    entries = list(struct.iter_unpack(">qqq", answer.body))
    assert answer.headers["x-goqueue-checksum"] == f"{crc32c(answer.body):08x}"
    whole = content(topic_broker.url, one, 16 * 1024 * 1024)
    starts = {message.offset: message.timestamp_ns for message in messages(whole)}
    assert len(entries) == -(-len(whole) // 4096)
    assert {position // 4096 for _, position, _ in entries} == set(range(len(entries)))
    for offset, position, time in entries:
        assert whole[position : position + 2] == b"GQ"
        assert int.from_bytes(whole[position + 8 : position + 16], "big") == offset
        assert starts[offset] == time


def test_delayed_log_of_a_partition_is_served_on_request(broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "t", segment_bytes=4096)
    assert get(broker.url, "?delayed=true").json == {
        "topic": "t", "partition": 0, "earliest": 0, "high_watermark": 0, "last_stable": 0, "segments": [],
    }  # fmt: skip
    answer = get(broker.url, "/0/log?delayed=true")
    assert (answer.status, answer.code) == (404, "segment_not_found")
    assert answer.json["error"] == "nothing was ever scheduled in partition 0 of t"
    for _ in range(30):
        publish(broker.url, "t", "x" * 400, delay="1h")
    found = get(broker.url, "?delayed=true").json
    assert (found["earliest"], found["high_watermark"]) == (0, 30)
    assert len(found["segments"]) > 2
    for one in found["segments"]:
        path = tmp_path / f"data/logs/t/0/delayed/{one['base_offset']:020d}.log"
        query = f"delayed=true&version={one['version']}"
        assert get(broker.url, f"/{one['base_offset']}/log?{query}").body == path.read_bytes()
        entries = list(struct.iter_unpack(">qqq", get(broker.url, f"/{one['base_offset']}/index?{query}").body))
        assert entries[0][:2] == (one["base_offset"], 0)
    assert listed(broker.url)["high_watermark"] == 0
    assert get(broker.url, "?delayed=perhaps").status == 400


def test_bytes_are_counted_as_read(broker: LocalBroker) -> None:
    fill(broker.url, 3)
    (one,) = listed(broker.url)["segments"]
    size = len(content(broker.url, one))
    assert f'goqueue_bytes_read_total{{topic="t"}} {size}' in ask(broker.url, "GET", "/metrics").body.decode()


@pytest.mark.parametrize("flush", ["always", "interval"])
def test_while_messages_are_published_every_answer_is_whole_and_ends_before_the_high_watermark(
    tmp_path: Path, flush: str
) -> None:
    with LocalBroker(str(tmp_path / "data"), storage__flush=flush, storage__flush_interval="50ms") as broker:
        create(broker.url, "t", segment_bytes=65536)

        def work(worker: int) -> None:
            for turn in range(40):
                batch = frames([b"%d-%d" % (worker, turn) + b"x" * 200] * 50)
                assert send(broker.url, section(0, batch)).status == 200

        with ThreadPoolExecutor(3) as pool:
            jobs = [pool.submit(work, worker) for worker in range(3)]
            while not all(job.done() for job in jobs):
                found = listed(broker.url)
                newest = found["segments"][-1]
                body = get(broker.url, f"/{newest['base_offset']}/log?max_bytes=16777216").body
                limit = listed(broker.url)["high_watermark"]
                told = messages(body[: newest["size_bytes"]])
                assert [one.offset for one in told] == list(range(newest["base_offset"], newest["next_offset"]))
                assert all(one.offset < limit for one in messages(body))
            for job in jobs:
                job.result()
        found = listed(broker.url)
        stored = [one for segment in found["segments"] for one in messages(content(broker.url, segment, 100_000))]
        assert [one.offset for one in stored] == list(range(6000))


def test_a_segment_that_retention_has_removed_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), storage__upkeep_interval="100ms") as broker:
        fill(broker.url)
        before = listed(broker.url)["segments"]
        assert ask(broker.url, "PATCH", "/admin/topics/t", {"retention_bytes": 5000}).status == 200
        until(broker.url, lambda: listed(broker.url)["earliest"] > before[1]["base_offset"])
        for rest in ("log", "index"):
            answer = get(broker.url, f"/{before[0]['base_offset']}/{rest}")
            assert (answer.status, answer.code) == (404, "segment_not_found")
            assert answer.json["hint"] == "list the segments again"
        assert content(broker.url, before[-1]) != b""


def test_a_segment_that_compaction_has_replaced_is_not_given_for_the_one_that_was_listed(broker: LocalBroker) -> None:
    fill(broker.url, cleanup="compact")
    before = listed(broker.url)["segments"]
    assert ask(broker.url, "POST", "/admin/topics/t/compact").status == 200
    after = listed(broker.url)["segments"]
    assert len(after) < len(before)
    first = before[0]
    answer = get(broker.url, f"/{first['base_offset']}/log?version={first['version']}")
    assert (answer.status, answer.code) == (404, "segment_not_found")
    assert answer.json["error"] == "segment 0 of log t/0 was replaced since it was listed"
    assert get(broker.url, f"/{before[1]['base_offset']}/log").code == "segment_not_found"
    left = [one.offset for segment in after for one in messages(content(broker.url, segment))]
    assert left == [one["offset"] for one in read(broker.url, "t", 0, "limit=1000")]


def test_after_a_restart_segments_are_the_same_in_another_version(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        fill(broker.url)
        before = listed(broker.url)["segments"]
    with LocalBroker(str(tmp_path / "data")) as broker:
        for _ in range(2):  # the second time the first ones are remembered
            after = listed(broker.url)["segments"]
            assert [one["first_time_ns"] for one in after] == [one["first_time_ns"] for one in before]
            assert [one["size_bytes"] for one in after] == [one["size_bytes"] for one in before]
        assert {one["version"] for one in before}.isdisjoint(one["version"] for one in after)
        assert get(broker.url, f"/0/log?version={before[0]['version']}").status == 404
        for one, following in pairwise(after):
            assert one["last_time_ns"] is None
            assert messages(content(broker.url, one))[-1].timestamp_ns <= following["first_time_ns"]


@pytest.mark.parametrize(
    ("rest", "status", "code"),
    [
        ("/0/log?position=-1", 400, "request_invalid"),
        ("/0/log?position=9223372036854775808", 400, "request_invalid"),
        ("/0/log?position=x", 400, "request_invalid"),
        ("/0/log?max_bytes=0", 400, "request_invalid"),
        ("/0/log?max_bytes=16777217", 400, "request_invalid"),
        ("/0/log?offset=1", 400, "request_invalid"),
        ("/0/log?version=" + "x" * 41, 400, "request_invalid"),
        ("/0/log?version=", 404, "segment_not_found"),
        ("/0/index?position=1", 400, "request_invalid"),
        ("?version=1", 400, "request_invalid"),
        ("/-1/log", 404, "segment_not_found"),
        ("/00/log", 404, "segment_not_found"),
        ("/x/index", 404, "segment_not_found"),
        ("/%D9%A1/log", 404, "segment_not_found"),
        ("/1/log", 404, "segment_not_found"),
        ("/9223372036854775807/log", 404, "segment_not_found"),
        ("/9223372036854775808/index", 404, "segment_not_found"),
        ("/" + "9" * 400 + "/log", 404, "segment_not_found"),
        ("/0", 404, "endpoint_not_found"),
    ],
)
def test_contradictory_parameters_are_refused(unchanged: str, rest: str, status: int, code: str) -> None:
    answer = get(unchanged, rest)
    assert (answer.status, answer.code) == (status, code)


def test_position_after_the_end_returns_nothing(unchanged: str) -> None:
    answer = get(unchanged, "/0/log?position=9223372036854775807")
    assert (answer.status, answer.body, answer.headers["x-goqueue-checksum"]) == (200, b"", "00000000")


@pytest.mark.parametrize("rest", ["", "/0/log", "/0/index"])
def test_unknown_segment_is_refused(unchanged: str, rest: str) -> None:
    assert get(unchanged, rest, "/topics/unknown/partitions/0/segments").code == "topic_not_found"
    for number in ("1", "-1", "x", "00"):
        assert get(unchanged, rest, f"/topics/t/partitions/{number}/segments").code == "partition_not_found"
    assert ask(unchanged, "POST", AT + rest).code == "method_not_allowed"


def test_unopened_log_reports_the_reason(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t")
        publish(broker.url, "t", "a")
    shutil.rmtree(tmp_path / "data/logs/t/0")
    with LocalBroker(str(tmp_path / "data")) as broker:
        for rest in ("", "/0/log", "/0/index"):
            answer = get(broker.url, rest)
            assert (answer.status, answer.code) == (503, "log_fenced")
