"""A delayed log does not grow for ever, and nothing comes back of what has gone from it."""

import errno
from contextlib import suppress

import numpy as np
import pytest

from goqueue.broker.delay.queries import Criteria, decide, listing, timeline
from goqueue.broker.delay.sweep import sweep
from goqueue.broker.filters.grammar import parse_filters
from goqueue.broker.filters.sieve import Sieve
from goqueue.broker.work import run
from goqueue.errors import DiskFailed, DiskFull, LogFenced
from goqueue.storage.check import check_segment, plan
from goqueue.testing.clock import ManualClock
from tests.broker.delay.delaywork import SECOND, Scene

HOUR = 3600.0


@pytest.fixture
def scene() -> Scene:
    return Scene()


def swept(scene: Scene) -> int:
    """Bytes of the delayed log after a look at it."""
    scene.do(sweep(scene.delays, scene.running.disk))
    return scene.delays.inbox.log.size


def is_sound(scene: Scene) -> bool:
    """As `goqueue fsck` sees it."""
    log = scene.delays.inbox.log
    tasks, findings = plan(scene.running.disk, log.name, log.directory)
    reports = [check_segment(scene.running.disk, task) for task in tasks]
    return not findings and not any(report.findings for report in reports)


def test_what_was_delivered_goes(scene: Scene) -> None:
    scene.fill(100, 1)
    scene.deliver(200)
    before = scene.delays.inbox.log.size
    assert swept(scene) < before / 4
    assert len(scene.delivered) == 100
    assert scene.delays.inbox.earliest > 80
    assert is_sound(scene)


def test_lanes_of_what_is_pending_take_no_memory(scene: Scene) -> None:
    scene.fill(100, 3600)
    log = scene.delays.inbox.log
    assert log.sealed()
    swept(scene)
    assert [segment.lanes for segment in log.sealed()] == [None] * len(log.sealed())
    assert run(scene.delays.inbox.lanes.count(2, 0, log.next_offset, 1000)) == 100


def test_what_is_pending_stays_where_it_was(scene: Scene) -> None:
    scene.fill(30, 1)
    (offset,) = scene.schedule((b"a", 30 * HOUR))
    scene.fill(60, 1)
    scene.deliver(200)
    before = scene.delays.inbox.log.size
    assert swept(scene) < before / 4
    assert is_sound(scene)
    after = scene.crash()
    assert after.state(offset) == "pending"
    assert after.delays.schedule.pending == 1
    after.deliver(30 * HOUR)
    assert after.delivered.count(b"a") == 1
    assert len(after.delivered) == 91


def test_a_new_deadline_outlives_the_record_that_said_it(scene: Scene) -> None:
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
def test_a_snapshot_brings_nothing_back_of_what_has_gone(scene: Scene, operation: str, skip: int | None) -> None:
    """It is older than the end of those messages; what was recorded of that has gone with them."""
    (kept,) = scene.schedule((b"kept", 30 * HOUR))
    scene.fill(90, 1)
    run(scene.delays.catch_up())
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


def test_what_was_cancelled_stays_so_while_its_bytes_are_there(scene: Scene) -> None:
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


def test_nothing_is_done_twice_where_nothing_is_to_be_done(scene: Scene) -> None:
    scene.fill(40, HOUR)
    before = scene.delays.inbox.log_end
    swept(scene)
    assert scene.delays.inbox.log_end == before
    scene.deliver(2 * HOUR)
    swept(scene)
    before = scene.delays.inbox.log_end
    swept(scene)
    assert scene.delays.inbox.log_end <= before + 1


@pytest.mark.parametrize("operation", ["write", "create", "rename", "remove", "sync", "sync_directory"])
@pytest.mark.parametrize("skip", [0, 1, 3])
def test_a_disk_that_refuses_anywhere_brings_nothing_back(scene: Scene, operation: str, skip: int) -> None:
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


