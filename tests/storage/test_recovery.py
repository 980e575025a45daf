"""Recovery of logs: what is cut, what is damaged, and the next offset."""

import errno

import pytest

from goqueue.errors import RangeDamaged
from goqueue.storage import frame
from goqueue.storage.log import Log
from goqueue.storage.recovery import CleanLogState, RecoveredLog, recover
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import DATA, append, open_store, values

DIRECTORY = f"{DATA}/logs/t/0"
CONTENTS = [b"%d" % number * 50 for number in range(200)]


def path(base: int, suffix: str = "log") -> str:
    return f"{DIRECTORY}/{base:020d}.{suffix}"


def killed(*, segment_bytes: int = 100_000, count: int = 200) -> FaultyDisk:
    """A log of small messages, one append each, whose process was killed."""
    disk = FaultyDisk()
    store = open_store(disk, segment_bytes=segment_bytes)
    log = store.create("t/0")
    for content in CONTENTS[:count]:
        append(store, log, content)
    return disk.crash("everything")


def opened(disk: FaultyDisk) -> tuple[Store, RecoveredLog]:
    store = open_store(disk)
    return store, store.recovered["t/0"]


def assert_damaged_at_each_start(disk: FaultyDisk, first: int, end: int) -> FaultyDisk:
    """Three starts report the same lost range and give none of its offsets again; the disk after them."""
    for _ in range(3):
        store, found = opened(disk)
        assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(first, end)]
        assert store.logs["t/0"].next_offset == end
        disk = disk.crash("everything")
    return disk


def last_log(disk: FaultyDisk) -> str:
    return [name for name in disk.paths() if name.endswith(".log")][-1]


def without_lock(disk: FaultyDisk) -> dict[str, bytes]:
    return {name: disk.read_file(name) for name in disk.paths() if not name.endswith("lock")}


# --- what recovery reads ---


def test_recovery_of_an_empty_directory(disk: FaultyDisk) -> None:
    disk.make_directory(DIRECTORY)
    found = recover(disk, DIRECTORY)
    assert (found.next_offset, found.last_time, [segment.base_offset for segment in found.segments]) == (0, 0, [0])
    assert disk.crash("synced").paths() == [path(0)]


def test_recovery_reads_only_the_end_of_the_last_segment() -> None:
    disk = killed(segment_bytes=10_000)
    reads: list[str] = []

    def note(operation: str, where: str) -> bool:
        if operation == "read" and where.endswith(".log"):
            reads.append(where)
        return False

    disk.fail(note)
    opened(disk)
    assert set(reads) == {last_log(disk)}
    assert len(reads) < 10


@pytest.mark.parametrize("size", [0, 1, 10**6])
def test_clean_marker_that_does_not_match_is_ignored(size: int) -> None:
    found = recover(killed(), DIRECTORY, CleanLogState(0, 150, 5, 3, size))
    assert (found.was_clean, found.next_offset) == (False, 200)


def test_matching_clean_marker_is_used_without_reading() -> None:
    disk = killed()
    size = len(disk.read_file(path(0)))
    disk.fail("read", times="forever")
    found = recover(disk, DIRECTORY, CleanLogState(0, 200, 5, 3, size))
    assert (found.was_clean, found.next_offset, found.last_time) == (True, 200, 5)


# --- damage ---


@pytest.mark.parametrize("number", [0, 1, 100, 198, 199])
def test_damage_before_the_mark_is_kept_and_reported(number: int) -> None:
    disk = killed()
    positions = list(frame.walk(disk.read_file(path(0))))
    disk.flip(path(0), positions[number] + 40)
    size = len(disk.read_file(path(0)))
    store, found = opened(disk)
    log = store.logs["t/0"]
    assert found.cut is None
    assert len(disk.read_file(path(0))) == size
    assert log.next_offset == 200
    with pytest.raises(RangeDamaged) as caught:
        values(log)
    details = caught.value.details
    assert (details["first_offset"], details["next_offset"]) == (number, number + 1)
    assert values(log, skip=True) == [*CONTENTS[:number], *CONTENTS[number + 1 :]]
    assert append(store, log, b"next") == range(200, 201)


