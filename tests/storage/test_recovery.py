"""What an opened directory says of its logs: what was cut, what is damaged, and from where life goes on."""

import errno

import pytest

from goqueue.errors import RangeDamaged
from goqueue.storage import frame
from goqueue.storage.recovery import CleanState, Recovered, recover
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


def opened(disk: FaultyDisk) -> tuple[Store, Recovered]:
    store = open_store(disk)
    return store, store.recovered["t/0"]


def last_log(disk: FaultyDisk) -> str:
    return [name for name in disk.paths() if name.endswith(".log")][-1]


def without_lock(disk: FaultyDisk) -> dict[str, bytes]:
    return {name: disk.read_file(name) for name in disk.paths() if not name.endswith("lock")}


# --- what recovery reads ---


def test_an_empty_directory_becomes_an_empty_log() -> None:
    disk = FaultyDisk()
    disk.make_directory(DIRECTORY)
    found = recover(disk, DIRECTORY)
    assert (found.next_offset, found.last_time, [segment.base_offset for segment in found.segments]) == (0, 0, [0])
    assert disk.crash("synced").paths() == [path(0)]


def test_only_the_last_segment_is_surveyed_and_only_from_its_last_index_entry() -> None:
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


def test_recovering_again_changes_nothing() -> None:
    disk = killed(segment_bytes=10_000)
    disk.write_file(last_log(disk), disk.read_file(last_log(disk)) + b"torn")
    _, first = opened(disk)
    assert first.cut is not None
    before, disk = without_lock(disk), disk.crash("everything")
    _, second = opened(disk)
    assert (second.cut, second.damages, second.next_offset) == (None, [], first.next_offset)
    assert without_lock(disk) == before


@pytest.mark.parametrize("size", [0, 1, 10**6])
def test_a_marker_that_does_not_fit_is_not_believed(size: int) -> None:
    found = recover(killed(), DIRECTORY, CleanState(0, 150, 5, 3, size))
    assert (found.was_clean, found.next_offset) == (False, 200)


def test_a_marker_that_fits_is_believed_without_reading() -> None:
    disk = killed()
    size = len(disk.read_file(path(0)))
    disk.fail("read", times="forever")
    found = recover(disk, DIRECTORY, CleanState(0, 200, 5, 3, size))
    assert (found.was_clean, found.next_offset, found.last_time) == (True, 200, 5)


# --- damage ---


@pytest.mark.parametrize("number", [0, 1, 100, 198, 199])
def test_damage_below_the_mark_is_kept_and_reported(number: int) -> None:
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


def test_damage_in_what_is_surveyed_is_reported_by_byte_and_offset() -> None:
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
    for _ in range(3):
        store, found = opened(disk)
        assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(199, 200)]
        assert store.logs["t/0"].next_offset == 200
        disk = disk.crash("everything")


def test_a_log_of_which_everything_is_damaged_gives_no_offset_twice() -> None:
    disk = killed(count=3)
    disk.overwrite(path(0), 0, bytes(len(disk.read_file(path(0)))))
    for _ in range(3):
        store, found = opened(disk)
        assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(0, 3)]
        assert store.logs["t/0"].next_offset == 3
        disk = disk.crash("everything")
    store, _ = opened(disk)
    assert append(store, store.logs["t/0"], b"next") == range(3, 4)
    assert values(store.logs["t/0"], skip=True) == [b"next"]


def test_a_log_whose_last_file_was_emptied_gives_no_offset_twice() -> None:
    disk = killed(count=3)
    disk.write_file(path(0), b"")
    for _ in range(3):
        store, found = opened(disk)
        assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(0, 3)]
        assert store.logs["t/0"].next_offset == 3
        disk = disk.crash("everything")


def test_without_an_index_bad_bytes_with_sound_ones_behind_them_are_damage() -> None:
    disk = killed()
    positions = list(frame.walk(disk.read_file(path(0))))
    disk.remove(path(0, "index"))
    disk.flip(path(0), positions[50])
    store, found = opened(disk)
    assert found.cut is None
    assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(50, 51)]
    assert values(store.logs["t/0"], skip=True) == [*CONTENTS[:50], *CONTENTS[51:]]


