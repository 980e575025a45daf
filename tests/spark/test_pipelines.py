"""Pipelines: what is told of a wrong file, and what becomes of a right one."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from goqueue.config import Problem
from goqueue.errors import ConfigInvalid, RangeDamaged, TopicNotFound
from goqueue.spark.pipeline.model import Pipeline
from goqueue.spark.pipeline.parser import load
from goqueue.spark.pipeline.run import check, plan_of, run
from goqueue.spark.pipeline.sinks import SinkResult
from goqueue.testing.broker import LocalBroker
from tests.brokers import create, publish, read
from tests.spark import naive
from tests.spark.programs import Inspect
from tests.spark.stock import Sent, Stock, damage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


EXAMPLES = Path(__file__).resolve().parents[2] / "configs" / "pipelines"
NOON_NS = 1_700_000_000_000_000_000  # of 2023-11-14, in the evening
DAY = {"from": "2023-11-14", "to": "2023-11-15"}


def written(directory: Path, text: str) -> str:
    path = directory / "p.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def loaded(path: str | Path, **given: str) -> Pipeline:
    return load(str(path), given, {"TOKEN": "kept"}, NOON_NS)


def problems(error: ConfigInvalid) -> list[str]:
    found: tuple[Problem, ...] = error.details["problems"]
    return [str(one).partition("p.yaml:")[2] or str(one) for one in found]


def wrong(directory: Path, text: str, **given: str) -> list[str]:
    with pytest.raises(ConfigInvalid) as raised:
        loaded(written(directory, text), **given)
    return problems(raised.value)


def orders(path: Path) -> list[dict[str, Any]]:
    """Orders of three customers in two partitions, and three dead letters; the orders as their values say."""
    made: list[dict[str, Any]] = [
        {"order": number, "customer": f"c{number % 3}", "total": number / 2} for number in range(30)
    ]
    with Stock(path) as stock:
        stock.create("orders", 2).create("jobs.dlq")
        for one in made:
            sent = Sent(json.dumps(one).encode(), str(one["customer"]).encode())
            stock.append("orders", sent, partition=one["order"] % 2)
        for number in range(3):
            told = (("dlq.error", f"timeout after {number} s".encode()), ("dlq.attempts", b"4"))
            stock.append("jobs.dlq", Sent(b"\xff%d" % number, b"k", told))
    return made


def done(spark: "SparkSession", pipeline: Pipeline) -> dict[str, SinkResult]:
    return {one.sink.name: one for one in run(spark, pipeline, plan_of(pipeline))}


def table(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ds.dataset(path, partitioning="hive").to_table().to_pylist()
    return rows


# --- what is wrong with a file ---

TANGLE = """\
source:
  pth: /data
  topics: [orders*, {a: b}]
  from: yesteryear
steps:
  9a: {sql: SELECT 1}
  input: {sql: "SELECT '${date}', ${foo}"}
  x: {inspect: sumary}
  y: {inspect: timeline, buckt: 3}
  z: [a]
sinks:
  a: {parquet: /tmp/x, input: xx, mode: replace}
  b: {parquet: /tmp/x, topic: y}
  c: {table: many}
  d: {topic: t}
schedule:
  streaming: {every: 10s, available_now: true}
