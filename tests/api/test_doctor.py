"""What a real broker finds about itself when something really is wrong with it."""

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from goqueue.clock import NANOSECONDS, SystemClock
from goqueue.limits import MIB, ORDEAL_DELIVERIES, TRANSACTION_HUNG_SECONDS, TRANSACTION_STUCK_SECONDS
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from tests.api.members import Member, of, receipts, told
from tests.api.wire import until
from tests.brokers import Answer, ask, broker, create, publish, read

__all__ = ["broker"]


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
    """Of every broker that is started behind this."""
    made = MovableClock()
    monkeypatch.setattr("goqueue.daemon.SystemClock", lambda: made)
    monkeypatch.setattr("goqueue.clock._STALL_NS", 2**62)  # a clock that is set ahead is no broker that stood still
    return made


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FaultyDisk:
    """Of every broker that is started behind this."""
    made = FaultyDisk()
    monkeypatch.setattr("goqueue.daemon.SystemDisk", lambda: made)
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


def test_a_broker_that_is_well_says_what_it_has_looked_at(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "x")
    answer = examined(broker)
    assert answer.keys() == {"status", "checked_at", "checks", "findings"}
    assert all(check.keys() == {"name", "status", "message"} for check in answer["checks"])
    of_the_machine = {"disk", "loop", "flush"}  # which may have other work
    assert {check["status"] for check in answer["checks"] if check["name"] not in of_the_machine} == {"ok"}


def test_many_who_ask_at_once_are_told_the_same(broker: LocalBroker) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: told(ask(broker.url, "GET", "/doctor")), range(16)))
    assert all(answer["checks"] for answer in answers)


# --- logs ---


