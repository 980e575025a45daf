"""Polls: which messages they deliver, how many, in which order, and which alone."""

import errno

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.work import Promise
from goqueue.broker.groups.poll import LeasedBatch
from goqueue.broker.groups.records import LeasesGranted
from goqueue.errors import DiskFull, GenerationStale, GroupNotFound, LogFenced, MemberUnknown
from tests.broker.brokers import Running, begin, frames_of, going_on, next_job
from tests.broker.groupwork import Team, offsets_of, team_with, values_of


def fail(team: Team, batch: LeasedBatch, times: int = 1) -> None:
    """Let it fail so often, counting what comes of it."""
    team.nack(batch, delay=0.0)
    for _ in range(times - 1):
        team.nack(team.take(batch.grant.member), delay=0.0)


# --- how much, in which order ---


def test_retries_come_before_new_messages() -> None:
    team, one = team_with("a", "b", "c")
    team.nack(team.take(one, 1), delay=0.0)
    assert values_of(team.poll(one)) == ["a", "b", "c"]


def test_lease_covers_messages_with_same_history() -> None:
    team, one = team_with("a", "b", "c", "d")
    batch = team.take(one, 3)
    team.nack(batch, (0, 2), delay=0.0)
    team.settle("release", batch, (2, 3))
    grants = [batch.grant for batch in team.poll(one)]
    assert sorted((grant.first, grant.end, grant.deliveries, grant.failures) for grant in grants) == [
        (0, 2, 2, 1),
        (2, 3, 2, 0),
        (3, 4, 1, 0),
    ]


def test_concurrent_polls_share_in_flight_limit() -> None:
    team = Team(partitions=2)
    for number in (0, 1):
        team.publish("a", "b", ref=PartitionRef("orders", number))
    one = team.join(in_flight_max=2)
    first, second = team.polling(one), team.polling(one)
    read = next_job(first)  # its ref is not decided yet
    handed = team.do(second)
    other = team.do(going_on(first, read))
    assert len(values_of(handed.batches)) == 2
    assert other.batches == []


def test_byte_limit_always_allows_one_message() -> None:
    team, one = team_with("a" * 1000, "b" * 1000, "c" * 1000)
    assert len(values_of(team.poll(one, bytes_max=1))) == 1
    assert len(values_of(team.poll(one, bytes_max=2500))) == 2


def test_partitions_are_polled_in_turn() -> None:
    team = Team(partitions=3)
    for number in range(3):
        team.publish("a", "b", ref=PartitionRef("orders", number))
    one = team.join()
    assert {batch.partition for _ in range(3) for batch in team.poll(one, 1)} == {0, 1, 2}


def test_compacted_topic_is_delivered_without_gaps() -> None:
    team = Team(Running())
    team.running.create("orders", cleanup="compact")
    for value in ("a1", "b1", "a2", "b2"):
        team.publish(value, key=value[0])
    log = team.running.partition().log
    log.roll()
    team.publish("c1", key="c")
    team.running.compact()
    one = team.join()
    batches = team.poll(one)
    assert values_of(batches) + values_of(team.poll(one)) == ["a2", "b2", "c1"]
    assert team.cursor().leased == 3
    for batch in batches:
        team.ack(batch)
    assert team.cursor().floor >= 4


def test_lease_record_says_how_much_was_given() -> None:
    team = Team(Running())
    team.running.create("orders", cleanup="compact")
    for value in ("a1", "b1", "a2", "b2"):
        team.publish(value, key=value[0])
    team.running.partition().log.roll()
    team.publish("c1", "c2", lanes=(1, 3))
    team.running.compact()
    one, recorded = team.join(), list[LeasesGranted]()
    team.coordinator.journal.on_kept.subscribe(
        lambda record: recorded.append(record) if isinstance(record, LeasesGranted) else None
    )
    batches = team.poll(one) + team.poll(one)
    assert sum(record.messages for record in recorded) == len(values_of(batches)) == 4
    assert sum(record.size for record in recorded) == sum(batch.content.size for batch in batches)


def test_messages_removed_by_retention_are_counted_as_lost() -> None:
    team, one = team_with("a", "b", "c", "d", "e")
    batch = team.take(one, 3)
    team.nack(batch, (0, 1), delay=0.0)
    team.expire()
    team.publish("f")
    assert values_of(team.poll(one)) == ["f"]
    cursor = team.crash().cursor()
    assert (cursor.floor, cursor.lost) == (5, 3)


# --- to whom ---


def test_unknown_group_and_member_are_refused(team: Team) -> None:
    with pytest.raises(GroupNotFound):
        team.poll("one")
    team.join()
    with pytest.raises(MemberUnknown):
        team.poll("stranger")


