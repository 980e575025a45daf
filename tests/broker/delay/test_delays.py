"""What is decided about delayed messages, and what a start finds of it."""

import errno
from dataclasses import replace

import numpy as np
import pytest

from goqueue.broker.delay import records, snapshot
from goqueue.broker.delay.schedule import CANCELLED
from goqueue.broker.work import Promise, run
from goqueue.errors import DelayedNotFound, DelayedNotPending, DiskFull, LogFenced
from goqueue.storage import frame
from tests.broker.delay.delaywork import SECOND, Going, Scene, offsets

HOUR = 3600.0


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_message_is_pending_before_whoever_scheduled_it_is_told(scene: Scene) -> None:
    told = scene.ask_to_schedule((b"a", HOUR))
    assert not told.all
    assert scene.state(0) == "unknown"
    scene.running.flush()
    assert told.result.first_offset == 0
    assert scene.state(0) == "pending"


def test_what_the_disk_refuses_is_not_scheduled(scene: Scene) -> None:
    scene.schedule((b"a", HOUR))
    scene.running.disk.fail("write", errno.ENOSPC, times=1)
    told = scene.ask_to_schedule((b"b", HOUR))
    scene.running.flush()
    assert isinstance(told.refusal, DiskFull)
    assert scene.state(1) == "unknown"


@pytest.mark.parametrize("keep", ["synced", "everything"])
def test_a_cancelled_message_stays_so_after_a_crash(scene: Scene, keep: str) -> None:
    first, second = scene.schedule((b"a", 1), (b"b", 1))
    scene.do(scene.delays.cancel(first))
    after = scene.crash(keep)  # type: ignore[arg-type]
    assert (after.state(first), after.state(second)) == ("cancelled", "pending")
    after.deliver(2)
    assert after.delivered == [b"b"]


