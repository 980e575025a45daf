"""One broker with delayed messages after the other, on one disk, under a clock that is set now and then."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from goqueue.broker.broker import Broker
from goqueue.broker.delay.postman import Postman
from goqueue.broker.partition import Partition
from goqueue.broker.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.work import run
from goqueue.errors import GoQueueError, OperatorError, TransientError
from goqueue.storage import frame
from goqueue.storage.log import LogSettings
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Crashed, FaultyDisk, Keep
from tests.simulation.delays.model import Model
from tests.simulation.doing import Doing
from tests.storage.stores import open_store

PARTITIONS = 2
SEGMENT_BYTES = 1200  # a few messages: what is sealed can be swept
OPENINGS_MAX = 20
KEEPS: tuple[Keep, ...] = ("everything", "synced", "some")


class DelayWorld:
    """The disk, the clock, the broker that runs now, and the model that outlives it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = FaultyDisk(seed)
        self.clock = ManualClock()
        self.model = Model()
        self.is_faulty = False
        self.works: list[Doing] = []
        self.rounds: dict[int, Doing] = {}
        """The postman of which partition is on its way."""
        self.story: list[str] = []
        self.lives = 0
        self.latest_ns = 0
        """The latest moment that the clock has shown since all that was delivered was seen."""
        self.read_to = [0] * PARTITIONS
        self.start()

    def tell(self, *words: object) -> None:
        self.story.append(" ".join(map(str, words)))

    # --- lives ---

    def start(self) -> None:
        for _ in range(OPENINGS_MAX):
            try:
                self._open()
                break
            except Crashed:
                self._next_disk(self.random.choice(KEEPS), torn=True)
            except GoQueueError as error:
                self.refused("the start", error)
                self._next_disk("everything", torn=False)
        else:
            raise AssertionError("the broker does not start")
        self.lives += 1
        for begun in self.model.transactions:
            if not begun.is_ended:
                begun.give_up()
        for number in range(PARTITIONS):
            self.attempt("finding what is open", partial(self._hold, number))
            self.attempt("finding what is open", partial(self.find_open, number))
        self.see(is_start=True)

    def _hold(self, number: int) -> None:
        inbox = self.postman(number).delays.inbox
        inbox.open.hold(inbox.earliest, inbox.log_end)

    def find_open(self, number: int) -> None:
        """As the coordinator of transactions does it: until then it ends none of them."""
        inbox = self.postman(number).delays.inbox
        run(inbox.find_open({one.producer: 0 for one in self.model.open(number)}))

    def _open(self) -> None:
        tail_bytes = self.random.choice((1, 1 << 20))
        self.store = open_store(self.disk, self.clock, segment_bytes=SEGMENT_BYTES, tail_bytes=tail_bytes)
        log_settings = LogSettings(SEGMENT_BYTES)
        self.broker = Broker(self.store, self.disk, self.clock, log_settings, self.random.getrandbits)
        self.broker.open()
        if "orders" not in self.broker.topics:
            made: list[Topic | GoQueueError] = []
            settings = TopicSettings(retention_bytes=self.random.choice((None, 0, 3000)))
            spec = TopicSpec(name="orders", partitions=PARTITIONS, settings=settings)
            self.broker.create_topic(spec, made.append)
            self.store.flush()

    @property
    def topic(self) -> Topic:
        return self.broker.topics["orders"]

    def postman(self, number: int) -> Postman:
        return self.broker.scheduling(self.topic.partitions[number])

    def crash(self) -> None:
        keep = self.random.choice(KEEPS)
        self.tell("crashed, keeping", keep)
        self._next_disk(keep, torn=self.random.random() < 0.5)
        self.start()

    def stop(self) -> None:
        """As the runtime does it: rounds come to their ends, notes are written."""
        self.settle()
        for doing in list(self.works):
            doing.close()
        self.store.flush()
        self.attempt("the notes", self.broker.close)
        self.attempt("the store's close", self.store.close)
        self.tell("stopped")
        self._next_disk("everything", torn=False)
        self.start()

    def settle(self) -> None:
        """Let everything that is on its way come to its end, if the disk allows it."""
        for _ in range(400):
            self.store.flush()
            ready = [doing for doing in self.works if doing.is_ready]
            if not ready:
                return
            ready[0].step()
            self.see()

    def _next_disk(self, keep: Keep, *, torn: bool) -> None:
        for doing in list(self.works):
            with suppress(GoQueueError, Crashed):
                doing.close()
        self.works.clear()
        self.rounds.clear()
        self.disk = self.disk.crash(keep, torn=torn)
        self.disk.capacity_bytes = None
        self.is_faulty = False
        if self.random.random() < 0.5:
            for path in [path for path in self.disk.paths() if path.endswith("/schedule")]:
                self.disk.remove(path)  # a cache may go at any time

    # --- what may be refused ---

    def attempt(self, what: str, action: Callable[[], Any]) -> None:
        try:
            action()
        except (OperatorError, TransientError) as error:
            self.refused(what, error)

    def refused(self, what: str, error: GoQueueError) -> None:
        self.tell(what, "was refused:", error)
        assert self.is_faulty, f"{what} was refused by a sound disk: {error!r}"

    # --- what readers see ---

    def see(self, *, is_start: bool = False) -> None:
        """Take note of what has arrived, and hold it against what was asked for."""
        is_blind = any(partition.log.fence is not None for partition in self.topic.partitions)
        began = self.latest_ns if self.rounds or is_start or is_blind else 0
        self.latest_ns = max(began, self.clock.now_ns())
        for number, partition in enumerate(self.topic.partitions):
            if partition.log.fence is None:
                self.attempt("a look", partial(self._see, number, partition, is_start=is_start))

    def _see(self, number: int, partition: Partition, *, is_start: bool) -> None:
        offset = max(self.read_to[number], partition.earliest)
        assert is_start or offset == self.read_to[number] or not self.read_to[number], "nothing goes unseen"
        while offset < partition.high_watermark:
            read = run(partition.read(offset, 10_000))
            for buffer in read.buffers:
                for position in frame.walk(buffer):
                    self._saw(frame.decode(buffer, position))
            offset = read.next_offset
        self.read_to[number] = offset

    def _saw(self, message: frame.Message) -> None:
        scheduled = self.model.messages.get(message.value)
        if scheduled is None:
            assert message.value.startswith(b"plain"), f"nothing comes from nowhere: {message}"
            return
        scheduled.seen.append(message.offset)
        self.model.counts["seen"] += 1
        assert len(scheduled.seen) == 1, f"never twice: {scheduled} stands at {scheduled.seen}"
        assert scheduled.cancel != "answered", f"what was cancelled is never seen: {scheduled}"
        assert not scheduled.is_hidden, f"what was not committed is never seen: {scheduled}"
        is_due = scheduled.is_hurried or self.latest_ns >= min(scheduled.dues)
        assert is_due, f"never early: {scheduled} was seen at {self.latest_ns}"

    def check(self) -> None:
        """What the broker knows is what clients were told."""
        for number in range(PARTITIONS):
            delays = self.postman(number).delays
            if delays.inbox.log.fence is not None or self.topic.partitions[number].log.fence is not None:
                continue
            run(delays.catch_up())
            for one in self.model.pending():
                if one.partition != number or one.offset is None:
                    continue
                entry = delays.schedule.find(one.offset)
                assert entry is not None, f"never lost: {one}"
                is_known = delays.unsure or one.offset in delays.on_its_way
                assert entry.is_pending or is_known, f"never lost: {one} is {entry}"
                assert one.may_be_due(entry.due_ns), f"due as it was asked for: {one} is {entry}"
            for one in self.model.messages.values():
                if one.partition == number and one.offset is not None and one.is_hidden:
                    assert delays.schedule.find(one.offset) is None, f"what was not committed is nobody's: {one}"