def test_poll_reports_assignment_change() -> None:
    team = Team(partitions=2)
    one = team.join("one")
    assert not team.ask_poll(one, generation=1).is_changed
    team.join("two")
    assert team.group.generation == 3
    with pytest.raises(GenerationStale):
        team.ask_poll(one, generation=1)
    two = team.join("three")
    assert team.has(two) == []


# --- durable first ---


def test_lease_is_delivered_after_it_is_durable() -> None:
    team, one = team_with("a")
    work = team.polling(one)
    begin(work)
    after = team.crash()
    assert after.cursor().position == 0
    assert after.take(one).grant.deliveries == 1
    assert after.crash().cursor().leased == 1


def test_lease_refused_by_disk_is_not_delivered() -> None:
    team, one = team_with("a")
    team.running.refuse_writes()
    with pytest.raises(DiskFull):
        team.poll(one)
    assert team.cursor().leased == 0
    assert team.take(one).grant.deliveries == 1


def test_fenced_log_delivers_nothing() -> None:
    team, one = team_with("a")
    team.running.disk.fail("sync", errno.EIO, path="*/__consumer_offsets/*.log")
    for _ in range(2):
        with pytest.raises(LogFenced):
            team.poll(one)


def test_cancelled_poll_releases_leases_before_durable() -> None:
    team, one = team_with("a")
    work = team.polling(one)
    begin(work)
    work.close()
    team.running.flush()
    again = team.take(one)
    assert (again.grant.deliveries, again.grant.failures) == (2, 0)


def test_cancelled_poll_releases_leases_during_read() -> None:
    team = Team(partitions=2)
    for number in (0, 1):
        team.publish("a", ref=PartitionRef("orders", number))
    one = team.join()
    work = team.polling(one)
    job = next_job(work)
    following = work.send(job())
    assert not isinstance(following, Promise), "one ref is decided, the other one is read"
    assert sum(team.cursor(PartitionRef("orders", number)).leased for number in (0, 1)) == 1
    work.close()
    team.running.flush()
    assert sum(team.cursor(PartitionRef("orders", number)).leased for number in (0, 1)) == 0
    assert len(team.poll(one)) == 2


def test_partition_reassigned_during_read_is_not_delivered() -> None:
    team, one = team_with("a")
    work = team.polling(one)
    job = next_job(work)
    team.leave(one)
    two = team.join("two")
    with pytest.raises(StopIteration) as end:
        work.send(job())
    assert end.value.value.batches == []
    assert values_of(team.poll(two)) == ["a"]


# --- the last chance ---


def test_last_attempt_is_delivered_alone() -> None:
    team, one = team_with("a", "b", "c")
    fail(team, team.take(one, 1))
    for _ in range(2):
        team.nack(team.take(one, 1), delay=0.0)
    lone = team.take(one)
    assert (values_of([lone]), lone.grant.failures) == (["a"], 3)
    assert team.poll(one) == []
    team.ack(lone)
    assert values_of(team.poll(one)) == ["b", "c"]


def test_last_attempt_waits_for_empty_member() -> None:
    team, one = team_with("a", "b", "c")
    fail(team, team.take(one, 1))
    team.nack(team.take(one, 1), delay=0.0)
    again, other = team.take(one, 1), team.take(one, 1)
    team.nack(again, delay=0.0)
    assert values_of([other]) == ["b"]
    assert team.poll(one) == []
    team.ack(other)
    assert values_of(team.poll(one)) == ["a"]


def test_last_attempt_removed_by_retention_unblocks_others() -> None:
    team, one = team_with("a")
    for _ in range(3):
        team.nack(team.take(one), delay=0.0)
    team.expire()
    team.publish("b")
    assert values_of(team.poll(one)) == ["b"]


def test_dlq_messages_have_no_last_attempt() -> None:
    team = Team(Running())
    team.running.create("orders.dlq")
    team.running.publish(frames_of([b"a", b"b"]), "orders.dlq")
    one = team.join(topics=["orders.dlq"])
    for failures in range(6):
        batch = team.take(one)
        assert (values_of([batch]), batch.grant.failures) == (["a", "b"], failures)
        team.nack(batch, delay=0.0)


# --- who waits is woken ---


def test_poll_waiting_for_room_wakes_when_room_is_free(team: Team) -> None:
    team.publish(*"abcdefghij")
    one = team.join(in_flight_max=8)
    batch = team.take(one, 8)
    assert team.poll(one) == []
    woken = team.watch(one)
    team.ack(batch, (0, 1))
    assert woken == []
    team.ack(batch, (1, 2))
    assert woken == [one]
    assert offsets_of(team.take(one)) == [8, 9]


def test_poll_wakes_when_retry_is_due() -> None:
    team, one = team_with("a")
    team.nack(team.take(one))
    woken = team.watch(one)
    team.due(0.5)
    assert woken == []
    team.due(0.5)
    assert woken == [one]
