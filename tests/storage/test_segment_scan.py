"""Scans of damaged segments return every sound message and the ranges of the others."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import DiskFailed
from goqueue.limits import FRAME_BYTES_MAX, OFFSET_MAX, SCAN_CHUNK_BYTES, VALUE_BYTES_MAX
from goqueue.storage import frame, scan, segment_scan
from goqueue.storage.disk import File
from goqueue.storage.index import Index
from goqueue.storage.segment_scan import Damage, ScanRange, sound_frame
from tests.storage.samples import flipped, logs, starts


@dataclass
class MemoryFile:
    """A file for reading that remembers how much was asked of it at once."""

    content: bytes
    asked: list[int] = field(default_factory=list)

    def read(self, position: int, into: memoryview) -> int:
        assert position >= 0
        self.asked.append(len(into))
        piece = self.content[position : position + len(into)]
        into[: len(piece)] = piece
        return len(piece)

    @property
    def file(self) -> File:
        """A survey only ever reads."""
        return cast(File, self)


@dataclass
class Found:
    """All that a survey said."""

    frames: list[bytes] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)


def surveyed(
    content: bytes, *, index: Index | None = None, next_offset: int = OFFSET_MAX, memory: MemoryFile | None = None
) -> Found:
    """Survey all of it, and check what must hold of every survey."""
    found, end, offset, time = Found(), 0, -1, 0
    for piece in segment_scan.scan_segment(
        (memory or MemoryFile(content)).file, ScanRange(0, len(content), 0, next_offset), index
    ):
        if isinstance(piece, Damage):
            assert end == piece.position < piece.end
            assert piece.first_offset == offset + 1
            assert piece.next_offset >= piece.first_offset
            assert piece.reason
            found.damages.append(piece)
            end, offset = piece.end, piece.next_offset - 1
            continue
        assert len(piece)
        for position, length in zip(piece.positions.tolist(), piece.lengths.tolist(), strict=True):
            assert piece.origin + position == end
            found.frames.append(bytes(piece.buffer[position : position + length]))
            assert frame.verify(found.frames[-1]) == length
            assert frame.offset_at(found.frames[-1]) > offset
            assert frame.timestamp_at(found.frames[-1]) >= time
            offset, time = frame.offset_at(found.frames[-1]), frame.timestamp_at(found.frames[-1])
            end += length
    assert end == len(content)
    return found


def log_of(*values: bytes, first_offset: int = 0) -> list[bytes]:
    return [
        frame.encode(value, b"k", offset=offset, timestamp_ns=1000 + offset)
        for offset, value in enumerate(values, first_offset)
    ]


def index_of(frames: list[bytes]) -> Index:
    index = Index()
    index.note_frames(scan.walk(b"".join(frames)))
    return index


# Twelve messages over four blocks of the index.
LOG = log_of(*(bytes([65 + number]) * size for number, size in enumerate((5, 3000, 40, 0, 4000, 7, 1200) * 2)))[:12]
CONTENT = b"".join(LOG)
STARTS = [*starts(LOG), len(CONTENT)]

with_and_without_index = pytest.mark.parametrize("index", [None, index_of(LOG)], ids=["no index", "index"])


@pytest.fixture
def small_frames(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let no frame be larger than this, so that small logs need several windows."""
    monkeypatch.setattr(segment_scan, "FRAME_BYTES_MAX", 600)
    return 600


# --- nothing wrong ---


@given(logs(repeats=60), st.booleans())
def test_scan_of_undamaged_log_returns_all_frames(frames: list[bytes], with_index: bool) -> None:
    found = surveyed(b"".join(frames), index=index_of(frames) if with_index else None)
    assert found == Found(frames)


@pytest.mark.parametrize("size", [SCAN_CHUNK_BYTES - 60, SCAN_CHUNK_BYTES, SCAN_CHUNK_BYTES * 2 + 5])
def test_frame_larger_than_a_read_is_found(size: int) -> None:
    frames = log_of(b"before", bytes(size), b"behind")
    assert surveyed(b"".join(frames)) == Found(frames)
    assert surveyed(b"".join(frames), index=index_of(frames)) == Found(frames)


def test_scan_of_a_part_of_a_log() -> None:
    stretch = ScanRange(STARTS[3], STARTS[7], 3, 7)
    (piece,) = segment_scan.scan_segment(MemoryFile(CONTENT).file, stretch, index_of(LOG))
    assert isinstance(piece, scan.Frames)
    assert piece.offsets.tolist() == [3, 4, 5, 6]
    assert piece.origin == STARTS[3]


