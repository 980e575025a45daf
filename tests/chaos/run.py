"""One run: a cluster, clients, one fault after the other, and the verdict on all that was seen."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Self

from tests.chaos.http_client import HttpClient, Unanswered
from tests.chaos.nemeses import NEMESES, Nemesis, end_faults
from tests.chaos.nodes import ChaosCluster
from tests.chaos.replicas import compare_replicas
from tests.chaos.watch import ControllerWatch, until_agreed
from tests.chaos.workload import Surroundings, Workload
from tests.chaos.workloads import WORKLOADS

SETTINGS = ("--storage-segment-bytes", "64KiB", "--storage-scrub-interval", "1s", "--storage-scrub-rate", "100MiB")
RECOVERY_SECONDS = 60.0
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, and what it did to the cluster from its beginning until a while after its end."""

    nemesis: str
    chosen: tuple[str, ...]
    seconds: float
    without_controller: float
    unavailable: Mapping[str, float] = field(default_factory=dict)
    """By workload: the longest time in which something of it did not go on."""

    def __str__(self) -> str:
        gaps = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.unavailable.items())
        unavailable = f", nothing acknowledged for {gaps}" if gaps else ""
        return (
            f"{self.nemesis} of {', '.join(self.chosen) or 'links'} for {self.seconds:.2f} s:"
            f" no controller for {self.without_controller:.2f} s{unavailable}"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    problems: tuple[str, ...]
    counts: str
    """What the workloads did."""
    answers: Counter[str]

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        return "\n".join([*self.problems, self.counts])


class ChaosRun:
    """`with ChaosRun(...) as run:`, then `run.harm(...)` often, then `run.judge()`."""

    def __init__(
        self,
        path: Path,
        seed: str,
        *,
        count: int = 3,
        partitions: int = 3,
        has_devices: bool = False,
        workloads: tuple[str, ...] = ("log",),
    ) -> None:
        """Without workloads only controllers are watched."""
        self.seed = seed
        self.chance = Random(seed)
        self.faults: list[Fault] = []
        self.workloads: list[Workload] = []
        self.watch: ControllerWatch
        self._path, self._count, self._has_devices = path, count, has_devices
        self._partitions, self._names = partitions, workloads
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            cluster = ChaosCluster(self._path, self.seed, *SETTINGS, count=self._count, has_devices=self._has_devices)
            self.cluster = stack.enter_context(cluster)
            self.watch = ControllerWatch(cluster.addresses)
            self._running = [cluster.thread.start(self.watch.run())]
            self._await_controller()
            surroundings = Surroundings(cluster.addresses, self._path, self.seed, self._partitions)
            for name in self._names:
                workload = WORKLOADS[name](surroundings)
                stack.callback(workload.seen.close)
                self.workloads.append(workload)
                cluster.thread.run(workload.prepare())
            self._running += [cluster.thread.start(one.run()) for one in self.workloads]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _await_controller(self) -> None:
        addresses = self.cluster.addresses.values()
        self.cluster.thread.run(until_agreed(addresses, RECOVERY_SECONDS))

    def _leader(self) -> str | None:
        """Return a node that leads a partition, as clients know it."""
        urls = [url for one in self.workloads if (url := one.leader()) is not None]
        url = self.chance.choice(urls) if urls else None
        return next((name for name, address in self.cluster.addresses.items() if address == url), None)

    # --- faults ---

    def harm(self, name: str, seconds: float, calm: float) -> Fault:
        """Let something go wrong for a while, and wait until all works again, and a while longer."""
        targets = (lambda: self.watch.current, self._leader)
        nemesis: Nemesis = NEMESES[name](self.cluster, self.chance, targets, seconds=seconds)
        since = time.monotonic()
        nemesis.begin()
        self.wait(seconds)
        ended = time.monotonic()
        nemesis.end()
        self._await_works(time.monotonic())
        self.wait(calm)
        until = time.monotonic()
        unavailable = {one.name: one.gap(since, until) for one in self.workloads}
        gap = self.watch.available.longest(since, until)
        self.faults.append(Fault(name, tuple(nemesis.what) or nemesis.chosen, ended - since, gap, unavailable))
        self._check_clients()
        return self.faults[-1]

    def _await_works(self, since: float) -> None:
        """Wait until there is a controller, and all that clients do has gone on."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        while self.watch.available.at[-1:] <= [since] or not all(one.has_gone_on(since) for one in self.workloads):
            self._check_clients()
            assert time.monotonic() < deadline, f"{self}: nothing works after {RECOVERY_SECONDS:g} s: {self._story()}"
            self.wait(_PAUSE_SECONDS)

    def _story(self) -> str:
        answers = [f"{one.name}: {dict(one.answers)}" for one in self.workloads]
        return f"{[*self.cluster.nodes.values()]}, {[str(one) for one in self.faults[-3:]]}, {answers}"

    def _check_clients(self) -> None:
        for task in self._running:
            if task.done():
                task.result()

    def wait(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    # --- the end ---

    def judge(self) -> Verdict:
        """End all faults, let clients come to their end, and judge what was seen."""
        end_faults(self.cluster)
        self._await_controller()
        self._await_works(time.monotonic())
        for one in self.workloads:
            one.is_over = True
        for task in self._running[1:]:
            task.result(RECOVERY_SECONDS)
        problems, answers = [*self.watch.problems], Counter[str]()
        for one in self.workloads:
            self.cluster.thread.run(one.settle())
            problems += one.judge()
            answers += one.answers
        if self.workloads:
            self.cluster.thread.run(self._await_replicas())
            ends = {log: end for one in self.workloads for log, end in one.ends.items()}
            problems += compare_replicas(self.cluster, ends)
        counts = ", ".join(one.counts for one in self.workloads)
        return Verdict(tuple(problems), counts, answers)

    async def _await_replicas(self) -> None:
        """Wait until all replicas are in sync."""
        deadline, lacking = time.monotonic() + RECOVERY_SECONDS, [""]
        addresses = [*self.cluster.addresses.values()]
        with HttpClient() as client:
            while lacking:
                assert time.monotonic() < deadline, f"replicas are not in sync: {lacking}"
                await asyncio.sleep(_PAUSE_SECONDS)
                with suppress(Unanswered):
                    answer = await client.ask(self.chance.choice(addresses), "GET", "/cluster/metadata", seconds=5)
                    if answer.status == 200:
                        lacking = [
                            f"{topic['name']}: {one}"
                            for topic in answer.json["topics"]
                            for one in topic["partitions"]
                            if len(one["isr"]) < len(one["replicas"])
                        ]

    def __str__(self) -> str:
        return f"seed {self.seed} in {self._path}"
