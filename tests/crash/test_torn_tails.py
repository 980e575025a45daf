"""Recovery from every possible end of a log after a crash, byte by byte."""

import errno

import pytest

from goqueue.errors import DiskFailed
from goqueue.storage import frame
from goqueue.testing.disk import Crashed, FaultyDisk
from tests.storage.stores import DATA, append, batch, open_store, values

LOG = f"{DATA}/logs/t/0/{0:020d}.log"


def written(*contents: bytes, disk: FaultyDisk | None = None) -> FaultyDisk:
    """A disk with one log of these messages, all answered, whose process was killed."""
    disk = disk or FaultyDisk()
    store = open_store(disk, segment_bytes=100_000)
    log = store.create("t/0")
    for content in contents:
        append(store, log, content)
    return disk.crash("everything")


def appended(disk: FaultyDisk, content: bytes) -> FaultyDisk:
    """The same disk with more bytes at the end of the log."""
    disk.write_file(LOG, disk.read_file(LOG) + content)
    return disk


@pytest.mark.parametrize("keep", ["everything", "synced"])
def test_a_last_frame_torn_at_any_byte_is_cut_and_its_offset_is_given_again(keep: str) -> None:
    whole = frame.encode(b"torn", b"key", offset=2, timestamp_ns=2**62)
    for size in range(1, len(whole)):
        disk = appended(written(b"one", b"two"), whole[:size])
        store = open_store(disk)
        log, cut = store.logs["t/0"], store.recovered["t/0"].cut
        assert cut is not None
        assert cut.end - cut.position == size
        assert cut.kept_in is None
        assert append(store, log, b"three") == range(2, 3)
        assert values(log) == [b"one", b"two", b"three"]
        left = disk.crash("everything" if keep == "everything" else "synced")
        assert values(open_store(left).logs["t/0"]) == [b"one", b"two", b"three"]


def test_a_write_torn_at_any_byte_leaves_whole_messages_only() -> None:
    messages = [b"first", b"second", b"third"]
    size = len(batch(messages).buffer)
    for after_bytes in range(size + 1):
        disk = written(b"zero")
        store = open_store(disk)
        log = store.logs["t/0"]
        log.append(batch(messages))
        disk.crash_at(disk.operations + 1, after_bytes=after_bytes)
        with pytest.raises(Crashed):
            store.flush()
        store = open_store(disk.crash("everything"))
        found = values(store.logs["t/0"])
        assert found == [b"zero", *messages][: len(found)]
        assert append(store, store.logs["t/0"], b"next") == range(len(found), len(found) + 1)


@pytest.mark.parametrize("seed", range(40))
def test_any_subset_of_unsynced_blocks_leaves_a_prefix_with_all_that_was_synced(seed: int) -> None:
    disk = FaultyDisk(seed)
    store = open_store(disk, flush="interval", segment_bytes=100_000)
    log = store.create("t/0")
    contents = [b"%d" % number * (number % 37 * 6) for number in range(60)]
    append(store, log, *contents[:20])
    for content in contents[20:]:
        log.append(batch([content]))
        store.resources.flusher._round([log], sync=False)
    for torn in (False, True):
        store_after = open_store(disk.after_crash("some", torn=torn))
        found = values(store_after.logs["t/0"])
        assert store_after.recovered["t/0"].damages == []
        assert len(found) >= 20
        assert found == contents[: len(found)]


@pytest.mark.parametrize("size", [1, 33, 34, 35, 36, 511, 4096, 100_000])
def test_zeros_are_never_a_message(size: int) -> None:
    disk = appended(written(b"one", b"two"), bytes(size))
    store = open_store(disk)
    cut = store.recovered["t/0"].cut
    assert cut is not None
    assert cut.reason == "zeros"
    assert values(store.logs["t/0"]) == [b"one", b"two"]
    assert disk.read_file(LOG) == written(b"one", b"two").read_file(LOG)


def test_log_of_zeros_is_empty() -> None:
    disk = appended(written(), bytes(5000))
    store = open_store(disk)
    assert values(store.logs["t/0"]) == []
    assert append(store, store.logs["t/0"], b"one") == range(1)


def test_sound_frames_behind_a_tear_are_cut_and_kept_beside_the_log() -> None:
    tear = b"torn" * 20 + bytes(512) + frame.encode(b"behind", offset=3, timestamp_ns=2**62)
    disk = appended(written(b"one", b"two"), tear)
    store = open_store(disk)
    cut = store.recovered["t/0"].cut
    assert cut is not None
    assert cut.kept_in is not None
    assert disk.read_file(cut.kept_in) == tear
    assert store.recovered["t/0"].damages == []
    assert values(store.logs["t/0"]) == [b"one", b"two"]


def test_kept_cut_survives_another_power_loss() -> None:
    tear = b"torn" * 20 + bytes(512) + frame.encode(b"behind", offset=3, timestamp_ns=2**62)
    disk = appended(written(b"one"), tear)
    cut = open_store(disk).recovered["t/0"].cut
    assert cut is not None
    assert cut.kept_in is not None
    again = disk.crash("synced")
    store = open_store(again)
    assert again.read_file(cut.kept_in) == tear
    assert store.recovered["t/0"].cut is None


def test_truncated_log_file_is_reported_and_offsets_are_not_reused() -> None:
    for size in range(len(written(b"one", b"two").read_file(LOG))):
        disk = written(b"one", b"two")
        disk.write_file(LOG, disk.read_file(LOG)[:size])
        for _ in range(2):
            store = open_store(disk)
            assert [damage.next_offset for damage in store.recovered["t/0"].damages] == [2], size
            assert store.logs["t/0"].next_offset == 2, size
            disk = disk.crash("everything")
        store = open_store(disk)
        assert append(store, store.logs["t/0"], b"three") == range(2, 3)
        assert values(store.logs["t/0"], skip=True)[-1] == b"three"


def test_an_end_that_the_device_does_not_give_now_is_not_taken_for_torn() -> None:
    """After a loss of power nothing vouches for the last messages but they themselves."""
    disk = FaultyDisk()
    store = open_store(disk, segment_bytes=100_000)
    log = store.create("t/0")
    for content in (b"one", b"two"):
        append(store, log, content)
    disk = disk.crash("synced")
    disk.fail("read", errno.EIO, path="*/t/0/*.log", times="forever")
    store = open_store(disk)
    assert isinstance(store.unopened["t/0"], DiskFailed)
    recovered = disk.crash("everything")
    assert values(open_store(recovered).logs["t/0"]) == [b"one", b"two"]
