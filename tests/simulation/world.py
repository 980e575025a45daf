"""One broker after the other on one disk: each life ends with a clean stop, a crash, or a loss of power."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from goqueue.broker.broker import Broker
from goqueue.broker.partition import Partition
from goqueue.broker.topic import Topic
from goqueue.broker.upkeep import keep_up
from goqueue.broker.work import Job, Promise, Work, run
from goqueue.errors import GoQueueError, OperatorError, TransientError
from goqueue.storage.log import LogSettings
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Crashed, FaultyDisk, Keep
from tests.simulation.checks import check, check_recovered, check_retention
from tests.simulation.model import Looked, Model, PartitionModel
from tests.storage.stores import open_store

SEGMENT_BYTES = 4096
KEEPS: tuple[Keep, ...] = ("everything", "synced", "some")
OPENINGS_MAX = 20


class World:
    """The disk, the clock, the broker that runs now, and the model that outlives it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = FaultyDisk(seed)
        self.clock = ManualClock()
        self.model = Model()
        self.is_faulty = False
        """Whether the disk has been told to refuse something in this life."""
        self.store: Store
        self.broker: Broker
        self.answers_lost = 0.2
        """How often an answer does not reach the producer that waits for it."""
        self.upkeep: Upkeep | None = None
        self.to_commit: list[Partition] = []
        self.lives = 0
        self.story: list[str] = []
        self.start()

    def tell(self, *words: object) -> None:
        self.story.append(" ".join(map(str, words)))

    # --- from start to start ---

    def start(self) -> None:
        """Open what the disk holds, however often it takes, and hold it against the model."""
        for _ in range(OPENINGS_MAX):
            try:
                self._open()
                break
            except Crashed:
                self._lose_power()
            except GoQueueError as error:
                self.refused("the start", error)
                self._kill()
        else:
            raise AssertionError("the broker does not start")
        self.lives += 1
        self.recovered()

    def recovered(self) -> None:
        """Hold what has started against the model."""
        check_recovered(self.broker, self.model, is_faulty=self.is_faulty)
        check(self.broker, self.model)

    def _open(self) -> None:
        self.upkeep = None
        tail_bytes = self.random.choice((1, 1 << 20))
        self.store = open_store(self.disk, self.clock, segment_bytes=SEGMENT_BYTES, tail_bytes=tail_bytes)
        self.broker = self.new_broker()
        self.broker.open()

    def new_broker(self) -> Broker:
        return Broker(self.store, self.disk, self.clock, LogSettings(SEGMENT_BYTES), self.random.getrandbits)

    def stop(self) -> None:
        """As the runtime does it."""
        self.finish_upkeep()
        self.commit()
        self.store.flush()
        for _, partition in self.broker.partitions():
            self.attempt(f"the note of {partition.log.name}", partial(run, partition.save_producers(self.disk)))
        self.broker.close()
        self.attempt("the store's close", self.store.close)
        assert self.is_faulty or not self.model.waiting, f"{self.model.waiting} were not told before the stop"
        self.tell("stopped")
        self._next_disk("everything", torn=False)
        self.start()

    def commit(self) -> None:
        """Those that somebody has to call it for, topics included that were deleted meanwhile."""
        partitions, self.to_commit = self.to_commit, []
        for partition in partitions:
            partition.commit()

    def crash(self) -> None:
        self._lose_power()
        self.start()

    def _lose_power(self) -> None:
        keep = self.random.choice(KEEPS)
        self.tell("crashed, keeping", keep)
        self._next_disk(keep, torn=self.random.random() < 0.5)

    def _kill(self) -> None:
        self._next_disk("everything", torn=False)

    def _next_disk(self, keep: Keep, *, torn: bool) -> None:
        self.model.waiting = 0
        self.to_commit = []
        self.disk = self.disk.crash(keep, torn=torn)
        self.disk.capacity_bytes = None
        self.is_faulty = False

    # --- what may be refused ---

    def attempt(self, what: str, action: Callable[[], Any]) -> None:
        """The disk may refuse it where it was told to refuse; nothing else may."""
        try:
            action()
        except (OperatorError, TransientError) as error:
            self.refused(what, error)

    def refused(self, what: str, error: GoQueueError) -> None:
        self.tell(what, "was refused:", error)
        assert self.is_faulty, f"{what} was refused by a sound disk: {error!r}"

    # --- upkeep, a job at a time ---

    def begin_upkeep(self, topic: Topic, partition: Partition) -> None:
        if self.upkeep is None:
            self.upkeep = Upkeep(self, topic, partition)
            self.upkeep.step()

    def finish_upkeep(self) -> None:
        while self.upkeep is not None:
            self.upkeep.step()

    def model_of(self, partition: Partition) -> PartitionModel | None:
        topic = self.model.topics.get(partition.topic)
        return topic.partitions[partition.number] if topic is not None else None


class Upkeep:
    """A look at one partition, whose jobs are done one by one while the broker goes on."""

    def __init__(self, world: World, topic: Topic, partition: Partition) -> None:
        self._world = world
        self._partition = partition
        now_ns = world.clock.now_ns()
        self._owed = world.model_of(partition)
        if self._owed is not None:
            self._owed.upkeep = Looked(now_ns, topic.settings)
            self._owed.was_compacted |= "compact" in topic.settings.cleanup
            self._owed.latest_ns = max(self._owed.latest_ns, now_ns)
        self._work: Work[None] = keep_up(partition, topic.settings, world.disk, now_ns)
        self._job: Job | None = None

    def step(self) -> None:
        """Do the job that was decided last, and decide the next one."""
        world = self._world
        if self._owed is not None and self._owed.upkeep is not None:
            self._owed.upkeep.size = max(self._owed.upkeep.size, self._partition.log.size)
        try:
            self._job = self._next_job()
        except StopIteration:
            self._end()
        except (OperatorError, TransientError) as error:
            self._end()
            world.model.counts["upkeep refused"] += 1
            if not self._partition.log.is_closed:
                world.refused(f"upkeep of {self._partition.log.name}", error)

    def _next_job(self) -> Job:
        if self._job is None:
            job = next(self._work)
        else:
            try:
                result = self._job()
            except Exception as error:
                job = self._work.throw(error)
            else:
                job = self._work.send(result)
        assert not isinstance(job, Promise), "upkeep waits for nobody"
        return job

    def _end(self) -> None:
        if self._owed is not None and not self._partition.log.is_closed:
            check_retention(self._partition, self._owed)
        self._world.upkeep = None
        self._world.model.counts["upkeep"] += 1
