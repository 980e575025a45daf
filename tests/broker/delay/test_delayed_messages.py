"""Decisions about delayed messages, and their recovery."""

from dataclasses import replace

import numpy as np
import pytest

from goqueue.broker.core.work import Promise, run_work
from goqueue.broker.delay import records
from goqueue.broker.delay.schedule import CANCELLED
from goqueue.broker.delay.snapshot import read_snapshot
from goqueue.errors import DelayedNotFound, DelayedNotPending, DiskFull, LogFenced
from goqueue.storage import frame
from tests.broker.delay.delaywork import SECOND, Going, Scene, offsets

HOUR = 3600.0


def test_message_is_pending_when_its_publish_is_answered(scene: Scene) -> None:
    told = scene.ask_to_schedule((b"a", HOUR))
    assert not told.all
    assert scene.state(0) == "unknown"
    scene.running.flush()
    assert told.result.first_offset == 0
    assert scene.state(0) == "pending"


def test_message_refused_by_disk_is_not_scheduled(scene: Scene) -> None:
    scene.schedule((b"a", HOUR))
    scene.running.refuse_writes()
    told = scene.ask_to_schedule((b"b", HOUR))
    scene.running.flush()
    assert isinstance(told.refusal, DiskFull)
    assert scene.state(1) == "unknown"


@pytest.mark.parametrize("keep", ["synced", "everything"])
def test_cancelled_message_stays_cancelled_after_crash(scene: Scene, keep: str) -> None:
    first, second = scene.schedule((b"a", 1), (b"b", 1))
    scene.do(scene.delays.cancel(first))
    after = scene.crash(keep)  # type: ignore[arg-type]
    assert (after.state(first), after.state(second)) == ("cancelled", "pending")
    after.deliver(2)
    assert after.delivered == [b"b"]


def test_cancelled_message_cannot_be_changed(scene: Scene) -> None:
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


def test_cancelling_unknown_offset_is_refused(scene: Scene) -> None:
    scene.schedule((b"a", HOUR))
    with pytest.raises(DelayedNotFound, match="offset 7"):
        scene.do(scene.delays.cancel(7))


def test_rescheduled_message_is_delivered_at_its_new_time(scene: Scene) -> None:
    later, sooner = scene.schedule((b"later", 10), (b"sooner", HOUR))
    scene.do(scene.delays.reschedule(later, scene.now_ns + 50 * SECOND))
    entry = scene.do(scene.delays.reschedule(sooner, scene.now_ns + 5 * SECOND))
    assert entry == scene.delays.schedule.find(sooner)
    after = scene.crash()
    after.deliver(20)
    assert after.delivered == [b"sooner"]
    after.deliver(31)
    assert after.delivered == [b"sooner", b"later"]


