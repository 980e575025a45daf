"""Markers: what was written is read, and what is impossible is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import FrameInvalid
from goqueue.limits import MARKER_RANGES_MAX
from goqueue.storage import frame, scan
from goqueue.storage.transaction_marker import (
    TransactionMarker,
    classify_transactional,
    decode_marker,
    is_marker,
    markers_in,
    ranges_in,
)

RANGES = st.lists(st.integers(0, 2**62), min_size=2, max_size=40, unique=True).map(
    lambda edges: tuple(zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False))
)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.booleans(), RANGES)
def test_marker_round_trips(producer: int, epoch: int, is_commit: bool, ranges: tuple[tuple[int, int], ...]) -> None:
    marker = TransactionMarker(producer, epoch, is_commit, ranges)
    frames = marker.encode()
    assert [decode_marker(frame.decode(one)) for one in frames] == [marker]


def test_many_ranges_are_split_into_several_markers() -> None:
    ranges = tuple((2 * number, 2 * number + 1) for number in range(MARKER_RANGES_MAX + 5))
    found = [decode_marker(frame.decode(one)) for one in TransactionMarker(1, 2, True, ranges).encode()]
    assert [len(one.ranges) for one in found] == [MARKER_RANGES_MAX, 5]
    assert found[0].ranges + found[1].ranges == ranges


def test_markers_differ_from_messages_and_other_control_records() -> None:
    [marker] = TransactionMarker(7, 1, False, ((3, 5),)).encode()
    content = frame.encode(b"plain") + frame.encode(b"in one", flags=frame.TRANSACTIONAL)
    content += frame.encode(b"other", flags=frame.CONTROL) + marker
    frames = scan.walk(content)
    messages, markers = classify_transactional(frames)
    assert messages.tolist() == [False, True, False, False]
    assert markers.tolist() == [False, False, False, True]
    assert [one.ranges for _, one in markers_in(frames)] == [((3, 5),)]
    assert [is_marker(flags) for flags in frames.flags.tolist()] == markers.tolist()


@pytest.mark.parametrize(
    "value", [b"", bytes(5), bytes(14) + b"1", TransactionMarker(1, 1, True, ((0, 1),)).encode()[0][34:-3]]
)
def test_invalid_marker_is_refused(value: bytes) -> None:
    message = frame.decode(frame.encode(value, flags=frame.CONTROL | frame.TRANSACTIONAL))
    with pytest.raises(FrameInvalid, match="marker at offset 0 is impossible"):
        decode_marker(message)
    assert len(ranges_in(scan.walk(frame.encode(value, flags=frame.CONTROL | frame.TRANSACTIONAL)))[0]) == 0


@given(st.lists(st.tuples(st.booleans(), RANGES) | st.binary(max_size=60), max_size=60))
def test_vectorized_ranges_match_single_markers(
    given: list[tuple[bool, tuple[tuple[int, int], ...]] | bytes],
) -> None:
    content = b"".join(
        frame.encode(one, flags=frame.TRANSACTIONAL)
        if isinstance(one, bytes)
        else b"".join(TransactionMarker(1, 2, *one).encode())
        for one in given
    )
    frames = scan.walk(content)
    ranges, commits = ranges_in(frames)
    wanted = [(*edges, marker.is_commit) for _, marker in markers_in(frames) for edges in marker.ranges]
    assert [(*row, commit) for row, commit in zip(ranges.tolist(), commits.tolist(), strict=True)] == wanted
