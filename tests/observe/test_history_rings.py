"""The long history: rows merged, kept in rings, and restored from the bytes of a file."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.limits import HISTORY_GROUPS_MAX, HISTORY_RINGS
from goqueue.observe.history_rings import FILE_BYTES, HistoryRings, file_header, is_ours
from goqueue.observe.history_row import (
    RATES,
    ROW_BYTES,
    SERIES,
    GroupPoint,
    HistoryRow,
    Values,
    decode_row,
    encode_row,
    group_key,
    point_of,
    whole_row,
)

BEGIN = 1_700_000_000
SECOND = 1_000_000_000
PUBLISHED, LAG = SERIES.index("published"), SERIES.index("total_lag")


def values(published: float = 0.0, lag: float = 0.0) -> Values:
    found = [0.0] * len(SERIES)
    found[PUBLISHED], found[LAG] = published, lag
    return tuple(found)


class Past:
    """Rings, a clock, and a file that gets their changes."""

    def __init__(self) -> None:
        self.rings = HistoryRings()
        self.now = BEGIN
        self.file = bytearray(file_header().ljust(FILE_BYTES, b"\0"))

    def second(self, published: float = 0.0, lag: float = 0.0, **groups: tuple[float, float]) -> None:
        self.now += 1
        points = {group_key(name): GroupPoint(*point) for name, point in groups.items()}
        self.rings.add(self.now * SECOND, 1.0, values(published, lag), points)

    def seconds(self, published: Iterable[float]) -> None:
        for one in published:
            self.second(one, one)

    def save(self) -> None:
        for position, content in self.rings.take_changes():
            self.file[position : position + len(content)] = content

    def restart(self, *, cleanly: bool = True) -> int:
        if cleanly:
            self.rings.complete()
        self.save()
        self.rings = HistoryRings()
        return self.rings.restore(self.file, self.now * SECOND)

    def series(self, name: str, seconds: int, step: int = 10) -> list[float | None]:
        return self.rings.read(seconds, step, self.now * SECOND).series[name]


def test_rates_are_averaged_and_lag_is_the_largest() -> None:
    past = Past()
    past.seconds([0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 5])
    assert past.series("published", 20) == [None, 45]
    assert past.series("total_lag", 20) == [None, 90]
    assert past.rings.read(10, 10, past.now * SECOND).end_ns == (BEGIN + 10) * SECOND


def test_all_series_have_one_number_per_step() -> None:
    past = Past()
    past.seconds([1] * 100)
    found = past.rings.read(3600, 60, past.now * SECOND).series
    assert found.keys() == set(SERIES)
    assert {len(one) for one in found.values()} == {60}


def test_downtime_is_a_gap() -> None:
    past = Past()
    past.seconds([3] * 10)
    past.now += 30
    past.seconds([7] * 11)
    assert past.series("published", 50) == [3, None, None, None, 7]


def test_long_steps_merge_rows() -> None:
    past = Past()
    past.now += 60 - BEGIN % 60  # the beginning of a minute
    past.seconds([6] * 60 + [12] * 60 + [0])
    assert past.series("published", 120, 120) == [9]
    assert past.series("published", 120, 60)[-2:] == [6, 12]
    assert past.series("published", 60, 30) == [12, 12]


def test_a_restart_keeps_the_history_and_goes_on_in_its_rows() -> None:
    past = Past()
    past.seconds([10] * 14)
    assert past.restart() == 0
    past.seconds([40] * 7)
    assert past.series("published", 20) == [10, 28], "four seconds before the restart and six after it"


def test_an_end_without_warning_loses_the_last_row_at_most() -> None:
    past = Past()
    past.seconds([10] * 25)
    past.restart(cleanly=False)
    past.seconds([40] * 6)
    assert past.series("published", 30) == [10, 10, 40]


def test_an_old_row_is_no_row_of_today() -> None:
    past = Past()
    past.seconds([5] * 20)
    step, length = HISTORY_RINGS[0]
    past.now += step * length
    past.seconds([0] * 20)
    assert past.series("published", 40) == [None, None, None, 0]


def test_rows_of_a_clock_that_was_ahead_are_dropped() -> None:
    past = Past()
    past.seconds([1] * 20)
    past.now += 7200
    past.seconds([2] * 20)
    past.now -= 7200
    past.seconds([3] * 20)
    past.now += 7300
    assert set(past.series("published", 200)) == {None}
    past.restart()
    assert set(past.series("published", 200)) == {None}


def test_a_file_of_the_future_is_not_shown() -> None:
    past = Past()
    past.seconds([1] * 20)
    past.now -= 86_400
    past.restart()
    past.now += 86_400
    assert set(past.series("published", 60)) == {None}


def test_groups_have_lag_and_rate() -> None:
    past = Past()
    for second in range(21):
        past.second(0, 0, billing=(100 + second, 4), shipping=(0, 2))
    found = past.rings.read_group("billing", 20, 10, past.now * SECOND).series
    assert found == {"lag": [109, 119], "rate": [4, 4]}
    assert past.rings.read_group("other", 20, 10, past.now * SECOND).series["lag"] == [None, None]
    past.restart()
    assert past.rings.read_group("shipping", 20, 10, past.now * SECOND).series["rate"] == [2, 2]


def test_of_many_groups_those_with_the_most_lag_are_kept() -> None:
    groups = {group_key(f"group-{number}"): GroupPoint(number, 1.0) for number in range(HISTORY_GROUPS_MAX + 50)}
    row = encode_row(HistoryRow(1, 1.0, values(), groups))
    assert len(row) == ROW_BYTES
    assert sorted(point.lag for point in decode_row(row).groups.values()) == list(range(50, HISTORY_GROUPS_MAX + 50))
    assert point_of(row, group_key("group-49")) is None
    assert point_of(row, group_key("group-50")) == GroupPoint(50, 1.0)


def test_a_row_that_was_torn_is_a_gap() -> None:
    past = Past()
    past.seconds([8] * 31)
    past.save()
    at = past.file.index(encode_row(HistoryRow((BEGIN + 10) // 10, 10.0, values(8, 8), {})))
    past.file[at + 40] ^= 1
    assert past.restart(cleanly=False) == 1
    assert past.series("published", 30) == [8, None, 8]


def test_only_a_file_of_this_layout_is_ours() -> None:
    header = file_header()
    assert is_ours(header)
    assert not is_ours(b"")
    assert not is_ours(header.replace(b"published", b"publisher"))
    assert not is_ours(b"a letter to my broker")


# --- for all ---

steps = st.sampled_from([1, 1, 1, 1, 2, 7, 15, 70, 3600, 100_000])
samples = st.lists(st.tuples(steps, st.integers(0, 10**9)), max_size=60)


@given(samples)
def test_each_number_is_what_its_seconds_say(told: list[tuple[int, int]]) -> None:
    past, seen = Past(), dict[int, list[tuple[float, int]]]()
    for seconds, number in told:
        past.now += seconds
        weight = min(float(seconds), 10.0)
        past.rings.add(past.now * SECOND, float(seconds), values(number, number), {})
        seen.setdefault((past.now - 1) // 10, []).append((weight, number))
    past.rings.complete()
    found = past.rings.read(21_600, 10, past.now * SECOND)
    last = (found.end_ns // SECOND - 1) // 10
    expected = [seen.get(slot) for slot in range(last - 2_159, last + 1)]
    means = [
        one and sum(weight * number for weight, number in one) / sum(weight for weight, _ in one) for one in expected
    ]
    assert found.series["published"] == [one and pytest.approx(one, abs=0.01) for one in means]
    assert found.series["total_lag"] == [one and max(number for _, number in one) for one in expected]


@given(
    st.lists(st.tuples(st.sampled_from([1, 1, 1, 12, 400, 9_000, -1, -30, -20_000]), st.integers(0, 99)), max_size=60)
)
def test_the_file_has_what_memory_has_whatever_the_clock_does(told: list[tuple[int, int]]) -> None:
    past = Past()
    for seconds, number in told:
        past.now += seconds
        past.rings.add(past.now * SECOND, 1.0, values(number), {group_key("g"): GroupPoint(number, 1.0)})
        past.save()
    past.rings.complete()
    before = [past.rings.read(21_600, 10, past.now * SECOND), past.rings.read(172_800, 60, past.now * SECOND)]
    assert past.restart() == 0
    after = [past.rings.read(21_600, 10, past.now * SECOND), past.rings.read(172_800, 60, past.now * SECOND)]
    assert before == after


@given(st.binary(max_size=300), st.integers(0, 400))
def test_no_bytes_are_an_obstacle(noise: bytes, place: int) -> None:
    row = encode_row(HistoryRow(7, 10.0, values(1), {group_key("g"): GroupPoint(1, 2)}))
    changed = row[:place] + noise + row[place + len(noise) :]
    assert whole_row(changed) in {None, row}
    assert is_ours(noise) is False


@given(st.lists(st.tuples(st.floats(0.5, 10), st.integers(0, 10**6)), min_size=1, max_size=20))
def test_merging_neither_loses_nor_invents_messages(told: list[tuple[float, int]]) -> None:
    past = Past()
    for seconds, number in told:
        past.rings.add((BEGIN + 5) * SECOND, seconds, values(number), {})
    past.rings.complete()
    (rate,) = past.rings.read(10, 10, (BEGIN + 10) * SECOND).series["published"]
    assert rate == pytest.approx(sum(s * n for s, n in told) / sum(s for s, _ in told), rel=1e-6, abs=0.001)
    assert SERIES.index("publish_p50_ms") == RATES