"""
TANGLED = """\
1:1: source: has none of path, url (give one of them)
2:3: source.pth: is not known here (did you mean path? there are path, url, token, topics, from, to, json, \
skip_damage, isolation)
3:21: source.topics: is a section where a name belongs
4:9: source.from: 'yesteryear' is no place to read from or to: write earliest, latest, a time as in \
2026-03-01T12:00:00Z, a day as in 2026-03-01, or -24h
6:7: steps.9a: is no name that a query can say: letters, digits and _, and no digit first
7:10: steps.input: is a name that is taken: 'input' (give it another one)
7:16: steps.input.sql: '${foo}' has no value: give it with --set foo=…
8:16: steps.x.inspect: 'sumary' is no inspection: did you mean summary? there are compaction, dlq, forecast, gaps, \
keys, lag, latency, sizes, skew, summary, timeline, traces, usage, verify
9:3: steps.y: is an inspection, which needs an end to what it looks at (a stream has steps of SQL)
9:33: steps.y.buckt: is not an option of timeline (did you mean bucket? there are bucket, by)
10:3: steps.z: has none of sql, inspect (give one of them)
10:6: steps.z: is a list where a section belongs (indent its keys below it)
12:31: sinks.a.input: 'xx' is no step: did you mean x? there are input, 9a, input, x, y, z
12:41: sinks.a.mode: 'replace' is no mode: there are fail, append, overwrite
13:31: sinks.b.topic: stands beside parquet (keep one of parquet, json, csv, topic, table)
14:14: sinks.c.table: 'many' is not a number of rows from 1 to 99999
15:14: sinks.d.topic: has no broker to go to (add `url: http://127.0.0.1:8080`)
17:3: schedule.streaming: has no checkpoint (add `checkpoint: PATH`: where a stream goes on when it is restarted)
17:22: schedule.streaming.every: stands beside available_now (keep one: what ends has no pace)
"""


def test_all_that_is_wrong_with_a_file_is_told_at_once_with_line_and_column(tmp_path: Path) -> None:
    assert wrong(tmp_path, TANGLE) == TANGLED.splitlines()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no source (begin with `source:` and below it `path:` or `url:`)"),
        ("- a\n", "1:1: is a list, not a pipeline (begin with `source:`)"),
        ("source: {path: d, token: t}\nsinks: {s: {table: 1}}\n", "1:26: source.token: is of no use for a directory"),
        ("source: {path: d}\nsinks:\n", "2:7: sinks: has no sinks (name one below `sinks:`"),
        ("source: {path: d}\nsinks: {s: {table: 1, mode: append}}\n", "2:29: sinks.s.mode: is of no use for table"),
        ("source: {path: d}\nsinks: {s: {table: 1}}\nschedule: streaming\n", "streaming needs a checkpoint"),
        ("source: {path: d}\nsinks: {s: {table: 1}}\nschedule: twice\n", "'twice' is no schedule"),
        ("source: {url: localhost}\nsinks: {s: {table: 1}}\n", "'localhost' is not the address of a broker"),
        (
            "source: {path: d}\nsinks: {a: {json: out}, b: {csv: ./out}}\n",
            "sinks.b: writes to './out', as a does (give each a directory of its own)",
        ),
        ("variables: {a: [b]}\nsource: {path: d}\nsinks: {s: {table: 1}}\n", "variables.a: has no value"),
        ("source: {path: d}\nsteps: {a: {sql: x, top: 3}}\nsinks: {s: {table: 1}}\n", "steps.a.top: is not known"),
    ],
)
def test_each_mistake_has_its_sentence(tmp_path: Path, text: str, told: str) -> None:
    found = wrong(tmp_path, text)
    assert any(told in one for one in found), found


STREAM = """\
source: {url: "http://127.0.0.1:1", topics: [orders, "pay*"], to: now}
sinks:
  same: {topic: payments, id: once}
  other: {topic: payments, url: "http://127.0.0.1:2"}
  shown: {table: 3}
  over: {parquet: x, mode: overwrite}
schedule: {streaming: {checkpoint: c}}
"""


def test_what_a_stream_cannot_have_is_told(tmp_path: Path) -> None:
    assert wrong(tmp_path, STREAM.replace("to: now", "to: 2026-01-01")) == [
        "1:63: source.to: ends what has no end (remove it: a stream reads on)",
        "3:3: sinks.same: writes into 'payments', which the source reads: it would never end (name another topic)",
        "3:31: sinks.same.id: is for pipelines that run once: a stream is known by its checkpoint (remove it)",
        "5:3: sinks.shown: is a table, which needs an end to what it shows (write to files or a topic)",
        "6:28: sinks.over.mode: overwrite is no way for a stream to write (write append, or leave it out)",
    ]


def test_variables_are_days_the_environment_and_what_is_given(tmp_path: Path) -> None:
    text = """\
