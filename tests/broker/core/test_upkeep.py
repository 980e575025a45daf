"""Upkeep: retention and compaction a step at a time, and what is known of producers outlives both."""

import errno
from typing import Any

import pytest

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producer_checkpoint import save_producers
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.core.upkeep import CompactionResult, compact_partition, maintain_partition
from goqueue.broker.core.work import run_work
from goqueue.errors import DiskFull, LogClosed, SequenceOutOfOrder
from goqueue.storage import check, frame
from goqueue.storage.retention import plan_retention
from tests.broker.brokers import KEEPS, Running, before_each_job, frames_of, marked, messages, offer_batch, values
from tests.broker.crashes import crash_points

COMPACT = TopicSettings(cleanup="compact")
HOUR_SECONDS = 3600
LARGE = bytes(3000)  # two of them need two segments


def look(running: Running, partition: Partition | None = None) -> None:
    """One look of the upkeep at a partition."""
    partition = partition or running.broker.topics["orders"].partition(0)
    settings = running.broker.topics[partition.topic].settings
    run_work(maintain_partition(partition, settings, running.disk, running.clock.now_ns()))
    running.flush()


def with_topic(**settings: Any) -> Running:
    running = Running()
    running.create(**settings)
    return running


def publish(running: Running, *contents: bytes, key: bytes | None = None) -> None:
    for content in contents:
        running.publish(frames_of([content], key=key))


def test_time_retention_removes_only_old_messages() -> None:
    running = with_topic(retention_hours=1.0)
    publish(running, b"old" + LARGE, b"older than an hour" + LARGE)
    running.clock.advance(2 * HOUR_SECONDS)
    publish(running, b"young" + LARGE)
    look(running)
    partition = running.partition()
    assert (partition.earliest, [value[:5] for value in values(partition)]) == (2, [b"young"])


def test_time_retention_removes_segments_sealed_before_restart() -> None:
    running = with_topic(retention_hours=1.0)
    publish(running, b"1" + LARGE, b"2" + LARGE, b"3" + LARGE)
    for again in (running.crash(), running.crash().restart()):
        again.clock.advance(2 * HOUR_SECONDS)
        look(again)
        assert again.partition().earliest == 2


def test_old_active_segment_is_sealed_and_then_removed() -> None:
    running = with_topic(retention_hours=1.0)
    publish(running, b"only one")
    running.clock.advance(2 * HOUR_SECONDS)
    look(running)
    look(running)
    partition = running.partition()
    assert (partition.earliest, partition.log_end, values(partition)) == (1, 1, [])


def test_size_retention_removes_the_oldest_messages() -> None:
    running = with_topic(retention_hours=None, retention_bytes=7000)
    publish(running, *(b"%d" % number + LARGE for number in range(5)))
    look(running)
    assert [value[:1] for value in values(running.partition())] == [b"3", b"4"] or running.partition().log.size >= 7000
    assert running.partition().earliest > 0


def test_messages_are_kept_without_retention_limits() -> None:
    running = with_topic(retention_hours=None)
    publish(running, *(b"%d" % number + LARGE for number in range(3)))
    running.clock.advance(100_000 * HOUR_SECONDS)
    look(running)
    assert running.partition().earliest == 0


def test_compaction_keeps_the_latest_message_of_each_key() -> None:
    running = with_topic(cleanup="compact")
    publish(running, b"1" + LARGE, b"2" + LARGE, key=b"a")
    publish(running, b"3" + LARGE, key=b"b")
    publish(running, b"4" + LARGE)
    publish(running, b"5" + LARGE, key=b"c")
    look(running)
    assert [(one.offset, one.value[:1]) for one in messages(running.partition())] == [
        (1, b"2"),
        (2, b"3"),
        (3, b"4"),
        (4, b"5"),
    ]


def compact_now(running: Running) -> CompactionResult:
    return run_work(compact_partition(running.partition(), running.disk, running.clock.now_ns()), running.flush)


