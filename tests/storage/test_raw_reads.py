"""Segments as bytes: what is listed and read of them, up to where readers may see, whatever happens meanwhile."""

import struct

import pytest
from crc32c import crc32c

from goqueue.errors import GoQueueError, LogClosed, RangeDamaged, SegmentNotFound
from goqueue.storage import frame
from goqueue.storage.compaction import Compaction, plan_compaction
from goqueue.storage.disk import read_all
from goqueue.storage.flusher import FlushMode
from goqueue.storage.log import Log
from goqueue.storage.raw_reads import (
    PendingRawRead,
    RawContent,
    SegmentOutline,
    first_times,
    locate_bytes,
    locate_index,
    outline_segments,
    visible_segments,
)
from goqueue.storage.retention import Retention, plan_retention
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import append, batch, fill_five_segments, messages, open_store

SIZE = len(batch([b"x" * 1000]).buffer)


@pytest.fixture
def store(disk: FaultyDisk, clock: ManualClock) -> Store:
    return fill_five_segments(disk, clock, keys=b"ab")


@pytest.fixture
def log(store: Store) -> Log:
    return store.logs["t/0"]


def load(found: PendingRawRead | RawContent) -> bytes:
    return bytes(found.content if isinstance(found, RawContent) else found.load().content)


def read(log: Log, base_offset: int, position: int = 0, max_bytes: int = 10**9, version: str | None = None) -> bytes:
    return load(locate_bytes(log, base_offset, position, max_bytes, version))


def entries(log: Log, base_offset: int) -> list[tuple[int, int, int]]:
    found = locate_index(log, base_offset)
    raw = found if isinstance(found, RawContent) else found.load()
    return list(struct.iter_unpack(">qqq", raw.content))


def listed(log: Log) -> list[SegmentOutline]:
    return outline_segments(log, {})


def expiry(log: Log, disk: FaultyDisk, kept: int) -> Retention:
    return plan_retention(log, disk, bytes_kept=kept * SIZE)


def compaction(log: Log, store: Store) -> Compaction:
    return plan_compaction(log, store.resources.disk, now_ns=store.resources.clock.now_ns())


def offsets(content: bytes) -> list[int]:
    return [frame.decode(content, position).offset for position in frame.walk(content)]


# --- what is listed ---


def test_segments_are_listed_in_order_without_gaps(log: Log) -> None:
    found = listed(log)
    assert [(one.base_offset, one.next_offset, one.size) for one in found] == [
        (base, base + 3, 3 * SIZE) for base in range(0, 15, 3)
    ]
    assert [one.is_active for one in found] == [False] * 4 + [True]


def test_listed_times_are_those_of_the_first_and_last_message(log: Log) -> None:
    found = {message.offset: message.timestamp_ns for message in messages(log)}
    assert [(one.first_time, one.last_time) for one in listed(log)] == [
        (found[base], found[base + 2]) for base in range(0, 15, 3)
    ]


def test_empty_log_is_listed_as_one_empty_segment(disk: FaultyDisk) -> None:
    store = open_store(disk)
    log = store.create("t/0")
    (one,) = listed(log)
    assert one[:6] == (0, 0, 0, None, None, True)
    assert (read(log, 0), entries(log, 0)) == (b"", [])


def test_rolled_segment_is_listed_when_on_disk(store: Store, log: Log) -> None:
    log.roll()
    assert [one.base_offset for one in listed(log)][-1] == 12
    store.flush()
    assert listed(log)[-1][:6] == (15, 15, 0, None, None, True)
    assert listed(log)[-2].is_active is False
    assert read(log, 15) == b""


def test_first_times_come_from_the_index_after_restart(store: Store, log: Log, disk: FaultyDisk) -> None:
    before = [(one.base_offset, one.first_time) for one in listed(log)]
    store.close()
    disk.remove("/data/logs/t/0/00000000000000000003.timeindex")
    disk.overwrite("/data/logs/t/0/00000000000000000006.timeindex", 0, bytes(16))
    log = open_store(disk, tail_bytes=1).logs["t/0"]
    disk.remove("/data/logs/t/0/00000000000000000009.timeindex")
    known = first_times(disk, visible_segments(log))
    after = [(one.base_offset, one.first_time) for one in outline_segments(log, known)]
    assert after == [(base, None if base in (6, 9) else time) for base, time in before]
    assert [one.last_time for one in outline_segments(log, known)][:4] == [None] * 4
    assert outline_segments(log, known)[4].last_time == messages(log)[-1].timestamp_ns


