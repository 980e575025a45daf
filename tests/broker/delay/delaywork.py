"""Helpers for tests of delayed messages."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from goqueue import delay
from goqueue.broker.core.open_search import find_open
from goqueue.broker.core.open_transactions import TransactionEnd
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.producer_checkpoint import load_producers
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.work import Promise, Work, run_work
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.delay.schedule import STATES
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames
from goqueue.testing.disk import Keep
from goqueue.wire.sections import PRODUCER_HEADER
from tests.broker.brokers import Running, Told, values

SECOND = NANOSECONDS

T = TypeVar("T")


def offsets(*numbers: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(numbers, np.int64)


class Scene:
    """A broker with the topic `orders`, which delivers when it is told to."""

    def __init__(self, running: Running | None = None, **settings: object) -> None:
        self.running = running or Running()
        if "orders" not in self.running.broker.topics:
            self.running.create("orders", 1, **settings)

    @property
    def topic(self) -> Topic:
        return self.running.broker.topics["orders"]

    @property
    def partition(self) -> Partition:
        return self.topic.partitions[0]

    @property
    def delivery(self) -> PartitionDelivery:
        return self.running.broker.scheduling(self.partition)

    @property
    def delays(self) -> DelayedMessages:
        return self.delivery.delays

    @property
    def now_ns(self) -> int:
        return self.running.clock.now_ns()

    def schedule(self, *messages: tuple[bytes, float]) -> list[int]:
        """Values, and after how many seconds they are due; their offsets."""
        told = self.ask_to_schedule(*messages)
        self.running.flush()
        placement = told.result
        return list(range(placement.first_offset, placement.next_offset))

    def ask_to_schedule(self, *messages: tuple[bytes, float]) -> Told[Placement]:
        told: Told[Placement] = Told()
        due = [(value, self.now_ns + round(seconds * SECOND)) for value, seconds in messages]
        frames = [
            frame.encode(value, None, frame.encode_headers([delay.deliver_at_header(due_ns), ("trace", b"1")]))
            for value, due_ns in due
        ]
        self.delays.delayed_log.offer(frames, told)
        self.delays.delayed_log.commit()
        return told

    def schedule_within(self, transaction: "Transaction", *messages: tuple[bytes, float]) -> list[int]:
        """The same in a transaction, as a batch of its producer."""
        told: Told[Placement] = Told()
        self.delayed_log.take(*transaction.batch(self.now_ns, *messages), told, is_transactional=True)
        self.running.flush()
        placement = told.result
        return list(range(placement.first_offset, placement.next_offset))

    def end(self, transaction: "Transaction", *, is_commit: bool) -> None:
        told: list[GoQueueError | None] = []
        self.delayed_log.end_transactions(
            [TransactionEnd(transaction.producer, transaction.epoch, is_commit)], told.append
        )
        self.running.flush()
        assert told == [None]

    def find_open(self, *transactions: "Transaction") -> None:
        """After a start, as the coordinator has it done."""
        epochs = {one.producer: one.epoch for one in transactions}
        self.delayed_log.open.hold(self.delayed_log.earliest, self.delayed_log.log_end, epochs)
        run_work(find_open(self.delayed_log))

    @property
    def delayed_log(self) -> Partition:
        """With its producers loaded, as the runtime has it before a batch comes."""
        delayed_log = self.delays.delayed_log
        if delayed_log.producers is None:
            run_work(load_producers(delayed_log, self.running.disk))
        return delayed_log

    def fill(self, count: int, seconds: float, size: int = 200) -> list[int]:
        """Many of some size, one append each."""
        return [self.schedule((b"%d:" % number + bytes(size), seconds))[0] for number in range(count)]

    def damage(self, position: int) -> None:
        """Damage a byte of the first segment of the delayed log."""
        disk = self.running.disk
        disk.flip(min(one for one in disk.paths() if one.endswith(".log") and "/delayed/" in one), position)

    def publish(self, *contents: bytes) -> None:
        self.partition.offer([frame.encode(one) for one in contents], lambda _: None)
        self.partition.commit()
        self.running.flush()

    def do(self, work: Work[T]) -> T:
        return run_work(work, self.running.flush)

    def deliver(self, seconds: float = 0) -> None:
        """After so long."""
        self.running.clock.advance(seconds)
        self.do(self.delivery.deliver())

    def state(self, offset: int) -> str:
        run_work(self.delays.catch_up())
        entry = self.delays.schedule.find(offset)
        return "unknown" if entry is None else STATES[entry.state]

    @property
    def delivered(self) -> list[bytes]:
        return values(self.partition)

    def crash(self, keep: Keep = "synced") -> "Scene":
        return Scene(self.running.crash(keep))

    def restart(self) -> "Scene":
        return Scene(self.running.restart())


@dataclass
class Transaction:
    """The number of a producer."""

    producer: int
    epoch: int = 0
    sequence: int = 0

    def batch(self, now_ns: int, *messages: tuple[bytes, float]) -> tuple[Frames, ProducerMark]:
        """Values, and after how many seconds they are due, as its next batch."""
        mark = ProducerMark(self.producer, self.epoch, self.sequence, len(messages))
        self.sequence += len(messages)
        headers = [[delay.deliver_at_header(now_ns + round(seconds * SECOND))] for _, seconds in messages]
        headers[0].insert(0, (PRODUCER_HEADER, mark.encode()))
        contents = [
            frame.encode(value, None, frame.encode_headers(own), flags=frame.TRANSACTIONAL)
            for (value, _), own in zip(messages, headers, strict=True)
        ]
        return scan.check_batch(bytearray(b"".join(contents))), mark


class Going(Generic[T]):
    """Work that has come to a promise: what it needs from files has been done on the way."""

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self.promise: Promise[Any] | None = None
        self.is_over = False
        self.result: T | None = None
        self._run(partial(next, work))

    def go_on(self) -> None:
        """The awaited result has come."""
        assert self.promise is not None
        if self.promise.is_kept:
            try:
                result = self.promise.result()
            except Exception as error:
                self._run(partial(self._work.throw, error))
            else:
                self._run(partial(self._work.send, result))

    def finish(self, running: Running) -> T | None:
        while not self.is_over:
            running.flush()
            self.go_on()
        return self.result

    def _run(self, step: Callable[[], Any]) -> None:
        try:
            job = step()
            while not isinstance(job, Promise):
                job = self._work.send(job())
            self.promise = job
        except StopIteration as end:
            self.is_over, self.result = True, end.value
        except BaseException:
            self.is_over = True
            raise
