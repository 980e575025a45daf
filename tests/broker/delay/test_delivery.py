"""Due messages are in the topic once and in order, after every crash."""

import errno

import numpy as np
import pytest

from goqueue import delay
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.upkeep import maintain_partition
from goqueue.broker.core.work import run_work
from goqueue.broker.delay import delayed_messages as delays_module
from goqueue.errors import DiskFull, LogClosed
from goqueue.limits import MESSAGE_BYTES
from goqueue.storage import frame
from goqueue.wire.sections import PRODUCER_HEADER
from tests.broker.brokers import Running, Told, messages
from tests.broker.delay.delaywork import SECOND, Going, Scene


def test_message_is_delivered_when_due(scene: Scene) -> None:
    scene.schedule((b"a", 5))
    scene.deliver(4.99)
    assert scene.delivered == []
    scene.deliver(0.02)
    assert scene.delivered == [b"a"]
    assert scene.state(0) == "delivered"


def test_messages_are_delivered_by_due_time(scene: Scene) -> None:
    scene.schedule((b"c", 3), (b"a", 1), (b"b", 2), (b"b too", 2))
    scene.deliver(10)
    assert scene.delivered == [b"a", b"b", b"b too", b"c"]


def test_message_due_in_a_year_is_delivered_after_a_year(scene: Scene) -> None:
    scene.schedule((b"a", 366 * 86_400), (b"b", 20 * 86_400))
    scene.deliver(21 * 86_400)
    scene.deliver(0.01)
    assert scene.delivered == [b"b"]
    while (next_ns := scene.delays.next_ns) is not None:
        scene.deliver((next_ns - scene.now_ns) / SECOND)
    assert scene.delivered == [b"b", b"a"]
    assert messages(scene.partition)[-1].timestamp_ns >= 1_700_000_000 * SECOND + 366 * 86_400 * SECOND


def test_delivered_message_has_the_offset_of_its_original(scene: Scene) -> None:
    scene.schedule((b"other", 9), (b"a", 1))
    scene.deliver(2)
    (message,) = messages(scene.partition)
    assert delay.delayed_offset(message.headers) == 1
    assert list(message.headers[1:]) == [("trace", b"1")]
    assert frame.verify(run_work(scene.partition.read(0, 1000)).buffers[0]) > 0


def test_delivered_message_has_no_producer_mark(scene: Scene) -> None:
    due = delay.deliver_at_header(scene.now_ns + SECOND)
    mark = (PRODUCER_HEADER, ProducerMark(7, 0, 0, 2).encode())
    first = frame.encode(b"a", b"key", frame.encode_headers([mark, due, ("own", b"1")]), priority=1)
    second = frame.encode(b"b", None, frame.encode_headers([delay.deliver_in_header(SECOND)]))
    for is_duplicate in (False, True):
        told: Told[object] = Told()
        scene.delays.delayed_log.publish(bytearray(first + second), MESSAGE_BYTES, told, scene.now_ns)
        scene.running.flush()
        assert told.result.duplicate is is_duplicate  # type: ignore[attr-defined]
    scene.deliver(2)
    one, two = messages(scene.partition)
    assert (one.value, one.key, one.priority) == (b"a", b"key", 1)
    assert [name for name, _ in one.headers] == [delay.DELAYED_OF, "own"]
    assert [name for name, _ in two.headers] == [delay.DELAYED_OF]


def test_many_messages_are_delivered_in_several_batches(scene: Scene) -> None:
    scene.schedule(*((b"%d" % number, number % 7) for number in range(5000)))
    scene.deliver(8)
    assert sorted(map(int, scene.delivered)) == list(range(5000))
    dues = [number % 7 for number in map(int, scene.delivered)]
    assert dues == sorted(dues)


def test_large_messages_are_delivered_in_several_batches(scene: Scene) -> None:
    for number in range(7):
        scene.schedule((b"%d" % number + bytes(1_000_000), 1))
    scene.schedule(*((b"small", 1) for _ in range(100)))
    scene.deliver(2)
    assert len(scene.delivered) == 107


