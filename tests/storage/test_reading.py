"""Reading: from memory, from files, by any index and past damage, always what a list would give."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import DiskFailed, OffsetOutOfRange, RangeDamaged
from goqueue.storage import frame, scan
from goqueue.storage.flusher import FlushMode
from goqueue.storage.index import Index, mark
from goqueue.storage.log import Log, LogSettings
from goqueue.storage.reads import PendingRead
from goqueue.storage.store import Store, StoreSettings
from goqueue.storage.tail import BLOCK_OVERHEAD_BYTES
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk, FaultyFile
from tests.storage.stores import DATA, append, batch, offset_for_time, open_store, values

SEALED = f"{DATA}/logs/t/00000000000000000000"


@dataclass
class Batch:
    """An appended batch, and the pause before it."""

    values: list[bytes]
    pause_seconds: float


batches = st.lists(
    st.builds(
        Batch,
        st.lists(st.binary(max_size=30) | st.integers(0, 6000).map(bytes), min_size=1, max_size=12),
        st.sampled_from((0, 0, 1, 100)),
    ),
    max_size=8,
)


@dataclass
class Filled:
    """A log with messages in it, and a plain list of the same."""

    disk: FaultyDisk
    store: Store
    log: Log
    messages: list[frame.StoredMessage]


def filled(sent: list[Batch], *, tail_bytes: int = 2**20, flush: FlushMode = "always") -> Filled:
    disk, clock = FaultyDisk(), ManualClock()
    settings = StoreSettings(flush=flush, tail_bytes=tail_bytes, log=LogSettings(segment_bytes=4096))
    store = Store.open(disk, DATA, clock, owner="this test", settings=settings)
    log = store.create("t")
    messages: list[frame.StoredMessage] = []
    for one in sent:
        clock.advance(one.pause_seconds)
        log.append(batch(one.values, key=b"k"))
        store.flush()
        messages += (
            frame.StoredMessage(offset, clock.now_ns(), b"k", value)
            for offset, value in enumerate(one.values, len(messages))
        )
    return Filled(disk, store, log, messages)


def reopened(disk: FaultyDisk) -> Log:
    """The log as the next process has it, after the kernel lived on: with nothing in memory."""
    return open_store(disk.after_crash("everything")).log("t")


def decoded(log: Log, offset: int, max_bytes: int) -> tuple[list[frame.StoredMessage], int]:
    read = log.read(offset, max_bytes)
    found = [frame.decode(buffer, place) for buffer in read.buffers for place in frame.walk(buffer)]
    return found, read.next_offset


# --- three ways to the same messages ---


@given(batches, st.data(), st.sampled_from((0, 1, 100, 5000, 10**6)))
def test_reads_match_a_list_from_memory_and_files(sent: list[Batch], data: st.DataObject, max_bytes: int) -> None:
    there = filled(sent)
    tiny = filled(sent, tail_bytes=1)
    for log in (there.log, tiny.log, reopened(there.disk)):
        offset = data.draw(st.integers(0, len(there.messages)))
        found, next_offset = decoded(log, offset, max_bytes)
        assert found == there.messages[offset:next_offset]
        assert next_offset > offset or offset == len(there.messages)
        sizes = [len(frame.encode(one.value, one.key)) for one in found]
        assert sum(sizes) <= max_bytes or len(found) == 1
        assert [*everything(log, max_bytes)] == there.messages


def everything(log: Log, max_bytes: int) -> list[frame.StoredMessage]:
    messages, offset = decoded(log, 0, max_bytes)
    while offset < log.readable_end:
        more, offset = decoded(log, offset, max_bytes)
        messages += more
    return messages


@given(batches, st.integers(-5, 120))
def test_unknown_offset_is_refused_with_the_known_range(sent: list[Batch], offset: int) -> None:
    there = filled(sent)
    if 0 <= offset <= len(there.messages):
        assert there.log.read(offset, 100).next_offset >= offset
        return
    with pytest.raises(OffsetOutOfRange) as refused:
        there.log.read(offset, 100)
    assert refused.value.details == {"first": 0, "next": len(there.messages)}


@pytest.mark.parametrize("flush", ["always", "interval"])
@pytest.mark.parametrize("tail_bytes", [1, 2**20])
def test_unanswered_appends_are_not_read(flush: FlushMode, tail_bytes: int) -> None:
    there = filled([Batch([b"one", b"two"], 0)], tail_bytes=tail_bytes, flush=flush)
    there.log.append(batch([b"three"]))
    assert values(there.log) == [b"one", b"two"]
    assert there.log.read(2, 100).next_offset == 2
    there.store.flush()
    assert values(there.log) == [b"one", b"two", b"three"]


def test_read_from_files_respects_the_byte_limit() -> None:
    there = filled([Batch([bytes(100)] * 20, 0)] * 5, tail_bytes=1)
    size = len(frame.encode(bytes(100), b"k"))
    for max_bytes, count in ((0, 1), (1, 1), (size, 1), (2 * size - 1, 1), (2 * size, 2), (7 * size, 7)):
        read = there.log.read(0, max_bytes)
        assert (read.size, read.next_offset) == (count * size, count)


def test_message_larger_than_the_read_limit_comes_alone() -> None:
    there = filled([Batch([bytes(50_000), b"small"], 0)], tail_bytes=1)
    for max_bytes in (0, 1, 20_000, 49_999):
        assert [one.value for one in decoded(there.log, 0, max_bytes)[0]] == [bytes(50_000)]


@given(batches, st.data())
def test_time_lookup_matches_a_list(sent: list[Batch], data: st.DataObject) -> None:
    there = filled(sent)
    tiny = filled(sent, tail_bytes=2 * BLOCK_OVERHEAD_BYTES)
    times = [one.timestamp_ns for one in there.messages]
    time = data.draw(st.sampled_from([0, 1, *(time + step for time in times for step in (-1, 0, 1)), 2**62]))
    for log in (there.log, tiny.log, reopened(there.disk)):
        assert offset_for_time(log, time) == bisect_left(times, time)


# --- an index that is not what it should be ---


def of_another_log() -> tuple[bytes, bytes]:
    index = Index()
    index.note_frames(scan.walk(b"".join(frame.encode(bytes(700), offset=n, timestamp_ns=n + 1) for n in range(30))))
    return index.dump() + mark(30, 30 * 736), index.dump_times()


Spoil = Callable[[bytes, bytes], tuple[bytes | None, bytes | None]]
SPOILT: dict[str, Spoil] = {
    "missing": lambda _index, _times: (None, None),
    "without times": lambda index, _times: (index, None),
    "only times": lambda _index, times: (None, times),
    "empty": lambda _index, _times: (b"", b""),
    "torn": lambda index, times: (index[: len(index) // 2 + 3], times),
    "without its mark": lambda index, times: (index[:-24], times),
    "with a torn mark": lambda index, times: (index[:-7], times),
    "with torn times": lambda index, times: (index, times[: len(times) // 2 + 5]),
    "zeros": lambda index, times: (bytes(len(index)), bytes(len(times))),
    "garbage": lambda index, times: (b"?" * len(index), b"!" * len(times)),
    "stale": lambda index, times: (index[:32] + mark(9, 5000), times[:32]),
    "of another log": lambda _index, _times: of_another_log(),
    "exchanged": lambda index, times: (times, index),
    "in a wrong place": lambda index, times: (shifted(index), times),
}


def shifted(index: bytes) -> bytes:
    """Every entry but the first points four bytes too far."""
    for place in range(16 + 15, len(index) - 24, 16):
        index = index[:place] + bytes([index[place] ^ 4]) + index[place + 1 :]
    return index


def value_of(number: int) -> bytes:
    return b"%03d" % number + bytes(number % 90)


def sealed_segment(count: int) -> FaultyDisk:
    """A disk with a log of one sealed segment with so many messages, and an active one with one more."""
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock, segment_bytes=2**20)
    log = store.create("t")
    for number in range(0, count, 10):
        clock.advance(1)
        append(store, log, *map(value_of, range(number, min(count, number + 10))))
    log.roll()
    append(store, log, value_of(count))
    return disk


def spoilt(disk: FaultyDisk, spoil: Spoil) -> FaultyDisk:
    """The same disk with another index of the sealed segment."""
    disk = disk.after_crash("everything")
    paths = f"{SEALED}.index", f"{SEALED}.timeindex"
    for path, content in zip(paths, spoil(*map(disk.read_file, paths)), strict=True):
        disk.remove(path)
        if content is not None:
            disk.write_file(path, content)
    return disk


LARGE = 400
LARGE_DISK = sealed_segment(LARGE)


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_read_ignores_spoilt_index(spoil: Spoil) -> None:
    disk = spoilt(LARGE_DISK, spoil)
    for offset in (0, 1, 55, 130, 131, 250, 399, 400):
        assert values(reopened(disk), offset) == [value_of(number) for number in range(offset, LARGE + 1)]


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_time_lookup_ignores_spoilt_index(spoil: Spoil) -> None:
    disk, whole = spoilt(LARGE_DISK, spoil), reopened(LARGE_DISK)
    for number in range(0, LARGE, 10):
        time = decoded(whole, number, 1)[0][0].timestamp_ns
        assert offset_for_time(reopened(disk), time) == number


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_examine_rebuilds_the_index(spoil: Spoil) -> None:
    disk = spoilt(LARGE_DISK, spoil)
    log = open_store(disk).log("t")
    index = log.reader(log.segments[0]).examine(log.segments[0].size, LARGE)
    assert LARGE_DISK.read_file(f"{SEALED}.index").startswith(index.dump())
    assert LARGE_DISK.read_file(f"{SEALED}.timeindex") == index.dump_times()


def test_reads_with_an_index_ahead_of_its_log_report_the_loss() -> None:
    disk = LARGE_DISK.after_crash("everything")
    content = disk.read_file(f"{SEALED}.log")
    ends = scan.walk(content).positions.tolist()
    for count in (1, 59, 60, 61, 300, 399):
        disk.write_file(f"{SEALED}.log", content[: ends[count]])
        for offset in (0, count - 1, count):
            found = values(reopened(disk), offset, skip=True)
            assert found == [*map(value_of, range(offset, count)), value_of(LARGE)]
        with pytest.raises(RangeDamaged, match=f"{SEALED}.*ends before"):
            reopened(disk).read(count, 100)
        disk.write_file(f"{SEALED}.log", content[: ends[count] + 20])
        assert values(reopened(disk), skip=True) == [*map(value_of, range(count)), value_of(LARGE)]
        with pytest.raises(RangeDamaged):
            reopened(disk).read(count, 100)


# --- damage ---


SMALL = 12


def damaged_log(position: int) -> Log:
    disk = SMALL_DISK.after_crash("everything")
    disk.flip(f"{SEALED}.log", position, position % 8)
    return open_store(disk).log("t")


SMALL_DISK = sealed_segment(SMALL)
SMALL_CONTENT = SMALL_DISK.read_file(f"{SEALED}.log")
SMALL_STARTS = [*scan.walk(SMALL_CONTENT).positions.tolist(), len(SMALL_CONTENT)]


def places_of(number: int) -> range:
    return range(SMALL_STARTS[number], SMALL_STARTS[number + 1])


@pytest.mark.parametrize("number", range(SMALL))
def test_flipped_bit_hides_only_its_message_and_the_error_names_it(number: int) -> None:
    healthy = [value_of(other) for other in range(SMALL + 1) if other != number]
    for position in places_of(number):
        log = damaged_log(position)
        assert values(log, skip=True) == values(log, max_bytes=1, skip=True) == healthy
        assert up_to_damage(log) == [value_of(other) for other in range(number)]
        with pytest.raises(RangeDamaged, match=f"{SEALED}.log is damaged from byte {SMALL_STARTS[number]} to ") as met:
            log.read(number, 1000)
        details = met.value.details
        assert details["path"] == f"{SEALED}.log"
        assert (details["position"], details["end"]) == (SMALL_STARTS[number], SMALL_STARTS[number + 1])
        assert (details["first_offset"], details["next_offset"]) == (number, number + 1)
        assert f"read on from offset {number + 1}" in str(met.value.hint)
        assert values(log, details["next_offset"]) == [value_of(other) for other in range(number + 1, SMALL + 1)]


def up_to_damage(log: Log) -> list[bytes]:
    found: list[bytes] = []
    offset = 0
    while True:
        try:
            messages, offset = decoded(log, offset, 100)
        except RangeDamaged:
            return found
        found += [one.value for one in messages]


def test_read_reports_skipped_offsets() -> None:
    read = damaged_log(SMALL_STARTS[5] + 36).read(5, 10, skip_damage=True)
    assert [(one.first_offset, one.next_offset) for one in read.skipped] == [(5, 6)]
    assert read.next_offset == 7


def test_skipped_damage_is_reported_to_later_readers() -> None:
    log = damaged_log(SMALL_STARTS[5] + 36)
    assert len(values(log, skip=True)) == SMALL
    with pytest.raises(RangeDamaged):
        log.read(5, 1000)
    assert len(values(log, skip=True)) == SMALL


flips_anywhere = st.sets(st.integers(0, len(SMALL_CONTENT) - 1), min_size=1, max_size=4)


@given(flips_anywhere, st.integers(0, SMALL), st.integers(0, 400))
def test_several_flips_cost_only_what_they_hit(flips: set[int], offset: int, max_bytes: int) -> None:
    disk = SMALL_DISK.after_crash("everything")
    for position in flips:
        disk.flip(f"{SEALED}.log", position)
    hit = {number for number in range(SMALL) for position in flips if position in places_of(number)}
    log = open_store(disk).log("t")
    healthy = [value_of(number) for number in range(offset, SMALL + 1) if number not in hit]
    assert values(log, offset, max_bytes=max_bytes, skip=True) == healthy


def test_frames_out_of_order_are_never_returned() -> None:
    frames = [frame.encode(bytes(5000), offset=offset, timestamp_ns=10**18) for offset in (0, 1, 2, 1, 5, 6, 7)]
    disk = SMALL_DISK.after_crash("everything")
    index = Index()  # one that leads readers past the place, as a writer with such a mistake would leave it
    index.note_frames(scan.walk(b"".join(frames[:3])))
    disk.write_file(f"{SEALED}.log", b"".join(frames))
    disk.write_file(f"{SEALED}.index", index.dump() + mark(8, 7 * 5036))
    disk.write_file(f"{SEALED}.timeindex", index.dump_times())
    log = open_store(disk).log("t")
    with pytest.raises(RangeDamaged):
        log.read(3, 1)
    found = everything_skipping(log)
    assert found == sorted(set(found))
    assert found[:3] == [0, 1, 2]


def everything_skipping(log: Log) -> list[int]:
    found: list[int] = []
    offset = 0
    while offset < log.readable_end:
        read = log.read(offset, 1, skip_damage=True)
        found += [frame.offset_at(buffer) for buffer in read.buffers]
        offset = read.next_offset
    return found


def test_file_changed_while_read_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_store(SMALL_DISK.after_crash("everything")).log("t")
    monkeypatch.setattr(PendingRead, "_attempt", lambda *_: None)
    with pytest.raises(RangeDamaged, match="changed while it was read"):
        log.read(0, 100)


# --- a file that was cut ---


def test_sealed_segment_cut_between_messages_is_damage(disk: FaultyDisk) -> None:
    store = open_store(disk, tail_bytes=0, segment_bytes=1 << 20)
    log = store.create("t")
    for number in range(10):
        append(store, log, b"%d" % number)
    log.roll()
    append(store, log, b"behind")
    store.close()
    content = disk.read_file(f"{SEALED}.log")
    disk.write_file(f"{SEALED}.log", content[: len(content) // 10 * 7])
    for _ in range(2):  # the proof outlives the first reader
        store = open_store(disk, tail_bytes=0, segment_bytes=1 << 20)
        log = store.log("t")
        with pytest.raises(RangeDamaged) as met:
            values(log)
        assert (met.value.details["first_offset"], met.value.details["next_offset"]) == (7, 10)
        assert values(log, skip=True) == [*(b"%d" % number for number in range(7)), b"behind"]
        store.close()


# --- a device that cannot read ---


def unreadable(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Have the device fail at every read of this block of any log."""
    read = FaultyFile.read

    def refusing(file: FaultyFile, position: int, into: memoryview) -> int:
        if file._path.endswith(".log") and position < (number + 1) * 4096 and number * 4096 < position + len(into):
            raise DiskFailed(f"the device failed at {file._path}")
        return read(file, position, into)

    monkeypatch.setattr(FaultyFile, "read", refusing)


