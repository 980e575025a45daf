"""Clients that schedule delayed messages, change and cancel them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from goqueue import delay
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.core.upkeep import maintain_partition
from goqueue.broker.core.work import Work, run_work
from goqueue.broker.delay.cleanup import clean_delayed_log
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.clock import NANOSECONDS
from goqueue.errors import DelayedNotFound, DelayedNotPending, GoQueueError
from goqueue.storage import frame
from tests.simulation.traffic import Actions, Traffic
from tests.simulation.world import World

TOPIC, PARTITIONS = "reminders", 2
SECONDS = (0, 0.004, 0.5, 3, 200, 4000, 100_000, 800_000, 3_000_000)


@dataclass(eq=False)
class Scheduled:
    """One message; its value is used once."""

    value: bytes
    partition: int
    dues: set[int]
    """When it may be due: several while the result is unknown."""
    offset: int | None = None
    """In the delayed log, once that was answered."""
    cancel: str = ""
    """`asked`, or `answered`."""
    is_moving: bool = False
    """A client waits for another due time of it. Which of two such changes comes last is not known."""
    is_hurried: bool = False
    """A client asked for it to be delivered at once."""
    seen: list[int] = field(default_factory=list)
    """Where it stands in the topic."""

    @property
    def is_owed(self) -> bool:
        return self.offset is not None and self.cancel == ""

    def __repr__(self) -> str:
        return (
            f"<{self.value!r} at {self.offset} of {self.partition}, due {sorted(self.dues)}, {self.cancel or 'owed'}>"
        )


class DelayTraffic(Traffic):
    """One topic with delayed messages."""

    topics = frozenset({TOPIC})
    caches = ("/schedule",)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.messages: dict[bytes, Scheduled] = {}
        """All that clients asked for, by value."""
        self.latest_ns = 0
        """The latest time that the clock has shown since all deliveries were seen."""
        self.read_to = [0] * PARTITIONS
        self._numbers = count()

    def actions(self) -> Actions:
        return {
            self.schedule: 16,
            self.publish: 4,
            self.cancel: 5,
            self.reschedule: 5,
            self.hurry: 3,
            self.cancel_some: 1,
            self.shift_some: 1,
            self.deliver: 16,
            self.sweep: 9,
            self.keep_up: 5,
            self.save: 1,
        }

    # --- lives ---

    def opened(self) -> None:
        if TOPIC not in self.broker.topics:
            made: list[Topic | GoQueueError] = []
            settings = TopicSettings(retention_bytes=self.random.choice((None, 0, 3000)))
            self.broker.create_topic(TopicSpec(name=TOPIC, partitions=PARTITIONS, settings=settings), made.append)
            self.store.flush()

    def recovered(self) -> None:
        self.see(is_start=True)

    @property
    def topic(self) -> Topic:
        return self.broker.topics[TOPIC]

    def delivery(self, number: int) -> PartitionDelivery:
        return self.broker.scheduling(self.topic.partitions[number])

    def observe(self) -> None:
        self.see()

    def before_stop(self) -> None:
        self.world.settle()

    def rest(self) -> None:
        """All that was answered is in the topic once."""
        self.check()
        for _ in range(3):
            self.clock.advance(4_000_000)
            for number in range(PARTITIONS):
                self.deliver(number)
            self.world.settle()
        for one in self.messages.values():
            assert one.seen or not one.is_owed, f"never lost: {one}"
        for number in range(PARTITIONS):
            assert not self.delivery(number).delays.schedule.pending, "all that was pending has come to its end"

    def after_rest(self) -> None:
        self.check()

    def _pending(self) -> list[Scheduled]:
        """Those that are owed and were not seen."""
        return [one for one in self.messages.values() if one.is_owed and not one.seen]

    # --- what readers see ---

    @property
    def _is_delivering(self) -> bool:
        return any(name.startswith("deliver ") for name in self.world.rounds)

    def see(self, *, is_start: bool = False) -> None:
        """Take note of what has arrived, and hold it against what was asked for."""
        is_blind = any(partition.log.fence is not None for partition in self.topic.partitions)
        began = self.latest_ns if self._is_delivering or is_start or is_blind else 0
        self.latest_ns = max(began, self.clock.now_ns())
        for number, partition in enumerate(self.topic.partitions):
            if partition.log.fence is None:
                self.attempt("a look", partial(self._see, number, partition, is_start=is_start))

    def _see(self, number: int, partition: Partition, *, is_start: bool) -> None:
        offset = max(self.read_to[number], partition.earliest)
        assert is_start or offset == self.read_to[number] or not self.read_to[number], "nothing goes unseen"
        while offset < partition.high_watermark:
            read = run_work(partition.read(offset, 10_000))
            for buffer in read.buffers:
                for position in frame.walk(buffer):
                    self._saw(frame.decode(buffer, position))
            offset = read.next_offset
        self.read_to[number] = offset

    def _saw(self, message: frame.StoredMessage) -> None:
        scheduled = self.messages.get(message.value)
        if scheduled is None:
            assert message.value.startswith(b"plain"), f"nothing comes from nowhere: {message}"
            return
        scheduled.seen.append(message.offset)
        self.counts["seen"] += 1
        assert len(scheduled.seen) == 1, f"never twice: {scheduled} stands at {scheduled.seen}"
        assert scheduled.cancel != "answered", f"what was cancelled is never seen: {scheduled}"
        is_due = scheduled.is_hurried or self.latest_ns >= min(scheduled.dues)
        assert is_due, f"never early: {scheduled} was seen at {self.latest_ns}"

    def check(self) -> None:
        """Return what the broker knows is what clients were told."""
        for number in range(PARTITIONS):
            delays = self.delivery(number).delays
            if delays.delayed_log.log.fence is not None or self.topic.partitions[number].log.fence is not None:
                continue
            run_work(delays.catch_up())
            for one in self._pending():
                if one.partition != number or one.offset is None:
                    continue
                entry = delays.schedule.find(one.offset)
                assert entry is not None, f"never lost: {one}"
                is_known = delays.unsure or one.offset in delays.delivering
                assert entry.is_pending or is_known, f"never lost: {one} is {entry}"
                assert entry.due_ns in one.dues, f"due as it was asked for: {one} is {entry}"

    # --- clients ---

    def _messages(self, number: int) -> list[Scheduled]:
        """Some for this partition."""
        now_ns, asked = self.clock.now_ns(), []
        for _ in range(self.random.choice((1, 1, 2, 5, 12))):
            ahead = round(self.random.choice(SECONDS) * NANOSECONDS)
            value = b"%d:" % next(self._numbers) + bytes(self.random.choice((0, 10, 400)))
            due_ns = now_ns + ahead - self.random.choice((0, 0, 0, 1000 * NANOSECONDS))
            asked.append(Scheduled(value, number, {due_ns}))
        self.messages |= {one.value: one for one in asked}
        return asked

    def schedule(self) -> None:
        number = self.random.randrange(PARTITIONS)
        asked, frames = self._messages(number), []
        for one in asked:
            own = [("trace", b"1")] if self.random.random() < 0.2 else []
            headers = frame.encode_headers([delay.deliver_at_header(min(one.dues)), *own])
            frames.append(frame.encode(one.value, None, headers))
        life = self.lives

        def told(result: Placement | GoQueueError) -> None:
            if isinstance(result, Placement):
                for offset, one in enumerate(asked, result.first_offset):
                    one.offset = offset
            assert self.lives == life, "who asked one process is not told by another"

        delayed_log = self.delivery(number).delays.delayed_log
        delayed_log.offer(frames, told)
        delayed_log.commit()

    def publish(self) -> None:
        partition = self.random.choice(self.topic.partitions)
        value = b"plain" + bytes(self.random.choice((0, 50, 900)))
        partition.offer([frame.encode(value)], lambda _: None)
        partition.commit()

    def _one(self) -> Scheduled | None:
        """Mostly one that is pending."""
        known = [one for one in self.messages.values() if one.offset is not None]
        pending = [one for one in known if not one.seen and not one.cancel]
        if pending and self.random.random() < 0.9:
            return self.random.choice(pending[-20:])
        return self.random.choice(known) if known else None

    def cancel(self) -> None:
        if (one := self._one()) is None or one.offset is None:
            return
        before, one.cancel = one.cancel, one.cancel or "asked"

        def done(_: object) -> None:
            assert not one.seen, f"what was seen is not cancelled: {one}"
            one.cancel = "answered"

        def refused(error: GoQueueError) -> None:
            if isinstance(error, DelayedNotPending | DelayedNotFound):
                self._not_pending(one, error)
                one.cancel = "answered" if error.details.get("state") == "cancelled" else before

        self.world.begin(f"cancel {one}", self.delivery(one.partition).delays.cancel(one.offset), done, refused)

    def _not_pending(self, one: Scheduled, error: GoQueueError) -> None:
        state = error.details.get("state")
        is_seen = bool(one.seen) or self.topic.partitions[one.partition].log.fence is not None
        assert is_seen or one.cancel or state == "cancelled", f"what is pending can be changed: {one} {error}"

    def reschedule(self) -> None:
        if (one := self._one()) is None or one.offset is None or one.is_moving:
            return
        due_ns = self.clock.now_ns() + round(self.random.choice(SECONDS) * NANOSECONDS)
        one.dues.add(due_ns)

        def done(_: object) -> None:
            one.dues = {due_ns}
            one.is_moving = False

        work = self.delivery(one.partition).delays.reschedule(one.offset, due_ns)
        one.is_moving = True
        self.world.begin(f"reschedule {one}", work, done, lambda _: self._has_moved([one]))

    def hurry(self) -> None:
        if (one := self._one()) is None or one.offset is None:
            return
        one.is_hurried = True
        work = self.delivery(one.partition).deliver_now(np.array([one.offset]))

        def done(sent: object) -> None:
            self.see()
            assert not sent or one.seen or self._is_fenced(one), f"told is what stands in the topic: {one}"

        self.world.begin(f"hurry {one}", work, done)
        self.deliver(one.partition)

    def _is_fenced(self, one: Scheduled) -> bool:
        return self.topic.partitions[one.partition].log.fence is not None

    def cancel_some(self) -> None:
        number, some = self._some()
        for one in some:
            one.cancel = "asked"
        delays = self.delivery(number).delays
        offsets = np.array(sorted(one.offset or 0 for one in some), np.int64)
        self.world.begin("cancel some", delays.cancel_many(offsets))

    def shift_some(self) -> None:
        number, some = self._some()
        some, shift_ns = [one for one in some if not one.is_moving], self.random.choice((-100, 5, 1000)) * NANOSECONDS
        for one in some:
            one.dues |= {due + shift_ns for due in one.dues}
            one.is_moving = True
        delays = self.delivery(number).delays
        offsets = np.array(sorted(one.offset or 0 for one in some), np.int64)
        work = delays.reschedule_many(offsets, lambda dues: dues + shift_ns)
        self.world.begin("shift some", work, lambda _: self._has_moved(some), lambda _: self._has_moved(some))

    def _has_moved(self, some: Iterable[Scheduled]) -> None:
        for one in some:
            one.is_moving = False

    def died(self, *, may_lose_answers: bool) -> None:
        del may_lose_answers
        self._has_moved(self.messages.values())

    def _some(self) -> tuple[int, list[Scheduled]]:
        number = self.random.randrange(PARTITIONS)
        pending = [one for one in self._pending() if one.partition == number and not one.is_hurried]
        return number, [one for one in pending if self.random.random() < 0.1]

    # --- what the broker does by itself ---

    def deliver(self, number: int | None = None) -> None:
        """Deliver what is due, if no delivery is running."""
        number = self.random.randrange(PARTITIONS) if number is None else number
        self.world.once(f"deliver {number}", self.delivery(number).deliver)

    def sweep(self) -> None:
        number = self.random.randrange(PARTITIONS)
        delays = self.delivery(number).delays
        self._upkeep("sweep", delays.delayed_log, partial(clean_delayed_log, delays, self.disk))

    def keep_up(self) -> None:
        partition = self.random.choice(self.topic.partitions)
        work = partial(maintain_partition, partition, self.topic.settings, self.disk, self.clock.now_ns())
        self._upkeep("keep up", partition, work)

    def _upkeep(self, what: str, partition: Partition, work: Callable[[], Work[Any]]) -> None:
        self.world.once(f"{what} {partition.log.name}", work, lambda: self.counts.update([what]))

    def save(self) -> None:
        delays = self.delivery(self.random.randrange(PARTITIONS)).delays
        self.world.begin("save", delays.save(self.disk), refused=partial(self.refused, "a snapshot"))