variables: {lake: "/lake/${date}", kept: old}
source: {url: "http://127.0.0.1:1", token: "${env:TOKEN}", from: "${yesterday}"}
sinks: {s: {json: "${lake}/${kept}/$${kept}"}}
"""
    pipeline = loaded(written(tmp_path, text), kept="new")
    assert pipeline.source.token == "kept"  # noqa: S105 - not a real one
    assert pipeline.sinks[0].target == "/lake/2023-11-14/new/${kept}"
    assert "'kept'" not in repr(pipeline)


def test_a_value_that_nothing_uses_is_a_mistake_in_its_name(tmp_path: Path) -> None:
    text = "variables: {lake: x}\nsource: {path: d}\nsinks: {s: {json: '${lake}/${env:NONE}'}}\n"
    assert wrong(tmp_path, text, laek="y") == [
        "3:19: sinks.s.json: '${env:NONE}': the environment has no 'NONE'",
        "--set: 'laek' is used nowhere in the pipeline (did you mean lake?)",
    ]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"none\.yaml: does not exist \(docs/pipelines\.md shows one"):
        loaded(tmp_path / "none.yaml")


# --- what is wrong with its queries ---

QUERIES = """\
source:
  path: /there/is/nothing/here
  json: customer STRING
steps:
  a: {sql: "SELECT nothing FROM input"}
  b:
    sql: |
      SELECT key,
        valeu
      FROM input
  c: {sql: SELEC 1}
  d: {sql: SELECT * FROM bb}
  e: {sql: SELECT * FROM f}
  f: {sql: "SELECT customer, value, headers FROM input"}
  g: {sql: DROP VIEW input}
  h: {sql: SELECT * FROM a}
  i: {sql: SELECT * FROM i}
  j: {sql: "WITH x AS (SELECT 1) INSERT INTO f SELECT * FROM x"}
sinks:
  s: {csv: /tmp/no, input: f, partition_by: custmer}
  t: {topic: orders, input: f, url: "http://127.0.0.1:1"}
"""


def test_queries_and_sinks_are_analysed_whole_and_nothing_is_read(spark: "SparkSession", tmp_path: Path) -> None:
    pipeline = loaded(written(tmp_path, QUERIES))
    with pytest.raises(ConfigInvalid) as raised:
        check(spark, pipeline)
    begins = [
        "5:20: steps.a: there is no column 'nothing'",
        "9:9: steps.b: there is no column 'valeu' (did you mean value? ",
        "11:12: steps.c: 'SELEC' does not begin a query",
        "12:26: steps.d: there is no step 'bb'",
        "13:26: steps.e: reads 'f', which comes below it (put it behind the steps that it reads)",
        "15:12: steps.g: 'DROP' does not begin a query",
        "17:26: steps.i: reads itself (read another step, or input)",
        "18:12: steps.j: InsertIntoStatement is no query",
        "20:3: sinks.s: partition_by: 'custmer' is no column of f (did you mean customer?)",
        "20:3: sinks.s: CSV has no place for headers, which is array<struct<key:string,value:binary>>",
        "21:3: sinks.t: 'customer' is no column of a message",
    ]
    told = problems(raised.value)
    assert [one[: len(begin)] for one, begin in zip(told, begins, strict=True)] == begins
    assert spark.catalog.listTables() == []


def test_a_schema_of_json_that_is_none_is_told_once(spark: "SparkSession", tmp_path: Path) -> None:
    text = """\
source: {path: nowhere, json: "total WIDE"}
steps: {a: {sql: SELECT total FROM input}}
sinks: {s: {table: 3}}
"""
    with pytest.raises(ConfigInvalid) as raised:
        check(spark, loaded(written(tmp_path, text)))
    assert problems(raised.value) == [
        "1:31: source.json: 'total WIDE' is not a schema (write it as in 'customer STRING, total DOUBLE')"
    ]


def test_a_stream_that_would_have_to_wait_for_its_end_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    orders(tmp_path / "data")
    text = f"""\
