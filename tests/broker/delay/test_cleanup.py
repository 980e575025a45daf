"""A delayed log does not grow for ever, and nothing comes back of what has gone from it."""

import errno
from contextlib import suppress

import numpy as np
import pytest

from goqueue.broker.core.work import run_work
from goqueue.broker.delay.cleanup import clean_delayed_log
from goqueue.broker.delay.queries import DelayedCriteria, apply_to_matching, deliver_timeline, list_delayed
from goqueue.broker.filters.filter_set import FilterSet
from goqueue.broker.filters.grammar import parse_filters
from goqueue.errors import DiskFailed, DiskFull, LogFenced
from goqueue.storage.check import check_segment, plan_check
from goqueue.testing.clock import ManualClock
from tests.broker.delay.delaywork import SECOND, Scene

HOUR = 3600.0


def swept(scene: Scene) -> int:
    """Bytes of the delayed log after a look at it."""
    scene.do(clean_delayed_log(scene.delays, scene.running.disk))
    return scene.delays.delayed_log.log.size


def is_sound(scene: Scene) -> bool:
    """As `goqueue fsck` sees it."""
    log = scene.delays.delayed_log.log
    tasks, findings = plan_check(scene.running.disk, log.name, log.directory)
    reports = [check_segment(scene.running.disk, task) for task in tasks]
    return not findings and not any(report.findings for report in reports)


def test_cleanup_removes_delivered_messages(scene: Scene) -> None:
    scene.fill(100, 1)
    scene.deliver(200)
    before = scene.delays.delayed_log.log.size
    assert swept(scene) < before / 4
    assert len(scene.delivered) == 100
    assert scene.delays.delayed_log.earliest > 80
    assert is_sound(scene)


def test_cleanup_keeps_no_lane_index_in_memory(scene: Scene) -> None:
    scene.fill(100, 3600)
    log = scene.delays.delayed_log.log
    assert log.sealed()
    swept(scene)
    assert [segment.lanes for segment in log.sealed()] == [None] * len(log.sealed())
    assert run_work(scene.delays.delayed_log.lanes.count(2, 0, log.next_offset, 1000)) == 100


def test_cleanup_keeps_pending_messages(scene: Scene) -> None:
    scene.fill(30, 1)
    (offset,) = scene.schedule((b"a", 30 * HOUR))
    scene.fill(60, 1)
    scene.deliver(200)
    before = scene.delays.delayed_log.log.size
    assert swept(scene) < before / 4
    assert is_sound(scene)
    after = scene.crash()
    assert after.state(offset) == "pending"
    assert after.delays.schedule.pending == 1
    after.deliver(30 * HOUR)
    assert after.delivered.count(b"a") == 1
    assert len(after.delivered) == 91


def test_cleanup_keeps_rescheduled_times(scene: Scene) -> None:
    (offset,) = scene.schedule((b"a", 10))
    scene.do(scene.delays.reschedule(offset, scene.now_ns + round(50 * HOUR) * SECOND))
    scene.fill(90, 1)
    scene.deliver(200)
    swept(scene)
    after = scene.crash()
    after.deliver(HOUR)
    assert after.state(offset) == "pending"
    after.deliver(50 * HOUR)
    assert after.delivered[-1] == b"a"


@pytest.mark.parametrize("operation", ["write", "rename", "sync", "remove"])
@pytest.mark.parametrize("skip", [None, 0, 1, 2, 4])
def test_old_snapshot_does_not_restore_cleaned_messages(scene: Scene, operation: str, skip: int | None) -> None:
    """It is older than the end of those messages; what was recorded of that has gone with them."""
    (kept,) = scene.schedule((b"kept", 30 * HOUR))
    scene.fill(90, 1)
    run_work(scene.delays.catch_up())
    scene = scene.restart()
    scene.deliver(200)
    scene.fill(60, 1)
    scene.deliver(200)
    if skip is not None:
        scene.running.disk.fail(operation, errno.EIO, skip=skip, times=1)
    with suppress(DiskFailed, DiskFull, LogFenced):
        swept(scene)
    after = scene.crash()
    assert after.delays.schedule.pending == 1
    assert after.state(kept) == "pending"
    after.deliver(1)
    assert after.delays.schedule.counts[3] == 0


def test_cleanup_keeps_cancellations_of_kept_segments(scene: Scene) -> None:
    """Its segment is mostly pending and left as it is; the record that it was cancelled has to stay."""
    many = scene.fill(16, 30 * HOUR)
    scene.do(scene.delays.cancel(many[0]))
    scene.fill(90, 1)
    scene.deliver(200)
    swept(scene)
    scene.fill(40, 1)
    scene.deliver(200)
    swept(scene)
    after = scene.crash()
    assert after.state(many[0]) == "cancelled"
    assert after.delays.schedule.pending == 15


