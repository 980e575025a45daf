"""Plans: selections, ends, and splits that cover each offset once."""

from itertools import pairwise
from pathlib import Path

import pytest

from goqueue.errors import (
    DataDirectoryForeign,
    FormatUnsupported,
    OffsetOutOfRange,
    PartitionNotFound,
    PathInvalid,
    TopicNotFound,
)
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import EARLIEST, LATEST, ReadBound, TopicSelection, make_plan
from tests.spark import naive
from tests.spark.stock import Sent, Stock, logs_of, made, offsets, rows, stocked


@pytest.fixture
def logs(tmp_path: Path) -> DirectoryLogs:
    """Topics of users and of the broker."""
    with Stock(tmp_path / "d") as stock:
        stock.create("orders", 3).create("orders-old").create("users").create("__groups", 2)
        stock.store.create("orders/0/delayed")
        return logs_of(stock)


def test_all_topics_of_users_are_read_where_none_is_named(logs: DirectoryLogs) -> None:
    assert TopicSelection().places(logs) == [
        ("orders", 0),
        ("orders", 1),
        ("orders", 2),
        ("orders-old", 0),
        ("users", 0),
    ]


@pytest.mark.parametrize(
    ("selection", "topics"),
    [
        (TopicSelection(("users", "orders-old", "users")), ["users", "orders-old"]),
        (TopicSelection(pattern="orders.*"), ["orders", "orders", "orders", "orders-old"]),
        (TopicSelection(pattern="orders|user"), ["orders", "orders", "orders"]),
        (TopicSelection(("__groups",)), ["__groups", "__groups"]),
        (TopicSelection(assigned={"orders": (2, 0), "users": (0,)}), ["orders", "orders", "users"]),
    ],
)
def test_topics_are_named_matched_or_assigned(
    logs: DirectoryLogs, selection: TopicSelection, topics: list[str]
) -> None:
    assert [topic for topic, _ in selection.places(logs)] == topics


def test_a_partition_that_is_assigned_twice_is_read_once(logs: DirectoryLogs) -> None:
    assert TopicSelection(assigned={"orders": (2, 0, 2)}).places(logs) == [("orders", 2), ("orders", 0)]


def test_what_is_not_there_is_named_with_what_is(logs: DirectoryLogs) -> None:
    with pytest.raises(TopicNotFound, match="there is no topic 'ordes'") as caught:
        TopicSelection(("users", "ordes")).places(logs)
    assert caught.value.hint == "did you mean orders?"
    with pytest.raises(TopicNotFound, match="there is no topic 'x'") as caught:
        TopicSelection(("x",)).places(logs)
    assert caught.value.hint == "there are: orders, orders-old, users"
    with pytest.raises(TopicNotFound, match=r"no topic matches 'x\.\*'"):
        TopicSelection(pattern="x.*").places(logs)
    with pytest.raises(TopicNotFound, match="no topic matches"):
        TopicSelection(pattern="__.*").places(logs)
    with pytest.raises(PartitionNotFound, match="topic 'users' has no partition 1") as missing:
        TopicSelection(assigned={"users": (1,)}).places(logs)
    assert missing.value.hint == "it has the partitions 0"


