"""Publishes to two brokers in turn, from a process of its own: some requests to one, then some to the other.

`python -m benchmarks.tenants.load` reads a `Job` as JSON and prints the microseconds of processor time that each broker
spent on a request, and by how many percent the second one spent more. Slices are short, so that whatever else slows
the machine down is in both.
"""

import asyncio
import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import uvloop

from benchmarks.broker.goqueue import LOAD_SECONDS_MAX, ROOT
from benchmarks.broker.load import Connection, Crowd
from benchmarks.broker.request import frames_request, publish_request
from benchmarks.broker.server import processor_seconds

SETTLE_SECONDS = 0.02
"""For what a broker does after its last answer."""


@dataclass(frozen=True, slots=True)
class Target:
    """One of the brokers."""

    port: int
    pid: int
    header: str
    """A further header of its requests."""


@dataclass(frozen=True, slots=True)
class Job:
    topic: str
    batch: int
    """One message is sent as JSON, more as frames."""
    connections: int
    slices: int
    count: int
    """Requests in a slice."""


def measure(job: Job, targets: Sequence[Target]) -> tuple[float, float, float]:
    """Do a job in a process of its own."""
    command = [sys.executable, "-m", __name__]
    told = json.dumps([asdict(job), [asdict(one) for one in targets]])
    done = subprocess.run(
        command, cwd=ROOT, input=told, capture_output=True, text=True, timeout=LOAD_SECONDS_MAX, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    first, second, more = json.loads(done.stdout)
    return first, second, more


async def compare(job: Job, targets: Sequence[Target]) -> tuple[float, ...]:
    """Publish to both targets in turn."""
    make = publish_request if job.batch == 1 else frames_request
    crowds: list[tuple[int, list[Connection], bytes]] = []
    for one in targets:
        opened = [await Connection.open(one.port) for _ in range(job.connections)]
        crowds.append((one.pid, opened, make(job.topic, job.batch, one.header)))
        await _spent(*crowds[-1], job.count)
    rounds: list[list[float]] = []
    for number in range(job.slices):
        order = crowds if number % 2 else crowds[::-1]
        spent = [await _spent(*crowd, job.count) for crowd in order]
        rounds.append(spent if number % 2 else spent[::-1])
    found = [statistics.median(times) for times in zip(*rounds, strict=True)]
    return *found, 100 * statistics.median(second / first - 1 for first, second in rounds)


async def _spent(pid: int, opened: list[Connection], request: bytes, count: int) -> float:
    """Publish a slice, and return the microseconds of processor time of a request."""
    before = processor_seconds(pid)
    await Crowd(opened, itertools.repeat(request), count).run()
    await asyncio.sleep(SETTLE_SECONDS)
    return 1e6 * (processor_seconds(pid) - before) / count


def main() -> None:
    job, targets = json.loads(sys.stdin.read())
    print(json.dumps(uvloop.run(compare(Job(**job), [Target(**one) for one in targets]))))


if __name__ == "__main__":
    main()
