"""Duration of rebalances, and their effect on members that keep their partitions."""

import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import GROUP_LOAD, OURS, GoQueue, said_by
from benchmarks.broker.paced import ask_paced
from benchmarks.broker.rows import REPEATS, VALUE_BYTES
from benchmarks.groups import wire
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement

MEMBERS = 8
PARTITIONS = 16
BUDGET = at_most(100)
CHANGES = ("join", "leave", "crash")
RATE = 1_000
"""Messages a second for each partition."""
REQUESTS = 200
"""A second, each with messages for all partitions."""
AROUND_SECONDS = 8
"""What the generator needs before and after."""


def _figures() -> Iterator[Figure]:
    for change in CHANGES:
        yield Figure("ms", f"{change}, half within", less_is_better=True)
        yield Figure("ms", f"{change}, the longest", budget=BUDGET, less_is_better=True)


@measurement(f"rebalance {MEMBERS} members, {OURS}", *_figures(), repeats=REPEATS)
def rounds(bench: Bench) -> Iterator[Sample]:
    """From the request that joins or leaves, or from when the broker sees that a session has ended, until every member
    has been told of the last partition that is its own."""
    broker, count = GoQueue(), bench.size(12, 3)
    with running(broker, bench.room()):
        number = 0
        while True:
            topic, number = f"rounds-{number}", number + 1
            broker.create(topic, PARTITIONS)
            found = said_by(GROUP_LOAD, "rounds", broker.port, topic, PARTITIONS, MEMBERS, count)
            yield tuple(pick(found[change]) * 1000 for change in CHANGES for pick in (statistics.median, max))


@measurement(
    f"deliveries at {RATE:,}/s a partition, {MEMBERS} members, {OURS}",
    Figure("times as long", "999 of 1,000 gaps, rebalancing and not", budget=at_most(2), less_is_better=True),
    Figure("ms", "999 of 1,000 gaps, not", less_is_better=True),
    Figure("ms", "999 of 1,000 gaps, rebalancing", less_is_better=True),
    Figure("ms", "longest gap, not", less_is_better=True),
    Figure("ms", "longest gap, rebalancing", less_is_better=True),
    Figure("ms", "longest gap of what moves", less_is_better=True),
    Figure("ms", "slowest rebalance", less_is_better=True),
    Figure("rebalances", "meanwhile"),
    Figure("messages/s", "delivered"),
    repeats=REPEATS,
)
def gaps(bench: Bench) -> Iterator[Sample]:
    """One member joins and leaves again and again, while the others are handed messages. A gap is the time between two
    deliveries of a partition to a member that keeps it meanwhile."""
    broker, seconds = GoQueue(), bench.size(10, 3)
    with running(broker, bench.room()):
        number = 0
        while True:
            topic, number = f"gaps-{number}", number + 1
            broker.create(topic, PARTITIONS)
            with _publishing(broker.port, topic, 2 * seconds + AROUND_SECONDS):
                found = said_by(GROUP_LOAD, "gaps", broker.port, topic, PARTITIONS, MEMBERS, seconds)
            alone, during = found["without"], found["with"]
            yield (
                during["most"] / alone["most"],
                alone["most"] * 1000,
                during["most"] * 1000,
                alone["longest"] * 1000,
                during["longest"] * 1000,
                during["moved"] * 1000,
                during["slowest"] * 1000,
                during["rebalances"],
                during["rate"],
            )


@contextmanager
def _publishing(port: int, topic: str, seconds: float) -> Iterator[None]:
    """The same to all partitions, all the time. When something else fails first, this ends with the broker."""
    value = "x" * VALUE_BYTES
    messages = [{"value": value, "partition": number} for number in range(PARTITIONS) for _ in range(RATE // REQUESTS)]
    request = wire.post(f"/topics/{topic}/messages", {"messages": messages})
    failures: list[Exception] = []

    def publish() -> None:
        try:
            ask_paced(port, request, REQUESTS, seconds)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    yield
    thread.join()
    if failures:
        raise failures[0]
