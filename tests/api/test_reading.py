"""Reading as JSON: by offset, by time, with patience, and past what is broken."""

import base64
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from goqueue.compression import compress
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import fetch, frames, messages, section, send, until
from tests.brokers import Answer, ask, create, publish, read

WHERE = "/topics/t/partitions/0/messages"


def get(broker: LocalBroker, query: str = "", path: str = WHERE) -> Answer:
    return ask(broker.url, "GET", f"{path}?{query}")


def values(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [message["value"] for message in answer.json["messages"]]


@pytest.fixture(scope="module")
def ten(module_broker: LocalBroker) -> LocalBroker:
    """A broker whose topic `t` holds the messages 0 to 9, each appended at a time of its own; no test changes it."""
    create(module_broker.url, "t")
    for number in range(10):
        publish(module_broker.url, "t", str(number))
    return module_broker


def times(broker: LocalBroker) -> list[str]:
    found = [message["timestamp"] for message in read(broker.url, "t")]
    assert found == sorted(set(found))
    return found


# --- by offset ---


def test_a_message_has_all_that_is_known_of_it(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", "v", key="k", headers={"h": "1"}, priority="high")
    answer = get(topic_broker)
    (found,) = answer.json["messages"]
    assert found.pop("timestamp").endswith("Z")
    assert found == {"offset": 0, "key": "k", "value": "v", "priority": 1, "headers": {"h": "1"}}
    assert answer.json["next_offset"] == 1


@pytest.mark.parametrize(
    ("query", "expected", "following"),
    [
        ("", range(10), 10),
        ("offset=0", range(10), 10),
        ("offset=7", range(7, 10), 10),
        ("limit=3", range(3), 3),
        ("offset=4&limit=2", range(4, 6), 6),
        ("offset=9", range(9, 10), 10),
        ("offset=10", [], 10),
        ("max_bytes=1", range(1), 1),
        ("offset=5&max_bytes=120", range(5, 8), 8),
        ("max_bytes=16777216&limit=10000&skip_damage=true&isolation=read_uncommitted", range(10), 10),
    ],
)
def test_offsets_and_bounds(ten: LocalBroker, query: str, expected: Any, following: int) -> None:
    answer = get(ten, query)
    assert values(answer) == [str(number) for number in expected]
    assert answer.json["next_offset"] == following


def test_read_without_a_limit_returns_a_hundred_messages(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", *map(str, range(250)))
    assert values(get(topic_broker)) == [str(number) for number in range(100)]
    assert values(get(topic_broker, "limit=10000&offset=20")) == [str(number) for number in range(20, 250)]


def test_empty_partition_returns_no_messages(topic_broker: LocalBroker) -> None:
    assert get(topic_broker).json == {"messages": [], "next_offset": 0}


@pytest.mark.parametrize("offset", [11, 2**63 - 1])
def test_an_offset_outside_is_refused_with_those_that_there_are(ten: LocalBroker, offset: int) -> None:
    answer = get(ten, f"offset={offset}")
    assert (answer.status, answer.code) == (404, "offset_out_of_range")
    assert answer.json["details"] | {"first": 0, "next": 10} == answer.json["details"]
    assert str(offset) in answer.json["error"]


# --- by time ---


@pytest.mark.parametrize(
    ("first", "last", "expected"), [(3, None, range(3, 10)), (None, 6, range(7)), (3, 6, range(3, 7)), (5, 5, [5])]
)
def test_times_bound_what_is_read_and_both_ends_count(
    ten: LocalBroker, first: int | None, last: int | None, expected: Any
) -> None:
    at = times(ten)
    bounds = {"from_time": first, "to_time": last}
    query = "&".join(f"{name}={at[number]}" for name, number in bounds.items() if number is not None)
    for path in (WHERE, "/topics/t/messages"):
        assert values(get(ten, query, path)) == [str(number) for number in expected]


def test_an_offset_and_a_time_mean_the_later_of_both(ten: LocalBroker) -> None:
    at = times(ten)
    assert values(get(ten, f"offset=2&from_time={at[8]}")) == ["8", "9"]
    assert values(get(ten, f"offset=8&from_time={at[2]}")) == ["8", "9"]


def test_times_before_and_after_everything(ten: LocalBroker) -> None:
    assert len(values(get(ten, "from_time=1970-01-01T00:00:00Z"))) == 10
    late = get(ten, "from_time=2200-01-01T00:00:00Z")
    assert (values(late), late.json["next_offset"]) == ([], 10)
    early = get(ten, "to_time=1970-01-01T00:00:00Z")
    assert (values(early), early.json["next_offset"]) == ([], 0)


@pytest.mark.parametrize("path", [WHERE, "/topics/t/messages"])
def test_times_in_the_wrong_order_are_refused(ten: LocalBroker, path: str) -> None:
    answer = get(ten, "from_time=2026-02-01T00:00:00Z&to_time=2026-01-01T00:00:00Z", path)
    assert (answer.status, answer.code) == (400, "request_invalid")
    assert answer.json["details"]["problems"][0]["place"] == "from_time"


def test_the_offset_at_a_time(ten: LocalBroker) -> None:
    at = times(ten)
    path = "/topics/t/partitions/0/offset"
    assert get(ten, f"time={at[4]}", path).json == {"partition": 0, "offset": 4}
    assert get(ten, "time=1970-01-01T00:00:00Z", path).json["offset"] == 0
    assert get(ten, "time=2200-01-01T00:00:00Z", path).json["offset"] == 10
    assert get(ten, "time=2026-01-01T12:00:00%2B02:00", path).status == 200
    assert get(ten, "", path).code == "request_invalid"
    plus = get(ten, "time=2026-01-01T12:00:00+02:00", path)
    assert "%2B" in plus.json["hint"]


# --- with patience ---


@contextmanager
def waiting(broker: LocalBroker, query: str = "wait=60s", topic: str = "t") -> Iterator[Future[Answer]]:
    """A reader that the broker lets wait."""
    partition = broker.daemon.runtime.broker.topics[topic].partitions[0]
    before = len(partition._watchers)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(get, broker, query, f"/topics/{topic}/partitions/0/messages")
        until(broker.url, lambda: len(partition._watchers) > before)
        yield answer


def test_all_waiting_readers_are_woken(topic_broker: LocalBroker) -> None:
    with waiting(topic_broker) as first, waiting(topic_broker) as second:
        publish(topic_broker.url, "t", "new")
        assert [values(answer.result()) for answer in (first, second)] == [["new"], ["new"]]


def test_waiting_read_returns_the_next_offset_at_the_timeout(ten: LocalBroker) -> None:
    for wait in ("1ms", "0.001", "0"):
        assert get(ten, f"offset=10&wait={wait}").json == {"messages": [], "next_offset": 10}


def test_read_does_not_wait_if_there_are_messages(ten: LocalBroker) -> None:
    assert len(values(get(ten, "wait=60s"))) == 10


@pytest.mark.parametrize("wait", ["61s", "-1s", "-1", "1h", "soon", "NaN", "1e3", ""])
def test_wait_beyond_the_maximum_is_refused(ten: LocalBroker, wait: str) -> None:
    answer = get(ten, f"offset=10&wait={wait}")
    assert (answer.status, answer.code) == (400, "request_invalid")
    assert answer.json["details"]["problems"][0]["place"] == "wait"


def test_waiting_read_of_another_partition_is_not_woken(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    with waiting(broker) as answer:
        publish(broker.url, "t", "elsewhere", partition=1)
        assert not answer.done()
        publish(broker.url, "t", "here", partition=0)
        assert values(answer.result()) == ["here"]


def test_waiting_read_ends_when_the_topic_is_deleted(topic_broker: LocalBroker) -> None:
    with waiting(topic_broker) as answer:
        ask(topic_broker.url, "DELETE", "/topics/t")
        assert (answer.result().status, answer.result().code) == (404, "topic_not_found")


def test_waiting_request_ends_when_the_broker_stops(tmp_path: Path) -> None:
    broker = LocalBroker(str(tmp_path / "data")).start()
    create(broker.url, "t")
    with waiting(broker) as answer:
        broker.stop()
        assert answer.result().json == {"messages": [], "next_offset": 0}


def test_read_of_a_client_that_leaves_is_cancelled(topic_broker: LocalBroker) -> None:
    partition = topic_broker.daemon.runtime.broker.topics["t"].partitions[0]
    address = urlsplit(topic_broker.url)
    with socket.create_connection((address.hostname or "", address.port or 0)) as client:
        client.sendall(f"GET {WHERE}?wait=60s HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        until(topic_broker.url, lambda: partition._watchers)
    until(topic_broker.url, lambda: not partition._watchers)


# --- all partitions of a topic ---


def test_a_topic_is_read_in_the_order_of_its_times(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=3)
    for number in range(12):
        publish(broker.url, "t", str(number), partition=number * 5 % 3)
    answer = get(broker, "", "/topics/t/messages")
    assert values(answer) == [str(number) for number in range(12)]
    assert [message["partition"] for message in answer.json["messages"]] == [number * 5 % 3 for number in range(12)]
    assert answer.json["next_offsets"] == {"0": 4, "1": 4, "2": 4}


def test_limited_topic_read_returns_next_offsets(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=3)
    for number in range(9):
        publish(broker.url, "t", str(number), partition=number % 2)
    answer = get(broker, "limit=5", "/topics/t/messages")
    assert values(answer) == [str(number) for number in range(5)]
    following = answer.json["next_offsets"]
    assert following == {"0": 3, "1": 2, "2": 0}
    rest = [read(broker.url, "t", partition, f"offset={following[str(partition)]}") for partition in range(3)]
    assert sorted(message["value"] for part in rest for message in part) == ["5", "6", "7", "8"]


def test_topic_read_keeps_time_order_across_limited_partitions(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    for number in range(40):
        publish(broker.url, "t", f"{number:02}" + "x" * 100_000, partition=0)
    publish(broker.url, "t", "the last", partition=1)
    answer = get(broker, "limit=10000", "/topics/t/messages")
    found = [value[:2] for value in values(answer)]
    assert found == [f"{number:02}" for number in range(len(found))]
    assert 0 < len(found) < 40
    assert answer.json["next_offsets"] == {"0": len(found), "1": 0}


def test_a_topic_without_messages_is_read_as_well(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    assert get(broker, "", "/topics/t/messages").json == {"messages": [], "next_offsets": {"0": 0, "1": 0}}


# --- compressed values ---


def compressed(*values: bytes) -> bytes:
    return b"".join(frame.encode(compress(value) or b"", flags=frame.COMPRESSED) for value in values)


def test_compressed_values_are_shown_as_what_they_hold(topic_broker: LocalBroker) -> None:
    send(topic_broker.url, section(0, compressed(b"text " * 100, b"\xff" * 1000) + frames([b"plain"])))
    text, binary, plain = get(topic_broker).json["messages"]
    assert (text["value"], "encoding" in text) == ("text " * 100, False)
    assert (binary["value"], binary["encoding"]) == (base64.b64encode(b"\xff" * 1000).decode(), "base64")
    assert plain["value"] == "plain"


@pytest.mark.parametrize(
    "content",
    [b"no zstd", b"", (compress(b"a" * 1000) or b"")[:-3], b"\x28\xb5\x2f\xfd" + b"\xff" * 20],
    ids=["other", "empty", "cut", "broken"],
)
def test_damaged_compressed_value_is_returned_as_stored(topic_broker: LocalBroker, content: bytes) -> None:
    bad = frame.encode(content, flags=frame.COMPRESSED)
    send(topic_broker.url, section(0, frames([b"before"]) + bad + frames([b"behind"])))
    for path in (WHERE, "/topics/t/messages"):
        before, found, behind = get(topic_broker, "", path).json["messages"]
        assert (before["value"], behind["value"]) == ("before", "behind")
        assert (base64.b64decode(found["value"]), found["encoding"]) == (content, "zstd")


# --- damage ---


@contextmanager
def broker_with_damage(path: Path, damaged: int) -> Iterator[LocalBroker]:
    """A topic `t` of five messages, of which one is not what was written."""
    with LocalBroker(str(path / "data")) as broker:
        create(broker.url, "t")
        for number in range(5):
            publish(broker.url, "t", f"{number}" * 100)
    (log,) = (path / "data/logs/t/0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[content.index(b"%d" % damaged * 100) + 50] ^= 1
    log.write_bytes(content)
    with LocalBroker(str(path / "data")) as broker:
        yield broker


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[LocalBroker]:
    """The third message is damaged."""
    with broker_with_damage(tmp_path, 2) as broker:
        yield broker


def test_messages_before_damage_are_read_and_the_damage_is_reported(damaged: LocalBroker) -> None:
    answer = get(damaged)
    assert [value[0] for value in values(answer)] == ["0", "1"]
    refused = get(damaged, f"offset={answer.json['next_offset']}")
    assert (refused.status, refused.code) == (503, "range_damaged")
    assert refused.json["details"]["first_offset"] == 2
    assert refused.json["details"]["next_offset"] == 3


def test_damage_is_passed_over_on_request(damaged: LocalBroker) -> None:
    answer = get(damaged, "offset=2&skip_damage=true")
    assert [value[0] for value in values(answer)] == ["3", "4"]
    assert [message.offset for message in messages(fetch(damaged.url, "offset=2&skip_damage=true").body)] == [3, 4]
    later = next_moment(read(damaged.url, "t", 0, "offset=1")[0]["timestamp"])
    rest = get(damaged, f"skip_damage=true&from_time={later}", "/topics/t/messages")
    assert [value[0] for value in values(rest)] == ["3", "4"]


def test_damage_at_the_beginning_is_passed_over_in_a_topic_on_request(tmp_path: Path) -> None:
    with broker_with_damage(tmp_path, 0) as broker:
        assert get(broker, "", "/topics/t/messages").code == "range_damaged"
        rest = get(broker, "skip_damage=true", "/topics/t/messages")
        assert [value[0] for value in values(rest)] == ["1", "2", "3", "4"]


def next_moment(time: str) -> str:
    """A nanosecond later."""
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    return f"{seconds}.{int(fraction) + 1:09}Z"


def test_many_readers_of_a_cold_segment_are_served_at_once(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t")
        publish(broker.url, "t", *("x" * 1000 for _ in range(1000)))
    with LocalBroker(str(tmp_path / "data")) as broker:
        counts: list[int] = []
        threads = [
            threading.Thread(target=lambda: counts.append(len(read(broker.url, "t", 0, "limit=10000"))))
            for _ in range(10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(counts)) == 1
        assert counts[0] > 900
