"""Publishes to two brokers in turn, from a process of its own: a round of requests to one, then one to the other.

`python -m benchmarks.tenants.load` reads a `Job` as JSON and prints the microseconds of processor time that each broker
spent on a request, and by how many percent the second one spent more. A broker is stopped while the requests of a round
are sent, so both get all of them at once: how many requests share a turn and a sync makes more difference than tenants.
"""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import uvloop

from benchmarks.broker.goqueue import LOAD_SECONDS_MAX, ROOT
from benchmarks.broker.load import Connection
from benchmarks.broker.request import frames_request, publish_request
from benchmarks.broker.server import processor_seconds

SETTLE_SECONDS = 0.002
"""For what a broker does after its last answer."""
WARM_ROUNDS = 20


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
    """Each has one request in a round."""
    rounds: int


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
    crowds = list[Crowd]()
    for one in targets:
        opened = [await Connection.open(one.port) for _ in range(job.connections)]
        crowds.append(Crowd(one.pid, opened, make(job.topic, job.batch, one.header)))
    found = list[list[float]]()
    for number in range(WARM_ROUNDS + job.rounds):
        order = crowds if number % 2 else crowds[::-1]
        spent = [await crowd.spent() for crowd in order]
        found.append(spent if number % 2 else spent[::-1])
    del found[:WARM_ROUNDS]
    middle = [statistics.median(times) for times in zip(*found, strict=True)]
    return *middle, 100 * statistics.median(second / first - 1 for first, second in found)


class Crowd:
    """The connections to one broker."""

    def __init__(self, pid: int, connections: list[Connection], request: bytes) -> None:
        self._pid = pid
        self._connections = connections
        self._request = request
        self._unanswered = 0
        self._done: asyncio.Future[None]

    async def spent(self) -> float:
        """Publish a round, and return the microseconds of processor time of a request."""
        self._done, self._unanswered = asyncio.get_running_loop().create_future(), len(self._connections)
        before = processor_seconds(self._pid)
        os.kill(self._pid, signal.SIGSTOP)
        try:
            for connection in self._connections:
                connection.on_answer, connection.on_failure = self._answered, self._failed
                connection.send(self._request)
        finally:
            os.kill(self._pid, signal.SIGCONT)
        await self._done
        await asyncio.sleep(SETTLE_SECONDS)
        return 1e6 * (processor_seconds(self._pid) - before) / len(self._connections)

    def _answered(self, _: Connection) -> None:
        self._unanswered -= 1
        if not self._unanswered and not self._done.done():
            self._done.set_result(None)

    def _failed(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)


def main() -> None:
    job, targets = json.loads(sys.stdin.read())
    print(json.dumps(uvloop.run(compare(Job(**job), [Target(**one) for one in targets]))))


if __name__ == "__main__":
    main()
