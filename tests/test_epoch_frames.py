"""Epoch frames at any place of any log: every reader passes over them, and offsets stay right.

A real broker works in two shifts. Before, between or after them every log of the directory, the internal ones
included, gets epoch frames; then the broker starts again.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pytest

from goqueue.broker.core.epochs import begin_epoch, load_epochs
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import run_work
from goqueue.client import Client
from goqueue.clock import SystemClock
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.storage import frame, scan
from goqueue.storage.disk import SystemDisk
from goqueue.storage.epoch_frame import epoch_messages
from goqueue.storage.retention import plan_retention
from goqueue.storage.store import Store
from goqueue.storage.truncation import truncate
from goqueue.testing.broker import LocalBroker
from goqueue.testing.history.check import check
from goqueue.testing.history.events import EndEvent, Event, PublishedEvent, PublishSentEvent, StoredEvent
from tests.api import wire
from tests.api.members import Member
from tests.brokers import Answer, ask, create, publish
from tests.cli.programs import cli
from tests.commands.test_fsck import codes, fsck, report
from tests.spark.stock import rows, splits
from tests.storage.stores import finish

Layout = Literal["none", "alone", "everywhere"]
"""Epoch frames in segments of their own, or at the beginning, in the middle and at the end of others."""
LAYOUTS: tuple[Layout, ...] = ("alone", "everywhere")
DISK = SystemDisk()
FAR = "24h"


def begin_epochs(path: Path, *, is_alone: bool) -> None:
    """Begin an epoch in every log, in a segment of its own if asked to."""
    store = Store.open(DISK, str(path), SystemClock(), owner="this test")
    for log in store.logs.values():
        for _ in range(2):
            epoch = run_work(load_epochs(log, DISK)).last + 3
            if is_alone:
                log.roll()
            begin_epoch(Partition("t", 0, log), epoch, "node-1", SystemClock().now_ns(), lambda _: None)
            if is_alone:
                log.roll()
            store.flush()
    store.close()


@dataclass
class World:
    """A broker at work, and what its clients sent and settled."""

    path: Path
    layout: Layout
    url: str = ""
    producer: int = -1
    """The id that the batches of `marked` have."""
    sent: list[str] = field(default_factory=list)
    """Committed values of `orders`, in order."""
    priorities: dict[str, int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    """Values that the group `workers` has acknowledged."""
    dead: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    """Delayed values that are not due."""

    def shift(self, url: str, number: int) -> None:
        """Publish, publish in transactions, delay, consume and reject."""
        with Client(url) as client, client.producer(transactional_id="till") as till, client.producer() as plain:
            for one in range(6):
                value = f"{number}-{one}"
                plain.send("orders", value, f"key-{one % 3}", priority=one % 5).result()
                self._sent(value, one % 5)
            with till.transaction() as transaction:
                transaction.send("orders", f"{number}-committed").result()
            self._sent(f"{number}-committed")
            with till.transaction() as transaction:
                transaction.send("orders", f"{number}-aborted").result()
                transaction.abort()
            with client.consumer("workers", ["orders"]) as consumer:
                for message in islice(consumer, 3):
                    self.done.append((message.value or b"").decode())
                    message.ack()
            client.publish("jobs", f"{number}-bad")
            with client.consumer("tinkers", ["jobs"]) as consumer:
                for message in islice(consumer, 1):
                    self.dead.append((message.value or b"").decode())
                    message.reject("no such form")
        batch = wire.frames([b"%d-x" % number, b"%d-y" % number], (self.producer, 0, 2 * (number - 1)))
        assert wire.send(url, wire.section(0, batch), topic="marked").status == 200
        publish(url, "later", f"{number}-later", delay=FAR)
        self.pending.append(f"{number}-later")
        for value in ("a", "b"):
            publish(url, "state", f"{number}-{value}", key=value)

    def _sent(self, value: str, priority: int = frame.NORMAL) -> None:
        self.sent.append(value)
        self.priorities[value] = priority

    def get(self, path: str) -> Answer:
        answer = ask(self.url, "GET", path)
        assert answer.status == 200, answer.body
        return answer


def build(path: Path, layout: Layout) -> World:
    """Work in two shifts, with epoch frames as the layout says."""
    world = World(path, layout)
    with LocalBroker(str(path)) as broker:
        create(broker.url, "orders", max_retries=0)
        create(broker.url, "jobs", max_retries=0)
        create(broker.url, "later")
        create(broker.url, "marked")
        world.producer = ask(broker.url, "POST", "/producers/init", {}).json["producer_id"]
        create(broker.url, "state", cleanup="compact")
    if layout != "none":
        begin_epochs(path, is_alone=layout == "alone")
    with LocalBroker(str(path)) as broker:
        world.shift(broker.url, 1)
    if layout != "none":
        begin_epochs(path, is_alone=layout == "alone")
    with LocalBroker(str(path)) as broker:
        world.shift(broker.url, 2)
    if layout == "everywhere":
        begin_epochs(path, is_alone=False)
    shutil.copytree(path, kept(path))
    return world


def kept(path: Path) -> Path:
    """The copy that nothing works on."""
    return path.with_name(f"{path.name}-kept")


@pytest.fixture(scope="module", params=LAYOUTS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The directory, once the broker has stopped."""
    return build(tmp_path_factory.mktemp(request.param) / "data", request.param)


