"""The life of topics: made and deleted whole, whatever crashes in between and whatever the disk refuses."""

import errno

import pytest

from goqueue.broker.topic import TopicSettings
from goqueue.errors import (
    DiskFull,
    GoQueueError,
    LogClosed,
    LogExists,
    LogFenced,
    PartitionNotFound,
    TopicBusy,
    TopicExists,
    TopicNotFound,
)
from goqueue.limits import PRODUCER_BLOCK_IDS
from goqueue.storage import scan
from goqueue.storage.retention import plan_expiry
from goqueue.testing.disk import Crashed, Keep
from tests.broker.brokers import Running, Told, frames_of, offer_batch, values

KEEPS: tuple[Keep, ...] = ("everything", "synced", "some")


def test_a_topic_is_there_when_its_creation_was_answered_and_after_a_crash() -> None:
    running = Running()
    told = running.ask_to_create(partitions=2)
    assert running.names() == set()
    running.flush()
    assert told.result.name == "orders"
    assert running.names() == running.crash().names() == {"orders"}


def test_messages_and_settings_survive_a_crash_and_a_clean_stop() -> None:
    running = Running()
    running.create(cleanup="compact")
    running.publish(frames_of([b"one", b"two"]))
    for _ in range(2):
        running = running.restart().crash("synced")
        assert values(running.partition()) == [b"one", b"two"]
        assert running.broker.topics["orders"].settings == TopicSettings(cleanup="compact")


@pytest.mark.parametrize("keep", KEEPS)
def test_a_crash_at_any_operation_of_a_creation_leaves_a_whole_topic_or_none(keep: Keep) -> None:
    operation, is_over = 0, False
    while not is_over:
        running, operation = Running(), operation + 1
        running.disk.crash_at(running.disk.operations + operation)
        told = running.ask_to_create(partitions=2)
        try:
            running.flush()
            is_over = True
        except Crashed:
            assert told.all == []
        after = running.crash(keep)
        for name in after.names():
            assert [values(after.partition(name, number)) for number in (0, 1)] == [[], []]
        assert after.broker.unclaimed == []
    assert after.names() == {"orders"}


@pytest.mark.parametrize("keep", KEEPS)
def test_a_crash_at_any_operation_of_a_deletion_leaves_a_whole_topic_or_nothing(keep: Keep) -> None:
    operation, is_over = 0, False
    while not is_over:
        running, operation = Running(), operation + 1
        running.create(partitions=2)
        running.publish(frames_of([b"one"]))
        running.disk.crash_at(running.disk.operations + operation)
        told = running.ask_to_delete()
        try:
            running.flush()
            is_over = True
        except Crashed:
            assert told.all == []
        after = running.crash(keep)
        assert not (is_over and after.names())
        if after.names():
            assert values(after.partition()) == [b"one"]
        else:
            assert all(name.startswith("__") for name in after.store.logs)
            after.create()
            assert values(after.partition()) == []


def test_a_creation_that_the_disk_has_no_room_to_record_is_refused() -> None:
    running = Running()
    told = running.ask_to_create()
    running.disk.fail("write", errno.ENOSPC)
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    running.create()


def test_a_creation_whose_logs_the_disk_has_no_room_for_is_taken_back() -> None:
    running = Running()
    told = running.ask_to_create(partitions=3)
    running.disk.fail("create", errno.ENOSPC, path="*/orders/2/*")
    running.flush()
    assert told.all == [], "the way back is durable before anybody is told"
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    assert running.names() == set()
    again = running.crash()
    assert again.names() == set()
    assert len(again.create(partitions=3).partitions) == 3


def test_where_even_the_way_back_is_refused_the_next_start_finishes_the_creation() -> None:
    running = Running()
    told = running.ask_to_create()
    running.disk.fail("create", errno.ENOSPC, path="*/orders/*")
    running.disk.fail("write", errno.ENOSPC, path="*/__metadata/*", skip=4)  # after the record, its copy and its index
    running.flush()
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    with pytest.raises(TopicBusy):
        running.broker.topic("orders")
    assert running.crash().names() == {"orders"}


def test_a_name_is_taken_once_and_from_the_first_request_on() -> None:
    running = Running()
    running.ask_to_create()
    with pytest.raises(TopicExists):
        running.ask_to_create()
    with pytest.raises(TopicBusy):
        running.broker.topic("orders")


def test_a_topic_that_is_being_deleted_cannot_be_created_yet() -> None:
    running = Running()
    running.create()
    running.ask_to_delete()
    with pytest.raises(TopicBusy):
        running.ask_to_create()
    running.flush()
    running.create()


def test_a_name_is_free_again_when_nobody_works_on_the_files_any_more() -> None:
    running = Running()
    topic = running.create(partitions=2)
    running.publish(frames_of([b"old"]))
    job = plan_expiry(topic.partition(0).log, running.disk, before_time=1)
    running.delete()
    with pytest.raises(TopicBusy):
        running.ask_to_create()
    job.apply()
    running.flush()
    running.store.settle()
    running.create()
    assert values(running.partition()) == []


