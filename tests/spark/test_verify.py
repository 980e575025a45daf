"""Verification beyond frames: indexes, lost ends; and the command from outside."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.spark.inspections.gaps import Look, compacted_below, find_gaps
from goqueue.spark.inspections.verify import (
    Fault,
    IndexLook,
    active_segments,
    faults_of,
    in_order,
    lost_ends,
    whole_segments,
)
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.plan import Selection, make_plan
from goqueue.spark.points import EARLIEST, Bound
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker, create, publish
from tests.spark.stock import Stock, made, stocked

__all__ = ["broker"]

ROOT = Path(__file__).resolve().parent.parent.parent


def index_faults(path: Path) -> list[Fault]:
    logs = DirectoryLogs.at(str(path))
    plan = make_plan(logs, Selection())
    look = IndexLook(logs, active_segments(plan))
    return [fault for split in whole_segments(logs, plan) for fault in look(split)]


@pytest.fixture
def stock(tmp_path: Path) -> Stock:
    return made(tmp_path / "data", partitions=1)


def test_indexes_that_say_what_the_log_says_are_sound(stock: Stock) -> None:
    assert not index_faults(stock.path)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_entry_that_lies_is_told(stock: Stock, suffix: str) -> None:
    file = stock.segments("orders")[0].with_suffix(f".{suffix}")
    content = bytearray(file.read_bytes())
    content[7] ^= 1
    file.write_bytes(content)
    (fault,) = index_faults(stock.path)
    assert (fault.code, fault.path, fault.is_damage) == ("index_wrong", str(file), False)


def test_an_index_that_is_gone_is_no_damage(stock: Stock) -> None:
    stock.segments("orders")[0].with_suffix(".index").unlink()
    (fault,) = index_faults(stock.path)
    assert (fault.code, fault.is_damage) == ("index_missing", False)


def test_the_index_of_a_segment_that_grows_is_left_alone(tmp_path: Path) -> None:
    with stocked(tmp_path / "data", partitions=1) as stock:
        logs = DirectoryLogs.at(str(stock.path))
        bases = {split.first for split in whole_segments(logs, make_plan(logs, Selection()))}
        assert bases == {int(file.stem) for file in stock.segments("orders")[:-1]}
        assert not index_faults(stock.path)


def lost(path: Path, end: Bound | None = None, *, is_whole: bool = True) -> list[tuple[str, int, int | None]]:
    logs = DirectoryLogs.at(str(path))
    plan = make_plan(logs, Selection(), EARLIEST, end) if end else make_plan(logs, Selection())
    return [(f"{one.topic}/{one.partition}", one.first_offset or 0, one.next_offset)
            for one in lost_ends(logs, plan, is_whole=is_whole)]  # fmt: skip


def test_a_log_that_ends_before_its_clean_stop_is_told(stock: Stock) -> None:
    assert not lost(stock.path)
    last = stock.segments("orders")[-1]
    for file in stock.directory("orders").glob(f"{last.stem}.*"):
        file.unlink()
    (loss,) = lost(stock.path)
    assert loss == ("orders/0", int(last.stem), 120)
    assert not lost(stock.path, Bound(5)), "what was not asked for is not told"


def test_a_log_that_is_gone_altogether_is_told_where_all_is_read(stock: Stock) -> None:
    for file in stock.directory("orders").iterdir():
        file.unlink()
    stock.directory("orders").rmdir()
    assert lost(stock.path) == [("orders/0", 0, 120)]
    assert not lost(stock.path, is_whole=False)


def test_faults_stand_in_the_order_of_the_plan(stock: Stock) -> None:
    plan = make_plan(DirectoryLogs.at(str(stock.path)), Selection())
    faults = [Fault("range_damaged", "orders", 0, path, "", number, number + 1) for path, number in (("b", 1), ("a", 7), ("a", 3))]  # noqa: E501 # fmt: skip
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
    plan = make_plan(connected, Selection())
    splits = plan.splits(connected)
    below = compacted_below(connected, plan)
    traces = [Look(connected, below)(split) for split in splits]
    assert sum(trace.messages for trace in traces) == 40
    assert not faults_of(find_gaps(connected, plan, splits, traces, below))
    assert set(below) == {("latest", 0)}


# --- the command ---


def inspect(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "goqueue", "spark-inspect", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def damage(stock: Stock) -> Path:
    file = stock.segments("orders")[1]
    content = bytearray(file.read_bytes())
    content[100:300] = bytes(200)
    file.write_bytes(content)
    return file


def test_damage_is_printed_for_programs_and_ends_with_1(stock: Stock) -> None:
    file = damage(stock)
    done = inspect("verify", str(stock.path), "--index", "-o", "json", "--master", "local[1]")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert done.returncode == 1
    assert found
    assert all(one["code"] == "range_damaged" and one["path"] == str(file) for one in found)
    assert all(one["position"] < one["end"] and one["damage"] for one in found)
    fsck = subprocess.run(
        [sys.executable, "-m", "goqueue", "fsck", str(stock.path), "-o", "json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = [one for log in json.loads(fsck.stdout)["logs"] for one in log["findings"]]
    names = ("code", "path", "position", "end", "first_offset", "next_offset")
    assert [[one[name] for name in names] for one in found] == [[one[name] for name in names] for one in told]


def test_a_sound_log_has_no_gaps_and_ends_with_0(stock: Stock) -> None:
    done = inspect("gaps", str(stock.path), "--master", "local[1]")
    assert (done.returncode, done.stdout) == (0, "")
    assert "0 gaps that nothing explains" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("verify", "--url", "http://127.0.0.1:1", "--index"), "--index compares files"),
        (("gaps", ".", "--max", "0"), "--max"),
        (("gaps", ".", "--content", "--max", "20000"), "--content names"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(words: tuple[str, ...], said: str) -> None:
    done = inspect(*words)
    assert done.returncode == 2
    assert said in done.stderr
