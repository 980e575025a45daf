"""Publishing and reading frames: sections, checksums, and what each section hears."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from goqueue.compression import compress
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import FRAMES
from tests.api.wire import fetch, frames, messages, section, send
from tests.brokers import ask, create, publish, read


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """A broker with the topic `t` of three partitions."""
    create(broker.url, "t", partitions=3)
    return broker.url


@pytest.fixture(scope="module")
def empty(module_broker: LocalBroker) -> str:
    """A broker with the same topic, in which nothing is stored."""
    create(module_broker.url, "t", partitions=3)
    return module_broker.url


def stored(url: str) -> list[list[bytes]]:
    """The values of each partition."""
    return [[message.value for message in messages(fetch(url, partition=number).body)] for number in range(3)]


# --- what goes in ---


def test_publish_returns_offsets_of_each_section(url: str) -> None:
    answer = send(url, section(2, frames([b"a", b"b"])) + section(0, frames([b"c"])))
    first, second = answer.json["results"]
    assert first.pop("timestamp") <= second.pop("timestamp")
    assert first == {"partition": 2, "first_offset": 0, "next_offset": 2, "duplicate": False}
    assert second == {"partition": 0, "first_offset": 0, "next_offset": 1, "duplicate": False}
    assert stored(url) == [[b"c"], [], [b"a", b"b"]]


def test_message_round_trip_is_exact(url: str) -> None:
    headers = frame.encode_headers([("h", b"1"), ("h", b"\xff")])
    sent = frame.encode(b"\x00\xff", b"key", headers, priority=4)
    result = send(url, section(1, sent)).json["results"][0]
    (found,) = messages(fetch(url, partition=1).body)
    assert (found.value, found.key, found.headers, found.priority) == (
        b"\x00\xff", b"key", (("h", b"1"), ("h", b"\xff")), 4,
    )  # fmt: skip
    assert found.offset == result["first_offset"]
    assert read(url, "t", 1)[0]["timestamp"] == result["timestamp"]


def test_publish_without_acks_returns_no_offsets(url: str) -> None:
    answer = send(url, section(0, frames([b"x"])), query="acks=none")
    assert answer.json["results"] == [{"partition": 0, "first_offset": None, "next_offset": None}]
    publish(url, "t", "y", partition=0)
    assert stored(url)[0] == [b"x", b"y"]


def test_publish_without_acks_reports_known_errors(url: str) -> None:
    answer = send(url, section(0, b"GQ nonsense") + section(1, frames([b"x"])), query="acks=none")
    assert answer.json["results"][0]["error"]["code"] == "frame_invalid"


def test_the_checksum_may_be_left_out_or_be_in_large_letters(url: str) -> None:
    body = section(0, frames([b"x"]))
    assert ask(url, "POST", "/topics/t/messages", body, {"content-type": FRAMES}).status == 200
    assert send(url, body, checksum=f"{crc32c(body):08X}").status == 200


@pytest.mark.parametrize("said", ["00000000", "x", "123", "-1"])
def test_wrong_checksum_is_refused_and_nothing_is_stored(empty: str, said: str) -> None:
    answer = send(empty, section(0, frames([b"x"])), checksum=said)
    assert (answer.status, answer.code) == (400, "checksum_mismatch")
    assert said in answer.json["error"]
    assert answer.json["hint"]
    assert stored(empty) == [[], [], []]


def test_a_body_that_was_changed_on_its_way_is_refused(empty: str) -> None:
    body = bytearray(section(0, frames([b"x" * 100])))
    said = f"{crc32c(bytes(body)):08x}"
    body[-10] ^= 1
    assert send(empty, bytes(body), checksum=said).code == "checksum_mismatch"


GOOD = frames([b"good"])


@pytest.mark.parametrize(
    "body",
    [
        GOOD,
        section(0, GOOD)[:-1],
        section(0, GOOD, length=len(GOOD) + 1),
        section(0, GOOD, length=2**32 - 1),
        section(0, GOOD, length=0),
        section(0, GOOD) + b"\x00\x00\x00",
        section(0, GOOD) + section(1, b"", length=0),
        section(0, GOOD) + section(0, GOOD),
    ],
    ids=["none", "cut", "one more", "4 GiB", "zero", "a rest", "empty", "twice"],
)
def test_sections_that_do_not_add_up_are_refused_as_a_whole(empty: str, body: bytes) -> None:
    answer = send(empty, body)
    assert (answer.status, answer.code) == (400, "frame_invalid")
    assert stored(empty) == [[], [], []]


def test_an_empty_body_is_refused(empty: str) -> None:
    answer = send(empty, b"")
    assert (answer.status, answer.code) == (400, "request_invalid")


@pytest.mark.parametrize(
    "content",
    [
        GOOD[:-1] + b"!",
        GOOD + b"G",
        frame.encode(b"x", headers=b"\x00\x01\x00\x01\xff\x00\x00"),
        frame.encode(b"x", headers=b"\x00\x02\x00\x01a\x00\x00"),
        frame.encode(b"x", headers=b"\x00\x01\x00\x01a\x00\x00\x00"),
    ],
    ids=["wrong checksum", "a rest", "header that is not text", "headers that lie", "headers with a rest"],
)
def test_invalid_frames_fail_only_their_section(url: str, content: bytes) -> None:
    answer = send(url, section(1, content))
    assert (answer.status, answer.code) == (400, "frame_invalid")
    first, second = send(url, section(1, GOOD + content) + section(2, GOOD)).json["results"]
    assert first["error"]["code"] == "frame_invalid"
    assert (second["first_offset"], second["next_offset"]) == (0, 1)
    assert stored(url) == [[], [], [b"good"]]


def test_a_message_that_is_too_large_fails_its_section_alone(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=3, max_message_bytes=1024)
    first, second = send(broker.url, section(0, frames([b"x" * 2000])) + section(1, GOOD)).json["results"]
    assert first["error"]["code"] == "message_too_large"
    assert second["next_offset"] == 1


@pytest.mark.parametrize("partition", [3, 2**31 - 1])
def test_unknown_partition_fails_only_its_section(url: str, partition: int) -> None:
    first, second = send(url, section(partition, GOOD) + section(1, GOOD)).json["results"]
    assert (first["partition"], first["error"]["code"]) == (partition, "partition_not_found")
    assert first["error"]["details"] == {"partitions": 3}
    assert second["next_offset"] == 1
    assert send(url, section(partition, GOOD)).status == 404


def test_fenced_partition_fails_only_its_section(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t", partitions=2)
        publish(broker.url, "t", "x", partition=1)
    shutil.rmtree(tmp_path / "data/logs/t/1")
    with LocalBroker(str(tmp_path / "data")) as broker:
        first, second = send(broker.url, section(1, GOOD) + section(0, GOOD)).json["results"]
        assert first["error"]["code"] == "log_fenced"
        assert second["next_offset"] == 1
        assert send(broker.url, section(1, GOOD)).status == 503
        assert fetch(broker.url, partition=1).code == "log_fenced"


# --- what comes out ---


def test_frames_answer_has_offsets_in_headers(url: str) -> None:
    send(url, section(0, frames([b"%d" % number for number in range(5)])))
    answer = fetch(url, "offset=2")
    told = {name: answer.headers[name] for name in answer.headers if name.startswith("x-goqueue-")}
    assert told == {
        "x-goqueue-next-offset": "5",
        "x-goqueue-high-watermark": "5",
        "x-goqueue-last-stable": "5",
        "x-goqueue-first-offset": "0",
        "x-goqueue-partitions": "3",
        "x-goqueue-checksum": f"{crc32c(answer.body):08x}",
    }
    assert answer.headers["content-type"] == FRAMES
    assert [message.offset for message in messages(answer.body)] == [2, 3, 4]


def test_at_the_end_an_answer_in_frames_is_empty(url: str) -> None:
    send(url, section(0, GOOD))
    answer = fetch(url, "offset=1")
    assert (answer.status, answer.body, answer.headers["x-goqueue-next-offset"]) == (200, b"", "1")
    assert answer.headers["x-goqueue-checksum"] == "00000000"


def test_bytes_bound_an_answer_in_frames_and_one_is_given_always(url: str) -> None:
    send(url, section(0, frames([b"x" * 1000] * 10)))
    assert [message.offset for message in messages(fetch(url, "max_bytes=1").body)] == [0]
    some = fetch(url, "max_bytes=3500&offset=4")
    assert [message.offset for message in messages(some.body)] == [4, 5, 6]
    assert some.headers["x-goqueue-next-offset"] == "7"
    assert len(messages(fetch(url, "limit=1").body)) == 10, "the limit is for JSON"


def test_accept_may_name_other_types_as_well(url: str) -> None:
    send(url, section(0, GOOD))
    accept = {"accept": f"application/json;q=0.5, {FRAMES}"}
    answer = ask(url, "GET", "/topics/t/partitions/0/messages", headers=accept)
    assert answer.headers["content-type"] == FRAMES


def test_refusal_is_json_for_a_client_that_accepts_frames(url: str) -> None:
    answer = fetch(url, "offset=9")
    assert (answer.status, answer.code, answer.headers["content-type"]) == (
        404, "offset_out_of_range", "application/json",
    )  # fmt: skip


def test_compressed_values_stay_as_they_are_in_frames(url: str) -> None:
    small: Any = compress(b"a" * 10_000)
    send(url, section(0, frame.encode(small, flags=frame.COMPRESSED)))
    (found,) = messages(fetch(url).body)
    assert (found.value, found.flags) == (small, frame.COMPRESSED)
