"""Producers whose retries are stored once: over HTTP, within one life of the broker and across several."""

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.wire import fetch, frames, messages, section, send
from tests.brokers import Answer, ask, broker, create
from tests.processes import Served

__all__ = ["broker"]

MARKS_MAX = 2**31
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


def test_no_id_is_given_out_twice_also_across_restarts(tmp_path: Path) -> None:
    given: list[int] = []
    for _ in range(3):
        with LocalBroker(str(tmp_path / "data")) as broker:
            for _ in range(3):
                answer = ask(broker.url, "POST", "/producers/init", {})
                assert (answer.status, answer.json["epoch"]) == (200, 0)
                given.append(answer.json["producer_id"])
    assert sorted(set(given)) == sorted(given)


@pytest.mark.parametrize("body", [None, {"epoch": 1}, [], "x"])
def test_a_producer_has_nothing_to_say(broker: LocalBroker, body: Any) -> None:
    assert ask(broker.url, "POST", "/producers/init", body).code == "request_invalid"


def test_a_batch_that_comes_again_is_stored_once_and_answered_alike(broker: LocalBroker) -> None:
    create(broker.url, "t")
    first = result(batch(broker.url, b"a", b"b", sequence=0))
    again = result(batch(broker.url, b"a", b"b", sequence=0))
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert again | {"duplicate": False} == first
    assert values(broker.url) == [b"a", b"b"]


def test_the_last_five_batches_are_known_again(broker: LocalBroker) -> None:
    create(broker.url, "t")
    for sequence in range(7):
        batch(broker.url, b"%d" % sequence, sequence=sequence)
    known = [batch(broker.url, b"%d" % sequence, sequence=sequence).status for sequence in range(7)]
    assert known == [409, 409, 200, 200, 200, 200, 200]
    assert values(broker.url) == [b"%d" % sequence for sequence in range(7)]


def test_a_gap_is_refused_with_what_was_expected(broker: LocalBroker) -> None:
    create(broker.url, "t")
    batch(broker.url, b"a", b"b", sequence=0)
    answer = batch(broker.url, b"d", sequence=3)
    assert (answer.status, answer.code, answer.json["details"]) == (409, "sequence_out_of_order", {"expected": 2})
    assert values(broker.url) == [b"a", b"b"]


def test_an_older_epoch_is_fenced(broker: LocalBroker) -> None:
    create(broker.url, "t")
    batch(broker.url, b"new", epoch=1, sequence=0)
    answer = batch(broker.url, b"old", epoch=0, sequence=0)
    assert (answer.status, answer.code, answer.json["details"]) == (409, "producer_fenced", {"epoch": 1})
    assert values(broker.url) == [b"new"]


def test_an_unknown_producer_may_begin_anywhere_and_sequences_wrap(broker: LocalBroker) -> None:
    create(broker.url, "t")
    assert batch(broker.url, b"a", b"b", b"c", sequence=MARKS_MAX - 2).status == 200
    assert batch(broker.url, b"d", sequence=1).status == 200
    assert result(batch(broker.url, b"a", b"b", b"c", sequence=MARKS_MAX - 2))["duplicate"]
    assert values(broker.url) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("producer", [0, 7, 2**53 - 1, 2**53, CHOSEN - 1])
def test_an_id_that_was_never_given_out_is_refused(broker: LocalBroker, producer: int) -> None:
    create(broker.url, "t")
    answer = batch(broker.url, b"a", producer=producer, sequence=0)
    assert (answer.status, answer.code, answer.json["details"]) == (409, "unknown_producer", {"producer_id": producer})
    assert values(broker.url) == []


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