# --- one thing wrong ---


@with_and_without_index
def test_flipped_byte_hides_one_message(index: Index | None) -> None:
    for number, one in enumerate(LOG):
        # All of the header, and of a large value some bytes on each side.
        places = [*range(min(len(one), 60)), *range(max(60, len(one) - 40), len(one))]
        for position in places:
            content = flipped(CONTENT, STARTS[number] + position, position % 8)
            found = surveyed(content, index=index, next_offset=len(LOG))
            assert found.frames == LOG[:number] + LOG[number + 1 :]
            (damage,) = found.damages
            assert (damage.position, damage.end) == (STARTS[number], STARTS[number + 1])
            assert (damage.first_offset, damage.next_offset) == (number, number + 1)


def test_damage_in_the_last_frame_without_known_end() -> None:
    found = surveyed(flipped(CONTENT, STARTS[11] + 40))
    assert found.frames == LOG[:11]
    (damage,) = found.damages
    assert (damage.position, damage.end) == (STARTS[11], STARTS[12])
    assert (damage.first_offset, damage.next_offset) == (11, 12)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda one: bytes(len(one)), "zeros"),
        (lambda one: b"?" * len(one), "no frame starts here: 3f 3f"),
        (lambda one: flipped(one, 28, 7), "value of"),
        (lambda one: flipped(one, 40), "the checksum is"),
        (lambda one: frame.encode(one[35:-2], b"k", offset=0, timestamp_ns=2000), "offset 0 or its time is out of"),
        (lambda one: frame.encode(one[35:-2], b"k", offset=11, timestamp_ns=1), "offset 11 or its time is out of"),
    ],
)
def test_damage_reason_names_the_problem(spoil: Callable[[bytes], bytes], reason: str) -> None:
    found = surveyed(CONTENT[: STARTS[11]] + spoil(LOG[11]), next_offset=12)
    assert found.frames == LOG[:11]
    assert [reason in damage.reason for damage in found.damages] == [True]


@with_and_without_index
def test_log_truncated_at_any_byte_keeps_whole_messages(index: Index | None) -> None:
    for size in (*range(STARTS[4] - 50, STARTS[4] + 50), *range(STARTS[11], STARTS[12], 7)):
        number = sum(start <= size for start in STARTS[1:])
        found = surveyed(CONTENT[:size], index=index, next_offset=12)
        assert found.frames == LOG[:number]
        assert [(one.position, one.end) for one in found.damages] == [(STARTS[number], size)] * (size > STARTS[number])
        assert all((one.first_offset, one.next_offset) == (number, 12) for one in found.damages)


def test_missing_end_of_file_is_damage() -> None:
    pieces = [*segment_scan.scan_segment(MemoryFile(CONTENT[: STARTS[5]]).file, ScanRange(0, len(CONTENT), 0, 12))]
    assert pieces[-1] == Damage(STARTS[5], len(CONTENT), 5, 12, "the file ends before")


@pytest.mark.parametrize("behind", [1, 33, 34, 4096])
def test_zeros_are_damage(behind: int) -> None:
    found = surveyed(CONTENT + bytes(behind), index=index_of(LOG))
    assert found.frames == LOG
    assert [(one.position, one.reason) for one in found.damages] == [(len(CONTENT), "zeros")]
    assert surveyed(bytes(behind)).frames == []


# --- several things wrong ---


@with_and_without_index
@given(flips=st.sets(st.integers(0, len(CONTENT) - 1), max_size=5))
def test_several_flips_cost_only_the_messages_they_hit(index: Index | None, flips: set[int]) -> None:
    content = CONTENT
    for position in flips:
        content = flipped(content, position, position % 8)
    hit = {number for number in range(12) for position in flips if STARTS[number] <= position < STARTS[number + 1]}
    found = surveyed(content, index=index, next_offset=12)
    assert found.frames == [one for number, one in enumerate(LOG) if number not in hit]
    lost = [offset for damage in found.damages for offset in range(damage.first_offset, damage.next_offset)]
    assert lost == sorted(hit)