@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("spoil", [None, "index"])
def test_unreadable_block_hides_only_its_messages(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch, block: int, spoil: str | None
) -> None:
    store = open_store(disk, tail_bytes=1, segment_bytes=20_000)
    log, contents = store.create("t"), [b"%03d" % number * 50 for number in range(120)]
    for content in contents:
        append(store, log, content)
    assert len(log.segments) == 2
    ends = [number * len(batch(contents[:1]).buffer) for number in range(log.segments[1].base_offset + 1)]
    lost = [one for one in range(len(ends) - 1) if ends[one] < block * 4096 + 4096 and block * 4096 < ends[one + 1]]
    first, after = lost[0], lost[-1] + 1
    if spoil:
        disk.remove(log.segments[0].index_path)
    unreadable(monkeypatch, block)
    with pytest.raises(RangeDamaged) as caught:
        values(log, first)
    assert (caught.value.details["first_offset"], caught.value.details["next_offset"]) == (first, after)
    sealed = log.segments[1].base_offset
    found = values(log, skip=True)
    assert [value for value in found if value in contents[:sealed]] == contents[:first] + contents[after:sealed]


@pytest.mark.parametrize("segment", [0, 1, 2])
def test_time_lookup_with_a_damaged_first_timestamp(segment: int) -> None:
    there = filled([Batch([b"%d" % number * 200], 10) for number in range(60)])
    starts = [one.base_offset for one in there.log.segments]
    assert len(starts) > 3
    for bit in range(8):
        disk = there.disk.after_crash("everything")
        disk.flip(f"{DATA}/logs/t/{starts[segment]:020d}.log", frame.AT_TIMESTAMP + 2, bit)
        log = open_store(disk).log("t")
        for offset, message in enumerate(there.messages):
            expected = offset + 1 if offset == starts[segment] else offset
            assert offset_for_time(log, message.timestamp_ns) == expected