def test_recovered_damage_has_positions_and_offsets() -> None:
    disk = killed()
    positions = list(frame.walk(disk.read_file(path(0))))
    disk.flip(path(0), positions[195] + 40)
    _, found = opened(disk)
    (damage,) = found.damages
    assert (damage.position, damage.end) == (positions[195], positions[196])
    assert (damage.first_offset, damage.next_offset) == (195, 196)
    assert "checksum" in damage.reason


def test_a_damaged_last_message_that_was_answered_keeps_its_offset() -> None:
    disk = killed()
    disk.flip(path(0), len(disk.read_file(path(0))) - 1)
    assert_damaged_at_each_start(disk, 199, 200)


def test_offsets_are_not_reused_after_whole_log_is_damaged() -> None:
    disk = killed(count=3)
    disk.overwrite(path(0), 0, bytes(len(disk.read_file(path(0)))))
    disk = assert_damaged_at_each_start(disk, 0, 3)
    store, _ = opened(disk)
    assert append(store, store.logs["t/0"], b"next") == range(3, 4)
    assert values(store.logs["t/0"], skip=True) == [b"next"]


def test_offsets_are_not_reused_after_last_file_is_emptied() -> None:
    disk = killed(count=3)
    disk.write_file(path(0), b"")
    assert_damaged_at_each_start(disk, 0, 3)


def test_bad_bytes_before_sound_messages_are_damage_without_an_index() -> None:
    disk = killed()
    positions = list(frame.walk(disk.read_file(path(0))))
    disk.remove(path(0, "index"))
    disk.flip(path(0), positions[50])
    store, found = opened(disk)
    assert found.cut is None
    assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(50, 51)]
    assert values(store.logs["t/0"], skip=True) == [*CONTENTS[:50], *CONTENTS[51:]]


def test_bytes_after_the_last_sound_message_are_cut_without_an_index() -> None:
    disk = killed()
    disk.remove(path(0, "index"))
    disk.write_file(path(0), disk.read_file(path(0)) + b"torn")
    store, found = opened(disk)
    assert found.cut is not None
    assert found.damages == []
    assert values(store.logs["t/0"]) == CONTENTS


# --- damage that no mark vouches for, as after a loss of power ---


def without_mark(disk: FaultyDisk, kept: str) -> None:
    """Return what a loss of power may leave of the index, which is not synced: nothing, zeros, or an older state."""
    content = disk.read_file(path(0, "index"))
    left = {"empty": b"", "zeros": bytes(len(content)), "cut": content[:40], "old": OLD_INDEX}
    disk.write_file(path(0, "index"), left[kept])


OLD_INDEX = killed(count=20).read_file(path(0, "index"))
LOST_INDEXES = ["empty", "zeros", "cut", "old"]


@pytest.mark.parametrize("kept", LOST_INDEXES)
@pytest.mark.parametrize("number", [30, 100, 198, 199])
def test_one_bad_bit_without_a_mark_costs_one_message(kept: str, number: int) -> None:
    whole = killed()
    without_mark(whole, kept)
    positions = [*frame.walk(whole.read_file(path(0))), len(whole.read_file(path(0)))]
    for position in range(positions[number], positions[number + 1], 13):
        disk = whole.after_crash("everything")
        disk.flip(path(0), position, position % 8)
        store, found = opened(disk)
        assert found.cut is None, position
        assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(number, number + 1)]
        assert store.logs["t/0"].next_offset == 200
        assert values(store.logs["t/0"], 20, skip=True) == [*CONTENTS[20:number], *CONTENTS[number + 1 :]]


