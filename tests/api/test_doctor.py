"""Doctor findings of a broker in which something is wrong."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.clock import NANOSECONDS, SystemClock
from goqueue.limits import MIB, POISON_DELIVERIES_MIN, TRANSACTION_HUNG_SECONDS, TRANSACTION_STUCK_SECONDS
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from tests.api.members import Member, of, receipts, told
from tests.api.wire import until
from tests.brokers import ask, create, publish, read
from tests.cli.transactions import Producer


class MovableClock(SystemClock):
    """The machine's, set ahead as far as a test wants."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def now_ns(self) -> int:
        return super().now_ns() + self.ahead_ns

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.ahead_ns

    def advance(self, seconds: float) -> None:
        self.ahead_ns += round(seconds * NANOSECONDS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MovableClock:
    """Used by every broker that is started after this."""
    made = MovableClock()
    monkeypatch.setattr("goqueue.daemon.SystemClock", lambda: made)
    monkeypatch.setattr("goqueue.clock._STALL_NS", 2**62)  # a clock that is set ahead is no broker that stood still
    return made


@pytest.fixture
def timed(clock: MovableClock, tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker whose time can be moved, with the topic `orders` of two partitions and a message in each."""
    with LocalBroker(str(tmp_path / "data")) as local:
        create(local.url, "orders", partitions=2)
        for partition in (0, 1):
            publish(local.url, "orders", "x", partition=partition)
        yield local
        clock.ahead_ns = 0


def examined(broker: LocalBroker) -> Any:
    return told(ask(broker.url, "GET", "/doctor"))


def found(broker: LocalBroker, code: str) -> list[dict[str, Any]]:
    return [finding for finding in examined(broker)["findings"] if finding["code"] == code]


# --- the answer ---


def test_healthy_broker_lists_its_checks(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "x")
    answer = examined(broker)
    assert answer.keys() == {"status", "checked_at", "checks", "findings", "groups"}
    assert all(check.keys() == {"name", "status", "message"} for check in answer["checks"])
    of_the_machine = {"disk", "loop", "flush"}  # which may have other work
    assert {check["status"] for check in answer["checks"] if check["name"] not in of_the_machine} == {"ok"}


# --- logs ---


def test_a_partition_that_a_failed_sync_has_fenced_is_named(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders", partitions=2)
        disk.fail("sync", path="*/orders/1/*")
        refused = ask(local.url, "POST", "/topics/orders/messages", {"messages": [{"value": "x", "partition": 1}]})
        assert refused.code == "log_fenced"
        (finding,) = found(local, "partition_fenced")
        assert (finding["severity"], finding["subject"]) == ("critical", "orders/1")
        assert finding["sentence"].startswith("the partition accepts no messages: log orders/1 is fenced")
        assert [one["severity"] for one in found(local, "sync_failed")] == ["warning"]
        assert examined(local)["status"] == "critical"


@pytest.mark.parametrize(
    ("log", "path", "body", "effect"),
    [
        (
            "__consumer_offsets",
            "/groups/g/join",
            {"topics": ["orders"]},
            "some consumer groups can neither poll nor ack",
        ),
        ("__transactions", "/producers/init", {"transactional_id": "till-1"}, "no transaction can begin or end"),
    ],
)
def test_unwritable_internal_log_is_reported_with_its_effect(
    disk: FaultyDisk, log: str, path: str, body: dict[str, Any], effect: str
) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        disk.fail("sync", path=f"*/{log}/*")
        assert ask(local.url, "POST", path, body).status == 503
        (finding,) = found(local, "partition_fenced")
        assert finding["subject"].startswith(f"{log}/")
        assert finding["sentence"].startswith(effect)


def test_a_log_that_could_not_be_opened_is_named_with_what_to_do(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders", partitions=2)
        publish(local.url, "orders", "x", partition=1)
    disk.remove("/data/clean")
    disk.fail("open", errno.EIO, path="*/orders/1/*", times="forever")
    with LocalBroker("/data") as local:
        (finding,) = found(local, "log_closed")
        assert (finding["severity"], finding["subject"]) == ("critical", "orders/1")
        assert "`goqueue fsck`" in finding["hint"]
        assert [one["details"]["surveyed"] for one in found(local, "unclean_start")] != []


def test_damage_is_known_once_a_start_or_a_reader_has_come_upon_it(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        publish(local.url, "orders", *"abcde")
    (path,) = [path for path in disk.paths() if path.startswith("/data/logs/orders/0/") and path.endswith(".log")]
    disk.flip(path, 40)
    with LocalBroker("/data") as local:
        assert found(local, "range_damaged") == []  # a clean stop is believed
        read(local.url, "orders")
        (by_reader,) = found(local, "range_damaged")
    disk.remove("/data/clean")
    with LocalBroker("/data") as local:
        (by_start,) = found(local, "range_damaged")
        read(local.url, "orders")
        assert len(found(local, "range_damaged")) == 1  # two have seen it
    for finding in (by_reader, by_start):
        assert (finding["subject"], finding["severity"]) == ("orders/0", "critical")
        assert (finding["details"]["first_offset"], finding["details"]["next_offset"]) == (1, 2)
        assert finding["details"]["path"] == path


def test_torn_log_end_is_a_note(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        publish(local.url, "orders", "x")
    disk.remove("/data/clean")
    (path,) = [path for path in disk.paths() if path.startswith("/data/logs/orders/0/") and path.endswith(".log")]
    disk.write_file(path, disk.read_file(path) + b"torn")
    with LocalBroker("/data") as local:
        (finding,) = found(local, "unclean_start")
        assert (finding["severity"], finding["details"]["cut_bytes"]) == ("note", 4)


def test_a_log_that_no_topic_knows_is_noted(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        publish(local.url, "orders", "x")
    (path,) = [path for path in disk.paths() if path.startswith("/data/logs/orders/0/") and path.endswith(".log")]
    disk.write_file(path.replace("orders", "strays"), disk.read_file(path))
    with LocalBroker("/data") as local:
        assert [(one["severity"], one["subject"]) for one in found(local, "log_unclaimed")] == [("note", "strays/0")]


def test_damage_of_an_internal_log_is_repaired_or_reported(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
    (path,) = [path for path in disk.paths() if "__metadata" in path and path.endswith(".log")]
    disk.flip(path, 20)
    with LocalBroker("/data") as local:
        assert [one["subject"] for one in found(local, "range_healed")] == ["__metadata/0"]
        assert found(local, "records_lost") == []
        publish(local.url, "orders", "x")
    for start in frame.walk(memoryview(disk.read_file(path))):
        disk.flip(path, start + 20)
        disk.flip(path.replace(".log", ".copy"), start + 20)
    disk.flip("/data/logs/__metadata/0/snapshot", 20)
    with LocalBroker("/data") as local:
        (finding,) = found(local, "records_lost")
        assert (finding["subject"], finding["details"]["names"]) == ("__metadata/0", ["orders/0"])
        assert [one["subject"] for one in found(local, "log_unclaimed")] == ["orders/0"]


def test_nearly_full_disk_is_reported(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        assert found(local, "disk_filling") == []
        until(local.url, lambda: local.daemon.runtime.store.reserve.is_made)
        disk.capacity_bytes = MIB
        publish(local.url, "orders", "x" * 700_000)
        (finding,) = found(local, "disk_filling")
        assert (finding["severity"], finding["subject"]) == ("critical", "/data")
        assert 0 < finding["details"]["free_bytes"] < finding["details"]["total_bytes"] == MIB


def test_unknown_disk_space_does_not_hide_other_checks(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        disk.fail("free_bytes", times="forever")
        checks = {check["name"]: check["message"] for check in examined(local)["checks"]}
        assert checks["disk"] == "free space unknown"
        assert checks["logs"].startswith("all ")


# --- transactions ---


def test_hung_transaction_is_reported_until_it_ends(timed: LocalBroker, clock: MovableClock) -> None:
    producer = Producer(timed.url, "till-1")
    producer.put("orders", 0)
    producer.put("orders", 1)
    publish(timed.url, "orders", "of another", partition=1)
    assert found(timed, "transaction_hung") == []
    clock.advance(TRANSACTION_HUNG_SECONDS)
    (finding,) = found(timed, "transaction_hung")
    assert (finding["severity"], finding["subject"]) == ("warning", "till-1")
    assert (finding["details"]["held_back"], finding["details"]["others"]) == ({"orders/0": 1, "orders/1": 2}, 1)
    assert "`goqueue-cli transaction abort till-1`" in finding["hint"]
    producer.commit()
    assert found(timed, "transaction_hung") == []


@pytest.mark.parametrize("how", ["commit", "abort"])
def test_pending_end_of_a_transaction_is_reported_with_its_log(how: str, clock: MovableClock, disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        producer = Producer(local.url, "till-1")
        producer.put("orders", 0)
        disk.fail("sync", path="*/orders/0/*")
        refused = producer.try_to(how)
        assert (refused.status, refused.code) == (503, "transaction_pending")
        assert found(local, "transaction_stuck") == []
        clock.advance(TRANSACTION_STUCK_SECONDS)
        (finding,) = found(local, "transaction_stuck")
        assert (finding["severity"], finding["subject"]) == ("critical", "till-1")
        assert "log orders/0 is fenced" in finding["sentence"]
        (listed,) = told(ask(local.url, "GET", "/transactions"))["transactions"]
        assert (listed["state"], listed["expires_in_seconds"]) == (f"prepare_{how}", None)
        assert listed["obstacle"].startswith("log orders/0 is fenced")


# --- groups ---


def test_group_without_members_is_reported_after_a_while(timed: LocalBroker, clock: MovableClock) -> None:
    Member(timed.url).join().leave()
    assert found(timed, "group_abandoned") == []
    clock.advance(3600)
    (finding,) = found(timed, "group_abandoned")
    assert (finding["subject"], finding["details"]["lag"]) == ("billing", 2)
    assert "`goqueue-cli group delete billing`" in finding["hint"]


def test_member_that_settles_nothing_is_reported_as_stuck(timed: LocalBroker, clock: MovableClock) -> None:
    member = Member(timed.url, session_timeout="30m").join()
    assert len(member.poll(visibility_timeout="1h")) == 2
    assert found(timed, "group_stuck") == []
    clock.advance(600)
    (finding,) = found(timed, "group_stuck")
    assert finding["details"]["partitions"] == ["orders/0", "orders/1"]
    assert (finding["details"]["members"], finding["details"]["in_flight"]) == ([member.id], 2)


def test_stuck_rebalance_is_reported_with_its_member(timed: LocalBroker, clock: MovableClock) -> None:
    first = Member(timed.url, cooperative=True, session_timeout="30m").join()
    Member(timed.url, cooperative=True, session_timeout="30m").join()
    first.beat()
    assert found(timed, "group_rebalancing_long") == []
    clock.advance(40)
    (finding,) = found(timed, "group_rebalancing_long")
    assert (finding["subject"], finding["details"]["awaited"]) == ("billing", [first.id])


def test_rebalance_of_a_reset_is_as_old_as_the_reset(timed: LocalBroker, clock: MovableClock) -> None:
    member = Member(timed.url, cooperative=True, session_timeout="30m").join()
    member.beat()
    clock.advance(40)
    told(ask(timed.url, "POST", "/groups/billing/offsets/reset", {"topic": "orders", "to": "earliest"}))
    assert found(timed, "group_rebalancing_long") == []
    clock.advance(40)
    (finding,) = found(timed, "group_rebalancing_long")
    assert finding["details"]["seconds"] == 40


def test_messages_lost_to_retention_are_reported_before_and_after(timed: LocalBroker, clock: MovableClock) -> None:
    create(timed.url, "quick", retention_hours=1, segment_bytes=4096)
    Member(timed.url, topics=["quick"]).join().leave()
    for _ in range(3):
        publish(timed.url, "quick", "x" * 3000)
    clock.advance(55 * 60)
    (near,) = found(timed, "messages_expire_soon")
    assert near["details"]["partitions"] == ["quick/0"]
    clock.advance(10 * 60)
    create(timed.url, "gone")
    told(ask(timed.url, "DELETE", "/topics/gone"))  # the trash is emptied, and retention looks around
    partition = timed.daemon.runtime.broker.topic("quick").partition(0)
    until(timed.url, lambda: partition.earliest > 0)
    (loss,) = found(timed, "messages_lost_to_retention")
    assert (loss["severity"], loss["subject"]) == ("warning", "billing")
    assert loss["details"]["lost"] == partition.earliest


# --- what could not be handled ---


def test_dead_letters_wait_until_they_are_sent_back(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", *"abc")
    handles = receipts(Member(broker.url).join().poll())
    told(ask(broker.url, "POST", "/messages/reject", {"receipt_handles": handles[:2], "reason": "no such customer"}))
    (finding,) = found(broker, "dead_letters_waiting")
    assert (finding["severity"], finding["subject"], finding["details"]) == ("note", "orders.dlq", {"messages": 2})
    told(ask(broker.url, "POST", "/topics/orders/redrive", {"limit": 1}))
    assert found(broker, "dead_letters_waiting")[0]["details"] == {"messages": 1}
    told(ask(broker.url, "POST", "/topics/orders/redrive", {}))
    assert found(broker, "dead_letters_waiting") == []


def test_a_message_that_is_given_back_again_and_again_is_named(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", *"ab")
    member = Member(broker.url).join()
    for _ in range(POISON_DELIVERIES_MIN):
        assert found(broker, "poison_message") == []
        (lease,) = member.lease()
        member.settle(acks=[of(lease, (0, 1))] if lease["first"] == 0 else [], releases=[of(lease, (1, 2))])
    (finding,) = found(broker, "poison_message")
    assert finding["details"]["messages"] == [
        {"topic": "orders", "partition": 0, "offset": 1, "deliveries": POISON_DELIVERIES_MIN}
    ]
