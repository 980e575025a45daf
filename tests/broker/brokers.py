"""Helpers for tests of the rules: a broker on a faulty disk, publishes, and their reports."""

import errno
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from random import Random
from typing import Any, Generic, TypeVar

from goqueue.broker.broker import Broker
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.producer_checkpoint import load_producers
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.core.upkeep import maintain_partition
from goqueue.broker.core.work import Job, Promise, Work, run_work
from goqueue.errors import GoQueueError
from goqueue.limits import MESSAGE_BYTES
from goqueue.storage import frame
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.flusher import FlushMode
from goqueue.storage.frame import NORMAL
from goqueue.storage.log import LogSettings
from goqueue.storage.retention import plan_retention
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk, Keep
from goqueue.wire.sections import PRODUCER_HEADER
from tests.storage.stores import open_store

SEGMENT_BYTES = 4096
KEEPS: tuple[Keep, ...] = ("everything", "synced", "some")

T = TypeVar("T")


class Told(Generic[T]):
    """Collects the reports of a callback."""

    def __init__(self) -> None:
        self.all: list[T | GoQueueError] = []

    def __call__(self, result: T | GoQueueError) -> None:
        self.all.append(result)

    @property
    def result(self) -> T:
        """The only one, which is no refusal."""
        (result,) = self.all
        assert not isinstance(result, GoQueueError), repr(result)
        return result

    @property
    def refusal(self) -> GoQueueError:
        """The only one, which is one."""
        (result,) = self.all
        assert isinstance(result, GoQueueError), repr(result)
        return result


class Running:
    """A broker without threads: `flush` makes the disk work and calls back."""

    def __init__(
        self,
        disk: FaultyDisk | None = None,
        clock: ManualClock | None = None,
        flush: FlushMode = "always",
        *,
        has_tenants: bool = False,
    ) -> None:
        self._has_tenants = has_tenants
        self.disk = disk or FaultyDisk()
        self.clock = clock or ManualClock()
        self.mode: FlushMode = flush
        self.store = open_store(self.disk, self.clock, flush=flush, segment_bytes=SEGMENT_BYTES, tail_bytes=1)
        chance = Random(0).getrandbits
        self.broker = Broker(
            self.store, self.disk, self.clock, LogSettings(SEGMENT_BYTES), chance, has_tenants=has_tenants
        )
        self.broker.open()

    def flush(self) -> None:
        self.broker.groups.commit()
        self.broker.transactions.commit()
        self.store.flush()

    def crash(self, keep: Keep = "synced") -> "Running":
        """The next broker, after the power went."""
        return Running(self.disk.crash(keep), self.clock, self.mode, has_tenants=self._has_tenants)

    def after_crash(self, keep: Keep) -> "Running":
        """The next broker after a power loss; this one can crash again in another way."""
        return Running(self.disk.after_crash(keep), self.clock, self.mode)

    def restart(self) -> "Running":
        """The next broker, after a clean stop."""
        self.broker.close()
        self.store.close()
        return Running(self.disk.crash("everything"), self.clock, self.mode)

    def create(self, name: str = "orders", partitions: int = 1, **settings: Any) -> Topic:
        told = self.ask_to_create(name, partitions, **settings)
        self.flush()
        self.flush()  # of the note that its logs were made
        return told.result

    def ask_to_create(self, name: str = "orders", partitions: int = 1, **settings: Any) -> Told[Topic]:
        told: Told[Topic] = Told()
        self.broker.create_topic(TopicSpec(name=name, partitions=partitions, settings=TopicSettings(**settings)), told)
        return told

    def ask_to_delete(self, name: str = "orders") -> Told[int]:
        told: Told[int] = Told()
        self.broker.delete_topic(name, told)
        return told

    def delete(self, name: str = "orders") -> None:
        told = self.ask_to_delete(name)
        self.flush()
        assert told.result == 0, "no delayed message went with it"

    def new_producer(self) -> int:
        told: Told[int] = Told()
        self.broker.producer_ids.give(told)
        self.flush()
        return told.result

    def partition(self, name: str = "orders", number: int = 0) -> Partition:
        """With its producers loaded, as the runtime has it before a batch comes."""
        partition = self.broker.topics[name].partition(number)
        if partition.producers is None:
            run_work(load_producers(partition, self.disk))
        return partition

    def publish(self, content: bytes, name: str = "orders") -> Placement:
        """Publish, and wait for the answer."""
        told = offer_batch(self.partition(name), content)
        self.flush()
        return told.result

    def maintain(self, settings: TopicSettings | None = None, name: str = "orders") -> None:
        """One look of the upkeep at a partition."""
        topic = self.broker.topics[name]
        run_work(maintain_partition(topic.partition(0), settings or topic.settings, self.disk, self.clock.now_ns()))

    def expire(self, bytes_kept: int, name: str = "orders", number: int = 0) -> None:
        """Let retention remove sealed segments."""
        job = plan_retention(self.partition(name, number).log, self.disk, bytes_kept=bytes_kept)
        job.run()
        job.apply()

    def compact(self, name: str = "orders") -> int:
        """Compact the sealed segments of a partition; return how many messages that removed."""
        job = plan_compaction(self.partition(name).log, self.disk, now_ns=self.clock.now_ns())
        while not job.is_done:
            job.run()
            job.apply()
        return job.messages_removed

    def refuse_writes(self, path: str = "*") -> None:
        """Let the next write fail, as on a full disk."""
        self.disk.fail("write", errno.ENOSPC, path=path)

    def roll(self, name: str = "orders") -> None:
        self.partition(name).log.roll()
        self.flush()

    def names(self) -> set[str]:
        return {name for name in self.broker.topics if not name.startswith("__")}


