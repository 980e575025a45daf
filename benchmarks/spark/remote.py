"""The same questions to a broker at work and to the directory that it works in."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import GoQueue
from benchmarks.broker.server import LOOPBACK
from benchmarks.harness.suite import Bench, Figure, Sample, measurement
from benchmarks.spark import stage, stock
from benchmarks.spark.inspections import RATE, REPEATS, rate, summarised
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import TopicSelection, make_plan

if TYPE_CHECKING:
    from goqueue.spark.logs.port import LogSource

MESSAGES, MESSAGES_QUICK = 4_000_000, 200_000
BATCH = 10_000


def url(broker: GoQueue) -> str:
    return f"http://{LOOPBACK}:{broker.port}"


def publish(broker: GoQueue, count: int, *, topic: str = stock.TOPIC) -> None:
    """Orders, by one producer: the same ten thousand over and over."""
    keys, values = (column.to_pylist() for column in stock.columns(np.arange(BATCH), Random(1)))
    broker.create(topic, stock.PARTITIONS)
    broker.publish_bulk(topic, values, count // BATCH, keys)


@measurement(
    "inspect a broker at work, GoQueue",
    Figure(RATE, "summary over HTTP"),
    Figure(RATE, "summary of its directory"),
    Figure("times", "as long over HTTP", less_is_better=True),
    repeats=REPEATS,
)
def at_work(bench: Bench) -> Iterator[Sample]:
    broker, count = GoQueue(), bench.size(MESSAGES, MESSAGES_QUICK)
    place = bench.room()
    with running(broker, place), stage.spark(is_brief=True) as spark:
        publish(broker, count)
        both: tuple[LogSource, LogSource] = (BrokerLogs(url(broker)), DirectoryLogs.at(str(Path(place, "data"))))
        while True:
            plans = [(logs, make_plan(logs, TopicSelection((stock.TOPIC,)))) for logs in both]
            assert {plan.messages for _, plan in plans} == {count}, "both see all that was acknowledged"
            remote, local = (rate(summarised, spark, logs, plan) for logs, plan in plans)
            yield remote, local, local / remote
