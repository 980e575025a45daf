"""What may happen next: clients ask, time goes by, the disk refuses, the power goes."""

import errno
from collections.abc import Callable
from itertools import count

from goqueue.broker.partition import Partition, Placement
from goqueue.broker.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.work import run
from goqueue.errors import GoQueueError, LogFenced, TopicBusy, TopicExists
from goqueue.limits import SEQUENCE_COUNT
from goqueue.storage.frame import NORMAL
from tests.simulation.checks import check, check_positions, is_readable, visible
from tests.simulation.model import Content, PartitionModel, TopicModel
from tests.simulation.streams import Stream
from tests.simulation.world import World

NAMES = ("alerts", "orders", "prices")
CLEANUPS = ("delete", "delete", "compact", "compact,delete")
FAILING = (
    "write",
    "write",
    "sync",
    "sync",
    "create",
    "rename",
    "remove",
    "sync_directory",
    "truncate",
    "make_directory",
)
NOTES = ("*producers", "*snapshot", "*compacted")
"""A read from these may fail. What cannot be read of a log counts as damaged, and damage is not simulated."""
SIZES = (0, 5, 40, 300, 900, 2500)
PRIORITIES = ((NORMAL,), (NORMAL,), (0, *(NORMAL,) * 5), range(5))
"""Lives in which there is one alone, in which another one comes now and then, and in which there are all."""


