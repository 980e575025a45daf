"""Damage in a sealed segment is replaced by the frames of another replica, and a crash leaves the old or the new."""

from contextlib import suppress

import pytest

from goqueue.errors import DiskFull, RangeDamaged
from goqueue.storage.compaction_progress import load_progress
from goqueue.storage.log import Log
from goqueue.storage.segment_repair import FetchedRange, SegmentRepair, find_damage, sealed_segment
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from goqueue.testing.kernel import Crashed
from tests.storage.stores import fill_five_segments, open_store, values

FIRST = 3
"""The base offset of the second segment, which holds three messages."""


@pytest.fixture
def store(disk: FaultyDisk, clock: ManualClock) -> Store:
    return fill_five_segments(disk, clock)


def content(log: Log, disk: FaultyDisk, first: int, after: int) -> bytes:
    """Return the frames of these offsets, of one segment without damage."""
    segment = next(one for one in reversed(log.segments) if one.base_offset <= first)
    whole = disk.read_file(segment.path)
    size = len(whole) // 3
    return whole[(first - segment.base_offset) * size : (after - segment.base_offset) * size]


def damaged(log: Log, disk: FaultyDisk) -> list[tuple[int, int]]:
    found = sealed_segment(log, FIRST)
    assert found is not None
    return [(one.first_offset, one.next_offset) for one in find_damage(disk, found, 0)]


def repair(log: Log, disk: FaultyDisk, *fetched: FetchedRange) -> None:
    found = sealed_segment(log, FIRST)
    assert found is not None
    job = SegmentRepair(log, disk, found, list(fetched))
    try:
        job.run()
    finally:
        job.apply()


@pytest.mark.parametrize(("first", "after"), [(3, 4), (4, 5), (5, 6), (3, 6)])
def test_flipped_bits_are_replaced_by_the_same_bytes(store: Store, disk: FaultyDisk, first: int, after: int) -> None:
    log = store.log("t/0")
    path, right = log.segments[1].path, disk.read_file(log.segments[1].path)
    taken = FetchedRange(first, after, content(log, disk, first, after))
    for offset in range(first, after):
        disk.flip(path, (offset - FIRST) * len(right) // 3 + 200)
    assert damaged(log, disk)

    repair(log, disk, taken)

    assert disk.read_file(path) == right
    assert damaged(log, disk) == []
    assert [one[:3] for one in values(log)] == [b"%03d" % number for number in range(15)]


@pytest.mark.parametrize("kept", [0, 1, 100, 1034, 1500])
def test_segment_that_ends_early_gets_its_rest_back(store: Store, disk: FaultyDisk, kept: int) -> None:
    log = store.log("t/0")
    path, right = log.segments[1].path, disk.read_file(log.segments[1].path)
    taken = FetchedRange(3, 6, right)
    disk.write_file(path, right[:kept])
    log.segments[1].size = kept
    assert damaged(log, disk)[-1][1] == 6

    repair(log, disk, taken)

    assert disk.read_file(path) == right


def test_missing_messages_in_the_middle_are_put_in_their_place(store: Store, disk: FaultyDisk) -> None:
    log = store.log("t/0")
    path, right = log.segments[1].path, disk.read_file(log.segments[1].path)
    size = len(right) // 3
    disk.write_file(path, right[:size] + right[2 * size :])
    log.segments[1].size = 2 * size
    assert damaged(log, disk) == [(4, 5)]

    repair(log, disk, FetchedRange(4, 5, right[size : 2 * size]))

    assert disk.read_file(path) == right


def test_what_compaction_has_removed_at_the_other_replica_is_no_loss(store: Store, disk: FaultyDisk) -> None:
    log = store.log("t/0")
    right = disk.read_file(log.segments[1].path)
    disk.flip(log.segments[1].path, 200)
    disk.flip(log.segments[1].path, 1300)

    repair(log, disk, FetchedRange(3, 5, content(log, disk, 5, 6)[:0], gaps_below=6))

    assert disk.read_file(log.segments[1].path) == right[2 * len(right) // 3 :]
    assert load_progress(disk, log.directory).gaps == 6


@pytest.mark.parametrize("fault", ["flipped", "cut", "short", "behind", "other"])
def test_what_is_not_sound_or_not_whole_is_refused_and_changes_nothing(
    store: Store, disk: FaultyDisk, fault: str
) -> None:
    log = store.log("t/0")
    path, right = log.segments[1].path, content(log, disk, 3, 5)
    fetched = {
        "flipped": right[:200] + bytes([right[200] ^ 1]) + right[201:],
        "cut": right[:-1],
        "short": right[: len(right) // 2],
        "behind": content(log, disk, 3, 6),
        "other": content(log, disk, 6, 8),
    }[fault]
    disk.flip(path, 200)
    before = disk.read_file(path)

    with pytest.raises(RangeDamaged):
        repair(log, disk, FetchedRange(3, 5, fetched))

    assert disk.read_file(path) == before
    assert log.job is None


def test_full_disk_leaves_the_old_segment(store: Store, disk: FaultyDisk) -> None:
    log = store.log("t/0")
    taken = FetchedRange(3, 4, content(log, disk, 3, 4))
    disk.flip(log.segments[1].path, 200)
    before = disk.read_file(log.segments[1].path)
    disk.capacity_bytes = 0

    with pytest.raises(DiskFull):
        repair(log, disk, taken)

    disk.capacity_bytes = None
    assert disk.read_file(log.segments[1].path) == before
    assert [entry for entry in disk.entries(log.directory) if "cleaned" in entry.name] == []


def test_crash_at_any_step_leaves_the_old_segment_or_the_new_one(clock: ManualClock) -> None:
    is_repaired = set[bool]()
    for step in range(1, 1000):
        disk = FaultyDisk(step)
        log = fill_five_segments(disk, clock).log("t/0")
        path, right = log.segments[1].path, disk.read_file(log.segments[1].path)
        taken = FetchedRange(3, 4, content(log, disk, 3, 4))
        disk.flip(path, 200)
        wrong, end = disk.read_file(path), disk.operations
        disk.crash_at(end + step)
        with suppress(Crashed):
            repair(log, disk, taken)
        if disk.operations < end + step:
            break
        after = disk.after_crash()
        log = open_store(after, clock).log("t/0")
        assert after.read_file(path) in (right, wrong)
        assert [one[:3] for one in values(log, 6)] == [b"%03d" % number for number in range(6, 15)]
        is_repaired.add(after.read_file(path) == right)
    assert is_repaired == {True, False}