def test_no_id_is_given_out_twice_by_a_restored_directory(tmp_path: Path) -> None:
    given: list[int] = []
    with LocalBroker(str(tmp_path / "data")) as broker:
        given.append(ask(broker.url, "POST", "/producers/init", {}).json["producer_id"])
    copytree(tmp_path / "data", tmp_path / "copy")
    for name in ("data", "copy"):
        with LocalBroker(str(tmp_path / name)) as broker:
            given += [ask(broker.url, "POST", "/producers/init", {}).json["producer_id"] for _ in range(3)]
    assert len(set(given)) == 7


def test_no_epoch_is_given_out_twice_by_a_restored_directory(tmp_path: Path) -> None:
    given: list[tuple[int, int]] = []

    def init(url: str) -> None:
        found = ask(url, "POST", "/producers/init", {"transactional_id": "till"}).json
        given.append((found["producer_id"], found["epoch"]))

    with LocalBroker(str(tmp_path / "data")) as broker:
        init(broker.url)
    copytree(tmp_path / "data", tmp_path / "copy")
    for name in ("data", "copy"):
        with LocalBroker(str(tmp_path / name)) as broker:
            for _ in range(3):
                init(broker.url)
    assert len(set(given)) == 7


def test_producers_do_not_disturb_each_other(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    for producer in (CHOSEN + 1, CHOSEN + 2):
        for partition in (0, 1):
            body = section(partition, frames([b"x"], (producer, 0, 0)))
            assert not result(send(broker.url, body))["duplicate"]


def test_sections_of_one_request_are_judged_each_on_its_own(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    batch(broker.url, b"a", sequence=0)
    body = section(0, frames([b"a"], (CHOSEN, 0, 0))) + section(1, frames([b"b"], (CHOSEN, 0, 0)))
    first, second = send(broker.url, body).json["results"]
    assert (first["duplicate"], second["duplicate"]) == (True, False)
    first, second = send(broker.url, body).json["results"]
    assert (first["duplicate"], second["duplicate"]) == (True, True)


def test_a_mark_that_counts_wrong_is_refused(broker: LocalBroker) -> None:
    create(broker.url, "t")
    content = frames([b"a", b"b"], (CHOSEN, 0, 0)) + frames([b"c"])
    answer = send(broker.url, section(0, content))
    assert (answer.status, answer.code) == (400, "frame_invalid")
    assert "speaks of 2 messages, 3 are there" in answer.json["error"]


def test_the_mark_is_not_shown_in_json(broker: LocalBroker) -> None:
    create(broker.url, "t")
    batch(broker.url, b"a", sequence=0)
    (found,) = ask(broker.url, "GET", "/topics/t/partitions/0/messages").json["messages"]
    assert found["headers"] == {}


def test_retries_are_known_after_a_clean_restart(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "t")
        first = result(batch(broker.url, b"a", b"b", sequence=0))
    with LocalBroker(str(tmp_path / "data")) as broker:
        again = result(batch(broker.url, b"a", b"b", sequence=0))
        assert again == first | {"duplicate": True}
        assert batch(broker.url, b"d", sequence=3).code == "sequence_out_of_order"
        assert batch(broker.url, b"c", sequence=2).status == 200
        assert values(broker.url) == [b"a", b"b", b"c"]


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


def test_a_batch_of_which_a_crash_kept_the_beginning_is_completed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Served("--data-dir", str(data)) as served:
        create(served.url, "t")
        batch(served.url, b"a", b"b", b"c", sequence=0)
        served.kill()
    (log,) = (data / "logs/t/0").glob("*.log")
    content = log.read_bytes()
    log.write_bytes(content[: content.rindex(b"GQ")])  # the last message was never written
    for index in (data / "logs/t/0").glob("*.index"):
        index.unlink()
    with Served("--data-dir", str(data)) as served:
        assert values(served.url) == [b"a", b"b"]
        completed = result(batch(served.url, b"a", b"b", b"c", sequence=0))
        assert (completed["first_offset"], completed["next_offset"]) == (0, 3)
        assert values(served.url) == [b"a", b"b", b"c"]
        assert result(batch(served.url, b"a", b"b", b"c", sequence=0))["duplicate"]