class Steps:
    """Draws what happens, and tells the model what was asked and answered."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.streams: list[Stream] = []
        self._contents = count()
        self._priorities = self.random.choice(PRIORITIES)
        self._actions: dict[Callable[[], None], int] = {
            self.create_topic: 4,
            self.alter_topic: 2,
            self.delete_topic: 1,
            self.offer: 14,
            self.commit: 8,
            self.new_stream: 3,
            self.send: 16,
            self.retry: 5,
            self.misbehave: 3,
            self.take_over: 1,
            self.flush: 12,
            self.read: 3,
            self.read_time: 2,
            self.begin_upkeep: 4,
            self.go_on_with_upkeep: 6,
            self.pass_time: 4,
            self.jump: 1,
            self.empty_trash: 1,
            self.check: 2,
            self.refuse: 2,
            self.fill: 1,
            self.heal: 2,
            self.crash_soon: 1,
            self.crash: 2,
            self.stop: 1,
        }

    def take(self) -> None:
        """One step."""
        (action,) = self.random.choices(list(self._actions), list(self._actions.values()))
        self.world.tell(action.__name__)
        self.world.model.counts[action.__name__] += 1
        action()
        for _, partition in self.world.broker.partitions():
            check_positions(partition)

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
        world, name = self.world, self.random.choice(NAMES)
        known = world.model.topics.get(name)
        if known is not None and known.state == "here":
            return
        partitions = self.random.choice((1, 1, 2))
        owed = [PartitionModel(f"{name}/{number}") for number in range(partitions)]
        topic = TopicModel(name, self._settings(), owed)

        def told(result: Topic | GoQueueError) -> None:
            if isinstance(result, Topic):
                topic.state = "here"
            else:
                world.refused(f"the creation of {name}", result)

        def ask() -> None:
            try:
                world.broker.create_topic(TopicSpec(name=name, partitions=partitions, settings=topic.settings), told)
            except (TopicBusy, TopicExists):
                world.model.counts["creations too early"] += 1  # it is under way already, or its logs are still to go
            else:
                topic.before = known
                world.model.topics[name] = topic

        world.attempt(f"the creation of {name}", ask)

    def _topic(self) -> TopicModel | None:
        here = [topic for topic in self.world.model.here() if not topic.may_go]
        return self.random.choice(here) if here else None

    def alter_topic(self) -> None:
        world, topic = self.world, self._topic()
        if topic is None:
            return
        hours = self.random.choice((0.02, 2.0, None))
        changes = {"cleanup": self.random.choice(CLEANUPS), "retention_hours": hours}

        def told(result: Topic | GoQueueError) -> None:
            if isinstance(result, Topic):
                topic.settings = result.settings
            else:
                world.refused(f"the change of {topic.name}", result)

        def ask() -> None:
            world.broker.alter_topic(topic.name, changes, told)
            topic.changes.append(world.broker._catalog.topic(topic.name).settings)

        world.attempt(f"the change of {topic.name}", ask)

    def delete_topic(self) -> None:
        world, topic = self.world, self._topic()
        if topic is None:
            return

        def told(result: int | GoQueueError) -> None:
            if isinstance(result, int):
                topic.state = "gone"
                world.model.topics.pop(topic.name)
            else:
                world.refused(f"the deletion of {topic.name}", result)
                topic.may_go = isinstance(result, LogFenced)

        def ask() -> None:
            world.broker.delete_topic(topic.name, told)
            topic.may_go = True

        world.attempt(f"the deletion of {topic.name}", ask)

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
        return owed, self.world.broker.topics[topic.name].partitions[topic.partitions.index(owed)]

    def offer(self) -> None:
        if (chosen := self._partition()) is None:
            return
        (owed, partition), world, contents = chosen, self.world, self._batch()[:3]
        life, model = world.lives, world.model

        def done(result: Placement | GoQueueError) -> None:
            assert world.lives == life, "who asked one process is not told by another"
            model.waiting -= 1
            if isinstance(result, Placement):
                owed.stored(contents, result)
                model.counts["publishes stored"] += 1
            elif not partition.log.is_closed:
                world.refused(f"a publish to {owed.name}", result)

        owed.open.update(contents)
        model.waiting += 1
        if partition.offer([content.encode() for content in contents], done):
            world.to_commit.append(partition)

    def commit(self) -> None:
        self.world.commit()

    def new_stream(self) -> None:
        if (chosen := self._partition()) is None:
            return
        (owed, partition), world = chosen, self.world

        def told(result: int | GoQueueError) -> None:
            if isinstance(result, int):
                world.model.producer(result)
                sequence = self.random.choice((0, 0, SEQUENCE_COUNT - 3))
                self.streams.append(Stream(world, partition.topic, owed, partition.number, result, sequence))
            else:
                world.refused("a producer id", result)

        world.attempt("a producer id", lambda: world.broker.producer_ids.give(told))

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
            self.random.choice((stream.skip, stream.haunt))(self._batch())

    # --- read ---

    def read(self) -> None:
        """Any offset, any size: what comes is what a look at everything shows from there on."""
        if (chosen := self._partition()) is None:
            return
        owed, partition = chosen
        if not is_readable(partition, is_faulty=self.world.is_faulty):
            return

        def read() -> None:
            expected = visible(partition)
            offset = self.random.randint(partition.earliest, partition.high_watermark)
            got = run(partition.read(offset, self.random.choice((1, 500, 10_000))))
            first = next((one for one, _, _ in expected if one >= offset), None)
            assert bool(got.buffers) == (first is not None), f"a read gives what there is: {owed.name} from {offset}"
            assert first is None or first < got.next_offset <= partition.high_watermark, f"{owed.name} from {offset}"

        self.world.attempt(f"a read of {owed.name}", read)

    def read_time(self) -> None:
        if (chosen := self._partition()) is None:
            return
        owed, partition = chosen
        if partition.log.fence is not None:  # retention may have been interrupted when it had removed the first files
            return

        def read() -> None:
            expected = visible(partition)
            now_ns = self.world.clock.now_ns()
            time = self.random.choice([now_ns, now_ns - 10**12, *(time for _, time, _ in expected)])
            offset = run(partition.offset_for_time(time))
            older = [one for one, at, _ in expected if at < time]
            newer = [one for one, at, _ in expected if at >= time]
            assert max(older, default=-1) < offset <= min(newer, default=partition.high_watermark), (
                f"a time leads to its first message: {owed.name} has {offset} for {time}"
            )

        self.world.attempt(f"a look for a time in {owed.name}", read)

    # --- what the broker does by itself ---

    def flush(self) -> None:
        self.world.store.flush()

    def begin_upkeep(self) -> None:
        self.world.begin_upkeep(*self.random.choice(list(self.world.broker.partitions())))

    def go_on_with_upkeep(self) -> None:
        if self.world.upkeep is not None:
            self.world.upkeep.step()

    def empty_trash(self) -> None:
        self.world.attempt("the trash", self.world.store.empty_trash)

    def pass_time(self) -> None:
        self.world.clock.advance(self.random.choice((0.001, 1, 60, 3600, 50_000, 200_000)))

    def jump(self) -> None:
        self.world.clock.jump(self.random.choice((-10_000, -5, 300, 4000)))

    def check(self) -> None:
        def look() -> None:
            check(self.world.broker, self.world.model)

        self.world.attempt("a look at everything", look)

    # --- what goes wrong ---

    def refuse(self) -> None:
        """Some operation, soon, and perhaps more than once."""
        draw = self.random.choice
        operation, error, path = draw(FAILING), draw((errno.ENOSPC, errno.EIO)), "*"
        if self.random.random() < 0.2:
            operation, error, path = draw((("read", errno.EIO, draw(NOTES)), ("open", errno.EMFILE, "*")))
        times, skip = draw((1, 1, 2, 5)), draw((0, 0, 1, 4))
        self.world.tell("  ", operation, errno.errorcode[error], path, times, "times, after", skip)
        self.world.is_faulty = True
        self.world.disk.fail(operation, error, path=path, times=times, skip=skip, after_bytes=draw((0, 100)))

    def fill(self) -> None:
        """Almost nothing fits any more."""
        self.world.is_faulty = True
        disk = self.world.disk
        used = sum(len(disk.read_file(path)) for path in disk.paths())
        disk.capacity_bytes = used + self.random.choice((0, 200, 3000))

    def heal(self) -> None:
        """What is fenced stays so until the next start."""
        self.world.disk.heal()
        self.world.disk.capacity_bytes = None

    def crash_soon(self) -> None:
        disk = self.world.disk
        disk.crash_at(disk.operations + self.random.randint(1, 12), after_bytes=self.random.randrange(600))

    def crash(self) -> None:
        self.world.crash()

    def stop(self) -> None:
        self.world.stop()
