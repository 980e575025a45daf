"""Every inspection as a step of a pipeline: the rows that its command has, and options that are checked."""

import json
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.client import Client
from goqueue.errors import ConfigInvalid
from goqueue.spark.inspections.catalog import INSPECTIONS
from goqueue.spark.inspections.inspection import Row, format_key
from goqueue.spark.inspections.lag import broker_lags
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.pipeline.model import InspectStep
from goqueue.spark.pipeline.parser import load
from goqueue.spark.pipeline.run import PipelineContext, plan_of, run
from goqueue.spark.pipeline.tables import inspection_schema, inspection_table
from goqueue.spark.reading.plan import ReadPlan, TopicSelection, make_plan
from goqueue.testing.broker import LocalBroker
from tests.spark.programs import Inspect
from tests.spark.stock import flip, made
from tests.spark.traffic import Traffic, work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = "2033-05-18T03:33:20Z"
AT_NS = 2_000_000_000_000_000_000

STEPS: dict[str, tuple[str, dict[str, str]]] = {
    "compaction": ("compaction", {}),
    "superseded": ("compaction", {"keys": "true", "top": "2"}),
    "letters": ("dlq", {"by": "origin", "since": AT}),
    "forecast": ("forecast", {"disk": "1GB", "at": AT}),
    "gaps": ("gaps", {"max": "5"}),
    "contents": ("gaps", {"content": "true", "max": "3"}),
    "keys": ("keys", {"top": "4"}),
    "lag": ("lag", {"group": "billing", "window": "1h", "at": AT}),
    "latency": ("latency", {"header": "produced_at", "bucket": "365d"}),
    "sizes": ("sizes", {}),
    "histogram": ("sizes", {"histogram": "value"}),
    "biggest": ("sizes", {"biggest": "3"}),
    "skew": ("skew", {}),
    "summary": ("summary", {}),
    "timeline": ("timeline", {"bucket": "1h", "by": "topic"}),
    "traces": ("traces", {"by": "member"}),
    "slowest": ("traces", {"slowest": "3"}),
    "usage": ("usage", {"by_header": "tenant", "per": "day"}),
    "verify": ("verify", {"index": "true"}),
}