@pytest.mark.parametrize("kept", LOST_INDEXES)
def test_torn_write_after_damage_is_cut_and_damage_is_kept(kept: str) -> None:
    disk = killed()
    without_mark(disk, kept)
    content = disk.read_file(path(0))
    positions = list(frame.walk(content))
    disk.write_file(path(0), content[: positions[150]] + bytes(-positions[150] % 512 + 512))
    disk.flip(path(0), positions[100] + 40)
    store, found = opened(disk)
    assert found.cut is not None
    assert (found.cut.position, found.cut.kept_in) == (positions[150], None)
    assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(100, 101)]
    assert append(store, store.logs["t/0"], b"next") == range(150, 151)


@pytest.mark.parametrize("kept", LOST_INDEXES)
@pytest.mark.parametrize("sectors", [1, 2, 7])
def test_missing_sectors_are_cut_with_everything_behind(kept: str, sectors: int) -> None:
    disk = killed()
    without_mark(disk, kept)
    content = disk.read_file(path(0))
    positions = list(frame.walk(content))
    start = positions[180] // 512 * 512
    disk.overwrite(path(0), start, bytes(sectors * 512))
    store, found = opened(disk)
    assert found.damages == []
    assert found.cut is not None
    assert found.cut.kept_in is not None
    kept_messages = sum(position <= start for position in positions) - 1
    assert values(store.logs["t/0"]) == CONTENTS[:kept_messages]


# --- what is cut ---


def test_cut_reports_path_range_and_reason() -> None:
    disk = killed()
    size = len(disk.read_file(path(0)))
    disk.write_file(path(0), disk.read_file(path(0)) + b"GQ torn")
    _, found = opened(disk)
    cut = found.cut
    assert cut is not None
    assert (cut.path, cut.position, cut.end, cut.kept_in) == (path(0), size, size + 7, None)
    assert cut.reason


def test_next_offset_and_time_follow_the_last_kept_message(
    disk: FaultyDisk, clock: ManualClock, store: Store, log: Log
) -> None:
    append(store, log, b"one")
    time = log.last_time
    clock.advance(10)
    append(store, log, b"two")
    left = disk.crash("everything")
    left.remove(path(0, "index"))  # so that no client knows that it was answered
    left.write_file(path(0), left.read_file(path(0))[:-1])
    found = recover(left, DIRECTORY)
    assert (found.next_offset, found.last_time) == (1, time)


@pytest.mark.parametrize("bit", range(8))
def test_wrong_time_in_the_index_loses_no_message(bit: int) -> None:
    whole = killed(count=120)
    for position in range(len(whole.read_file(path(0, "timeindex")))):
        disk = whole.after_crash("everything")
        disk.flip(path(0, "timeindex"), position, bit)
        store, found = opened(disk)
        assert (found.cut, found.damages) == (None, [])
        assert values(store.logs["t/0"], 60) == CONTENTS[60:120]


# --- files that are gone ---


@pytest.mark.parametrize("clean", [True, False])
def test_offsets_of_a_missing_newest_segment_are_not_reused(clean: bool) -> None:
    disk = killed(segment_bytes=10_000)
    if clean:
        open_store(disk).close()
    lost = int(last_log(disk).rpartition("/")[2][:20])
    disk.remove(last_log(disk))
    for _ in range(2):
        store, found = opened(disk)
        assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(lost, 200)]
        assert not found.was_clean
        assert store.logs["t/0"].next_offset == 200
        disk = disk.crash("everything")
    store, _ = opened(disk)
    assert append(store, store.logs["t/0"], b"next") == range(200, 201)
    assert values(store.logs["t/0"], skip=True) == [*CONTENTS[:lost], b"next"]


def test_clean_marker_of_another_segment_is_ignored(disk: FaultyDisk) -> None:
    store = open_store(disk, segment_bytes=1000)
    for _ in range(6):
        append(store, store.logs.get("t/0") or store.create("t/0"), b"x" * 400)
    assert [segment.base_offset for segment in store.logs["t/0"].segments] == [0, 2, 4]
    store.close()
    for suffix in ("log", "index", "timeindex"):
        disk.remove(path(4, suffix))
    store, found = opened(disk)
    assert not found.was_clean
    assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(4, 6)]
    assert append(store, store.logs["t/0"], b"next") == range(6, 7)


