"""Partitions that are added to a topic: two records, the order of keys in groups, and what crashes leave behind."""

import errno
from typing import Any

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.routing import Routing
from goqueue.broker.core.splits import NO_PARENT, Split, allowed_counts
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.work import run_work
from goqueue.broker.operations.records import Author
from goqueue.broker.operations.undo import why_final
from goqueue.broker.scaling import ScaledTopic
from goqueue.errors import (
    DiskFull,
    GoQueueError,
    KeysWouldMove,
    PartitionCountStale,
    RequestInvalid,
    TopicBusy,
    TopicNotFound,
)
from goqueue.limits import PARTITIONS_MAX
from goqueue.storage import frame
from tests.broker.brokers import KEEPS, Running, Told, before_each_job, frames_of, marked, messages, offer_batch, values
from tests.broker.crashes import crash_points
from tests.broker.groupwork import GATHERED, Team, values_of

PARENT, CHILD = PartitionRef("orders", 0), PartitionRef("orders", 1)


def ask_to_scale(running: Running, count: int, name: str = "orders", **options: Any) -> Told[ScaledTopic]:
    told: Told[ScaledTopic] = Told()
    running.broker.scaler.scale(name, count, told, **options)
    return told


def scale(running: Running, count: int, **options: Any) -> Topic:
    told = ask_to_scale(running, count, **options)
    running.flush()
    running.flush()  # of the split offsets
    assert len(told.result.topic.partitions) == count
    return told.result.topic


def grown(*before: str, count: int = 2, **options: Any) -> tuple[Team, str]:
    """A group whose topic had one partition with some messages, and has more partitions now."""
    team = Team()
    if before:
        team.publish(*before)
    member = team.join(**options)
    scale(team.running, count)
    team.due(GATHERED)
    return team, member


def settle_all(team: Team, member: str) -> list[str]:
    """Poll and acknowledge until nothing comes any more; return the values in their order."""
    found: list[str] = []
    while batches := team.poll(member):
        found += values_of(batches)
        for batch in batches:
            team.ack(batch)
    return found


# --- the records ---


def test_added_partition_records_its_parent_and_where_that_ended() -> None:
    running = Running()
    running.create(partitions=2)
    running.publish(frames_of([b"a", b"b", b"c"]))
    topic = scale(running, 6)
    expected = {2: Split(0, 3), 3: Split(1, 0), 4: Split(0, 3), 5: Split(1, 0)}
    assert topic.splits == expected
    assert running.restart().broker.topics["orders"].splits == expected


def test_messages_gathered_before_the_switch_are_below_the_split_offset() -> None:
    running = Running()
    running.create()
    told = ask_to_scale(running, 2)
    gathered: Told[Any] = Told()
    running.partition().offer([frame.encode(b"late", b"key")], gathered)
    running.flush()
    running.flush()
    assert gathered.result.first_offset == 0
    assert told.result.topic.splits == {1: Split(0, 1)}


def test_topic_keeps_its_split_offsets_when_it_is_altered() -> None:
    running = Running()
    running.create()
    running.publish(frames_of([b"a"]))
    scale(running, 2)
    altered: Told[Topic] = Told()
    running.broker.alter_topic("orders", {"retention_hours": 1.0}, altered)
    running.flush()
    offer_batch(running.partition(number=1), frames_of([b"b"]))
    running.flush()
    running.broker.note_ends(["orders"])
    running.flush()
    after = running.restart().broker.topics["orders"]
    assert (after.splits, len(after.partitions), after.settings.retention_hours) == ({1: Split(0, 1)}, 2, 1.0)


def test_crash_leaves_the_former_or_the_new_number_and_every_message() -> None:
    for point in crash_points():
        running = Running()
        running.create(partitions=2)
        running.publish(frames_of([b"a", b"b"]))
        with point.during(running.disk):
            told = ask_to_scale(running, 4)
            running.flush()
            running.flush()
            if told.all:
                offer_batch(running.partition(number=2), frames_of([b"c"]))
            running.flush()
        for keep in KEEPS:
            after = running.after_crash(keep)
            topic = after.broker.topics["orders"]
            assert len(topic.partitions) in ((4,) if told.all else (2, 4))
            after.flush()
            assert topic.splits in ({}, {2: Split(0, 2), 3: Split(1, 0)})
            assert bool(topic.splits) == (len(topic.partitions) == 4)
            assert values(after.partition()) == [b"a", b"b"]
            if point.is_over:
                assert values(after.partition(number=2)) == [b"c"]


