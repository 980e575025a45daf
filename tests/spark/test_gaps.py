"""Gaps and broken order, against `fsck` and against plain sets of offsets."""

import shutil
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.spark.inspections.gaps import GapScan, OffsetGap, SequenceFindings, compacted_below, find_gaps
from goqueue.spark.inspections.repeats import find_repeats
from goqueue.spark.inspections.verify import LogFault, faults_of
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import EARLIEST, LATEST, ReadBound, TopicSelection, make_plan
from goqueue.storage import check
from goqueue.storage.disk import SystemDisk
from tests.spark import naive
from tests.spark.stock import SHAPES, Sent, Stock, made, stocked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sound") / "data", partitions=1).path


def gaps(
    path: Path, start: ReadBound = EARLIEST, end: ReadBound = LATEST, *, split_bytes: int | None = None
) -> list[OffsetGap]:
    logs = DirectoryLogs.at(str(path))
    plan = make_plan(logs, TopicSelection(), start, end)
    splits = plan.splits(logs, split_bytes=split_bytes)
    below = compacted_below(logs, plan)
    look = GapScan(logs, below)
    return find_gaps(logs, plan, [(split, look(split)) for split in splits], below)


def ranges(found: list[OffsetGap]) -> list[tuple[str, int, int]]:
    return [(gap.what, gap.first_offset, gap.next_offset) for gap in found]


# --- against fsck ---


def by_fsck(path: Path, log: str = "orders/0") -> set[tuple[str, str, int | None, int | None, int | None, int | None]]:
    tasks, _ = check.plan_check(SystemDisk(), log, f"{path}/logs/{log}")
    findings = [finding for task in tasks for finding in check.check_segment(SystemDisk(), task).findings]
    return {
        (one.code, one.path, one.position, one.end, one.first_offset, one.next_offset)
        for one in findings
        if one.code in ("range_damaged", "messages_missing")
    }


def by_us(faults: list[LogFault]) -> set[tuple[str, str, int | None, int | None, int | None, int | None]]:
    return {(one.code, one.path, one.position, one.end, one.first_offset, one.next_offset) for one in faults}


@example([(144, 2296, 700)], None)  # the end of the last segment, for which its mark vouches
@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 700)), min_size=1, max_size=4),
    st.sampled_from([None, 4096, 1500]),
)
def test_damage_is_told_as_fsck_tells_it(
    sound: Path, wounds: list[tuple[int, int, int]], split_bytes: int | None
) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(shutil.copytree(sound, f"{place}/data"))
        files = sorted((path / "logs/orders/0").glob("*.log"))
        for file_number, position, length in wounds:
            file = files[file_number % len(files)]
            content = bytearray(file.read_bytes())
            start = position % len(content)
            content[start : start + length] = bytes(len(content[start : start + length]))
            file.write_bytes(content)
        assert by_us(faults_of(gaps(path, split_bytes=split_bytes))) == by_fsck(path)


def test_a_segment_that_is_gone_is_missing_messages(tmp_path: Path) -> None:
    stock = made(tmp_path / "data", partitions=1)
    segments = stock.segments("orders")
    first, following = int(segments[1].stem), int(segments[2].stem)
    for file in stock.directory("orders").glob(f"{segments[1].stem}.*"):
        file.unlink()
    assert ranges(gaps(stock.path)) == [("missing", first, following)]
    assert by_us(faults_of(gaps(stock.path))) == by_fsck(stock.path)


# --- what explains a gap ---


def compacted(path: Path) -> Stock:
    with stocked(path, partitions=1) as stock:
        stock.roll("orders")
        stock.compact("orders")
        return stock


def test_what_compaction_removed_is_explained(tmp_path: Path) -> None:
    stock = compacted(tmp_path / "data")
    kept = [message.offset for _, _, message in naive.frames(stock.path, "orders")]
    found = gaps(stock.path, split_bytes=2000)
    assert {gap.what for gap in found} == {"compacted"}
    assert all(gap.is_explained for gap in found)
    gone = set(range(kept[0], kept[-1] + 1)) - set(kept)
    assert {offset for gap in found for offset in range(gap.first_offset, gap.next_offset)} >= gone
    assert not faults_of(found)


