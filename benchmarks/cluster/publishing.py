"""Publishes that three replicas have before they are answered, beside publishes to one broker.

The processor's time for a message says what replication costs where four processes share few cores.
"""

from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.broker.rows import BATCH, RATE, values
from benchmarks.cluster.nodes import TOPIC, Node, broker_alone, leader_of_cluster
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, at_most, measurement
from benchmarks.storage.stock import Stopwatch

WAITERS = 64
REPEATS = 3
LEADER = Figure("us of processor a message", "leader", less_is_better=True)
FOLLOWERS = Figure("us of processor a message", "both followers", less_is_better=True)
ALONE = Figure("us of processor a message", "one broker alone", less_is_better=True)


@measurement(
    "publish in bulk, 3 replicas",
    Figure(RATE, budget=at_least(250_000)),
    LEADER,
    FOLLOWERS,
    Figure(RATE, "one broker alone"),
    ALONE,
    repeats=REPEATS,
)
def bulk(bench: Bench) -> Iterator[Sample]:
    """One producer that has all its messages at hand."""
    batch, times = values(bench), bench.size(100, 20)
    with ExitStack() as stack:
        alone = stack.enter_context(broker_alone(bench))
        leader = stack.enter_context(leader_of_cluster(bench))
        for node in (alone, leader):
            node.publish_bulk(TOPIC, batch, 2)
        while True:
            rate, own, others = _bulk(leader, batch, times)
            single, cost, _ = _bulk(alone, batch, times)
            yield rate, own, others, single, cost


def _bulk(node: Node, batch: list[bytes], times: int) -> tuple[float, float, float]:
    """Publish; return messages a second and the microseconds of a message at the leader and at its followers."""
    before, watch, count = node.processor_seconds(), Stopwatch(), times * BATCH
    node.publish_bulk(TOPIC, batch, times)
    seconds, after = watch.seconds(), node.processor_seconds()
    own, others = (1e6 * (late - early) / count for early, late in zip(before, after, strict=True))
    return count / seconds, own, others


@measurement(
    f"publish 1 each from {WAITERS}, 3 replicas",
    Figure(RATE, budget=at_least(6_000)),
    Figure("ms", "99 of 100 within", less_is_better=True),
    LEADER,
    FOLLOWERS,
    Figure(RATE, "one broker alone"),
    ALONE,
    repeats=REPEATS,
)
def single(bench: Bench) -> Iterator[Sample]:
    """Producers that each wait for the answer before they go on: plain HTTP with JSON."""
    count = bench.size(30_000, 6_000)
    with ExitStack() as stack:
        alone = stack.enter_context(broker_alone(bench))
        leader = stack.enter_context(leader_of_cluster(bench))
        while True:
            rate, most, own, others = _single(leader, count)
            other, _, cost, _ = _single(alone, count)
            yield rate, most, own, others, other, cost


def _single(node: Node, count: int) -> tuple[float, float, float, float]:
    before = node.processor_seconds()
    found = node.publish_json(TOPIC, 1, count, WAITERS)
    own, others = (1e6 * (late - early) / count for early, late in zip(before, node.processor_seconds(), strict=True))
    return found.rate, found.most, own, others


@measurement(
    "publish 1 each from 1, 3 replicas",
    Figure("ms", "half within", less_is_better=True),
    Figure("times", "of one broker alone", budget=at_most(2), less_is_better=True),
    Figure("ms", "99 of 100 within", less_is_better=True),
    repeats=REPEATS,
)
def alternating(bench: Bench) -> Iterator[Sample]:
    """One producer that waits for each answer."""
    count = bench.size(3_000, 500)
    with ExitStack() as stack:
        alone = stack.enter_context(broker_alone(bench))
        leader = stack.enter_context(leader_of_cluster(bench))
        while True:
            replicated = leader.publish_json(TOPIC, 1, count, 1)
            single_broker = alone.publish_json(TOPIC, 1, count, 1)
            yield replicated.half, replicated.half / single_broker.half, replicated.most