@pytest.mark.parametrize("steps", range(8))
@pytest.mark.parametrize("keep", ["everything", "synced", "some"])
def test_crash_during_delivery_neither_loses_nor_duplicates(scene: Scene, steps: int, keep: str) -> None:
    scene.publish(b"before")
    scene.schedule((b"a", 1), (b"b", 2), (b"c", 3000))
    scene.running.clock.advance(5)
    delivering = Going(scene.delivery.deliver())
    for step in range(steps):
        if step % 2:
            delivering.go_on() if not delivering.is_over else None
        else:
            scene.running.flush()
    after = scene.crash(keep)  # type: ignore[arg-type]
    after.deliver(1)
    assert after.delivered == [b"before", b"a", b"b"]
    assert after.state(0) == after.state(1) == "delivered"
    assert after.crash().delivered == [b"before", b"a", b"b"]


def test_delivery_refused_by_full_disk_is_repeated(scene: Scene) -> None:
    scene.schedule((b"a", 1))
    scene.running.refuse_writes()
    with pytest.raises(DiskFull):
        scene.deliver(2)
    assert scene.state(0) == "pending"
    scene.deliver(1)
    assert scene.delivered == [b"a"]


def test_unrecorded_delivery_is_not_repeated(scene: Scene) -> None:
    scene.schedule((b"first", 0))
    scene.deliver(1)
    (offset,) = scene.schedule((b"a", 1))
    scene.running.refuse_writes("*/delayed/*")
    with pytest.raises(DiskFull):
        scene.deliver(2)
    assert scene.delivered == [b"first", b"a"]
    scene.deliver(1)
    assert scene.delivered == [b"first", b"a"]
    assert scene.state(offset) == "delivered"


def test_damaged_message_expires_and_others_are_delivered(scene: Scene) -> None:
    scene.fill(60, 100)
    run_work(scene.delays.catch_up())
    scene.damage(900)
    scene.deliver(101)
    states = [scene.state(offset) for offset in range(60)]
    assert states.count("expired") == 1
    assert len(scene.delivered) == 59


def test_late_message_expires_with_delay_expiry() -> None:
    scene = Scene(delay_expiry_seconds=60.0)
    scene.schedule((b"old", 1), (b"young", 3000))
    scene.deliver(3005)
    assert scene.delivered == [b"young"]
    assert scene.state(0) == "expired"
    assert scene.crash().state(0) == "expired"


def test_deliver_now_delivers_only_chosen_messages(scene: Scene) -> None:
    offset, other = scene.schedule((b"a", 3000), (b"b", 3000))
    asking = Going(scene.delivery.deliver_now(np.array([offset])))
    scene.deliver()
    assert asking.finish(scene.running) == 1
    assert scene.delivered == [b"a"]
    assert scene.state(other) == "pending"


def test_refused_deliver_now_reports_its_reason_to_all_callers(scene: Scene) -> None:
    offsets = scene.schedule((b"a", 3000), (b"b", 3000))
    asking = [Going(scene.delivery.deliver_now(np.array([offset]))) for offset in offsets]
    scene.running.refuse_writes()
    with pytest.raises(DiskFull):
        scene.deliver()
    for one in asking:
        with pytest.raises(DiskFull):
            one.go_on()
    assert [scene.state(offset) for offset in offsets] == ["pending"] * 2


@pytest.mark.parametrize("jump", [-3600, 3600])
def test_clock_jump_makes_no_message_early_or_lost(scene: Scene, jump: int) -> None:
    begin = scene.now_ns
    scene.schedule((b"a", 10), (b"b", 2000), (b"c", 7000))
    scene.deliver(1)
    scene.running.clock.jump(jump)
    for _ in range(120):
        before = len(scene.delivered)
        scene.deliver(100)
        due = [10, 2000, 7000][: len(scene.delivered)]
        assert all(begin + one * SECOND <= scene.now_ns for one in due[before:])
    assert scene.delivered == [b"a", b"b", b"c"]


def test_ready_messages_wait_again_after_clock_is_set_back(scene: Scene) -> None:
    scene.schedule(*((b"%d" % number, 10) for number in range(3000)))
    scene.running.clock.advance(11)
    delivering = Going(scene.delivery.deliver())
    scene.running.clock.jump(-3600)
    delivering.finish(scene.running)
    assert not scene.delivered, "not those either that were on their way"
    scene.deliver(3601)
    assert len(scene.delivered) == 3000


def test_topic_retention_keeps_unrecorded_deliveries(scene: Scene) -> None:
    scene = Scene(retention_bytes=0)
    scene.schedule((b"first", 0))
    scene.deliver(1)
    scene.schedule((b"a", 1))
    scene.running.clock.advance(2)
    scene.running.refuse_writes("*/delayed/*")
    with pytest.raises(DiskFull):
        scene.do(scene.delivery.deliver())
    for number in range(30):
        scene.publish(b"%d" % number + bytes(400))
    scene.running.maintain()
    assert b"a" in scene.delivered
    scene.deliver(1)
    scene.running.maintain()
    assert b"a" not in scene.delivered
    assert scene.state(3) in ("delivered", "unknown")
    assert scene.crash().delays.schedule.pending == 0