@pytest.fixture(scope="module")
def world(built: World) -> Iterator[World]:
    """The broker started again. Its tests change nothing."""
    with LocalBroker(str(built.path)) as broker:
        built.url = broker.url
        yield built


def json_messages(url: str, topic: str, query: str = "", offset: int = 0, limit: int = 100) -> list[dict[str, Any]]:
    """Read to the end: one answer has messages of one segment."""
    found: list[dict[str, Any]] = []
    while True:
        path = f"/topics/{topic}/partitions/0/messages?limit={limit}&offset={offset}{query}"
        answer = ask(url, "GET", path)
        assert answer.status == 200, answer.body
        if answer.json["next_offset"] == offset:
            return found
        found += answer.json["messages"]
        offset = answer.json["next_offset"]


def values(found: list[dict[str, Any]]) -> list[str]:
    return [message["value"] for message in found]


@pytest.fixture
def directory(built: World, tmp_path: Path) -> Path:
    """A copy of the directory for a test that changes it."""
    return Path(shutil.copytree(kept(built.path), tmp_path / "data"))


@pytest.fixture
def stopped(directory: Path) -> Iterator[Store]:
    """The logs of such a copy, without a broker."""
    store = Store.open(DISK, str(directory), SystemClock(), owner="this test")
    yield store
    store.close()


def epochs_in(path: Path) -> list[tuple[int, int]]:
    """Epoch frames in the files of a log, with their offsets."""
    found = []
    for file in sorted(path.glob("*.log")):
        found += [(one.offset, len(one.value)) for one in epoch_messages(scan.walk(file.read_bytes()))]
    return found


def test_every_log_has_epoch_frames_where_the_layout_says(built: World) -> None:
    logs = [path.parent for path in kept(built.path).glob("logs/**/00000000000000000000.log")]
    assert {"orders", "later", "jobs.dlq", "__metadata", "__consumer_offsets", "__transactions"} <= {
        path.relative_to(kept(built.path) / "logs").parts[0] for path in logs
    }
    assert all(epochs_in(path) for path in logs if built.layout == "everywhere")
    for topic in ("orders", "marked", "state"):
        assert len(epochs_in(kept(built.path) / f"logs/{topic}/0")) == {"alone": 4, "everywhere": 6}[built.layout]


def test_reads_of_json_show_messages_alone(world: World) -> None:
    assert values(json_messages(world.url, "orders")) == world.sent
    assert values(json_messages(world.url, "marked")) == ["1-x", "1-y", "2-x", "2-y"]
    assert json_messages(world.url, "later") == []
    for message in json_messages(world.url, "orders"):
        path = f"/topics/orders/partitions/0/messages?offset={message['offset']}&limit=1"
        assert values(world.get(path).json["messages"]) == [message["value"]]


def test_read_from_every_offset_gives_the_messages_behind_it(world: World) -> None:
    found = {message["offset"]: message["value"] for message in json_messages(world.url, "orders")}
    for offset in range(world.get("/topics/orders").json["partition_offsets"]["0"]["latest"] + 1):
        expected = [value for place, value in found.items() if place >= offset]
        assert values(json_messages(world.url, "orders", offset=offset)) == expected


