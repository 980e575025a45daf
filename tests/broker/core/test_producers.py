"""The table of producers, and a naive twin that remembers everything."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.producers import ProducerBatch, ProducerMark, ProducerTable
from goqueue.errors import GoQueueError, ProducerFenced, SequenceOutOfOrder
from goqueue.limits import PRODUCER_WINDOW, PRODUCERS_MAX, SEQUENCE_COUNT


class Table:
    """A table and the end of the log beside it."""

    def __init__(self, producers: ProducerTable | None = None, end: int = 0) -> None:
        self.producers = ProducerTable() if producers is None else producers
        self.end = end

    def append(self, mark: ProducerMark) -> ProducerBatch:
        """On its way to the disk."""
        batch = ProducerBatch(mark.sequence, mark.count, self.end)
        self.producers.add(mark, batch)
        self.end += mark.count
        return batch

    def store(self, mark: ProducerMark) -> ProducerBatch:
        batch = self.append(mark)
        self.producers.settle(mark, batch)
        return batch

    def pieces(self, mark: ProducerMark) -> list[tuple[int, int]]:
        return [batch.piece for batch in self.producers.look_up(mark).batches]


def test_pending_batches_do_not_fill_the_window() -> None:
    table = Table()
    marks = [ProducerMark(1, 0, number, 1) for number in range(2 * PRODUCER_WINDOW)]
    for mark in marks[:PRODUCER_WINDOW]:
        table.store(mark)
    first, second, *_ = [table.append(mark) for mark in marks[PRODUCER_WINDOW:]]
    table.producers.settle(marks[PRODUCER_WINDOW], first)
    table.producers.take_back(marks[PRODUCER_WINDOW + 1], second)
    assert all(table.pieces(mark) for mark in marks[1 : PRODUCER_WINDOW + 1])


def test_sequence_gap_is_refused_with_expected_sequence() -> None:
    table = Table()
    table.store(ProducerMark(1, 0, 0, 3))
    with pytest.raises(SequenceOutOfOrder) as refusal:
        table.producers.look_up(ProducerMark(1, 0, 4, 1))
    assert refusal.value.details["expected"] == 3


def test_older_epoch_is_fenced_and_newer_epoch_starts_over() -> None:
    table = Table()
    table.store(ProducerMark(1, 3, 0, 1))
    with pytest.raises(ProducerFenced) as refusal:
        table.producers.look_up(ProducerMark(1, 2, 1, 1))
    assert refusal.value.details["epoch"] == 3
    assert table.producers.look_up(ProducerMark(1, 4, 77, 1)).missing == 1


def test_only_the_latest_batch_may_be_torn() -> None:
    whole = ProducerMark(1, 0, 4, 5)
    table = Table(end=12)
    table.producers.replay(whole, 10, 0, next_offset=12)
    known = table.producers.look_up(whole)
    assert ([batch.piece for batch in known.batches], known.missing) == ([(10, 12)], 3)
    table.store(ProducerMark(1, 0, 6, 3))
    assert table.producers.look_up(whole).missing == 0
    table = Table(end=12)
    table.producers.replay(whole, 10, 0, next_offset=12)
    table.store(ProducerMark(1, 0, 6, 1))
    for mark in (whole, ProducerMark(1, 0, 4, 1)):
        with pytest.raises(SequenceOutOfOrder):
            table.producers.look_up(mark)


def test_batch_torn_by_two_crashes_can_be_completed() -> None:
    whole = ProducerMark(1, 0, 4, 5)
    table = Table(end=12)
    table.producers.replay(whole, 10, 0, next_offset=12)
    table.producers.replay(ProducerMark(1, 0, 6, 3), 12, 0, next_offset=14)
    table.end = 14
    known = table.producers.look_up(whole)
    assert ([batch.piece for batch in known.batches], known.missing) == ([(10, 12), (12, 14)], 1)
    table.store(ProducerMark(1, 0, 8, 1))
    assert (table.pieces(whole), table.producers.look_up(whole).missing) == ([(10, 12), (12, 14), (14, 15)], 0)


def test_number_of_remembered_producers_is_limited() -> None:
    table = Table()
    for number in range(PRODUCERS_MAX + 1):
        table.store(ProducerMark(number, 0, 0, 1))
    assert len(table.producers) == PRODUCERS_MAX
    assert table.pieces(ProducerMark(0, 0, 0, 1)) == []
    assert table.pieces(ProducerMark(1, 0, 0, 1)) == [(1, 2)]


def test_forgotten_producer_must_start_over() -> None:
    """Any other may be stored already: whether it is can be told of those alone that are remembered."""
    table = Table()
    table.store(ProducerMark(PRODUCERS_MAX, 0, 0, 1))
    table.store(ProducerMark(PRODUCERS_MAX, 0, 1, 1))
    for number in range(PRODUCERS_MAX):
        table.store(ProducerMark(number, 0, 0, 1))
    for producers in (table.producers, ProducerTable.from_facts(table.producers.facts(table.end), is_complete=False)):
        with pytest.raises(SequenceOutOfOrder) as refusal:
            producers.look_up(ProducerMark(PRODUCERS_MAX, 0, 1, 1))
        assert refusal.value.details == {"forgotten": True}
        assert producers.look_up(ProducerMark(PRODUCERS_MAX + 1, 0, 0, 1)).missing == 1


def test_checkpoint_contains_only_durable_batches() -> None:
    table = Table()
    table.store(ProducerMark(1, 0, 0, 2))
    table.append(ProducerMark(1, 0, 2, 2))
    table.append(ProducerMark(2, 0, 0, 1))
    restored = ProducerTable.from_facts(table.producers.facts(end=2), is_complete=True)
    assert (len(restored), restored.look_up(ProducerMark(1, 0, 2, 2)).missing) == (1, 2)


# --- the twin ---


@dataclass
class Twin:
    """Remembers every batch of the producer that was stored, as (epoch, sequence, count, offset): as it was sent, and
    never as parts of another one."""

    stored: list[tuple[int, int, int, int]] = field(default_factory=list)

    def expects(self, mark: ProducerMark) -> list[tuple[int, int]] | type[GoQueueError]:
        """The pieces of what is known, none for something new, or the refusal."""
        if not self.stored or mark.epoch > self.stored[-1][0]:
            return []
        epoch, sequence, count, _ = self.stored[-1]
        if mark.epoch < epoch:
            return ProducerFenced
        if mark.sequence == (sequence + count) % SEQUENCE_COUNT:
            return []
        window = [one for one in self.stored if one[0] == epoch][-PRODUCER_WINDOW:]
        same = [(offset, offset + n) for _, begin, n, offset in window if (begin, n) == (mark.sequence, mark.count)]
        return same or SequenceOutOfOrder


requests = st.lists(
    st.tuples(
        st.sampled_from(["next", "next", "next", "again", "recut", "gap", "older", "newer"]),
        st.integers(1, 4),
        st.integers(0, 8),
        st.booleans(),
        st.booleans(),
    ),
    max_size=40,
)


@given(requests, st.sampled_from([0, SEQUENCE_COUNT - 4]))
def test_producer_table_matches_naive_model(asked: list[tuple[str, int, int, bool, bool]], start: int) -> None:
    table, twin = Table(), Twin()
    epoch, sequence = 0, start
    for kind, count, back, is_refused, restarts in asked:
        mark = ProducerMark(1, epoch, sequence, count)
        if kind in ("again", "recut") and twin.stored:
            known_epoch, begin, size, _ = twin.stored[-1 - back % len(twin.stored)]
            mark = ProducerMark(1, known_epoch, begin, size + count * (kind == "recut"))
        elif kind == "gap":
            mark = ProducerMark(1, epoch, (sequence + 1 + back) % SEQUENCE_COUNT, count)
        elif kind == "older" and epoch:
            mark = ProducerMark(1, epoch - 1, sequence, count)
        elif kind == "newer":
            mark = ProducerMark(1, epoch + 1, start, count)
        expected = twin.expects(mark)
        if isinstance(expected, type):
            with pytest.raises(expected):
                table.producers.look_up(mark)
            continue
        assert table.pieces(mark) == expected
        if expected:
            continue
        batch = table.append(mark)
        if is_refused:
            table.producers.take_back(mark, batch)
            table.end -= count
            continue
        table.producers.settle(mark, batch)
        twin.stored.append((mark.epoch, mark.sequence, mark.count, batch.first_offset))
        epoch, sequence = mark.epoch, (mark.sequence + mark.count) % SEQUENCE_COUNT
        if restarts:
            table = Table(ProducerTable.from_facts(table.producers.facts(table.end), is_complete=True), table.end)