def test_a_deletion_that_the_disk_refuses_leaves_the_topic_as_it_was() -> None:
    running = Running()
    running.create()
    running.publish(frames_of([b"one"]))
    told = running.ask_to_delete()
    running.disk.fail("write", errno.ENOSPC)
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    running.publish(frames_of([b"two"]))
    assert values(running.partition()) == [b"one", b"two"]


def test_who_publishes_to_a_topic_that_is_deleted_meanwhile_is_told() -> None:
    running = Running()
    partition = running.create().partition(0)
    running.ask_to_delete()
    running.flush()
    late: Told[object] = Told()
    partition.offer([frames_of([b"late"])], late)
    partition.commit()
    assert isinstance(late.refusal, LogClosed)


def test_changed_settings_count_when_they_are_durable() -> None:
    running = Running()
    topic = running.create()
    told: Told[object] = Told()
    running.broker.alter_topic("orders", {"segment_bytes": 8192}, told)
    assert topic.settings.segment_bytes is None
    running.flush()
    assert told.result is topic
    assert topic.partition(0).log.settings.segment_bytes == 8192
    assert running.crash().broker.topics["orders"].settings.segment_bytes == 8192


def test_a_name_that_differs_in_case_alone_is_suggested() -> None:
    running = Running()
    running.create("Orders")
    with pytest.raises(TopicNotFound) as refusal:
        running.broker.topic("orders")
    assert refusal.value.hint == "did you mean Orders?"


def test_internal_topics_can_be_read_and_nothing_else() -> None:
    running = Running()
    assert running.broker.topic("__metadata").partitions
    for change in (
        lambda: running.broker.for_publishing("__metadata"),
        lambda: running.broker.delete_topic("__metadata", lambda _: None),
        lambda: running.broker.alter_topic("__metadata", {}, lambda _: None),
    ):
        with pytest.raises(TopicNotFound):
            change()


def test_a_partition_that_is_not_there_is_named() -> None:
    topic = Running().create(partitions=2)
    with pytest.raises(PartitionNotFound, match="no partition 2"):
        topic.partition(2)


def test_a_log_that_cannot_be_opened_keeps_its_topic_and_says_why() -> None:
    running = Running()
    running.create(partitions=2)
    running.publish(frames_of([b"one"]))
    disk = running.disk.crash("synced")
    disk.fail("open", errno.EIO, path="*/orders/0/*", times="forever")
    again = Running(disk)
    with pytest.raises(LogFenced, match="could not be opened"):
        offer_batch(again.partition(), frames_of([b"two"]))
    assert values(again.partition(number=1)) == []
    disk.heal()
    assert values(again.crash().partition()) == [b"one"]


def test_logs_that_no_topic_knows_are_named_and_left_alone() -> None:
    running = Running()
    running.store.create("found/0")
    assert running.crash().broker.unclaimed == ["found/0"]


def test_producer_ids_are_given_once_whatever_happens() -> None:
    running, given = Running(), set[int]()
    for keep in KEEPS:
        for _ in range(3):
            number = running.new_producer()
            assert number not in given
            given.add(number)
        running = running.crash(keep)
    assert running.restart().new_producer() not in given


def test_many_who_want_an_id_at_once_wait_for_the_same_record_and_for_the_next() -> None:
    running = Running()
    told: Told[int] = Told()
    for _ in range(PRODUCER_BLOCK_IDS + 5):
        running.broker.producer_ids.give(told)
    assert told.all == []
    running.flush()
    running.flush()
    assert len(set(map(repr, told.all))) == PRODUCER_BLOCK_IDS + 5
    assert all(isinstance(one, int) and running.broker.producer_ids.has_given(one) for one in told.all)


def test_everybody_who_waits_for_an_id_is_told_when_there_will_be_none() -> None:
    running = Running()
    told: Told[int] = Told()
    for _ in range(3):
        running.broker.producer_ids.give(told)
    running.disk.fail("write", errno.ENOSPC)
    running.flush()
    assert all(isinstance(result, GoQueueError) for result in told.all)
    assert len(told.all) == 3
    assert running.broker.producer_ids.has_given(running.new_producer())


def test_a_topic_does_not_take_over_logs_that_nobody_claims() -> None:
    running = Running()
    found = running.store.create("found/0")
    found.append(scan.batch(bytearray(frames_of([b"whose is this?"]))))
    running.flush()
    after = running.crash()
    with pytest.raises(LogExists, match="'found'"):
        after.ask_to_create("found")
    assert after.names() == set()
    assert after.store.log("found/0").next_offset == 1


def test_the_name_of_a_deleted_topic_is_forgotten_once_nothing_is_left_of_it() -> None:
    running = Running()
    running.create("gone")
    running.delete("gone")
    running.flush()
    running.broker.forget_deleted()
    running.flush()
    assert running.broker._catalog.deleted == set()
    assert running.restart().broker._catalog.deleted == set()
    assert running.crash().names() == set()
