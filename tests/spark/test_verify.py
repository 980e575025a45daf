"""Verification beyond frames: indexes, lost ends; and the command from outside."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.spark.inspections.gaps import GapScan, compacted_below, find_gaps
from goqueue.spark.inspections.verify import (
    IndexCheck,
    LogFault,
    active_segments,
    faults_of,
    in_order,
    lost_ends,
    whole_segments,
)
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import EARLIEST, ReadBound, TopicSelection, make_plan
from goqueue.testing.broker import LocalBroker
from tests.brokers import create, publish
from tests.spark.stock import Stock, flip, made, stocked


def index_faults(path: Path) -> list[LogFault]:
    logs = DirectoryLogs.at(str(path))
    plan = make_plan(logs, TopicSelection())
    look = IndexCheck(logs, active_segments(plan))
    return [fault for split in whole_segments(logs, plan) for fault in look(split)]


@pytest.fixture
def stock(tmp_path: Path) -> Stock:
    return made(tmp_path / "data", partitions=1)


def test_indexes_that_say_what_the_log_says_are_sound(stock: Stock) -> None:
    assert not index_faults(stock.path)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_entry_that_lies_is_told(stock: Stock, suffix: str) -> None:
    file = stock.segments("orders")[0].with_suffix(f".{suffix}")
    flip(file, 7)
    (fault,) = index_faults(stock.path)
    assert (fault.code, fault.path, fault.is_damage) == ("index_wrong", str(file), False)


def test_an_index_that_is_gone_is_no_damage(stock: Stock) -> None:
    stock.segments("orders")[0].with_suffix(".index").unlink()
    (fault,) = index_faults(stock.path)
    assert (fault.code, fault.is_damage) == ("index_missing", False)


def test_the_index_of_a_segment_that_grows_is_left_alone(tmp_path: Path) -> None:
    with stocked(tmp_path / "data", partitions=1) as stock:
        logs = DirectoryLogs.at(str(stock.path))
        bases = {split.first for split in whole_segments(logs, make_plan(logs, TopicSelection()))}
        assert bases == {int(file.stem) for file in stock.segments("orders")[:-1]}
        assert not index_faults(stock.path)


def lost(path: Path, end: ReadBound | None = None, *, is_whole: bool = True) -> list[tuple[str, int, int | None]]:
    logs = DirectoryLogs.at(str(path))
    plan = make_plan(logs, TopicSelection(), EARLIEST, end) if end else make_plan(logs, TopicSelection())
    return [(f"{one.topic}/{one.partition}", one.first_offset or 0, one.next_offset)
            for one in lost_ends(logs, plan, is_whole=is_whole)]  # fmt: skip


def test_a_log_that_ends_before_its_clean_stop_is_told(stock: Stock) -> None:
    assert not lost(stock.path)
    last = stock.segments("orders")[-1]
    for file in stock.directory("orders").glob(f"{last.stem}.*"):
        file.unlink()
    (loss,) = lost(stock.path)
    assert loss == ("orders/0", int(last.stem), 120)
    assert not lost(stock.path, ReadBound(5)), "what was not asked for is not told"


def test_a_log_that_is_gone_altogether_is_told_where_all_is_read(stock: Stock) -> None:
    for file in stock.directory("orders").iterdir():
        file.unlink()
    stock.directory("orders").rmdir()
    assert lost(stock.path) == [("orders/0", 0, 120)]
    assert not lost(stock.path, is_whole=False)


def test_faults_stand_in_the_order_of_the_plan(stock: Stock) -> None:
    plan = make_plan(DirectoryLogs.at(str(stock.path)), TopicSelection())
    faults = [LogFault("range_damaged", "orders", 0, path, "", number, number + 1) for path, number in (("b", 1), ("a", 7), ("a", 3))]  # noqa: E501 # fmt: skip
    assert [(one.path, one.position) for one in in_order(faults, plan)] == [("a", 3), ("a", 7), ("b", 1)]


# --- a broker at work ---


@pytest.fixture
def connected(broker: LocalBroker) -> Iterator[BrokerLogs]:
    create(broker.url, "orders")
    create(broker.url, "latest", cleanup="compact")
    for topic in ("orders", "latest"):
        publish(broker.url, topic, *map(str, range(20)))
    logs = BrokerLogs(broker.url)
    yield logs
    logs.client.close()


def test_a_broker_at_work_is_verified_as_well(connected: BrokerLogs) -> None:
    plan = make_plan(connected, TopicSelection())
    splits = plan.splits(connected)
    below = compacted_below(connected, plan)
    found = [(split, GapScan(connected, below)(split)) for split in splits]
    assert sum(trace.messages for _, trace in found) == 40
    assert not faults_of(find_gaps(connected, plan, found, below))
    assert set(below) == {("latest", 0)}