# --- what is read ---


def test_raw_read_gives_the_bytes_of_the_file(log: Log, disk: FaultyDisk) -> None:
    for segment in log.segments:
        assert read(log, segment.base_offset) == read_all(disk, segment.path)


@pytest.mark.parametrize("max_bytes", [1, 7, SIZE, SIZE + 1, 3 * SIZE - 1, 3 * SIZE, 10**9])
def test_raw_reads_of_any_size_join_to_the_whole_segment(log: Log, max_bytes: int) -> None:
    content = b""
    while piece := read(log, 3, len(content), max_bytes):
        assert len(piece) <= max_bytes
        content += piece
    assert content == read(log, 3)
    assert read(log, 3, 3 * SIZE + 1, max_bytes) == b""


def test_raw_read_has_the_checksum_of_its_bytes(log: Log) -> None:
    found = locate_bytes(log, 3, 5, 100)
    assert isinstance(found, PendingRawRead)
    assert found.load().checksum == crc32c(read(log, 3, 5, 100))


@pytest.mark.parametrize("flush", ["always", "interval"])
def test_unanswered_appends_are_neither_listed_nor_read(flush: FlushMode) -> None:
    store = open_store(FaultyDisk(), flush=flush, tail_bytes=1)
    log = store.create("t/0")
    append(store, log, b"x" * 1000)
    before, entry = listed(log), entries(log, 0)
    assert before[0].last_time is not None
    for number in range(6):  # the third begins another segment
        log.append(batch([b"%d" % number + b"y" * 999]))
        assert [one._replace(last_time=None) for one in listed(log)] == [before[0]._replace(last_time=None)]
        assert read(log, 0) == read(log, 0, 0, SIZE) != b""
        assert len(read(log, 0)) == SIZE
        assert entries(log, 0) == entry == [(0, 0, before[0].first_time)]
    with pytest.raises(SegmentNotFound, match="no segment 3"):
        read(log, 3)
    store.flush()
    assert [one[:3] for one in listed(log)] == [(0, 3, 3 * SIZE), (3, 6, 3 * SIZE), (6, 7, SIZE)]
    assert offsets(read(log, 3)) == [3, 4, 5]


def test_raw_read_ends_where_it_was_located(store: Store, log: Log) -> None:
    append(store, log, b"x" * 4000)
    found = locate_bytes(log, 15, 0, 10**9)
    append(store, log, b"z")
    assert offsets(load(found)) == [15]


@pytest.mark.parametrize("base_offset", [1, 2, 4, 15, 16, 2**63 - 1])
def test_offset_without_segment_start_is_refused_with_a_hint(log: Log, base_offset: int) -> None:
    for refused in (lambda: locate_bytes(log, base_offset, 0, 1), lambda: locate_index(log, base_offset)):
        with pytest.raises(SegmentNotFound, match=f"log t/0 has no segment {base_offset}") as caught:
            refused()
        assert caught.value.hint == "list the segments again"


def test_raw_read_returns_damaged_bytes(log: Log, disk: FaultyDisk) -> None:
    disk.flip(log.segments[1].path, 500)
    assert read(log, 3) == read_all(disk, log.segments[1].path)


def test_raw_read_of_a_truncated_file_is_refused(log: Log, disk: FaultyDisk) -> None:
    disk.write_file(log.segments[1].path, read(log, 3)[:-1])
    with pytest.raises(RangeDamaged, match=f"ends at byte {3 * SIZE - 1}"):
        read(log, 3, SIZE)
    assert len(read(log, 3, 0, SIZE)) == SIZE


def test_closed_log_cannot_be_read(store: Store, log: Log) -> None:
    log.close()
    store.flush()
    for refused in (lambda: listed(log), lambda: locate_bytes(log, 0, 0, 1), lambda: locate_index(log, 0)):
        with pytest.raises(LogClosed):
            refused()


