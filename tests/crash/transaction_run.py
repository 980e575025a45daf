"""A run of real processes around transactions: a broker, those who feed, transform and write, readers, and a killer."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from goqueue.errors import ProducerNotFound
from goqueue.testing.history import Isolation, Published, Publishing
from tests.crash.group_run import LOOK_SECONDS, PATIENCE_SECONDS, TOPIC, GroupRun, Worker
from tests.crash.transaction_worker import OUTPUTS, end_of

BEGUN = b'"event":"begun"'
OPEN = {"ongoing", "prepare_commit", "prepare_abort"}


class TransactionRun(GroupRun):
    """A group's run, whose consumers transform what they get into further topics, in transactions."""

    topics = (TOPIC, *OUTPUTS)

    def __enter__(self) -> Self:
        super().__enter__()
        for topic, partitions in OUTPUTS.items():
            self._client.create_topic(topic, partitions=partitions)
        self._readers: list[Worker] = []
        self._zombies: list[Worker] = []
        return self

    def write(self, name: str, kind: str = "transaction_writer", **wishes: Any) -> Worker:
        """A producer with transactions, which has its name as transactional id."""
        return self.start(kind, name, transactional_id=name, **wishes)

    def read(self, isolation: Isolation, **wishes: Any) -> None:
        """From the beginning; a reader is never killed, but its broker is."""
        self._readers.append(self.start("transaction_reader", isolation, isolation=isolation, **wishes))

    # --- what goes wrong ---

    def go_on(self, count: int) -> None:
        """Until the processes got on so often."""
        end, deadline = self.progress.count + count, time.monotonic() + PATIENCE_SECONDS
        while not self.progress.has_come_to(end, LOOK_SECONDS):
            assert time.monotonic() < deadline, "nobody gets on"
            for worker in self.workers:
                worker.check_alive()

    def let_time_out(self, worker: Worker) -> None:
        """It is stopped until the broker has aborted what it has open, if it has, and goes on then."""
        with worker.stopped():
            self._await("timed out", lambda: self._state(worker)["state"] not in OPEN)

    def replace(self, worker: Worker) -> None:
        """It is stopped, another one takes over its transactional id, and then it goes on; it had that id before."""
        self.workers.remove(worker)
        self._zombies.append(worker)
        with worker.stopped():
            before = self._epoch(worker)
            self._launch(worker.kind, worker.job.name.rpartition(".")[0], worker.job)
            self._await("replaced", lambda: self._epoch(worker) != before)

    def has_begun(self, worker: Worker) -> bool:
        """Whether it has had its transactional id for a while. Who asks for it after its successor takes it over."""
        history = Path(worker.job.history)
        return history.exists() and BEGUN in history.read_bytes()

    def _epoch(self, worker: Worker) -> tuple[int, int]:
        state = self._state(worker)
        return state["producer_id"], state["epoch"]

    def _state(self, worker: Worker) -> dict[str, Any]:
        try:
            return self._client.transaction(worker.job.transactional_id)
        except ProducerNotFound:  # it has not come so far
            return {"state": "empty", "producer_id": -1, "epoch": -1}

    def _await(self, what: str, reached: Callable[[], bool]) -> None:
        deadline, looking = time.monotonic() + PATIENCE_SECONDS, threading.Event()
        while not reached():
            assert time.monotonic() < deadline, f"not {what}: {self._client.transactions()}"
            looking.wait(LOOK_SECONDS)

    # --- the end ---

    def finish(self) -> None:
        """Whoever wrote has ended: what is open is aborted, what is delayed comes, and readers come to the end."""
        for zombie in self._zombies:
            zombie.tell_to_end()
            zombie.await_end()
        self._await("over", lambda: not self._client.transactions())
        self._await("delivered", lambda: not self._client.delay_stats()["pending_count"])
        with self._client.producer() as producer:
            for topic, partitions in OUTPUTS.items():
                for partition in range(partitions):
                    value = end_of(topic, partition)
                    self._seen.record(Publishing("observer", topic, "", value))
                    receipt = producer.send(topic, value, partition=partition).result()
                    assert receipt.offset is not None
                    self._seen.record(Published(value, topic, partition, receipt.offset))
        for reader in self._readers:
            reader.await_end()
            self.workers.remove(reader)
