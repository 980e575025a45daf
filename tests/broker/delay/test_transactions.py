"""Delayed messages of a transaction are hidden until its commit and delay no others."""

import pytest

from goqueue.broker.core.work import run_work
from goqueue.broker.delay.cleanup import clean_delayed_log
from goqueue.broker.delay.queries import DelayedCriteria, deliver_timeline, list_delayed, summarize_delays
from goqueue.errors import DelayedNotFound
from goqueue.storage import frame
from tests.broker.brokers import messages
from tests.broker.delay.delaywork import SECOND, Going, Scene, Transaction, offsets

HOUR = 3600.0


@pytest.fixture
def transaction() -> Transaction:
    return Transaction(7)


def swept(scene: Scene) -> int:
    """Bytes of the delayed log after a look at it."""
    scene.do(clean_delayed_log(scene.delays, scene.running.disk))
    return scene.delays.delayed_log.log.size


# --- undecided ---


def test_uncommitted_message_is_invisible(scene: Scene, transaction: Transaction) -> None:
    (offset,) = scene.schedule_within(transaction, (b"a", HOUR))
    for work in (
        scene.delays.cancel(offset),
        scene.delays.reschedule(offset, scene.now_ns),
        scene.delays.look_up(offset),
    ):
        with pytest.raises(DelayedNotFound, match="offset 0"):
            scene.do(work)
    assert scene.do(scene.delays.cancel_many(offsets(offset))) == 0
    assert scene.do(scene.delays.reschedule_many(offsets(offset), lambda dues: dues)) == 0
    assert not scene.do(list_delayed([scene.delays], DelayedCriteria(), 10, 0, scene.running.clock)).shown
    assert scene.do(deliver_timeline([scene.delays], [scene.now_ns, scene.now_ns + SECOND])).pending == 0
    assert scene.do(summarize_delays([scene.delays], scene.now_ns)).next_due_ns is None
    assert (scene.delays.schedule.counts, scene.delays.scheduled) == ([0, 0, 0, 0], 0)


def test_an_uncommitted_message_cannot_be_delivered_now(scene: Scene, transaction: Transaction) -> None:
    (offset,) = scene.schedule_within(transaction, (b"a", HOUR))
    asking = Going(scene.delivery.deliver_now(offsets(offset)))
    scene.deliver()
    asking.go_on()
    assert (asking.result, scene.delivered) == (0, [])


# --- committed ---


def test_committed_message_is_scheduled(scene: Scene, transaction: Transaction) -> None:
    (offset,) = scene.schedule_within(transaction, (b"a", 60))
    scene.running.clock.advance(20)
    scene.end(transaction, is_commit=True)
    assert scene.state(offset) == "pending"
    assert scene.delays.scheduled == 1
    assert scene.delays.ahead_seconds == pytest.approx(40)
    scene.deliver(39)
    assert scene.delivered == []
    scene.deliver(2)
    assert scene.delivered == [b"a"]


def test_message_due_before_its_commit_is_not_late(transaction: Transaction) -> None:
    scene = Scene(delay_expiry_seconds=30.0)
    late: list[int] = []
    scene.delivery.on_delivery.subscribe(lambda late_ns: late.extend(late_ns.tolist()))
    scene.schedule_within(transaction, (b"a", 1), (b"b", 2))
    scene.running.clock.advance(600)
    scene.end(transaction, is_commit=True)
    scene.deliver(0.02)
    assert scene.delivered == [b"a", b"b"]
    assert max(late) <= SECOND


def test_delivered_copy_is_not_transactional(scene: Scene, transaction: Transaction) -> None:
    scene.schedule_within(transaction, (b"marked", 1), (b"plain", 1))
    scene.end(transaction, is_commit=True)
    scene.deliver(2)
    found = messages(scene.partition)
    assert [one.value for one in found] == [b"marked", b"plain"]
    for one in found:
        assert not one.flags & frame.TRANSACTIONAL
        assert [name for name, _ in one.headers] == ["__delayed_of"]
    assert scene.partition.last_stable == scene.partition.high_watermark


def test_committed_message_can_be_rescheduled_and_cancelled(scene: Scene, transaction: Transaction) -> None:
    moved, cancelled = scene.schedule_within(transaction, (b"moved", 60), (b"cancelled", 60))
    scene.end(transaction, is_commit=True)
    scene.do(scene.delays.reschedule(moved, scene.now_ns + 5 * SECOND))
    scene.do(scene.delays.cancel(cancelled))
    after = scene.crash()
    after.deliver(10)
    assert after.delivered == [b"moved"]
    assert after.state(cancelled) == "cancelled"