def test_topic_retention_keeps_pending_messages(scene: Scene) -> None:
    scene = Scene(retention_bytes=0, retention_hours=0.0)
    scene.fill(100, 500)
    for number in range(30):
        scene.publish(b"%d" % number + bytes(400))
    run_work(maintain_partition(scene.partition, scene.topic.settings, scene.running.disk, scene.now_ns + 10**18))
    scene.deliver(501)
    assert scene.delays.schedule.counts[1] == 100


def test_delivery_with_damaged_record_is_found_in_the_topic(scene: Scene) -> None:
    scene.schedule((b"first", 0))
    scene.deliver(1)
    (offset,) = scene.schedule((b"a", 1))
    scene.deliver(2)
    scene.fill(60, 5000)
    disk = scene.running.disk
    path = min(one for one in disk.paths() if one.endswith(".log") and "/delayed/" in one)
    content = disk.read_file(path)
    place = content.rindex(b"delivered", 0, content.index(b"0:" + bytes(200)))
    disk.write_file(path, content[:place] + b"D" + content[place + 1 :])
    after = scene.crash("everything")
    assert after.delays.unsure
    after.deliver(1)
    assert after.delivered == [b"first", b"a"]
    assert after.state(offset) == "delivered"


def test_deliver_now_is_refused_when_the_topic_is_deleted(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", 3000))
    delivery = scene.delivery
    asking = Going(delivery.deliver_now(np.array([offset])))
    scene.running.ask_to_delete()
    scene.running.flush()
    with pytest.raises(LogClosed):
        asking.go_on()
    with pytest.raises(LogClosed):
        Going(delivery.deliver_now(np.array([offset])))


def test_deliver_now_does_not_count_damaged_messages(scene: Scene) -> None:
    scene.fill(60, 3000)
    run_work(scene.delays.catch_up())
    scene.damage(900)
    asking = Going(scene.delivery.deliver_now(np.arange(60)))
    scene.deliver()
    assert asking.finish(scene.running) == len(scene.delivered) == 59


def test_unused_search_positions_are_dropped(scene: Scene) -> None:
    for number in range(50):
        scene.schedule((b"%d" % number, 1))
        scene.deliver(2)
    assert len(scene.delays._since_noted) < 3


def test_topic_search_after_crash_starts_at_the_recorded_offset(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ordinary messages come, and for long none that was delayed."""
    monkeypatch.setattr(delays_module, "DELAY_SEARCH_BYTES", 4000)
    scene.schedule((b"first", 0))
    scene.deliver(1)
    for number in range(30):
        scene.publish(b"%d" % number + bytes(400))
    scene.do(scene.delays.search_from_here())
    end = scene.partition.log_end
    assert scene.crash().delays.since == end
    before = scene.delays.delayed_log.log_end
    scene.do(scene.delays.search_from_here())
    assert scene.delays.delayed_log.log_end == before, "which is told once"


def test_delivered_copy_waits_for_sync_of_its_original() -> None:
    """Otherwise its offset would be given to another message, which would be taken for delivered."""
    scene = Scene(Running(flush="interval"))
    scene.schedule((b"first", 0))
    scene.deliver(1)
    flusher = scene.running.store.resources.flusher
    told = scene.ask_to_schedule((b"a", -1))
    flusher._round(flusher._gathered(), sync=False)
    assert told.result.first_offset == 3, "answered when it was written"
    scene.running.clock.advance(1)
    delivering = Going(scene.delivery.deliver())
    flusher._round(flusher._gathered(), sync=False)
    scene.running.disk.fail("sync", errno.EIO, path="*/delayed/*", times=1)
    scene.running.flush()
    assert not delivering.is_over
    assert scene.crash().delivered == [b"first"]


def test_repeated_small_clock_steps_back_do_not_stop_delivery(scene: Scene) -> None:
    begin = scene.now_ns
    for _ in range(20):
        scene.running.clock.jump(-0.9)
        scene.deliver()
    scene.schedule((b"a", 5))
    scene.deliver(6)
    assert scene.now_ns < begin
    assert scene.delivered == [b"a"]