def test_a_directory_without_topics_has_nothing_to_read(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        logs = logs_of(stock)
        plan = make_plan(logs, TopicSelection())
        assert (plan.ranges, plan.messages, plan.size, plan.splits(logs)) == ((), 0, 0, [])
        with pytest.raises(TopicNotFound) as caught:
            make_plan(logs, TopicSelection(("t",)))
        assert caught.value.hint == "there are none at all"


def test_an_empty_topic_has_no_split(logs: DirectoryLogs) -> None:
    plan = make_plan(logs, TopicSelection(), is_strict=True)
    assert (len(plan.ranges), plan.messages, plan.size, plan.splits(logs, least=10)) == (5, 0, 0, [])


# --- ends ---


def test_ends_beyond_what_is_there_are_cut_unless_the_read_is_strict(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        stock.expire("orders", bytes_kept=8000)
        logs, earliest = logs_of(stock), stock.log("orders").first_offset
        (one,) = make_plan(logs, TopicSelection(), ReadBound(0), ReadBound(10**12)).ranges
        assert (one.first, one.end) == (earliest, 120)
        (one,) = make_plan(logs, TopicSelection(), ReadBound(10**12), LATEST).ranges
        assert (one.first, one.end) == (120, 120)
        (one,) = make_plan(logs, TopicSelection(), ReadBound(110), ReadBound(100)).ranges
        assert (one.first, one.end) == (110, 110)
        for first in (0, earliest - 1, 121):
            with pytest.raises(OffsetOutOfRange, match=f"offset {first} of orders/0 is not there: it holds") as caught:
                make_plan(logs, TopicSelection(), ReadBound(first), is_strict=True)
            assert caught.value.hint == "failOnDataLoss=false begins with what is there"
        for first in (earliest, 120):
            assert make_plan(logs, TopicSelection(), ReadBound(first), is_strict=True).ranges[0].first == first


def test_a_plan_does_not_see_what_comes_after_it(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        logs = logs_of(stock)
        plan = make_plan(logs, TopicSelection())
        stock.fill("orders", 50)
        assert plan.messages == 120
        assert offsets(logs, plan.splits(logs)) == list(range(120))


# --- splits ---


@pytest.mark.parametrize("split_bytes", [1, 500, 3000, 5000, 10**9])
@pytest.mark.parametrize("least", [None, 1, 3, 7, 1000])
@pytest.mark.parametrize("segment_bytes", [4096, 40_000])
def test_splits_cover_each_offset_once(tmp_path: Path, split_bytes: int, least: int | None, segment_bytes: int) -> None:
    stock = made(tmp_path / "d", segment_bytes=segment_bytes)
    logs = logs_of(stock)
    for start, end in ((EARLIEST, LATEST), (ReadBound(33), ReadBound(77))):
        plan = make_plan(logs, TopicSelection(), start, end)
        planned = plan.splits(logs, split_bytes=split_bytes, least=least)
        for one in plan.ranges:
            mine = [split for split in planned if (split.topic, split.partition) == one.ref]
            assert [mine[0].first, mine[-1].end] == [one.first, one.end]
            assert all(before.end == after.first for before, after in pairwise(mine))
            assert [split.begins for split in mine] == [True, *[False] * (len(mine) - 1)]
        assert rows(logs, planned) == [
            row for one in plan.ranges for row in naive.rows(stock.path, *one.ref, one.first, one.end)
        ]


def test_at_least_as_many_splits_as_wanted_where_there_are_places_to_cut(tmp_path: Path) -> None:
    stock = made(tmp_path / "d", count=600, partitions=2, segment_bytes=8192)
    logs = logs_of(stock)
    plan = make_plan(logs, TopicSelection())
    for least in (1, 2, 5, 10, 20):
        assert len(plan.splits(logs, least=least)) >= least
    assert len(plan.splits(logs)) == 2


def test_splits_are_about_as_large_as_they_may_be(tmp_path: Path) -> None:
    stock = made(tmp_path / "d", count=600, partitions=1, segment_bytes=8192)
    logs = logs_of(stock)
    planned = make_plan(logs, TopicSelection()).splits(logs, split_bytes=20_000)
    assert all(split.size <= 20_000 for split in planned)
    assert sum(split.size for split in planned) == sum(file.stat().st_size for file in stock.segments("orders"))
    assert len(planned) <= 6


def test_a_plan_that_is_split_after_a_compaction_still_covers_all(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        logs = logs_of(stock)
        plan = make_plan(logs, TopicSelection())
        stock.compact("orders")
        for split_bytes in (500, 5000):
            planned = plan.splits(logs, split_bytes=split_bytes)
            assert (planned[0].first, planned[-1].end) == (0, 120)
            assert rows(logs, planned) == naive.rows(stock.path, "orders")


# --- directories ---


def test_a_place_that_is_no_data_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PathInvalid, match="does not exist"):
        DirectoryLogs.at(str(tmp_path / "nowhere"))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PathInvalid, match="is not a directory"):
        DirectoryLogs.at(str(tmp_path / "file"))
    with pytest.raises(DataDirectoryForeign, match="is not a GoQueue data directory: it holds 'file'") as caught:
        DirectoryLogs.at(str(tmp_path))
    assert caught.value.hint == "name a directory that a broker has used, or a copy of one"
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataDirectoryForeign, match="it holds no logs"):
        DirectoryLogs.at(str(tmp_path / "empty"))
    with Stock(tmp_path / "d") as stock:
        (stock.path / "FORMAT").write_bytes(b"goqueue 2\n")
        with pytest.raises(FormatUnsupported, match="has format 2"):
            logs_of(stock)


def test_a_copy_that_may_not_be_written_and_has_no_lock_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = made(tmp_path / "d")
    (stock.path / "lock").unlink()
    files = list(stock.path.rglob("*"))
    for one in files:
        one.chmod(0o555 if one.is_dir() else 0o444)
    before = {one: (one.stat().st_mtime_ns, one.stat().st_size) for one in stock.path.rglob("*")}
    monkeypatch.chdir(tmp_path)
    for place in ("d", "./d/", str(stock.path) + "//"):
        logs = DirectoryLogs.at(place)
        planned = make_plan(logs, TopicSelection()).splits(logs)
        assert rows(logs, planned) == naive.rows(stock.path, "orders") + naive.rows(stock.path, "orders", 1)
    assert {one: (one.stat().st_mtime_ns, one.stat().st_size) for one in stock.path.rglob("*")} == before
    for one in files:
        one.chmod(0o755)


def test_what_waits_for_the_disk_is_not_planned(tmp_path: Path) -> None:
    with stocked(tmp_path / "d", partitions=1) as stock:
        stock.append("orders", Sent(b"waits"), holds_back=True)
        assert make_plan(logs_of(stock), TopicSelection()).messages == 120
        stock.store.flush()
        assert make_plan(logs_of(stock), TopicSelection()).messages == 121