def test_reads_by_priority_show_messages_alone(world: World) -> None:
    found = values(world.get("/topics/orders/partitions/0/messages?order=priority&limit=100").json["messages"])
    assert sorted(found) == sorted(world.sent)
    for lane in range(5):
        expected = [value for value in world.sent if world.priorities[value] == lane]
        assert [value for value in found if world.priorities[value] == lane] == expected


def test_filtered_reads_show_messages_alone(world: World) -> None:
    assert values(json_messages(world.url, "orders", "&filter=key%3Dkey-1")) == [
        value for value in world.sent if value.endswith(("-1", "-4"))
    ]
    assert json_messages(world.url, "orders", "&filter=key%3Depoch") == []


def test_reader_and_consumer_of_the_sdk_get_messages_alone(world: World) -> None:
    with Client(world.url) as client:
        with client.reader("orders", start="earliest", follow=False) as reader:
            assert [(message.value or b"").decode() for message in reader] == world.sent
        with client.consumer("newcomer", ["orders"]) as consumer:
            found = []
            for message in islice(consumer, len(world.sent)):
                found.append((message.value or b"").decode())
                message.ack()
            assert sorted(found) == sorted(world.sent)
    lag = world.get("/groups/newcomer").json["lag"]["orders"]["0"]
    assert (lag["messages"], lag["in_flight"]) == (0, 0)


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_group_polls_lease_messages_alone(world: World, limit: int) -> None:
    member = Member(world.url, f"poller-{limit}").join(start="earliest", topics=["orders"])
    found: list[dict[str, Any]] = []
    while batch := member.poll(max_messages=limit):
        found += batch
        told = ask(world.url, "POST", "/messages/ack", {"receipt_handles": [one["receipt_handle"] for one in batch]})
        assert told.status == 200, told.body
    assert sorted(one["value"] for one in found) == sorted(world.sent)
    assert world.get(f"/groups/{member.group}").json["total_lag"] == 0


def test_message_counts_and_lag_leave_epoch_frames_out(world: World) -> None:
    topic = world.get("/topics/orders").json
    assert topic["total_messages"] == len(world.sent)
    assert world.get("/topics/marked").json["total_messages"] == 4
    assert world.get("/topics/state").json["total_messages"] == 4
    assert world.get("/topics/jobs.dlq").json["total_messages"] == 2
    group = world.get("/groups/workers").json
    assert group["total_lag"] == len(world.sent) - len(world.done)
    assert world.get("/groups/tinkers").json["total_lag"] == 0


def test_offsets_at_times_are_those_of_messages(world: World) -> None:
    for message in json_messages(world.url, "orders"):
        path = f"/topics/orders/partitions/0/offset?time={message['timestamp']}"
        assert world.get(path).json["offset"] <= message["offset"]


def test_command_line_shows_messages_alone(world: World) -> None:
    shown = cli(world.url, "consume", "orders", "-o", "jsonl")
    assert values([json.loads(line) for line in shown.out.splitlines()]) == world.sent, shown.err
    asked = cli(world.url, "sql", "SELECT count(*) AS n, count(DISTINCT value) AS d FROM orders", "-o", "csv")
    assert asked.out.split() == ["n,d", f"{len(world.sent)},{len(world.sent)}"]


def test_dead_letters_are_listed(world: World) -> None:
    found = world.get("/topics/jobs/dead-letters").json["messages"]
    assert sorted(one["value"] for one in found) == sorted(world.dead)


def test_retries_of_producers_are_known_again(world: World) -> None:
    for number in (1, 2):
        batch = wire.frames([b"%d-x" % number, b"%d-y" % number], (world.producer, 0, 2 * (number - 1)))
        answer = wire.send(world.url, wire.section(0, batch), topic="marked")
        assert answer.json["results"][0]["duplicate"], answer.body
    assert len(json_messages(world.url, "marked")) == 4


def test_delayed_messages_are_pending_and_delivered(directory: Path, built: World) -> None:
    with LocalBroker(str(directory)) as broker:
        pending = ask(broker.url, "GET", "/topics/later/delayed").json["messages"]
        assert len(pending) == len(built.pending)
        assert ask(broker.url, "POST", "/topics/later/delayed/deliver", {}).status == 200
        wire.until(broker.url, lambda: len(json_messages(broker.url, "later")) == 2)
        assert values(json_messages(broker.url, "later")) == built.pending
    begin_epochs(directory, is_alone=False)
    with LocalBroker(str(directory)) as broker:
        assert ask(broker.url, "GET", "/topics/later/delayed").json["messages"] == []
        assert values(json_messages(broker.url, "later")) == built.pending


