"""The inspection of trace files, compared with a count by hand."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.spark.inspections.dead_letters import error_class
from goqueue.testing.broker import LocalBroker
from tests.spark.programs import Inspect

GROUP = "billing"


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with traces of two topics, whose last line is torn."""
    path = tmp_path_factory.mktemp("traced") / "data"
    with LocalBroker(str(path), tracing__file_bytes="64KiB") as broker, Client(broker.url) as client:
        for topic in ("orders", "payments"):
            client.create_topic(topic, partitions=2)
            with client.producer() as producer:
                for part in range(5):
                    producer.send_many(topic, [f"{part} {number}" for number in range(40)]).result(30)
        with client.consumer(GROUP, ["orders"], start="earliest", until_idle="0.3s") as consumer:
            for message in consumer:
                message.reject(f"no order {message.offset}") if message.offset % 50 == 7 else message.ack()
    newest = max((path / "traces").iterdir())
    newest.write_bytes(newest.read_bytes() + b'{"event":"consume.acked","topic":"orders","parti')
    return path


def by_hand(path: Path) -> list[dict[str, Any]]:
    found = []
    for file in (path / "traces").iterdir():
        for line in file.read_text().splitlines():
            if line.endswith("}"):
                record = json.loads(line)
                record["messages"] = sum(record.get("runs", ())[::2]) or record["end"] - record["first"]
                found.append(record)
    return found


def rows(inspect_spark: Inspect, *words: str) -> list[dict[str, Any]]:
    done = inspect_spark("traces", *words, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_events_are_counted_with_their_durations(inspect_spark: Inspect, traced: Path) -> None:
    expected: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for one in by_hand(traced):
        seconds = (one["time_ns"] - one["since_ns"]) / 1e9 if one.get("since_ns") else -1.0
        expected[one["topic"], one.get("group"), one["event"]] += [seconds] * one["messages"]
    found = rows(inspect_spark, str(traced))
    assert {(one["topic"], one["group"], one["event"]): one["messages"] for one in found} == {
        key: len(values) for key, values in expected.items()
    }
    assert {one["event"] for one in found} >= {"publish.persisted", "consume.acked", "consume.rejected", "dlq.routed"}
    for one in found:
        values = sorted(expected[one["topic"], one["group"], one["event"]])
        if values[0] < 0:
            assert one["max_seconds"] is None
            continue
        assert one["max_seconds"] == pytest.approx(values[-1])
        for name, share in (("p50_seconds", 0.5), ("p99_seconds", 0.99)):
            place = share * (len(values) - 1)
            low, high = values[int(place)], values[min(int(place) + 1, len(values) - 1)]
            assert low * 0.998 <= one[name] <= high * 1.002


def test_reasons_members_and_the_slowest_batches_are_listed(inspect_spark: Inspect, traced: Path) -> None:
    [rejected] = [
        one for one in rows(inspect_spark, str(traced), "--by", "reason") if one["event"] == "consume.rejected"
    ]
    assert (rejected["reason"], rejected["group"]) == (error_class("no order 7"), GROUP)
    assert rejected["messages"] == sum(one["messages"] for one in by_hand(traced) if one["event"] == "consume.rejected")
    members = {one["member"] for one in rows(inspect_spark, str(traced), "--by", "member")}
    assert members == {one.get("member") for one in by_hand(traced)}
    slowest = rows(inspect_spark, str(traced), "orders", "--slowest", "3")
    durations = sorted(
        (
            one["time_ns"] - one["since_ns"]
            for one in by_hand(traced)
            if one.get("since_ns") and one["topic"] == "orders"
        ),
        reverse=True,
    )
    assert [one["seconds"] for one in slowest] == pytest.approx([one / 1e9 for one in durations[:3]])
    assert slowest[0]["message"].startswith("orders/")
    assert rows(inspect_spark, str(traced), "--to", "2020-01-01") == []


def test_directory_without_traces_says_so_and_a_broker_is_refused(inspect_spark: Inspect, tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), tracing__enabled="false") as broker:
        refused = inspect_spark("traces", "--url", broker.url)
    assert refused.returncode == 2
    assert "trace files are read from a data directory" in refused.stderr
    done = inspect_spark("traces", str(tmp_path / "data"))
    assert (done.returncode, done.stderr) == (0, "there are no trace files\n")