def test_a_partition_that_a_failed_sync_has_fenced_is_named(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders", partitions=2)
        disk.fail("sync", path="*/orders/1/*")
        refused = ask(local.url, "POST", "/topics/orders/messages", {"messages": [{"value": "x", "partition": 1}]})
        assert refused.code == "log_fenced"
        (finding,) = found(local, "partition_fenced")
        assert (finding["severity"], finding["subject"]) == ("critical", "orders/1")
        assert finding["sentence"].startswith("the partition takes no messages: log orders/1 is fenced")
        assert [one["severity"] for one in found(local, "sync_failed")] == ["warning"]
        assert examined(local)["status"] == "critical"


def test_a_log_of_groups_that_cannot_be_written_says_what_that_means(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        disk.fail("sync", path="*/__consumer_offsets/*")
        assert Member(local.url).ask("POST", "/join", {"topics": ["orders"], "client_id": "till"}).status == 503
        (finding,) = found(local, "partition_fenced")
        assert finding["subject"].startswith("__consumer_offsets/")
        assert finding["sentence"].startswith("some groups can neither poll nor settle")


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


def test_what_a_crash_leaves_is_noted(disk: FaultyDisk) -> None:
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


def test_damage_of_an_internal_log_is_healed_or_named(disk: FaultyDisk) -> None:
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


def test_a_disk_that_is_nearly_full_is_told(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        assert found(local, "disk_filling") == []
        until(local.url, lambda: local.daemon.runtime.store.reserve.is_made)
        disk.capacity_bytes = MIB
        publish(local.url, "orders", "x" * 700_000)
        (finding,) = found(local, "disk_filling")
        assert (finding["severity"], finding["subject"]) == ("critical", "/data")
        assert 0 < finding["details"]["free_bytes"] < finding["details"]["total_bytes"] == MIB


def test_a_disk_that_does_not_answer_keeps_nothing_else_from_being_told(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        disk.fail("free_bytes", times="forever")
        checks = {check["name"]: check["message"] for check in examined(local)["checks"]}
        assert checks["disk"] == "nothing is known of its space"
        assert checks["logs"].startswith("all ")


# --- transactions ---


class Producer:
    """One with a transactional id, whose transaction begins with its first message."""

    def __init__(self, url: str, name: str = "till-1") -> None:
        self.url = url
        given = {"transactional_id": name, "transaction_timeout_ms": 600_000}
        found = told(ask(url, "POST", "/producers/init", given))
        self.whose = {name: found[name] for name in ("producer_id", "epoch", "transactional_id")}
        told(ask(url, "POST", "/transactions/begin", self.whose))

    def put(self, topic: str, partition: int) -> None:
        message = {"topic": topic, "partition": partition, "value": "x"}
        told(ask(self.url, "POST", "/transactions/publish", {**self.whose, **message}))

    def end(self, how: str) -> Answer:
        return ask(self.url, "POST", f"/transactions/{how}", self.whose)


def test_a_transaction_that_readers_wait_behind_is_told_until_it_ends(timed: LocalBroker, clock: MovableClock) -> None:
    producer = Producer(timed.url)
    producer.put("orders", 0)
    producer.put("orders", 1)
    publish(timed.url, "orders", "of another", partition=1)
    assert found(timed, "transaction_hung") == []
    clock.advance(TRANSACTION_HUNG_SECONDS)
    (finding,) = found(timed, "transaction_hung")
    assert (finding["severity"], finding["subject"]) == ("warning", "till-1")
    assert (finding["details"]["held_back"], finding["details"]["others"]) == ({"orders/0": 1, "orders/1": 2}, 1)
    assert "`goqueue-cli transaction abort till-1`" in finding["hint"]
    assert producer.end("commit").status == 200
    assert found(timed, "transaction_hung") == []


def test_one_that_only_keeps_its_own_messages_back_is_a_note(timed: LocalBroker, clock: MovableClock) -> None:
    producer = Producer(timed.url)
    clock.advance(TRANSACTION_HUNG_SECONDS)
    assert found(timed, "transaction_hung") == []
    producer.put("orders", 0)
    assert [one["severity"] for one in found(timed, "transaction_hung")] == ["note"]
    checks = {check["name"]: check["status"] for check in examined(timed)["checks"]}
    assert checks["transactions"] == "ok"


@pytest.mark.parametrize("how", ["commit", "abort"])
def test_an_end_that_a_log_does_not_take_is_told_with_the_log(how: str, clock: MovableClock, disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        producer = Producer(local.url)
        producer.put("orders", 0)
        disk.fail("sync", path="*/orders/0/*")
        refused = producer.end(how)
        assert (refused.status, refused.code) == (503, "transaction_pending")
        assert found(local, "transaction_stuck") == []
        clock.advance(TRANSACTION_STUCK_SECONDS)
        (finding,) = found(local, "transaction_stuck")
        assert (finding["severity"], finding["subject"]) == ("critical", "till-1")
        assert "log orders/0 is fenced" in finding["sentence"]
        (listed,) = told(ask(local.url, "GET", "/transactions"))["transactions"]
        assert (listed["state"], listed["expires_in_seconds"]) == (f"prepare_{how}", None)
        assert listed["obstacle"].startswith("log orders/0 is fenced")


def test_a_log_of_transactions_that_cannot_be_written_says_what_that_means(disk: FaultyDisk) -> None:
    with LocalBroker("/data") as local:
        disk.fail("sync", path="*/__transactions/*")
        assert ask(local.url, "POST", "/producers/init", {"transactional_id": "till-1"}).status == 503
        (finding,) = found(local, "partition_fenced")
        assert finding["sentence"].startswith("no transaction can begin or end")


# --- groups ---


def test_a_group_that_everybody_has_left_is_told_after_a_while(timed: LocalBroker, clock: MovableClock) -> None:
    Member(timed.url).join().leave()
    assert found(timed, "group_abandoned") == []
    clock.advance(3600)
    (finding,) = found(timed, "group_abandoned")
    assert (finding["subject"], finding["details"]["lag"]) == ("billing", 2)
    assert "`goqueue-cli group delete billing`" in finding["hint"]


def test_a_member_that_takes_messages_and_answers_for_none_is_stuck(timed: LocalBroker, clock: MovableClock) -> None:
    member = Member(timed.url, session_timeout="30m").join()
    assert len(member.poll(visibility_timeout="1h")) == 2
    assert found(timed, "group_stuck") == []
    clock.advance(600)
    (finding,) = found(timed, "group_stuck")
    assert finding["details"]["partitions"] == ["orders/0", "orders/1"]
    assert (finding["details"]["members"], finding["details"]["in_flight"]) == ([member.id], 2)


def test_one_partition_may_be_stuck_while_the_others_go_on(timed: LocalBroker, clock: MovableClock) -> None:
    member = Member(timed.url, session_timeout="30m").join()
    handles = {message["partition"]: message["receipt_handle"] for message in member.poll(visibility_timeout="1h")}
    publish(timed.url, "orders", "y", partition=0)
    clock.advance(600)
    told(ask(timed.url, "POST", "/messages/ack", {"receipt_handle": handles[0]}))
    (finding,) = found(timed, "group_stuck")
    assert finding["details"]["partitions"] == ["orders/1"]


def test_messages_that_wait_for_their_delay_are_not_stuck(timed: LocalBroker, clock: MovableClock) -> None:
    member = Member(timed.url, session_timeout="30m").join()
    handles = receipts(member.poll())
    told(ask(timed.url, "POST", "/messages/nack", {"receipt_handles": handles, "delay": "1h"}))
    clock.advance(600)
    assert found(timed, "group_stuck") == []


def test_a_rebalance_that_somebody_holds_up_is_told_with_who_it_is(timed: LocalBroker, clock: MovableClock) -> None:
    first = Member(timed.url, cooperative=True, session_timeout="30m").join()
    Member(timed.url, cooperative=True, session_timeout="30m").join()
    first.beat()
    assert found(timed, "group_rebalancing_long") == []
    clock.advance(40)
    (finding,) = found(timed, "group_rebalancing_long")
    assert (finding["subject"], finding["details"]["awaited"]) == ("billing", [first.id])


def test_messages_that_a_group_has_not_had_are_told_before_and_after_they_go(
    timed: LocalBroker, clock: MovableClock
) -> None:
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
    for _ in range(ORDEAL_DELIVERIES):
        assert found(broker, "poison_message") == []
        (lease,) = member.lease()
        member.settle(acks=[of(lease, (0, 1))] if lease["first"] == 0 else [], releases=[of(lease, (1, 2))])
    (finding,) = found(broker, "poison_message")
    assert finding["details"]["messages"] == [
        {"topic": "orders", "partition": 0, "offset": 1, "deliveries": ORDEAL_DELIVERIES}
    ]