def test_requested_compaction_includes_the_active_segment() -> None:
    running = with_topic(cleanup="compact")
    publish(running, b"1", b"2", key=b"a")
    publish(running, b"3")
    size = running.partition().log.size
    done = compact_now(running)
    assert (done.size_before, done.size_after < size, done.messages_removed) == (size, True, 1)
    assert [(one.offset, one.value) for one in messages(running.partition())] == [(1, b"2"), (2, b"3")]
    assert compact_now(running) == CompactionResult(done.size_after, done.size_after, 0)


def test_crash_during_requested_compaction_loses_nothing() -> None:
    for point in crash_points():
        running = with_topic(cleanup="compact")
        superseded(running)
        publish(running, b"4", key=b"b")
        with point.during(running.disk):
            compact_now(running)
        for keep in KEEPS:
            after = running.after_crash(keep)
            for _ in range(2):
                latest = {one.key: (one.offset, one.value[:1]) for one in messages(after.partition())}
                assert latest == {b"a": (2, b"3"), b"b": (3, b"4")}, f"operation {point.operation}"
                assert after.publish(keyed(0, b"1" + LARGE)).pieces == ((0, 1),), f"operation {point.operation}"
                compact_now(after)
    assert point.operation > 20


def test_compaction_of_deleted_topic_is_refused() -> None:
    running = with_topic(cleanup="compact")
    partition = running.partition()
    running.delete()
    with pytest.raises(LogClosed):
        run_work(compact_partition(partition, running.disk, running.clock.now_ns()), running.flush)


def test_compaction_runs_after_retention_removed_as_much_as_arrived() -> None:
    running = with_topic(cleanup="compact,delete", retention_hours=1.0)
    publish(running, b"1" + LARGE, b"2" + LARGE, b"3" + LARGE)
    look(running)
    running.clock.advance(2 * HOUR_SECONDS)
    publish(running, b"4" + LARGE, b"5" + LARGE, key=b"a")
    publish(running, b"6" + LARGE)
    look(running)
    assert [value[:1] for value in values(running.partition())] == [b"5", b"6"]


def test_deleted_topic_stays_deleted_after_catalog_compaction() -> None:
    running = with_topic()
    running = running.restart()  # which leaves a snapshot that knows the topic
    running.delete()
    catalog = running.broker.topics["__metadata"].partition(0)
    catalog.log.roll()
    running.create("other")
    running.clock.advance(48 * HOUR_SECONDS)
    look(running, catalog)
    assert b"orders" not in {message.key for message in messages(catalog)}
    assert running.crash().names() == {"other"}


def test_upkeep_waits_for_a_running_job() -> None:
    running = with_topic(retention_hours=1.0)
    publish(running, b"1" + LARGE, b"2" + LARGE)
    running.clock.advance(2 * HOUR_SECONDS)
    job = plan_retention(running.partition().log, running.disk)
    look(running)
    assert running.partition().earliest == 0
    job.apply()
    look(running)
    assert running.partition().earliest == 1


def test_upkeep_ignores_deleted_log() -> None:
    running = with_topic()
    partition = running.partition()
    running.delete()
    assert list(maintain_partition(partition, TopicSettings(), running.disk, running.clock.now_ns())) == []


def test_failed_compaction_can_be_repeated() -> None:
    running = with_topic(cleanup="compact")
    publish(running, b"1" + LARGE, b"2" + LARGE, b"3" + LARGE, key=b"a")
    running.refuse_writes("*.cleaned")
    with pytest.raises(DiskFull):
        look(running)
    look(running)
    assert [value[:1] for value in values(running.partition())] == [b"2", b"3"]


def test_retention_works_when_the_producer_checkpoint_does_not_fit_the_disk() -> None:
    running = with_topic(retention_hours=1.0)
    running.publish(marked(0, b"1" + LARGE))
    publish(running, b"2" + LARGE)
    running.clock.advance(2 * HOUR_SECONDS)
    running.disk.fail("create", errno.ENOSPC, path="*producers*", times="forever")
    look(running)
    assert running.partition().earliest == 1


# --- producers ---


