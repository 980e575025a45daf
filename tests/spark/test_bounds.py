"""Where a moment is in a partition: always where looking at every message would find it."""

import shutil
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import EARLIEST, LATEST, ReadBound, TimePoint, find_offset_at
from goqueue.storage.log_view import LogView
from tests.spark import naive
from tests.spark.stock import Sent, Stock, flip, logs_of, made, stocked

PLACE = ("orders", 0)


def found(path: Path, time_ns: int, view: LogView | None = None) -> int:
    logs = DirectoryLogs.at(str(path))
    return find_offset_at(logs, PLACE, view or logs.view(*PLACE), time_ns)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.sampled_from([0, 50, 900])), max_size=8),
    st.sampled_from([4096, 20_000, 200_000]),
    st.booleans(),
)
def test_every_time_is_found_where_the_naive_reading_finds_it(
    batches: list[tuple[int, int, int]], segment_bytes: int, has_gaps: bool
) -> None:
    with tempfile.TemporaryDirectory() as place, Stock(Path(place) / "d", segment_bytes=segment_bytes) as stock:
        stock.create("orders")
        for seconds, count, size in batches:
            stock.clock.advance(seconds)
            stock.append("orders", *(Sent(b"x" * size, b"k%d" % (number % 9)) for number in range(count)))
        if has_gaps:
            stock.compact("orders")
        times = {message.timestamp_ns for _, _, message in naive.frames(stock.path, "orders")}
        end = stock.log("orders").next_offset
        for time_ns in {0, 2**63} | {time + step for time in times for step in (-1, 0, 1)}:
            assert found(stock.path, time_ns) == naive.first_since(stock.path, *PLACE, time_ns, end)


@pytest.mark.parametrize("number", [0, 3, 40, 41, 100, 119])
def test_a_damaged_message_leaves_its_time_to_the_next_one(tmp_path: Path, number: int) -> None:
    stock = made(tmp_path / "d", partitions=1)
    whole = naive.frames(stock.path, "orders")
    segment, position, _ = whole[number]
    flip(stock.directory("orders") / f"{segment:020d}.log", position + 17, 0x55)
    healthy = [message for _, _, message in whole if message.offset != number]
    for time_ns in {message.timestamp_ns for _, _, message in whole}:
        wanted = next((one.offset for one in healthy if one.timestamp_ns >= time_ns), 120)
        assert found(stock.path, time_ns) == wanted


def test_times_of_an_index_that_lie_are_not_believed(tmp_path: Path) -> None:
    stock = made(tmp_path / "d", partitions=1, count=300, segment_bytes=100_000)
    times = [message.timestamp_ns for _, _, message in naive.frames(stock.path, "orders")]
    (file,) = (stock.directory("orders")).glob("*.timeindex")
    entries = list(struct.iter_unpack(">qq", file.read_bytes()))
    file.write_bytes(b"".join(struct.pack(">qq", 1 + number, offset) for number, (_, offset) in enumerate(entries)))
    for time_ns in sorted(set(times)):
        assert found(stock.path, time_ns) == times.index(time_ns)


def test_segments_that_go_meanwhile_leave_it_to_those_behind_them(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        view = logs_of(stock).view(*PLACE)
        times = [message.timestamp_ns for _, _, message in naive.frames(stock.path, "orders")]
        stock.expire("orders", bytes_kept=8000)
        earliest = stock.log("orders").first_offset
        assert earliest > 0
        for offset in (0, earliest - 1, earliest, 119):
            assert found(stock.path, times[offset], view) == max(earliest, times.index(times[offset]))


def test_a_compaction_meanwhile_changes_no_answer(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        view = logs_of(stock).view(*PLACE)
        times = {message.timestamp_ns for _, _, message in naive.frames(stock.path, "orders")}
        stock.compact("orders")
        for time_ns in times:
            assert found(stock.path, time_ns, view) == naive.first_since(stock.path, *PLACE, time_ns, 120)


def test_an_empty_partition_ends_where_it_begins(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        stock.create("orders")
        assert found(stock.path, 0) == found(stock.path, 2**62) == 0


def test_a_bound_is_an_end_an_offset_or_a_moment_and_each_partition_may_have_its_own(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=2) as stock:
        stock.expire("orders", bytes_kept=8000)
        logs = logs_of(stock)
        view = logs.view(*PLACE)
        time_ns = naive.frames(stock.path, "orders")[10][2].timestamp_ns
        bound = ReadBound(TimePoint(time_ns), {("orders", 1): 7})
        assert bound.offset(logs, PLACE, view) == naive.first_since(stock.path, *PLACE, time_ns, 120)
        assert bound.offset(logs, ("orders", 1), view) == 7
        assert EARLIEST.offset(logs, PLACE, view) == stock.log("orders").first_offset
        assert LATEST.offset(logs, PLACE, view) == 120


def test_a_ruined_segment_is_passed_over(tmp_path: Path) -> None:
    stock = made(tmp_path / "d", partitions=1)
    shutil.copytree(stock.path, tmp_path / "copy")
    files = stock.segments("orders")
    files[1].write_bytes(bytes(files[1].stat().st_size))
    frames = [message for _, _, message in naive.frames(tmp_path / "copy", "orders")]
    behind = int(files[2].stem)
    for message in frames:
        lost = int(files[1].stem) <= message.offset < behind
        wanted = naive.first_since(tmp_path / "copy", *PLACE, message.timestamp_ns, 120)
        if not lost and wanted < int(files[1].stem):
            assert found(stock.path, message.timestamp_ns) == wanted
        elif lost:
            assert found(stock.path, message.timestamp_ns) in (wanted, behind)