def pipeline_of(directory: Path, source: str, steps: Mapping[str, str]) -> str:
    lines = ["steps:", *(f"  {name}: {step}" for name, step in steps.items())]
    lines += ["sinks:", *(f"  {name}: {{table: 1000, input: {name}}}" for name in steps)]
    path = directory / "p.yaml"
    path.write_text("\n".join([f"source: {{{source}}}", *lines, ""]), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory, worked: Traffic) -> Path:
    """A copy of what a broker has left, with one byte changed."""
    path = Path(shutil.copytree(worked.path, tmp_path_factory.mktemp("catalog") / "data"))
    (log,) = (path / "logs/state/0").glob("*.log")
    flip(log, log.stat().st_size // 2)
    return path


@pytest.fixture(scope="module")
def step_rows(spark: "SparkSession", damaged: Path) -> dict[str, list[Row]]:
    steps = {
        step: "{" + ", ".join([f"inspect: {name}", *(f"{option}: {text}" for option, text in given.items())]) + "}"
        for step, (name, given) in STEPS.items()
    }
    pipeline = load(pipeline_of(damaged.parent, f"path: {damaged}", steps), {}, {}, AT_NS)
    return {one.sink.name: list(one.content or ()) for one in run(spark, pipeline, plan_of(pipeline))}


def comparable(value: Any) -> Any:
    """A value of a step as the command prints it; times to the microsecond."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%f")
    if isinstance(value, list):
        return ", ".join(map(format_key, value)) if value and isinstance(value[0], bytes) else value
    return format_key(value) if isinstance(value, bytes) else value


@pytest.mark.parametrize("step", STEPS)
def test_a_step_has_the_rows_that_its_command_prints(
    inspect_spark: Inspect, damaged: Path, step_rows: dict[str, list[Row]], step: str
) -> None:
    name, given = STEPS[step]
    flags = []
    for option, text in given.items():
        flags += [f"--{option.replace('_', '-')}", *([] if text == "true" else [text])]
    printed = json.loads(inspect_spark(name, str(damaged), *flags, "-o", "json").stdout)
    schema = inspection_schema(INSPECTIONS[name])
    times = {field.name for field in schema if str(field.type).startswith("timestamp")}
    assert printed
    assert len(printed) == len(step_rows[step])
    for row, expected in zip(printed, step_rows[step], strict=True):
        known = {field: row[field] for field in row.keys() & set(schema.names)}
        known |= {field: row[field][:26] for field in known.keys() & times if row[field] is not None}
        assert known == {field: comparable(expected[field]) for field in known}
        if name != "usage":  # its command renames what it counts by
            assert {field for field in expected if expected[field] is not None} <= row.keys()


def test_every_inspection_is_tried() -> None:
    assert {name for name, _ in STEPS.values()} == set(INSPECTIONS)


def test_fields_are_named_once_and_tables_show_known_ones() -> None:
    for inspection in INSPECTIONS.values():
        names = [field.name for field in inspection.fields]
        assert len(names) == len(set(names))
        assert {name.removeprefix("-") for name in inspection.table} <= set(names)


WRONG = {
    "a": "{inspect: sumary}",
    "b": "{inspect: sizes, histogram: frame, biggest: 3}",
    "c": "{inspect: sizes, histogram: whole, biggest: 1001}",
    "d": "{inspect: latency, header: at, field: a.b}",
    "e": "{inspect: latency, field: a..b, bucket: 0s}",
    "f": "{inspect: lag, groups: billing, window: soon, at: later}",
    "g": "{inspect: compaction, keys: true, approx: true}",
    "h": "{inspect: gaps, content: true, max: 20000}",
    "i": "{inspect: verify, index: true}",
    "j": "{inspect: verify, index: perhaps}",
    "k": "{inspect: forecast, disk: large}",
    "l": "{inspect: skew, top: 3}",
    "m": "{inspect: timeline, bucket: 1us, by: key}",
    "n": "{inspect: keys, top: 0}",
}
SENTENCES = """\
steps.a.inspect: 'sumary' is no inspection: did you mean summary? there are compaction, dlq, forecast, gaps, keys, \
lag, latency, sizes, skew, summary, timeline, traces, usage, verify
steps.b.biggest: cannot be combined with histogram (keep one of histogram, biggest)
steps.c.histogram: 'whole' is not one of frame, value, key, headers
steps.c.biggest: '1001' is too large: the maximum is 1,000
steps.d.field: cannot be combined with header (keep one of header, field)
steps.e.field: 'a..b' is not a path: write names with dots between them, as in order.created
steps.e.bucket: '0s' must be longer than 0
steps.f.groups: is not an option of lag (did you mean group? there are group, window, at)
steps.f.window: 'soon' is not a duration
steps.f.at: 'later' is not a time
steps.g.approx: counts keys without listing them (leave out keys or approx)
steps.h.max: is too large beside content, which lists 10,000 at most (lower it)
steps.i.index: is about files, and the source is a broker (remove it, or read its directory)
steps.j.index: 'perhaps'
steps.j.index: is about files, and the source is a broker
steps.k.disk: 'large' is not a size
steps.l.top: is not an option of skew (there are none)
steps.m.bucket: '1us' is too short: the minimum is 1ms
steps.m.by: 'key' is not one of topic, partition, priority
steps.n.top: '0' is not a number above 0
"""


def test_every_option_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        load(pipeline_of(tmp_path, 'url: "http://127.0.0.1:1"', WRONG), {}, {}, AT_NS)
    found = [str(one).partition(": ")[2] for one in raised.value.details["problems"]]
    sentences = SENTENCES.splitlines()
    assert [one[: len(told)] for one, told in zip(found, sentences, strict=True)] == sentences


def test_times_may_be_relative_and_lists_one_text(tmp_path: Path) -> None:
    steps = {"a": '{inspect: lag, group: "x, y", at: -1h}', "b": "{inspect: dlq, since: 1970-01-02}"}
    pipeline = load(pipeline_of(tmp_path, "path: d", steps), {}, {}, AT_NS)
    given = [step.options for step in pipeline.steps if isinstance(step, InspectStep)]
    assert given == [{"group": ("x", "y"), "at": AT_NS - 3600 * 10**9}, {"since": 86_400 * 10**9}]


def context_of(spark: "SparkSession", logs: DirectoryLogs | BrokerLogs, *topics: str) -> PipelineContext:
    return PipelineContext(spark, logs, make_plan(logs, TopicSelection(topics)))


def test_a_timeline_of_too_many_buckets_is_refused(inspect: Inspect, tmp_path: Path) -> None:
    path = made(tmp_path / "data", count=140, partitions=1).path
    done = inspect("timeline", str(path), "--bucket", "1ms")
    assert "this makes 17,001 buckets, 10,000 is the maximum" in done.stderr


def test_a_log_that_is_gone_is_reported_where_all_topics_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    stock = made(tmp_path / "data", count=14)
    shutil.rmtree(stock.directory("orders", 1))
    logs = DirectoryLogs.at(str(stock.path))
    verify = INSPECTIONS["verify"]
    whole = verify.run(context_of(spark, logs), {}).rows
    assert [(row["code"], row["partition"], row["damage"]) for row in whole] == [("messages_missing", 1, True)]
    assert verify.run(PipelineContext(spark, logs, ReadPlan(())), {}).rows == []


def test_a_broker_is_asked_for_its_own_lag(spark: "SparkSession", broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        work(client)
    logs = BrokerLogs(broker.url)
    with logs.client:
        rows = INSPECTIONS["lag"].run(context_of(spark, logs, "jobs"), {"group": ("billing",)}).rows
        lags = broker_lags(logs, ("jobs",), ("billing",))
    assert [(row["partition"], row["messages"]) for row in rows] == [(one.key.partition, one.messages) for one in lags]
    assert inspection_table(rows, INSPECTIONS["lag"]).num_rows == 2
