"""Visibility of transactions to readers: committed messages, or all; and how long polls wait for them."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import fetch, messages
from tests.brokers import Answer, ask, create, publish
from tests.cli.transactions import Producer


@pytest.fixture
def url(broker: LocalBroker) -> str:
    create(broker.url, "t", partitions=2)
    return broker.url


def put(producer: Producer, *values: str, **fields: Any) -> None:
    for value in values:
        producer.put("t", value=value, **fields)


def aborted(url: str, *values: str, **fields: Any) -> None:
    producer = Producer(url, "aborting")
    put(producer, *values, **fields)
    producer.abort()


def plain(url: str, *values: str) -> None:
    publish(url, "t", *values, partition=0)


def read(url: str, query: str = "") -> Answer:
    answer = ask(url, "GET", f"/topics/t/partitions/0/messages?{query}")
    assert answer.status == 200, answer.body
    return answer


def values(answer: Answer) -> list[str]:
    return [message["value"] for message in answer.json["messages"]]


def test_readers_are_shown_what_is_committed_unless_they_ask_for_all(url: str) -> None:
    plain(url, "one")
    aborted(url, "never")
    plain(url, "two")
    producer = Producer(url, "open")
    put(producer, "later")
    plain(url, "behind")

    committed, everything = read(url), read(url, "isolation=read_uncommitted")

    assert (values(committed), committed.json["next_offset"]) == (["one", "two"], 4)
    assert values(everything) == ["one", "never", "two", "later", "behind"]
    producer.commit()
    assert values(read(url)) == ["one", "two", "later", "behind"]


def test_an_answer_goes_on_behind_what_was_aborted(url: str) -> None:
    plain(url, "one")
    aborted(url, *["never"] * 20)
    first = read(url, "limit=1").json
    rest = read(url, f"offset={first['next_offset']}").json
    assert (rest["messages"], rest["next_offset"]) == ([], 22)


@pytest.mark.parametrize(("isolation", "expected"), [("read_committed", "ac"), ("read_uncommitted", "abc")])
def test_every_read_respects_isolation(url: str, isolation: str, expected: str) -> None:
    plain(url, "a")
    aborted(url, "b")
    plain(url, "c")
    query = f"isolation={isolation}"
    assert values(read(url, query)) == list(expected)
    assert values(ask(url, "GET", f"/topics/t/messages?{query}")) == list(expected)
    filtered = read(url, f"filter=value!=no&{query}")
    assert (values(filtered), filtered.json["scanned"], filtered.json["next_offset"]) == (
        list(expected), len(expected), 4,
    )  # fmt: skip
    framed = fetch(url, query)
    stored = [message for message in messages(framed.body) if not message.flags & frame.CONTROL]
    assert b"".join(message.value for message in stored) == expected.encode()
    assert (framed.headers["x-goqueue-next-offset"], framed.headers["x-goqueue-last-stable"]) == ("4", "4")


def test_priorities_are_read_of_the_same_messages(url: str) -> None:
    aborted(url, "never", priority="critical")
    plain(url, "one")
    assert values(read(url, "order=priority")) == ["one"]
    assert values(read(url, "order=priority&isolation=read_uncommitted")) == ["never", "one"]


def waiting(url: str, pool: ThreadPoolExecutor, query: str = "") -> "Future[Answer]":
    return pool.submit(read, url, f"offset=0&wait=30{query}")


@pytest.mark.parametrize("how", ["filter=value=one&", ""])
def test_a_read_waits_until_a_transaction_is_committed(url: str, how: str) -> None:
    producer = Producer(url, "open")
    with ThreadPoolExecutor() as pool:
        answer = waiting(url, pool, f"&{how}")
        aborted(url, "never")
        put(producer, "one")
        aborted(url, "never")
        assert not answer.done()
        producer.commit()
        assert values(answer.result()) == ["one"]


def test_a_poll_waits_until_a_transaction_is_committed(url: str) -> None:
    member = ask(url, "POST", "/groups/g/join", {"topics": ["t"]}).json["member_id"]
    producer = Producer(url, "open")
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(ask, url, "GET", f"/groups/g/poll?member_id={member}&timeout=30")
        put(producer, "one")
        aborted(url, "never")
        assert not answer.done()
        producer.commit()
        assert values(answer.result()) == ["one"]


def test_group_priorities_are_counted(url: str) -> None:
    joined = ask(url, "POST", "/groups/g/join", {"topics": ["t"], "isolation": "read_uncommitted"}).json
    producer = Producer(url, "open")
    put(producer, "one")
    handed = ask(url, "GET", f"/groups/g/poll?member_id={joined['member_id']}&timeout=30")
    assert values(handed) == ["one"]
    assert ask(url, "GET", "/groups/g").json["isolation"] == "read_uncommitted"
    other = ask(url, "POST", "/groups/g/join", {"topics": ["t"], "isolation": "read_committed"})
    assert other.code == "group_mismatch"


def ranges(url: str, query: str = "") -> dict[str, Any]:
    answer = ask(url, "GET", f"/topics/t/partitions/0/aborted?{query}")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


def test_aborted_offsets_are_listed_up_to_the_last_stable_offset(url: str) -> None:
    plain(url, "zero")
    aborted(url, "one", "two")
    plain(url, "four")
    aborted(url, "five")
    assert ranges(url) == {"ranges": [[1, 3], [5, 6]], "last_stable": 7, "high_watermark": 7}
    assert ranges(url, "first=2&end=5")["ranges"] == [[2, 3]]
    assert ranges(url, "limit=1") == {"ranges": [[1, 3]], "last_stable": 7, "high_watermark": 7, "next": 5}
    producer = Producer(url, "open")
    put(producer, "seven")
    aborted(url, "eight")
    assert ranges(url) == {"ranges": [[1, 3], [5, 6]], "last_stable": 7, "high_watermark": 10}
    producer.commit()
    assert ranges(url, "first=6")["ranges"] == [[8, 9]]


def test_empty_delayed_log_has_no_aborted_offsets(url: str) -> None:
    assert ranges(url, "delayed=true") == {"ranges": [], "last_stable": 0, "high_watermark": 0}
