"""Latency of a normal client beside many that never finish their requests."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, ROOT, GoQueue
from benchmarks.broker.paced import publish_paced
from benchmarks.broker.rows import REPEATS
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement

SLOW = 1_000
CROWD = "benchmarks.broker.slow"
RATE = 200


@measurement(
    f"publish 1 each at {RATE}/s beside {SLOW:,} slow connections, {OURS}",
    Figure("times as long", "99 of 100, with and without", budget=at_most(2), less_is_better=True),
    Figure("ms", "99 of 100 within, without", less_is_better=True),
    Figure("ms", "99 of 100 within, with", less_is_better=True),
    Figure("ms", "half within, without", less_is_better=True),
    Figure("ms", "half within, with", less_is_better=True),
    repeats=REPEATS,
)
def beside_slow_ones(bench: Bench) -> Iterator[Sample]:
    broker, seconds = GoQueue(), bench.size(10, 3)
    with running(broker, bench.room()) as topics:
        topic = next(topics)
        publish_paced(broker.port, topic, RATE, 1)
        while True:
            alone = publish_paced(broker.port, topic, RATE, seconds)
            with _slow_connections(broker.port, SLOW):
                beside = publish_paced(broker.port, topic, RATE, seconds)
            yield beside.most / alone.most, alone.most, beside.most, alone.half, beside.half


@contextmanager
def _slow_connections(port: int, count: int) -> Iterator[None]:
    """So many of them while the body runs."""
    command = [sys.executable, "-m", CROWD, str(port), str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            if child.stdout.readline().strip() != "ready":
                raise RuntimeError("the slow connections could not be opened")
            yield
        finally:
            child.kill()
