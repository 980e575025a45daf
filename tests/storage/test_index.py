"""The sparse index: it follows from its log alone, and whatever is left of it after a tear is still true."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.limits import INDEX_BLOCK_BYTES
from goqueue.storage import frame, scan
from goqueue.storage.index import MARK_BYTES, PAIR_BYTES, Index, load, mark
from tests.storage.samples import KINDS, block_starts, logs, starts

SIZES = (40, 300, 1000, 4096, 5000, 9000)
Entry = tuple[int, int, int]


def entries(index: Index | None) -> list[Entry]:
    """(offset, position, time) of each."""
    assert index is not None
    return list(zip(index.offsets, index.positions, index.times, strict=True))


def naive(frames: list[bytes]) -> list[Entry]:
    """One for the first frame that starts in each block."""
    places = starts(frames)
    return [
        (frame.offset_at(frames[number]), places[number], frame.timestamp_at(frames[number]))
        for number in block_starts(frames)
    ]


def log_of(*sizes: int, first_offset: int = 0) -> list[bytes]:
    """Frames of these sizes."""
    return [
        frame.encode(bytes(size - 36), offset=offset, timestamp_ns=1000 + offset)
        for offset, size in enumerate(sizes, first_offset)
    ]


def index_of(frames: list[bytes], base_offset: int = 0) -> tuple[Index, bytes, bytes]:
    """The index of a whole log, and its two files as they are after a sync."""
    index = Index()
    index.note_frames(scan.walk(b"".join(frames)))
    next_offset = frame.offset_at(frames[-1]) + 1 if frames else base_offset
    index.marked = (next_offset, sum(map(len, frames)))
    return index, index.dump() + mark(*index.marked), index.dump_times()


def is_prefix(index: Index | None, of: Index) -> bool:
    return index is None or entries(index) == entries(of)[: len(index)]


FRAMES = log_of(*(100,) * 45, 9000, 100, 4000, 100, *(1000,) * 20)
INDEX, CONTENT, TIMES = index_of(FRAMES)
SIZE = sum(map(len, FRAMES))


# --- building ---


@given(logs(repeats=60))
def test_index_contains_the_first_frame_of_each_block(frames: list[bytes]) -> None:
    assert entries(index_of(frames)[0]) == naive(frames)


@given(st.lists(st.lists(st.sampled_from(SIZES), min_size=1, max_size=12), max_size=12))
def test_index_built_by_batches_equals_that_of_the_whole_log(batches: list[list[int]]) -> None:
    index, end = Index(), 0
    frames: list[bytes] = []
    for time, batch in enumerate(batches):
        first = len(frames)
        added = [frame.encode(bytes(size - 36), offset=first + n, timestamp_ns=time) for n, size in enumerate(batch)]
        frames += added
        before = len(index)
        assert index.note(first, end, starts(added), time) == len(index) - before
        end += sum(batch)
    assert entries(index) == naive(frames)
    by_array = Index()
    by_array.note_frames(scan.walk(b"".join(frames)))
    assert by_array == index


@given(st.lists(st.sampled_from(SIZES), min_size=1, max_size=40), st.data())
def test_cut_entries_can_be_added_again(sizes: list[int], data: st.DataObject) -> None:
    frames = log_of(*sizes)
    index, _, _ = index_of(frames)
    number = data.draw(st.integers(0, len(frames)))
    position = [*starts(frames), sum(sizes)][number]
    index.cut(position)
    assert entries(index) == naive(frames[:number])
    rest = scan.walk(b"".join(frames[number:]))
    index.note_many(rest.offsets, rest.positions + position, rest.timestamps)
    assert entries(index) == naive(frames)


def test_before_returns_an_independent_index() -> None:
    before = INDEX.before(3)
    before.add(1, 2, 3)
    assert entries(before) == [*entries(INDEX)[:3], (1, 2, 3)]
    assert entries(INDEX) == naive(FRAMES)


# --- looking up ---


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(-1, 55))
def test_lookups_find_the_last_entry_that_is_not_too_late(numbers: list[int], wanted: int) -> None:
    index, rising = Index(), sorted(set(numbers))
    for number, time in zip(rising, sorted(numbers), strict=False):
        index.add(number, number * 100, time)
    times = sorted(numbers)[: len(rising)]
    assert index.before_offset(wanted) == bisect_right(rising, wanted) - 1
    assert index.before_position(wanted * 100) == bisect_right(rising, wanted) - 1
    assert index.before_position(wanted * 100 - 1) == bisect_left(rising, wanted) - 1
    assert index.before_time(wanted) == bisect_left(times, wanted) - 1


# --- files ---


@given(logs(repeats=60, min_size=1), st.integers(0, 3))
def test_index_round_trips_through_its_files(frames: list[bytes], first: int) -> None:
    index, content, times = index_of(frames)
    size = sum(map(len, frames))
    assert load(content, times, frame.offset_at(frames[0]), size) == index
    assert index.dump(first) == index.dump()[first * PAIR_BYTES :]
    assert index.dump_times(first) == index.dump_times()[first * PAIR_BYTES :]


def test_mark_is_loaded_without_entries() -> None:
    assert load(mark(5, 100), b"", 5, 4096) == Index(marked=(5, 100))


def test_index_of_an_empty_segment_is_its_mark() -> None:
    loaded = load(mark(5, 0), b"", 5, 0)
    assert loaded == Index(marked=(5, 0))
    assert load(b"", b"", 5, 0) is None


@pytest.mark.parametrize("marked", [(0, 0), (1, 36), (2**63 - 1, 2**31)])
def test_mark_format(marked: tuple[int, int]) -> None:
    content = mark(*marked)
    assert len(content) == MARK_BYTES
    assert content[-4:] == b"GQIX"
    assert (int.from_bytes(content[:8], "big"), int.from_bytes(content[8:16], "big")) == marked


# --- what is left after a crash ---


def test_truncated_index_is_a_prefix_without_mark() -> None:
    for size in range(len(CONTENT)):
        loaded = load(CONTENT[:size], TIMES, 0, SIZE)
        assert is_prefix(loaded, INDEX)
        assert loaded is None or loaded.marked is None


def test_truncated_time_index_shortens_the_index() -> None:
    for size in range(len(TIMES)):
        loaded = load(CONTENT, TIMES[:size], 0, SIZE)
        assert is_prefix(loaded, INDEX)
        assert loaded is None or (len(loaded) == size // PAIR_BYTES and loaded.marked == INDEX.marked)


@pytest.mark.parametrize("count", [1, 30, 45, 46, 47, 48, 50, 60])
def test_torn_entries_over_an_old_mark_give_a_prefix(count: int) -> None:
    before, old, _ = index_of(FRAMES[:count])
    place = len(before) * PAIR_BYTES
    for torn in range(len(CONTENT) - place + 1):
        content = CONTENT[: place + torn] + old[place + torn :]
        loaded = load(content, TIMES, 0, SIZE)
        assert is_prefix(loaded, INDEX)
        assert loaded is None or loaded.marked in (None, before.marked, INDEX.marked)


def test_flipped_bit_in_the_mark_is_detected() -> None:
    for position in range(len(CONTENT) - MARK_BYTES, len(CONTENT)):
        for bit in range(8):
            wrong = bytearray(CONTENT)
            wrong[position] ^= 1 << bit
            loaded = load(bytes(wrong), TIMES, 0, SIZE)
            assert is_prefix(loaded, INDEX)
            assert loaded is None or loaded.marked is None


@pytest.mark.parametrize("zeros", [1, 8, 16, 23, 24, 512, 4096])
def test_trailing_zeros_end_the_index(zeros: int) -> None:
    loaded = load(CONTENT + bytes(zeros), TIMES + bytes(zeros), 0, SIZE)
    assert is_prefix(loaded, INDEX)
    assert loaded is None or loaded.marked is None
    assert load(bytes(zeros), bytes(zeros), 0, SIZE) is None


def test_zeroed_part_ends_the_index() -> None:
    for start in range(0, len(TIMES), 8):
        zeros = bytes(len(TIMES) - start)
        assert is_prefix(load(CONTENT[:start] + zeros + CONTENT[-MARK_BYTES:], TIMES, 0, SIZE), INDEX)
        assert is_prefix(load(CONTENT, TIMES[:start] + zeros, 0, SIZE), INDEX)


@given(st.binary(max_size=200), st.binary(max_size=200), st.integers(0, 2**64), st.integers(0, 2**31))
def test_garbage_is_not_loaded_as_index(content: bytes, times: bytes, base: int, size: int) -> None:
    loaded = load(content, times, base, size)
    assert loaded is None or (len(loaded), loaded.marked) == (0, None)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=8), st.integers(0, 2**31))
def test_overflowing_numbers_are_not_taken_as_rising(pairs: list[tuple[int, int]], size: int) -> None:
    table = [(0, 0), *pairs]
    loaded = load(packed(table) + mark(1, size), packed((1, offset) for offset, _ in table), 0, size)
    if loaded is not None:
        assert list(loaded.offsets) == sorted({*loaded.offsets})
        assert list(loaded.positions) == sorted({*loaded.positions})
        assert all(0 <= position < size for position in loaded.positions)


def packed(pairs: Iterable[tuple[int, int]]) -> bytes:
    return np.array([*pairs], ">u8").reshape(-1, 2).tobytes()


def test_overflowing_offsets_positions_and_times_are_refused() -> None:
    high, low = 2**62, 2**63 + 2**61  # their difference as signed numbers is positive again
    positions = [0, 4096, 8192, 12288]
    by_offset = load(packed(zip([0, high, low, high + 1], positions, strict=True)), packed([(1, 0)] * 4), 0, 2**31)
    assert by_offset is None or len(by_offset) <= 1
    by_position = packed([(0, 0), (1, high), (2, low), (3, low + 4096)]) + mark(4, 2**31)
    loaded = load(by_position, packed([(1, 0), (1, 1), (1, 2), (1, 3)]), 0, 2**31)
    assert entries(loaded) == [(0, 0, 1)]
    by_time = packed(zip(range(4), positions, strict=True)) + mark(4, 2**31)
    assert load(by_time, packed([(high, 0), (high, 1), (low, 2), (low, 3)]), 0, 2**31) is None


def test_index_behind_its_log_gives_its_entries() -> None:
    for count in range(1, len(FRAMES)):
        older, content, times = index_of(FRAMES[:count])
        assert load(content, times, 0, SIZE) == older


def test_index_ahead_of_its_log_omits_missing_entries() -> None:
    for size in (1, 36, 4000, 4096, 4500, 13_500, SIZE - 1):
        loaded = load(CONTENT, TIMES, 0, size)
        assert entries(loaded) == [entry for entry in naive(FRAMES) if entry[1] < size]
        assert loaded is not None
        assert loaded.marked == INDEX.marked
    assert load(CONTENT, TIMES, 0, 0) == Index(marked=INDEX.marked)


def test_an_index_of_another_segment_is_refused() -> None:
    _, content, times = index_of(log_of(*(1000,) * 20, first_offset=3))
    assert load(content, times, 4, 20_000) is None
    assert load(content, times, 3, 20_000) is not None
    assert load(content, times, 0, 20_000) is not None  # what compaction left of a segment may begin later
    assert load(content, TIMES, 3, 20_000) is None


@pytest.mark.parametrize(
    "table",
    [
        [(0, 36), (1, 4096)],
        [(0, 0), (0, 4096), (1, 8192)],
        [(1, 0), (0, 4096)],
        [(0, 0), (1, 0)],
        [(0, 0), (1, INDEX_BLOCK_BYTES - 1)],
        [(0, 0), (5, 8192), (9, 4096)],
    ],
)
def test_impossible_entry_order_ends_the_index(table: list[tuple[int, int]]) -> None:
    loaded = load(packed(table) + mark(9, 20_000), packed((7, offset) for offset, _ in table), 0, 20_000)
    assert loaded is None or len(loaded) < len(table)


def test_falling_times_are_refused() -> None:
    table = packed([(0, 0), (1, 4096), (2, 8192)]) + mark(9, 20_000)
    assert load(table, packed([(5, 0), (5, 1), (4, 2)]), 0, 20_000) is None
    assert load(table, packed([(5, 0), (5, 1), (5, 2)]), 0, 20_000) is not None


def test_frame_with_value_can_be_indexed() -> None:
    index, content, times = index_of(list(KINDS.values())[1:2])
    assert load(content, times, 0, 1000) == index
