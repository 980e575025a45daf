"""`goqueue-cli bench` against a real broker: what it says, and what it leaves behind."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.cli.programs import cli, on_a_terminal, protecting, running

SHORT = ["--duration", "200ms", "--warm-up", "50ms", "--rate", "200"]


def measured(url: str, *words: str) -> dict[str, Any]:
    done = cli(url, "bench", *words, "-o", "json")
    assert done.code == 0, done.err
    (found,) = json.loads(done.out)
    assert isinstance(found, dict)
    return found


def topics(url: str) -> list[str]:
    names: list[str] = ask(url, "GET", "/topics").json["topics"]
    return names


def test_bench_publish_uses_a_new_topic_and_deletes_it(broker: LocalBroker) -> None:
    found = measured(broker.url, "publish", "--messages", "5000", "--size", "1KiB", "--producers", "2")
    assert found["settings"] == {
        "messages": 5000, "size_bytes": 1024, "partitions": 3, "producers": 2, "batch": 10000, "rate": None,
    }  # fmt: skip
    figures = found["figures"]
    assert figures["messages_per_second"] > 0
    assert figures["bytes_per_second"] == pytest.approx(figures["messages_per_second"] * 1024, rel=0.01)
    assert (found["name"], found["warm_up"]) == ("publish", 250)
    assert topics(broker.url) == []


def test_bench_consume_reads_a_kept_topic_and_keeps_it(broker: LocalBroker) -> None:
    done = cli(broker.url, "bench", "publish", "--messages", "2000", "--keep", "--partitions", "1")
    (topic,) = topics(broker.url)
    assert f"`goqueue-cli bench consume {topic}` reads it" in done.err
    found = measured(broker.url, "consume", topic)
    assert found["settings"] == {"messages": 2100, "partitions": 1, "group": False, "size_bytes": 100}
    assert topics(broker.url) == [topic]


@pytest.mark.parametrize("words", [[], ["--group"]])
def test_bench_consume_fills_a_new_topic_and_deletes_it(broker: LocalBroker, words: list[str]) -> None:
    found = measured(broker.url, "consume", "--messages", "20000", *words)
    assert found["settings"]["messages"] == 20000
    assert found["figures"]["messages_per_second"] > 0
    assert topics(broker.url) == ask(broker.url, "GET", "/groups").json["groups"] == []


def test_bench_latency_reports_ordered_percentiles_and_a_full_histogram(broker: LocalBroker) -> None:
    found = measured(broker.url, "latency", *SHORT)
    figures = found["figures"]
    names = ["p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"]
    assert sorted(figures[name] for name in names) == [figures[name] for name in names]
    assert figures["lost"] == 0
    assert sum(bucket["messages"] for bucket in found["histogram"]) == 40
    assert topics(broker.url) == []


def test_bench_latency_ignores_messages_of_other_producers(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "a")
    found = measured(broker.url, "latency", "orders", *SHORT)
    assert sum(bucket["messages"] for bucket in found["histogram"]) == 40
    assert topics(broker.url) == ["orders"]


def test_bench_prints_a_table_and_bars(broker: LocalBroker) -> None:
    done = cli(broker.url, "bench", "latency", *SHORT)
    assert done.out.startswith("FIGURE ")
    assert "99 % within" in done.out
    assert "█" in done.out
    assert done.err.startswith("sending 200 messages of 100B a second to bench-")
    shown = on_a_terminal(broker.url, "bench", "publish", "--messages", "100")
    assert "messages a second" in shown.out


def test_bench_compare_marks_what_got_worse(broker: LocalBroker, tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    words = ["bench", "publish", "--messages", "1000", "--save"]
    assert cli(broker.url, *words, str(before)).err.endswith(f"saved as {before}\n")
    found = json.loads(before.read_text())
    found["figures"] = {name: number / 2 for name, number in found["figures"].items()}
    after.write_text(json.dumps([found]))
    done = cli("", "bench", "compare", str(before), str(after))
    assert (done.code, done.err) == (0, "")
    titles, *lines = done.out.splitlines()
    assert titles.split() == ["FIGURE", "BEFORE", "AFTER", "RATIO", "VERDICT"]
    assert [line.split()[-2:] for line in lines] == [["0.50", "worse"], ["0.50", "worse"]]
    rows = json.loads(cli("", "bench", "compare", str(after), str(before), "-o", "json").out)
    assert [(row["ratio"], row["worse"]) for row in rows] == [(2.0, False), (2.0, False)]


def test_bench_compare_reports_different_settings(broker: LocalBroker, tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file, size in zip(files, ("100", "200"), strict=True):
        cli(broker.url, "bench", "publish", "--messages", "100", "--size", size, "--save", str(file))
    done = cli("", "bench", "compare", *map(str, files))
    assert (done.code, done.err) == (0, "the results have different settings: size_bytes (100, 200)\n")
    cli(broker.url, "bench", "latency", *SHORT, "--save", str(files[1]))
    done = cli("", "bench", "compare", *map(str, files))
    assert done.code == 2
    assert done.err.endswith("hint: compare results of one benchmark\n")


@pytest.mark.parametrize(
    "words", [["publish", "--messages", "3000000", "--rate", "20000"], ["latency", "--duration", "1h"]]
)
def test_an_interrupted_benchmark_leaves_nothing(broker: LocalBroker, words: list[str]) -> None:
    with running(broker.url, "bench", *words) as process:
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert topics(broker.url) == []


def test_bench_on_a_protected_broker_needs_confirmation(broker: LocalBroker, tmp_path: Path) -> None:
    config = protecting(tmp_path, broker.url)
    words = ["bench", "publish", "--messages", "10"]
    done = cli("", *words, GOQUEUE_CONFIG=config)
    assert (done.code, done.out) == (2, "")
    assert "hint: `--confirm production` confirms it\n" in done.err
    assert cli("", *words, "--confirm", "production", GOQUEUE_CONFIG=config).code == 0


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        (["publish", "--partitions", "1"], "publish 1,000,000 messages of 100B to a new topic with 1 partition"),
        (["consume", "orders", "--messages", "5"], "read 5 messages of topic orders"),
        (["consume", "--messages", "5"], "fill a new topic with 3 partitions, and read 5 messages"),
        (["latency", "--rate", "2000"], "send 2,000 messages of 100B a second to a new topic with 1 partition"),
    ],
)
def test_dry_run_shows_the_plan_without_a_broker(words: list[str], plan: str) -> None:
    done = cli("http://127.0.0.1:1", "bench", *words, "--dry-run")
    assert (done.code, done.out, done.err) == (0, f"would {plan}\n", "")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["publish", "--size", "0"], 2, "error: --size is 0, and must be 1 to 1MiB\n"),
        (["publish", "--size", "big"], 2, "error: --size: 'big' is not a size"),
        (["publish", "--rate", "-1"], 2, "error: --rate is -1, and must be above 0\n"),
        (["publish", "nope"], 5, "error: could not measure with topic nope\ncause: topic_not_found: "),
        (["publish", "--messages", "5", "--save", "/nowhere/x"], 2, "error: /nowhere/x cannot be written: there is no"),
        (["consume", "orders"], 2, "cause: request_invalid: topic orders has no messages\n"),
        (["latency", "--size", "5"], 2, "error: --size is 5, and 28 bytes are needed"),
        (["latency", "--rate", "0"], 2, "error: --rate is 0, and must be 0.01 to 50,000"),
        (["latency", "--duration", "0s"], 2, "error: --duration is 0, and must be above 0\n"),
        (["latency", "--duration", "2h"], 2, "error: --duration is 2h, and must be 1h at most\n"),
        (["compare", "/nowhere/x", "/nowhere/y"], 2, "error: /nowhere/x cannot be read: No such file"),
        (
            ["compare", "pyproject.toml", "pyproject.toml"],
            2,
            "error: pyproject.toml is not the result of a benchmark\n",
        ),
    ],
)
def test_invalid_flags_are_refused(module_broker: LocalBroker, words: list[str], code: int, said: str) -> None:
    if not topics(module_broker.url):
        create(module_broker.url, "orders")
    done = cli(module_broker.url, "bench", *words)
    assert done.code == code
    assert said in done.err
    assert topics(module_broker.url) == ["orders"]
