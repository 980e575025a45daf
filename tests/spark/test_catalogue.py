"""Every inspection as a step of a pipeline: the rows that its command has, and parameters that are checked."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from goqueue.client import Client
from goqueue.errors import ConfigInvalid, RequestInvalid
from goqueue.spark.inspections import (
    compaction,
    dead_letters,
    forecast,
    gaps,
    keys,
    lag,
    latency,
    repeats,
    sizes,
    skew,
    summary,
    timeline,
    usage,
    verify,
)
from goqueue.spark.inspections.catalogue import INSPECTIONS
from goqueue.spark.inspections.inspection import Row, table
from goqueue.spark.inspections.ledger import read_topics
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.pipeline.model import Inspect
from goqueue.spark.pipeline.reading import load
from goqueue.spark.pipeline.run import plan_of, run
from goqueue.spark.plan import Plan, Selection, make_plan
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker
from tests.spark.stock import made
from tests.spark.traffic import traffic, work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["broker"]

AT = "2033-05-18T03:33:20Z"
AT_NS = 2_000_000_000_000_000_000
LETTERS = "jobs.dlq"

STEPS = {
    "compaction": "{inspect: compaction}",
    "superseded": "{inspect: compaction, keys: true, top: 2}",
    "letters": f"{{inspect: dlq, by: origin, since: {AT}}}",
    "forecast": f"{{inspect: forecast, disk: 1GB, at: {AT}}}",
    "gaps": "{inspect: gaps, max: 5}",
    "contents": "{inspect: gaps, content: true, max: 3}",
    "keys": "{inspect: keys, top: 4}",
    "lag": f"{{inspect: lag, group: [billing, other], window: 1h, at: {AT}}}",
    "latency": "{inspect: latency, header: produced_at, bucket: 365d}",
    "sizes": "{inspect: sizes}",
    "histogram": "{inspect: sizes, histogram: value}",
    "biggest": "{inspect: sizes, biggest: 3}",
    "skew": "{inspect: skew}",
    "summary": "{inspect: summary}",
    "timeline": "{inspect: timeline, bucket: 1h, by: topic}",
    "usage": "{inspect: usage, by_header: tenant, per: day}",
    "verify": "{inspect: verify, index: true}",
}


def pipeline_of(directory: Path, source: str, steps: Mapping[str, str]) -> str:
    lines = ["steps:", *(f"  {name}: {step}" for name, step in steps.items())]
    lines += ["sinks:", *(f"  {name}: {{table: 1000, input: {name}}}" for name in steps)]
    path = directory / "p.yaml"
    path.write_text("\n".join([f"source: {{{source}}}", *lines, ""]), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker has left, but for a byte that has changed since."""
    path = traffic(tmp_path_factory.mktemp("catalogue") / "data").path
    (log,) = (path / "logs/state/0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def told(spark: "SparkSession", damaged: Path) -> dict[str, list[Row]]:
    pipeline = load(pipeline_of(damaged.parent, f"path: {damaged}", STEPS), {}, {}, AT_NS)
    delivered = run(spark, pipeline, plan_of(pipeline))
    return {one.sink.name: list(one.content or ()) for one in delivered}


Rows = Callable[["SparkSession", DirectoryLogs, Plan], list[Row]]


def _looked(logs: DirectoryLogs, plan: Plan, look: Callable[..., Any]) -> list[Any]:
    return [look(split) for split in plan.splits(logs)]


def _gaps(logs: DirectoryLogs, plan: Plan) -> list[gaps.Gap]:
    below = gaps.compacted_below(logs, plan)
    return gaps.find_gaps(logs, plan, plan.splits(logs), _looked(logs, plan, gaps.Look(logs, below)), below)


def _forecast(_: "SparkSession", logs: DirectoryLogs, plan: Plan) -> list[Row]:
    hours = zip(plan.splits(logs), _looked(logs, plan, forecast.Look(logs)), strict=True)
    found = forecast.outlooks(plan, hours, read_topics(logs), AT_NS)
    whole = forecast.all_together(found)
    return forecast.rows(found, whole, 10**9 - whole.bytes)


def _lag(_: "SparkSession", logs: DirectoryLogs, __: Plan) -> list[Row]:
    prepared = lag.prepare(logs, (), ("billing",), now_ns=AT_NS, window_seconds=3600)
    splits = prepared.plan.splits(logs)
    return lag.rows(lag.lags(prepared, splits, map(prepared.look, splits), 3600))


def _latency(_: "SparkSession", logs: DirectoryLogs, plan: Plan) -> list[Row]:
    year_ns = 365 * 86_400 * 10**9
    prepared = latency.prepare(logs, plan, latency.Source(header="produced_at"), year_ns)
    return latency.rows(latency.together(prepared, _looked(logs, prepared.plan, prepared.look)))


def _letters(spark: "SparkSession", logs: DirectoryLogs, _: Plan) -> list[Row]:
    splits = make_plan(logs, Selection((LETTERS,))).splits(logs)
    found = dead_letters.dead_letters(spark, logs, splits, by="origin", since_ns=AT_NS)
    return dead_letters.rows(found, "origin", has_since=True)


def _timeline(spark: "SparkSession", logs: DirectoryLogs, plan: Plan) -> list[Row]:
    hour_ns = 3600 * 10**9
    found = timeline.buckets(spark, logs, plan.splits(logs), hour_ns, "topic")
    return timeline.rows(timeline.filled(found, hour_ns), hour_ns, "topic")


def _compaction(spark: "SparkSession", logs: DirectoryLogs, plan: Plan) -> compaction.Findings:
    return compaction.compaction(spark, logs, plan, now_ns=1, top=2)


def _of_command() -> dict[str, Rows]:
    """What each command makes its rows of."""
    return {
        "compaction": lambda spark, logs, plan: compaction.rows(
            _compaction(spark, logs, plan).gains, read_topics(logs)
        ),
        "superseded": lambda spark, logs, plan: compaction.key_rows(_compaction(spark, logs, plan).keys),
        "letters": _letters,
        "forecast": _forecast,
        "gaps": lambda _, logs, plan: gaps.rows(_gaps(logs, plan), 5),
        "contents": lambda spark, logs, plan: repeats.rows(
            repeats.find_repeats(spark, logs, plan, plan.splits(logs), 3).most
        ),
        "keys": lambda spark, logs, plan: keys.rows(keys.count_keys(spark, logs, plan.splits(logs), 4)),
        "lag": _lag,
        "latency": _latency,
        "sizes": lambda spark, logs, plan: sizes.rows(sizes.measure(spark, logs, plan.splits(logs))[0]),
        "histogram": lambda spark, logs, plan: sizes.steps(sizes.measure(spark, logs, plan.splits(logs))[0], "value"),
        "biggest": lambda spark, logs, plan: sizes.largest(sizes.measure(spark, logs, plan.splits(logs), 3)[1]),
        "skew": lambda spark, logs, plan: skew.rows(skew.spreads(spark, logs, plan, plan.splits(logs))),
        "summary": lambda _, logs, plan: summary.rows(
            summary.summarise(plan, plan.splits(logs), _looked(logs, plan, summary.Look(logs)))
        ),
        "timeline": _timeline,
        "usage": lambda spark, logs, plan: usage.rows(
            usage.usage(spark, logs, plan, usage.Wish("topic", "tenant", "day"))
        ),
        "verify": lambda _, logs, plan: verify.rows(verify.faults_of(_gaps(logs, plan))),
    }


@pytest.mark.parametrize("step", STEPS)
def test_a_step_has_the_rows_of_the_command(
    spark: "SparkSession", damaged: Path, told: dict[str, list[Row]], step: str
) -> None:
    logs = DirectoryLogs.at(str(damaged))
    rows = _of_command()[step](spark, logs, make_plan(logs, Selection()))
    name = STEPS[step].removeprefix("{inspect: ").partition(",")[0].rstrip("}")
    schema = INSPECTIONS[name].schema
    assert rows
    assert {field for row in rows for field in row} <= set(schema.names)
    assert told[step] == table(rows, schema).to_pylist()


def test_every_inspection_is_tried() -> None:
    tried = {step.removeprefix("{inspect: ").partition(",")[0].rstrip("}") for step in STEPS.values()}
    assert tried == set(INSPECTIONS)


def test_columns_are_named_once_and_have_types() -> None:
    for inspection in INSPECTIONS.values():
        names = inspection.schema.names
        assert len(names) == len(set(names))
        assert pa.null() not in inspection.schema.types


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
lag, latency, sizes, skew, summary, timeline, usage, verify
steps.b.biggest: stands beside histogram (keep one of histogram, biggest)
steps.c.histogram: 'whole' is not one of frame, value, key, headers
steps.c.biggest: '1001' is too much: 1,000 is the most
steps.d.field: stands beside header (keep one of header, field)
steps.e.field: 'a..b' is no path: write names with dots between, as in order.created
steps.e.bucket: '0s' is no time at all
steps.f.groups: is no parameter of lag (did you mean group? there are group, window, at)
steps.f.window: 'soon' is not a duration
steps.f.at: 'later' is not a time
steps.g.approx: knows no single key (leave keys or approx out)
steps.h.max: is too much beside content, which names 10,000 at most (take less)
steps.i.index: is about files, and the source is a broker (remove it, or read its directory)
steps.j.index: 'perhaps'
steps.j.index: is about files, and the source is a broker
steps.k.disk: 'large' is not a size
steps.l.top: is no parameter of skew (there are none)
steps.m.bucket: '1us' is too short: the shortest is 1ms
steps.m.by: 'key' is not one of topic, partition, priority
steps.n.top: '0' is not a number above 0
"""


def test_every_parameter_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        load(pipeline_of(tmp_path, 'url: "http://127.0.0.1:1"', WRONG), {}, {}, AT_NS)
    found = [str(one).partition(": ")[2] for one in raised.value.details["problems"]]
    sentences = SENTENCES.splitlines()
    assert [one[: len(told)] for one, told in zip(found, sentences, strict=True)] == sentences


def test_moments_may_be_so_long_ago_and_groups_one_text(tmp_path: Path) -> None:
    steps = {"a": '{inspect: lag, group: "x, y", at: -1h}', "b": "{inspect: dlq, since: 1970-01-02}"}
    pipeline = load(pipeline_of(tmp_path, "path: d", steps), {}, {}, AT_NS)
    given = [step.parameters for step in pipeline.steps if isinstance(step, Inspect)]
    assert given == [{"group": ("x", "y"), "at": AT_NS - 3600 * 10**9}, {"since": 86_400 * 10**9}]


def test_a_timeline_of_too_many_lines_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    logs = DirectoryLogs.at(str(made(tmp_path / "data", count=140, partitions=1).path))
    with pytest.raises(RequestInvalid, match="this makes 17,001 lines, 10,000 is the most"):
        timeline.inspect(spark, logs, make_plan(logs, Selection()), bucket=10**6)


def test_a_log_that_is_gone_as_a_whole_is_told_where_all_topics_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    stock = made(tmp_path / "data", count=14)
    shutil.rmtree(stock.directory("orders", 1))
    logs = DirectoryLogs.at(str(stock.path))
    whole = verify.inspect(spark, logs, make_plan(logs, Selection()))
    assert [(row["code"], row["partition"], row["damage"]) for row in whole] == [("messages_missing", 1, True)]
    assert verify.inspect(spark, logs, Plan(())) == []


def test_a_broker_is_asked_for_its_own_lag(spark: "SparkSession", broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        work(client)
    logs = BrokerLogs(broker.url)
    with logs.client:
        rows = lag.inspect(spark, logs, make_plan(logs, Selection(("jobs",))), group=("billing",))
        lags = lag.lags_of_broker(logs, ("jobs",), ("billing",))
    assert [(row["partition"], row["messages"]) for row in rows] == [
        (one.whose.partition, one.messages) for one in lags
    ]
    assert table(rows, lag.INSPECTION.schema).num_rows == 2