def test_the_same_gaps_without_the_word_of_compaction_are_losses(tmp_path: Path) -> None:
    stock = compacted(tmp_path / "data")
    explained = gaps(stock.path)
    (stock.directory("orders") / "compacted").unlink()
    found = gaps(stock.path)
    assert {gap.what for gap in found} == {"missing"}
    assert [one[1:] for one in ranges(found)] == [one[1:] for one in ranges(explained)]
    assert by_us(faults_of(found)) == by_fsck(stock.path)


def test_what_retention_removed_before_is_no_gap(tmp_path: Path) -> None:
    with stocked(tmp_path / "data", partitions=1) as stock:
        stock.expire("orders", bytes_kept=5000)
    assert stock.segments("orders")[0].stem != "0" * 20
    assert not gaps(stock.path)


def test_a_range_that_ends_within_a_gap_is_told_up_to_there(tmp_path: Path) -> None:
    stock = made(tmp_path / "data", partitions=1)
    segments = stock.segments("orders")
    first = int(segments[1].stem)
    for file in stock.directory("orders").glob(f"{segments[1].stem}.*"):
        file.unlink()
    assert ranges(gaps(stock.path, ReadBound(first + 2), ReadBound(first + 5))) == [("missing", first + 2, first + 5)]


def test_a_sound_log_has_no_gaps_during_writes(tmp_path: Path) -> None:
    with stocked(tmp_path / "data") as stock:
        stock.append("orders", *SHAPES, holds_back=True)
        assert not gaps(stock.path, split_bytes=1000)


def test_times_that_fall_from_one_segment_to_the_next_are_told(tmp_path: Path) -> None:
    late, early = made(tmp_path / "late", partitions=1), made(tmp_path / "early", partitions=1)
    with Stock(tmp_path / "later") as later:
        later.clock.advance(10**6)
        later.create("orders").fill("orders", 120)
    first = early.segments("orders")[0]
    for suffix in ("log", "index", "timeindex"):
        shutil.copy(later.segments("orders")[0].with_suffix(f".{suffix}"), late.segments("orders")[0].parent)
    bases = [int(segment.stem) for segment in late.segments("orders")]
    assert first.stem == later.segments("orders")[0].stem
    assert ranges(gaps(late.path)) == [("times_fall", bases[1], bases[1] + 1)]


# --- the plain arithmetic of it ---


@given(st.lists(st.integers(0, 60), unique=True), st.integers(0, 70))
def test_gaps_are_what_is_missing_from_a_range(offsets: list[int], below: int) -> None:
    trace, expected = SequenceFindings(), 0
    for offset in sorted(offsets):
        if offset > expected:
            trace.note_gap(expected, offset, below)
        expected = offset + 1
    told = trace.missing + trace.compacted
    assert {number for first, end in told for number in range(first, end)} == set(range(expected)) - set(offsets)
    assert all(end <= below for _, end in trace.compacted)
    assert all(end > below for _, end in trace.missing)
    assert all(one[1] < other[0] for one, other in pairwise(sorted(told)))


# --- content ---


def test_what_was_published_twice_is_found(spark: "SparkSession", tmp_path: Path) -> None:
    with Stock(tmp_path / "data") as stock:
        stock.create("orders", 2)
        stock.append("orders", Sent(b"a", b"k"), Sent(b"b", b"k"), Sent(b"once"), Sent(None, b"k"), Sent(None, b"k"))
        stock.append("orders", Sent(b"a", b"k"), Sent(b"a", b"other"), Sent(b"ab"), Sent(b"b", b"a"))
        stock.append("orders", Sent(b"a", b"k"), Sent(b"b", b"k", is_compressed=True), partition=1)
    logs = DirectoryLogs.at(str(stock.path))
    plan = make_plan(logs, TopicSelection())
    found = find_repeats(spark, logs, plan, plan.splits(logs), 10)
    assert (found.contents, found.copies) == (2, 3)
    first, second = found.most
    assert (first.key, first.copies, first.value_bytes) == (b"k", 3, 1)
    assert (first.first_partition, first.first_offset, first.last_partition, first.last_offset) == (0, 0, 1, 0)
    assert (second.key, second.copies, second.first_offset) == (b"k", 2, 1)
    assert first.first_time < first.last_time