def test_cancellation_refused_by_disk_changes_nothing(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", 10))
    scene.running.refuse_writes()
    with pytest.raises(DiskFull):
        scene.do(scene.delays.cancel(offset))
    assert scene.state(offset) == "pending"
    scene.deliver(11)
    assert scene.delivered == [b"a"]


def test_message_is_not_delivered_during_its_cancellation(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", 1))
    cancelling = Going(scene.delays.cancel(offset))
    scene.running.clock.advance(2)
    assert Going(scene.delivery.deliver()).is_over
    cancelling.finish(scene.running)
    scene.deliver(2)
    assert scene.delivered == []


def test_cancellation_completes_without_its_caller(scene: Scene) -> None:
    """The broker stops, and what is due goes until the last."""
    (offset,) = scene.schedule((b"a", 1))
    run_work(scene.delays.catch_up())
    cancelling = scene.delays.cancel(offset)
    assert isinstance(next(cancelling), Promise)
    cancelling.close()
    scene.running.clock.advance(2)
    delivering = Going(scene.delivery.deliver())
    while not delivering.is_over:
        scene.running.flush()
        delivering.go_on()
    scene.running.flush()
    assert (scene.state(offset), scene.delivered) == ("cancelled", [])


def test_message_with_refused_cancellation_is_delivered(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", 1))
    cancelling = Going(scene.delays.cancel(offset))
    scene.running.clock.advance(2)
    assert Going(scene.delivery.deliver()).is_over
    scene.running.refuse_writes()
    with pytest.raises(DiskFull):
        cancelling.finish(scene.running)
    scene.deliver(1)
    assert scene.delivered == [b"a"]


def test_cancellation_during_delivery_is_refused(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", 1))
    scene.running.clock.advance(2)
    delivering, cancelling = Going(scene.delivery.deliver()), Going(scene.delays.cancel(offset))
    assert not cancelling.is_over
    delivering.finish(scene.running)
    with pytest.raises(DelayedNotPending, match="is delivered"):
        cancelling.finish(scene.running)


def test_many_messages_are_cancelled_by_one_record(scene: Scene) -> None:
    all_of_them = scene.schedule(*((b"%d" % number, HOUR) for number in range(50)))
    before = scene.delays.delayed_log.log_end
    assert scene.do(scene.delays.cancel_many(np.array(all_of_them[:40]))) == 40
    assert scene.delays.delayed_log.log_end == before + 1
    assert scene.do(scene.delays.cancel_many(np.array(all_of_them))) == 10


def test_many_messages_are_shifted(scene: Scene) -> None:
    all_of_them = scene.schedule((b"a", 10), (b"b", 20))
    work = scene.delays.reschedule_many(np.array(all_of_them), lambda dues: dues + 60 * SECOND)
    assert scene.do(work) == 2
    scene.deliver(75)
    assert scene.delivered == [b"a"]


def test_snapshot_of_a_clean_stop_restores_all_states(scene: Scene) -> None:
    one, two, three = scene.schedule((b"a", 1), (b"b", HOUR), (b"c", HOUR))
    scene.deliver(2)
    scene.do(scene.delays.cancel(two))
    after = scene.restart()
    assert [after.state(offset) for offset in (one, two, three)] == ["delivered", "cancelled", "pending"]
    assert after.delays.schedule.counts == scene.delays.schedule.counts
    assert not after.delays.unsure


def test_messages_after_the_snapshot_are_restored(scene: Scene) -> None:
    scene.schedule(*((b"%d" % number, HOUR) for number in range(20)))
    run_work(scene.delays.save(scene.running.disk))
    scene.schedule((b"later", HOUR))
    after = scene.crash()
    assert after.delays.schedule.pending == 21


@pytest.mark.parametrize("content", [b"", b"GQSCHED1", b"garbage" * 50, None])
def test_garbage_snapshot_is_rebuilt_from_the_log(scene: Scene, content: bytes | None) -> None:
    (offset,) = scene.schedule((b"a", HOUR))
    run_work(scene.delays.save(scene.running.disk))
    path = f"{scene.delays.delayed_log.log.directory}/schedule"
    found = scene.running.disk.read_file(path)
    if content is None:
        content = found[:30] + bytes([found[30] ^ 1]) + found[31:]
    scene.running.disk.write_file(path, content)
    assert scene.crash("everything").state(offset) == "pending"


def test_snapshot_ahead_of_the_log_is_ignored(scene: Scene) -> None:
    scene.schedule((b"a", HOUR))
    run_work(scene.delays.save(scene.running.disk))
    path = f"{scene.delays.delayed_log.log.directory}/schedule"
    found = read_snapshot(scene.running.disk, scene.delays.delayed_log.log.directory)
    assert found is not None
    scene.running.disk.write_file(path, replace(found, applied=7).encode())
    assert scene.crash("everything").delays.applied == 1


def test_topic_deletion_reports_pending_messages(scene: Scene) -> None:
    scene.schedule((b"a", HOUR), (b"b", HOUR), (b"c", 0))
    scene.deliver(1)
    told = scene.running.ask_to_delete()
    scene.running.flush()
    assert told.result == 2
    scene.running.create()
    assert not scene.delays.schedule.pending


def test_delayed_log_is_opened_after_restart(scene: Scene) -> None:
    scene.schedule((b"a", HOUR))
    after = scene.restart()
    assert after.running.broker.unclaimed == []
    assert after.running.broker.delay_scheduler.delays(after.partition) is not None


def test_partition_without_delayed_messages_has_no_delayed_log(scene: Scene) -> None:
    scene.publish(b"a")
    assert scene.running.broker.delay_scheduler.delays(scene.partition) is None
    assert "orders/0/delayed" not in scene.running.store.logs


def test_unknown_record_fences_the_delayed_log(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", HOUR))
    scene.do(scene.delays.cancel(offset))
    scene.delays.record(frame.encode(b"", b"unheard of", flags=frame.CONTROL))
    scene.running.flush()
    after = Scene(scene.running.crash("everything"))
    assert isinstance(after.delays.delayed_log.log.fence, LogFenced)


def test_record_offsets_round_trip() -> None:
    some = offsets(1, 2, 3, 7, 9, 10)
    decoded = records.decode_delay_record(frame.decode(records.encode_settled(CANCELLED, some)))
    assert isinstance(decoded, records.DelayedSettled)
    assert decoded.offsets.tolist() == some.tolist()
    assert len(decoded.firsts) == 3
