"""The scanner against its naive twin, the plain codec: the same frames, the same stops, the same bytes."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise, takewhile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import FrameInvalid
from goqueue.storage import checksum, frame, scan
from tests.storage.samples import KINDS, block_starts, flipped, logs, starts, steps

either_way = pytest.mark.parametrize("way", ["plain", "vectors"])


@contextmanager
def going(way: str) -> Iterator[None]:
    """Have everything done in one of the two ways, however little there is."""
    threshold = 10**9 if way == "plain" else 0
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PLAIN_FRAMES", "PLAIN_BYTES", "COMBINED_FRAMES"):
            patch.setattr(scan, name, threshold)
        yield


def positions(numbers: list[int]) -> scan.Positions:
    return np.array(numbers, np.int64)


def assert_same_walk(content: bytes, start: int = 0, entries: list[int] | None = None) -> None:
    frames = scan.walk(content, start, None if entries is None else positions(entries))
    expected, end = steps(content, frame.measure, start)
    assert frames.positions.tolist() == expected
    assert frames.lengths.tolist() == [frame.measure(content, position) for position in expected]
    assert frames.end == end


# --- walking ---


@either_way
@given(logs(), st.binary(max_size=40))
def test_walk_matches_the_codec(way: str, frames: list[bytes], behind: bytes) -> None:
    with going(way):
        assert_same_walk(b"".join(frames))
        assert_same_walk(b"".join(frames) + behind)


@either_way
@given(logs(min_size=1), st.data())
def test_walk_from_any_position_matches_the_codec(way: str, frames: list[bytes], data: st.DataObject) -> None:
    content = b"".join(frames)
    with going(way):
        assert_same_walk(content, data.draw(st.sampled_from([*starts(frames), len(content)])))
        assert_same_walk(content, data.draw(st.integers(0, len(content) + 40)))


@given(logs(repeats=60, min_size=1), st.data())
def test_index_entries_do_not_change_a_walk(frames: list[bytes], data: st.DataObject) -> None:
    content, places = b"".join(frames), starts(frames)
    with going("vectors"):
        assert_same_walk(content, 0, [places[number] for number in block_starts(frames)])
        assert_same_walk(content, data.draw(st.sampled_from(places)), data.draw(st.lists(st.sampled_from(places))))


@given(logs(min_size=1), st.lists(st.integers(-50, 20_000)), st.booleans())
def test_wrong_index_entries_do_not_change_a_walk(frames: list[bytes], wrong: list[int], in_order: bool) -> None:
    content = b"".join(frames)
    with going("vectors"):
        assert_same_walk(content, 0, sorted(wrong) if in_order else wrong)
        assert_same_walk(content, 0, sorted({0, *wrong, len(content)}))


@either_way
def test_walk_over_truncated_bytes_stops_where_the_codec_stops(way: str) -> None:
    content = b"".join(KINDS.values())
    places = starts(list(KINDS.values()))
    with going(way):
        for size in range(len(content) + 1):
            assert_same_walk(content[:size])
            assert_same_walk(content[:size], 0, places)


@either_way
def test_walk_over_flipped_bits_stops_where_the_codec_stops(way: str) -> None:
    content = b"".join(KINDS.values())
    places = starts(list(KINDS.values()))
    with going(way):
        for position in range(len(content)):
            for bit in (0, 3, 7):
                assert_same_walk(flipped(content, position, bit))
                assert_same_walk(flipped(content, position, bit), 0, places)


def test_frames_inside_a_value_are_not_walked() -> None:
    frames = [frame.encode(KINDS["nested"] * 50), frame.encode(b"GQ\x01" * 2000), *KINDS.values()]
    assert scan.walk(b"".join(frames)).positions.tolist() == starts(frames)


def test_distant_index_entries_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    content = KINDS["empty"] * 20_000
    measured, original = [], scan._measured

    def counted(buffer: scan.Bytes, places: scan.Positions) -> scan.Positions:
        measured.append(len(places))
        return original(buffer, places)

    monkeypatch.setattr(scan, "_measured", counted)
    frames = scan.walk(content, 0, positions([0, 19_999 * len(KINDS["empty"])]))
    assert len(frames) == 20_000
    assert len(measured) < 200


@either_way
@given(logs(), st.integers(0, 300))
def test_first_returns_a_prefix_of_the_frames(way: str, frames: list[bytes], count: int) -> None:
    with going(way):
        some = scan.walk(b"".join(frames)).first(count)
    assert some.positions.tolist() == starts(frames)[:count]
    assert some.end == sum(map(len, frames[:count]))


@given(logs())
def test_columns_match_the_codec(frames: list[bytes]) -> None:
    found = scan.walk(b"".join(frames))
    messages = [frame.decode(one) for one in frames]
    assert found.offsets.tolist() == [one.offset for one in messages]
    assert found.timestamps.tolist() == [one.timestamp_ns for one in messages]
    assert found.flags.tolist() == [one.flags for one in messages]
    assert found.key_lengths.tolist() == [len(one.key or b"") for one in messages]


# --- what a header announces ---


@pytest.mark.parametrize("whole", KINDS.values(), ids=KINDS.keys())
def test_announced_length_must_fit_the_file(whole: bytes) -> None:
    content = scan.as_bytes(whole[:34])
    assert scan.announced(content, 0, len(whole)) == len(whole)
    assert scan.announced(content, 0, len(whole) + 100) == len(whole)
    assert scan.announced(content, 0, len(whole) - 1) == 0


def test_announced_length_without_a_complete_header() -> None:
    content = scan.as_bytes(KINDS["value"][:20])
    assert scan.announced(content, 0, 34) == 1
    assert scan.announced(content, 0, 33) == 0
    assert scan.announced(content, 20, 20) == 1
    assert scan.announced(content, 20, 1000) == 1
    assert scan.announced(scan.as_bytes(bytes(34)), 0, 1000) == 0


# --- verifying ---


@either_way
@given(logs())
def test_verify_accepts_valid_frames(way: str, frames: list[bytes]) -> None:
    content = bytearray(b"".join(frames))
    with going(way):
        assert scan.verify(scan.walk(content)) == len(frames)
    assert content == b"".join(frames)


@either_way
@given(logs(min_size=1), st.data())
def test_verify_finds_the_first_damaged_frame(way: str, frames: list[bytes], data: st.DataObject) -> None:
    places = starts(frames)
    content = bytearray(b"".join(frames))
    found = scan.walk(content)
    damaged = data.draw(st.sets(st.integers(0, len(frames) - 1), min_size=1, max_size=3))
    for number in damaged:  # behind magic and version, for which a walk has looked
        content[data.draw(st.integers(places[number] + frame.AT_FLAGS, places[number] + len(frames[number]) - 1))] ^= (
            0x10
        )
    before = bytes(content)
    with going(way):
        assert scan.verify(found) == min(damaged)
    assert content == before


@pytest.mark.parametrize("count", [127, 128, 129, 1023, 1024, 1025, 3000])
def test_verify_finds_damage_around_the_vector_thresholds(count: int) -> None:
    whole = KINDS["headers"]
    for damaged in (0, 1, count // 2, count - 1):
        content = bytearray(whole * count)
        content[damaged * len(whole) + 50] ^= 1
        assert scan.verify(scan.walk(content)) == damaged
    assert scan.verify(scan.walk(bytearray(whole * count))) == count


def test_verify_accepts_a_read_only_buffer() -> None:
    assert scan.verify(scan.walk(KINDS["value"] * 100)) == 100


# --- order ---


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3))), st.integers(-1, 9), st.integers(0, 3))
def test_in_order_matches_naive_model(stamps: list[tuple[int, int]], last_offset: int, last_time: int) -> None:
    content = b"".join(frame.encode(b"", offset=offset, timestamp_ns=time) for offset, time in stamps)
    in_order = scan.in_order(scan.walk(content), last_offset, last_time)
    pairs = pairwise([(last_offset, last_time), *stamps])
    rising = [later[0] > earlier[0] and later[1] >= earlier[1] for earlier, later in pairs]
    assert in_order == len([*takewhile(bool, rising)])


@pytest.mark.parametrize("number", [2**63, 2**63 + 6, 2**64 - 1])
def test_numbers_beyond_63_bits_are_never_in_order(number: int) -> None:
    first = frame.encode(b"", offset=5, timestamp_ns=5)
    for second in (frame.encode(b"", offset=number, timestamp_ns=5), frame.encode(b"", offset=6, timestamp_ns=number)):
        assert scan.in_order(scan.walk(first + second), -1, 0) == 1
        assert scan.in_order(scan.walk(second), 5, 5) == 0


# --- stamping ---


@either_way
@given(logs(), st.integers(0, 2**62), st.integers(0, 2**63 - 1))
def test_stamp_matches_the_codec(way: str, frames: list[bytes], offset: int, time: int) -> None:
    content = bytearray(b"".join(frames))
    with going(way):
        scan.stamp(scan.walk(content), offset, time)
    expected = bytearray(b"".join(frames))
    for number, (place, one) in enumerate(zip(starts(frames), frames, strict=True)):
        frame.stamp(expected, place, len(one), offset + number, time)
    assert content == expected


@either_way
def test_stamp_at_the_number_limits(way: str) -> None:
    content = bytearray(b"".join(KINDS.values()))
    with going(way):
        frames = scan.walk(content)
        for offset, time in ((0, 0), (2**63 - len(frames), 2**63 - 1), (255, 2**32)):
            scan.stamp(frames, offset, time)
            assert [frame.offset_at(content, place) for place in frame.walk(content)] == [
                *range(offset, offset + len(frames))
            ]


# --- frames of clients ---


@given(logs(repeats=200))
def test_valid_batch_is_accepted(frames: list[bytes]) -> None:
    assert scan.check_batch(bytearray(b"".join(frames))).positions.tolist() == starts(frames)


@either_way
@given(logs(min_size=1), st.data())
def test_invalid_batch_is_refused_with_its_position(way: str, frames: list[bytes], data: st.DataObject) -> None:
    content = bytearray(b"".join(frames))
    number = data.draw(st.integers(0, len(frames) - 1))
    place = starts(frames)[number]
    content[data.draw(st.integers(place, place + len(frames[number]) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with going(way), pytest.raises(FrameInvalid) as refused:
        scan.check_batch(content)
    assert refused.value.details["position"] == place


@either_way
def test_truncated_batch_is_refused_with_its_position(way: str) -> None:
    whole = KINDS["headers"]
    with going(way):
        for missing in range(1, len(whole)):
            with pytest.raises(FrameInvalid) as refused:
                scan.check_batch(bytearray((whole * 3)[:-missing]))
            assert refused.value.details["position"] == 2 * len(whole)


def test_canceling_wrong_checksums_are_refused() -> None:
    whole = frame.encode(b"x" * 100)
    content = bytearray(whole * 5000)
    error = 0xDEADBEEF
    (cancelling,) = checksum.shift(np.array([error], np.uint32), np.array([len(whole)], np.int64)).tolist()
    for number, change in ((3, error), (4, cancelling)):
        field = slice(number * len(whole) + frame.AT_CRC, number * len(whole) + frame.AT_OFFSET)
        content[field] = (int.from_bytes(content[field], "big") ^ change).to_bytes(4, "big")
    with pytest.raises(FrameInvalid) as refused:
        scan.check_batch(content)
    assert refused.value.details["position"] == 3 * len(whole)


def test_large_mixed_batch_is_checked_and_stamped() -> None:
    chance = random.Random(1)
    frames = [chance.choice(list(KINDS.values())) for _ in range(5000)]
    content = bytearray(b"".join(frames))
    found = scan.check_batch(content)
    assert found.positions.tolist() == starts(frames)
    scan.stamp(found, 1000, 77)
    assert [frame.offset_at(content, place) for place in frame.walk(content)] == [*range(1000, 6000)]
    assert scan.in_order(found, 999, 77) == 5000
