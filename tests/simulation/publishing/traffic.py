"""Clients that create, alter and delete topics, publish to them and read them; and the upkeep of their partitions."""

from functools import partial
from itertools import count

from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.core.upkeep import maintain_partition
from goqueue.broker.core.work import run_work
from goqueue.errors import GoQueueError, LogFenced, TopicBusy, TopicExists
from goqueue.limits import SEQUENCE_COUNT
from goqueue.storage.frame import NORMAL
from tests.simulation.publishing.checks import (
    check,
    check_positions,
    check_recovered,
    check_retention,
    is_readable,
    visible,
)
from tests.simulation.publishing.model import Content, MaintenanceRun, Model, PartitionModel, TopicModel
from tests.simulation.publishing.streams import Stream
from tests.simulation.traffic import Actions, Traffic
from tests.simulation.world import World

NAMES = ("alerts", "orders", "prices")
CLEANUPS = ("delete", "delete", "compact", "compact,delete")
SIZES = (0, 5, 40, 300, 900, 2500)
PRIORITIES = ((NORMAL,), (NORMAL,), (0, *(NORMAL,) * 5), range(5))
"""The priorities of one life: mostly one alone, sometimes two, sometimes all."""


class PublishingTraffic(Traffic):
    """Topics, single publishes, idempotent producers and reads."""

    has_streams = True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.model = Model(counts=world.counts)
        self.answers_lost = 0.2
        """How often an answer does not reach the producer that waits for it."""
        self.to_commit: list[Partition] = []
        self.streams: list[Stream] = []
        self._maintained: tuple[PartitionModel, Partition] | None = None
        self._contents = count()
        self._priorities = self.random.choice(PRIORITIES)

    def actions(self) -> Actions:
        actions: Actions = {
            self.create_topic: 5,
            self.alter_topic: 2,
            self.delete_topic: 1,
            self.offer: 16,
            self.begin_upkeep: 6,
            self.empty_trash: 1,
        }
        streams: Actions = {
            self.new_stream: 4,
            self.send: 22,
            self.retry: 7,
            self.misbehave: 4,
            self.take_over: 1,
            self.read: 4,
            self.read_time: 3,
        }
        return actions | (streams if self.has_streams else {})

    # --- lives ---

    def recovered(self) -> None:
        others = [one.topics for one in self.world.traffic if one is not self]
        self.model.made_by_broker = frozenset[str]().union(*others)
        check_recovered(self.broker, self.model, is_faulty=self.is_faulty)
        check(self.broker, self.model)

    def observe(self) -> None:
        for _, partition in self.broker.partitions():
            check_positions(partition)
        self._note_size()

    def commit(self) -> None:
        """Commit partitions of topics that were deleted meanwhile as well."""
        partitions, self.to_commit = self.to_commit, []
        for partition in partitions:
            partition.commit()

    def check(self) -> None:
        check(self.broker, self.model)

    def before_stop(self) -> None:
        self._finish_upkeep()

    def stopped(self) -> None:
        assert self.is_faulty or not self.model.waiting, f"{self.model.waiting} have no answer at the stop"

    def died(self, *, may_lose_answers: bool) -> None:
        del may_lose_answers
        self.model.waiting = 0
        self.to_commit = []

    def rest(self) -> None:
        """Everything that was refused succeeds now, and every caller gets its answer."""
        self.answers_lost = 0
        for stream in self.streams:
            stream.retry()
        self.world.commit()
        self.world.flush()
        partitions = {id(owed) for topic in self.model.here() for owed in topic.partitions}
        for stream in self.streams:
            assert stream.is_settled or id(stream.owed) not in partitions, f"a patient producer is answered: {stream}"
        assert not self.model.waiting, f"every caller gets an answer: {self.model.waiting} did not"
        for topic, partition in list(self.broker.partitions()):
            if topic.name in self.model.topics:
                self.maintain(topic, partition)
                self._finish_upkeep()
        check(self.broker, self.model)

    # --- upkeep ---

    def begin_upkeep(self) -> None:
        if partitions := [one for one in self.broker.partitions() if one[0].name in self.model.topics]:
            self.maintain(*self.random.choice(partitions))

    def maintain(self, topic: Topic, partition: Partition) -> None:
        """Begin the upkeep of a partition, and remember what it may remove."""
        if "upkeep" in self.world.rounds:
            return
        now_ns, owed = self.clock.now_ns(), self._model_of(partition)
        if owed is not None:
            owed.upkeep = MaintenanceRun(now_ns, topic.settings)
            owed.was_compacted |= "compact" in topic.settings.cleanup
            owed.latest_ns = max(owed.latest_ns, now_ns)
            self._maintained = owed, partition
            self._note_size()

        def end() -> None:
            if owed is not None and not partition.log.is_closed:
                check_retention(partition, owed)
            self.counts["upkeep"] += 1

        def refused(error: GoQueueError) -> None:
            end()
            if not partition.log.is_closed:
                self.refused(f"upkeep of {partition.log.name}", error)

        begin = partial(maintain_partition, partition, topic.settings, self.disk, now_ns)
        self.world.once("upkeep", begin, end, refused)

    def _note_size(self) -> None:
        if self._maintained is not None:
            owed, partition = self._maintained
            if owed.upkeep is not None:
                owed.upkeep.size = max(owed.upkeep.size, partition.log.size)

    def _finish_upkeep(self) -> None:
        while (task := self.world.rounds.get("upkeep")) is not None:
            task.step()

    def _model_of(self, partition: Partition) -> PartitionModel | None:
        topic = self.model.topics.get(partition.topic)
        return topic.partitions[partition.number] if topic is not None else None

    # --- topics ---

    def _settings(self) -> TopicSettings:
        draw = self.random.choice
        return TopicSettings(
            retention_hours=draw((None, 0.01, 1.0, 168.0)),
            retention_bytes=draw((None, None, None, 6000)),
            cleanup=draw(CLEANUPS),  # type: ignore[arg-type] # all of them are
            segment_bytes=draw((None, 4096, 9000)),
        )

    def create_topic(self) -> None:
        name = self.random.choice(NAMES)
        known = self.model.topics.get(name)
        if known is not None and known.state == "here":
            return
        partitions = self.random.choice((1, 1, 2))
        owed = [PartitionModel(f"{name}/{number}") for number in range(partitions)]
        topic = TopicModel(name, self._settings(), owed)

        def told(result: Topic | GoQueueError) -> None:
            if isinstance(result, Topic):
                topic.state = "here"
            else:
                self.refused(f"the creation of {name}", result)

        def ask() -> None:
            try:
                self.broker.create_topic(TopicSpec(name=name, partitions=partitions, settings=topic.settings), told)
            except (TopicBusy, TopicExists):
                self.counts["creations too early"] += 1  # it is under way already, or its logs are still to go
            else:
                topic.before = known
                self.model.topics[name] = topic

        self.attempt(f"the creation of {name}", ask)

    def _topic(self) -> TopicModel | None:
        here = [topic for topic in self.model.here() if not topic.may_go]
        return self.random.choice(here) if here else None

    def alter_topic(self) -> None:
        topic = self._topic()
        if topic is None:
            return
        hours = self.random.choice((0.02, 2.0, None))
        changes = {"cleanup": self.random.choice(CLEANUPS), "retention_hours": hours}

        def told(result: Topic | GoQueueError) -> None:
            if isinstance(result, Topic):
                topic.settings = result.settings
            else:
                self.refused(f"the change of {topic.name}", result)

        def ask() -> None:
            self.broker.alter_topic(topic.name, changes, told)
            topic.changes.append(self.broker._catalog.topic(topic.name).settings)

        self.attempt(f"the change of {topic.name}", ask)

    def delete_topic(self) -> None:
        topic = self._topic()
        if topic is None:
            return

        def told(result: int | GoQueueError) -> None:
            if isinstance(result, int):
                topic.state = "gone"
                self.model.topics.pop(topic.name)
            else:
                self.refused(f"the deletion of {topic.name}", result)
                topic.may_go = isinstance(result, LogFenced)

        def ask() -> None:
            self.broker.delete_topic(topic.name, told)
            topic.may_go = True

        self.attempt(f"the deletion of {topic.name}", ask)

    # --- publish ---

    def _content(self) -> Content:
        number, draw = next(self._contents), self.random.choice
        key = draw((None, b"a", b"b", b"c", b"key-%d" % self.random.randrange(20)))
        if key is not None and self.random.random() < 0.15:
            return Content(key, b"", (("number", b"%d" % number),), True, draw(self._priorities))
        headers = (("trace", b"%d" % number),) if self.random.random() < 0.2 else ()
        return Content(key, b"%d:" % number + bytes(draw(SIZES)), headers, priority=draw(self._priorities))

    def _batch(self) -> list[Content]:
        return [self._content() for _ in range(self.random.choice((1, 1, 2, 3, 7)))]

    def _partition(self) -> tuple[PartitionModel, Partition] | None:
        topic = self._topic()
        if topic is None:
            return None
        owed = self.random.choice(topic.partitions)
        return owed, self.broker.topics[topic.name].partitions[topic.partitions.index(owed)]

    def offer(self) -> None:
        if (chosen := self._partition()) is None:
            return
        (owed, partition), contents = chosen, self._batch()[:3]
        life, model = self.lives, self.model

        def done(result: Placement | GoQueueError) -> None:
            assert self.lives == life, "who asked one process is not told by another"
            model.waiting -= 1
            if isinstance(result, Placement):
                owed.stored(contents, result)
                model.counts["publishes stored"] += 1
            elif not partition.log.is_closed:
                self.refused(f"a publish to {owed.name}", result)

        owed.open.update(contents)
        model.waiting += 1
        if partition.offer([content.encode() for content in contents], done):
            self.to_commit.append(partition)

    def new_stream(self) -> None:
        if (chosen := self._partition()) is None:
            return
        owed, partition = chosen

        def told(result: int | GoQueueError) -> None:
            if isinstance(result, int):
                self.model.producer(result)
                sequence = self.random.choice((0, 0, SEQUENCE_COUNT - 3))
                self.streams.append(Stream(self, partition.topic, owed, partition.number, result, sequence))
            else:
                self.refused("a producer id", result)

        self.attempt("a producer id", lambda: self.broker.producer_ids.give(told))

    def _stream(self) -> Stream | None:
        return self.random.choice(self.streams[-6:]) if self.streams else None

    def send(self) -> None:
        if (stream := self._stream()) is not None:
            stream.send(self._batch())

    def retry(self) -> None:
        if (stream := self._stream()) is not None:
            stream.retry(answered_too=self.random.random() < 0.3)

    def take_over(self) -> None:
        if (stream := self._stream()) is not None:
            stream.take_over()

    def misbehave(self) -> None:
        if (stream := self._stream()) is not None:
            self.random.choice((stream.skip, stream.publish_with_old_epoch))(self._batch())

    # --- read ---

    def read(self) -> None:
        """Any offset, any size: what comes is what a look at everything shows from there on."""
        if (chosen := self._partition()) is None:
            return
        owed, partition = chosen
        if not is_readable(partition, is_faulty=self.is_faulty):
            return

        def read() -> None:
            expected = visible(partition)
            offset = self.random.randint(partition.earliest, partition.high_watermark)
            got = run_work(partition.read(offset, self.random.choice((1, 500, 10_000))))
            first = next((one for one, _, _ in expected if one >= offset), None)
            assert bool(got.buffers) == (first is not None), f"a read gives what there is: {owed.name} from {offset}"
            assert first is None or first < got.next_offset <= partition.high_watermark, f"{owed.name} from {offset}"

        self.attempt(f"a read of {owed.name}", read)

    def read_time(self) -> None:
        if (chosen := self._partition()) is None:
            return
        owed, partition = chosen
        if partition.log.fence is not None:  # retention may have been interrupted when it had removed the first files
            return

        def read() -> None:
            expected = visible(partition)
            now_ns = self.clock.now_ns()
            time = self.random.choice([now_ns, now_ns - 10**12, *(time for _, time, _ in expected)])
            offset = run_work(partition.offset_for_time(time))
            older = [one for one, at, _ in expected if at < time]
            newer = [one for one, at, _ in expected if at >= time]
            assert max(older, default=-1) < offset <= min(newer, default=partition.high_watermark), (
                f"a time leads to its first message: {owed.name} has {offset} for {time}"
            )

        self.attempt(f"a look for a time in {owed.name}", read)

    def empty_trash(self) -> None:
        self.attempt("the trash", self.store.empty_trash)