def test_messages_missing_since_a_clean_stop_are_damage() -> None:
    found = recover(killed(), DIRECTORY, CleanLogState(0, 250, 5, 3, 1))
    assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(200, 250)]
    assert found.next_offset == 250


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_missing_sealed_index_is_rebuilt_at_the_next_start(suffix: str, clean: bool) -> None:
    disk = killed(segment_bytes=10_000)
    if clean:
        open_store(disk).close()
    complete = without_lock(disk)
    disk.remove(path(0, suffix))
    store, found = opened(disk)
    assert (found.was_clean, found.damages) == (clean, [])
    assert disk.read_file(path(0, suffix)) == complete[path(0, suffix)]
    assert values(store.logs["t/0"]) == CONTENTS


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("kept", ["nothing", "a part", "zeros", "too much"])
def test_sealed_index_spoiled_by_power_loss_is_rebuilt(suffix: str, kept: str) -> None:
    disk = killed(segment_bytes=10_000)
    right = {name: disk.read_file(path(0, name)) for name in ("index", "timeindex")}
    content = right[suffix]
    left = {"nothing": b"", "a part": content[:16], "zeros": bytes(len(content)), "too much": content * 2}
    disk.write_file(path(0, suffix), left[kept])
    if (suffix, kept) == ("timeindex", "zeros"):  # alone it is found by readers, who compare it with the index
        disk.write_file(path(0, "index"), bytes(len(right["index"])))
    _, found = opened(disk)
    assert (found.cut, found.damages) == (None, [])
    assert {name: disk.read_file(path(0, name)) for name in right} == right


def test_sealed_indexes_survive_power_loss(disk: FaultyDisk) -> None:
    store = open_store(disk, segment_bytes=10_000)
    log = store.create("t/0")
    for content in CONTENTS:
        append(store, log, content)
    sealed = [name for segment in log.segments[:-1] for name in segment.index_paths]
    before = {name: disk.read_file(name) for name in sealed}
    left = disk.crash("synced")
    assert {name: left.read_file(name) for name in sealed} == before


def test_failed_index_sync_fails_no_append(disk: FaultyDisk) -> None:
    store = open_store(disk, segment_bytes=10_000)
    log = store.create("t/0")
    disk.fail("sync", path="*index", times="forever")
    for content in CONTENTS:
        append(store, log, content)
    assert log.fence is None
    disk = disk.crash("synced")
    store, found = opened(disk)
    assert (found.cut, found.damages) == (None, [])
    assert values(store.logs["t/0"]) == CONTENTS
    assert all(disk.read_file(one.index_path) for one in store.logs["t/0"].segments[:-1])


def test_a_clean_start_reads_no_index() -> None:
    disk = killed(segment_bytes=10_000)
    open_store(disk).close()
    disk.fail("open", path="*index", times="forever")
    assert opened(disk)[1].was_clean


def test_log_works_without_an_index_refused_by_a_full_disk() -> None:
    disk = killed(segment_bytes=10_000)
    index = last_log(disk).removesuffix("log") + "index"
    disk.write_file(index, disk.read_file(index)[:16])
    disk.fail("write", errno.ENOSPC, path="*.tmp", times="forever")
    store, _ = opened(disk)
    assert not {index, index.replace(".index", ".timeindex")} & set(disk.paths())
    log = next(iter(store.logs.values()))
    before = values(log)
    append(store, log, b"next")
    assert values(log) == [*before, b"next"]
    assert values(next(iter(opened(disk.crash("everything"))[0].logs.values()))) == [*before, b"next"]


def test_damaged_first_message_costs_no_other_at_later_starts(disk: FaultyDisk, store: Store, log: Log) -> None:
    for number in range(4):
        append(store, log, b"value%d" % number)
    disk = disk.crash("everything")
    disk.flip(log.active.path, 20)
    for _ in range(3):
        store = open_store(disk)
        assert store.recovered["t/0"].cut is None
        assert values(store.logs["t/0"], skip=True) == [b"value1", b"value2", b"value3"]
        disk = disk.crash("everything")
