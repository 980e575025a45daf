"""Cost of members that only send heartbeats."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import GROUP_LOAD, OURS, ROOT, GoQueue
from benchmarks.broker.rows import REPEATS
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement

MB = 1e6
GROUPS = 1_000
MEMBERS = 10
CONNECTIONS = 64
TOPIC = "idle"


@measurement(
    f"{GROUPS:,} groups with {GROUPS * MEMBERS:,} idle members, {OURS}",
    Figure("MB", "memory gained", budget=at_most(200), less_is_better=True, is_total=True),
    Figure("% of a core", "the broker's share", budget=at_most(15), less_is_better=True, is_total=True),
    Figure("heartbeats/s", "answered"),
    Figure("ms", "99 of 100 within", less_is_better=True),
    Figure("members/s", "joining"),
    repeats=REPEATS,
)
def crowd(bench: Bench) -> Iterator[Sample]:
    """A heartbeat of each in three seconds, over a few connections; its time counts from when it is due."""
    broker, groups, seconds = GoQueue(), bench.size(GROUPS, GROUPS // 10), bench.size(15, 5)
    with running(broker, bench.room()):
        broker.create(TOPIC, MEMBERS)
        before = broker.server.memory()
        with _attending(broker.port, groups) as (joined, heard):
            heard()
            while True:
                spent = broker.server.processor_seconds()
                begin = time.perf_counter()
                time.sleep(seconds)
                share = (broker.server.processor_seconds() - spent) / (time.perf_counter() - begin)
                beats = heard()
                gained = broker.server.memory() - before
                yield gained / MB, share * 100, beats["rate"], beats["most"], groups * MEMBERS / joined


@contextmanager
def _attending(port: int, groups: int) -> Iterator[tuple[float, Callable[[], Any]]]:
    """The members at it: in how many seconds they joined, and what tells of their heartbeats since the last call."""
    arguments = map(str, (port, TOPIC, groups, MEMBERS, CONNECTIONS))
    command = [sys.executable, "-m", GROUP_LOAD, "crowd", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        told, asking = child.stdout, child.stdin

        def heard() -> Any:
            asking.write("\n")
            asking.flush()
            return _line(told.readline())

        try:
            joined = _line(told.readline())["seconds"]
            time.sleep(1)
            yield joined, heard
        finally:
            child.kill()


def _line(said: str) -> Any:
    if not said:
        raise RuntimeError("the members have ended")
    return json.loads(said)
