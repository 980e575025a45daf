"""The scrub of a log: all that is visible is read in steps, and whole blocks of offsets get digests."""

import pytest

from goqueue.storage import scrub
from goqueue.storage.log import Log
from goqueue.storage.scrub import BlockDigests, scrub_from
from goqueue.storage.segment_scan import Damage
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import append, fill_five_segments


def read(log: Log, disk: FaultyDisk, step: int = 1) -> tuple[list[Damage], BlockDigests]:
    """Scrub a log; return what is damaged, and its digests."""
    digests, found, offset = BlockDigests(), list[Damage](), log.first_offset
    while (one := scrub_from(log, disk, offset, digests)) is not None:
        while one.step(step):
            pass
        found += one.damages
        offset = one.sealed.next_offset
    return found, digests


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "BLOCK_OFFSETS", 4)


def test_sound_log_has_no_damage_and_a_digest_of_each_whole_block(disk: FaultyDisk, clock: ManualClock) -> None:
    log = fill_five_segments(disk, clock).log("t/0")

    damages, digests = read(log, disk)

    assert damages == []
    assert sorted(digests.known) == [0, 1, 2]  # of 15 messages


@pytest.mark.parametrize("segment", range(5))
def test_damage_is_found_in_each_segment_the_active_one_included(
    disk: FaultyDisk, clock: ManualClock, segment: int
) -> None:
    log = fill_five_segments(disk, clock).log("t/0")
    disk.flip(log.segments[segment].path, 1500)

    (damage,), digests = read(log, disk)

    assert (damage.first_offset, damage.next_offset) == (3 * segment + 1, 3 * segment + 2)
    assert (3 * segment + 1) // 4 not in digests.known


def test_segment_that_is_gone_is_a_gap_behind_the_one_before(disk: FaultyDisk, clock: ManualClock) -> None:
    log = fill_five_segments(disk, clock).log("t/0")
    del log.segments[2]

    (damage,), _ = read(log, disk)

    assert (damage.first_offset, damage.next_offset) == (6, 9)


def test_digests_are_the_same_however_segments_and_steps_fall_and_differ_with_one_bit(clock: ManualClock) -> None:
    disks = FaultyDisk(1), FaultyDisk(2)
    one, other = (fill_five_segments(disk, ManualClock()).log("t/0") for disk in disks)
    expected = read(one, disks[0])[1].known

    assert read(other, disks[1], 5000)[1].known == expected
    store = fill_five_segments(FaultyDisk(3), clock)
    append(store, store.log("t/0"), b"another one")
    assert read(store.log("t/0"), store.resources.disk, 100)[1].known != expected  # type: ignore[arg-type]
