"""Upkeep: retention and compaction a step at a time, and what is known of producers outlives both."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from goqueue.broker.partition import Partition
from goqueue.broker.topic import TopicSettings
from goqueue.broker.upkeep import Compacted, compact, keep_up
from goqueue.broker.work import Work, run
from goqueue.errors import DiskFull, LogClosed, SequenceOutOfOrder
from goqueue.storage import check, frame
from goqueue.storage.retention import plan_expiry
from goqueue.testing.disk import Crashed, Keep
from tests.broker.brokers import Running, frames_of, marked, messages, offer_batch, values

COMPACT = TopicSettings(cleanup="compact")
HOUR_SECONDS = 3600
LARGE = bytes(3000)  # two of them need two segments


def look(running: Running, partition: Partition | None = None) -> None:
    """One look of the upkeep at a partition."""
    partition = partition or running.broker.topics["orders"].partition(0)
    settings = running.broker.topics[partition.topic].settings
    run(keep_up(partition, settings, running.disk, running.clock.now_ns()))
    running.flush()


def with_topic(**settings: Any) -> Running:
    running = Running()
    running.create(**settings)
    return running


def publish(running: Running, *contents: bytes, key: bytes | None = None) -> None:
    for content in contents:
        running.publish(frames_of([content], key=key))


def test_old_messages_go_and_young_ones_stay() -> None:
    running = with_topic(retention_hours=1.0)
    publish(running, b"old" + LARGE, b"older than an hour" + LARGE)
    running.clock.advance(2 * HOUR_SECONDS)
    publish(running, b"young" + LARGE)
    look(running)
    partition = running.partition()
    assert (partition.earliest, [value[:5] for value in values(partition)]) == (2, [b"young"])


def test_old_messages_go_although_they_were_sealed_before_the_last_start() -> None:
    running = with_topic(retention_hours=1.0)
    publish(running, b"1" + LARGE, b"2" + LARGE, b"3" + LARGE)
    for again in (running.crash(), running.crash().restart()):
        again.clock.advance(2 * HOUR_SECONDS)
        look(again)
        assert again.partition().earliest == 2


def test_an_active_segment_that_is_old_is_sealed_and_goes_at_the_next_look() -> None:
    running = with_topic(retention_hours=1.0)
    publish(running, b"only one")
    running.clock.advance(2 * HOUR_SECONDS)
    look(running)
    look(running)
    partition = running.partition()
    assert (partition.earliest, partition.log_end, values(partition)) == (1, 1, [])


def test_the_oldest_of_too_many_bytes_go() -> None:
    running = with_topic(retention_hours=None, retention_bytes=7000)
    publish(running, *(b"%d" % number + LARGE for number in range(5)))
    look(running)
    assert [value[:1] for value in values(running.partition())] == [b"3", b"4"] or running.partition().log.size >= 7000
    assert running.partition().earliest > 0


def test_without_limits_nothing_goes() -> None:
    running = with_topic(retention_hours=None)
    publish(running, *(b"%d" % number + LARGE for number in range(3)))
    running.clock.advance(100_000 * HOUR_SECONDS)
    look(running)
    assert running.partition().earliest == 0


def test_of_each_key_the_latest_stays() -> None:
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


def compact_now(running: Running) -> Compacted:
    return run(compact(running.partition(), running.disk, running.clock.now_ns()), running.flush)


def test_who_asks_for_a_compaction_has_the_newest_messages_in_it() -> None:
    running = with_topic(cleanup="compact")
    publish(running, b"1", b"2", key=b"a")
    publish(running, b"3")
    size = running.partition().log.size
    done = compact_now(running)
    assert (done.size_before, done.size_after < size, done.messages_removed) == (size, True, 1)
    assert [(one.offset, one.value) for one in messages(running.partition())] == [(1, b"2"), (2, b"3")]
    assert compact_now(running) == Compacted(done.size_after, done.size_after, 0)


def test_a_batch_is_known_again_although_a_compaction_that_was_asked_for_took_its_mark() -> None:
    running = with_topic(cleanup="compact")
    batch = keyed(0, b"first")
    running.publish(batch)
    publish(running, b"second", key=b"a")
    assert compact_now(running).messages_removed >= 1
    running = running.crash()
    assert running.publish(batch).duplicate


@pytest.mark.parametrize("keep", ["everything", "synced", "some"])
def test_a_crash_at_any_operation_of_a_compaction_that_was_asked_for_costs_nothing(keep: Keep) -> None:
    operation, is_over = 0, False
    while not is_over:
        operation += 1
        running = with_topic(cleanup="compact")
        superseded(running)
        publish(running, b"4", key=b"b")
        running.disk.crash_at(running.disk.operations + operation)
        try:
            compact_now(running)
            is_over = True
        except Crashed:
            running = running.crash(keep)
        for _ in range(2):
            latest = {one.key: (one.offset, one.value[:1]) for one in messages(running.partition())}
            assert latest == {b"a": (2, b"3"), b"b": (3, b"4")}, f"operation {operation}"
            assert running.publish(keyed(0, b"1" + LARGE)).pieces == ((0, 1),), f"operation {operation}"
            compact_now(running)
    assert operation > 20


def test_a_topic_that_was_deleted_is_not_compacted() -> None:
    running = with_topic(cleanup="compact")
    partition = running.partition()
    running.delete()
    with pytest.raises(LogClosed):
        run(compact(partition, running.disk, running.clock.now_ns()), running.flush)


def test_compaction_looks_again_although_retention_has_taken_as_much_as_came() -> None:
    running = with_topic(cleanup="compact,delete", retention_hours=1.0)
    publish(running, b"1" + LARGE, b"2" + LARGE, b"3" + LARGE)
    look(running)
    running.clock.advance(2 * HOUR_SECONDS)
    publish(running, b"4" + LARGE, b"5" + LARGE, key=b"a")
    publish(running, b"6" + LARGE)
    look(running)
    assert [value[:1] for value in values(running.partition())] == [b"5", b"6"]


def test_a_deleted_topic_stays_deleted_when_the_catalog_has_been_compacted() -> None:
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


def test_nothing_is_done_while_a_job_is_under_way() -> None:
    running = with_topic(retention_hours=1.0)
    publish(running, b"1" + LARGE, b"2" + LARGE)
    running.clock.advance(2 * HOUR_SECONDS)
    job = plan_expiry(running.partition().log, running.disk)
    look(running)
    assert running.partition().earliest == 0
    job.apply()
    look(running)
    assert running.partition().earliest == 1


def test_nothing_is_done_to_a_log_that_was_deleted() -> None:
    running = with_topic()
    partition = running.partition()
    running.delete()
    assert list(keep_up(partition, TopicSettings(), running.disk, running.clock.now_ns())) == []


def test_a_job_that_fails_leaves_the_log_ready_for_the_next() -> None:
    running = with_topic(cleanup="compact")
    publish(running, b"1" + LARGE, b"2" + LARGE, b"3" + LARGE, key=b"a")
    running.disk.fail("write", errno.ENOSPC, path="*.cleaned")
    with pytest.raises(DiskFull):
        look(running)
    look(running)
    assert [value[:1] for value in values(running.partition())] == [b"2", b"3"]


def test_retention_makes_room_on_a_disk_that_has_none_for_the_note_of_producers() -> None:
    running = with_topic(retention_hours=1.0)
    running.publish(marked(0, b"1" + LARGE))
    publish(running, b"2" + LARGE)
    running.clock.advance(2 * HOUR_SECONDS)
    running.disk.fail("create", errno.ENOSPC, path="*producers*", times="forever")
    look(running)
    assert running.partition().earliest == 1


# --- producers ---


def before_each_job(work: Work[None], happens: Callable[[], None]) -> Work[None]:
    """The same work, with something that happens on the broker while each job is done."""
    try:
        job = next(work)
        while True:
            happens()
            job = work.send((yield job))
    except StopIteration:
        return


def superseded(running: Running) -> None:
    """A batch whose messages compaction may take, and others that seal its segment."""
    running.publish(keyed(0, b"1" + LARGE))
    publish(running, b"2" + LARGE, b"3" + LARGE, key=b"a")


def keyed(sequence: int, value: bytes) -> bytes:
    plain = frame.decode(marked(sequence, value))
    return frame.encode(value, b"a", frame.encode_headers(plain.headers))


def test_a_batch_is_known_again_although_compaction_took_its_mark() -> None:
    running = with_topic(cleanup="compact")
    superseded(running)
    look(running)
    assert [one.offset for one in messages(running.partition())] == [1, 2]
    again = running.crash().publish(keyed(0, b"1" + LARGE))
    assert (again.pieces, again.duplicate) == (((0, 1),), True)


def test_so_it_is_when_nobody_asked_for_the_producers_since_the_start() -> None:
    running = with_topic(cleanup="compact")
    superseded(running)
    running = running.crash()
    look(running)
    assert running.crash().publish(keyed(0, b"1" + LARGE)).duplicate


def test_so_it_is_when_batches_come_while_the_notes_are_being_written() -> None:
    running = with_topic(cleanup="compact")
    partition = running.partition()
    running.publish(marked(0, b"early", producer=8))
    arriving = [keyed(sequence, b"%d" % sequence + LARGE) for sequence in range(2)]

    def arrive() -> None:
        if arriving:
            running.publish(arriving.pop(0))
            publish(running, b"later" + LARGE, b"latest" + LARGE, key=b"a")

    run(before_each_job(keep_up(partition, COMPACT, running.disk, running.clock.now_ns()), arrive))
    assert [one.offset for one in messages(partition)] == [0, 5, 6]
    after = running.crash()
    assert [after.publish(keyed(sequence, b"%d" % sequence + LARGE)).pieces for sequence in range(2)] == [
        ((1, 2),),
        ((4, 5),),
    ]


def test_without_a_note_nothing_is_compacted() -> None:
    running = with_topic(cleanup="compact")
    superseded(running)
    running.disk.fail("create", errno.ENOSPC, path="*producers*", times="forever")
    with pytest.raises(DiskFull):
        look(running)
    assert [one.offset for one in messages(running.partition())] == [0, 1, 2]


def test_a_batch_is_known_again_although_retention_took_it() -> None:
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
def test_of_a_producer_that_may_be_forgotten_no_later_batch_is_taken_after_a_crash(keeps_note: bool) -> None:
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


def test_where_nothing_is_marked_no_note_is_written_beside_a_log_that_is_only_expired() -> None:
    running = with_topic()
    publish(running, b"1")
    look(running)
    assert not [path for path in running.disk.paths() if "producers" in path]


def test_what_a_broker_leaves_beside_its_logs_is_its_own_to_fsck() -> None:
    running = Running()
    running.create()
    running.publish(marked(0, b"a", b"b"))
    run(running.partition().save_producers(running.disk))
    running = running.restart()
    noted = {path.rpartition("/")[2] for path in running.disk.paths()}
    assert {"producers", "snapshot"} <= noted
    for name, log in running.store.logs.items():
        assert check.plan(running.disk, name, log.directory)[1] == []
