"""A broker without threads and what its shell does for transactions, in few words for tests."""

from collections.abc import Sequence
from typing import Any, TypeVar

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.producer_checkpoint import load_producers
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.work import Promise, Work, run_work
from goqueue.broker.transactions.records import EndedTransaction, TransactionMetadata
from goqueue.broker.transactions.shards import TransactionShard, TransactionShards
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.storage import scan
from goqueue.storage.flusher import FlushMode
from goqueue.testing.disk import Keep
from tests.broker.brokers import Running, Told
from tests.broker.transactions.traffic import read_messages, transactional

T = TypeVar("T")

NAME = "billing"
ORDERS = LogRef("orders", 0)


class Scene:
    """Whatever is asked is durable, and carried out, when it returns."""

    def __init__(self, running: Running | None = None, *, flush: FlushMode = "always") -> None:
        self.running = running or Running(flush=flush)
        self.decided: list[str] = []
        self.is_carrying = True
        """Whether what is decided is carried out."""
        for shard in self.running.broker.transactions:
            shard.on_decided.subscribe(self.decided.append)
        if running is None:
            self.running.create("orders")

    @property
    def shards(self) -> TransactionShards:
        return self.running.broker.transactions

    @property
    def coordinator(self) -> TransactionShard:
        """The one of `NAME`."""
        return self.shards.of(NAME)

    def partition(self, log_ref: LogRef = ORDERS) -> Partition:
        partition, _ = self.shards.lookup.find(log_ref)
        if partition.producers is None:
            run_work(load_producers(partition, self.running.disk))
        return partition

    def known(self, name: str = NAME) -> TransactionMetadata:
        return self.shards.of(name).register.by_id[name]

    # --- what the shell does ---

    def flush(self) -> None:
        """One turn: what was recorded goes to the disk, what was decided is carried out.

        Without waiting for the device, only requested logs are synced.
        """
        self.shards.commit()
        self.running.broker.groups.commit()
        self.running.store.resources.flusher.flush(sync=self.running.mode == "always")
        while self.decided and self.is_carrying:
            name = self.decided.pop(0)
            self.do(self.shards.of(name).completer.complete(name))

    def do(self, work: Work[T]) -> T:
        return run_work(work, self._settle)

    def _settle(self) -> None:
        for _ in range(3):
            self.flush()

    def due(self, seconds: float) -> None:
        """Let so much time pass, and happen what is due then."""
        self.running.clock.advance(seconds)
        for shard in self.shards:
            shard.deadlines.call_due(shard.clock.now_ns())
        self.flush()

    def crash(self, keep: Keep = "synced") -> "Scene":
        return Scene(self.running.crash(keep))

    def restart(self) -> "Scene":
        return Scene(self.running.restart())

    def recover(self) -> "Scene":
        self.do(self.shards.recover())
        return self

    # --- what a producer asks ---

    def init(self, name: str = NAME, timeout: float = 60.0) -> TransactionId:
        return self.do(self.shards.of(name).init(name, round(timeout * NANOSECONDS))).whose

    def begin(self, whose: TransactionId, name: str = NAME) -> TransactionMetadata:
        return self.do(self.shards.of(name).begin(whose, name))

    def touch(self, whose: TransactionId, *log_refs: LogRef, groups: Sequence[str] = ()) -> TransactionMetadata:
        return self.do(self.shards.of_transaction(whose).enlist(whose, log_refs, begin=True, groups=groups))

    def ask_to_send(
        self, whose: TransactionId, *sent: bytes, log_ref: LogRef = ORDERS, sequence: int = 0
    ) -> Told[Placement]:
        """The id of the producer, or of a member with epoch 0."""
        told: Told[Placement] = Told()
        mark = ProducerMark(*whose, sequence, len(sent))
        frames = scan.check_batch(bytearray(transactional(sent, mark)))
        self.partition(log_ref).take(frames, mark, told, is_transactional=True)
        return told

    def send(self, whose: TransactionId, *sent: bytes, log_ref: LogRef = ORDERS, sequence: int = 0) -> Placement:
        """A batch in its transaction, which is begun if it is not."""
        self.touch(whose, log_ref)
        told = self.ask_to_send(whose, *sent, log_ref=log_ref, sequence=sequence)
        self.flush()
        return told.result

    def end(
        self, whose: TransactionId, name: str = NAME, *, is_commit: bool = True, counted: list[int] | None = None
    ) -> EndedTransaction:
        return self.do(self.shards.of(name).end(whose, name, is_commit=is_commit, counted=counted))

    def commit(self, whose: TransactionId, name: str = NAME, counted: list[int] | None = None) -> EndedTransaction:
        return self.end(whose, name, counted=counted)

    def abort(self, whose: TransactionId, name: str = NAME) -> EndedTransaction:
        return self.end(whose, name, is_commit=False)

    def ask(self, work: Work[T]) -> Told[T]:
        """Begin it, and have it go on whenever what it waits for has come."""
        told: Told[T] = Told()
        self._go_on(work, None, told)
        return told

    def _go_on(self, work: Work[T], result: Any, told: Told[T]) -> None:
        try:
            job = work.send(result) if not isinstance(result, GoQueueError) else work.throw(result)
            while not isinstance(job, Promise):
                job = work.send(job())
        except StopIteration as end:
            told(end.value)
        except GoQueueError as error:
            told(error)
        else:
            job.then(lambda outcome: self._go_on(work, outcome, told))

    # --- what is seen ---

    def seen(self, log_ref: LogRef = ORDERS) -> list[bytes]:
        """By readers of what is committed."""
        return [message.value for message in read_messages(self.partition(log_ref))]

    def is_held_back(self, log_ref: LogRef = ORDERS) -> bool:
        partition = self.partition(log_ref)
        return partition.last_stable < partition.high_watermark