def test_a_damaged_segment_is_left_as_it_is_with_what_was_said_of_it(scene: Scene) -> None:
    many = scene.fill(50, 30 * HOUR)
    scene.do(scene.delays.cancel_many(np.array(many[:45])))
    disk = scene.running.disk
    path = min(one for one in disk.paths() if one.endswith(".log") and "/delayed/" in one)
    content = disk.read_file(path)
    disk.write_file(path, content[:300] + bytes([content[300] ^ 0xFF]) + content[301:])
    scene.fill(40, 1)
    scene.deliver(200)
    swept(scene)
    after = scene.crash("everything")
    assert after.delays.schedule.pending == 5


# --- queries ---


def test_messages_are_listed_in_the_order_of_their_times(scene: Scene) -> None:
    scene.schedule(*((b"%d" % number, (number * 7) % 50 + 10) for number in range(50)))
    found = scene.do(listing([scene.delays], Criteria(), 10, 5, scene.running.clock)).shown
    dues = [one.entry.due_ns for one in found]
    assert dues == [scene.now_ns + second * SECOND for second in range(15, 25)]
    assert all(one.message is not None for one in found)


def test_of_the_same_time_whoever_was_scheduled_first_is_listed_first(scene: Scene) -> None:
    scene.schedule(*((b"%d" % number, 100) for number in range(5000)))
    for skip in (0, 7, 1000):
        found = scene.do(listing([scene.delays], Criteria(), 10, skip, scene.running.clock)).shown
        assert [one.entry.offset for one in found] == list(range(skip, skip + 10))


def test_a_list_can_be_of_those_that_a_filter_lets_through(scene: Scene) -> None:
    scene.schedule(*((b'{"n": %d}' % number, number + 10) for number in range(3000)))
    criteria = Criteria(sieve=Sieve(parse_filters(["json.n>=2990"])), from_ns=scene.now_ns + 3002 * SECOND)
    found = scene.do(listing([scene.delays], criteria, 100, 2, scene.running.clock)).shown
    assert [one.entry.offset for one in found] == [2994, 2995, 2996, 2997, 2998, 2999]


def test_many_are_decided_about_by_filter(scene: Scene) -> None:
    scene.schedule(*((b'{"n": %d}' % number, number + 10) for number in range(2500)))
    criteria = Criteria(sieve=Sieve(parse_filters(["json.n<1500"])))
    asked = [scene.postman]
    clock = scene.running.clock
    counted = scene.do(decide(asked, criteria, None, None, clock))
    assert (counted.matched, counted.scanned, counted.changed) == (1500, 2500, 0)
    done = scene.do(decide(asked, criteria, lambda one, some: one.delays.cancel_many(some), 1200, clock))
    assert (done.matched, done.changed, done.is_complete) == (1200, 1200, True)
    assert scene.delays.schedule.pending == 1300


def test_a_timeline_counts_who_is_due_when(scene: Scene) -> None:
    scene.schedule((b"a", -5), (b"b", 5), (b"c", 15), (b"d", 16), (b"e", 500))
    bounds = [scene.now_ns + seconds * SECOND for seconds in (0, 10, 60)]
    found = scene.do(timeline([scene.delays], bounds))
    assert (found.pending, found.overdue, found.counts) == (5, 1, [1, 2])
    assert found.next_due_ns == scene.now_ns - 5 * SECOND


class Racing(ManualClock):
    """Each look at it takes most of what a request may."""

    def monotonic_ns(self) -> int:
        self.advance(15)
        return super().monotonic_ns()


def test_a_list_for_which_there_was_no_time_says_so(scene: Scene) -> None:
    scene.schedule(*((b"a", 100) for _ in range(10_001)))
    criteria = Criteria(sieve=Sieve(parse_filters(["value=a"])))
    assert scene.do(listing([scene.delays], criteria, 5, 0, scene.running.clock)).is_complete
    page = scene.do(listing([scene.delays], criteria, 5, 0, Racing()))
    assert (len(page.shown), page.is_complete) == (5, False)