def test_repeated_cleanup_writes_nothing(scene: Scene) -> None:
    scene.fill(40, HOUR)
    before = scene.delays.delayed_log.log_end
    swept(scene)
    assert scene.delays.delayed_log.log_end == before
    scene.deliver(2 * HOUR)
    swept(scene)
    before = scene.delays.delayed_log.log_end
    swept(scene)
    assert scene.delays.delayed_log.log_end <= before + 1


@pytest.mark.parametrize("operation", ["write", "create", "rename", "remove", "sync", "sync_directory"])
@pytest.mark.parametrize("skip", [0, 1, 3])
def test_cleanup_interrupted_by_disk_errors_restores_no_message(scene: Scene, operation: str, skip: int) -> None:
    (kept,) = scene.schedule((b"kept", 30 * HOUR))
    scene.fill(60, 1)
    many = scene.fill(10, 2 * HOUR)
    scene.do(scene.delays.cancel_many(np.array(many)))
    scene.deliver(200)
    scene.running.disk.fail(operation, errno.EIO, skip=skip, times=2)
    with suppress(DiskFailed, DiskFull, LogFenced):
        swept(scene)
    after = scene.crash()
    after.deliver(HOUR * 3)
    assert after.delays.schedule.pending == 1
    assert after.state(kept) == "pending"
    assert len(after.delivered) == 60


def test_cleanup_keeps_damaged_segments_and_their_records(scene: Scene) -> None:
    many = scene.fill(50, 30 * HOUR)
    scene.do(scene.delays.cancel_many(np.array(many[:45])))
    scene.damage(300)
    scene.fill(40, 1)
    scene.deliver(200)
    swept(scene)
    after = scene.crash("everything")
    assert after.delays.schedule.pending == 5


# --- queries ---


def test_delayed_messages_are_listed_by_due_time(scene: Scene) -> None:
    scene.schedule(*((b"%d" % number, (number * 7) % 50 + 10) for number in range(50)))
    found = scene.do(list_delayed([scene.delays], DelayedCriteria(), 10, 5, scene.running.clock)).shown
    dues = [one.entry.due_ns for one in found]
    assert dues == [scene.now_ns + second * SECOND for second in range(15, 25)]
    assert all(one.message is not None for one in found)


def test_delayed_messages_due_together_are_listed_by_offset(scene: Scene) -> None:
    scene.schedule(*((b"%d" % number, 100) for number in range(5000)))
    for skip in (0, 7, 1000):
        found = scene.do(list_delayed([scene.delays], DelayedCriteria(), 10, skip, scene.running.clock)).shown
        assert [one.entry.offset for one in found] == list(range(skip, skip + 10))


def test_delayed_messages_can_be_listed_by_filter(scene: Scene) -> None:
    scene.schedule(*((b'{"n": %d}' % number, number + 10) for number in range(3000)))
    criteria = DelayedCriteria(sieve=FilterSet(parse_filters(["json.n>=2990"])), from_ns=scene.now_ns + 3002 * SECOND)
    found = scene.do(list_delayed([scene.delays], criteria, 100, 2, scene.running.clock)).shown
    assert [one.entry.offset for one in found] == [2994, 2995, 2996, 2997, 2998, 2999]


def test_matching_delayed_messages_can_be_cancelled(scene: Scene) -> None:
    scene.schedule(*((b'{"n": %d}' % number, number + 10) for number in range(2500)))
    criteria = DelayedCriteria(sieve=FilterSet(parse_filters(["json.n<1500"])))
    asked = [scene.delivery]
    clock = scene.running.clock
    counted = scene.do(apply_to_matching(asked, criteria, None, None, clock))
    assert (counted.matched, counted.scanned, counted.changed) == (1500, 2500, 0)
    done = scene.do(apply_to_matching(asked, criteria, lambda one, some: one.delays.cancel_many(some), 1200, clock))
    assert (done.matched, done.changed, done.is_complete) == (1200, 1200, True)
    assert scene.delays.schedule.pending == 1300


def test_timeline_counts_messages_per_interval(scene: Scene) -> None:
    scene.schedule((b"a", -5), (b"b", 5), (b"c", 15), (b"d", 16), (b"e", 500))
    bounds = [scene.now_ns + seconds * SECOND for seconds in (0, 10, 60)]
    found = scene.do(deliver_timeline([scene.delays], bounds))
    assert (found.pending, found.overdue, found.counts) == (5, 1, [1, 2])
    assert found.next_due_ns == scene.now_ns - 5 * SECOND


class Racing(ManualClock):
    """Each look at it takes most of what a request may."""

    def monotonic_ns(self) -> int:
        self.advance(15)
        return super().monotonic_ns()


def test_list_beyond_the_time_limit_is_incomplete(scene: Scene) -> None:
    scene.schedule(*((b"a", 100) for _ in range(10_001)))
    criteria = DelayedCriteria(sieve=FilterSet(parse_filters(["value=a"])))
    assert scene.do(list_delayed([scene.delays], criteria, 5, 0, scene.running.clock)).is_complete
    page = scene.do(list_delayed([scene.delays], criteria, 5, 0, Racing()))
    assert (len(page.shown), page.is_complete) == (5, False)
