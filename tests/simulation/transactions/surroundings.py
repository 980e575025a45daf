"""What a broker does by itself, and what goes wrong with it."""

import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from goqueue.broker.delay.sweep import sweep
from goqueue.broker.upkeep import keep_up
from goqueue.errors import TopicBusy, TopicExists, TopicNotFound
from tests.simulation.transactions.checks import check_rested
from tests.simulation.transactions.world import TOPICS, TransactionWorld

FAILING = ("write", "write", "sync", "sync", "sync", "create", "rename", "remove", "sync_directory", "truncate")
PATHS = ("*", "*__transactions*", "*orders*", "*orders*", "*prices*", "*__consumer_offsets*")
KINDS: tuple[dict[str, float], ...] = (
    {},
    {"crash_soon": 3, "crash": 3, "recreate": 0, "refuse": 0, "fill": 0},
    {"refuse": 6, "heal": 3, "fill": 0, "recreate": 0},
    {"recreate": 10, "refuse": 0, "fill": 0},
)
"""Lives in which there is more of one than of another."""
SECONDS = (*(0.01, 0.1, 0.5, 3) * 5, 40, 100, 1000)


class BrokerSteps:
    """Each can be taken at any time."""

    def __init__(self, world: TransactionWorld) -> None:
        self.world = world
        self.random = world.random
        kind = self.random.choice(KINDS)
        actions: dict[Callable[[], None], int] = {
            self.go_on: 60,
            self.recover: 12,
            self.carry_out: 20,
            self.commit: 8,
            self.flush: 35,
            self.settle_all: 20,
            self.call_due: 8,
            self.deliver: 5,
            self.pass_time: 8,
            self.keep_up: 6,
            self.sweep: 2,
            self.roll: 2,
            self.snapshot: 2,
            self.forget_unused: 1,
            self.recreate: 1,
            self.check: 2,
            self.rest: 1,
            self.refuse: 1,
            self.fill: 1,
            self.heal: 6,
            self.crash_soon: 2,
            self.crash: 1,
            self.stop: 1,
        }
        self.actions = {action: weight * kind.get(action.__name__, 1) for action, weight in actions.items()}

    # --- what the broker does by itself ---

    def go_on(self) -> None:
        """With something that is under way, some jobs or all that can be done now."""
        ready = [doing for doing in self.world.works if doing.is_ready and doing is not self.world.recovery]
        for doing in self.random.sample(ready, min(len(ready), self.random.choice((1, 1, 3)))):
            for _ in range(self.random.choice((1, 1, 2, 100, 100))):
                if doing.is_ready:
                    doing.step()

    def recover(self) -> None:
        self.world.recover()

    def carry_out(self) -> None:
        self.world.carry_out()

    def commit(self) -> None:
        self.world.commit()

    def flush(self) -> None:
        if self.random.random() < 0.8:
            self.world.commit()
        self.world.flush(sync=self.random.random() < 0.3)

    def settle_all(self) -> None:
        """A quiet moment."""
        self.world.settle(rounds=2, sync=self.random.random() < 0.2)

    def call_due(self) -> None:
        self.world.call_due()

    def deliver(self) -> None:
        postmen = list(self.world.broker.office.postmen())
        if postmen:
            postman = self.random.choice(postmen)
            self.world.once(f"delivery of {postman.delays.name}", postman.deliver, postman.delays.inbox)

    def pass_time(self) -> None:
        self.world.clock.advance(self.random.choice(SECONDS))
        if self.random.random() < 0.7:
            self.world.call_due()

    def keep_up(self) -> None:
        """Of topics, and of the log of transactions."""
        known = self.world.broker.topics
        topics = [known[name] for name in (*TOPICS, "__transactions") if name in known]
        topic = self.random.choice(topics)
        partition = self.random.choice(topic.partitions)
        if topic.name in TOPICS:
            place = self.world.place(partition)
            place.was_compacted |= "compact" in topic.settings.cleanup
            place.may_expire |= topic.settings.retention_bytes is not None and "delete" in topic.settings.cleanup
        now_ns = self.world.clock.now_ns()
        begin = partial(keep_up, partition, topic.settings, self.world.disk, now_ns)
        self.world.once(f"upkeep of {partition.log.name}", begin, partition)

    def sweep(self) -> None:
        postmen = list(self.world.broker.office.postmen())
        if postmen:
            delays = self.random.choice(postmen).delays
            self.world.once(f"sweep of {delays.name}", lambda: sweep(delays, self.world.disk), delays.inbox)

    def roll(self) -> None:
        partitions = [partition for _, partition in self.world.partitions()]
        partitions += [postman.delays.inbox for postman in self.world.broker.office.postmen()]
        if partitions:
            self.world.attempt("a roll", self.random.choice(partitions).log.roll)

    def snapshot(self) -> None:
        self.world.transactions.journal.snapshot()

    def forget_unused(self) -> None:
        """Time goes by for a week, or so it seems to the coordinator."""
        self.world.attempt("forgetting", self.world.transactions.forget_unused)

    def recreate(self) -> None:
        """A topic goes, and another one of its name comes, at once or later."""
        name, broker = self.random.choice(list(TOPICS)), self.world.broker
        with suppress(TopicBusy, TopicExists, TopicNotFound):  # it is under way already, or its logs are still to go
            if name in broker.topics:
                self.world.attempt(f"the deletion of {name}", lambda: broker.delete_topic(name, lambda _: None))
                if self.random.random() < 0.5:
                    return
                self.world.flush()
            self.world.attempt(f"the creation of {name}", lambda: self.world.create(name))

    def check(self) -> None:
        self.world.check()

    def rest(self) -> None:
        """Where nothing fails, nothing is held back for longer than a transaction may last."""
        world = self.world
        if world.is_faulty or any(partition.log.fence for _, partition in world.broker.partitions()):
            return
        for _ in range(3):
            world.clock.advance(400)
            world.call_due()
            world.settle(rounds=12)
        check_rested(world)
        world.check()

    # --- what goes wrong ---

    def refuse(self) -> None:
        draw = self.random.choice
        operation, error, path = draw(FAILING), draw((errno.ENOSPC, errno.EIO)), draw(PATHS)
        times, skip = draw((1, 1, 2, 5)), draw((0, 0, 1, 4))
        self.world.tell("  ", operation, errno.errorcode[error], path, times, "times, after", skip)
        self.world.is_faulty = True
        self.world.disk.fail(operation, error, path=path, times=times, skip=skip, after_bytes=draw((0, 100)))

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
