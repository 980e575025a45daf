"""The commands that print inspections, run as a person calls them."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.console import terminal
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.spark.programs import Finished, Inspect, run_program
from tests.spark.stock import Stock, made
from tests.spark.traffic import SENT_BACK, Traffic, work


def rows(done: Finished) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture
def stock(tmp_path: Path) -> Stock:
    return made(tmp_path / "data", partitions=1)


def test_dead_letters_are_counted_by_error(inspect_spark: Inspect, worked: Traffic) -> None:
    done = inspect_spark("dlq", str(worked.path), "jobs", "--since", "-24h")
    assert done.returncode == 0, done.stderr
    title, line = done.stdout.splitlines()
    assert title.split()[:5] == ["ERROR", "DEAD", "LETTERS", "LEFT", "NEW"]
    assert line.startswith("no such form …")
    assert line.split()[4:7] == [str(worked.rejected), str(worked.rejected - SENT_BACK), str(worked.rejected)]


def test_latencies_are_printed_and_plotted(inspect_spark: Inspect, worked: Traffic, tmp_path: Path) -> None:
    plot = tmp_path / "latency.svg"
    words = ("latency", str(worked.path), "jobs", "--header", "produced_at", "--bucket", "1d", "--plot", str(plot))
    found = rows(inspect_spark(*words, "-o", "json"))
    assert [(row["span"], row["group"]) for row in found] == [
        ("publish", None), ("acknowledge", "billing"), ("work", "billing")
    ]  # fmt: skip
    assert all(0 < row["p50_seconds"] <= row["p99_seconds"] <= row["max_seconds"] for row in found)
    drawn = plot.read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert ">99 of 100 messages took no longer: jobs (times in UTC)</text>" in drawn
    assert ">s</text>" in drawn


def test_a_timeline_is_printed_with_bars_and_plotted(inspect_spark: Inspect, tmp_path: Path) -> None:
    path = made(tmp_path / "data").path
    plot = tmp_path / "chart.png"
    done = inspect_spark("timeline", str(path), "--bucket", "10s", "--plot", str(plot))
    assert done.returncode == 0, done.stderr
    assert "█" in done.stdout
    assert "busiest: 7/s" in done.stderr
    assert struct.unpack_from(">II", plot.read_bytes(), 16) == (1920, 840)


def test_the_lag_of_a_directory_is_the_one_of_its_broker(inspect_spark: Inspect, worked: Traffic) -> None:
    found = rows(inspect_spark("lag", str(worked.path), "--group", "billing", "-o", "json"))
    assert {row["partition"]: (row["committed"], row["end"], row["messages"], row["waiting"]) for row in found} == {
        int(number): (one["committed"], one["end"], one["messages"], one["waiting"])
        for number, one in worked.lag["jobs"].items()
    }


def test_the_lag_of_a_broker_needs_no_spark(inspect: Inspect, broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        work(client)
        found = rows(inspect("lag", "--url", broker.url, "jobs", "-o", "json"))
        expected = client.group("billing")["lag"]["jobs"]
    assert {str(row["partition"]): row["messages"] for row in found} == {
        number: one["messages"] for number, one in expected.items()
    }


def test_a_forecast_needs_whole_hours(inspect_spark: Inspect, worked: Traffic) -> None:
    done = inspect_spark("forecast", str(worked.path), "--disk", "1GB")
    assert done.returncode == 0, done.stderr
    assert "too little data for a forecast of jobs, jobs.dlq, state" in done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["TOPIC", "jobs", "jobs.dlq", "state", "(all)"]


def test_usage_is_counted_by_a_header(inspect_spark: Inspect, worked: Traffic) -> None:
    words = ("usage", str(worked.path), "state", "jobs.dlq", "--by-header", "tenant", "--per", "day")
    found = rows(inspect_spark(*words, "-o", "json"))
    assert {row["topic"]: row["tenant"] for row in found}["state"] is None
    assert sum(row["messages"] for row in found if row["topic"] == "jobs.dlq") == worked.rejected


def test_usage_by_tenant_agrees_with_the_records_of_the_broker(inspect_spark: Inspect, tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path), tenants__enabled="true") as broker:
        for tenant, count in (("acme", 3), ("beta", 5)):
            assert ask(broker.url, "POST", "/admin/tenants", {"name": tenant}).status == 201
            for topic in ("t", "t.dlq"):
                create(broker.url, f"{tenant}.{topic}", 2)
                publish(broker.url, f"{tenant}.{topic}", *"x" * count)
        create(broker.url, "of.no.tenant")
        publish(broker.url, "of.no.tenant", "x")
        told = {one: ask(broker.url, "GET", f"/admin/tenants/{one}/usage").json for one in ("acme", "beta")}
    found = rows(inspect_spark("usage", str(tmp_path), "--by", "tenant", "-o", "json"))
    assert [(row["tenant"], row["messages"]) for row in found] == [("acme", 3), ("beta", 5)]
    for row in found:
        assert (row["recorded_messages"], row["recorded_bytes"]) == (row["messages"], row["bytes"])
        usage = told[row["tenant"]]
        assert (usage["published_messages"], usage["published_bytes"]) == (row["messages"], row["bytes"])


def test_usage_by_group_needs_no_spark(inspect: Inspect, worked: Traffic) -> None:
    (row,) = rows(inspect("usage", str(worked.path), "--by", "group", "-o", "json"))
    assert (row["group"], row["acknowledged"], row["dead_letters"]) == ("billing", worked.acknowledged, worked.rejected)


def test_compaction_is_advised_where_it_would_free_much(inspect_spark: Inspect, worked: Traffic) -> None:
    done = inspect_spark("compaction", str(worked.path), "jobs", "state")
    assert done.returncode == 0, done.stderr
    assert [line.split()[:3] for line in done.stdout.splitlines()[1:]] == [
        ["jobs", "0", "delete"], ["jobs", "1", "delete"], ["state", "0", "compact"]
    ]  # fmt: skip
    assert "jobs is not compacted" in done.stderr
    assert "state is not compacted" not in done.stderr


def test_verify_reports_damage_as_fsck_does_and_ends_with_1(inspect_spark: Inspect, stock: Stock) -> None:
    file = stock.segments("orders")[1]
    content = bytearray(file.read_bytes())
    content[100:300] = bytes(200)
    file.write_bytes(content)
    done = inspect_spark("verify", str(stock.path), "--index", "-o", "json")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert done.returncode == 1
    assert found
    assert all(one["code"] == "range_damaged" and one["path"] == str(file) for one in found)
    assert all(one["position"] < one["end"] and one["damage"] for one in found)
    fsck = run_program("fsck", str(stock.path), "-o", "json")
    reported = [one for log in json.loads(fsck.stdout)["logs"] for one in log["findings"]]
    names = ("code", "path", "position", "end", "first_offset", "next_offset")
    assert [[one[name] for name in names] for one in found] == [[one[name] for name in names] for one in reported]


def test_a_sound_log_has_no_gaps_and_ends_with_0(inspect_spark: Inspect, stock: Stock) -> None:
    done = inspect_spark("gaps", str(stock.path))
    assert (done.returncode, done.stdout) == (0, "")
    assert "0 gaps without an explanation" in done.stderr


# --- what is read ---


def test_a_context_names_the_broker(
    inspect: Inspect, broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"current-context: here\ncontexts:\n  here:\n    server: {broker.url}\n  bare: {{}}\n")
    monkeypatch.setenv("GOQUEUE_CONFIG", str(config))
    with Client(broker.url) as client:
        work(client)
    for words in ((), ("--context", "here"), ("--context", "here", "jobs")):
        assert [(row["topic"], row["partition"]) for row in rows(inspect("lag", *words, "-o", "json"))] == [
            ("jobs", 0), ("jobs", 1)
        ]  # fmt: skip
    assert inspect("lag", "jobs").returncode != 0, "a directory that does not exist, and not a topic of the context"
    bare = inspect("lag", "--context", "bare")
    assert (bare.returncode, "context bare has no server" in bare.stderr) == (2, True)


QUERY = "SELECT * FROM x"


@pytest.mark.parametrize(
    "words",
    [
        ["summary"],
        ["sql", QUERY],
        ["export", "orders", "--out", "lake"],
        ["replay", "--into", "orders", "--query", QUERY],
        ["stream", "orders", "--out", "lake", "--checkpoint", "lake-progress"],
    ],
)
def test_an_address_without_a_broker_is_refused_before_spark_starts(
    inspect: Inspect, words: list[str], closed_url: str
) -> None:
    done = inspect(words[0], "--url", closed_url, *words[1:])
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"error: no broker answers at {closed_url}: ")
    assert done.stderr.endswith("`--url URL` selects another one\n")


def test_a_pipeline_of_a_broker_that_is_away_is_refused_before_spark_starts(
    inspect: Inspect, closed_url: str, tmp_path: Path
) -> None:
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(f"source: {{url: '{closed_url}'}}\nsinks: {{show: {{table: 1}}}}\n")
    done = inspect("run", str(pipeline))
    assert (done.returncode, done.stdout) == (3, "")
    assert "`url` below `source` selects another one" in done.stderr


def test_a_terminal_shows_what_is_being_done(
    inspect_spark: Inspect, stock: Stock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(terminal, "show_status", shown.append)
    assert inspect_spark("sql", str(stock.path), "SELECT count(*) FROM orders").returncode == 0
    assert shown == ["starting Spark", "", "planning the query", ""]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["dlq", "d", "--since", "5"], "--since: '5' is not a time"),
        (["latency", "d", "--header", "a", "--field", "b"], "--field cannot be combined with header"),
        (["latency", "d", "--field", "a..b"], "is not a path"),
        (["latency", "d", "--bucket", "0"], "must be longer than 0"),
        (["latency", "d", "--plot", "x.svg"], "--bucket 1m"),
        (["lag", "d", "--window", "soon"], "--window"),
        (["lag", "d", "--at", "noon"], "--at"),
        (["lag", "d", "--from", "-1h"], "have no effect here"),
        (["forecast", "d", "--disk", "much"], "--disk"),
        (["usage", "d", "--by", "group", "--by-header", "x"], "leave out one of them"),
        (["usage", "d", "--by", "tenant", "--by-header", "x"], "leave out one of them"),
        (["compaction", "d", "--keys", "--approx"], "without listing them"),
        (["summary", "d", "--memory", "3x"], "not the size of a JVM"),
        (["summary", "d", "--memory", "100m"], "the minimum is 512m"),
        (["summary", "d", "--master", "spork://x"], "not a Spark master"),
        (["keys", ".", "--plot", "chart.pdf"], "neither .svg nor .png"),
        (["sizes", ".", "--plot", "/nowhere/at/all/chart.svg"], "there is no directory"),
        (["sizes", ".", "--histogram", "value", "--biggest", "3"], "cannot be combined"),
        (["timeline", ".", "--bucket", "1us"], "too short"),
        (["timeline", ".", "--bucket", "soon"], "--bucket"),
        (["skew"], "there is nothing to read"),
        (["verify", "--url", "http://127.0.0.1:1", "--index"], "--index compares files"),
        (["gaps", ".", "--max", "0"], "--max"),
        (["gaps", ".", "--content", "--max", "20000"], "--max is too large beside content"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(
    inspect: Inspect, words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOQUEUE_CONFIG", str(tmp_path / "none.yaml"))
    done = inspect(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
