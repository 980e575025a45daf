"""What the tests of the rules need to speak briefly: a broker on a faulty disk, publishes, and what they were told."""

from collections.abc import Iterable
from itertools import chain, repeat
from random import Random
from typing import Any, Generic, TypeVar

from goqueue.broker.broker import Broker
from goqueue.broker.partition import Partition, Placement
from goqueue.broker.producers import MARK_NAME, Mark
from goqueue.broker.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.work import run
from goqueue.errors import GoQueueError
from goqueue.limits import MESSAGE_BYTES
from goqueue.storage import frame
from goqueue.storage.flusher import Mode
from goqueue.storage.frame import NORMAL
from goqueue.storage.log import LogSettings
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk, Keep
from tests.storage.stores import open_store

SEGMENT_BYTES = 4096

T = TypeVar("T")


class Told(Generic[T]):
    """Collects what somebody is told."""

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
    """A broker without threads: `flush` is when the disk works and everybody is told."""

    def __init__(
        self, disk: FaultyDisk | None = None, clock: ManualClock | None = None, flush: Mode = "always"
    ) -> None:
        self.disk = disk or FaultyDisk()
        self.clock = clock or ManualClock()
        self.mode: Mode = flush
        self.store = open_store(self.disk, self.clock, flush=flush, segment_bytes=SEGMENT_BYTES, tail_bytes=1)
        chance = Random(0).getrandbits
        self.broker = Broker(self.store, self.disk, self.clock, LogSettings(SEGMENT_BYTES), chance)
        self.broker.open()

    def flush(self) -> None:
        self.broker.coordinator.commit()
        self.store.flush()

    def crash(self, keep: Keep = "synced") -> "Running":
        """The next broker, after the power went."""
        return Running(self.disk.crash(keep), self.clock, self.mode)

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
            run(partition.load_producers(self.disk))
        return partition

    def publish(self, content: bytes, name: str = "orders") -> Placement:
        """Publish, and wait for the answer."""
        told = offer_batch(self.partition(name), content)
        self.flush()
        return told.result

    def names(self) -> set[str]:
        return {name for name in self.broker.topics if not name.startswith("__")}


def offer_batch(partition: Partition, content: bytes) -> Told[Placement]:
    told: Told[Placement] = Told()
    partition.publish(bytearray(content), MESSAGE_BYTES, told)
    return told


def frames_of(
    values: Iterable[bytes], mark: Mark | None = None, key: bytes | None = None, lanes: Iterable[int] = repeat(NORMAL)
) -> bytes:
    """A batch as a client sends it."""
    headers = chain([frame.encode_headers([(MARK_NAME, mark.encode())] if mark else [])], repeat(frame.NO_HEADERS))
    return b"".join(
        frame.encode(value, key, encoded, priority=lane)
        for value, encoded, lane in zip(values, headers, lanes, strict=False)
    )


def marked(sequence: int, *values: bytes, producer: int = 7, epoch: int = 0) -> bytes:
    """A batch of a producer whose retries are known again."""
    return frames_of(values, Mark(producer, epoch, sequence, len(values)))


def messages(partition: Partition) -> list[frame.Message]:
    """All that readers see."""
    found: list[frame.Message] = []
    offset = partition.earliest
    while offset < partition.high_watermark:
        read = run(partition.read(offset, 10_000))
        for buffer in read.buffers:
            found += (frame.decode(buffer, position) for position in frame.walk(buffer))
        offset = read.next_offset
    return found


def values(partition: Partition) -> list[bytes]:
    return [message.value for message in messages(partition)]