def offer_batch(partition: Partition, content: bytes) -> Told[Placement]:
    told: Told[Placement] = Told()
    partition.publish(bytearray(content), MESSAGE_BYTES, told)
    return told


def frames_of(
    values: Iterable[bytes],
    mark: ProducerMark | None = None,
    key: bytes | None = None,
    lanes: Iterable[int] = repeat(NORMAL),
) -> bytes:
    """A batch as a client sends it."""
    headers = chain(
        [frame.encode_headers([(PRODUCER_HEADER, mark.encode())] if mark else [])], repeat(frame.NO_HEADERS)
    )
    return b"".join(
        frame.encode(value, key, encoded, priority=lane)
        for value, encoded, lane in zip(values, headers, lanes, strict=False)
    )


def marked(sequence: int, *values: bytes, producer: int = 7, epoch: int = 0) -> bytes:
    """A batch of a producer whose retries are known again."""
    return frames_of(values, ProducerMark(producer, epoch, sequence, len(values)))


def before_each_job(work: Work[T], happens: Callable[[], object]) -> Work[T]:
    """The same work, with something that happens on the owner's thread before each job is done."""
    try:
        job = next(work)
        while True:
            happens()
            job = work.send((yield job))
    except StopIteration as end:
        result: T = end.value
        return result


def going_on(work: Work[T], job: Any, meanwhile: Callable[[], object] = lambda: None) -> Work[T]:
    """Work that has begun with this job, during which something happens."""
    answer = yield job
    meanwhile()
    try:
        while True:
            answer = yield work.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def next_job(work: Work[Any]) -> Job:
    """The first job of the work, which needs a file."""
    job = next(work)
    assert not isinstance(job, Promise)
    return job


def begin(work: Work[Any]) -> None:
    """Do the jobs of the work up to where it waits for something to be durable."""
    job = next(work)
    while not isinstance(job, Promise):
        job = work.send(job())


def messages(partition: Partition) -> list[frame.StoredMessage]:
    """All that readers see."""
    found: list[frame.StoredMessage] = []
    offset = partition.earliest
    while offset < partition.high_watermark:
        read = run_work(partition.read(offset, 10_000))
        for buffer in read.buffers:
            found += (frame.decode(buffer, position) for position in frame.walk(buffer))
        offset = read.next_offset
    return found


def values(partition: Partition) -> list[bytes]:
    return [message.value for message in messages(partition)]
