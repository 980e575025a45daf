"""What readers are shown of transactions: committed messages, or all; and how long polls wait for them."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import FRAMES
from tests.brokers import Answer, ask, broker, create, publish

__all__ = ["broker"]

Whose = dict[str, Any]


@pytest.fixture
def url(broker: LocalBroker) -> str:
    create(broker.url, "t", partitions=2)
    return broker.url


def begin(url: str, name: str) -> Whose:
    made = ask(url, "POST", "/producers/init", {"transactional_id": name}).json
    whose = {key: made[key] for key in ("producer_id", "epoch", "transactional_id")}
    assert ask(url, "POST", "/transactions/begin", whose).status == 200
    return whose


def put(url: str, whose: Whose, *values: str, **fields: Any) -> None:
    for value in values:
        given = {**whose, "topic": "t", "partition": 0, "value": value, **fields}
        assert ask(url, "POST", "/transactions/publish", given).status == 200


def end(url: str, whose: Whose, how: str) -> None:
    assert ask(url, "POST", f"/transactions/{how}", whose).status == 200


def aborted(url: str, *values: str, **fields: Any) -> None:
    whose = begin(url, "aborting")
    put(url, whose, *values, **fields)
    end(url, whose, "abort")


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
    whose = begin(url, "open")
    put(url, whose, "later")
    plain(url, "behind")

    committed, everything = read(url), read(url, "isolation=read_uncommitted")

    assert (values(committed), committed.json["next_offset"]) == (["one", "two"], 4)
    assert values(everything) == ["one", "never", "two", "later", "behind"]
    end(url, whose, "commit")
    assert values(read(url)) == ["one", "two", "later", "behind"]


def test_an_answer_goes_on_behind_what_was_aborted(url: str) -> None:
    plain(url, "one")
    aborted(url, *["never"] * 20)
    first = read(url, "limit=1").json
    rest = read(url, f"offset={first['next_offset']}").json
    assert (rest["messages"], rest["next_offset"]) == ([], 22)


@pytest.mark.parametrize(("isolation", "expected"), [("read_committed", b"ac"), ("read_uncommitted", b"abc")])
def test_frames_are_of_the_same_messages(url: str, isolation: str, expected: bytes) -> None:
    plain(url, "a")
    aborted(url, "b")
    plain(url, "c")
    path = f"/topics/t/partitions/0/messages?isolation={isolation}"
    answer = ask(url, "GET", path, headers={"accept": FRAMES})
    found = [frame.decode(answer.body, place) for place in frame.walk(answer.body)]
    assert b"".join(message.value for message in found if not message.flags & frame.CONTROL) == expected
    assert (answer.headers["x-goqueue-next-offset"], answer.headers["x-goqueue-last-stable"]) == ("4", "4")


def test_a_whole_topic_is_read_as_its_partitions_are(url: str) -> None:
    plain(url, "one")
    aborted(url, "never")
    whose = begin(url, "open")
    put(url, whose, "later", partition=1)
    assert values(ask(url, "GET", "/topics/t/messages")) == ["one"]
    assert values(ask(url, "GET", "/topics/t/messages?isolation=read_uncommitted")) == ["one", "never", "later"]


def test_filters_look_at_the_same_messages(url: str) -> None:
    plain(url, "one")
    aborted(url, "one")
    committed = read(url, "filter=value=one")
    everything = read(url, "filter=value=one&isolation=read_uncommitted")
    assert (values(committed), committed.json["scanned"], committed.json["next_offset"]) == (["one"], 1, 3)
    assert (values(everything), everything.json["scanned"]) == (["one", "one"], 2)


def test_priorities_are_read_of_the_same_messages(url: str) -> None:
    aborted(url, "never", priority="critical")
    plain(url, "one")
    assert values(read(url, "order=priority")) == ["one"]
    assert values(read(url, "order=priority&isolation=read_uncommitted")) == ["never", "one"]


def waiting(url: str, pool: ThreadPoolExecutor, query: str = "") -> "Future[Answer]":
    return pool.submit(read, url, f"offset=0&wait=30{query}")


@pytest.mark.parametrize("how", ["filter=value=one&", ""])
def test_a_read_waits_until_a_transaction_is_committed(url: str, how: str) -> None:
    whose = begin(url, "open")
    with ThreadPoolExecutor() as pool:
        answer = waiting(url, pool, f"&{how}")
        aborted(url, "never")
        put(url, whose, "one")
        aborted(url, "never")
        assert not answer.done()
        end(url, whose, "commit")
        assert values(answer.result()) == ["one"]


def test_a_poll_waits_until_a_transaction_is_committed(url: str) -> None:
    member = ask(url, "POST", "/groups/g/join", {"topics": ["t"]}).json["member_id"]
    whose = begin(url, "open")
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(ask, url, "GET", f"/groups/g/poll?member_id={member}&timeout=30")
        put(url, whose, "one")
        aborted(url, "never")
        assert not answer.done()
        end(url, whose, "commit")
        assert values(answer.result()) == ["one"]


def test_a_group_says_what_it_is_handed(url: str) -> None:
    joined = ask(url, "POST", "/groups/g/join", {"topics": ["t"], "isolation": "read_uncommitted"}).json
    whose = begin(url, "open")
    put(url, whose, "one")
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


def test_aborted_offsets_are_told_as_far_as_all_is_decided(url: str) -> None:
    plain(url, "zero")
    aborted(url, "one", "two")
    plain(url, "four")
    aborted(url, "five")
    assert ranges(url) == {"ranges": [[1, 3], [5, 6]], "last_stable": 7, "high_watermark": 7}
    assert ranges(url, "first=2&end=5")["ranges"] == [[2, 3]]
    assert ranges(url, "limit=1") == {"ranges": [[1, 3]], "last_stable": 7, "high_watermark": 7, "next": 5}
    whose = begin(url, "open")
    put(url, whose, "seven")
    aborted(url, "eight")
    assert ranges(url) == {"ranges": [[1, 3], [5, 6]], "last_stable": 7, "high_watermark": 10}
    end(url, whose, "commit")
    assert ranges(url, "first=6")["ranges"] == [[8, 9]]


def test_where_nothing_was_ever_scheduled_nothing_was_aborted(url: str) -> None:
    assert ranges(url, "delayed=true") == {"ranges": [], "last_stable": 0, "high_watermark": 0}
