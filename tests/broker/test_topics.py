"""The life of topics: made and deleted whole, whatever crashes in between and whatever the disk refuses."""

import errno

import pytest

from goqueue.broker.core.partition import Partition
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
from goqueue.storage.retention import plan_retention
from tests.broker.brokers import KEEPS, Running, Told, frames_of, offer_batch, values
from tests.broker.crashes import crash_points


def test_crash_during_creation_leaves_a_complete_topic_or_none() -> None:
    for point in crash_points():
        running = Running()
        with point.during(running.disk):
            told = running.ask_to_create(partitions=2)
            running.flush()
        assert point.is_over or told.all == []
        for keep in KEEPS:
            after = running.after_crash(keep)
            for name in after.names():
                assert [values(after.partition(name, number)) for number in (0, 1)] == [[], []]
            assert after.broker.unclaimed == []
    assert after.names() == {"orders"}


def test_crash_during_deletion_leaves_a_complete_topic_or_none() -> None:
    for point in crash_points():
        running = Running()
        running.create(partitions=2)
        running.publish(frames_of([b"one"]))
        with point.during(running.disk):
            told = running.ask_to_delete()
            running.flush()
        assert point.is_over or told.all == []
        for keep in KEEPS:
            after = running.after_crash(keep)
            assert not (point.is_over and after.names())
            if after.names():
                assert values(after.partition()) == [b"one"]
            else:
                assert all(name.startswith("__") for name in after.store.logs)
                after.create()
                assert values(after.partition()) == []


def test_creation_is_refused_when_the_record_does_not_fit_the_disk() -> None:
    running = Running()
    told = running.ask_to_create()
    running.refuse_writes()
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    running.create()


def test_creation_is_undone_when_the_logs_do_not_fit_the_disk() -> None:
    running = Running()
    told = running.ask_to_create(partitions=3)
    running.disk.fail("create", errno.ENOSPC, path="*/orders/2/*")
    running.flush()
    assert told.all == [], "the way back is durable before a caller is answered"
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    assert running.names() == set()
    again = running.crash()
    assert again.names() == set()
    assert len(again.create(partitions=3).partitions) == 3


def test_next_start_completes_a_creation_that_could_not_be_undone() -> None:
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


def test_second_creation_of_a_name_is_refused_while_the_first_is_pending() -> None:
    running = Running()
    running.ask_to_create()
    with pytest.raises(TopicExists):
        running.ask_to_create()
    with pytest.raises(TopicBusy):
        running.broker.topic("orders")


def test_topic_cannot_be_created_while_it_is_being_deleted(running: Running) -> None:
    running.ask_to_delete()
    with pytest.raises(TopicBusy):
        running.ask_to_create()
    running.flush()
    running.create()


def test_deleted_name_is_busy_until_background_jobs_end() -> None:
    running = Running()
    topic = running.create(partitions=2)
    running.publish(frames_of([b"old"]))
    job = plan_retention(topic.partition(0).log, running.disk, before_time=1)
    running.delete()
    with pytest.raises(TopicBusy):
        running.ask_to_create()
    job.apply()
    running.flush()
    running.store.settle()
    running.create()
    assert values(running.partition()) == []


def test_deletion_refused_by_disk_keeps_the_topic(running: Running) -> None:
    running.publish(frames_of([b"one"]))
    told = running.ask_to_delete()
    running.refuse_writes()
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    running.publish(frames_of([b"two"]))
    assert values(running.partition()) == [b"one", b"two"]


def test_publish_to_deleted_topic_is_refused(running: Running, partition: Partition) -> None:
    running.ask_to_delete()
    running.flush()
    late: Told[object] = Told()
    partition.offer([frames_of([b"late"])], late)
    partition.commit()
    assert isinstance(late.refusal, LogClosed)


