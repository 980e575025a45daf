"""Splits of a log, read: every message once and in order, whatever is done to the files meanwhile."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.errors import SegmentNotFound
from goqueue.spark.logs.splits import FrameRun, RemovedRange, read_split
from goqueue.spark.reading.plan import EARLIEST, LATEST, ReadBound, TopicSelection, make_plan
from goqueue.storage import frame
from tests.spark import naive
from tests.spark.stock import SHAPES, Sent, Stock, logs_of, made, offsets, rows, splits, stocked

# --- against the naive reading ---

small = st.binary(max_size=40)
messages = st.builds(
    Sent,
    value=small | st.none() | st.sampled_from([b"ab" * 700, b"GQ\x01", SHAPES[10].value]),
    key=st.none() | st.sampled_from([b"a", b"b", b"c" * 300]),
    headers=st.lists(st.tuples(st.sampled_from(["h", "__h", "\u00e9"]), small), max_size=3).map(tuple),
    priority=st.integers(0, 4),
    is_compressed=st.booleans(),
    is_control=st.sampled_from([False, False, False, True]),
)
actions = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 1), st.lists(messages, min_size=1, max_size=6), st.integers(1, 8)),
    st.tuples(st.sampled_from(["roll", "expire", "compact"]), st.integers(0, 1), st.just(()), st.just(0)),
)


def act(stock: Stock, action: str, partition: int, sent: "list[Sent] | tuple[()]", repeats: int) -> None:
    match action:
        case "append":
            stock.append("t", *(list(sent) * repeats), partition=partition)
        case "roll":
            stock.roll("t", partition)
        case "expire":
            stock.expire("t", partition, bytes_kept=stock.log("t", partition).size // 2)
        case "compact":
            stock.compact("t", partition)


@given(
    st.lists(actions, min_size=1, max_size=12),
    st.sampled_from([4096, 8192, 100_000]),
    st.booleans(),
    st.tuples(st.integers(0, 200), st.integers(0, 200)),
    st.none() | st.integers(1, 20_000),
    st.none() | st.integers(1, 40),
)
def test_all_splits_together_are_the_naive_reading(
    done: "list[tuple[str, int, list[Sent] | tuple[()], int]]",
    segment_bytes: int,
    is_live: bool,
    ends: tuple[int, int],
    split_bytes: int | None,
    least: int | None,
) -> None:
    with tempfile.TemporaryDirectory() as place, Stock(Path(place) / "d", segment_bytes=segment_bytes) as stock:
        stock.create("t", 2)
        for one in done:
            act(stock, *one)
        if not is_live:
            stock.close()
        logs, (first, end) = logs_of(stock), sorted(ends)
        for start, stop in ((EARLIEST, LATEST), (ReadBound(first), ReadBound(end))):
            plan = make_plan(logs, TopicSelection(), start, stop)
            planned = plan.splits(logs, split_bytes=split_bytes, least=least)
            wanted = [row for one in plan.ranges for row in naive.rows(stock.path, "t", one.ref[1], one.first, one.end)]
            assert rows(logs, planned) == wanted
            assert plan.messages >= len(wanted)
            assert sum(split.size for split in planned) <= plan.size <= sum(one.view.size for one in plan.ranges)
            assert len({(split.topic, split.partition, split.first) for split in planned}) == len(planned)
            assert all(split.first < split.end for split in planned)
        assert rows(logs, splits(logs)) == naive.rows(stock.path, "t") + naive.rows(stock.path, "t", 1)


def test_a_giant_segment_is_cut_at_entries_of_its_index(tmp_path: Path) -> None:
    stock = made(tmp_path / "d", count=600, partitions=1, segment_bytes=10_000_000)
    logs = logs_of(stock)
    planned = splits(logs, split_bytes=5000)
    assert len(planned) > 10
    opened = logs.open("orders", 0, planned[0].segments[0])
    opened.file.close()
    assert {split.first for split in planned} <= set(opened.index.offsets)
    assert rows(logs, planned) == naive.rows(stock.path, "orders")


# --- files that change between planning and reading ---


def test_what_retention_removes_meanwhile_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        logs = logs_of(stock)
        planned = splits(logs, split_bytes=6000)
        stock.expire("orders", bytes_kept=10_000)
        earliest = stock.log("orders").first_offset
        assert earliest > 20
        pieces = [piece for split in planned for piece in read_split(logs, split)]
        removed = [piece for piece in pieces if isinstance(piece, RemovedRange)]
        assert [offset for one in removed for offset in range(one.first, one.next_offset)] == list(range(earliest))
        assert rows(logs, planned, fails=False) == [
            {name: row[name] for name in row if name != "crc_ok"} for row in naive.rows(stock.path, "orders")
        ]
        with pytest.raises(SegmentNotFound, match=r"offsets 0 to \d+ of orders/0 were removed"):
            rows(logs, planned[:1])


def test_a_segment_removed_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        logs = logs_of(stock)
        (split,) = splits(logs)
        pieces = read_split(logs, split)
        first = next(pieces)
        stock.expire("orders")
        assert isinstance(first, FrameRun)
        rest = [piece for piece in pieces if isinstance(piece, RemovedRange)]
        assert [one.first for one in rest] == [int(first.frames.offsets[-1]) + 1]


@pytest.mark.parametrize("split_bytes", [None, 3000])
def test_a_compaction_between_planning_and_reading_loses_and_repeats_nothing(
    tmp_path: Path, split_bytes: int | None
) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        logs = logs_of(stock)
        planned = splits(logs, split_bytes=split_bytes)
        before = len(stock.segments("orders"))
        stock.compact("orders")
        assert len(stock.segments("orders")) < before
        assert rows(logs, planned) == naive.rows(stock.path, "orders")


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.sampled_from([None, 2000, 6000]))
@settings(max_examples=15)
def test_compactions_while_a_split_is_read_leave_rising_offsets_and_every_latest_message(
    pauses: list[int], split_bytes: int | None
) -> None:
    with tempfile.TemporaryDirectory() as place, stocked(Path(place) / "d", partitions=1) as stock:
        logs = logs_of(stock)
        planned = splits(logs, split_bytes=split_bytes)
        found: list[int] = []
        waits = iter(pauses)
        left = next(waits)
        for split in planned:
            for piece in read_split(logs, split):
                assert isinstance(piece, FrameRun)
                found += piece.frames.offsets.tolist()
                left -= 1
                if left == 0:
                    stock.fill("orders", 12)
                    stock.compact("orders")
                    left = next(waits, -1)
        end = planned[-1].end
        assert found == sorted(set(found))
        kept = {message.offset for _, _, message in naive.frames(stock.path, "orders") if message.offset < end}
        assert kept <= set(found)


def test_segments_that_roll_on_meanwhile_change_nothing(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        logs = logs_of(stock)
        before, planned = naive.rows(stock.path, "orders"), splits(logs)
        stock.fill("orders", 200)
        assert rows(logs, planned) == before


def test_a_topic_deleted_meanwhile_is_told_or_passed_over(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        logs = logs_of(stock)
        planned = splits(logs)
        stock.store.delete("orders/0")
        with pytest.raises(SegmentNotFound, match="orders/0 were removed"):
            rows(logs, planned)
        assert rows(logs, planned, fails=False) == []


def test_a_topic_created_again_does_not_show_its_new_messages(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        logs = logs_of(stock)
        planned = splits(logs)
        stock.store.delete("orders/0")
        stock.create("orders")
        with pytest.raises(SegmentNotFound, match="orders/0 were removed"):
            rows(logs, planned)


def test_five_thousand_segments_are_planned_and_read(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        stock.create("t")
        stock.append("t", Sent(b"x" * 30))
        stock.roll("t")
        stock.append("t", Sent(b"y"))
    (first, second) = stock.segments("t")
    content = bytearray(first.read_bytes())
    for number in range(2, 5000):
        frame.stamp(content, 0, len(content), number, 1_700_000_010_000_000_000 + number)
        (first.parent / f"{number:020d}.log").write_bytes(content)
    logs = logs_of(stock)
    planned = splits(logs, least=10)
    assert len(planned) >= 10
    assert offsets(logs, planned) == list(range(5000))
    assert second.exists()
