"""Open transactions are found again in the log, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.open_transactions import OpenTransactionScan
from goqueue.broker.core.producers import ProducerMark
from goqueue.storage import frame, scan
from goqueue.storage.reads import ReadResult
from goqueue.wire.sections import PRODUCER_HEADER

Piece = tuple[int, int, int]
"""The producer (0: no transaction), the number of messages, and how many a crash has kept."""

FIRST = 10


def contents_of(pieces: list[Piece]) -> list[bytes]:
    found = list[bytes]()
    for number, (producer, count, kept) in enumerate(pieces):
        mark = frame.encode_headers([(PRODUCER_HEADER, ProducerMark(producer, 0, number, count).encode())])
        flags = frame.TRANSACTIONAL if producer else 0
        headers = [mark if producer else frame.NO_HEADERS, *[frame.NO_HEADERS] * (count - 1)]
        found += [frame.encode(b"x", None, one, flags=flags) for one in headers[:kept]]
    return found


def found_in(contents: list[bytes], at_once: int, epochs: dict[int, int], later: int = 0) -> dict[int, set[int]]:
    """By producer the offsets of what it has open, read in pieces of so many frames; the last ones came later."""
    finding = OpenTransactionScan(epochs, FIRST + len(contents) - later)
    for start in range(0, len(contents), at_once):
        frames = scan.check_batch(bytearray(b"".join(contents[start : start + at_once])))
        scan.stamp(frames, FIRST + start, 7)
        finding.look(ReadResult((frames.buffer.data,), frames.last_offset + 1))
    return {
        producer: {offset for first, end in opened.ranges for offset in range(first, end)}
        for producer, opened in finding.opened.items()
    }


PIECES = st.integers(1, 4).flatmap(
    lambda count: st.tuples(st.integers(0, 3), st.just(count), st.integers(1, count)),
)


@given(st.lists(PIECES, min_size=1, max_size=12), st.integers(1, 9), st.integers(0, 6))
def test_scan_finds_messages_of_open_transactions(pieces: list[Piece], at_once: int, later: int) -> None:
    contents = contents_of(pieces)
    expected, offset, end = dict[int, set[int]](), FIRST, FIRST + len(contents) - later
    for producer, _, kept in pieces:
        if producer in (1, 2) and offset < end:
            expected.setdefault(producer, set()).update(range(offset, min(offset + kept, end)))
        offset += kept
    assert found_in(contents, at_once, {1: 0, 2: 0}, later) == expected


@pytest.mark.parametrize("at_once", [1, 3, 9])
def test_messages_after_a_torn_batch_do_not_belong_to_it(at_once: int) -> None:
    assert found_in(contents_of([(1, 5, 3), (0, 2, 2)]), at_once, {1: 0}) == {1: {10, 11, 12}}