def test_changed_settings_apply_when_durable() -> None:
    running = Running()
    topic = running.create()
    told: Told[object] = Told()
    running.broker.alter_topic("orders", {"segment_bytes": 8192}, told)
    assert topic.settings.segment_bytes is None
    running.flush()
    assert told.result is topic
    assert topic.partition(0).log.settings.segment_bytes == 8192
    assert running.crash().broker.topics["orders"].settings.segment_bytes == 8192


def test_unknown_topic_suggests_name_with_other_case() -> None:
    running = Running()
    running.create("Orders")
    with pytest.raises(TopicNotFound) as refusal:
        running.broker.topic("orders")
    assert refusal.value.hint == "did you mean Orders?"


def test_internal_topics_are_read_only() -> None:
    running = Running()
    assert running.broker.topic("__metadata").partitions
    for change in (
        lambda: running.broker.publishable_topic("__metadata"),
        lambda: running.broker.delete_topic("__metadata", lambda _: None),
        lambda: running.broker.alter_topic("__metadata", {}, lambda _: None),
    ):
        with pytest.raises(TopicNotFound):
            change()


def test_missing_partition_is_named_in_the_error() -> None:
    topic = Running().create(partitions=2)
    with pytest.raises(PartitionNotFound, match="no partition 2"):
        topic.partition(2)


def test_topic_stays_when_one_log_cannot_be_opened() -> None:
    running = Running()
    running.create(partitions=2)
    running.publish(frames_of([b"one"]))
    disk = running.disk.crash("synced")
    disk.fail("open", errno.EIO, path="*/orders/0/*", times="forever")
    again = Running(disk)
    with pytest.raises(LogFenced, match="could not be opened"):
        offer_batch(again.partition(), frames_of([b"two"]))
    assert values(again.partition(number=1)) == []
    disk.end_faults()
    assert values(again.crash().partition()) == [b"one"]


def test_logs_without_a_topic_are_reported_as_unclaimed() -> None:
    running = Running()
    running.store.create("found/0")
    assert running.crash().broker.unclaimed == ["found/0"]


def test_producer_ids_are_unique_across_crashes() -> None:
    running, given = Running(), set[int]()
    for keep in KEEPS:
        for _ in range(3):
            number = running.new_producer()
            assert number not in given
            given.add(number)
        running = running.crash(keep)
    assert running.restart().new_producer() not in given


def test_concurrent_producer_id_requests_share_a_record() -> None:
    running = Running()
    told: Told[int] = Told()
    for _ in range(PRODUCER_BLOCK_IDS + 5):
        running.broker.producer_ids.give(told)
    assert told.all == []
    running.flush()
    running.flush()
    assert len(set(map(repr, told.all))) == PRODUCER_BLOCK_IDS + 5
    assert all(isinstance(one, int) and running.broker.producer_ids.has_given(one) for one in told.all)


def test_waiting_callers_are_refused_when_no_producer_id_can_be_recorded() -> None:
    running = Running()
    told: Told[int] = Told()
    for _ in range(3):
        running.broker.producer_ids.give(told)
    running.refuse_writes()
    running.flush()
    assert all(isinstance(result, GoQueueError) for result in told.all)
    assert len(told.all) == 3
    assert running.broker.producer_ids.has_given(running.new_producer())


def test_creation_is_refused_where_unclaimed_logs_exist() -> None:
    running = Running()
    found = running.store.create("found/0")
    found.append(scan.check_batch(bytearray(frames_of([b"whose is this?"]))))
    running.flush()
    after = running.crash()
    with pytest.raises(LogExists, match="'found'"):
        after.ask_to_create("found")
    assert after.names() == set()
    assert after.store.log("found/0").next_offset == 1


def test_deleted_topic_name_is_forgotten_after_its_files_are_gone() -> None:
    running = Running()
    running.create("gone")
    running.delete("gone")
    running.flush()
    running.broker.forget_deleted()
    running.flush()
    assert running.broker._catalog.deleted == set()
    assert running.restart().broker._catalog.deleted == set()
    assert running.crash().names() == set()