def test_start_without_split_offsets_takes_the_ends_of_that_moment() -> None:
    running = Running()
    running.create()
    running.publish(frames_of([b"old"]))
    ask_to_scale(running, 2)
    running.flush()
    running.refuse_writes("*/__metadata/*")
    running.flush()
    assert running.broker.topics["orders"].splits == {1: Split(0)}
    running.store.refused.clear()
    running.publish(frames_of([b"new"]))
    after = running.crash()
    after.flush()
    assert after.broker.topics["orders"].splits == {1: Split(0, 2)}


def test_split_offset_is_limited_to_a_parent_that_lost_its_last_messages() -> None:
    running = Running(flush="interval")
    running.create()
    running.flush()
    running.publish(frames_of([b"lost"]))
    told = ask_to_scale(running, 2)
    running.flush()
    running.flush()
    assert told.result.topic.splits == {1: Split(0, 1)}
    after = running.crash("synced")
    topic = after.broker.topics["orders"]
    assert all(split.offset <= topic.partition(split.parent).log_end for split in topic.splits.values())


def test_refused_record_leaves_the_topic_as_it_was() -> None:
    running = Running()
    running.create()
    running.refuse_writes("*/__metadata/*")
    told = ask_to_scale(running, 2)
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    assert (len(running.broker.topics["orders"].partitions), running.broker.topics["orders"].splits) == (1, {})


def test_refused_log_leaves_the_topic_as_it_was() -> None:
    running = Running()
    running.create()
    told = ask_to_scale(running, 2)
    running.disk.fail("make_directory", errno.ENOSPC, path="*/orders/1")
    running.flush()
    running.flush()
    assert isinstance(told.refusal, GoQueueError)
    assert len(running.broker.topics["orders"].partitions) == 1
    assert len(running.restart().broker.topics["orders"].partitions) == 1


def test_refused_split_offsets_are_recorded_by_the_upkeep() -> None:
    team = Team()
    team.publish("old")
    member = team.join()
    told = ask_to_scale(team.running, 2)
    team.running.flush()
    team.running.refuse_writes("*/__metadata/*")
    team.running.flush()
    team.running.store.refused.clear()
    team.due(GATHERED)
    assert settle_all(team, member) == ["old"]
    team.publish("new", ref=CHILD)
    assert team.poll(member) == []
    woken = team.watch(member)
    team.running.broker.scaler.record_splits()
    team.running.flush()
    assert told.result.topic.splits == {1: Split(0, 1)}
    assert woken == [member]
    assert settle_all(team, member) == ["new"]


def test_topic_deleted_meanwhile_is_not_found() -> None:
    running = Running()
    running.create()
    told = ask_to_scale(running, 2)
    running.ask_to_delete()
    running.flush()
    assert isinstance(told.refusal, TopicNotFound)
    assert running.names() == set()


# --- what is refused ---


@pytest.mark.parametrize(("count", "sentence"), [(4, "so many"), (3, "be removed"), (PARTITIONS_MAX + 1, "more")])
def test_number_that_no_topic_can_change_to_is_refused(count: int, sentence: str) -> None:
    running = Running()
    running.create(partitions=4)
    with pytest.raises(RequestInvalid, match=sentence) as refused:
        ask_to_scale(running, count, accept_key_moves=True)
    assert refused.value.hint


def test_number_that_is_no_multiple_is_refused_with_the_next_ones() -> None:
    running = Running()
    running.create(partitions=4)
    running.publish(frames_of([b"a"]))
    with pytest.raises(KeysWouldMove) as refused:
        ask_to_scale(running, 6)
    assert refused.value.details["allowed"] == [8, 12, 16]
    assert "8, 12 or 16" in (refused.value.hint or "")
    topic = scale(running, 6, accept_key_moves=True)
    assert topic.splits == {4: Split(NO_PARENT, 0), 5: Split(NO_PARENT, 0)}