# --- aborted ---


def test_aborted_message_is_never_delivered(scene: Scene, transaction: Transaction) -> None:
    (offset,) = scene.schedule_within(transaction, (b"a", 1))
    scene.end(transaction, is_commit=False)
    scene.deliver(HOUR)
    assert scene.delivered == []
    with pytest.raises(DelayedNotFound):
        scene.do(scene.delays.look_up(offset))
    assert (scene.delays.schedule.counts, scene.delays.schedule.undecided) == ([0, 0, 0, 0], 0)


def test_concurrent_transactions_end_independently(scene: Scene, transaction: Transaction) -> None:
    other = Transaction(8)
    for number in range(6):
        scene.schedule_within((transaction, other)[number % 2], (b"%d" % number, 1))
        scene.schedule((b"plain", 1))
    scene.end(other, is_commit=False)
    scene.deliver(2)
    assert scene.delivered == [b"plain"] * 6
    scene.end(transaction, is_commit=True)
    scene.deliver(1)
    assert scene.delivered[6:] == [b"0", b"2", b"4"]


# --- a start ---


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_commit", [True, False])
def test_marker_after_a_snapshot_applies_to_its_messages(
    scene: Scene, transaction: Transaction, *, is_clean: bool, is_commit: bool
) -> None:
    (offset,) = scene.schedule_within(transaction, (b"a", HOUR))
    run_work(scene.delays.save(scene.running.disk))
    after = scene.restart() if is_clean else scene.crash()
    assert (after.state(offset), after.delays.schedule.undecided) == ("unknown", 1)
    after.find_open(transaction)
    after.end(transaction, is_commit=is_commit)
    last = after.crash()
    assert last.state(offset) == ("pending" if is_commit else "unknown")
    assert last.delays.schedule.undecided == 0


# --- sweeps ---


def test_cleanup_keeps_uncommitted_messages(scene: Scene, transaction: Transaction) -> None:
    scene.fill(30, 1)
    (offset,) = scene.schedule_within(transaction, (b"a", 1))
    scene.fill(60, 1)
    scene.deliver(200)
    before = scene.delays.delayed_log.log.size
    assert swept(scene) < before / 4
    after = scene.crash()
    after.find_open(transaction)
    after.end(transaction, is_commit=True)
    after.deliver(1)
    assert after.delivered[-1] == b"a"
    assert after.state(offset) == "delivered"


def test_cleanup_removes_aborted_messages_and_their_marker(scene: Scene, transaction: Transaction) -> None:
    (kept,) = scene.schedule((b"kept", 30 * HOUR))
    for number in range(80):
        scene.schedule_within(transaction, (b"%d:" % number + bytes(200), 30 * HOUR))
    scene.end(transaction, is_commit=False)
    scene.fill(80, 1)
    scene.deliver(200)
    before = scene.delays.delayed_log.log.size
    assert swept(scene) < before / 4
    sealed_end = scene.delayed_log.log.segments[-1].base_offset
    left = [one for one in messages(scene.delayed_log) if one.offset < sealed_end]
    assert [one.offset for one in left] == [kept]
    assert len(scene.delays.schedule) < 40


def test_cleanup_keeps_marker_of_kept_messages(scene: Scene, transaction: Transaction) -> None:
    """In another segment than the message, and most of what it speaks of has gone."""
    (kept,) = scene.schedule_within(transaction, (b"kept", 30 * HOUR))
    for number in range(80):
        scene.schedule_within(transaction, (b"%d:" % number + bytes(200), 1))
    scene.end(transaction, is_commit=True)
    scene.fill(60, 1)
    scene.deliver(200)
    before = scene.delays.delayed_log.log.size
    assert swept(scene) < before / 4
    after = scene.crash()
    assert after.state(kept) == "pending"
    after.deliver(31 * HOUR)
    assert after.delivered.count(b"kept") == 1
    swept(after)
    last = after.crash()
    assert last.delays.schedule.pending == last.delays.schedule.undecided == 0


def test_aborted_message_in_a_kept_segment_stays_aborted(scene: Scene, transaction: Transaction) -> None:
    for number in range(12):  # one segment, most of which is pending
        scene.schedule((b"%d:" % number + bytes(200), 30 * HOUR))
    scene.schedule_within(transaction, (b"aborted", 1))
    scene.fill(30, 1)
    scene.end(transaction, is_commit=False)
    scene.fill(60, 1)
    scene.deliver(200)
    swept(scene)
    after = scene.crash()
    assert (after.delays.schedule.pending, after.delays.schedule.undecided) == (12, 0)
