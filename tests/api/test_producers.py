"""Producers whose retries are stored once: over HTTP, within one life of the broker and across several."""

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.wire import fetch, frames, messages, section, send
from tests.brokers import Answer, ask, create
from tests.processes import Served

CHOSEN = 2**62
"""The least id that a client may choose for itself."""


def values(url: str) -> list[bytes]:
    return [message.value for message in messages(fetch(url).body)]


def batch(url: str, *sent: bytes, producer: int = CHOSEN, epoch: int = 0, sequence: int) -> Answer:
    return send(url, section(0, frames(sent, (producer, epoch, sequence))))


def result(answer: Answer) -> Any:
    assert answer.status == 200, answer.body
    (only,) = answer.json["results"]
    return only


@pytest.mark.parametrize("body", [None, {}])
def test_init_without_fields_returns_a_producer_id(broker: LocalBroker, body: Any) -> None:
    assert ask(broker.url, "POST", "/producers/init", body).json["producer_id"] > 0


@pytest.mark.parametrize("body", [{"epoch": 1}, [], "x"])
def test_init_with_a_wrong_body_is_refused(broker: LocalBroker, body: Any) -> None:
    assert ask(broker.url, "POST", "/producers/init", body).code == "request_invalid"


def test_a_batch_that_comes_again_is_stored_once_and_answered_alike(topic_broker: LocalBroker) -> None:
    first = result(batch(topic_broker.url, b"a", b"b", sequence=0))
    again = result(batch(topic_broker.url, b"a", b"b", sequence=0))
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert again | {"duplicate": False} == first
    assert values(topic_broker.url) == [b"a", b"b"]


def test_a_gap_is_refused_with_what_was_expected(topic_broker: LocalBroker) -> None:
    batch(topic_broker.url, b"a", b"b", sequence=0)
    answer = batch(topic_broker.url, b"d", sequence=3)
    assert (answer.status, answer.code, answer.json["details"]) == (409, "sequence_out_of_order", {"expected": 2})
    assert values(topic_broker.url) == [b"a", b"b"]


def test_an_older_epoch_is_fenced(topic_broker: LocalBroker) -> None:
    batch(topic_broker.url, b"new", epoch=1, sequence=0)
    answer = batch(topic_broker.url, b"old", epoch=0, sequence=0)
    assert (answer.status, answer.code, answer.json["details"]) == (409, "producer_fenced", {"epoch": 1})
    assert values(topic_broker.url) == [b"new"]


@pytest.mark.parametrize("producer", [0, 7, 2**53 - 1, 2**53, CHOSEN - 1])
def test_an_id_that_was_never_given_out_is_refused(topic_broker: LocalBroker, producer: int) -> None:
    answer = batch(topic_broker.url, b"a", producer=producer, sequence=0)
    assert (answer.status, answer.code, answer.json["details"]) == (409, "unknown_producer", {"producer_id": producer})
    assert values(topic_broker.url) == []


def test_an_id_is_known_in_its_own_directory_alone(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "one")) as broker:
        create(broker.url, "t")
        given = ask(broker.url, "POST", "/producers/init", {}).json["producer_id"]
        assert given < 2**53
        assert batch(broker.url, b"a", producer=given, sequence=0).status == 200
    with LocalBroker(str(tmp_path / "one")) as broker:
        assert result(batch(broker.url, b"a", producer=given, sequence=0))["duplicate"]
    with LocalBroker(str(tmp_path / "two")) as broker:
        create(broker.url, "t")
        ask(broker.url, "POST", "/producers/init", {})
        assert batch(broker.url, b"b", producer=given, sequence=0).code == "unknown_producer"


@pytest.mark.parametrize("body", [{}, {"transactional_id": "till"}], ids=["id", "epoch"])
def test_no_identity_is_given_out_twice_by_a_restored_directory(tmp_path: Path, body: dict[str, str]) -> None:
    given: list[tuple[int, int]] = []

    def init(url: str) -> None:
        found = ask(url, "POST", "/producers/init", body).json
        given.append((found["producer_id"], found["epoch"]))

    with LocalBroker(str(tmp_path / "data")) as broker:
        init(broker.url)
    copytree(tmp_path / "data", tmp_path / "copy")
    for name in ("data", "copy"):
        with LocalBroker(str(tmp_path / name)) as broker:
            for _ in range(3):
                init(broker.url)
    assert len(set(given)) == 7


def test_sections_of_one_request_are_judged_each_on_its_own(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    batch(broker.url, b"a", sequence=0)
    body = section(0, frames([b"a"], (CHOSEN, 0, 0))) + section(1, frames([b"b"], (CHOSEN, 0, 0)))
    first, second = send(broker.url, body).json["results"]
    assert (first["duplicate"], second["duplicate"]) == (True, False)
    first, second = send(broker.url, body).json["results"]
    assert (first["duplicate"], second["duplicate"]) == (True, True)


def test_producer_header_with_a_wrong_count_is_refused(topic_broker: LocalBroker) -> None:
    content = frames([b"a", b"b"], (CHOSEN, 0, 0)) + frames([b"c"])
    answer = send(topic_broker.url, section(0, content))
    assert (answer.status, answer.code) == (400, "frame_invalid")
    assert "says 2 messages, the batch has 3" in answer.json["error"]


def test_the_mark_is_not_shown_in_json(topic_broker: LocalBroker) -> None:
    batch(topic_broker.url, b"a", sequence=0)
    (found,) = ask(topic_broker.url, "GET", "/topics/t/partitions/0/messages").json["messages"]
    assert found["headers"] == {}


def test_retries_are_known_after_a_kill(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with Served("--data-dir", data) as served:
        create(served.url, "t")
        first = result(batch(served.url, b"a", b"b", sequence=0))
        batch(served.url, b"c", sequence=2)
        served.kill()
    with Served("--data-dir", data) as served:
        again = result(batch(served.url, b"a", b"b", sequence=0))
        assert again == first | {"duplicate": True}
        assert batch(served.url, b"d", sequence=3).status == 200
        assert values(served.url) == [b"a", b"b", b"c", b"d"]
