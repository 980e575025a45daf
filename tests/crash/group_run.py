"""A run of real processes around one group: a broker, producers, consumers, and the test that kills and observes.

Whatever a process sees it writes into a file of its own; what the broker has to say in the end is added to that, and
the checker judges all of it.
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGSTOP
from typing import Any, Self

from goqueue.client import Client
from goqueue.errors import GroupNotFound, TopicNotFound
from goqueue.testing.history.check import check
from goqueue.testing.history.events import (
    EndEvent,
    Event,
    OwnedEvent,
    Recorder,
    RejectedEvent,
    SettledEvent,
    StoredEvent,
    read,
)
from goqueue.testing.history.report import HistoryReport
from tests.crash.group_watched import WatchedClient
from tests.crash.group_worker import Job, Watch, say
from tests.forked import Program
from tests.processes import ROOT, Served

TOPIC, GROUP = "t", "g"
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.05  # between two looks at the group
START_SECONDS = 0.4  # longer than a start takes: a kill within comes anywhere in it
PORTS = range(20_000, 32_000)  # none that the kernel gives to connecting clients: the broker comes back to its own


class WorkerProgress:
    """The count of progress lines of all processes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def add(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    @property
    def count(self) -> int:
        return self._count

    def has_come_to(self, count: int, seconds: float) -> bool:
        """Return whether they have said it so often, or do so within that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count >= count, seconds)


class WorkerProcess:
    """One process, which ends when its standard input does."""

    def __init__(self, kind: str, job: Job, progress: WorkerProgress) -> None:
        self.kind = kind
        self.job = job
        self._said = Path(f"{job.history}.stderr")
        with self._said.open("w") as said:
            self._process = Program(
                [sys.executable, "-m", f"tests.crash.{kind}", job.to_argument()],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
            )
        self._listener = threading.Thread(target=self._listen, args=(progress,), daemon=True)
        self._listener.start()

    def _listen(self, progress: WorkerProgress) -> None:
        assert self._process.stdout is not None
        for _ in self._process.stdout:
            progress.add()

    @property
    def failure(self) -> str | None:
        """Return how it ended before it was told to; None while it goes on."""
        code = self._process.poll()
        return None if code is None else f"{self.job.name} ended with {code}: {self._said.read_text()}"

    def check_alive(self) -> None:
        failure = self.failure
        assert failure is None, failure

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It does nothing meanwhile, and does not know that."""
        self._process.send_signal(SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(SIGCONT)

    def tell_to_end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def await_end(self) -> None:
        code = self._process.wait(PATIENCE_SECONDS)
        self.close()
        assert code == 0, f"{self.job.name} ended with {code}: {self._said.read_text()}"

    def close(self) -> None:
        """Kill it, if that is needed still."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class GroupRun:
    """One broker on one port, and all that goes on around it. At the end of its block no process is left."""

    topics: tuple[str, ...] = (TOPIC,)
    """What is read at the end."""
    skip_damage = False
    """Whether damaged messages are passed over at the end."""
    groups: tuple[str, ...] = (GROUP,)
    """Whose offsets are asked for at the end."""
    settings: tuple[str, ...] = ()
    """Of the broker, as `goqueue serve` takes them."""

    def __init__(self, path: Path, seed: str, partitions: int) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.progress = WorkerProgress()
        self.workers: list[WorkerProcess] = []
        self._path = path
        self._partitions = partitions
        self._port = _free_port(self.chance)
        self._lives: dict[str, int] = {}
        self._end = ExitStack()
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        with ExitStack() as end:
            self._seen = end.enter_context(Recorder(self._path / "observer.jsonl", "observer"))
            self.broker = self._start_broker()
            end.callback(self._close_broker)
            self._client = end.enter_context(Client(self.url))
            self._create_topics()
            self._end = end.pop_all()
        return self

    def _create_topics(self) -> None:
        self._client.create_topic(TOPIC, partitions=self._partitions)

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def _new_broker(self) -> Served:
        return Served("--data-dir", str(self._path / "data"), "--port", str(self._port), *self.settings)

    def _start_broker(self) -> Served:
        return self._new_broker().__enter__()

    def _close_broker(self) -> None:
        self.broker.__exit__()

    # --- processes ---

    def start(self, kind: str, name: str, **options: Any) -> WorkerProcess:
        """A process; one of a name that there was before is its next life."""
        return self._launch(kind, name, Job(self.url, TOPIC, **{"group": GROUP, **options}))

    def _launch(self, kind: str, name: str, job: Job) -> WorkerProcess:
        life = self._lives[name] = self._lives.get(name, 0) + 1
        full = f"{name}.{life}"
        history = str(self._path / f"{full}.jsonl")
        worker = WorkerProcess(
            kind, replace(job, name=full, history=history, seed=f"{self.seed} {full}"), self.progress
        )
        self._end.callback(worker.close)
        self.workers.append(worker)
        return worker

    def kill(self, worker: WorkerProcess) -> WorkerProcess:
        """Kill a process and start it once more."""
        worker.close()
        self.workers.remove(worker)
        return self._launch(worker.kind, worker.job.name.rpartition(".")[0], worker.job)

    def kill_broker(self) -> None:
        """Kill the broker, and now and then the next one while it starts; nothing is damaged by that."""
        self.broker.kill()
        if not self.chance.randrange(6):
            starting = self._new_broker().launch()
            with suppress(subprocess.TimeoutExpired):
                starting.process.wait(timeout=self.chance.uniform(0, START_SECONDS))
            starting.kill()
        self.broker = self._start_broker()
        assert not [line for line in self.broker.banner if line.startswith(("DAMAGE", "CLOSED"))]

    def pause_broker(self, seconds: float) -> None:
        """It is stopped for a while, and does not know that; whatever clients send waits for it."""
        self.broker.process.send_signal(SIGSTOP)
        try:
            threading.Event().wait(seconds)
        finally:
            self.broker.process.send_signal(SIGCONT)

    def restart_broker(self) -> None:
        code, said = self.broker.stop()
        assert code == 0, said
        self.broker = self._start_broker()

    def end(self, workers: list[WorkerProcess]) -> None:
        for worker in workers:
            worker.tell_to_end()
        for worker in workers:
            worker.await_end()
            self.workers.remove(worker)

    # --- looking ---

    def observe(self, group: str = GROUP) -> dict[str, Any] | None:
        """Return what the broker says of the group, also for the record; None before a client has joined it."""
        for worker in self.workers:
            worker.check_alive()
        try:
            described = self._client.group(group)
        except GroupNotFound:
            return None
        generation = described["generation"]
        self._seen.record(
            *(
                OwnedEvent(group, generation, member["member_id"], topic, int(number))
                for member in described["members"]
                for topic, _, number in (place.rpartition("-") for place in member["assigned_partitions"])
            )
        )
        return described

    def go_on(self, count: int) -> None:
        """Look at the group until the processes got on so often."""
        end, deadline = self.progress.count + count, time.monotonic() + PATIENCE_SECONDS
        while not self.progress.has_come_to(end, LOOK_SECONDS):
            assert time.monotonic() < deadline, f"no process makes progress: {self.observe()}"
            self.observe()

    def await_that(self, what: str, reached: Callable[[dict[str, Any]], bool]) -> None:
        """Look at the group until it is so."""
        self._await(what, lambda: (described := self.observe()) is not None and reached(described))

    def _await(self, what: str, reached: Callable[[], bool]) -> None:
        deadline, looking = time.monotonic() + PATIENCE_SECONDS, threading.Event()
        while not reached():
            assert time.monotonic() < deadline, f"not {what}: {self.observe()}, {self._client.transactions()}"
            looking.wait(LOOK_SECONDS)

    def await_delayed(self) -> None:
        """Wait until no message is delayed any more."""
        self._await("delivered", lambda: not self._client.delay_stats()["pending_count"])

    def drain(self, group: str = GROUP, **options: Any) -> None:
        """A last member takes what is left, until it has been idle for a while and nothing is."""
        self.await_delayed()
        watch = Watch(self._seen, group)
        job = Job(self.url, TOPIC, group)
        deadline = time.monotonic() + PATIENCE_SECONDS
        with WatchedClient(self.url) as client:
            consumer = client.watched(watch, group, [TOPIC], client_id="last", until_idle=0.2, **options)
            with consumer:
                while True:
                    for batch in consumer.batches():
                        watch.received(consumer, batch)
                        say(batch, job, self.chance, watch)
                        watch.answered()
                    described = self.observe(group)
                    if described is not None and not described["total_lag"]:
                        break
                    assert time.monotonic() < deadline, f"it cannot be drained: {described}"
            watch.left()

    def judge(self, *, in_order: bool = True) -> tuple[list[Event], HistoryReport]:
        """As `examine`, print the report, and fail for any violation in it."""
        events, report = self.examine(in_order=in_order)
        sys.stdout.write(f"{self}: {report}\n")  # which is seen when the test fails, or with -s
        assert report.ok, str(report)
        return events, report

    def examine(self, *, in_order: bool = True) -> tuple[list[Event], HistoryReport]:
        """Write down what the broker has in the end, and hold all that was seen against each other."""
        for topic in self.topics:
            self._record_log(topic)
        self._record_dead_letters()
        for group in self.groups:
            self._record_offsets(group)
        events = self._events()
        return events, check(events, in_order=in_order)

    def _events(self) -> list[Event]:
        return read(sorted(self._path.glob("*.jsonl")))

    def __str__(self) -> str:
        return f"seed {self.seed}, {sum(self._lives.values())} processes"

    def _record_log(self, topic: str) -> None:
        with self._client.reader(topic, start="earliest", until="now", skip_damage=self.skip_damage) as reader:
            for messages in reader.batches():
                self._seen.record(
                    *(
                        StoredEvent(topic, message.partition, message.offset, (message.value or b"").decode())
                        for message in messages
                    )
                )
            self._seen.record(*(EndEvent(topic, partition, end) for partition, end in reader.positions.items()))

    def _record_offsets(self, group: str) -> None:
        try:
            offsets = self._client.group_offsets(group)[TOPIC]
        except GroupNotFound:  # no client has consumed anything
            return
        self._seen.record(*(SettledEvent(group, TOPIC, partition, floor) for partition, floor in offsets.items()))

    def _record_dead_letters(self) -> None:
        try:
            reader = self._client.reader(f"{TOPIC}.dlq", start="earliest", until="now")
        except TopicNotFound:
            return
        places: set[tuple[str, str, int, int]] = set()
        for message in reader:
            headers = dict(message.headers)
            topic, group = headers["dlq.topic"].decode(), headers["dlq.group"].decode()
            partition, offset = int(headers["dlq.partition"]), int(headers["dlq.offset"])
            place = group, topic, partition, offset
            assert place not in places, f"{topic}/{partition}/{offset} has two dead letters of {group}"
            places.add(place)
            self._seen.record(RejectedEvent(group, "the dead letters", topic, partition, offset, offset + 1))


def _free_port(chance: Random) -> int:
    while True:
        port = chance.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