# --- the index ---


def test_index_entries_point_to_frames(log: Log) -> None:
    found = {message.offset: message.timestamp_ns for message in messages(log)}
    for segment in log.segments:
        table = entries(log, segment.base_offset)
        assert table
        for offset, position, time in table:
            assert (offset, time) == (segment.base_offset + position // SIZE, found[offset])


def test_index_is_equal_from_memory_files_and_segment(store: Store, log: Log, disk: FaultyDisk) -> None:
    before = {segment.base_offset: entries(log, segment.base_offset) for segment in log.segments}
    store.close()
    store = open_store(disk, tail_bytes=1)
    log = store.logs["t/0"]
    assert all(segment.index is None for segment in log.segments[:4])
    assert {base: entries(log, base) for base in before} == before
    for segment in log.segments[:4]:
        disk.remove(segment.index_path)
        store.resources.readers.drop(segment)
    assert {base: entries(log, base) for base in before} == before


# --- while something is removed or replaced ---


def test_located_read_gets_segments_removed_by_retention(log: Log, disk: FaultyDisk) -> None:
    expected = read(log, 0)
    found, index = locate_bytes(log, 0, 0, 10**9), locate_index(log, 0)
    job = expiry(log, disk, 6)
    job.run()
    assert load(found) == expected
    job.apply()
    assert load(found) == expected
    assert not isinstance(index, RawContent)
    assert index.load().content
    with pytest.raises(SegmentNotFound):
        read(log, 0)
    assert [one.base_offset for one in listed(log)] == [9, 12]


def test_segment_with_removed_file_is_not_found(log: Log, disk: FaultyDisk) -> None:
    job = expiry(log, disk, 6)
    job.run()
    for refused in (lambda: locate_bytes(log, 0, 0, 1), lambda: locate_index(log, 0)):
        with pytest.raises(SegmentNotFound, match="is being removed"):
            refused()
    job.apply()


def test_located_read_gets_segments_replaced_by_compaction(store: Store, log: Log) -> None:
    expected, version = read(log, 0), listed(log)[0].version
    found = locate_bytes(log, 0, 0, 10**9)
    job = compaction(log, store)
    job.run()
    assert read(log, 0, version=version) == expected, "until the log knows of it, the old one is given"
    job.apply()
    assert load(found) == expected
    assert offsets(expected) == [0, 1, 2]
    assert offsets(read(log, 0)) == [10, 11]


def test_read_of_replaced_segment_version_is_refused(store: Store, log: Log) -> None:
    *before, active = listed(log)
    job = compaction(log, store)
    job.run()
    job.apply()
    joined, same = listed(log)
    assert (joined[:2], same) == ((0, 12), active)
    for one in before:
        for refused in (
            lambda one=one: locate_bytes(log, one.base_offset, 0, 1, one.version),
            lambda one=one: locate_index(log, one.base_offset, one.version),
        ):
            with pytest.raises(SegmentNotFound) as caught:
                refused()
            assert caught.value.hint == "list the segments again"
    for one in (joined, same):
        assert read(log, one.base_offset, version=one.version) == read(log, one.base_offset) != b""


def test_compaction_changes_the_segment_version(store: Store, log: Log) -> None:
    seen = {listed(log)[0].version}
    for turn in range(3):
        append(store, log, b"%d" % turn + b"x" * 999, key=b"ab"[turn % 2 : turn % 2 + 1])
        log.roll()
        store.flush()
        job = compaction(log, store)
        job.run()
        job.apply()
        assert listed(log)[0].version not in seen
        seen.add(listed(log)[0].version)


def test_segment_version_changes_only_at_a_restart(
    store: Store, log: Log, disk: FaultyDisk, clock: ManualClock
) -> None:
    version = listed(log)[-1].version
    append(store, log, b"x" * 100)
    append(store, log, b"x" * 4000)
    assert (read(log, 12, version=version) != b"", listed(log)[-1].base_offset) == (True, 16)
    store.close()
    clock.advance(1)
    log = open_store(disk, clock, tail_bytes=1).logs["t/0"]
    with pytest.raises(GoQueueError, match="was replaced since it was listed"):
        read(log, 12, version=version)
