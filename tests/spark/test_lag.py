"""The lag of groups: the same as the broker reports, and as counting one by one."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.topic import TopicSettings
from goqueue.client import Client
from goqueue.spark.inspections.lag import (
    GroupPartition,
    GroupPartitionLag,
    GroupProgressView,
    broker_lags,
    join_lags,
    plan_lag,
)
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.tasks import run_on_splits
from goqueue.testing.broker import LocalBroker
from tests.spark.traffic import work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAR_NS = 2_000_000_000_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """At work, while its directory is looked at."""
    with LocalBroker(str(tmp_path_factory.mktemp("lag") / "data")) as local, Client(local.url) as client:
        work(client)
        yield local


@pytest.fixture(scope="module")
def directory(broker: LocalBroker) -> DirectoryLogs:
    return DirectoryLogs.at(str(Path(broker.daemon.config.data_dir)))


@pytest.fixture(scope="module")
def told(broker: LocalBroker) -> list[GroupPartitionLag]:
    logs = BrokerLogs(broker.url)
    with logs.client:
        return broker_lags(logs, (), ())


def by_directory(
    logs: DirectoryLogs, *groups: str, now_ns: int = _FAR_NS, window: float = 600
) -> list[GroupPartitionLag]:
    prepared = plan_lag(logs, (), groups, now_ns=now_ns, window_seconds=window)
    splits = prepared.plan.splits(logs)
    return join_lags(prepared, [(split, prepared.look(split)) for split in splits], window)


def shown(found: list[GroupPartitionLag]) -> list[tuple[object, ...]]:
    return [
        (one.key, one.member, one.committed, one.end, one.messages, one.in_flight, one.waiting, one.lost)
        for one in found
    ]


def test_a_directory_and_its_broker_tell_the_same(told: list[GroupPartitionLag], directory: DirectoryLogs) -> None:
    assert [one.key for one in told] == [GroupPartition("billing", "jobs", 0), GroupPartition("billing", "jobs", 1)]
    assert shown(by_directory(directory)) == shown(told)
    assert sum(one.messages for one in told) > 0


def test_the_settings_of_topics_are_known_from_both(told: list[GroupPartitionLag], directory: DirectoryLogs) -> None:
    expected = {(86_400.0, 1_000_000)}
    for found in (by_directory(directory), told):
        assert {(one.retention_seconds, one.retention_bytes) for one in found} == expected


def test_spark_counts_what_is_left(spark: "SparkSession", directory: DirectoryLogs) -> None:
    prepared = plan_lag(directory, ("jobs",), ("billing",), now_ns=_FAR_NS, window_seconds=600)
    splits = prepared.plan.splits(directory)
    assert join_lags(
        prepared, zip(splits, run_on_splits(spark, splits, prepared.look), strict=True), 600
    ) == by_directory(directory)


def test_speeds_are_those_of_the_window(directory: DirectoryLogs) -> None:
    whole = by_directory(directory, now_ns=_FAR_NS, window=_FAR_NS / 10**9)
    assert [one.incoming * _FAR_NS / 10**9 for one in whole] == pytest.approx([one.end for one in whole])
    assert [one.rate * _FAR_NS / 10**9 for one in whole] == pytest.approx([one.end - one.messages for one in whole])
    assert [(one.rate, one.incoming) for one in by_directory(directory, window=1)] == [(0, 0), (0, 0)]


def test_a_group_that_is_not_there_has_no_lag(directory: DirectoryLogs) -> None:
    assert by_directory(directory, "other") == []


@given(
    st.sets(st.integers(0, 60)),
    st.integers(0, 60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=6),
)
def test_what_is_left_is_what_no_range_holds(offsets: set[int], floor: int, spans: list[tuple[int, int]]) -> None:
    rising = np.array(sorted(offsets), np.int64)
    done = tuple(first for first, _ in spans), tuple(first + length for first, length in spans)
    settled = {offset for first, length in spans for offset in range(first, first + length)}
    left = rising[GroupProgressView("g", floor, done).left_of(rising, np.zeros(len(rising), np.uint8))]
    assert left.tolist() == [offset for offset in rising.tolist() if offset >= floor and offset not in settled]


def test_where_lanes_are_read_one_by_one_what_is_left_is_behind_their_heads_or_in_hand() -> None:
    lanes = np.array([2, 2, 0, 2, 0, 2, 0], np.uint8)
    reader = GroupProgressView("g", 1, ((), ()), lanes_from=2, taken=((4,), (5,)), heads=(6, 7, 5, 7, 7))
    left = reader.left_of(np.arange(7), lanes)
    assert np.flatnonzero(left).tolist() == [1, 4, 5, 6]


# --- when retention comes ---


def lag(*, messages: int = 1000, seconds: float = 3600, rate: float = 0, **settings: float | None) -> GroupPartitionLag:
    kept = TopicSettings(**{"retention_hours": 2, **settings})  # type: ignore[arg-type]
    key, size = GroupPartition("g", "t", 0), messages * 100
    return GroupPartitionLag(key, "m", 0, messages, messages, seconds, 0, 0, 0, rate, 1.0, size, 100.0, kept)


@pytest.mark.parametrize(
    ("found", "loss", "share"),
    [
        pytest.param(lag(), 3600, 0.5, id="nothing is read"),
        pytest.param(lag(rate=1000 / 3600), None, 0.5, id="reads as fast as the log grew"),
        pytest.param(lag(rate=500 / 3600), 7200, 0.5, id="reads half as fast"),
        pytest.param(lag(retention_bytes=110_000), 100, 100 / 110, id="the size is nearer than the age"),
        pytest.param(lag(retention_hours=None), None, None, id="kept for ever"),
        pytest.param(lag(messages=0), None, 0.5, id="all is read"),
    ],
)
def test_messages_are_lost_when_retention_is_faster_than_the_group(
    found: GroupPartitionLag, loss: float | None, share: float | None
) -> None:
    assert found.loss_seconds == pytest.approx(loss)
    assert found.retention_share == pytest.approx(share)


def test_a_lag_drains_when_more_is_read_than_comes() -> None:
    assert [lag(**given).drain_seconds for given in ({"rate": 3}, {"rate": 1}, {"messages": 0})] == [500, None, 0]
