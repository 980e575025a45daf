"""A census of a segment: counted once, asked for any offsets, and never at odds with who reads everything."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.storage import frame
from goqueue.storage.index import Index
from goqueue.storage.segment import MessageCount, MessageCounts, OffsetSpan, Segment, SegmentReader
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment
from goqueue.testing.disk import FaultyDisk, FaultyFile

BASE = 10
DIRECTORY = "/data/logs/t/0"
NEVER_STEPS = 1 << 30


@dataclass(frozen=True)
class Record:
    """A record of a segment."""

    offset: int
    time: int
    is_control: bool = False
    value: bytes = b"value"

    def encode(self) -> bytes:
        flags = frame.CONTROL if self.is_control else 0
        return frame.encode(self.value, flags=flags, offset=self.offset, timestamp_ns=self.time)


@dataclass
class Written:
    """A segment with these records, up to an offset that a successor would begin with."""

    records: list[Record]
    next_offset: int

    def __post_init__(self) -> None:
        self.disk = FaultyDisk()
        self.disk.make_directory(DIRECTORY)
        content = b"".join(record.encode() for record in self.records)
        self.segment = Segment(DIRECTORY, BASE, len(content))
        self.disk.write_file(self.segment.path, content)

    @property
    def file(self) -> FaultyFile:
        return self.disk.open(self.segment.path, "read")

    def index(self) -> Index:
        return SegmentReader(self.disk, self.segment).examine(self.segment.size, self.next_offset)

    def message_counts(
        self, *, block_bytes: int = 100, step_bytes: int = NEVER_STEPS, index: Index | None = None
    ) -> MessageCounts:
        message_counts = MessageCounts(BASE, block_bytes=block_bytes)
        while message_counts.end < self.segment.size:
            message_counts = message_counts.extended(self.file, self.segment.size, self.next_offset, index, step_bytes)
        return message_counts

    def readable(self) -> Iterator[tuple[int, int]]:
        """Offset and time of each message, the naive way: all of the file in one go."""
        for piece in scan_segment(self.file, ScanRange(0, self.segment.size, BASE, self.next_offset)):
            if not isinstance(piece, Damage):
                columns = zip(piece.offsets.tolist(), piece.timestamps.tolist(), piece.flags.tolist(), strict=True)
                yield from ((offset, time) for offset, time, flags in columns if not flags & frame.CONTROL)


def twin(messages: list[tuple[int, int]], spans: list[OffsetSpan]) -> MessageCount:
    times = [time for offset, time in messages if any(first <= offset < end for first, end in spans)]
    return MessageCount(len(times), times[0] if times else None)


@st.composite
def written(draw: st.DrawFn) -> Written:
    steps = st.tuples(st.integers(1, 6), st.integers(0, 3), st.booleans(), st.binary(max_size=300))
    offset, time, records = BASE - 1, 1, []
    for gap, later, is_control, value in draw(st.lists(steps, max_size=30)):
        offset, time = offset + gap, time + later
        records.append(Record(offset, time, is_control, value))
    return Written(records, offset + draw(st.integers(1, 5)))


@st.composite
def spans_of(draw: st.DrawFn, next_offset: int) -> list[OffsetSpan]:
    edges = draw(st.sets(st.integers(BASE - 3, next_offset + 3), min_size=2, max_size=12))
    ordered = sorted(edges)[: len(edges) // 2 * 2]
    return list(zip(ordered[::2], ordered[1::2], strict=True))


@given(data=st.data(), segment=written(), block_bytes=st.sampled_from([1, 50, 400, 1 << 20]))
def test_counts_equal_those_of_a_full_read(data: st.DataObject, segment: Written, block_bytes: int) -> None:
    messages = [(record.offset, record.time) for record in segment.records if not record.is_control]
    message_counts = segment.message_counts(block_bytes=block_bytes)
    assert message_counts.whole() == twin(messages, [(0, segment.next_offset)])
    spans = data.draw(spans_of(segment.next_offset))
    assert message_counts.tally(segment.file, spans) == twin(messages, spans)


@given(data=st.data(), segment=written(), step_bytes=st.integers(1, 2000))
def test_counts_taken_in_steps_with_an_index_are_the_same(
    data: st.DataObject, segment: Written, step_bytes: int
) -> None:
    message_counts = segment.message_counts(step_bytes=step_bytes, index=segment.index())
    at_once = segment.message_counts()
    assert (message_counts.whole(), message_counts.next_offset, message_counts.end) == (
        at_once.whole(),
        at_once.next_offset,
        at_once.end,
    )
    spans = data.draw(spans_of(segment.next_offset))
    assert message_counts.tally(segment.file, spans) == at_once.tally(segment.file, spans)


@given(data=st.data(), segment=written(), block_bytes=st.sampled_from([1, 200, 1 << 20]))
def test_damaged_segment_counts_readable_messages(data: st.DataObject, segment: Written, block_bytes: int) -> None:
    for position in data.draw(st.lists(st.integers(0, max(0, segment.segment.size - 1)), max_size=3)):
        if segment.segment.size:
            segment.disk.flip(segment.segment.path, position, bit=3)
    messages = list(segment.readable())
    message_counts = segment.message_counts(block_bytes=block_bytes)
    assert message_counts.whole() == twin(messages, [(0, segment.next_offset)])
    spans = data.draw(spans_of(segment.next_offset))
    assert message_counts.tally(segment.file, spans) == twin(messages, spans)


@pytest.fixture
def gappy() -> Written:
    """Every third offset, a hundred messages in many blocks."""
    return Written([Record(BASE + 3 * number, 1000 + number) for number in range(100)], BASE + 300)


def test_counts_follow_a_growing_segment(gappy: Written) -> None:
    half = len(b"".join(record.encode() for record in gappy.records[:50]))
    early = MessageCounts(BASE, block_bytes=100).extended(gappy.file, half, gappy.records[50].offset)
    late = early.extended(gappy.file, gappy.segment.size, gappy.next_offset)
    assert (early.messages, late.messages) == (50, 100)
    assert (late.offsets.tolist(), late.before.tolist()) == (
        gappy.message_counts().offsets.tolist(),
        gappy.message_counts().before.tolist(),
    )


def test_tally_reads_only_the_edge_blocks(gappy: Written) -> None:
    message_counts = gappy.message_counts(block_bytes=400)
    first, end = gappy.records[20].offset + 1, gappy.records[80].offset + 1
    spared = bisect_left(message_counts.offsets.tolist(), first), bisect_left(message_counts.offsets.tolist(), end) - 2
    for block in range(*spared):
        gappy.disk.flip(gappy.segment.path, int(message_counts.positions[block]))
    assert message_counts.tally(gappy.file, [(first, end)]) == MessageCount(60, 1021)


def test_segment_without_frames_counts_zero() -> None:
    empty = Written([], BASE + 7)
    message_counts = MessageCounts(BASE)
    assert message_counts.whole() == MessageCount(0, None)
    assert message_counts.tally(empty.file, [(0, BASE + 7)]) == MessageCount(0, None)


def test_tally_after_later_damage_still_has_a_time(gappy: Written) -> None:
    message_counts = gappy.message_counts(block_bytes=1)
    for number in (50, 99):
        gappy.disk.flip(gappy.segment.path, int(message_counts.positions[number]))
        offset = gappy.records[number].offset
        assert message_counts.tally(gappy.file, [(offset, offset + 1)]) == MessageCount(0, None)
    assert message_counts.tally(gappy.file, [(gappy.records[50].offset, gappy.records[52].offset)]) == MessageCount(
        2, 1051
    )
    assert message_counts.tally(gappy.file, [(gappy.records[99].offset, gappy.next_offset)]) == MessageCount(1, 1099)