def test_what_was_cancelled_cannot_be_changed_any_more(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", HOUR))
    scene.do(scene.delays.cancel(offset))
    for work in (
        scene.delays.cancel(offset),
        scene.delays.reschedule(offset, scene.now_ns),
        scene.delays.pending(offset),
    ):
        with pytest.raises(DelayedNotPending, match="is cancelled") as caught:
            scene.do(work)
        assert caught.value.details["state"] == "cancelled"


def test_what_was_never_there_is_not_found(scene: Scene) -> None:
    scene.schedule((b"a", HOUR))
    with pytest.raises(DelayedNotFound, match="offset 7"):
        scene.do(scene.delays.cancel(7))


def test_a_rescheduled_message_is_due_at_its_new_time(scene: Scene) -> None:
    later, sooner = scene.schedule((b"later", 10), (b"sooner", HOUR))
    scene.do(scene.delays.reschedule(later, scene.now_ns + 50 * SECOND))
    entry = scene.do(scene.delays.reschedule(sooner, scene.now_ns + 5 * SECOND))
    assert entry == scene.delays.schedule.find(sooner)
    after = scene.crash()
    after.deliver(20)
    assert after.delivered == [b"sooner"]
    after.deliver(31)
    assert after.delivered == [b"sooner", b"later"]


def test_a_decision_that_the_disk_refuses_changes_nothing(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", 10))
    scene.running.disk.fail("write", errno.ENOSPC, times=1)
    with pytest.raises(DiskFull):
        scene.do(scene.delays.cancel(offset))
    assert scene.state(offset) == "pending"
    scene.deliver(11)
    assert scene.delivered == [b"a"]


def test_a_message_whose_cancelling_is_on_its_way_is_not_delivered(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", 1))
    cancelling = Going(scene.delays.cancel(offset))
    scene.running.clock.advance(2)
    assert Going(scene.postman.deliver()).is_over
    cancelling.finish(scene.running)
    scene.deliver(2)
    assert scene.delivered == []


def test_a_message_whose_cancelling_nobody_waits_for_any_more_is_not_delivered(scene: Scene) -> None:
    """The broker stops, and what is due goes until the last."""
    (offset,) = scene.schedule((b"a", 1))
    run(scene.delays.catch_up())
    cancelling = scene.delays.cancel(offset)
    assert isinstance(next(cancelling), Promise)
    cancelling.close()
    scene.running.clock.advance(2)
    delivering = Going(scene.postman.deliver())
    while not delivering.is_over:
        scene.running.flush()
        delivering.go_on()
    scene.running.flush()
    assert (scene.state(offset), scene.delivered) == ("cancelled", [])


def test_one_whose_cancelling_was_refused_goes_after_all(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", 1))
    cancelling = Going(scene.delays.cancel(offset))
    scene.running.clock.advance(2)
    assert Going(scene.postman.deliver()).is_over
    scene.running.disk.fail("write", errno.ENOSPC, times=1)
    with pytest.raises(DiskFull):
        cancelling.finish(scene.running)
    scene.deliver(1)
    assert scene.delivered == [b"a"]


def test_whoever_cancels_what_is_on_its_way_waits_and_is_refused(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", 1))
    scene.running.clock.advance(2)
    delivering, cancelling = Going(scene.postman.deliver()), Going(scene.delays.cancel(offset))
    assert not cancelling.is_over
    delivering.finish(scene.running)
    with pytest.raises(DelayedNotPending, match="is delivered"):
        cancelling.finish(scene.running)


def test_many_are_cancelled_by_one_record(scene: Scene) -> None:
    all_of_them = scene.schedule(*((b"%d" % number, HOUR) for number in range(50)))
    before = scene.delays.inbox.log_end
    assert scene.do(scene.delays.cancel_many(np.array(all_of_them[:40]))) == 40
    assert scene.delays.inbox.log_end == before + 1
    assert scene.do(scene.delays.cancel_many(np.array(all_of_them))) == 10


def test_many_are_moved_by_as_much_each(scene: Scene) -> None:
    all_of_them = scene.schedule((b"a", 10), (b"b", 20))
    work = scene.delays.reschedule_many(np.array(all_of_them), lambda dues: dues + 60 * SECOND)
    assert scene.do(work) == 2
    scene.deliver(75)
    assert scene.delivered == [b"a"]


def test_a_clean_stop_leaves_a_snapshot_that_says_the_same(scene: Scene) -> None:
    one, two, three = scene.schedule((b"a", 1), (b"b", HOUR), (b"c", HOUR))
    scene.deliver(2)
    scene.do(scene.delays.cancel(two))
    after = scene.restart()
    assert [after.state(offset) for offset in (one, two, three)] == ["delivered", "cancelled", "pending"]
    assert after.delays.schedule.counts == scene.delays.schedule.counts
    assert not after.delays.unsure


def test_a_start_with_a_snapshot_reads_only_what_is_behind_it(scene: Scene) -> None:
    scene.schedule(*((b"%d" % number, HOUR) for number in range(20)))
    run(scene.delays.save(scene.running.disk))
    scene.schedule((b"later", HOUR))
    after = scene.crash()
    assert after.delays.schedule.pending == 21


@pytest.mark.parametrize("content", [b"", b"GQSCHED1", b"garbage" * 50, None])
def test_garbage_in_the_place_of_the_snapshot_is_made_anew_from_the_log(scene: Scene, content: bytes | None) -> None:
    (offset,) = scene.schedule((b"a", HOUR))
    run(scene.delays.save(scene.running.disk))
    path = f"{scene.delays.inbox.log.directory}/schedule"
    found = scene.running.disk.read_file(path)
    if content is None:
        content = found[:30] + bytes([found[30] ^ 1]) + found[31:]
    scene.running.disk.write_file(path, content)
    assert scene.crash("everything").state(offset) == "pending"


def test_a_snapshot_that_knows_more_than_the_log_is_not_believed(scene: Scene) -> None:
    scene.schedule((b"a", HOUR))
    run(scene.delays.save(scene.running.disk))
    path = f"{scene.delays.inbox.log.directory}/schedule"
    found = snapshot.read(scene.running.disk, scene.delays.inbox.log.directory)
    assert found is not None
    scene.running.disk.write_file(path, replace(found, applied=7).encode())
    assert scene.crash("everything").delays.applied == 1


def test_deleting_the_topic_tells_how_many_were_pending(scene: Scene) -> None:
    scene.schedule((b"a", HOUR), (b"b", HOUR), (b"c", 0))
    scene.deliver(1)
    told = scene.running.ask_to_delete()
    scene.running.flush()
    assert told.result == 2
    scene.running.create()
    assert not scene.delays.schedule.pending


def test_a_delayed_log_is_known_at_the_next_start(scene: Scene) -> None:
    scene.schedule((b"a", HOUR))
    after = scene.restart()
    assert after.running.broker.unclaimed == []
    assert after.running.broker.office.delays(after.partition) is not None


def test_a_partition_of_which_nothing_was_delayed_has_no_such_log(scene: Scene) -> None:
    scene.publish(b"a")
    assert scene.running.broker.office.delays(scene.partition) is None
    assert "orders/0/delayed" not in scene.running.store.logs


def test_a_record_that_nobody_knows_fences_the_log(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", HOUR))
    scene.do(scene.delays.cancel(offset))
    scene.delays.record(frame.encode(b"", b"unheard of", flags=frame.CONTROL))
    scene.running.flush()
    after = Scene(scene.running.crash("everything"))
    assert isinstance(after.delays.inbox.log.fence, LogFenced)


def test_offsets_of_records_come_back_as_they_were_written() -> None:
    some = offsets(1, 2, 3, 7, 9, 10)
    decoded = records.decode(frame.decode(records.settled(CANCELLED, some)))
    assert isinstance(decoded, records.Settled)
    assert decoded.offsets.tolist() == some.tolist()
    assert len(decoded.firsts) == 3