@given(logs(values=st.binary(max_size=60), min_size=1), st.data())
def test_overwritten_bytes_cost_only_their_messages(frames: list[bytes], data: st.DataObject) -> None:
    content, places = b"".join(frames), starts(frames)
    start = data.draw(st.integers(0, len(content) - 1))
    rubbish = data.draw(st.binary(min_size=1, max_size=200))[: len(content) - start]
    spoilt = content[:start] + rubbish + content[start + len(rubbish) :]
    untouched = [one for one, place in zip(frames, places, strict=True) if spoilt[place : place + len(one)] == one]
    found = surveyed(spoilt, index=data.draw(st.sampled_from([None, index_of(frames)])))
    assert found.frames == untouched


def test_duplicated_frames_are_returned_once() -> None:
    doubled = b"".join([*LOG[:6], *LOG[3:]])
    found = surveyed(doubled, next_offset=12)
    offsets = [frame.offset_at(one) for one in found.frames]
    assert offsets[:6] == [0, 1, 2, 3, 4, 5]
    assert offsets[6:] == [7, 8, 9, 10, 11]  # 6 lies directly behind the damage, which hides at least one message
    assert [(one.first_offset, one.next_offset) for one in found.damages] == [(6, 7)]


@given(st.permutations(range(8)))
def test_shuffled_frames_are_returned_in_order(order: list[int]) -> None:
    found = surveyed(b"".join(LOG[number] for number in order))
    assert set(found.frames) <= set(LOG)


def test_damage_longer_than_a_window_is_skipped(small_frames: int) -> None:
    frames = log_of(*(bytes(100) for _ in range(90)))
    places = starts(frames)
    for length in (small_frames - 1, small_frames, 3 * small_frames, 8 * small_frames):
        last = next(number for number, place in enumerate(places) if place >= places[7] + length)
        content = b"".join(frames[:7]) + b"?" * (places[last] - places[7]) + b"".join(frames[last:])
        found = surveyed(content)
        assert found.frames == frames[:7] + frames[last:]
        assert [(one.position, one.end) for one in found.damages] == [(places[7], places[last])]


# --- forgery ---


def forgeries(outer_offset: int) -> Iterator[tuple[str, bytes]]:
    """Values with a sound frame in them that claims to be what comes next."""
    for offset in (outer_offset, outer_offset + 1, outer_offset + 2, outer_offset + 3, OFFSET_MAX):
        for time in (1000 + outer_offset, 1001 + outer_offset, 2**62):
            inner = frame.encode(b"forged", b"k", offset=offset, timestamp_ns=time)
            yield f"{offset} at the start", inner + b"and more"
            yield f"{offset} in the middle", b"some" + inner + b"and more"
            yield f"{offset} up to the frame behind", b"some" + inner[:-2]  # the outer frame's own end is its end
            yield f"{offset} and another", inner + frame.encode(b"", offset=offset + 1 & OFFSET_MAX, timestamp_ns=time)


@with_and_without_index
def test_forged_frame_inside_a_value_is_not_returned(index: Index | None) -> None:
    for number in (0, 10):
        for what, value in forgeries(number):
            frames = LOG.copy()
            frames[number] = frame.encode(value, b"k", offset=number, timestamp_ns=1000 + number)
            content, place = b"".join(frames), starts(frames)[number]
            for byte in (0, 4, 15, 24, 27, 29, 31, 34):
                found = surveyed(flipped(content, place + byte), index=index and index_of(frames), next_offset=12)
                assert found.frames == frames[:number] + frames[number + 1 :], what
                assert [(one.first_offset, one.next_offset) for one in found.damages] == [(number, number + 1)]


def test_forged_frame_inside_the_last_value_is_not_returned() -> None:
    for what, value in forgeries(11):
        last = frame.encode(value, b"k", offset=11, timestamp_ns=1011)
        content = flipped(CONTENT[: STARTS[11]] + last, STARTS[11] + 20)
        assert surveyed(content, next_offset=12).frames == LOG[:11], what


@pytest.mark.usefixtures("small_frames")
def test_forged_frame_at_a_window_end_is_not_returned() -> None:
    forged = frame.encode(b"forged", offset=1000, timestamp_ns=5000)
    for padding in range(0, 150, 7):
        values = [b"hit", *([bytes(100)] * 6), bytes(padding), *([forged * 4] * 12), b"last"]
        frames = log_of(*values)
        found = surveyed(flipped(b"".join(frames), 20))
        assert found.frames == frames[1:]
        assert [(one.first_offset, one.next_offset) for one in found.damages] == [(0, 1)]


# --- a device that cannot read ---


