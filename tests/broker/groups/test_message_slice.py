"""Slices of a read, against a naive walk over every message."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.groups.fetch import MessageSlice, first_lane_of, slice_read, without_blocked_keys
from goqueue.storage import frame, scan
from goqueue.storage.reads import ReadResult


def written(offset: int, key: bytes | None = None, control: bool = False, lane: int = frame.NORMAL) -> bytes:
    flags = frame.CONTROL if control else 0
    frames = scan.check_batch(bytearray(frame.encode(b"value", key, priority=lane, flags=flags)))
    scan.stamp(frames, offset, 1)
    return bytes(frames.buffer)


def read_of(*buffers: list[bytes], next_offset: int) -> ReadResult:
    return ReadResult(tuple(memoryview(b"".join(frames)) for frames in buffers), next_offset)


def offsets_of(content: MessageSlice) -> list[int]:
    """Return the offsets of messages, without control records."""
    return [
        frame.offset_at(buffer, position)
        for buffer in content.buffers
        for position in frame.walk(buffer)
        if not buffer[position + frame.AT_FLAGS] & frame.CONTROL
    ]


def offsets_in(ranges: tuple[tuple[int, int], ...]) -> list[int]:
    return [offset for first, end in ranges for offset in range(first, end)]


def test_dense_read_is_sliced_without_scanning() -> None:
    read = read_of([written(offset) for offset in range(3, 6)], next_offset=6)
    content = slice_read(read, 3, 100, 3, dense=True)
    assert content.buffers[0] is read.buffers[0]
    assert (content.first, content.end, content.count, content.gaps) == (3, 6, 3, ())


def test_number_of_stretches_is_limited() -> None:
    read = read_of([written(0, b"a"), written(1, b"b"), written(2, b"a"), written(3)], next_offset=4)
    stretches, held = without_blocked_keys(slice_read(read, 0, 4, 10, dense=True), {b"a": 1}, 1)
    assert ([offsets_of(one) for one in stretches], held) == ([[0, 1]], [])


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, b"a", b"b"]), st.booleans()), max_size=10),
    st.integers(0, 25),
    st.integers(1, 12),
    st.integers(0, 3),
    st.integers(1, 4),
    st.dictionaries(st.sampled_from([b"a", b"b"]), st.integers(0, 20)),
)
def test_every_offset_is_message_gap_or_held_back(
    steps: list[tuple[int, bytes | None, bool]],
    end: int,
    most: int,
    behind: int,
    split: int,
    blocked: dict[bytes, int],
) -> None:
    keys: dict[int, bytes | None] = {}
    frames, offset = [], -1
    for step, key, is_control in steps:
        offset += step
        frames.append(written(offset, key, is_control))
        if not is_control:
            keys[offset] = key
    buffers = [frames[number : number + split] for number in range(0, len(frames), split)]
    read = read_of(*buffers, next_offset=offset + 1 + behind)
    plain = slice_read(read, 0, end, most, dense=False)
    expected = [one for one in keys if one < min(end, read.next_offset)][:most]
    assert offsets_of(plain) == expected
    assert plain.end <= min(end, read.next_offset)
    if len(expected) < most:
        assert plain.end == min(end, read.next_offset)
    stretches, left_out = without_blocked_keys(plain, blocked, 99)
    held = [one for one in expected if (key := keys[one]) is not None and blocked.get(key, 99) < one]
    assert offsets_in(tuple(left_out)) == held
    assert [offset for one in stretches for offset in offsets_of(one)] == [one for one in expected if one not in held]
    gaps = [offset for one in stretches for offset in offsets_in(one.gaps)]
    assert sorted(expected + gaps) == list(range(plain.end))
    assert sum(one.count for one in stretches) == len(expected) - len(held)
    assert all(one.end <= other.first for one, other in pairwise(stretches))


lanes = st.lists(st.sampled_from([None, 0, 2]), min_size=1, max_size=8)


@given(lanes, st.data())
def test_first_lane_slice_ends_at_other_lane(lanes: list[int | None], data: st.DataObject) -> None:
    """None is a control record, which is of no lane."""
    frames = [written(offset, control=lane is None, lane=lane or 0) for offset, lane in enumerate(lanes)]
    at = data.draw(st.integers(0, len(frames)))
    read = read_of(*(some for some in (frames[:at], frames[at:]) if some), next_offset=len(frames))
    content = first_lane_of(slice_read(read, 0, len(frames), 100, dense=False))
    plain = [(offset, lane) for offset, lane in enumerate(lanes) if lane is not None]
    others = [offset for offset, lane in plain if lane != plain[0][1]]
    end = min(others, default=len(frames))
    assert offsets_of(content) == [offset for offset, _ in plain if offset < end]
    assert (content.end, content.count) == (end, len([offset for offset, _ in plain if offset < end]))
