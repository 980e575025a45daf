"""How far behind groups are: the same as the broker says, and as counting one by one says."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.topic import TopicSettings
from goqueue.client import Client
from goqueue.spark.inspections.lag import Lag, Whose, lags, lags_of_broker, prepare
from goqueue.spark.inspections.reader import Reader
from goqueue.spark.jobs import on_each
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
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
def told(broker: LocalBroker) -> list[Lag]:
    logs = BrokerLogs(broker.url)
    with logs.client:
        return lags_of_broker(logs, (), ())


def by_directory(logs: DirectoryLogs, *groups: str, now_ns: int = _FAR_NS, window: float = 600) -> list[Lag]:
    prepared = prepare(logs, (), groups, now_ns=now_ns, window_seconds=window)
    splits = prepared.plan.splits(logs)
    return lags(prepared, splits, [prepared.look(split) for split in splits], window)


def shown(found: list[Lag]) -> list[tuple[object, ...]]:
    return [
        (one.whose, one.member, one.committed, one.end, one.messages, one.in_flight, one.waiting, one.lost)
        for one in found
    ]


def test_a_directory_and_its_broker_tell_the_same(told: list[Lag], directory: DirectoryLogs) -> None:
    assert [one.whose for one in told] == [Whose("billing", "jobs", 0), Whose("billing", "jobs", 1)]
    assert shown(by_directory(directory)) == shown(told)
    assert sum(one.messages for one in told) > 0


def test_the_settings_of_topics_are_known_from_both(told: list[Lag], directory: DirectoryLogs) -> None:
    expected = {(86_400.0, 1_000_000)}
    for found in (by_directory(directory), told):
        assert {(one.retention_seconds, one.retention_bytes) for one in found} == expected


def test_spark_counts_what_is_left(spark: "SparkSession", directory: DirectoryLogs) -> None:
    prepared = prepare(directory, ("jobs",), ("billing",), now_ns=_FAR_NS, window_seconds=600)
    splits = prepared.plan.splits(directory)
    assert lags(prepared, splits, on_each(spark, splits, prepared.look), 600) == by_directory(directory)


def test_speeds_are_those_of_the_window(directory: DirectoryLogs) -> None:
    whole = by_directory(directory, now_ns=_FAR_NS, window=_FAR_NS / 10**9)
    assert [one.incoming * _FAR_NS / 10**9 for one in whole] == pytest.approx([one.end for one in whole])
    assert [one.rate * _FAR_NS / 10**9 for one in whole] == pytest.approx([one.end - one.messages for one in whole])
    assert [(one.rate, one.incoming) for one in by_directory(directory, window=1)] == [(0, 0), (0, 0)]


def test_a_group_that_is_not_there_has_no_lag(directory: DirectoryLogs) -> None:
    assert by_directory(directory, "nobody") == []


@given(
    st.sets(st.integers(0, 60)),
    st.integers(0, 60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=6),
)
def test_what_is_left_is_what_no_range_holds(offsets: set[int], floor: int, spans: list[tuple[int, int]]) -> None:
    rising = np.array(sorted(offsets), np.int64)
    done = tuple(first for first, _ in spans), tuple(first + length for first, length in spans)
    settled = {offset for first, length in spans for offset in range(first, first + length)}
    left = rising[Reader("g", floor, done).left_of(rising, np.zeros(len(rising), np.uint8))]
    assert left.tolist() == [offset for offset in rising.tolist() if offset >= floor and offset not in settled]


def test_where_lanes_are_read_one_by_one_what_is_left_is_behind_their_heads_or_in_hand() -> None:
    lanes = np.array([2, 2, 0, 2, 0, 2, 0], np.uint8)
    reader = Reader("g", 1, ((), ()), lanes_from=2, taken=((4,), (5,)), heads=(6, 7, 5, 7, 7))
    left = reader.left_of(np.arange(7), lanes)
    assert np.flatnonzero(left).tolist() == [1, 4, 5, 6]


# --- when retention comes ---


def lag(*, messages: int = 1000, seconds: float = 3600, rate: float = 0, **settings: float | None) -> Lag:
    kept = TopicSettings(**{"retention_hours": 2, **settings})  # type: ignore[arg-type]
    whose, size = Whose("g", "t", 0), messages * 100
    return Lag(whose, "m", 0, messages, messages, seconds, 0, 0, 0, rate, 1.0, size, 100.0, kept)


def test_who_stands_still_loses_messages_when_the_oldest_is_too_old() -> None:
    assert lag().loss_seconds == 3600
    assert lag().retention_share == 0.5


def test_who_reads_faster_than_the_log_grew_loses_none() -> None:
    assert lag(rate=1000 / 3600).loss_seconds is None


def test_who_reads_half_as_fast_has_twice_as_long() -> None:
    assert lag(rate=500 / 3600).loss_seconds == pytest.approx(7200)


def test_the_size_of_a_partition_may_be_nearer_than_its_age() -> None:
    found = lag(retention_bytes=110_000)
    assert found.loss_seconds == 100
    assert found.retention_share == pytest.approx(100_000 / 110_000)


def test_nothing_is_lost_of_what_is_kept_or_read() -> None:
    assert lag(retention_hours=None).loss_seconds is None
    assert lag(messages=0).loss_seconds is None


def test_a_lag_drains_when_more_is_read_than_comes() -> None:
    assert lag(rate=3).drain_seconds == 500
    assert lag(rate=1).drain_seconds is None
    assert lag(messages=0).drain_seconds == 0
