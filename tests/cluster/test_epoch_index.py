"""The epochs of a log, compared with a list of the epoch of each record."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster.epoch_index import EpochIndex

epochs = st.lists(st.integers(0, 6), max_size=12).map(sorted)


def index_of(records: list[int]) -> EpochIndex:
    rows = [(epoch, records.index(epoch)) for epoch in sorted(set(records)) if epoch]
    return EpochIndex(rows, len(records))


@given(epochs, st.integers(0, 12))
def test_epoch_before_an_offset(records: list[int], offset: int) -> None:
    offset = min(offset, len(records))

    assert index_of(records).epoch_before(offset) == (records[offset - 1] if offset else 0)


@given(epochs, st.integers(0, 7))
def test_end_of_the_greatest_epoch_that_is_not_above_another(records: list[int], epoch: int) -> None:
    below = [one for one in records if one <= epoch]

    assert index_of(records).end_of(epoch) == (max(below, default=0), len(below))


@given(epochs, st.integers(0, 12), st.integers(0, 12))
def test_rows_between_two_offsets(records: list[int], base: int, end: int) -> None:
    found = index_of(records).rows_between(base, end)

    assert list(found) == [row for row in index_of(records).rows if base <= row[1] < end]


@given(epochs, st.integers(0, 12))
def test_cut_leaves_the_index_of_the_shorter_log(records: list[int], end: int) -> None:
    end = min(end, len(records))
    index = index_of(records)
    index.cut(end)

    assert (index.rows, index.end) == (index_of(records[:end]).rows, end)


@given(epochs, st.integers(0, 12), st.integers(0, 7))
def test_log_whose_beginning_was_removed_knows_the_epochs_of_the_rest(
    records: list[int], start: int, epoch: int
) -> None:
    start = min(start, len(records))
    index = index_of(records)
    index.forget_below(start)
    held = records[start:]
    expected = None if held and epoch < held[0] else (max([one for one in records if one <= epoch], default=0))

    assert [index.epoch_before(offset + 1) for offset in range(start, len(records))] == held
    if held:
        found = index.common_end(epoch)
        assert (None if found is None else found[0]) == expected
