"""Ranges of aborted messages: what they hold, the file, and how a segment is asked. The twins are sets of offsets."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.limits import MARKER_RANGES_MAX, OFFSET_MAX
from goqueue.storage import frame, scan
from goqueue.storage.segment_scan import ScanRange
from goqueue.storage.store import Store
from goqueue.storage.transaction_index import (
    NONE_ABORTED,
    AbortedRanges,
    Edges,
    SegmentTransactions,
    SegmentTransactionScan,
    as_edges,
    difference,
    dump_aborted,
    intersection,
    parse_aborted,
    union,
)
from goqueue.storage.transaction_marker import TransactionMarker
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import DATA, append, batch, open_store

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)).map(lambda pair: (pair[0], sum(pair))), max_size=8)
OFFSETS = st.integers(0, 48)


def offsets_of(edges: Edges) -> set[int]:
    return {offset for first, end in edges.tolist() for offset in range(first, end)}


def is_tidy(edges: Edges) -> bool:
    """Return whether ranges rise and none touches another."""
    points = edges.ravel().tolist()
    return all(one < two for one, two in pairwise(points))


@given(RANGES, RANGES)
def test_range_operations_match_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    first, second = union(as_edges(one)), union(as_edges(other))
    for made, expected in (
        (union(as_edges(one), as_edges(other)), offsets_of(first) | offsets_of(second)),
        (intersection(first, second), offsets_of(first) & offsets_of(second)),
        (difference(first, second), offsets_of(first) - offsets_of(second)),
    ):
        assert offsets_of(made) == expected
        assert is_tidy(made)


@given(RANGES, RANGES, OFFSETS, OFFSETS)
def test_aborted_offsets_equal_those_of_a_set(
    ranges: list[tuple[int, int]], later: list[tuple[int, int]], first: int, end: int
) -> None:
    aborted = AbortedRanges.of(ranges)
    for one in later:
        aborted = aborted.joined([one])
    first, end = sorted((first, end))
    assert aborted.edges.tolist() == AbortedRanges.of(ranges).joined(later).edges.tolist()
    known = offsets_of(as_edges([*ranges, *later]))
    wanted = known & set(range(first, end))
    assert is_tidy(aborted.edges)
    assert offsets_of(as_edges(aborted.within(first, end))) == wanted
    assert aborted.count(first, end) == len(wanted)
    assert first == end or aborted.is_clean(first, end) == (not wanted)
    assert aborted.behind(first) == next(offset for offset in range(first, 100) if offset not in known)


def test_empty_ranges_are_one_constant() -> None:
    assert AbortedRanges.of([]) is NONE_ABORTED
    assert AbortedRanges.of([], until=5) is not NONE_ABORTED
    assert NONE_ABORTED.joined([]) is NONE_ABORTED


def test_mask_covers_only_transactional_messages() -> None:
    kinds = [0, frame.TRANSACTIONAL, frame.CONTROL | frame.TRANSACTIONAL, frame.TRANSACTIONAL]
    content = b"".join(frame.encode(b"v", flags=flags, offset=offset) for offset, flags in enumerate(kinds))
    frames = scan.walk(content)
    assert AbortedRanges.of([(0, 4)]).mask(frames).tolist() == [False, True, False, True]
    assert AbortedRanges.of([(0, 3)]).mask(frames).tolist() == [False, True, False, False]
    assert not NONE_ABORTED.mask(frames).any()


# --- the file ---


@given(RANGES, st.booleans())
def test_aborted_file_round_trips(ranges: list[tuple[int, int]], is_plain: bool) -> None:
    content = dump_aborted(SegmentTransactions(AbortedRanges.of(ranges), is_plain), 3, 99, 4567)
    found = parse_aborted(content, 3, 99, 4567)
    assert found is not None
    assert np.array_equal(found.aborted.edges, AbortedRanges.of(ranges).edges)
    assert found.is_plain == is_plain
    assert (found.aborted is NONE_ABORTED) == (not ranges)
    for place in ((4, 99, 4567), (3, 98, 4567), (3, 99, 4568)):
        assert parse_aborted(content, *place) is None


@given(st.data())
def test_damaged_aborted_file_is_ignored(data: st.DataObject) -> None:
    content = bytearray(dump_aborted(SegmentTransactions(AbortedRanges.of([(5, 7), (9, 12)]), False), 3, 99, 4567))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    assert parse_aborted(bytes(content), 3, 99, 4567) is None
    assert parse_aborted(bytes(content[: data.draw(st.integers(0, len(content) - 1))]), 3, 99, 4567) is None


# --- a segment is asked ---


class Stored:
    """A log of one segment, and what was written to it."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.store = open_store(self.disk, segment_bytes=10**7)
        self.log = self.store.create("t")

    def write(self, count: int = 1, flags: int = 0) -> range:
        return append(self.store, self.log, *[b"v"] * count, flags=flags)

    def end(self, *ranges: tuple[int, int], commits: bool = False) -> int:
        content = b"".join(TransactionMarker(1, 0, commits, ranges).encode())
        appended = self.log.append(scan.check_batch(bytearray(content)))
        self.store.flush()
        return appended.first_offset

    def asked(self, stable: int = OFFSET_MAX, below: int = OFFSET_MAX) -> SegmentTransactions:
        segment, inquiry = self.log.active, SegmentTransactionScan(below)
        stretch = ScanRange(0, segment.size, 0, self.log.next_offset)
        inquiry.survey(self.disk.open(segment.path, "read"), stretch)
        return inquiry.found(min(stable, self.log.next_offset))


