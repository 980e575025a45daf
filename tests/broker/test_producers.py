"""The table of producers, and a naive twin that remembers everything."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.producers import Batch, Mark, Producers
from goqueue.errors import GoQueueError, ProducerFenced, SequenceOutOfOrder
from goqueue.limits import PRODUCER_WINDOW, PRODUCERS_MAX, SEQUENCE_COUNT


class Table:
    """A table and the end of the log beside it."""

    def __init__(self, producers: Producers | None = None, end: int = 0) -> None:
        self.producers = Producers() if producers is None else producers
        self.end = end

    def append(self, mark: Mark) -> Batch:
        """On its way to the disk."""
        batch = Batch(mark.sequence, mark.count, self.end)
        self.producers.add(mark, batch)
        self.end += mark.count
        return batch

    def store(self, mark: Mark) -> Batch:
        batch = self.append(mark)
        self.producers.settle(mark, batch)
        return batch

    def pieces(self, mark: Mark) -> list[tuple[int, int]]:
        return [batch.piece for batch in self.producers.look_up(mark).batches]


def test_a_producer_that_nobody_knows_may_begin_anywhere() -> None:
    table = Table()
    known = table.producers.look_up(Mark(1, 0, 1000, 3))
    assert (known.batches, known.missing) == ((), 3)


def test_the_latest_five_batches_are_known_again_and_none_before_them() -> None:
    table = Table()
    marks = [Mark(1, 0, number, 1) for number in range(PRODUCER_WINDOW + 1)]
    for mark in marks:
        table.store(mark)
    assert [table.pieces(mark) for mark in marks[1:]] == [[(number, number + 1)] for number in range(1, len(marks))]
    with pytest.raises(SequenceOutOfOrder):
        table.producers.look_up(marks[0])


def test_what_is_on_its_way_takes_nobodys_place() -> None:
    table = Table()
    marks = [Mark(1, 0, number, 1) for number in range(2 * PRODUCER_WINDOW)]
    for mark in marks[:PRODUCER_WINDOW]:
        table.store(mark)
    first, second, *_ = [table.append(mark) for mark in marks[PRODUCER_WINDOW:]]
    table.producers.settle(marks[PRODUCER_WINDOW], first)
    table.producers.take_back(marks[PRODUCER_WINDOW + 1], second)
    assert all(table.pieces(mark) for mark in marks[1 : PRODUCER_WINDOW + 1])


def test_a_gap_is_refused_and_names_what_is_expected() -> None:
    table = Table()
    table.store(Mark(1, 0, 0, 3))
    with pytest.raises(SequenceOutOfOrder) as refusal:
        table.producers.look_up(Mark(1, 0, 4, 1))
    assert refusal.value.details["expected"] == 3


@pytest.mark.parametrize("mark", [Mark(1, 0, 0, 2), Mark(1, 0, 1, 2), Mark(1, 0, 1, 1), Mark(1, 0, 0, 4)])
def test_a_retry_that_is_cut_otherwise_than_the_first_time_is_refused(mark: Mark) -> None:
    table = Table()
    table.store(Mark(1, 0, 0, 3))
    with pytest.raises(SequenceOutOfOrder):
        table.producers.look_up(mark)


def test_a_longer_batch_that_begins_with_stored_ones_is_refused() -> None:
    """Whether what stands there are its own first messages, nobody knows."""
    table = Table()
    for sequence in (0, 3):
        table.store(Mark(1, 0, sequence, 3))
    for mark in (Mark(1, 0, 0, 5), Mark(1, 0, 0, 6), Mark(1, 0, 0, 7), Mark(1, 0, 3, 4)):
        with pytest.raises(SequenceOutOfOrder):
            table.producers.look_up(mark)


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_anew() -> None:
    table = Table()
    table.store(Mark(1, 3, 0, 1))
    with pytest.raises(ProducerFenced) as refusal:
        table.producers.look_up(Mark(1, 2, 1, 1))
    assert refusal.value.details["epoch"] == 3
    assert table.producers.look_up(Mark(1, 4, 77, 1)).missing == 1


def test_a_newer_epoch_that_the_disk_refuses_leaves_the_older_one_as_it_was() -> None:
    table = Table()
    old, new = Mark(1, 0, 0, 2), Mark(1, 1, 0, 1)
    table.store(old)
    table.producers.take_back(new, table.append(new))
    assert table.pieces(old) == [(0, 2)]
    with pytest.raises(SequenceOutOfOrder):
        table.producers.look_up(Mark(1, 0, 7, 1))


def test_the_first_batch_that_the_disk_refuses_leaves_nothing() -> None:
    table = Table()
    mark = Mark(1, 5, 3, 1)
    table.producers.take_back(mark, table.append(mark))
    assert len(table.producers) == 0
    assert table.producers.look_up(Mark(1, 0, 0, 1)).missing == 1


def test_sequences_begin_again_behind_the_last_one() -> None:
    table = Table()
    last = Mark(1, 0, SEQUENCE_COUNT - 2, 5)
    table.store(last)
    follows = Mark(1, 0, 3, 1)
    assert table.producers.look_up(follows).missing == 1
    table.store(follows)
    assert (table.pieces(last), table.pieces(follows)) == ([(0, 5)], [(5, 6)])


def test_a_torn_batch_lacks_its_end_and_only_the_latest_may() -> None:
    whole = Mark(1, 0, 4, 5)
    table = Table(end=12)
    table.producers.replay(whole, 10, 0, next_offset=12)
    known = table.producers.look_up(whole)
    assert ([batch.piece for batch in known.batches], known.missing) == ([(10, 12)], 3)
    table.store(Mark(1, 0, 6, 3))
    assert table.producers.look_up(whole).missing == 0
    table = Table(end=12)
    table.producers.replay(whole, 10, 0, next_offset=12)
    table.store(Mark(1, 0, 6, 1))
    for mark in (whole, Mark(1, 0, 4, 1)):
        with pytest.raises(SequenceOutOfOrder):
            table.producers.look_up(mark)


def test_a_batch_that_two_crashes_have_torn_lacks_its_end() -> None:
    whole = Mark(1, 0, 4, 5)
    table = Table(end=12)
    table.producers.replay(whole, 10, 0, next_offset=12)
    table.producers.replay(Mark(1, 0, 6, 3), 12, 0, next_offset=14)
    table.end = 14
    known = table.producers.look_up(whole)
    assert ([batch.piece for batch in known.batches], known.missing) == ([(10, 12), (12, 14)], 1)
    table.store(Mark(1, 0, 8, 1))
    assert (table.pieces(whole), table.producers.look_up(whole).missing) == ([(10, 12), (12, 14), (14, 15)], 0)


def test_of_very_many_producers_the_latest_are_known() -> None:
    table = Table()
    for number in range(PRODUCERS_MAX + 1):
        table.store(Mark(number, 0, 0, 1))
    assert len(table.producers) == PRODUCERS_MAX
    assert table.pieces(Mark(0, 0, 0, 1)) == []
    assert table.pieces(Mark(1, 0, 0, 1)) == [(1, 2)]


def test_of_a_forgotten_producer_only_a_first_batch_is_taken() -> None:
    """Any other may be stored already: whether it is can be told of those alone that are remembered."""
    table = Table()
    table.store(Mark(PRODUCERS_MAX, 0, 0, 1))
    table.store(Mark(PRODUCERS_MAX, 0, 1, 1))
    for number in range(PRODUCERS_MAX):
        table.store(Mark(number, 0, 0, 1))
    for producers in (table.producers, Producers.from_facts(table.producers.facts(table.end), is_complete=False)):
        with pytest.raises(SequenceOutOfOrder) as refusal:
            producers.look_up(Mark(PRODUCERS_MAX, 0, 1, 1))
        assert refusal.value.details == {"forgotten": True}
        assert producers.look_up(Mark(PRODUCERS_MAX + 1, 0, 0, 1)).missing == 1


def test_a_note_holds_what_is_durable_and_nothing_that_may_be_refused_yet() -> None:
    table = Table()
    table.store(Mark(1, 0, 0, 2))
    table.append(Mark(1, 0, 2, 2))
    table.append(Mark(2, 0, 0, 1))
    restored = Producers.from_facts(table.producers.facts(end=2), is_complete=True)
    assert (len(restored), restored.look_up(Mark(1, 0, 2, 2)).missing) == (1, 2)


# --- the twin ---


@dataclass
class Twin:
    """Remembers every batch of the producer that was stored, as (epoch, sequence, count, offset): as it was sent, and
    never as parts of another one."""

    stored: list[tuple[int, int, int, int]] = field(default_factory=list)

    def expects(self, mark: Mark) -> list[tuple[int, int]] | type[GoQueueError]:
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
def test_the_table_answers_as_one_that_remembers_everything(
    asked: list[tuple[str, int, int, bool, bool]], start: int
) -> None:
    table, twin = Table(), Twin()
    epoch, sequence = 0, start
    for kind, count, back, is_refused, restarts in asked:
        mark = Mark(1, epoch, sequence, count)
        if kind in ("again", "recut") and twin.stored:
            known_epoch, begin, size, _ = twin.stored[-1 - back % len(twin.stored)]
            mark = Mark(1, known_epoch, begin, size + count * (kind == "recut"))
        elif kind == "gap":
            mark = Mark(1, epoch, (sequence + 1 + back) % SEQUENCE_COUNT, count)
        elif kind == "older" and epoch:
            mark = Mark(1, epoch - 1, sequence, count)
        elif kind == "newer":
            mark = Mark(1, epoch + 1, start, count)
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
            table = Table(Producers.from_facts(table.producers.facts(table.end), is_complete=True), table.end)