def test_without_an_index_what_follows_the_last_sound_message_is_cut() -> None:
    disk = killed()
    disk.remove(path(0, "index"))
    disk.write_file(path(0), disk.read_file(path(0)) + b"torn")
    store, found = opened(disk)
    assert found.cut is not None
    assert found.damages == []
    assert values(store.logs["t/0"]) == CONTENTS


# --- damage that no mark vouches for, as after a loss of power ---


def without_mark(disk: FaultyDisk, kept: str) -> None:
    """What a loss of power may leave of the index, which is not synced: nothing, zeros, or an older state."""
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
def test_a_torn_write_behind_damage_is_cut_and_the_damage_stays(kept: str) -> None:
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
def test_sectors_that_never_reached_the_device_are_cut_with_what_follows(kept: str, sectors: int) -> None:
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


def test_a_cut_says_what_where_and_why() -> None:
    disk = killed()
    size = len(disk.read_file(path(0)))
    disk.write_file(path(0), disk.read_file(path(0)) + b"GQ torn")
    _, found = opened(disk)
    cut = found.cut
    assert cut is not None
    assert (cut.path, cut.position, cut.end, cut.kept_in) == (path(0), size, size + 7, None)
    assert cut.reason


def test_the_next_offset_and_time_follow_the_last_message_that_stayed() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock)
    log = store.create("t/0")
    append(store, log, b"one")
    time = log.last_time
    clock.advance(10)
    append(store, log, b"two")
    left = disk.crash("everything")
    left.remove(path(0, "index"))  # so that nobody knows that it was answered
    left.write_file(path(0), left.read_file(path(0))[:-1])
    found = recover(left, DIRECTORY)
    assert (found.next_offset, found.last_time) == (1, time)


@pytest.mark.parametrize("bit", range(8))
def test_a_wrong_time_in_the_index_never_makes_the_log_delete_itself(bit: int) -> None:
    whole = killed(count=120)
    for position in range(len(whole.read_file(path(0, "timeindex")))):
        disk = whole.after_crash("everything")
        disk.flip(path(0, "timeindex"), position, bit)
        store, found = opened(disk)
        assert (found.cut, found.damages) == (None, [])
        assert values(store.logs["t/0"], 60) == CONTENTS[60:120]


# --- files that are gone ---


@pytest.mark.parametrize("clean", [True, False])
def test_offsets_of_a_newest_segment_that_is_gone_are_not_given_out_again(clean: bool) -> None:
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


def test_a_marker_that_speaks_of_another_segment_of_the_same_size_is_not_believed() -> None:
    disk = FaultyDisk()
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


def test_messages_that_were_there_at_a_clean_stop_and_are_not_now_are_damage() -> None:
    found = recover(killed(), DIRECTORY, CleanState(0, 250, 5, 3, 1))
    assert [(damage.first_offset, damage.next_offset) for damage in found.damages] == [(200, 250)]
    assert found.next_offset == 250


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_missing_index_of_a_sealed_segment_is_made_again_at_the_next_start(suffix: str, clean: bool) -> None:
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
def test_an_index_of_a_sealed_segment_that_a_loss_of_power_spoiled_is_made_again(suffix: str, kept: str) -> None:
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


def test_indexes_of_sealed_segments_survive_a_loss_of_power() -> None:
    disk = FaultyDisk()
    store = open_store(disk, segment_bytes=10_000)
    log = store.create("t/0")
    for content in CONTENTS:
        append(store, log, content)
    sealed = [name for segment in log.segments[:-1] for name in segment.index_paths]
    before = {name: disk.read_file(name) for name in sealed}
    left = disk.crash("synced")
    assert {name: left.read_file(name) for name in sealed} == before


def test_an_index_that_cannot_be_synced_costs_no_append() -> None:
    disk = FaultyDisk()
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


def test_an_index_that_a_full_disk_does_not_take_leaves_none_behind_and_the_log_works() -> None:
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


def test_damage_at_the_beginning_of_a_log_costs_nothing_behind_it_at_the_starts_that_follow() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    log = store.create("t/0")
    for number in range(4):
        append(store, log, b"value%d" % number)
    disk = disk.crash("everything")
    disk.flip(log.active.path, 20)
    for _ in range(3):
        store = open_store(disk)
        assert store.recovered["t/0"].cut is None
        assert values(store.logs["t/0"], skip=True) == [b"value1", b"value2", b"value3"]
        disk = disk.crash("everything")