def test_segment_without_transactions_is_plain() -> None:
    stored = Stored()
    stored.write(5)
    assert stored.asked() == SegmentTransactions(NONE_ABORTED, is_plain=True)


def test_segment_with_control_records_or_commits_is_not_plain() -> None:
    stored = Stored()
    stored.write(1, frame.CONTROL)
    assert not stored.asked().is_plain
    stored = Stored()
    stored.write(2, frame.TRANSACTIONAL)
    stored.end((0, 2), commits=True)
    assert stored.asked() == SegmentTransactions(NONE_ABORTED, is_plain=False)


def test_markers_apply_to_messages_in_their_ranges() -> None:
    stored = Stored()
    stored.write(4, frame.TRANSACTIONAL)
    stored.write(2)
    stored.write(2, frame.TRANSACTIONAL)
    stored.end((0, 1), (2, 4), commits=False)
    stored.end((1, 2), (6, 8), commits=True)
    found = stored.asked()
    assert found.aborted.edges.tolist() == [[0, 1], [2, 4]]
    assert found.is_sure


def test_marker_range_excludes_plain_messages() -> None:
    stored = Stored()
    stored.write(2, frame.TRANSACTIONAL)
    stored.write(3)
    stored.end((0, 5))
    assert stored.asked().aborted.edges.tolist() == [[0, 2]]


def test_scan_is_valid_up_to_the_stable_offset() -> None:
    stored = Stored()
    stored.write(2, frame.TRANSACTIONAL)
    stored.write(3, frame.TRANSACTIONAL)
    stored.end((0, 2))
    found = stored.asked(stable=2)
    assert (found.aborted.edges.tolist(), found.aborted.until) == ([[0, 2]], 2)
    assert found.aborted.covers(0, 2)
    assert not found.aborted.covers(0, 3)


def test_uncommitted_messages_are_not_shown() -> None:
    stored = Stored()
    stored.write(2, frame.TRANSACTIONAL)
    stored.write(2)
    found = stored.asked(stable=4)
    assert (found.aborted.edges.tolist(), found.is_sure) == ([[0, 2]], False)


def test_later_appends_are_not_searched() -> None:
    stored = Stored()
    stored.write(4, frame.TRANSACTIONAL)
    assert stored.asked(below=2).aborted.edges.tolist() == [[0, 2]]


def test_impossible_marker_is_ignored() -> None:
    stored = Stored()
    stored.write(2, frame.TRANSACTIONAL)
    stored.log.append(batch([b"nonsense"], flags=frame.CONTROL | frame.TRANSACTIONAL | frame.COMMIT))
    stored.store.flush()
    assert stored.asked(stable=2).aborted.edges.tolist() == [[0, 2]]


def test_many_ranges_are_collected_from_several_markers() -> None:
    ranges = [(2 * number, 2 * number + 1) for number in range(MARKER_RANGES_MAX + 10)]
    inquiry = SegmentTransactionScan()
    stored = Stored()
    count = 2 * len(ranges)
    frames = [frame.encode(b"", flags=frame.TRANSACTIONAL if number % 2 == 0 else 0) for number in range(count)]
    stored.log.append(scan.check_batch(bytearray(b"".join(frames))))
    stored.end(*ranges)
    segment = stored.log.active
    inquiry.survey(stored.disk.open(segment.path, "read"), ScanRange(0, segment.size, 0, stored.log.next_offset))
    assert inquiry.is_over
    assert len(inquiry.found(count).aborted) == len(ranges)


@pytest.mark.parametrize("commits", [True, False])
def test_older_segments_are_searched_while_a_transaction_is_open(disk: FaultyDisk, store: Store, commits: bool) -> None:
    log = store.create("t")
    append(store, log, b"v", flags=frame.TRANSACTIONAL)
    log.roll()
    append(store, log, b"v")
    log.roll()
    log.append(scan.check_batch(bytearray(b"".join(TransactionMarker(1, 0, commits, ((0, 1),)).encode()))))
    store.flush()
    inquiry = SegmentTransactionScan()
    for number, segment in enumerate(log.segments):
        assert not inquiry.is_over
        position, next_offset = log.bounds(number)
        stretch = ScanRange(0, position, segment.base_offset, next_offset)
        inquiry.survey(disk.open(segment.path, "read"), stretch)
    assert inquiry.is_over
    assert inquiry.found(3).aborted.edges.tolist() == ([] if commits else [[0, 1]])


def test_aborted_file_is_removed_with_its_segment() -> None:
    assert f"{DATA}/logs/t/{0:020d}.aborted" in Stored().log.active.caches
