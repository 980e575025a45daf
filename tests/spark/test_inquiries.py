"""The commands about groups, growth and use, through their real entry point."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from tests.spark.traffic import SENT_BACK, Traffic, traffic, work


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    return traffic(tmp_path_factory.mktemp("inquiries") / "data")


def inspect(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "goqueue", "spark-inspect", *words]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def rows(*words: str) -> list[dict[str, Any]]:
    done = inspect(*words, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_dead_letters_are_told_by_their_error(worked: Traffic) -> None:
    done = inspect("dlq", str(worked.path), "jobs", "--since", "-24h")
    assert done.returncode == 0, done.stderr
    title, line = done.stdout.splitlines()
    assert title.split()[:4] == ["ERROR", "LETTERS", "LEFT", "NEW"]
    assert line.startswith("no such form …")
    assert line.split()[4:7] == [str(worked.rejected), str(worked.rejected - SENT_BACK), str(worked.rejected)]


def test_latencies_are_told_and_drawn(worked: Traffic, tmp_path: Path) -> None:
    picture = tmp_path / "latency.svg"
    found = rows(
        "latency", str(worked.path), "jobs", "--header", "produced_at", "--bucket", "1d", "--plot", str(picture)
    )
    assert [(row["span"], row["group"]) for row in found] == [
        ("publish", None), ("acknowledge", "billing"), ("work", "billing")
    ]  # fmt: skip
    assert all(0 < row["p50_seconds"] <= row["p99_seconds"] <= row["max_seconds"] for row in found)
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_the_lag_of_a_directory_is_what_the_broker_said(worked: Traffic) -> None:
    found = rows("lag", str(worked.path), "--group", "billing")
    told = {row["partition"]: (row["committed"], row["end"], row["messages"], row["waiting"]) for row in found}
    assert told == {
        int(number): (one["committed"], one["end"], one["messages"], one["waiting"])
        for number, one in worked.lag["jobs"].items()
    }


def test_the_lag_of_a_broker_needs_no_spark(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker, Client(broker.url) as client:
        work(client)
        found = rows("lag", "--url", broker.url, "jobs")
        expected = client.group("billing")["lag"]["jobs"]
    assert {str(row["partition"]): row["messages"] for row in found} == {
        number: one["messages"] for number, one in expected.items()
    }


def test_a_forecast_says_when_there_is_too_little(worked: Traffic) -> None:
    done = inspect("forecast", str(worked.path), "--disk", "1GB")
    assert done.returncode == 0, done.stderr
    assert "too little to foresee anything of jobs, jobs.dlq, state" in done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["TOPIC", "jobs", "jobs.dlq", "state", "(all)"]


def test_use_is_told_by_a_header(worked: Traffic) -> None:
    found = rows("usage", str(worked.path), "state", "jobs.dlq", "--by-header", "tenant", "--per", "day")
    assert {row["topic"]: row["tenant"] for row in found}["state"] is None
    assert sum(row["messages"] for row in found if row["topic"] == "jobs.dlq") == worked.rejected


def test_use_by_groups_needs_no_spark(worked: Traffic) -> None:
    (row,) = rows("usage", str(worked.path), "--by", "group")
    assert (row["group"], row["acknowledged"], row["dead_letters"]) == ("billing", worked.acknowledged, worked.rejected)


def test_compaction_advises_where_it_would_help(worked: Traffic) -> None:
    done = inspect("compaction", str(worked.path), "jobs", "state")
    assert done.returncode == 0, done.stderr
    assert [line.split()[:3] for line in done.stdout.splitlines()[1:]] == [
        ["jobs", "0", "delete"], ["jobs", "1", "delete"], ["state", "0", "compact"]
    ]  # fmt: skip
    assert "jobs is not compacted" in done.stderr
    assert "state is not compacted" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dlq", "d", "--since", "5"], "is no time"),
        (["latency", "d", "--header", "a", "--field", "b"], "two places"),
        (["latency", "d", "--field", "a..b"], "is no path"),
        (["latency", "d", "--bucket", "0"], "no length"),
        (["latency", "d", "--plot", "x.svg"], "--bucket 1m"),
        (["lag", "d", "--window", "soon"], "--window"),
        (["lag", "d", "--at", "noon"], "--at"),
        (["lag", "d", "--from", "-1h"], "choose nothing here"),
        (["forecast", "d", "--disk", "much"], "--disk"),
        (["usage", "d", "--by", "group", "--by-header", "x"], "leave one out"),
        (["compaction", "d", "--keys", "--approx"], "no single key"),
        (["summary", "d", "--memory", "3x"], "no size of a JVM"),
        (["summary", "d", "--memory", "100m"], "the least is 512m"),
        (["summary", "d", "--master", "spork://x"], "no place where Spark runs"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(words: list[str], said: str) -> None:
    done = inspect(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
