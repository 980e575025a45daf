"""The limits of a micro-batch."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.spark.reading.plan import PartitionRange, ReadPlan
from goqueue.spark.stream import positions
from goqueue.spark.stream.positions import BatchTriggers, TriggerLimits, limited, share
from goqueue.storage.log_view import LogView, SegmentView

LEFT = st.dictionaries(st.integers(0, 9), st.integers(0, 1000), max_size=8)


def ranges(*counts: int, message_bytes: int = 10) -> list[PartitionRange]:
    return [
        PartitionRange(
            ("orders", number),
            5,
            5 + count,
            LogView((SegmentView(0, 5 + count, (5 + count) * message_bytes, "v"),)),
        )
        for number, count in enumerate(counts)
    ]


def taken(counts: list[PartitionRange], ends: dict[tuple[str, int], int]) -> list[int]:
    return [ends[one.ref] - one.first for one in counts]


@given(LEFT, st.integers(1, 2000))
def test_shares_are_all_that_is_left_or_exactly_what_is_allowed(left: dict[int, int], most: int) -> None:
    shares = share(most, left)
    assert sum(shares.values()) == min(most, sum(left.values()))
    assert all(0 <= shares[one] <= left[one] for one in left)


@given(LEFT, st.integers(1, 2000))
def test_each_share_has_one_where_there_are_enough(left: dict[int, int], most: int) -> None:
    shares = share(most, left)
    if most >= len(left):
        assert all(shares[one] > 0 for one in left if left[one])


def test_a_small_partition_is_not_starved_by_a_large_one() -> None:
    assert share(10, {"large": 1_000_000, "small": 1}) == {"large": 9, "small": 1}


@given(st.lists(st.integers(0, 500), min_size=1, max_size=5), st.integers(1, 800), st.integers(1, 9000))
def test_a_batch_stays_within_both_limits_but_takes_at_least_one_message(
    counts: list[int], messages: int, size: int
) -> None:
    given = ranges(*counts)
    ends = limited(given, messages, size)
    whole = ReadPlan(tuple(PartitionRange(one.ref, one.first, ends[one.ref], one.view) for one in given))
    assert whole.messages <= messages
    assert whole.size <= size or whole.messages == 1
    assert whole.messages > 0 or not any(counts)


def test_without_limits_all_is_taken() -> None:
    given = ranges(3, 0, 7)
    assert taken(given, BatchTriggers(TriggerLimits(), 0.0).admit(given, 0.0)) == [3, 0, 7]


def test_too_little_is_waited_for_until_the_delay_is_over() -> None:
    triggers = BatchTriggers(TriggerLimits(messages_least=10, delay_seconds=60.0), now=100.0)
    assert triggers.admit(ranges(9), 159.0) == {}
    assert taken(ranges(9), triggers.admit(ranges(9), 160.0)) == [9]
    assert triggers.admit(ranges(9), 161.0) == {}
    assert taken(ranges(10), triggers.admit(ranges(10), 162.0)) == [10]


def test_what_is_all_that_comes_is_not_waited_for() -> None:
    triggers = BatchTriggers(TriggerLimits(messages_least=10, delay_seconds=60.0), now=0.0)
    assert taken(ranges(9), triggers.admit(ranges(9), 0.0, is_complete=True)) == [9]


def test_positions_are_written_in_one_order_and_read_back() -> None:
    given = {("b", 0): 3, ("a", 10): 1, ("a", 2): 2}
    offset = positions.to_json(given, {("b", 0): 1})
    assert list(offset["a"]) == ["2", "10"]
    assert offset == {"a": {"2": 2, "10": 1}, "b": {"0": 3}, "@from": {"b": {"0": 1}}}
    assert (positions.from_json(offset), positions.begun_positions(offset)) == (given, {("b", 0): 1})
    assert positions.begun_positions({"a": {"0": 1}}) == {}