def test_dead_letters_are_redriven(directory: Path, built: World) -> None:
    with LocalBroker(str(directory)) as broker, Client(broker.url) as client:
        client.redrive("jobs")
        assert sorted(values(json_messages(broker.url, "jobs"))[-2:]) == sorted(built.dead)


def test_compaction_keeps_epoch_frames_and_the_latest_of_each_key(directory: Path) -> None:
    before = epochs_in(directory / "logs/state/0")
    with LocalBroker(str(directory)) as broker:
        assert ask(broker.url, "POST", "/admin/topics/state/compact").status == 200
        assert values(json_messages(broker.url, "state")) == ["2-a", "2-b"]
        assert ask(broker.url, "GET", "/topics/state").json["total_messages"] == 2
    assert epochs_in(directory / "logs/state/0") == before
    assert codes(report(str(directory))) == []


def test_retention_keeps_the_last_epoch_known(stopped: Store, directory: Path) -> None:
    log = stopped.logs["orders/0"]
    last = run_work(load_epochs(log, DISK)).last
    log.roll()
    stopped.flush()
    finish(plan_retention(log, DISK, bytes_kept=0))
    assert log.first_offset == log.next_offset
    stopped.close()
    assert epochs_in(directory / "logs/orders/0") == []
    store = Store.open(DISK, str(directory), SystemClock(), owner="this test")
    assert run_work(load_epochs(store.logs["orders/0"], DISK)).last == last > 0
    store.close()


def test_truncated_logs_are_read_by_a_broker(stopped: Store, directory: Path) -> None:
    log = stopped.logs["orders/0"]
    run_work(load_epochs(log, DISK))
    while log.next_offset:
        truncate(log, DISK, log.next_offset - 1)
        epochs = epochs_in(directory / "logs/orders/0")
        assert [start for _, start in log.epochs.rows_below(0, 999)] == [offset for offset, _ in epochs]
    stopped.close()
    with LocalBroker(str(directory)) as broker:
        assert json_messages(broker.url, "orders") == []
        publish(broker.url, "orders", "new")
        assert values(json_messages(broker.url, "orders")) == ["new"]


def test_exported_segments_are_the_files(world: World) -> None:
    for segment in world.get("/topics/orders/partitions/0/segments").json["segments"]:
        base, version = segment["base_offset"], segment["version"]
        answer = world.get(f"/topics/orders/partitions/0/segments/{base}/log?version={version}")
        assert answer.body == (world.path / f"logs/orders/0/{base:020d}.log").read_bytes()


def test_spark_readers_of_files_and_brokers_get_messages_alone(world: World) -> None:
    remote = BrokerLogs(world.url)
    for logs in (remote, DirectoryLogs.at(str(world.path))):
        found = [row["value"].decode() for row in rows(logs, splits(logs)) if row["topic"] == "orders"]
        assert found == world.sent
    remote.client.close()


def test_history_with_these_offsets_has_no_violation(world: World) -> None:
    found = [(one["value"], one["offset"]) for one in json_messages(world.url, "orders")]
    place: dict[str, Any] = {"topic": "orders", "partition": 0}
    events: list[Event] = []
    for value, offset in found:
        events.append(PublishSentEvent(at_ns=1, producer="p", topic="orders", key="", value_id=value))
        events.append(PublishedEvent(at_ns=2, value_id=value, offset=offset, **place))
        events.append(StoredEvent(at_ns=3, value_id=value, offset=offset, **place))
    events.append(
        EndEvent(at_ns=4, end_offset=world.get("/topics/orders").json["partition_offsets"]["0"]["latest"], **place)
    )
    assert check(events).violations == []


def test_fsck_finds_nothing_and_counts_messages_alone(directory: Path) -> None:
    found = report(str(directory))
    assert codes(found) == []
    counts = {log["name"]: log["messages"] for log in found["logs"]}
    assert (counts["marked/0"], counts["state/0"], counts["later/0/delayed"]) == (4, 4, 2)
    assert fsck(str(directory)).returncode == 0