def test_no_number_is_named_beyond_the_limit() -> None:
    assert allowed_counts(PARTITIONS_MAX // 2) == [PARTITIONS_MAX]
    assert allowed_counts(PARTITIONS_MAX) == []


def test_empty_topic_takes_any_larger_number() -> None:
    running = Running()
    running.create(partitions=4)
    assert len(scale(running, 6).partitions) == 6
    assert len(running.restart().broker.topics["orders"].partitions) == 6


def test_topic_that_got_messages_meanwhile_is_refused_another_number() -> None:
    running = Running()
    running.create(partitions=4)
    told = ask_to_scale(running, 6)
    offer_batch(running.partition(), frames_of([b"a"], key=b"k"))
    running.flush()
    running.flush()
    assert isinstance(told.refusal, KeysWouldMove)
    assert len(running.broker.topics["orders"].partitions) == 4
    assert len(running.restart().broker.topics["orders"].partitions) == 4


def test_compacted_topic_is_refused_unless_key_moves_are_accepted() -> None:
    running = Running()
    running.create(cleanup="compact")
    running.publish(frames_of([b"a"], key=b"k"))
    with pytest.raises(KeysWouldMove, match="compacted"):
        ask_to_scale(running, 2)
    assert scale(running, 2, accept_key_moves=True).splits == {1: Split(0, 1)}


def test_internal_and_unknown_topics_are_not_found() -> None:
    running = Running()
    for name in ("__metadata", "unknown"):
        with pytest.raises(TopicNotFound):
            ask_to_scale(running, 2, name)


def test_second_request_is_refused_while_partitions_are_being_added() -> None:
    running = Running()
    running.create()
    ask_to_scale(running, 2)
    with pytest.raises(TopicBusy):
        ask_to_scale(running, 4)
    running.flush()
    running.flush()
    assert len(scale(running, 4).partitions) == 4


def test_addition_is_recorded_as_an_operation_that_cannot_be_undone() -> None:
    team = Team()

    def settle() -> None:
        team.running.flush()
        team.running.flush()  # of the split offsets

    number, scaled = run_work(team.running.broker.changes.scale_topic(Author("ana", "here"), "orders", 2), settle)
    operation = team.running.broker.operations.operation(number)
    assert (operation.kind, operation.summary, scaled.before) == ("topic_scaled", "partitions 1 -> 2", 1)
    assert "cannot be removed" in (why_final(operation) or "")


# --- publishing ---


def test_batch_placed_by_the_former_number_is_refused_unless_it_is_stored() -> None:
    running = Running()
    running.create()
    running.publish(marked(0, b"a", b"b"))
    topic = scale(running, 2)
    routing, partition = Routing(topic, 1), running.partition()
    routing.check(partition, ProducerMark(7, 0, 0, 2))
    for mark in (ProducerMark(7, 0, 2, 1), None):
        with pytest.raises(PartitionCountStale) as refused:
            routing.check(partition, mark)
        assert (refused.value.details["partitions"], refused.value.details["stored"]) == (2, 0)
    Routing(topic, 2).check(partition, None)


def test_stored_beginning_of_a_refused_batch_is_named() -> None:
    for point in crash_points():
        running = Running()
        running.create()
        with point.during(running.disk):
            running.publish(marked(0, *[b"x" * 600] * 20))
        after = running.after_crash("some")
        stored = len(messages(after.partition()))
        topic = scale(after, 2)
        if 0 < stored < 20:
            with pytest.raises(PartitionCountStale) as refused:
                Routing(topic, 1).check(after.partition(), ProducerMark(7, 0, 0, 20))
            assert refused.value.details["stored"] == stored
            assert refused.value.details["pieces"] == [(0, stored)]


# --- groups ---


def test_child_is_handed_out_once_the_parent_is_finished_up_to_the_split_offset() -> None:
    team, member = grown("a", "b")
    team.publish("c", ref=CHILD)
    team.publish("d", ref=PARENT)
    batch = team.take(member)
    assert values_of([batch]) == ["a", "b", "d"]
    team.ack(batch, (0, 1))
    assert team.poll(member) == []
    team.ack(batch, (1, 2))  # what came later need not be finished
    assert values_of(team.poll(member)) == ["c"]


def test_member_with_the_child_is_woken_when_another_one_finishes_the_parent() -> None:
    team, first = grown("a")
    second = team.join("two")
    team.due(GATHERED)
    owner = {ref: member for member in (first, second) for ref in team.has(member)}
    assert owner[PARENT] != owner[CHILD]
    team.publish("b", ref=CHILD)
    assert team.poll(owner[CHILD]) == []
    woken = team.watch(owner[CHILD])
    team.ack(team.take(owner[PARENT]))
    assert woken == [owner[CHILD]]
    assert values_of(team.poll(owner[CHILD])) == ["b"]


def test_held_back_partition_does_not_wake_the_member_that_has_it() -> None:
    team, member = grown("a")
    assert {one.number for one in team.coordinator.partitions_of(team.name, member)} == {0}
    team.ack(team.take(member))
    assert {one.number for one in team.coordinator.partitions_of(team.name, member)} == {0, 1}


def test_reset_of_the_parent_holds_the_child_back_again() -> None:
    team, member = grown("a")
    assert settle_all(team, member) == ["a"]
    team.publish("b", "c", ref=CHILD)
    batch = team.take(member, 1)
    team.nack(batch, delay=0)
    team.reset("earliest", partitions=(0,))
    batch = team.take(member)
    assert values_of([batch]) == ["a"]
    assert team.poll(member) == []
    team.ack(batch)
    assert settle_all(team, member) == ["b", "c"]


def test_reset_of_the_parent_during_a_read_of_the_child_leases_nothing() -> None:
    team, member = grown("a")
    settle_all(team, member)
    team.publish("b", ref=CHILD)
    team.running.roll()
    team.running.partition(number=1).log.roll()
    team.running.flush()

    def reset() -> None:
        if team.cursor(PARENT).floor:
            team.reset("earliest", partitions=(0,))

    found = team.do(before_each_job(team.polling(member), reset)).batches
    assert values_of(found) == ["a"]


def test_grandchild_waits_for_the_first_partition_when_its_parent_was_empty() -> None:
    team = Team()
    team.publish("a")
    member = team.join()
    scale(team.running, 2)
    scale(team.running, 4)
    team.due(GATHERED)
    assert team.running.broker.topics["orders"].splits[3] == Split(1, 0)
    team.publish("b", ref=PartitionRef("orders", 3))
    batch = team.take(member)
    assert values_of([batch]) == ["a"]
    assert team.poll(member) == []
    team.ack(batch)
    assert values_of(team.poll(member)) == ["b"]


def test_group_that_starts_at_the_latest_begins_added_partitions_at_their_first_message() -> None:
    team = Team()
    team.publish("skipped")
    member = team.join(start="latest")
    scale(team.running, 2)
    team.publish("first", ref=CHILD)
    team.due(GATHERED)
    assert settle_all(team, member) == ["first"]


def test_later_group_that_starts_at_the_latest_skips_messages_of_added_partitions() -> None:
    running = Running()
    running.create()
    scale(running, 2)
    offer_batch(running.partition(number=1), frames_of([b"old"]))
    running.flush()
    team = Team(running)
    member = team.join(start="latest")
    assert settle_all(team, member) == []
    assert team.cursor(CHILD).floor == 1


def test_crash_while_a_later_group_begins_leaves_no_added_partition_at_its_first_message() -> None:
    for point in crash_points():
        running = Running()
        running.create()
        scale(running, 4)
        for number in range(4):
            offer_batch(running.partition(number=number), frames_of([b"old"]))
        running.flush()
        team = Team(running)
        with point.during(running.disk):
            team.join(start="latest")
        for keep in KEEPS:
            after = team.after_crash(keep)
            after.due(GATHERED)
            cursors = after.coordinator.store.cursors(after.name)
            assert {cursor.floor for cursor in cursors.values()} <= {1}


def test_parent_with_nothing_but_removed_messages_lets_the_child_through() -> None:
    team, member = grown("a", "b")
    team.expire(PARENT)
    team.publish("c", ref=CHILD)
    woken = team.watch(member)
    assert team.poll(member) == []
    assert woken == [member]
    assert settle_all(team, member) == ["c"]


def test_open_transaction_in_the_parent_holds_the_child_back_until_it_ends() -> None:
    team, member = grown("a", "b")
    batch = team.take(member)
    team.ack_in_transaction(batch)
    team.publish("c", ref=CHILD)
    assert team.poll(member) == []
    team.end_transaction(is_commit=True)
    assert settle_all(team, member) == ["c"]


def test_priorities_in_the_parent_let_the_child_through_in_the_end() -> None:
    team = Team()
    team.publish("a", "b", "c", "d", lanes=[4, 0, 2, 0])
    member = team.join()
    scale(team.running, 2)
    team.due(GATHERED)
    team.publish("e", ref=CHILD)
    assert settle_all(team, member)[-1] == "e"


def test_lag_counts_held_back_messages_which_are_not_ready() -> None:
    team, member = grown("a")
    team.publish("b", "c", ref=CHILD)
    lags = {lag.ref: lag for lag in team.do(team.coordinator.lags.of_group(team.name))}
    assert (lags[CHILD].messages, lags[CHILD].ready) == (2, 0)
    obstacle = lags[CHILD].obstacle
    assert obstacle is not None
    assert (obstacle.parent, obstacle.remaining) == (0, 1)
    settle_all(team, member)
    lags = {lag.ref: lag for lag in team.do(team.coordinator.lags.of_group(team.name))}
    assert lags[CHILD].obstacle is None


def test_group_continues_after_a_restart_with_the_child_held_back() -> None:
    team, _ = grown("a")
    team.publish("b", ref=CHILD)
    after = team.restart()
    (member,) = after.group.members
    assert settle_all(after, member) == ["a", "b"]