source: {{path: {tmp_path}/data, topics: orders}}
steps: {{a: {{sql: "SELECT key, count(*) AS n FROM input GROUP BY key"}}}}
sinks: {{s: {{parquet: {tmp_path}/out}}}}
schedule: {{streaming: {{checkpoint: {tmp_path}/c}}}}
"""  # noqa: S608 - a pipeline is what is written here
    with pytest.raises(ConfigInvalid) as raised:
        check(spark, loaded(written(tmp_path, text)))
    (told,) = problems(raised.value)
    assert told.startswith("3:9: sinks.s: Invalid streaming output mode: append.")


def test_a_place_and_a_topic_that_are_not_there_are_named(tmp_path: Path) -> None:
    orders(tmp_path / "data")
    text = f"source: {{path: {tmp_path}/data, topics: ordres}}\nsinks: {{s: {{table: 1}}}}\n"
    with pytest.raises(ConfigInvalid, match="there is no topic 'ordres'"):
        plan_of(loaded(written(tmp_path, text)))


# --- pipelines that run ---


def test_every_example_can_be_read() -> None:
    names = {path.stem: loaded(path) for path in EXAMPLES.glob("*.yaml")}
    assert set(names) == {"daily-usage", "dead-letters", "late-events", "topic-to-lake"}


def test_daily_usage_counts_what_topics_took_in(spark: "SparkSession", tmp_path: Path) -> None:
    orders(tmp_path / "data")
    pipeline = loaded(EXAMPLES / "daily-usage.yaml", data=f"{tmp_path}/data", lake=f"{tmp_path}/lake", **DAY)
    found = done(spark, pipeline)
    hours = table(tmp_path / "lake/usage/day=2023-11-14")
    assert {row["topic"]: row["messages"] for row in hours} == {"orders": 30, "jobs.dlq": 3}
    assert (found["hours"].rows, found["hours"].files) == (2, len(list(tmp_path.rglob("*.parquet"))))
    shown = found["show"].content
    assert shown is not None
    assert [row["topic"] for row in shown] == ["orders", "jobs.dlq"]
    with pytest.raises(ConfigInvalid, match="holds files already"):
        check(spark, pipeline)


def test_dead_letters_are_kept_as_they_are(spark: "SparkSession", tmp_path: Path) -> None:
    orders(tmp_path / "data")
    given = {"data": f"{tmp_path}/data", "lake": f"{tmp_path}/lake"}
    found = done(spark, loaded(EXAMPLES / "dead-letters.yaml", **given))
    kept = sorted(table(tmp_path / "lake/dead-letters"), key=lambda row: row["offset"])
    assert [row["value"] for row in kept] == [b"\xff0", b"\xff1", b"\xff2"]
    assert kept[0]["headers"][0] == {"key": "dlq.error", "value": b"timeout after 0 s"}
    reasons = found["show"].content
    assert reasons is not None
    assert [(row["error"], row["letters"], row["attempts_max"]) for row in reasons] == [("timeout after … s", 3, 4)]


def test_late_events_are_those_that_took_longer(spark: "SparkSession", broker: LocalBroker) -> None:
    create(broker.url, "events")
    late, timely = '{"happened_at": "2020-01-01T00:00:00Z"}', '{"happened_at": "2100-01-01T00:00:00Z"}'
    publish(broker.url, "events", late, timely, late, "no object")
    pipeline = load(str(EXAMPLES / "late-events.yaml"), {"url": broker.url, "since": "earliest"}, {}, NOON_NS)
    report = done(spark, pipeline)["show"].content
    assert report is not None
    assert sum(row["late"] for row in report) == 2


def test_a_stream_to_files_goes_on_where_it_ended(spark: "SparkSession", broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "orders", 2)
    text = (EXAMPLES / "topic-to-lake.yaml").read_text().replace("every: 30s", "available_now: true")
    pipeline = loaded(written(tmp_path, text), url=broker.url, lake=f"{tmp_path}/lake")
    for count in (3, 2, 0):
        if count:
            publish(broker.url, "orders", *("x" * count))
        assert done(spark, pipeline)["lake"].rows == count
    rows = table(tmp_path / "lake/messages")
    assert Counter((row["partition"], row["offset"]) for row in rows).most_common(1)[0][1] == 1
    assert len(rows) == 5


def test_what_is_run_twice_under_one_id_is_in_the_topic_once(
    spark: "SparkSession", broker: LocalBroker, tmp_path: Path
) -> None:
    made = orders(tmp_path / "stock")
    create(broker.url, "totals")
    text = f"""\
source: {{path: {tmp_path}/stock, topics: orders, json: "customer STRING, total DOUBLE"}}
steps:
  spent:
    sql: SELECT customer AS key, CAST(sum(total) AS STRING) AS value FROM input GROUP BY customer ORDER BY key
