"""What may happen next to delayed messages: clients ask, time goes by, the disk refuses, the power goes."""

import errno
from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np

from goqueue import delay
from goqueue.broker.delay.sweep import sweep
from goqueue.broker.partition import Placement
from goqueue.broker.upkeep import keep_up
from goqueue.clock import NANOSECONDS
from goqueue.errors import DelayedNotFound, DelayedNotPending, GoQueueError
from goqueue.storage import frame
from tests.simulation.delays.model import Scheduled
from tests.simulation.delays.transactions import TransactionSteps
from tests.simulation.delays.world import PARTITIONS, DelayWorld
from tests.simulation.doing import Doing

SECONDS = (0, 0.004, 0.5, 3, 200, 4000, 100_000, 800_000, 3_000_000)
FAILING = ("write", "write", "sync", "sync", "create", "rename", "remove", "sync_directory", "truncate")


class DelaySteps:
    """Draws what happens, and tells the model what was asked and answered."""

    def __init__(self, world: DelayWorld) -> None:
        self.world = world
        self.random = world.random
        self._numbers = count()
        self.transactions = TransactionSteps(world, self.messages)
        self._actions: dict[Callable[[], None], int] = {
            self.schedule: 16,
            self.transactions.schedule: 10,
            self.transactions.end: 12,
            self.publish: 4,
            self.cancel: 5,
            self.reschedule: 5,
            self.hurry: 3,
            self.cancel_some: 1,
            self.shift_some: 1,
            self.deliver: 16,
            self.go_on: 24,
            self.flush: 20,
            self.pass_time: 10,
            self.jump: 2,
            self.sweep: 9,
            self.keep_up: 5,
            self.save: 1,
            self.check: 3,
            self.refuse: 2,
            self.fill: 1,
            self.heal: 3,
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
        self.world.see()

    # --- clients ---

    def messages(self, number: int) -> list[Scheduled]:
        """Some for this partition."""
        now_ns, asked = self.world.clock.now_ns(), []
        for _ in range(self.random.choice((1, 1, 2, 5, 12))):
            ahead = round(self.random.choice(SECONDS) * NANOSECONDS)
            value = b"%d:" % next(self._numbers) + bytes(self.random.choice((0, 10, 400)))
            due_ns = now_ns + ahead - self.random.choice((0, 0, 0, 1000 * NANOSECONDS))
            asked.append(Scheduled(value, number, {due_ns}, now_ns))
        self.world.model.messages |= {one.value: one for one in asked}
        return asked

    def schedule(self) -> None:
        world, number = self.world, self.random.randrange(PARTITIONS)
        asked, frames = self.messages(number), []
        for one in asked:
            own = [("trace", b"1")] if self.random.random() < 0.2 else []
            headers = frame.encode_headers([delay.deliver_at(min(one.dues)), *own])
            frames.append(frame.encode(one.value, None, headers))
        life = world.lives

        def told(result: Placement | GoQueueError) -> None:
            if isinstance(result, Placement):
                for offset, one in enumerate(asked, result.first_offset):
                    one.offset = offset
            assert world.lives == life, "who asked one process is not told by another"

        inbox = world.postman(number).delays.inbox
        inbox.offer(frames, told)
        inbox.commit()

    def publish(self) -> None:
        partition = self.random.choice(self.world.topic.partitions)
        value = b"plain" + bytes(self.random.choice((0, 50, 900)))
        partition.offer([frame.encode(value)], lambda _: None)
        partition.commit()

    def _one(self) -> Scheduled | None:
        """Mostly one that is pending."""
        known = [one for one in self.world.model.messages.values() if one.offset is not None]
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
            assert not one.is_hidden, f"what was not committed cannot be cancelled: {one}"
            one.cancel = "answered"

        def refused(error: GoQueueError) -> None:
            if isinstance(error, DelayedNotPending | DelayedNotFound):
                self._not_pending(one, error)
                one.cancel = "answered" if error.details.get("state") == "cancelled" else before

        self._do(f"cancel {one}", self.world.postman(one.partition).delays.cancel(one.offset), done, refused)

    def _not_pending(self, one: Scheduled, error: GoQueueError) -> None:
        state = error.details.get("state")
        if not one.is_visible and isinstance(error, DelayedNotFound):
            return
        is_seen = bool(one.seen) or self.world.topic.partitions[one.partition].log.fence is not None
        assert is_seen or one.cancel or state == "cancelled", f"what is pending can be changed: {one} {error}"

    def reschedule(self) -> None:
        if (one := self._one()) is None or one.offset is None:
            return
        due_ns = self.world.clock.now_ns() + round(self.random.choice(SECONDS) * NANOSECONDS)
        before = set(one.dues)
        one.dues.add(due_ns)

        def done(_: object) -> None:
            one.dues = (one.dues - before) | {due_ns}

        work = self.world.postman(one.partition).delays.reschedule(one.offset, due_ns)
        self._do(f"reschedule {one}", work, done, lambda _: None)

    def hurry(self) -> None:
        if (one := self._one()) is None or one.offset is None:
            return
        one.is_hurried = True
        work = self.world.postman(one.partition).deliver_now(np.array([one.offset]))

        def done(sent: object) -> None:
            self.world.see()
            assert not sent or one.seen or self._is_fenced(one), f"told is what stands in the topic: {one}"

        self._do(f"hurry {one}", work, done, lambda _: None)
        self.deliver(one.partition)

    def _is_fenced(self, one: Scheduled) -> bool:
        return self.world.topic.partitions[one.partition].log.fence is not None

    def cancel_some(self) -> None:
        number, some = self._some()
        for one in some:
            one.cancel = "asked"
        delays = self.world.postman(number).delays
        offsets = np.array(sorted(one.offset or 0 for one in some), np.int64)
        self._do("cancel some", delays.cancel_many(offsets), lambda _: None, lambda _: None)

    def shift_some(self) -> None:
        number, some = self._some()
        shift_ns = self.random.choice((-100, 5, 1000)) * NANOSECONDS
        for one in some:
            one.dues |= {due + shift_ns for due in one.dues}
            one.shifts |= {before + shift_ns for before in one.shifts}
        delays = self.world.postman(number).delays
        offsets = np.array(sorted(one.offset or 0 for one in some), np.int64)
        work = delays.reschedule_many(offsets, lambda dues: dues + shift_ns)
        self._do("shift some", work, lambda _: None, lambda _: None)

    def _some(self) -> tuple[int, list[Scheduled]]:
        number = self.random.randrange(PARTITIONS)
        pending = [one for one in self.world.model.pending() if one.partition == number and not one.is_hurried]
        return number, [one for one in pending if self.random.random() < 0.1]

    def _do(
        self, name: str, work: object, done: Callable[[object], object], refused: Callable[[GoQueueError], object]
    ) -> None:
        doing = Doing(self.world, name, work, done, refused)  # type: ignore[arg-type]
        doing.step()

    # --- what the broker does by itself ---

    def deliver(self, number: int | None = None) -> None:
        """Whoever is due goes, if the postman is not on his way already."""
        world = self.world
        number = self.random.randrange(PARTITIONS) if number is None else number
        if number in world.rounds:
            return

        def over(_: object) -> None:
            world.rounds.pop(number, None)

        def refused(error: GoQueueError) -> None:
            over(error)
            world.refused("a delivery", error)

        doing = Doing(world, "deliver", world.postman(number).deliver(), over, refused)
        world.rounds[number] = doing
        doing.step()

    def go_on(self) -> None:
        ready = [doing for doing in self.world.works if doing.is_ready]
        if ready:
            self.random.choice(ready).step()

    def flush(self) -> None:
        self.world.store.flush()

    def sweep(self) -> None:
        number = self.random.randrange(PARTITIONS)
        delays = self.world.postman(number).delays
        self._upkeep("sweep", delays.inbox.log.name, sweep(delays, self.world.disk))

    def keep_up(self) -> None:
        partition = self.random.choice(self.world.topic.partitions)
        work = keep_up(partition, self.world.topic.settings, self.world.disk, self.world.clock.now_ns())
        self._upkeep("keep up", partition.log.name, work)

    def _upkeep(self, what: str, name: str, work: object) -> None:
        """One at a time for each log."""
        title = f"{what} {name}"
        if any(doing.name.endswith(name) for doing in self.world.works):
            return
        refused = partial(self.world.refused, title)
        self._do(title, work, lambda _: self.world.model.counts.update([what]), refused)

    def save(self) -> None:
        delays = self.world.postman(self.random.randrange(PARTITIONS)).delays
        self._do("save", delays.save(self.world.disk), lambda _: None, partial(self.world.refused, "a snapshot"))

    def pass_time(self) -> None:
        self.world.clock.advance(self.random.choice((0.001, 0.02, 1, 60, 3000, 50_000, 400_000)))

    def jump(self) -> None:
        self.world.clock.jump(self.random.choice((-3600, -3600, -5, 300, 3600)))

    def check(self) -> None:
        self.world.attempt("a look at everything", self.world.check)

    # --- what goes wrong ---

    def refuse(self) -> None:
        draw = self.random.choice
        operation, error = draw(FAILING), draw((errno.ENOSPC, errno.EIO))
        self.world.is_faulty = True
        times, skip = draw((1, 1, 2, 5)), draw((0, 0, 1, 4))
        self.world.tell("  ", operation, errno.errorcode[error], times, "times, after", skip)
        self.world.disk.fail(operation, error, times=times, skip=skip, after_bytes=draw((0, 100)))

    def fill(self) -> None:
        self.world.is_faulty = True
        disk = self.world.disk
        used = sum(len(disk.read_file(path)) for path in disk.paths())
        disk.capacity_bytes = used + self.random.choice((0, 200, 3000))

    def heal(self) -> None:
        self.world.disk.heal()
        self.world.disk.capacity_bytes = None

    def crash_soon(self) -> None:
        disk = self.world.disk
        disk.crash_at(disk.operations + self.random.randint(1, 12), after_bytes=self.random.randrange(600))

    def crash(self) -> None:
        self.world.crash()

    def stop(self) -> None:
        self.world.stop()
