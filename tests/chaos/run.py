"""One run: a cluster, clients, one fault after the other, and the verdict on all that was seen."""

import asyncio
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Self

from goqueue.testing.history.check import check
from goqueue.testing.history.events import EndEvent, Recorder, StoredEvent, read
from goqueue.testing.history.report import HistoryReport
from tests.chaos.http_client import HttpClient, Unanswered
from tests.chaos.nemeses import NEMESES, Nemesis, end_faults
from tests.chaos.nodes import ChaosCluster
from tests.chaos.replicas import compare_replicas
from tests.chaos.watch import ControllerWatch, until_agreed
from tests.chaos.workload import TOPIC, Load, value_of

SETTINGS = ("--storage-segment-bytes", "64KiB")
RECOVERY_SECONDS = 30.0
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, and what it did to the cluster from its beginning until a while after its end."""

    nemesis: str
    chosen: tuple[str, ...]
    seconds: float
    without_controller: float
    unavailable: float | None
    """The longest time in which some partition acknowledged nothing."""

    def __str__(self) -> str:
        unavailable = "" if self.unavailable is None else f", nothing acknowledged for {self.unavailable:.2f} s"
        return (
            f"{self.nemesis} of {', '.join(self.chosen) or 'links'} for {self.seconds:.2f} s:"
            f" no controller for {self.without_controller:.2f} s{unavailable}"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    report: HistoryReport | None
    problems: tuple[str, ...]
    answers: Counter[str]

    @property
    def ok(self) -> bool:
        return not self.problems and (self.report is None or self.report.ok)

    def __str__(self) -> str:
        return "\n".join([*self.problems, *([] if self.report is None else [str(self.report)])])


class ChaosRun:
    """`with ChaosRun(...) as run:`, then `run.harm(...)` often, then `run.judge()`."""

    def __init__(
        self, path: Path, seed: str, *, count: int = 3, partitions: int = 3, has_devices: bool = False
    ) -> None:
        """Without partitions there are no clients, and only controllers are watched."""
        self.seed = seed
        self.chance = Random(seed)
        self.faults: list[Fault] = []
        self.load: Load | None = None
        self.watch: ControllerWatch
        self._path, self._count, self._partitions, self._has_devices = path, count, partitions, has_devices
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._seen = stack.enter_context(Recorder(self._path / "history.jsonl", "clients"))
            cluster = ChaosCluster(self._path, self.seed, *SETTINGS, count=self._count, has_devices=self._has_devices)
            self.cluster = stack.enter_context(cluster)
            self.watch = ControllerWatch(cluster.addresses)
            self._watching = cluster.thread.start(self.watch.run())
            self._await_controller()
            if self._partitions:
                self.load = Load(cluster.addresses, self._seen, self.seed, self._partitions)
                cluster.thread.run(self.load.create_topic(**({} if self._count == 1 else {"replication_factor": 3})))
                self._loading = cluster.thread.start(self.load.run())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _await_controller(self) -> None:
        addresses = self.cluster.addresses.values()
        self.cluster.thread.run(until_agreed(addresses, RECOVERY_SECONDS))

    def _leader(self) -> str | None:
        """Return a node that leads a partition, as clients know it."""
        if self.load is None:
            return None
        url = self.load.routes.leader(self.chance.randrange(self._partitions))
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
        unavailable = None if self.load is None else self.load.gap(since, until)
        gap = self.watch.available.longest(since, until)
        self.faults.append(Fault(name, nemesis.chosen, ended - since, gap, unavailable))
        self._check_clients()
        return self.faults[-1]

    def _await_works(self, since: float) -> None:
        """Wait until there is a controller, and each partition has acknowledged something."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        while self.watch.available.at[-1:] <= [since] or (
            self.load is not None and any(gaps.at[-1:] <= [since] for gaps in self.load.acknowledged.values())
        ):
            self._check_clients()
            assert time.monotonic() < deadline, f"{self}: nothing works after {RECOVERY_SECONDS:g} s: {self._story()}"
            self.wait(_PAUSE_SECONDS)

    def _story(self) -> str:
        answers = "" if self.load is None else f"; answers {dict(self.load.answers)}"
        return f"{[*self.cluster.nodes.values()]}, {[str(one) for one in self.faults[-3:]]}{answers}"

    def _check_clients(self) -> None:
        for task in (self._watching, *([] if self.load is None else [self._loading])):
            if task.done():
                task.result()

    def wait(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    # --- the end ---

    def judge(self) -> Verdict:
        """End all faults, let clients come to their end, and judge what was seen."""
        end_faults(self.cluster)
        self._await_controller()
        problems = [*self.watch.problems]
        if self.load is None:
            return Verdict(None, tuple(problems), Counter())
        self._await_works(time.monotonic())
        self.load.is_over = True
        self._loading.result(RECOVERY_SECONDS)
        ends = self.cluster.thread.run(self._read_all(self.load))
        self.cluster.thread.run(self._await_replicas(self.load))
        problems += self.load.problems
        problems += compare_replicas(self.cluster, self._partitions, ends)
        events = read([self._path / "history.jsonl"])
        problems += _disorder(events)
        return Verdict(check(events), tuple(problems), self.load.answers)

    async def _await_replicas(self, load: Load) -> None:
        """Wait until all replicas are in sync."""
        deadline, lacking = time.monotonic() + RECOVERY_SECONDS, [""]
        with HttpClient() as client:
            while lacking:
                assert time.monotonic() < deadline, f"replicas are not in sync: {lacking}"
                await asyncio.sleep(_PAUSE_SECONDS)
                with suppress(Unanswered):
                    path = f"/cluster/metadata?topic={TOPIC}"
                    answer = await client.ask(load.routes.any(), "GET", path, seconds=5)
                    if answer.status == 200:
                        (topic,) = answer.json["topics"]
                        lacking = [str(one) for one in topic["partitions"] if len(one["isr"]) < len(one["replicas"])]

    async def _read_all(self, load: Load) -> dict[int, int]:
        """Read each partition from its beginning to the end, and let the readers come to it."""
        with HttpClient() as client:
            ends = {number: await self._read_partition(client, load, number) for number in range(self._partitions)}
        for reader in load.readers:
            await reader.read_to(ends[reader.partition], RECOVERY_SECONDS)
        return ends

    async def _read_partition(self, client: HttpClient, load: Load, partition: int) -> int:
        """Record what it has; return its end."""
        offset, deadline = 0, time.monotonic() + RECOVERY_SECONDS
        while True:
            assert time.monotonic() < deadline, f"partition {partition} cannot be read to its end"
            body = await self._read(client, load, partition, offset)
            if body is None:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._seen.record(
                *(StoredEvent(TOPIC, partition, one["offset"], value_of(one)) for one in body["messages"])
            )
            if body["next_offset"] == offset:
                self._seen.record(EndEvent(TOPIC, partition, offset))
                return offset
            offset = body["next_offset"]

    async def _read(self, client: HttpClient, load: Load, partition: int, offset: int) -> dict[str, Any] | None:
        url = load.routes.leader(partition)
        path = f"/topics/{TOPIC}/partitions/{partition}/messages?offset={offset}&limit=1000"
        try:
            answer = await client.ask(url, "GET", path, seconds=5)
        except Unanswered:
            load.routes.forget(partition, url)
            return None
        if answer.status == 421:
            load.routes.learn(partition, answer)
            return None
        if answer.status != 200:
            load.routes.forget(partition, url)
            return None
        body: dict[str, Any] = answer.json
        return body

    def __str__(self) -> str:
        return f"seed {self.seed} in {self._path}"


def _disorder(events: list[Any]) -> list[str]:
    """A writer that repeats batches has all its messages in order."""
    last: dict[tuple[str, int], int] = {}
    problems = []
    stored = (one for one in events if isinstance(one, StoredEvent))
    for event in sorted(stored, key=lambda one: (one.partition, one.offset)):
        writer, _, number = event.value_id.rpartition("-")
        if not writer.startswith("marked"):
            continue
        key = writer, event.partition
        if int(number) <= last.get(key, 0):
            problems.append(f"{event.value_id} stands behind {writer}-{last[key]} in partition {event.partition}")
        last[key] = int(number)
    return problems