@dataclass
class BadBlock(MemoryFile):
    """A file of which the device cannot read one block."""

    bad: range = range(0)

    def read(self, position: int, into: memoryview) -> int:
        if position < self.bad.stop and self.bad.start < position + len(into):
            raise DiskFailed("the device failed")
        return super().read(position, into)


SMALL = log_of(*(bytes([65 + number % 26]) * (number * 37 % 700) for number in range(90)))


@pytest.mark.parametrize("block", range(len(b"".join(SMALL)) // 4096 + 1))
@pytest.mark.parametrize("index", [None, index_of(SMALL)], ids=["no index", "index"])
def test_unreadable_block_hides_only_its_messages(block: int, index: Index | None) -> None:
    content, bad = b"".join(SMALL), range(block * 4096, block * 4096 + 4096)
    found = surveyed(content, memory=BadBlock(content, bad=bad), index=index, next_offset=len(SMALL))
    ends = [*starts(SMALL), len(content)]
    lost = [number for number in range(len(SMALL)) if ends[number] < bad.stop and bad.start < ends[number + 1]]
    assert found.frames == SMALL[: lost[0]] + SMALL[lost[-1] + 1 :]
    assert [(one.first_offset, one.next_offset) for one in found.damages] == [(lost[0], lost[-1] + 1)]


# --- memory ---


def test_wrong_length_reads_at_most_one_frame() -> None:
    size = FRAME_BYTES_MAX + 5_000_000
    for length in (VALUE_BYTES_MAX, VALUE_BYTES_MAX + 1, 2**32 - 1):
        lying = bytearray(LOG[0])
        lying[28:32] = length.to_bytes(4, "big")
        memory = MemoryFile(bytes(lying) + bytes(size))
        next(segment_scan.scan_segment(memory.file, ScanRange(0, len(memory.content), 0)))
        asked_for_the_frame = memory.asked[:-1]  # what follows is the window, whatever the length
        assert max(asked_for_the_frame) <= FRAME_BYTES_MAX
        assert memory.asked[-1] <= 2 * FRAME_BYTES_MAX


def test_scan_reads_no_more_than_the_file() -> None:
    for position in range(26, 34):
        for bit in range(8):
            memory = MemoryFile(flipped(CONTENT, STARTS[4] + position, bit))
            surveyed(memory.content, memory=memory, index=index_of(LOG))
            assert max(memory.asked) <= len(CONTENT)


def test_frames_after_damage_are_returned_together() -> None:
    frames = log_of(*(b"v" for _ in range(2000)))
    pieces = [
        *segment_scan.scan_segment(
            MemoryFile(flipped(b"".join(frames), 20)).file, ScanRange(0, sum(map(len, frames)), 0)
        )
    ]
    assert len(pieces) == 2


# --- entries of an index ---


def is_found(file: File, position: int, offset: int, end: int) -> bool:
    found = sound_frame(file, position, end)
    return found is not None and frame.offset_at(found) == offset


def test_sound_frame_rejects_wrong_index_entries() -> None:
    file = MemoryFile(CONTENT).file
    for number in range(12):
        assert is_found(file, STARTS[number], number, len(CONTENT))
        assert not is_found(file, STARTS[number], number + 1, len(CONTENT))
        assert not is_found(file, STARTS[number] + 1, number, len(CONTENT))
        assert not is_found(file, STARTS[number], number, STARTS[number + 1] - 1)
        assert not is_found(
            MemoryFile(flipped(CONTENT, STARTS[number] + 36)).file, STARTS[number], number, len(CONTENT)
        )
    assert not is_found(file, len(CONTENT), 12, len(CONTENT))
    assert not is_found(file, len(CONTENT) + 5000, 12, len(CONTENT))


@given(st.lists(st.tuples(st.integers(0, 13), st.integers(0, len(CONTENT) + 100)), max_size=6), st.integers(0, 11))
def test_wrong_index_changes_no_result(pairs: list[tuple[int, int]], number: int) -> None:
    index = Index()
    for offset, position in zip(sorted({one for one, _ in pairs}), sorted({one for _, one in pairs}), strict=False):
        index.add(offset, position, 0)
    found = surveyed(flipped(CONTENT, STARTS[number] + 20), index=index, next_offset=12)
    assert found.frames == LOG[:number] + LOG[number + 1 :]
    assert [one.position for one in found.damages] == [STARTS[number]]
