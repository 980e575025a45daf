"""Which lane each message of a segment is in: noted while messages come, written, read, and surveyed anew."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.storage import frame, scan
from goqueue.storage.lanes import (
    LANES,
    NO_LANE,
    AppendedLanes,
    LaneSummary,
    SegmentLanes,
    dump,
    lanes_of,
    load,
    scan_lanes,
)
from goqueue.storage.segment_scan import ScanRange
from goqueue.storage.transaction_index import as_edges, union
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import open_store

RANGES = st.tuples(st.integers(0, 200), st.integers(1, 40)).map(lambda pair: (pair[0], pair[0] + pair[1]))

# Priorities of messages, append by append: mostly alike, now and then mixed.
APPENDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(LANES), st.integers(1, 60)).map(lambda pair: [pair[0]] * pair[1]),
        st.lists(st.sampled_from(LANES), min_size=1, max_size=60),
    ),
    max_size=12,
)


def frames_with(lanes: list[int], flags: int = 0) -> scan.Frames:
    return scan.check_batch(bytearray(b"".join(frame.encode(b"v", priority=lane, flags=flags) for lane in lanes)))


def noted(appends: list[list[int]], first: int = 100) -> tuple[SegmentLanes, AppendedLanes, list[int]]:
    lanes, book, known = SegmentLanes(first), AppendedLanes(first), list[int]()
    for append in appends:
        book.note(lanes, frames_with(append), first + len(known))
        known += append
    return lanes, book, known


def told(lanes: SegmentLanes) -> list[int]:
    """The lane of each offset, which is in one only."""
    found: dict[int, int] = {}
    for lane, runs in enumerate(lanes.runs):
        for start, end in zip(*runs.columns(), strict=True):
            for offset in range(start, end):
                assert offset not in found
                found[offset] = lane
    return [found[offset] for offset in range(lanes.first, lanes.end)]


@given(APPENDS)
def test_lanes_of_appended_messages_are_recorded(appends: list[list[int]]) -> None:
    lanes, book, known = noted(appends)
    assert told(lanes) == known
    assert book.appended == [known.count(lane) for lane in LANES]


@given(APPENDS)
def test_adjacent_runs_are_merged(appends: list[list[int]]) -> None:
    lanes, _, known = noted(appends)
    assert lanes.run_count == sum(one != two for one, two in zip([NO_LANE, *known], known, strict=False))


@given(APPENDS)
def test_start_of_the_last_single_lane_range_is_known(appends: list[list[int]]) -> None:
    _, book, known = noted(appends, first=0)
    assert len(set(known[book.since :])) <= 1
    assert not known or book.lane == known[-1]
    assert not known or book.since == len(known) - len(known) or known[book.since - 1] != known[-1]


@given(APPENDS, st.data())
def test_lane_lookups_match_naive_model(appends: list[list[int]], data: st.DataObject) -> None:
    lanes, _, known = noted(appends, first=0)
    lane = data.draw(st.sampled_from(LANES))
    first, end = (data.draw(st.integers(0, len(known) + 2)) for _ in range(2))
    rest = [offset for offset in range(first, len(known)) if known[offset] == lane]
    assert lanes.runs[lane].next(first) == (rest[0] if rest else None)
    assert lanes.runs[lane].count(first, end) == sum(offset < end for offset in rest)
    assert lanes.runs[lane].count(first, end, 2) == min(2, sum(offset < end for offset in rest))
    spans = [offset for span in lanes.runs[lane].within(first, end) for offset in range(*span)]
    assert spans == [offset for offset in rest if offset < end]
    ranges = union(as_edges(data.draw(st.lists(RANGES, max_size=5))))
    counts = (lanes.runs[lane].count(*one) for one in ranges.tolist())
    assert lanes.runs[lane].count_in(ranges) == sum(counts)


@given(APPENDS, st.data())
def test_cut_removes_refused_messages(appends: list[list[int]], data: st.DataObject) -> None:
    lanes, book, known = noted(appends, first=0)
    offset = data.draw(st.integers(0, len(known)))
    book.cut(lanes, offset)
    assert told(lanes) == known[:offset]
    assert book.appended == [known[:offset].count(lane) for lane in LANES]
    book.note(lanes, frames_with([4, 4]), offset)
    assert told(lanes) == [*known[:offset], 4, 4]
    assert book.since == offset


@given(APPENDS, st.data())
def test_joined_parts_equal_the_whole(appends: list[list[int]], data: st.DataObject) -> None:
    whole, _, known = noted(appends, first=0)
    cut = data.draw(st.integers(0, len(known)))
    before, _, _ = noted([known[:cut]] if cut else [], first=0)
    after = SegmentLanes(cut)
    AppendedLanes(cut).note(after, frames_with(known[cut:]), cut) if known[cut:] else None
    joined = before.followed_by(after)
    assert (joined, joined.last) == (whole, whole.last)


@given(APPENDS)
def test_lane_file_round_trips(appends: list[list[int]]) -> None:
    lanes, _, _ = noted(appends)
    content = dump(lanes, size=4711)
    assert load(content, lanes.first, lanes.end, 4711) == lanes


@given(APPENDS, st.data())
def test_damaged_or_foreign_lane_file_is_ignored(appends: list[list[int]], data: st.DataObject) -> None:
    lanes, _, _ = noted(appends)
    content = bytearray(dump(lanes, size=4711))
    assert load(bytes(content), lanes.first, lanes.end, 4712) is None
    assert load(bytes(content), lanes.first, lanes.end + 1, 4711) is None
    assert load(bytes(content[:-1]), lanes.first, lanes.end, 4711) is None
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert load(bytes(content), lanes.first, lanes.end, 4711) is None


@given(APPENDS, st.data())
def test_lane_summary_counts_outside_the_middle(appends: list[list[int]], data: st.DataObject) -> None:
    lanes, _, known = noted(appends, first=0)
    digest, lane = LaneSummary.of(lanes), data.draw(st.sampled_from(LANES))
    offset = data.draw(st.integers(0, len(known)))
    if digest.is_beside(lane, offset):
        count = lanes.runs[lane].count(offset, len(known))
        assert count == (digest.counts[lane] if offset < digest.ends[lane] else 0)


def test_control_records_do_not_split_runs() -> None:
    content = b"".join(
        frame.encode(b"v", priority=lane, flags=flags)
        for lane, flags in ((1, 0), (2, frame.CONTROL), (1, 0), (3, 0), (2, frame.CONTROL))
    )
    frames = scan.walk(bytearray(content))
    assert lanes_of(frames).tolist() == [1, 1, 1, 3, 3]
    assert lanes_of(scan.walk(bytearray(frame.encode(b"v", flags=frame.CONTROL))), last=4).tolist() == [4]


def test_segment_scan_finds_the_same_lanes(disk: FaultyDisk) -> None:
    log = open_store(disk, segment_bytes=1 << 20).create("t/0")
    for lanes in ([2] * 50, [0, 2, 2, 4], [1]):
        log.append(frames_with(lanes))
    log._resources.flusher.flush()
    segment = log.active
    surveyed = scan_lanes(disk.open(segment.path, "read"), ScanRange(0, segment.size, 0, log.next_offset))
    assert surveyed == segment.lanes


def test_damaged_messages_count_as_normal_lane(disk: FaultyDisk) -> None:
    log = open_store(disk, segment_bytes=1 << 20).create("t/0")
    log.append(frames_with([0, 0, 0]))
    log._resources.flusher.flush()
    path = log.active.path
    length = log.active.size // 3
    content = bytearray(disk.read_file(path))
    content[length + 36] ^= 1
    file = disk.open(path, "write")
    file.write(0, [content])
    lanes = scan_lanes(disk.open(path, "read"), ScanRange(0, 3 * length, 0, 3))
    assert told(lanes) == [0, frame.NORMAL, 0]


def test_lane_file_supports_offsets_beyond_32_bits() -> None:
    lanes, far = SegmentLanes(7), 2**32 + 7
    lanes.add(2, 7, 9)
    lanes.add(0, far - 1, far + 1)
    lanes.add(2, far + 1, 2 * far)
    assert load(dump(lanes, 1), 7, 2 * far, 1) == lanes
    assert lanes.runs[2].within(8, 2 * far - 1) == [(8, 9), (far + 1, 2 * far - 1)]
    assert (lanes.runs[0].next(9), lanes.runs[2].next(9)) == (far - 1, far + 1)


def test_control_record_does_not_start_a_new_lane() -> None:
    lanes, book = SegmentLanes(0), AppendedLanes(0)
    book.note(lanes, frames_with([1, 1]), 0)
    book.note(lanes, frames_with([2], frame.CONTROL), 2, has_control=True)
    book.note(lanes, frames_with([1]), 3)
    assert (told(lanes), book.since, book.lane) == ([1, 1, 1, 1], 0, 1)