def superseded(running: Running) -> None:
    """A batch whose messages compaction may take, and others that seal its segment."""
    running.publish(keyed(0, b"1" + LARGE))
    publish(running, b"2" + LARGE, b"3" + LARGE, key=b"a")


def keyed(sequence: int, value: bytes) -> bytes:
    plain = frame.decode(marked(sequence, value))
    return frame.encode(value, b"a", frame.encode_headers(plain.headers))


def test_compaction_keeps_producers_that_were_not_loaded() -> None:
    running = with_topic(cleanup="compact")
    superseded(running)
    running = running.crash()
    look(running)
    assert running.crash().publish(keyed(0, b"1" + LARGE)).duplicate


def test_batches_published_during_compaction_are_recognized_later() -> None:
    running = with_topic(cleanup="compact")
    partition = running.partition()
    running.publish(marked(0, b"early", producer=8))
    arriving = [keyed(sequence, b"%d" % sequence + LARGE) for sequence in range(2)]

    def arrive() -> None:
        if arriving:
            running.publish(arriving.pop(0))
            publish(running, b"later" + LARGE, b"latest" + LARGE, key=b"a")

    run_work(before_each_job(maintain_partition(partition, COMPACT, running.disk, running.clock.now_ns()), arrive))
    assert [one.offset for one in messages(partition)] == [0, 5, 6]
    after = running.crash()
    assert [after.publish(keyed(sequence, b"%d" % sequence + LARGE)).pieces for sequence in range(2)] == [
        ((1, 2),),
        ((4, 5),),
    ]


def test_compaction_is_refused_without_producer_checkpoint() -> None:
    running = with_topic(cleanup="compact")
    superseded(running)
    running.disk.fail("create", errno.ENOSPC, path="*producers*", times="forever")
    with pytest.raises(DiskFull):
        look(running)
    assert [one.offset for one in messages(running.partition())] == [0, 1, 2]


def test_retry_is_recognized_after_retention_removed_its_batch() -> None:
    running = with_topic(retention_hours=1.0)
    running.publish(marked(0, b"1" + LARGE))
    publish(running, b"2" + LARGE)
    running.clock.advance(2 * HOUR_SECONDS)
    look(running)
    assert running.partition().earliest == 1
    after = running.crash()
    assert after.publish(marked(0, b"1" + LARGE)).duplicate
    with pytest.raises(SequenceOutOfOrder):
        offer_batch(after.partition(), marked(5, b"a gap"))


@pytest.mark.parametrize("keeps_note", [True, False])
def test_unknown_producer_must_start_over_without_checkpoint_after_crash(keeps_note: bool) -> None:
    running = with_topic(retention_hours=1.0)
    running.publish(marked(0, b"1" + LARGE))
    running.clock.advance(2 * HOUR_SECONDS)
    publish(running, b"2" + LARGE, b"3" + LARGE)
    look(running)
    assert running.partition().earliest > 0
    if not keeps_note:
        running.disk.remove("data/logs/orders/0/producers")
    after = running.crash("everything")
    if keeps_note:
        assert not after.publish(marked(5, b"of one that never came", producer=8)).duplicate
        return
    for late in (marked(1, b"may be stored"), marked(5, b"may be stored", producer=8)):
        with pytest.raises(SequenceOutOfOrder):
            offer_batch(after.partition(), late)
    assert not after.publish(marked(0, b"a first one", producer=8)).duplicate


def test_topic_without_producers_gets_no_checkpoint() -> None:
    running = with_topic()
    publish(running, b"1")
    look(running)
    assert not [path for path in running.disk.paths() if "producers" in path]


def test_fsck_knows_all_files_beside_a_log(running: Running) -> None:
    running.publish(marked(0, b"a", b"b"))
    run_work(save_producers(running.partition(), running.disk))
    running = running.restart()
    noted = {path.rpartition("/")[2] for path in running.disk.paths()}
    assert {"producers", "snapshot"} <= noted
    for name, log in running.store.logs.items():
        assert check.plan_check(running.disk, name, log.directory)[1] == []
