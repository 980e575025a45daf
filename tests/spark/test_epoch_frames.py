"""Inspections of logs with epoch frames: they say the same as of logs without."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.programs import Inspect
from tests.test_epoch_frames import World, build

MARKED, PLAIN = 0, 1


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, World]:
    """A directory with epoch frames at all places, and one without any."""
    base = tmp_path_factory.mktemp("worlds")
    return build(base / "marked", "everywhere"), build(base / "plain", "none")


def inspected(inspect: Inspect, path: Path, name: str, *words: str) -> Any:
    done = inspect(name, str(path), *words, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        (("dlq", "jobs"), "error letters left sent_back attempts_max"),
        (("keys", "orders"), "key messages bytes tombstones share"),
        (("lag",), "group topic messages bytes in_flight waiting lost retention_bytes"),
        (("latency", "orders"), "span group messages"),
        (("sizes", "orders"), "part messages mean p50 p99 max bytes"),
        (("skew", "orders"), "messages bytes without_key share gini verdict"),
        (("usage",), "topic messages bytes payload_bytes"),
        (("usage", "--by", "group"), "group topic acknowledged dead_letters"),
        (("usage", "--by", "producer", "orders", "marked"), "topic messages bytes payload_bytes"),
        (("summary",), "topic messages value_bytes without_key with_headers uncommitted tombstones damages lost"),
        (("compaction", "state"), "messages bytes keys without_key superseded tombstones gain_bytes"),
        (("forecast",), "topic messages"),
        (("gaps",), ""),
        (("verify", "--index"), ""),
        (("sql", "SELECT key, value FROM orders ORDER BY value"), "key value"),
    ],
)
def test_inspection_says_the_same_with_and_without_epoch_frames(
    inspect_spark: Inspect, worlds: tuple[World, World], words: tuple[str, ...], columns: str
) -> None:
    names = columns.split()
    told = [inspected(inspect_spark, world.path, *words) for world in worlds]
    rows = [sorted(([row[name] for name in names] for row in one), key=repr) for one in told]  # ids are random
    assert rows[MARKED] == rows[PLAIN]
    assert bool(rows[MARKED]) == bool(names)


def test_timeline_counts_messages_alone(inspect_spark: Inspect, worlds: tuple[World, World]) -> None:
    for world in worlds:
        buckets = inspected(inspect_spark, world.path, "timeline", "orders", "--bucket", "1s")
        assert sum(bucket["messages"] for bucket in buckets) == len(world.sent)
