"""Ranges of aborted messages: what they hold, the file, and how a segment is asked. The twins are sets of offsets."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.limits import MARKER_RANGES_MAX, OFFSET_MAX
from goqueue.storage import frame, scan
from goqueue.storage.aborted import (
    EMPTY,
    Aborted,
    Edges,
    Found,
    Inquiry,
    as_edges,
    common,
    difference,
    dump,
    load,
    union,
)
from goqueue.storage.marker import Marker
from goqueue.storage.survey import Stretch
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import DATA, append, batch, open_store

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)).map(lambda pair: (pair[0], sum(pair))), max_size=8)
OFFSETS = st.integers(0, 48)


def offsets_of(edges: Edges) -> set[int]:
    return {offset for first, end in edges.tolist() for offset in range(first, end)}


def is_tidy(edges: Edges) -> bool:
    """Whether ranges rise and none touches another."""
    points = edges.ravel().tolist()
    return all(one < two for one, two in pairwise(points))


@given(RANGES, RANGES)
def test_ranges_are_put_together_as_sets_are(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    first, second = union(as_edges(one)), union(as_edges(other))
    for made, expected in (
        (union(as_edges(one), as_edges(other)), offsets_of(first) | offsets_of(second)),
        (common(first, second), offsets_of(first) & offsets_of(second)),
        (difference(first, second), offsets_of(first) - offsets_of(second)),
    ):
        assert offsets_of(made) == expected
        assert is_tidy(made)


@given(RANGES, RANGES, OFFSETS, OFFSETS)
def test_what_is_aborted_is_told_as_a_set_tells_it(
    ranges: list[tuple[int, int]], later: list[tuple[int, int]], first: int, end: int
) -> None:
    aborted = Aborted.of(ranges)
    for one in later:
        aborted = aborted.joined([one])
    first, end = sorted((first, end))
    assert aborted.edges.tolist() == Aborted.of(ranges).joined(later).edges.tolist()
    known = offsets_of(as_edges([*ranges, *later]))
    wanted = known & set(range(first, end))
    assert is_tidy(aborted.edges)
    assert offsets_of(as_edges(aborted.within(first, end))) == wanted
    assert aborted.count(first, end) == len(wanted)
    assert first == end or aborted.is_clean(first, end) == (not wanted)
    assert aborted.behind(first) == next(offset for offset in range(first, 100) if offset not in known)


def test_nothing_aborted_is_one_value() -> None:
    assert Aborted.of([]) is EMPTY
    assert Aborted.of([], until=5) is not EMPTY
    assert EMPTY.joined([]) is EMPTY


def test_only_messages_of_transactions_are_ever_masked() -> None:
    kinds = [0, frame.TRANSACTIONAL, frame.CONTROL | frame.TRANSACTIONAL, frame.TRANSACTIONAL]
    content = b"".join(frame.encode(b"v", flags=flags, offset=offset) for offset, flags in enumerate(kinds))
    frames = scan.walk(content)
    assert Aborted.of([(0, 4)]).mask(frames).tolist() == [False, True, False, True]
    assert Aborted.of([(0, 3)]).mask(frames).tolist() == [False, True, False, False]
    assert not EMPTY.mask(frames).any()


# --- the file ---


@given(RANGES, st.booleans())
def test_a_file_reads_as_it_was_written(ranges: list[tuple[int, int]], is_plain: bool) -> None:
    content = dump(Found(Aborted.of(ranges), is_plain), 3, 99, 4567)
    found = load(content, 3, 99, 4567)
    assert found is not None
    assert np.array_equal(found.aborted.edges, Aborted.of(ranges).edges)
    assert found.is_plain == is_plain
    assert (found.aborted is EMPTY) == (not ranges)
    for place in ((4, 99, 4567), (3, 98, 4567), (3, 99, 4568)):
        assert load(content, *place) is None


@given(st.data())
def test_a_changed_file_counts_as_none(data: st.DataObject) -> None:
    content = bytearray(dump(Found(Aborted.of([(5, 7), (9, 12)]), False), 3, 99, 4567))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    assert load(bytes(content), 3, 99, 4567) is None
    assert load(bytes(content[: data.draw(st.integers(0, len(content) - 1))]), 3, 99, 4567) is None


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
        content = b"".join(Marker(1, 0, commits, ranges).encode())
        appended = self.log.append(scan.batch(bytearray(content)))
        self.store.flush()
        return appended.first_offset

    def asked(self, stable: int = OFFSET_MAX, below: int = OFFSET_MAX) -> Found:
        segment, inquiry = self.log.active, Inquiry(below)
        stretch = Stretch(0, segment.size, 0, self.log.next_offset)
        inquiry.survey(self.disk.open(segment.path, "read"), stretch)
        return inquiry.found(min(stable, self.log.next_offset))


def test_a_segment_without_transactions_is_plain_and_clean() -> None:
    stored = Stored()
    stored.write(5)
    assert stored.asked() == Found(EMPTY, is_plain=True)


def test_control_records_and_committed_messages_make_a_segment_not_plain() -> None:
    stored = Stored()
    stored.write(1, frame.CONTROL)
    assert not stored.asked().is_plain
    stored = Stored()
    stored.write(2, frame.TRANSACTIONAL)
    stored.end((0, 2), commits=True)
    assert stored.asked() == Found(EMPTY, is_plain=False)


def test_markers_decide_about_the_messages_in_their_ranges() -> None:
    stored = Stored()
    stored.write(4, frame.TRANSACTIONAL)
    stored.write(2)
    stored.write(2, frame.TRANSACTIONAL)
    stored.end((0, 1), (2, 4), commits=False)
    stored.end((1, 2), (6, 8), commits=True)
    found = stored.asked()
    assert found.aborted.edges.tolist() == [[0, 1], [2, 4]]
    assert found.is_sure


def test_ranges_that_hold_no_message_of_a_transaction_do_not_count() -> None:
    stored = Stored()
    stored.write(2, frame.TRANSACTIONAL)
    stored.write(3)
    stored.end((0, 5))
    assert stored.asked().aborted.edges.tolist() == [[0, 2]]


def test_what_was_open_when_somebody_looked_is_left_open() -> None:
    stored = Stored()
    stored.write(2, frame.TRANSACTIONAL)
    stored.write(3, frame.TRANSACTIONAL)
    stored.end((0, 2))
    found = stored.asked(stable=2)
    assert (found.aborted.edges.tolist(), found.aborted.until) == ([[0, 2]], 2)
    assert found.aborted.covers(0, 2)
    assert not found.aborted.covers(0, 3)


def test_what_nothing_has_committed_is_not_shown() -> None:
    stored = Stored()
    stored.write(2, frame.TRANSACTIONAL)
    stored.write(2)
    found = stored.asked(stable=4)
    assert (found.aborted.edges.tolist(), found.is_sure) == ([[0, 2]], False)


def test_what_was_appended_later_is_not_asked_for() -> None:
    stored = Stored()
    stored.write(4, frame.TRANSACTIONAL)
    assert stored.asked(below=2).aborted.edges.tolist() == [[0, 2]]


def test_a_marker_that_says_nothing_possible_is_as_good_as_none() -> None:
    stored = Stored()
    stored.write(2, frame.TRANSACTIONAL)
    stored.log.append(batch([b"nonsense"], flags=frame.CONTROL | frame.TRANSACTIONAL | frame.COMMIT))
    stored.store.flush()
    assert stored.asked(stable=2).aborted.edges.tolist() == [[0, 2]]


def test_a_transaction_of_very_many_ranges_has_several_markers() -> None:
    ranges = [(2 * number, 2 * number + 1) for number in range(MARKER_RANGES_MAX + 10)]
    inquiry = Inquiry()
    stored = Stored()
    count = 2 * len(ranges)
    frames = [frame.encode(b"", flags=frame.TRANSACTIONAL if number % 2 == 0 else 0) for number in range(count)]
    stored.log.append(scan.batch(bytearray(b"".join(frames))))
    stored.end(*ranges)
    segment = stored.log.active
    inquiry.survey(stored.disk.open(segment.path, "read"), Stretch(0, segment.size, 0, stored.log.next_offset))
    assert inquiry.is_over
    assert len(inquiry.found(count).aborted) == len(ranges)


@pytest.mark.parametrize("commits", [True, False])
def test_segments_behind_are_asked_as_long_as_something_is_undecided(commits: bool) -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    log = store.create("t")
    append(store, log, b"v", flags=frame.TRANSACTIONAL)
    log.roll()
    append(store, log, b"v")
    log.roll()
    log.append(scan.batch(bytearray(b"".join(Marker(1, 0, commits, ((0, 1),)).encode()))))
    store.flush()
    inquiry = Inquiry()
    for number, segment in enumerate(log.segments):
        assert not inquiry.is_over
        position, next_offset = log.bounds(number)
        stretch = Stretch(0, position, segment.base_offset, next_offset)
        inquiry.survey(disk.open(segment.path, "read"), stretch)
    assert inquiry.is_over
    assert inquiry.found(3).aborted.edges.tolist() == ([] if commits else [[0, 1]])


def test_the_file_goes_with_its_segment() -> None:
    assert f"{DATA}/logs/t/{0:020d}.aborted" in Stored().log.active.caches
