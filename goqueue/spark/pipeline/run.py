"""A pipeline checked to the end, and run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from goqueue.config.problem import Problem
from goqueue.errors import GoQueueError
from goqueue.spark.inspections.inspection import Row
from goqueue.spark.pipeline import delivery, streams
from goqueue.spark.pipeline.delivery import Delivered
from goqueue.spark.pipeline.model import Inspect, Pipeline, invalid
from goqueue.spark.pipeline.tables import Found, reached, sketched, tables
from goqueue.spark.plan import Plan, make_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan_of(pipeline: Pipeline) -> Plan:
    """What is read; `ConfigInvalid` where a topic or the place of the data is not there. No Spark is needed."""
    source = pipeline.source
    try:
        with reached(source) as logs:
            return make_plan(logs, source.selection, source.start, source.end)
    except GoQueueError as error:
        if pipeline.stream is not None and error.code == "topic_not_found" and source.selection.pattern:
            return Plan(())  # what fits may be created later
        raise invalid([Problem(source.origin, "source", error.sentence, error.hint)]) from error


def check(spark: "SparkSession", pipeline: Pipeline) -> Found:
    """Analyse every query and every sink; `ConfigInvalid` has all that is wrong. No message is read."""
    with sketched(spark, pipeline) as (made, found):
        problems = list(made.problems)
        for sink in pipeline.sinks:
            schema = made.schema(sink.input)
            if schema is not None:
                problems += delivery.check(spark, pipeline, sink, schema)
    if problems:
        raise invalid(problems)
    if pipeline.stream is not None:
        _check_stream(spark, pipeline, found)
    return found


def run(spark: "SparkSession", pipeline: Pipeline, plan: Plan) -> list[Delivered]:
    """Check, then do it. A stream that does not end by itself is ended by an interruption."""
    found = check(spark, pipeline)
    if pipeline.stream is not None:
        with tables(spark, pipeline, plan, found) as made:
            return streams.stream(pipeline, made)
    rows = _inspect(spark, pipeline, plan)
    with tables(spark, pipeline, plan, replace(found, rows=rows)) as made:
        return [delivery.deliver(spark, sink, made.frames[sink.input]) for sink in pipeline.sinks]


def _check_stream(spark: "SparkSession", pipeline: Pipeline, found: Found) -> None:
    with tables(spark, pipeline, Plan(()), found) as made:
        refused = [(sink, streams.refused(spark, made.frames[sink.input])) for sink in pipeline.sinks]
    problems = [Problem(sink.origin, f"sinks.{sink.name}", said) for sink, said in refused if said is not None]
    if problems:
        raise invalid(problems)


def _inspect(spark: "SparkSession", pipeline: Pipeline, plan: Plan) -> dict[str, Sequence[Row]]:
    steps = [step for step in pipeline.steps if isinstance(step, Inspect)]
    with reached(pipeline.source) as logs:
        return {step.name: step.inspection.rows(spark, logs, plan, **step.parameters) for step in steps}
