"""A run of real processes around transactions: a broker, those who feed, transform and write, readers, and a killer."""

from functools import partial
from pathlib import Path
from typing import Any

from goqueue.errors import ProducerNotFound
from goqueue.testing.history.events import Isolation, PublishedEvent, PublishSentEvent
from tests.crash.group_run import TOPIC, GroupRun, WorkerProcess
from tests.crash.transaction_worker import OUTPUTS, end_of

BEGUN = b'"event":"begun"'
COMMITTED = b'"event":"committed"'
ABORTED = b'"event":"aborted"'
OPEN = {"ongoing", "prepare_commit", "prepare_abort"}


class TransactionRun(GroupRun):
    """A group's run, whose consumers transform what they get into further topics, in transactions."""

    topics = (TOPIC, *OUTPUTS)

    def __init__(self, path: Path, seed: str, partitions: int) -> None:
        super().__init__(path, seed, partitions)
        self._readers: list[WorkerProcess] = []
        self._zombies: list[WorkerProcess] = []

    def _create_topics(self) -> None:
        super()._create_topics()
        for topic, partitions in OUTPUTS.items():
            self._client.create_topic(topic, partitions=partitions)

    def write(self, name: str, kind: str = "transaction_writer", **options: Any) -> WorkerProcess:
        """A producer with transactions, which has its name as transactional id."""
        return self.start(kind, name, transactional_id=name, **options)

    def read(self, isolation: Isolation, **options: Any) -> None:
        """From the beginning; a reader is never killed, but its broker is."""
        self._readers.append(self.start("transaction_reader", isolation, isolation=isolation, **options))

    # --- what goes wrong ---

    def let_time_out(self, worker: WorkerProcess) -> None:
        """It is stopped until the broker has aborted what it has open, if it has, and goes on then."""
        with worker.stopped():
            self._await("timed out", lambda: self._state(worker)["state"] not in OPEN)

    def replace(self, worker: WorkerProcess) -> None:
        """It is stopped, another one takes over its transactional id, and then it goes on; it had that id before."""
        self.workers.remove(worker)
        self._zombies.append(worker)
        with worker.stopped():
            before = self._epoch(worker)
            self._launch(worker.kind, worker.job.name.rpartition(".")[0], worker.job)
            self._await("replaced", lambda: self._epoch(worker) != before)

    def await_outcomes(self) -> None:
        """Wait until workers that are still there have committed and aborted: few may have, between disturbances."""
        for outcome in (COMMITTED, ABORTED):
            self._await(str(outcome), partial(self._is_noted, outcome))

    def _is_noted(self, event: bytes) -> bool:
        return any(self._has_noted(worker, event) for worker in self.workers)

    def has_begun(self, worker: WorkerProcess) -> bool:
        """Return whether it has had its transactional id for a while."""
        return self._has_noted(worker, BEGUN)

    def _has_noted(self, worker: WorkerProcess, event: bytes) -> bool:
        history = Path(worker.job.history)
        return history.exists() and event in history.read_bytes()

    def _epoch(self, worker: WorkerProcess) -> tuple[int, int]:
        state = self._state(worker)
        return state["producer_id"], state["epoch"]

    def _state(self, worker: WorkerProcess) -> dict[str, Any]:
        try:
            return self._client.transaction(worker.job.transactional_id)
        except ProducerNotFound:  # it has not come so far
            return {"state": "empty", "producer_id": -1, "epoch": -1}

    # --- the end ---

    def finish(self) -> None:
        """Once writers have ended: abort what is open, deliver what is delayed, and let readers reach the end."""
        for zombie in self._zombies:
            zombie.tell_to_end()
            zombie.await_end()
        self._await("over", lambda: not self._client.transactions())
        self.await_delayed()
        with self._client.producer() as producer:
            for topic, partitions in OUTPUTS.items():
                for partition in range(partitions):
                    value = end_of(topic, partition)
                    self._seen.record(PublishSentEvent("observer", topic, "", value))
                    receipt = producer.send(topic, value, partition=partition).result()
                    assert receipt.offset is not None
                    self._seen.record(PublishedEvent(value, topic, partition, receipt.offset))
        for reader in self._readers:
            reader.await_end()
            self.workers.remove(reader)