sinks:
  totals: {{topic: totals, url: "{broker.url}", id: "totals of ${{date}}"}}
"""  # noqa: S608 - a pipeline is what is written here
    pipeline = loaded(written(tmp_path, text))
    for _ in range(2):
        assert done(spark, pipeline)["totals"].rows == 3
    spent = {f"c{rest}": sum(one["total"] for one in made if one["order"] % 3 == rest) for rest in range(3)}
    assert [float(one["value"]) for one in read(broker.url, "totals")] == list(spent.values())


def test_a_sink_that_fails_is_named(spark: "SparkSession", broker: LocalBroker, tmp_path: Path) -> None:
    orders(tmp_path / "stock")
    text = f"""\
source: {{path: {tmp_path}/stock, topics: orders}}
steps: {{a: {{sql: SELECT value FROM input}}}}
sinks: {{copies: {{topic: missing, url: "{broker.url}"}}}}
"""  # noqa: S608 - a pipeline is what is written here
    with pytest.raises(TopicNotFound, match=r"^sink copies: "):
        done(spark, loaded(written(tmp_path, text)))


def test_a_pipeline_ends_at_damage_unless_it_skips_it(spark: "SparkSession", tmp_path: Path) -> None:
    with Stock(tmp_path / "data") as stock:
        stock.create("orders").append("orders", *(Sent(b"%d" % number) for number in range(30)))
    damage(tmp_path / "data", naive.rows(tmp_path / "data", "orders")[5])
    text = "source:\n  path: {}\n  skip_damage: {}\nsinks:\n  lake:\n    parquet: {}\n"
    with pytest.raises(RangeDamaged, match="is damaged from byte"):
        done(spark, loaded(written(tmp_path, text.format(tmp_path / "data", "false", tmp_path / "lake"))))
    skipping = loaded(written(tmp_path, text.format(tmp_path / "data", "true", tmp_path / "more")))
    assert done(spark, skipping)["lake"].rows == 29


def test_only_columns_that_a_sink_needs_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    text = """\
source: {path: nowhere, json: "total DOUBLE, customer STRING"}
steps:
  unused: {sql: SELECT headers FROM input}
  a: {sql: SELECT partition FROM input WHERE total > 3}
sinks: {s: {table: 3}}
"""
    assert check(spark, loaded(written(tmp_path, text))).columns == frozenset(["partition", "total"])


# --- the command ---


def test_the_command_tells_a_row_for_each_sink(inspect_spark: Inspect, tmp_path: Path) -> None:
    orders(tmp_path / "data")
    given = [f"--set=data={tmp_path}/data", f"--set=lake={tmp_path}/lake", "--set=from=2023-11-14", "--set=to=now"]
    ended = inspect_spark("run", str(EXAMPLES / "daily-usage.yaml"), *given, "-o", "json", "--master", "local[1]")
    assert ended.returncode == 0, ended.stderr
    hours, show = json.loads(ended.stdout)
    assert (hours["sink"], hours["kind"], hours["rows"]) == ("hours", "parquet", 2)
    assert hours["bytes"] > 0
    assert [row["topic"] for row in show["content"]] == ["orders", "jobs.dlq"]


def test_problems_of_a_file_are_told_before_anything_is_started(inspect_spark: Inspect, tmp_path: Path) -> None:
    ended = inspect_spark("run", written(tmp_path, TANGLE), "--check")
    assert ended.returncode == 2
    assert ended.stdout == ""
    lines = [line.partition("p.yaml:")[2] for line in ended.stderr.splitlines()[:-1]]
    assert lines == TANGLED.splitlines()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "name"], "--set: 'name' gives no value"),
        (["--conf", "name=1"], "--conf: 'name=1' is not a setting of Spark"),
        (["-o", "parquet"], "the result of a pipeline is not written as Parquet"),
    ],
)
def test_a_wrong_flag_is_refused_at_once(inspect: Inspect, tmp_path: Path, words: list[str], told: str) -> None:
    ended = inspect("run", written(tmp_path, ""), *words)
    assert ended.returncode == 2
    assert told in ended.stderr
