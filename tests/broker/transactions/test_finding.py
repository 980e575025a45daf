"""Finding again what was open: whatever a crash has torn, and wherever reads end, nobody else's messages are taken."""

from itertools import pairwise

import pytest

from goqueue.broker.producers import Mark
from goqueue.broker.transactions.finding import Finding
from goqueue.broker.transactions.opened import Opened
from goqueue.storage import frame, scan
from goqueue.storage.extent import Read
from goqueue.storage.marker import Marker
from tests.broker.transactions.traffic import transactional

PLAIN = frame.encode(b"plain")


def batch(count: int, *, of: int | None = None, producer: int = 7, epoch: int = 0) -> bytes:
    """So many messages of a transaction, of a batch that may have had more."""
    whole = transactional([b"%d" % number for number in range(of or count)], Mark(producer, epoch, 0, of or count))
    return whole[: int(scan.walk(memoryview(whole)).positions[count])] if (of or count) > count else whole


def marker(*ranges: tuple[int, int], producer: int = 7, epoch: int = 0) -> bytes:
    return b"".join(Marker(producer, epoch, False, ranges).encode())


def found(*parts: bytes, epochs: dict[int, int] | None = None, end: int = 1000, reads: int = 1) -> dict[int, Opened]:
    """In a log of these parts, read in so many pieces."""
    content = bytearray(b"".join(parts))
    frames = scan.walk(memoryview(content))
    scan.stamp(scan.batch(content), 0, 1)
    edges = [int(frames.positions[len(frames) * number // reads]) for number in range(reads)] + [len(content)]
    finding = Finding({7: 0} if epochs is None else epochs, end)
    for first, behind in pairwise(edges):
        finding.look(Read((memoryview(content)[first:behind],), 0))
    return finding.opened


def test_what_has_no_marker_is_open() -> None:
    assert found(PLAIN, batch(3), PLAIN, batch(2)) == {7: Opened(0, [(1, 4), (5, 7)])}


def test_only_those_are_looked_for_that_may_be_open() -> None:
    assert found(batch(1, producer=8), batch(1, epoch=1), batch(1)) == {7: Opened(0, [(2, 3)])}
    assert found(batch(2), PLAIN, epochs={}) == {}


def test_what_came_after_the_start_is_known_already() -> None:
    assert found(batch(3), batch(2), end=2) == {7: Opened(0, [(0, 2)])}


def test_what_has_a_marker_has_ended() -> None:
    assert found(batch(3), marker((0, 3))) == {}


def test_of_several_markers_a_crash_may_have_kept_the_first() -> None:
    assert found(batch(1), PLAIN, batch(1), marker((0, 1))) == {7: Opened(0, [(2, 3)])}


def test_a_marker_of_another_epoch_ends_nothing() -> None:
    assert found(batch(1), marker((0, 1), epoch=5)) == {7: Opened(0, [(0, 1)])}


@pytest.mark.parametrize("reads", range(1, 8))
@pytest.mark.parametrize(
    "behind",
    [PLAIN, batch(4, producer=8), marker((0, 1), producer=8)],
    ids=["a plain message", "a batch of another one", "a marker"],
)
def test_what_stands_behind_a_torn_batch_is_not_of_it(behind: bytes, reads: int) -> None:
    assert found(batch(3, of=8), behind, PLAIN, reads=reads) == {7: Opened(0, [(0, 3)])}


@pytest.mark.parametrize("reads", range(1, 9))
def test_a_batch_goes_on_in_the_next_read(reads: int) -> None:
    assert found(PLAIN, batch(6), PLAIN, reads=reads) == {7: Opened(0, [(1, 7)])}
