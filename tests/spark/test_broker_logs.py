"""Logs of a broker at work: the same as its directory gives, and never more than it has answered for."""

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from goqueue.errors import BrokerUnreachable, GoQueueError, SegmentNotFound, TopicNotFound
from goqueue.spark.logs import broker as logs_of_brokers
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.splits import DamagedBytes, FrameRun, RemovedRange, Split, read_split
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.client.relay import relay
from tests.spark import naive
from tests.spark.stock import offsets, rows, splits

Connect = Callable[..., BrokerLogs]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Logs whose connections end with the test."""
    with ExitStack() as stack:

        def connected(*place: str) -> BrokerLogs:
            logs = BrokerLogs(*place)
            stack.callback(logs.client.close)
            return logs

        yield connected


def compact(url: str, topic: str) -> None:
    assert ask(url, "POST", f"/admin/topics/{topic}/compact").status == 200


def filled(url: str, count: int = 60) -> None:
    """A topic of several segments whose keys come again and again."""
    create(url, "t", segment_bytes=4096, cleanup="compact")
    for number in range(count):
        publish(url, "t", f"{number}" + "x" * 300, key=f"k{number % 4}")


def test_what_a_broker_gives_is_what_its_directory_gives(broker: LocalBroker, tmp_path: Path, connect: Connect) -> None:
    create(broker.url, "t", 3, segment_bytes=4096)
    for number in range(80):
        publish(broker.url, "t", "x" * (number * 7), "short", key=f"k{number % 9}", headers={"h": f"{number % 3}"})
    remote, local = connect(broker.url), DirectoryLogs.at(str(tmp_path / "data"))
    assert {name: remote.topics()[name] for name in ("t",)} == {"t": (0, 1, 2)}
    for split_bytes in (None, 2000):
        found = [rows(logs, splits(logs, split_bytes=split_bytes)) for logs in (remote, local)]
        assert (
            found[0] == found[1] == [row for number in range(3) for row in naive.rows(tmp_path / "data", "t", number)]
        )
    for number in range(3):
        seen, held = remote.view("t", number), local.view("t", number)
        assert [(one.base_offset, one.next_offset, one.size) for one in seen.segments] == [
            (one.base_offset, one.next_offset, one.size) for one in held.segments
        ]


def test_the_topics_of_the_broker_are_there_by_name_and_not_otherwise(
    broker: LocalBroker, tmp_path: Path, connect: Connect
) -> None:
    filled(broker.url, 3)
    remote, local = connect(broker.url), DirectoryLogs.at(str(tmp_path / "data"))
    internal = [name for name in local.topics() if name.startswith("__")]
    assert internal
    assert set(internal) <= set(remote.topics())
    assert TopicSelection().places(remote) == TopicSelection().places(local) == [("t", 0)]
    for logs in (remote, local):
        assert {topic for topic, _ in TopicSelection((internal[0],)).places(logs)} == {internal[0]}


def test_nothing_beyond_the_high_watermark_is_seen_during_publishes(broker: LocalBroker, connect: Connect) -> None:
    create(broker.url, "t", segment_bytes=4096)
    publish(broker.url, "t", "first")
    done = threading.Event()

    def publishing() -> None:
        for number in range(150):
            publish(broker.url, "t", *(f"{number}" + "x" * 50 for _ in range(5)))
        done.set()

    writer = threading.Thread(target=publishing)
    writer.start()
    logs, last = connect(broker.url), 0
    while True:
        is_last = done.is_set()
        planned = splits(logs)
        high = ask(broker.url, "GET", "/topics/t/partitions/0/segments").json["high_watermark"]
        found = offsets(logs, planned)
        assert found == list(range(len(found)))
        assert last <= len(found) == planned[-1].end <= high
        last = len(found)
        if is_last:
            break
    writer.join()
    assert last == 751


@pytest.mark.parametrize("is_remote", [True, False])
def test_compactions_while_it_is_read_take_only_what_they_may(
    broker: LocalBroker, tmp_path: Path, is_remote: bool, connect: Connect
) -> None:
    filled(broker.url)
    logs = connect(broker.url) if is_remote else DirectoryLogs.at(str(tmp_path / "data"))
    planned = splits(logs, split_bytes=5000)
    assert len(planned) > 3
    found: list[int] = []
    for number, split in enumerate(planned):
        for piece in read_split(logs, split):
            assert isinstance(piece, FrameRun)
            found += piece.frames.offsets.tolist()
            if number % 2:
                publish(broker.url, "t", "y" * 3000, key=f"k{number % 4}")
                compact(broker.url, "t")
    assert found == sorted(set(found))
    kept = {row["offset"] for row in naive.rows(tmp_path / "data", "t") if row["offset"] < planned[-1].end}
    assert kept <= set(found)
    assert len(kept) < 20


@pytest.mark.parametrize("is_remote", [True, False])
def test_a_topic_deleted_meanwhile_is_told_or_passed_over(
    broker: LocalBroker, tmp_path: Path, is_remote: bool, connect: Connect
) -> None:
    filled(broker.url)
    logs = connect(broker.url) if is_remote else DirectoryLogs.at(str(tmp_path / "data"))
    planned = splits(logs)
    ask(broker.url, "DELETE", "/topics/t")
    assert [type(piece) for split in planned for piece in read_split(logs, split)] == [RemovedRange] * len(planned)
    with pytest.raises(SegmentNotFound, match="of t/0 were removed while they were to be read"):
        rows(logs, planned)
    with pytest.raises(TopicNotFound):
        make_plan(logs, TopicSelection(("t",)))


def test_damage_is_told_with_the_address_of_the_segment(broker: LocalBroker, tmp_path: Path, connect: Connect) -> None:
    filled(broker.url)
    row = naive.rows(tmp_path / "data", "t")[20]
    file = tmp_path / f"data/logs/t/0/{row['segment']:020d}.log"
    with file.open("r+b") as opened:
        opened.seek(row["position"] + 50)
        opened.write(b"\x00\x01")
    found = []
    for logs in (connect(broker.url), DirectoryLogs.at(str(tmp_path / "data"))):
        ((piece,),) = [
            [
                piece
                for split in splits(logs, split_bytes=2000)
                for piece in read_split(logs, split)
                if isinstance(piece, DamagedBytes)
            ]
        ]
        found.append(piece)
    assert found[0].damage == found[1].damage
    assert found[0].path == f"{broker.url}/topics/t/partitions/0/segments/{row['segment']}"
    assert found[1].path == str(file)


def test_what_executors_are_sent_connects_anew(broker: LocalBroker, connect: Connect) -> None:
    filled(broker.url, 5)
    logs = connect(broker.url, "a-token")
    again, planned = pickle.loads(pickle.dumps((logs, splits(logs))))  # noqa: S301 - as Spark does
    assert again == logs
    assert again.client is not logs.client
    assert len(rows(again, planned)) == 5
    again.client.close()


def test_a_broker_that_is_away_is_named(closed_url: str, monkeypatch: pytest.MonkeyPatch, connect: Connect) -> None:
    monkeypatch.setattr(logs_of_brokers, "_TIMEOUT_SECONDS", 0.3)
    with pytest.raises(BrokerUnreachable, match=closed_url.removeprefix("http://")):
        make_plan(connect(closed_url), TopicSelection())


def test_a_broker_that_goes_meanwhile_ends_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    monkeypatch.setattr(logs_of_brokers, "_TIMEOUT_SECONDS", 0.3)
    with LocalBroker(str(tmp_path / "data")) as local:
        filled(local.url, 10)
        logs = connect(local.url)
        planned: list[Split] = splits(logs)
    with pytest.raises(BrokerUnreachable):
        rows(logs, planned)


def test_the_token_goes_along_with_every_request(connect: Connect) -> None:
    asked: list[str | None] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("authorization"))
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing listens there."""

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(GoQueueError):
            connect(f"http://127.0.0.1:{server.server_port}", "secret-token").topics()
        server.shutdown()
    assert asked
    assert all(one is not None and "secret-token" in one for one in asked)


def test_reading_goes_on_at_the_next_address(broker: LocalBroker, connect: Connect) -> None:
    filled(broker.url)
    with relay(broker.url) as first:
        logs = connect(f"{first.peer.url},{broker.url}")
        cut = splits(logs, split_bytes=4096)
        begun = rows(logs, cut[:1])
        first.peer.close()
        assert begun + rows(logs, cut[1:]) == rows(connect(broker.url), cut)
